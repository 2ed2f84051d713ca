"""How far each person moves the minimiser of regularised logistic regression: everybody's refit, certified.

Each refit starts at the minimiser θ of all rows, takes Newton's step with the person's own Hessian there, and goes on
until what is left is certified to be small enough: the objective is λ-strongly convex, so a gradient ∇ leaves at most
‖∇‖/λ. The gradient after a step w from θ + v need not be evaluated. With |s''| ≤ 1/(6√3) and C the rows' mean x xᵀ

    ‖∇(θ + v + w)‖ ≤ R/(6√3) · √(wᵀCw) · (√(vᵀCv) + √(wᵀCw)/2)        where H(θ) w = −∇(θ + v)

so that one evaluation for everybody, a product of N × N logits, is nearly always enough. Whoever bends the objective
so much that these steps do not converge is fitted again alone, with a Hessian at each step's own point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from seedscope.core import map_in_threads
from seedscope.numerics import LogisticProblem

ROUNDS = 30
BLOCK = 1 << 21  # logits worked on together
BEND = 1 / (6 * np.sqrt(3))  # the largest |s''| of the logistic function
ROUNDING = 1e-12  # of a gradient, that solving leaves
Other = tuple[np.ndarray, float]  # who stands in for the person: a row and its label


@dataclass(frozen=True, eq=False)
class Refits:
    """The regression on all rows at its minimiser θ, from which everybody's refit starts."""

    rows: np.ndarray
    labels: np.ndarray
    l2: float
    other: Other | None
    theta: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, labels: np.ndarray, l2: float, other: Other | None) -> Refits:
        """Return the regression, solved to the last digits."""
        problem = LogisticProblem(rows, labels, np.full(rows.shape[1], l2))
        refits = cls(rows, labels, l2, other, problem.minimise(np.zeros(rows.shape[1])).weights[0])
        for _ in range(3):
            step = np.linalg.solve(refits.hessian(), refits.gradient())
            refits = cls(rows, labels, l2, other, refits.theta - step)
        return refits

    def gradient(self) -> np.ndarray:
        """Return the gradient of the mean objective of all rows at θ."""
        residuals = expit(self.rows @ self.theta) - self.labels
        gradient: np.ndarray = residuals @ self.rows / len(self.rows) + self.l2 * self.theta
        return gradient

    def hessian(self) -> np.ndarray:
        """Return its Hessian there."""
        s = expit(self.rows @ self.theta)
        bent: np.ndarray = (self.rows * (s * (1 - s))[:, None]).T @ self.rows / len(self.rows)
        return bent + self.l2 * np.eye(len(self.theta))

    def moves(self, enough: float) -> tuple[np.ndarray, np.ndarray]:
        """Return how far each person moves the minimiser, and by how much that may be wrong, at best `enough`."""
        parts = np.array_split(np.arange(len(self.rows)), max(1, -(-(len(self.rows) ** 2) // BLOCK)))
        inverse, reach, left = np.linalg.inv(self.hessian() + self._other_bend()), self._reach(), self.gradient()
        moves = map_in_threads(lambda part: self._moves_of(part, inverse, reach, left, enough), parts)
        moved, errors = (np.concatenate(values) for values in zip(*moves, strict=True))
        return moved, errors + float(np.linalg.norm(left)) / self.l2

    def _reach(self) -> tuple[np.ndarray, float]:
        """Return C, the mean of x xᵀ over all rows and the one that stands in, and R, the longest of them."""
        every = self.rows if self.other is None else np.vstack([self.rows, self.other[0]])
        return every.T @ every / len(self.rows), float(np.linalg.norm(every, axis=1).max())

    def _moves_of(
        self, part: np.ndarray, inverse: np.ndarray, reach: tuple[np.ndarray, float], left: np.ndarray, enough: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the moves of some people; left: the gradient at θ of everybody's objective."""
        solve = self._own_hessians(part, inverse)
        steps, gradients = np.zeros((len(part), len(self.theta))), self._first_gradients(part, left)
        errors = np.full(len(part), np.inf)
        for _ in range(ROUNDS):
            more = -solve(gradients)
            errors = _certified(steps, more, gradients, *reach) / self.l2
            steps += more
            if np.all(errors <= enough):
                break
            gradients = self._gradients(part, self.theta + steps)
        moved = np.linalg.norm(steps, axis=1)
        for k in np.flatnonzero(~(errors <= enough)):  # not a number is not enough
            moved[k], errors[k] = self._fitted_again(part[k : k + 1])
        return moved, errors

    def moves_together(self, groups: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return how far each person of several rows moves the minimiser, all of them gone at once, and the errors."""
        fitted = map_in_threads(self._fitted_again, groups)
        moved, errors = (np.array(values) for values in zip(*fitted, strict=True))
        return moved, errors + float(np.linalg.norm(self.gradient())) / self.l2

    def _fitted_again(self, own: np.ndarray) -> tuple[float, float]:
        """Return one person's move and its error, fitted alone from the start without the rows of their own."""
        rows, labels = self.rows.copy(), self.labels.copy()
        rows[own], labels[own] = (0.0, 0.0) if self.other is None else self.other
        alone = Refits.of(rows, labels, self.l2, None)
        moved = float(np.linalg.norm(alone.theta - self.theta))
        return moved, float(np.linalg.norm(alone.gradient())) / self.l2

    def _other_bend(self) -> np.ndarray:
        """Return the part in the Hessian at θ of who stands in, which is the same whoever is replaced."""
        if self.other is None:
            return np.zeros((len(self.theta), len(self.theta)))
        s = expit(self.theta @ self.other[0])
        bend: np.ndarray = s * (1 - s) * np.outer(self.other[0], self.other[0]) / len(self.rows)
        return bend

    def _own_hessians(self, part: np.ndarray, inverse: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function that multiplies [person, feature] by each person's inverse Hessian at θ, a rank less.

        inverse: of the Hessian of all rows and the one that stands in, from which the person's own is taken out.
        """
        rows, s = self.rows[part], expit(self.rows[part] @ self.theta)
        weights, solved = s * (1 - s) / len(self.rows), rows @ inverse
        factors = weights / (1 - weights * np.einsum("ij,ij->i", solved, rows))

        def solve(gradients: np.ndarray) -> np.ndarray:
            along = np.einsum("ij,ij->i", solved, gradients)
            steps: np.ndarray = gradients @ inverse + solved * (factors * along)[:, None]
            return steps

        return solve

    def _first_gradients(self, part: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Return the gradient [person, feature] of each person's own objective at θ: only their own row is missing."""
        rows = self.rows[part]
        residuals = expit(rows @ self.theta) - self.labels[part]
        gradients: np.ndarray = left - residuals[:, None] * rows / len(self.rows)
        if self.other is not None:
            gradients += (expit(self.theta @ self.other[0]) - self.other[1]) * self.other[0] / len(self.rows)
        return gradients

    def _gradients(self, part: np.ndarray, thetas: np.ndarray) -> np.ndarray:
        """Return the gradient [person, feature] of each person's own objective at their own point."""
        residuals = thetas @ self.rows.T
        np.negative(residuals, out=residuals)
        with np.errstate(over="ignore"):
            np.exp(residuals, out=residuals)
        residuals += 1.0
        np.reciprocal(residuals, out=residuals)
        residuals -= self.labels
        residuals[np.arange(len(part)), part] = 0.0
        gradients: np.ndarray = residuals @ self.rows
        if self.other is not None:
            gradients += (expit(thetas @ self.other[0]) - self.other[1])[:, None] * self.other[0]
        return gradients / len(self.rows) + self.l2 * thetas


def _certified(
    steps: np.ndarray, more: np.ndarray, gradients: np.ndarray, spread: np.ndarray, longest: float
) -> np.ndarray:
    """Return what each gradient's norm can be at most after the steps [person, feature] and `more` of them."""
    before, last = (np.sqrt(np.einsum("ij,ij->i", moved @ spread, moved)) for moved in (steps, more))
    bent = BEND * longest * last * (before + last / 2)
    bound: np.ndarray = bent + ROUNDING * np.linalg.norm(gradients, axis=1)
    return bound
