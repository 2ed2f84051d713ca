"""Regularised multinomial logistic regression on many weightings of the same rows at once.

Minimises, for each model m, `Σ_i k_mi·(−log softmax(W x_i)[y_i]) + ½ Σ_cj penalty_mj·W_cj²` in float64, k_mi how often
row i is in the model's sample. Newton steps are found by conjugate gradients for all models at once, preconditioned
with one block of the mean model's Hessian for each class; a step that does not lower the objective is halved. Weights
that only add the same to every class change nothing: what is returned adds up to 0 over the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from seedscope.core import SeedscopeError

ITERATIONS, HALVINGS, CONJUGATE_STEPS = 60, 40, 60
LOOSE, TIGHT = 0.1, 0.001  # what conjugate gradients leave of gradients: far from the minimum, and near it
ENOUGH = 1e-8  # of the gradient at zero weights: what solving may leave
BLOCK_ELEMENTS = 1 << 20  # models × classes × rows worked on together


@dataclass(frozen=True, eq=False)
class WeightedSoftmax:
    """Rows (a column of ones last for the intercept) and labels 0 … K − 1, with many weightings."""

    rows: np.ndarray
    labels: np.ndarray
    classes: int

    def minimise(self, weightings: np.ndarray, penalties: np.ndarray) -> np.ndarray:
        """Return the minimisers [model, class, column] for weightings [model, row] and penalties [model, column]."""
        size = max(1, BLOCK_ELEMENTS // (len(self.rows) * self.classes))
        parts = [slice(first, first + size) for first in range(0, len(weightings), size)]
        nothing = np.zeros((self.classes, self.rows.shape[1]))
        mean = weightings.mean(0, keepdims=True)
        start = self._block(mean, penalties.mean(0, keepdims=True), nothing)[0]
        solutions = [self._block(weightings[part].astype(float), penalties[part], start) for part in parts]
        whole = np.concatenate(solutions)
        centred: np.ndarray = whole - whole.mean(1, keepdims=True)
        return centred

    @cached_property
    def _truth(self) -> np.ndarray:
        """Which class each row is of, [class, row]."""
        return np.eye(self.classes)[:, self.labels.astype(int)]

    @cached_property
    def _quick(self) -> np.ndarray:
        """The rows in the precision of steps."""
        return self.rows.astype(np.float32)

    def _block(self, k: np.ndarray, penalties: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return the minimisers of a block of models; those that are found leave the iteration."""
        k, penalties = k[:, None], penalties[:, None]  # the same for every class
        solutions = np.tile(start, (len(k), 1, 1))
        scale = _norms((k * (1 / self.classes - self._truth)) @ self.rows).clip(1e-12)
        going = np.arange(len(k))
        for _ in range(ITERATIONS):
            weights, own, ridge = solutions[going], k[going], penalties[going]
            chances = self._chances(weights)
            gradients = (own * (chances - self._truth)) @ self.rows + ridge * weights
            left = _norms(gradients) / scale[going]
            if not (far := left > ENOUGH).any():
                return solutions
            going, own, ridge = going[far], own[far], ridge[far]
            enough = float(np.sqrt(left.max()).clip(TIGHT, LOOSE))
            steps = self._newton_steps(gradients[far], chances[far], own, ridge, enough)
            solutions[going] = self._lowered(weights[far], steps, own, ridge)
        raise SeedscopeError("multinomial regression did not converge: are classes separable without a penalty?")

    def _newton_steps(
        self, gradients: np.ndarray, chances: np.ndarray, k: np.ndarray, penalties: np.ndarray, enough: float
    ) -> np.ndarray:
        """Return steps with H·step ≈ gradient for each model, in single precision: only the gradient must be exact."""
        X, P, own, ridge = self._quick, *(array.astype(np.float32) for array in (chances, k, penalties))
        inverse = self._inverse((own * P * (1 - P)).mean(0), ridge.mean((0, 1)))
        sizes = _norms(gradients)[:, None, None]
        residuals = (gradients / sizes).astype(np.float32)
        steps, better = np.zeros_like(residuals), _solved(residuals, inverse)
        directions, fit = better, _products(residuals, better)
        limit = enough * np.sqrt(fit.clip(1e-30))
        for _ in range(CONJUGATE_STEPS):
            changes = P * (directions @ X.T)
            changes -= P * changes.sum(1, keepdims=True)
            bent = (own * changes) @ X + ridge * directions
            along = _products(directions, bent)
            lengths = np.divide(fit, along, out=np.zeros_like(fit), where=along > 0)[:, None, None]
            steps += lengths * directions
            residuals = residuals - lengths * bent
            better = _solved(residuals, inverse)
            new = _products(residuals, better)
            if np.all(np.sqrt(new.clip(0)) <= limit):
                break
            ratios = np.divide(new, fit, out=np.zeros_like(fit), where=fit > 0)[:, None, None]
            directions, fit = better + ratios * directions, new
        unscaled: np.ndarray = steps * sizes
        return unscaled

    def _inverse(self, bends: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        """Return the inverse of each class's own block of a Hessian, [class, column, column]."""
        X = self._quick
        blocks = np.stack([(X * bend[:, None]).T @ X + np.diag(penalty) for bend in bends])
        return np.linalg.pinv(blocks.astype(float), hermitian=True).astype(np.float32)

    def _lowered(self, weights: np.ndarray, steps: np.ndarray, k: np.ndarray, penalties: np.ndarray) -> np.ndarray:
        """Return the weights after steps that raise no model's objective, halved as often as that needs."""
        before, length = self._objectives(weights, k, penalties), np.ones((len(weights), 1, 1))
        for _ in range(HALVINGS):
            worse = self._objectives(weights - length * steps, k, penalties) > before + 1e-12 * np.abs(before)
            if not worse.any():
                break
            length[worse] /= 2
        lowered: np.ndarray = weights - length * steps
        return lowered

    def _objectives(self, weights: np.ndarray, k: np.ndarray, penalties: np.ndarray) -> np.ndarray:
        """Return each model's objective."""
        logits = weights @ self.rows.T
        top = logits.max(1)
        losses = np.log(np.exp(logits - top[:, None]).sum(1)) + top - (logits * self._truth).sum(1)
        objectives: np.ndarray = (k[:, 0] * losses).sum(1) + 0.5 * (penalties * weights**2).sum((1, 2))
        return objectives

    def _chances(self, weights: np.ndarray) -> np.ndarray:
        """Return probabilities [model, class, row]."""
        logits = weights @ self.rows.T
        logits -= logits.max(1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(1, keepdims=True)
        return np.asarray(logits)


def _norms(values: np.ndarray) -> np.ndarray:
    """Return the length of each model's values [model, class, column]."""
    norms: np.ndarray = np.sqrt((values**2).sum((1, 2)))
    return norms


def _products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return each model's scalar product."""
    products: np.ndarray = np.einsum("mcj,mcj->m", first, second)
    return products


def _solved(residuals: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return each class's block of an inverse times residuals [model, class, column]."""
    solved: np.ndarray = np.matmul(residuals.transpose(1, 0, 2), inverse).transpose(1, 0, 2)
    return solved
