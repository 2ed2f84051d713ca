"""Regularised logistic regression, thousands of tilted objectives at once (`newton`).

Minimises, for each model m, `mean_i log(1 + exp(−±x_i·w)) + ½ Σ_j penalty_j w_j² + tilt_m·w`. With few features the
Hessians of all models are one matrix product of their weights s(1−s) with the rows' outer products; with more, steps
are found by conjugate gradients for all models at once.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from seedscope.numerics.newton import DOUBLE, SINGLE, State, TiltedProblem, upper_places

CONJUGATE_STEPS = 20
LOOSE, TIGHT, NEAR = 0.1, 0.03, 1e-4  # what conjugate gradients leave of gradients: above the norm NEAR, and below
BLOCK_ELEMENTS = 1 << 18  # models × rows worked on together: a few MB, to stay in cache
MODELS_TOGETHER = 64  # at least, where a shared Hessian costs as much as many models' gradients
OUTER_BYTES, OUTER_WIDTH = 256 << 20, 16  # beyond this memory or width, steps come from conjugate gradients


class LogisticProblem(TiltedProblem):
    """Rows (bias column included) and labels 0/1 on which many tilted objectives are minimised."""

    name = "logistic"

    def __init__(self, rows: np.ndarray, labels: np.ndarray, penalty: np.ndarray):
        self.rows = np.ascontiguousarray(rows, float)
        self.labels = np.asarray(labels, float)
        self.penalty = np.asarray(penalty, float)
        self.examples, self.width = self.rows.shape
        self._upper, self._unpacked = upper_places(self.width)
        self._outer = self._outer_products() if self._outer_fits() else None
        self.careful = self._outer is None
        self._copy_rows()

    @property
    def dimension(self) -> int:
        """How many weights are free: all."""
        return self.width

    @property
    def together(self) -> int:
        size = max(1, BLOCK_ELEMENTS // self.examples)
        return size if self._outer is not None else max(size, MODELS_TOGETHER)

    def spread(self, free: np.ndarray) -> np.ndarray:
        """Return vectors from their free coordinates: here they are the same."""
        return free

    def with_row(self, index: int, row: np.ndarray, label: float) -> LogisticProblem:
        changed = copy.copy(self)
        changed.rows, changed.labels = self.rows.copy(), self.labels.copy()
        changed.rows[index], changed.labels[index] = row, label
        if self._outer is not None:
            changed._outer = self._outer.copy()
            changed._outer[index] = row[self._upper[0]] * row[self._upper[1]]
        changed._copy_rows()
        changed.__dict__.pop("tolerance", None)
        return changed

    def _margins(self, weights: np.ndarray) -> np.ndarray:
        margins: np.ndarray = weights @ self._columns
        return margins

    def _residuals(self, margins: np.ndarray) -> np.ndarray:
        residuals: np.ndarray = _sigmoid(margins) - self.labels.astype(margins.dtype, copy=False)
        return residuals

    @property
    def _step_precision(self) -> np.dtype[Any]:
        return DOUBLE if self._outer is not None else SINGLE

    def _evaluate(self, weights: np.ndarray, margins: np.ndarray, tilts: np.ndarray) -> State:
        """Return the state at these weights: gradients [model, weight] and curvatures s(1−s)/N [model, row]."""
        scores = _sigmoid(margins)
        gradients = (scores - self.labels) @ self.rows / self.examples + weights * self.penalty + tilts
        scores *= (1 - scores) / self.examples
        norms = np.linalg.norm(gradients, axis=1)
        return State(weights, margins, gradients, scores, norms, norms)

    def _newton_steps(self, state: State) -> np.ndarray:
        """Return the Newton steps [model, weight]: from all Hessians, or by conjugate gradients."""
        if self._outer is None:
            return self._conjugate_gradients(state)
        return np.linalg.solve(self._hessians(state.curvatures), state.gradients[..., None])[..., 0]

    def _conjugate_gradients(self, state: State) -> np.ndarray:
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


def _sigmoid(margins: np.ndarray) -> np.ndarray:
    """Return 1/(1 + e^−z), several times faster than SciPy's."""
    with np.errstate(over="ignore"):
        probabilities: np.ndarray = 1 / (1 + np.exp(-margins))
        return probabilities
