"""Batched Newton for regularised logistic regression: thousands of tilted objectives on the same rows at once.

Minimises, for each model m, `mean_i log(1 + exp(−±x_i·w)) + ½ Σ_j penalty_j w_j² + tilt_m·w` in float64. With few
features the Hessians of all models are one matrix product of their weights s(1−s) with the rows' outer products; with
more, steps are found by conjugate gradients for all models at once. Where a full step does not shrink the gradient, its
length is searched for along the same line, which makes Newton converge from anywhere at no further matrix product.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from seedscope.core import SeedscopeError

ITERATIONS = 200
RESIDUAL = 1e-6  # of R/N, R the longest row's norm: the mean objective's gradient at which a solution is good enough
SECANTS, FLAT = 20, 0.1  # a step's length is searched for until the slope there is this share of the first one
CONJUGATE_STEPS = 20
LOOSE, TIGHT, NEAR = 0.1, 0.03, 1e-4  # what conjugate gradients leave of gradients: above the norm NEAR, and below
SHRINKAGE = 0.7  # a full step is kept if it shrinks the gradient's norm at least by this factor
BLOCK_ELEMENTS = 1 << 18  # models × rows worked on together: a few MB, to stay in cache
MODELS_TOGETHER = 64  # at least, where a shared Hessian costs as much as many models' gradients
OUTER_BYTES, OUTER_WIDTH = 256 << 20, 16  # beyond this memory or width, steps come from conjugate gradients


@dataclass(frozen=True)
class Solution:
    """The minimisers [model, weight] and the norm of the mean objective's gradient there [model]."""

    weights: np.ndarray
    residual_norms: np.ndarray


@dataclass
class _State:
    """Where a block of models is: one row a model in each array; `best` is the smallest gradient norm so far."""

    weights: np.ndarray
    margins: np.ndarray
    gradients: np.ndarray
    curvatures: np.ndarray
    norms: np.ndarray
    best: np.ndarray

    def take(self, index: np.ndarray) -> _State:
        """Return the state of some of the models."""
        if index.dtype == bool and index.all():
            return self
        return _State(*(values[index] for values in vars(self).values()))

    def put(self, index: np.ndarray, other: _State) -> None:
        """Overwrite the state of some of the models."""
        for name, values in vars(other).items():
            getattr(self, name)[index] = values


class LogisticProblem:
    """Rows (bias column included) and labels 0/1 on which many tilted objectives are minimised."""

    examples: int
    width: int

    def __init__(self, rows: np.ndarray, labels: np.ndarray, penalty: np.ndarray):
        self.rows = np.ascontiguousarray(rows, float)
        self.labels = np.asarray(labels, float)
        self.penalty = np.asarray(penalty, float)
        self.examples, self.width = self.rows.shape
        self._upper = np.triu_indices(self.width)
        self._unpacked = _places(self._upper, self.width)
        self._outer = self._outer_products() if self._outer_fits() else None
        self._copy_rows()

    @cached_property
    def tolerance(self) -> float:
        """The gradient norm at which a solution is good enough: 1e-6·R/N."""
        return RESIDUAL * float(np.linalg.norm(self.rows, axis=1).max()) / self.examples

    @property
    def dimension(self) -> int:
        """How many weights are free: all."""
        return self.width

    def spread(self, free: np.ndarray) -> np.ndarray:
        """Return vectors from their free coordinates: here they are the same."""
        return free

    def minimise(self, tilts: np.ndarray, start: np.ndarray | None = None) -> Solution:
        """Return the minimiser for each tilt [model, weight], begun at `start` [weight] (default 0)."""
        tilts = np.atleast_2d(np.asarray(tilts, float))
        size = max(1, BLOCK_ELEMENTS // self.examples)
        if self._outer is None:
            size = max(size, MODELS_TOGETHER)
        parts = [self._minimise_block(tilts[i : i + size], start) for i in range(0, len(tilts), size)]
        return Solution(np.concatenate([p.weights for p in parts]), np.concatenate([p.residual_norms for p in parts]))

    def with_row(self, index: int, row: np.ndarray, label: float) -> LogisticProblem:
        """Return the problem with one row replaced; a row of zeros takes the example out and keeps the divisor."""
        other = copy.copy(self)
        other.rows, other.labels = self.rows.copy(), self.labels.copy()
        other.rows[index], other.labels[index] = row, label
        if self._outer is not None:
            other._outer = self._outer.copy()
            other._outer[index] = row[self._upper[0]] * row[self._upper[1]]
        other._copy_rows()
        other.__dict__.pop("tolerance", None)
        return other

    def _minimise_block(self, tilts: np.ndarray, start: np.ndarray | None) -> Solution:
        """Return the minimisers of a block of models; those that have converged leave the iteration."""
        weights = np.zeros_like(tilts) if start is None else np.tile(start, (len(tilts), 1))
        norms, tolerance = np.full(len(tilts), np.inf), self.tolerance
        state, active = self._evaluate(weights, weights @ self._columns, tilts), np.arange(len(tilts))
        for iteration in range(ITERATIONS):
            weights[active], norms[active] = state.weights, state.norms
            going = ~(state.norms <= tolerance)  # not a number is not converged
            if not going.any():
                return Solution(weights, norms)
            active = active[going]
            try:
                state = self._improve(state.take(going), tilts[active], first=iteration == 0)
            except np.linalg.LinAlgError:  # curvature vanished: the objective has no minimum
                break
        raise SeedscopeError(
            f"logistic regression did not converge in {ITERATIONS} Newton steps (gradient norm {norms.max():.2g}, "
            f"needed {tolerance:.2g}); use a larger l2 or scale the features."
        )

    def _improve(self, state: _State, tilts: np.ndarray, first: bool) -> _State:
        """Return the state after a full Newton step, or a searched one for models whose gradient did not shrink."""
        steps = self._newton_steps(state)
        if first and self._outer is None:
            return self._stepped(state, steps, tilts, search=True)  # a full step would overshoot, and is dear here
        new = self._stepped(state, steps, tilts)
        # A full step must beat the smallest gradient so far: only finitely many can interrupt the searched descent.
        failed = np.flatnonzero(~(new.norms <= SHRINKAGE * state.best))
        if len(failed):
            new.put(failed, self._stepped(state.take(failed), steps[failed], tilts[failed], search=True))
        return new

    def _stepped(self, state: _State, steps: np.ndarray, tilts: np.ndarray, search: bool = False) -> _State:
        """Return the state after the steps, or after the multiples of them that minimise the objective."""
        changes = steps @ self._columns
        if search:
            lengths = self._step_lengths(state, steps, changes, tilts)[:, None]
            steps, changes = lengths * steps, lengths * changes
        new = self._evaluate(state.weights - steps, state.margins - changes, tilts)
        new.best = np.minimum(new.norms, state.best)
        return new

    def _step_lengths(self, state: _State, steps: np.ndarray, changes: np.ndarray, tilts: np.ndarray) -> np.ndarray:
        """Return the t [model] that minimises the objective at weights − t·steps, by false position of its slope.

        In the precision of the steps: they are approximate, and so may be their lengths.
        """
        kind = self._quick_rows.dtype
        margins, changes, labels = (values.astype(kind, copy=False) for values in (state.margins, changes, self.labels))
        linear = ((state.weights * self.penalty + tilts) * steps).sum(1)
        quadratic = (self.penalty * steps**2).sum(1)

        def slope(t: np.ndarray) -> np.ndarray:
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # an objective without a minimum is stepped along for ever
                residuals = _sigmoid(margins - t.astype(kind)[:, None] * changes) - labels
            value: np.ndarray = t * quadratic - linear - np.einsum("mi,mi->m", residuals, changes) / self.examples
            return value

        low, high = np.zeros(len(steps)), np.ones(len(steps))
        below, above = slope(low), slope(high)
        while (falling := above < 0).any():
            low, below = np.where(falling, high, low), np.where(falling, above, below)
            high = np.where(falling, 2 * high, high)
            above = slope(high)
        return _false_position(slope, low, below, high, above)

    def _evaluate(self, weights: np.ndarray, margins: np.ndarray, tilts: np.ndarray) -> _State:
        """Return the state at these weights: gradients [model, weight] and curvatures s(1−s)/N [model, row]."""
        scores = _sigmoid(margins)
        gradients = (scores - self.labels) @ self.rows / self.examples + weights * self.penalty + tilts
        scores *= (1 - scores) / self.examples
        norms = np.linalg.norm(gradients, axis=1)
        return _State(weights, margins, gradients, scores, norms, norms)

    def _newton_steps(self, state: _State) -> np.ndarray:
        """Return the Newton steps [model, weight]: from all Hessians, or by conjugate gradients."""
        if self._outer is None:
            return self._conjugate_gradients(state)
        return np.linalg.solve(self._hessians(state.curvatures), state.gradients[..., None])[..., 0]

    def _conjugate_gradients(self, state: _State) -> np.ndarray:
        """Return steps with H·step ≈ gradient, preconditioned by the Hessian of the models' mean curvature.

        In float32: it is the step that is approximate, not the gradient whose size decides when to stop.
        """
        curvatures, penalty = state.curvatures.astype(np.float32), self.penalty.astype(np.float32)
        inverse = np.linalg.inv(self._hessian(curvatures.mean(0))).astype(np.float32)
        scale = state.norms[:, None]
        enough = TIGHT if state.norms.max() < NEAR else LOOSE
        residuals = (state.gradients / scale).astype(np.float32)
        steps, directions, fit = np.zeros_like(residuals), np.zeros_like(residuals), np.ones(len(residuals), np.float32)
        for _ in range(CONJUGATE_STEPS):
            better = residuals @ inverse
            new_fit = np.einsum("mj,mj->m", residuals, better)
            directions = better + (new_fit / fit)[:, None] * directions
            bent = ((directions @ self._quick_columns) * curvatures) @ self._quick_rows + penalty * directions
            lengths = (new_fit / np.einsum("mj,mj->m", directions, bent))[:, None]
            steps += lengths * directions
            residuals -= lengths * bent
            fit = new_fit
            if np.linalg.norm(residuals, axis=1).max() < enough:
                break
        unscaled: np.ndarray = steps * scale
        return unscaled

    def _hessians(self, curvatures: np.ndarray) -> np.ndarray:
        """Return each model's Hessian, from one product with the rows' outer products."""
        packed = curvatures @ self._outer
        packed[:, self._upper[0] == self._upper[1]] += self.penalty
        return np.take(packed, self._unpacked, axis=1).reshape(-1, self.width, self.width)

    def _hessian(self, curvature: np.ndarray) -> np.ndarray:
        """Return the Hessian for one curvature per row, from products in float32."""
        rows = self._quick_rows
        hessian: np.ndarray = ((rows * curvature[:, None]).T @ rows).astype(float) + np.diag(self.penalty)
        return hessian

    def _copy_rows(self) -> None:
        """Keep copies of many rows that are faster to multiply by: transposed, and in the precision of the steps."""
        if self._outer is not None:
            self._columns, self._quick_rows = self.rows.T, self.rows
            return
        self._columns, self._quick_rows = np.ascontiguousarray(self.rows.T), self.rows.astype(np.float32)
        self._quick_columns = self._columns.astype(np.float32)

    def _outer_fits(self) -> bool:
        """Whether the outer products of all rows are few and fit into their share of memory."""
        return self.width <= OUTER_WIDTH and 8 * self.examples * len(self._upper[0]) <= OUTER_BYTES

    def _outer_products(self) -> np.ndarray:
        """Return the upper triangles of the rows' outer products [row, pair]."""
        products: np.ndarray = self.rows[:, self._upper[0]] * self.rows[:, self._upper[1]]
        return products


def _places(upper: tuple[np.ndarray, np.ndarray], width: int) -> np.ndarray:
    """Return for each entry of a symmetric matrix, row by row, its place in the packed upper triangle."""
    places = np.zeros((width, width), int)
    places[upper] = places.T[upper] = np.arange(len(upper[0]))
    return places.ravel()


def _false_position(
    rising: Callable[[np.ndarray], np.ndarray], low: np.ndarray, below: np.ndarray, high: np.ndarray, above: np.ndarray
) -> np.ndarray:
    """Return where a rising function is about zero, between `low` (value `below` < 0) and `high` (value `above` ≥ 0).

    The value of an end that stays is halved (the Illinois rule), so that both ends close in.
    """
    enough = FLAT * np.abs(below)
    for _ in range(SECANTS):
        middle: np.ndarray = low + (high - low) * below / np.where(below < above, below - above, -1.0)
        value = rising(middle)
        left = value < 0
        low, high = np.where(left, middle, low), np.where(left, high, middle)
        below, above = np.where(left, value, below / 2), np.where(left, above / 2, value)
        if (np.abs(value) <= enough).all():
            break
    return middle


def _sigmoid(margins: np.ndarray) -> np.ndarray:
    """Return 1/(1 + e^−z), several times faster than SciPy's."""
    with np.errstate(over="ignore"):
        probabilities: np.ndarray = 1 / (1 + np.exp(-margins))
        return probabilities
