"""Regularised multinomial logistic regression, many tilted objectives at once (`newton`).

Minimises, for each model m, `mean_i −log softmax(W x_i)[y_i] + ½ Σ penalty_j W_kj² + tilt_m·W`. Everything happens
where the weights of the classes add up to 0 (nothing else changes a probability): tilts are given there, and so are the
solutions. The Hessian's block of two classes is −Σ s_k s_l x xᵀ, and a class's own is minus the sum of its others, so
with few features all models' Hessians are one matrix product of s_k s_l, for each pair of classes, with the rows' outer
products; with more, steps are found by conjugate gradients for all models at once. Both in float32 where the penalty
keeps that harmless: it is the step that is approximate, not the gradient whose size decides when to stop.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from seedscope.numerics.logistic import MODELS_TOGETHER
from seedscope.numerics.newton import DOUBLE, SINGLE, State, TiltedProblem, upper_places

BLOCK_ELEMENTS = 1 << 18  # models × classes × rows worked on together: a few MB, to stay in cache
CONJUGATE_STEPS, ENOUGH = 40, 0.03  # what conjugate gradients leave of a gradient, at most
DIRECT_DIMENSION, OUTER_BYTES = 64, 256 << 20  # beyond these steps come from conjugate gradients
WEAK = 1e-4  # of the rows' mean squared norm: with a smaller penalty steps need float64


class SoftmaxProblem(TiltedProblem):
    """Rows (bias column included) and labels 0 … K − 1 on which many tilted objectives are minimised."""

    name = "multinomial"
    row_width: int

    def __init__(self, rows: np.ndarray, labels: np.ndarray, penalty: np.ndarray, classes: int):
        self.rows = np.ascontiguousarray(rows, float)
        self.targets = np.eye(classes)[np.asarray(labels, int)]
        self.penalty, self.classes = np.tile(np.asarray(penalty, float), classes), classes
        self.examples, self.row_width = self.rows.shape
        self.width = classes * self.row_width
        self.basis = zero_sum_basis(classes)
        self._pairs = np.triu_indices(classes, 1)
        self._upper, self._unpacked = upper_places(self.row_width)
        self._signs = _reduced_signs(classes)
        self._prepare()

    @property
    def dimension(self) -> int:
        """How many weights are free: those of all classes but one."""
        return (self.classes - 1) * self.row_width

    @property
    def together(self) -> int:
        least = 1 if self._outer is not None else MODELS_TOGETHER
        return max(least, BLOCK_ELEMENTS // (self.examples * self.classes))

    def spread(self, free: np.ndarray) -> np.ndarray:
        parts = free.reshape(len(free), self.classes - 1, self.row_width)
        spread: np.ndarray = np.einsum("kc,mcj->mkj", self.basis, parts).reshape(len(free), self.width)
        return spread

    def with_row(self, index: int, row: np.ndarray, label: float) -> SoftmaxProblem:
        changed = copy.copy(self)
        changed.rows, changed.targets = self.rows.copy(), self.targets.copy()
        changed.rows[index], changed.targets[index] = row, np.eye(self.classes)[int(label)]
        changed._prepare()
        changed.__dict__.pop("tolerance", None)
        return changed

    def _prepare(self) -> None:
        """Keep what is multiplied by in every step: copies of the rows, and their outer products where they are few."""
        self._columns, self._targets = np.ascontiguousarray(self.rows.T), np.ascontiguousarray(self.targets.T)
        weak = self.penalty.min() < WEAK * np.square(self.rows).sum() / self.examples
        self._kind = DOUBLE if weak else SINGLE
        self._quick_rows, self._quick_columns = (array.astype(self._kind) for array in (self.rows, self._columns))
        fits = self.dimension <= DIRECT_DIMENSION and 8 * self.examples * len(self._upper[0]) <= OUTER_BYTES
        self._outer = self._quick_rows[:, self._upper[0]] * self._quick_rows[:, self._upper[1]] if fits else None
        self.careful = not fits

    def _margins(self, weights: np.ndarray) -> np.ndarray:
        return self._forward(weights, self._columns)

    def _forward(self, weights: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return logits [model, class, row]."""
        flat: np.ndarray = weights.reshape(-1, self.row_width) @ columns
        return flat.reshape(len(weights), self.classes, self.examples)

    def _back(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the mean over rows of values [model, class, row] times the row, [model, class · weight]."""
        back: np.ndarray = values.reshape(-1, self.examples) @ rows
        back /= self.examples
        return back.reshape(len(values), self.width)

    def _residuals(self, margins: np.ndarray) -> np.ndarray:
        residuals: np.ndarray = _softmax(margins) - self._targets.astype(margins.dtype, copy=False)
        return residuals

    @property
    def _step_precision(self) -> np.dtype[Any]:
        return self._kind if self._outer is None else DOUBLE

    def _evaluate(self, weights: np.ndarray, margins: np.ndarray, tilts: np.ndarray) -> State:
        """Return the state at these weights: gradients [model, class · weight]; its curvatures are the scores."""
        scores = _softmax(margins)
        gradients = self._back(scores - self._targets, self.rows) + self.penalty * weights + tilts
        norms = np.linalg.norm(gradients, axis=1)
        return State(weights, margins, gradients, scores.astype(self._kind, copy=False), norms, norms)

    def _newton_steps(self, state: State) -> np.ndarray:
        """Return the Newton steps [model, class · weight]: from all Hessians, or by conjugate gradients."""
        if self._outer is None:
            return self._conjugate_gradients(state)
        free = state.gradients[:, : self.dimension, None]
        steps = np.linalg.solve(self._hessians(state.curvatures), free)[..., 0].reshape(len(free), -1, self.row_width)
        last = -steps.sum(1, keepdims=True)
        whole: np.ndarray = np.concatenate([steps, last], axis=1).reshape(len(free), self.width)
        return whole

    def _hessians(self, scores: np.ndarray) -> np.ndarray:
        """Return each model's Hessian as it acts on the first K − 1 classes of vectors that add up to 0.

        Its block (k, l) is H_kl − H_kK, as the last class of such a vector is minus the sum of the others.
        """
        models, free, width = len(scores), self.classes - 1, self.row_width
        products = np.empty((models, len(self._pairs[0]), self.examples), self._kind)
        for place, (first, second) in enumerate(zip(*self._pairs, strict=True)):
            np.multiply(scores[:, first], scores[:, second], out=products[:, place])
        packed = (products.reshape(-1, self.examples) @ self._outer).reshape(models, len(self._pairs[0]), -1)
        blocks = np.matmul(self._signs.astype(self._kind), packed)  # [model, (K − 1)², pair of columns]
        blocks /= self.examples
        square = np.take(blocks, self._unpacked, axis=2).reshape(models, free, free, width, width)
        hessians = np.ascontiguousarray(square.transpose(0, 1, 3, 2, 4)).reshape(models, self.dimension, -1)
        diagonal = np.arange(self.dimension)
        hessians[:, diagonal, diagonal] += self.penalty[: self.dimension].astype(self._kind)
        return hessians

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # an objective without a minimum is stepped along
    def _conjugate_gradients(self, state: State) -> np.ndarray:
        """Return steps with H·step ≈ gradient, preconditioned by the inverse Hessian of equal probabilities."""
        scores, scale, penalty = state.curvatures, state.norms[:, None], self.penalty.astype(self._kind)
        residuals = (state.gradients / scale).astype(self._kind)
        steps, directions, fit = np.zeros_like(residuals), np.zeros_like(residuals), np.ones(len(residuals), self._kind)
        inverse = self._inverse()
        for _ in range(CONJUGATE_STEPS):
            better = (residuals.reshape(-1, self.row_width) @ inverse).reshape(residuals.shape)
            new_fit = np.einsum("mj,mj->m", residuals, better)
            directions = better + (new_fit / fit)[:, None] * directions
            bent = self._bent(directions, scores) + penalty * directions
            lengths = (new_fit / np.einsum("mj,mj->m", directions, bent))[:, None]
            steps += lengths * directions
            residuals -= lengths * bent
            fit = new_fit
            if np.linalg.norm(residuals, axis=1).max() < ENOUGH:
                break
        unscaled: np.ndarray = steps * scale
        return unscaled

    def _bent(self, directions: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the losses' Hessians times directions."""
        changes = self._forward(directions, self._quick_columns)
        changes *= scores
        changes -= scores * changes.sum(1, keepdims=True)
        return self._back(changes, self._quick_rows)

    def _inverse(self) -> np.ndarray:
        """Return the inverse Hessian where all classes have probability 1/K: one block serves all."""
        hessian = self._quick_columns @ self._quick_rows / (self.classes * self.examples)
        return np.linalg.inv(hessian + np.diag(self.penalty[: self.row_width])).astype(self._kind)


def zero_sum_basis(classes: int) -> np.ndarray:
    """Return an orthonormal basis [class, classes − 1] of the vectors whose entries add up to 0.

    >>> zero_sum_basis(2).round(4).tolist()
    [[0.7071], [-0.7071]]
    """
    rows = np.tri(classes - 1, classes) - np.diag(np.arange(1.0, classes), 1)[: classes - 1]
    basis: np.ndarray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T
    return basis


def _reduced_signs(classes: int) -> np.ndarray:
    """Return how the blocks Σ s_k s_l x xᵀ of all pairs make up H_kl − H_kK, [(K − 1)², pair].

    >>> _reduced_signs(3).astype(int).tolist()  # pairs (0, 1), (0, 2), (1, 2)
    [[1, 2, 0], [-1, 1, 0], [-1, 0, 1], [1, 0, 2]]
    """
    firsts, seconds = np.triu_indices(classes, 1)
    whole = np.zeros((classes, classes, len(firsts)))
    for pair, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
        whole[[first, second], [second, first], pair] = -1
        whole[[first, second], [first, second], pair] = 1
    return (whole[:-1, :-1] - whole[:-1, -1:]).reshape((classes - 1) ** 2, -1)


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Return probabilities [model, class, row]."""
    scores: np.ndarray = logits - logits.max(1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(1, keepdims=True)
    return scores
