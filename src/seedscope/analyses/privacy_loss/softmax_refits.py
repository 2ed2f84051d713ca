"""Everybody's refit of multinomial regression: how far each person moves its minimiser, certified.

As `refits`, with weights [class, feature] that add up to 0 over the classes. A person's part in the Hessian has rank
K − 1, and is taken out of its inverse by Woodbury's formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from seedscope.analyses.privacy_loss.refits import BLOCK, ROUNDS, Other
from seedscope.core import map_in_threads
from seedscope.numerics import SoftmaxProblem, zero_sum_basis


@dataclass(frozen=True, eq=False)
class SoftmaxRefits:
    """The regression on all rows at its minimiser θ [free class, feature], from which everybody's refit starts."""

    rows: np.ndarray
    targets: np.ndarray  # [row, class]
    l2: float
    other: Other | None
    theta: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, labels: np.ndarray, classes: int, l2: float, other: Other | None) -> SoftmaxRefits:
        """Return the regression, solved to the last digits."""
        problem = SoftmaxProblem(rows, labels, np.full(rows.shape[1], l2), classes)
        weights = problem.minimise(np.zeros(problem.width)).weights[0].reshape(classes, -1)
        refits = cls(rows, problem.targets, l2, other, zero_sum_basis(classes).T @ weights)
        for _ in range(3):
            step = np.linalg.solve(refits.hessian(), refits.gradient().ravel())
            refits = cls(rows, problem.targets, l2, other, refits.theta - step.reshape(refits.theta.shape))
        return refits

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.targets.shape[1])

    def gradient(self) -> np.ndarray:
        """Return the gradient [free class, feature] of the mean objective of all rows at θ."""
        residuals = self._scores(self.rows @ self.theta.T) - self.targets
        gradient: np.ndarray = zero_sum_basis(self.classes).T @ (residuals.T @ self.rows) / len(self.rows)
        return gradient + self.l2 * self.theta

    def hessian(self) -> np.ndarray:
        """Return its Hessian there, [free class · feature, free class · feature]."""
        (free, width), bends = self.theta.shape, self._bends(self.rows)
        mean = np.einsum("nab,ni,nj->aibj", bends, self.rows, self.rows, optimize=True) / len(self.rows)
        hessian: np.ndarray = mean.reshape(free * width, -1) + self.l2 * np.eye(free * width)
        return hessian

    def moves(self, enough: float) -> tuple[np.ndarray, np.ndarray]:
        """Return how far each person moves the minimiser, and by how much that may be wrong, at best `enough`."""
        numbers = self.classes * len(self.rows) ** 2
        parts = np.array_split(np.arange(len(self.rows)), min(len(self.rows), max(1, -(-numbers // BLOCK))))
        inverse = np.linalg.inv(self.hessian())
        moves = map_in_threads(lambda part: self._moves_of(part, inverse, enough), parts)
        moved, errors = (np.concatenate(values) for values in zip(*moves, strict=True))
        return moved, errors + float(np.linalg.norm(self.gradient())) / self.l2

    def moves_together(self, groups: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return how far each person of several rows moves the minimiser, all of them gone at once, and the errors."""
        fitted = map_in_threads(self._fitted_again, groups)
        moved, errors = (np.array(values) for values in zip(*fitted, strict=True))
        return moved, errors + float(np.linalg.norm(self.gradient())) / self.l2

    def _fitted_again(self, own: np.ndarray) -> tuple[float, float]:
        """Return one person's move and its error, fitted alone from the start without the rows of their own."""
        rows, labels = self.rows.copy(), self.targets.argmax(1)
        rows[own], labels[own] = (0.0, 0) if self.other is None else (self.other[0], int(self.other[1]))
        alone = SoftmaxRefits.of(rows, labels, self.classes, self.l2, None)
        moved = float(np.linalg.norm(alone.theta - self.theta))
        return moved, float(np.linalg.norm(alone.gradient())) / self.l2

    def _moves_of(self, part: np.ndarray, inverse: np.ndarray, enough: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the moves of some people."""
        solve = self._own_hessians(part, inverse)
        steps, errors = np.zeros((len(part), *self.theta.shape)), np.full(len(part), np.inf)
        for _ in range(ROUNDS):
            gradients = self._gradients(part, self.theta + steps)
            errors = np.sqrt((gradients**2).sum((1, 2))) / self.l2
            if np.all(errors <= enough):
                break
            steps -= solve(gradients)
        return np.sqrt((steps**2).sum((1, 2))), errors

    def _own_hessians(self, part: np.ndarray, inverse: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function that multiplies [person, …] by each person's inverse Hessian: their part taken out."""
        free, width = self.theta.shape
        rows, bends = self.rows[part], self._bends(self.rows[part]) / len(self.rows)
        solved = np.einsum("aibj,nj->naib", inverse.reshape(free, width, free, width), rows, optimize=True)
        forms = np.einsum("ni,naib->nab", rows, solved)
        middles = np.linalg.solve(np.eye(free) - bends @ forms, bends)

        def solve(gradients: np.ndarray) -> np.ndarray:
            plain = (gradients.reshape(len(part), -1) @ inverse).reshape(gradients.shape)
            along = np.einsum("nab,nb->na", middles, np.einsum("nbi,ni->nb", plain, rows))
            steps: np.ndarray = plain + np.einsum("naib,nb->nai", solved, along)
            return steps

        return solve

    def _gradients(self, part: np.ndarray, thetas: np.ndarray) -> np.ndarray:
        """Return the gradient [person, free class, feature] of each person's own objective at their own point."""
        basis = zero_sum_basis(self.classes)
        residuals = self._scores(np.einsum("pai,ni->pna", thetas, self.rows, optimize=True)) - self.targets
        residuals[np.arange(len(part)), part] = 0.0
        gradients: np.ndarray = np.einsum("pnk,ka,ni->pai", residuals, basis, self.rows, optimize=True)
        if self.other is not None:
            pulls = self._scores(thetas @ self.other[0]) - np.eye(self.classes)[int(self.other[1])]
            gradients += (pulls @ basis)[:, :, None] * self.other[0]
        return gradients / len(self.rows) + self.l2 * thetas

    def _scores(self, free: np.ndarray) -> np.ndarray:
        """Return probabilities [..., class] from logits in free coordinates."""
        logits: np.ndarray = free @ zero_sum_basis(self.classes).T
        logits -= logits.max(-1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(-1, keepdims=True)
        return logits

    def _bends(self, rows: np.ndarray) -> np.ndarray:
        """Return each row's diag(s) − s sᵀ at θ in free coordinates."""
        basis, scores = zero_sum_basis(self.classes), self._scores(rows @ self.theta.T)
        means = scores @ basis
        squares = np.einsum("nk,ka,kb->nab", scores, basis, basis, optimize=True)
        bends: np.ndarray = squares - means[:, :, None] * means[:, None, :]
        return bends
