"""Batched Newton: thousands of tilted objectives on the same rows at once, in float64.

For each model m the mean loss of a linear model, `+ ½ Σ_j penalty_j w_j² + tilt_m·w`, is minimised. A problem says how
losses, gradients and approximate Newton steps are computed; here is what they share: models that have converged leave,
and where a full step does not shrink the gradient, its length is searched for along the same line, which makes Newton
converge from anywhere at no further matrix product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from seedscope.core import SeedscopeError

ITERATIONS = 200
RESIDUAL = 1e-6  # of R/N, R the longest row's norm: the mean objective's gradient at which a solution is good enough
SECANTS, FLAT = 20, 0.1  # a step's length is searched for until the slope there is this share of the first one
SHRINKAGE = 0.7  # a full step is kept if it shrinks the gradient's norm at least by this factor

SINGLE: np.dtype[Any] = np.dtype(np.float32)
DOUBLE: np.dtype[Any] = np.dtype(np.float64)


@dataclass(frozen=True)
class Solution:
    """The minimisers [model, weight] and the norm of the mean objective's gradient there [model]."""

    weights: np.ndarray
    residual_norms: np.ndarray


@dataclass
class State:
    """Where a block of models is: one row a model in each array; `best` is the smallest gradient norm so far."""

    weights: np.ndarray
    margins: np.ndarray
    gradients: np.ndarray
    curvatures: np.ndarray
    norms: np.ndarray
    best: np.ndarray

    def take(self, index: np.ndarray) -> State:
        """Return the state of some of the models."""
        if index.dtype == bool and index.all():
            return self
        return State(*(values[index] for values in vars(self).values()))

    def put(self, index: np.ndarray, other: State) -> None:
        """Overwrite the state of some of the models."""
        for name, values in vars(other).items():
            getattr(self, name)[index] = values


class TiltedProblem(ABC):
    """Rows (bias column included) and labels on which many tilted objectives are minimised."""

    name: str  # of the regression, for errors
    rows: np.ndarray
    penalty: np.ndarray  # [weight]
    examples: int
    width: int  # of a model: how many weights it has
    careful: bool = False  # whether the very first step's length is searched for: where a full one is dear

    @property
    @abstractmethod
    def dimension(self) -> int:
        """How many weights are free."""

    @property
    @abstractmethod
    def together(self) -> int:
        """How many models are worked on together."""

    @abstractmethod
    def spread(self, free: np.ndarray) -> np.ndarray:
        """Return vectors [model, weight] from their free coordinates [model, dimension]; lengths stay."""

    @abstractmethod
    def with_row(self, index: int, row: np.ndarray, label: float) -> Self:
        """Return the problem with one row replaced; a row of zeros takes the example out and keeps the divisor."""

    @abstractmethod
    def _margins(self, weights: np.ndarray) -> np.ndarray:
        """Return the rows' products with weights, [model, row] or [model, class, row]."""

    @abstractmethod
    def _residuals(self, margins: np.ndarray) -> np.ndarray:
        """Return the losses' derivatives in the margins, of their shape, in the margins' precision."""

    @abstractmethod
    def _evaluate(self, weights: np.ndarray, margins: np.ndarray, tilts: np.ndarray) -> State:
        """Return the state at these weights."""

    @abstractmethod
    def _newton_steps(self, state: State) -> np.ndarray:
        """Return steps [model, weight] that are nearly Newton's."""

    @property
    def _step_precision(self) -> np.dtype[Any]:
        """The precision in which lengths of steps are searched for: steps are approximate, and so may be these."""
        return DOUBLE

    @cached_property
    def tolerance(self) -> float:
        """The gradient norm at which a solution is good enough: 1e-6·R/N."""
        return RESIDUAL * float(np.linalg.norm(self.rows, axis=1).max()) / self.examples

    def minimise(self, tilts: np.ndarray, start: np.ndarray | None = None) -> Solution:
        """Return the minimiser for each tilt [model, weight], begun at `start` [weight] (default 0)."""
        tilts, size = np.atleast_2d(np.asarray(tilts, float)), self.together
        parts = [self._minimise_block(tilts[i : i + size], start) for i in range(0, len(tilts), size)]
        return Solution(np.concatenate([p.weights for p in parts]), np.concatenate([p.residual_norms for p in parts]))

    def _minimise_block(self, tilts: np.ndarray, start: np.ndarray | None) -> Solution:
        """Return the minimisers of a block of models; those that have converged leave the iteration."""
        weights = np.zeros_like(tilts) if start is None else np.tile(start, (len(tilts), 1))
        norms, tolerance = np.full(len(tilts), np.inf), self.tolerance
        state, active = self._evaluate(weights, self._margins(weights), tilts), np.arange(len(tilts))
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
            f"{self.name} regression did not converge in {ITERATIONS} Newton steps (gradient norm {norms.max():.2g}, "
            f"needed {tolerance:.2g}); use a larger l2 or scale the features."
        )

    def _improve(self, state: State, tilts: np.ndarray, first: bool) -> State:
        """Return the state after a full Newton step, or a searched one for models whose gradient did not shrink."""
        steps = self._newton_steps(state)
        if first and self.careful:
            return self._stepped(state, steps, tilts, search=True)  # a full step would overshoot, and is dear here
        new = self._stepped(state, steps, tilts)
        # A full step must beat the smallest gradient so far: only finitely many can interrupt the searched descent.
        failed = np.flatnonzero(~(new.norms <= SHRINKAGE * state.best))
        if len(failed):
            new.put(failed, self._stepped(state.take(failed), steps[failed], tilts[failed], search=True))
        return new

    def _stepped(self, state: State, steps: np.ndarray, tilts: np.ndarray, search: bool = False) -> State:
        """Return the state after the steps, or after the multiples of them that minimise the objective."""
        changes = self._margins(steps)
        if search:
            lengths = self._step_lengths(state, steps, changes, tilts)
            steps, changes = _along(lengths, steps) * steps, _along(lengths, changes) * changes
        new = self._evaluate(state.weights - steps, state.margins - changes, tilts)
        new.best = np.minimum(new.norms, state.best)
        return new

    def _step_lengths(self, state: State, steps: np.ndarray, changes: np.ndarray, tilts: np.ndarray) -> np.ndarray:
        """Return the t [model] that minimises the objective at weights − t·steps, by false position of its slope."""
        kind = self._step_precision
        margins, changes = (values.astype(kind, copy=False) for values in (state.margins, changes))
        linear = ((state.weights * self.penalty + tilts) * steps).sum(1)
        quadratic = (self.penalty * steps**2).sum(1)
        flat = changes.reshape(len(steps), -1)

        def slope(t: np.ndarray) -> np.ndarray:
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # an objective without a minimum is stepped along for ever
                residuals = self._residuals(margins - _along(t.astype(kind), changes) * changes)
            fall = np.einsum("mi,mi->m", residuals.reshape(flat.shape), flat) / self.examples
            value: np.ndarray = t * quadratic - linear - fall
            return value

        low, high = np.zeros(len(steps)), np.ones(len(steps))
        below, above = slope(low), slope(high)
        while (falling := above < 0).any():
            low, below = np.where(falling, high, low), np.where(falling, above, below)
            high = np.where(falling, 2 * high, high)
            above = slope(high)
        return _false_position(slope, low, below, high, above)


def upper_places(width: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return a packed upper triangle's indices, and for each entry of the symmetric matrix, row by row, its place."""
    upper = np.triu_indices(width)
    places = np.zeros((width, width), int)
    places[upper] = places.T[upper] = np.arange(len(upper[0]))
    return upper, places.ravel()


def _along(lengths: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return one number a model in the shape that multiplies values [model, ...]."""
    return lengths.reshape(-1, *[1] * (values.ndim - 1))


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
