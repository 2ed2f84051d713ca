"""Regularised logistic regression on many weightings of the same rows at once: bootstrap samples, rows left out.

Minimises, for each model m, `Σ_i k_mi·log(1 + exp(−±x_i·w)) + ½ Σ_j penalty_mj·w_j²` in float64, k_mi how often row i
is in the model's sample. Newton steps are found by conjugate gradients for all models at once, preconditioned with the
Hessian of the mean model, so that all work is products of whole blocks; a step that does not lower the objective is
halved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from seedscope.core import SeedscopeError

ITERATIONS, HALVINGS, CONJUGATE_STEPS = 60, 40, 60
LOOSE, TIGHT = 0.1, 0.001  # what conjugate gradients leave of gradients: far from the minimum, and near it
ENOUGH = 1e-8  # of the gradient at zero weights: what solving may leave
BLOCK_ELEMENTS = 1 << 22  # models × rows worked on together


@dataclass(frozen=True, eq=False)
class WeightedProblem:
    """Rows (a column of ones last for the intercept) and labels 0/1, with many weightings."""

    rows: np.ndarray
    labels: np.ndarray

    def minimise(self, weightings: np.ndarray, penalties: np.ndarray) -> np.ndarray:
        """Return the minimisers [model, column] for weightings [model, row] and penalties [model, column]."""
        size = max(1, BLOCK_ELEMENTS // len(self.rows))
        parts = [slice(first, first + size) for first in range(0, len(weightings), size)]
        mean = weightings.mean(0, keepdims=True)
        start = self._block(mean, penalties.mean(0, keepdims=True), np.zeros(self.rows.shape[1]))[0]
        return np.concatenate([self._block(weightings[part].astype(float), penalties[part], start) for part in parts])

    def _block(self, k: np.ndarray, penalties: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return the minimisers of a block of models; those that are found leave the iteration."""
        X, y = self.rows, self.labels
        solutions = np.tile(start, (len(k), 1))
        scale = np.linalg.norm((k * (0.5 - y)) @ X, axis=1).clip(1e-12)
        going = np.arange(len(k))
        for _ in range(ITERATIONS):
            weights, own, ridge = solutions[going], k[going], penalties[going]
            scores = _sigmoid(weights @ X.T)
            gradients = (own * (scores - y)) @ X + ridge * weights
            left = np.linalg.norm(gradients, axis=1) / scale[going]
            if not (far := left > ENOUGH).any():
                return solutions
            going, own, ridge = going[far], own[far], ridge[far]
            bends = own * (scores * (1 - scores))[far]
            steps = self._newton_steps(gradients[far], bends, ridge, float(np.sqrt(left.max()).clip(TIGHT, LOOSE)))
            solutions[going] = self._lowered(weights[far], steps, own, ridge)
        raise SeedscopeError("logistic regression did not converge: are classes separable without a penalty?")

    def _newton_steps(
        self, gradients: np.ndarray, bends: np.ndarray, penalties: np.ndarray, enough: float
    ) -> np.ndarray:
        """Return steps with H·step ≈ gradient for each model, in single precision: only the gradient must be exact."""
        X, penalties, curved = self._quick, penalties.astype(np.float32), bends.astype(np.float32)
        hessian = (X * curved.mean(0)[:, None]).T @ X + np.diag(penalties.mean(0))
        inverse = np.linalg.pinv(hessian.astype(float), hermitian=True).astype(np.float32)
        sizes = np.linalg.norm(gradients, axis=1, keepdims=True)
        residuals = (gradients / sizes).astype(np.float32)
        steps = np.zeros_like(residuals)
        better = residuals @ inverse
        directions, fit = better, np.einsum("mj,mj->m", residuals, better)
        limit = enough * np.sqrt(fit.clip(1e-30))
        for _ in range(CONJUGATE_STEPS):
            bent = ((directions @ X.T) * curved) @ X + penalties * directions
            along = np.einsum("mj,mj->m", directions, bent)
            lengths = np.divide(fit, along, out=np.zeros_like(fit), where=along > 0)[:, None]
            steps += lengths * directions
            residuals = residuals - lengths * bent
            better = residuals @ inverse
            new = np.einsum("mj,mj->m", residuals, better)
            if np.all(np.sqrt(new.clip(0)) <= limit):
                break
            directions = better + np.divide(new, fit, out=np.zeros_like(fit), where=fit > 0)[:, None] * directions
            fit = new
        unscaled: np.ndarray = steps * sizes
        return unscaled

    @cached_property
    def _quick(self) -> np.ndarray:
        """The rows in the precision of steps."""
        return self.rows.astype(np.float32)

    def _lowered(self, weights: np.ndarray, steps: np.ndarray, k: np.ndarray, penalties: np.ndarray) -> np.ndarray:
        """Return the weights after steps that raise no model's objective, halved as often as that needs."""
        before, length = self._objectives(weights, k, penalties), np.ones((len(weights), 1))
        for _ in range(HALVINGS):
            moved = weights - length * steps
            worse = self._objectives(moved, k, penalties) > before + 1e-12 * np.abs(before)
            if not worse.any():
                break
            length[worse] /= 2
        lowered: np.ndarray = weights - length * steps
        return lowered

    def _objectives(self, weights: np.ndarray, k: np.ndarray, penalties: np.ndarray) -> np.ndarray:
        """Return each model's objective."""
        margins = weights @ self.rows.T
        losses = np.logaddexp(0, margins) - self.labels * margins
        objectives: np.ndarray = (k * losses).sum(1) + 0.5 * (penalties * weights**2).sum(1)
        return objectives


def _sigmoid(margins: np.ndarray) -> np.ndarray:
    """Return 1/(1 + e^−z)."""
    with np.errstate(over="ignore"):
        probabilities: np.ndarray = 1 / (1 + np.exp(-margins))
        return probabilities
