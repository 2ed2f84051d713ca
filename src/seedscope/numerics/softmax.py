"""Batched Newton for regularised multinomial logistic regression: many tilted objectives on the same rows at once.

Minimises, for each model m, `mean_i −log softmax(W x_i)[y_i] + ½ Σ penalty_j W_kj² + tilt_m·W` in float64. Everything
happens where the weights of the classes add up to 0 (nothing else changes a probability): tilts are given there, and so
are the solutions. Steps are Newton's, found by conjugate gradients for all models at once; their preconditioner is the
inverse Hessian of weights 0, which has one block for all classes. A step that does not lower the gradient is halved
until the objective falls as much as it should, so that Newton converges from anywhere.
"""

from __future__ import annotations

import copy
from functools import cached_property

import numpy as np

from seedscope.core import SeedscopeError
from seedscope.numerics.newton import ITERATIONS, RESIDUAL, Solution

BLOCK_ELEMENTS = 1 << 19  # models × rows × classes worked on together
CONJUGATE_STEPS, ENOUGH = 40, 0.05  # what conjugate gradients leave of a gradient, at most
HALVINGS, FALL = 40, 1e-4  # of a step, until the objective falls by this share of what its slope promises


class SoftmaxProblem:
    """Rows (bias column included) and labels 0 … K − 1 on which many tilted objectives are minimised."""

    examples: int
    row_width: int

    def __init__(self, rows: np.ndarray, labels: np.ndarray, penalty: np.ndarray, classes: int):
        self.rows = np.ascontiguousarray(rows, float)
        self.targets = np.eye(classes)[np.asarray(labels, int)]  # a row of zeros takes an example out
        self.penalty, self.classes = np.asarray(penalty, float), classes
        self.examples, self.row_width = self.rows.shape
        self.width = classes * self.row_width
        self.basis = zero_sum_basis(classes)

    @property
    def dimension(self) -> int:
        """How many weights are free."""
        return (self.classes - 1) * self.row_width

    @cached_property
    def tolerance(self) -> float:
        """The gradient norm at which a solution is good enough: 1e-6·R/N."""
        return RESIDUAL * float(np.linalg.norm(self.rows, axis=1).max()) / self.examples

    def spread(self, free: np.ndarray) -> np.ndarray:
        """Return vectors [model, class · weight] from their free coordinates [model, dimension]; lengths stay."""
        parts = free.reshape(len(free), self.classes - 1, self.row_width)
        spread: np.ndarray = np.einsum("kc,mcj->mkj", self.basis, parts).reshape(len(free), self.width)
        return spread

    def minimise(self, tilts: np.ndarray, start: np.ndarray | None = None) -> Solution:
        """Return the minimiser for each tilt [model, class · weight], begun at `start` (default 0)."""
        tilts = np.atleast_2d(np.asarray(tilts, float))
        size = max(1, BLOCK_ELEMENTS // (self.examples * self.classes))
        parts = [self._minimise_block(tilts[i : i + size], start) for i in range(0, len(tilts), size)]
        return Solution(np.concatenate([p.weights for p in parts]), np.concatenate([p.residual_norms for p in parts]))

    def with_row(self, index: int, row: np.ndarray, label: float) -> SoftmaxProblem:
        """Return the problem with one row replaced; a row of zeros takes the example out and keeps the divisor."""
        other = copy.copy(self)
        other.rows, other.targets = self.rows.copy(), self.targets.copy()
        other.rows[index], other.targets[index] = row, np.eye(self.classes)[int(label)]
        for name in ("tolerance", "_inverse"):
            other.__dict__.pop(name, None)
        return other

    def _minimise_block(self, tilts: np.ndarray, start: np.ndarray | None) -> Solution:
        """Return the minimisers of a block of models; those that have converged leave the iteration."""
        shape = (len(tilts), self.classes, self.row_width)
        first = np.zeros(self.width) if start is None else start
        weights, tilts = np.tile(first, (shape[0], 1)).reshape(shape), tilts.reshape(shape)
        norms, active, current = np.full(len(tilts), np.inf), np.arange(len(tilts)), weights
        for _ in range(ITERATIONS):
            scores = self._scores(current)
            gradients = self._gradients(current, scores, tilts[active])
            weights[active], norms[active] = current, np.sqrt((gradients**2).sum((1, 2)))
            going = ~(norms[active] <= self.tolerance)
            if not going.any():
                return Solution(weights.reshape(len(tilts), -1), norms)
            active, current = active[going], current[going]
            steps = self._newton_steps(gradients[going], scores[going])
            current = self._stepped(current, steps, gradients[going], tilts[active])
        raise SeedscopeError(
            f"multinomial regression did not converge in {ITERATIONS} Newton steps (gradient norm {norms.max():.2g}, "
            f"needed {self.tolerance:.2g}); use a larger l2 or scale the features."
        )

    def _stepped(self, weights: np.ndarray, steps: np.ndarray, gradients: np.ndarray, tilts: np.ndarray) -> np.ndarray:
        """Return the weights after the steps, each halved until the objective falls enough."""
        lengths, slopes = np.ones(len(weights)), (gradients * steps).sum((1, 2))
        before = self._objective(weights, tilts)
        rounding = 1e-13 * (1 + np.abs(before))
        for _ in range(HALVINGS):
            after = self._objective(weights - lengths[:, None, None] * steps, tilts)
            short = ~(after <= before - FALL * lengths * slopes + rounding)
            if not short.any():
                break
            lengths = np.where(short, lengths / 2, lengths)
        stepped: np.ndarray = weights - lengths[:, None, None] * steps
        return stepped

    def _objective(self, weights: np.ndarray, tilts: np.ndarray) -> np.ndarray:
        """Return each model's objective."""
        logits = self._logits(weights)
        top = logits.max(2)
        losses = np.log(np.exp(logits - top[..., None]).sum(2)) + top - (logits * self.targets).sum(2)
        value: np.ndarray = losses.mean(1) + (weights * (self.penalty * weights / 2 + tilts)).sum((1, 2))
        return value

    def _logits(self, weights: np.ndarray) -> np.ndarray:
        """Return logits [model, row, class]."""
        models = len(weights)
        logits = self.rows @ weights.reshape(models * self.classes, self.row_width).T
        return np.ascontiguousarray(logits.reshape(self.examples, models, self.classes).transpose(1, 0, 2))

    def _scores(self, weights: np.ndarray) -> np.ndarray:
        """Return probabilities [model, row, class]."""
        logits = self._logits(weights)
        logits -= logits.max(2, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(2, keepdims=True)
        return logits

    def _gradients(self, weights: np.ndarray, scores: np.ndarray, tilts: np.ndarray) -> np.ndarray:
        """Return the objectives' gradients [model, class, weight]."""
        gradients: np.ndarray = self._back(scores - self.targets) + self.penalty * weights + tilts
        return gradients

    def _back(self, values: np.ndarray) -> np.ndarray:
        """Return the mean over rows of values [model, row, class] times the row, [model, class, weight]."""
        back: np.ndarray = np.matmul(values.transpose(0, 2, 1), self.rows) / self.examples
        return back

    def _bent(self, directions: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the Hessians times directions."""
        changes = scores * self._logits(directions)
        changes -= scores * changes.sum(2, keepdims=True)
        bent: np.ndarray = self._back(changes) + self.penalty * directions
        return bent

    def _newton_steps(self, gradients: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return steps with H·step ≈ gradient, by preconditioned conjugate gradients."""
        steps, residuals = np.zeros_like(gradients), gradients.copy()
        directions, fit = np.zeros_like(gradients), np.ones(len(gradients))
        enough = ENOUGH * np.sqrt((gradients**2).sum((1, 2)))
        for _ in range(CONJUGATE_STEPS):
            better = residuals @ self._inverse
            new_fit = (residuals * better).sum((1, 2))
            directions = better + (new_fit / fit)[:, None, None] * directions
            bent = self._bent(directions, scores)
            lengths = (new_fit / (directions * bent).sum((1, 2)))[:, None, None]
            steps += lengths * directions
            residuals -= lengths * bent
            fit = new_fit
            if (np.sqrt((residuals**2).sum((1, 2))) <= enough).all():
                break
        return steps

    @cached_property
    def _inverse(self) -> np.ndarray:
        """The inverse Hessian at weights 0: there all classes have probability 1/K, and one block serves all."""
        hessian = self.rows.T @ self.rows / (self.classes * self.examples) + np.diag(self.penalty)
        return np.linalg.inv(hessian)


def zero_sum_basis(classes: int) -> np.ndarray:
    """Return an orthonormal basis [class, classes − 1] of the vectors whose entries add up to 0.

    >>> zero_sum_basis(2).round(4).tolist()
    [[0.7071], [-0.7071]]
    """
    rows = np.tri(classes - 1, classes) - np.diag(np.arange(1.0, classes), 1)[: classes - 1]
    basis: np.ndarray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T
    return basis
