"""Columns whose values lie on a grid, such as whole numbers, or recur: Hammersley–Chapman–Robbins, not Cramér–Rao.

An attacker who is unbiased at the values that a column can have need not be so between them, so Fisher information
proves nothing about him. What does is the distance to another possible value, and those that occur in the column are
possible: `E(ẑ − z)² ≥ h²/χ²`, χ² the divergence of what would be released had the record the value z ± h. For output
perturbation χ² = e^(‖θ' − θ‖²/σ²) − 1, θ' the minimiser with that value. It is bounded without fitting again: with Δ
one exact Newton step from θ (rank two changes of the Hessian), `‖θ' − θ‖ ≤ ‖Δ‖ + (R/(12√3 λ))·mean(x̃·Δ)²`, because the
loss's third derivative is at most 1/(6√3) and the objective λ-strongly convex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

_THIRD = 1 / (6 * np.sqrt(3))  # the largest third derivative of the logistic loss
_MOST_VALUES = 4096  # of a column, whose grid is looked for, unless they are whole numbers
_TOLERANCE = 1e-6
_FINEST = 1e-3  # of the smallest gap: a finer grid is none
_DOWN = 1 - 1e-12


def value_step(values: np.ndarray) -> float:
    """Return the step of the coarsest grid that holds all values; 0 for a continuous or a constant column.

    It says whether a column's possible values are apart from each other at all. Not all of the grid's values need be
    possible, so a proof goes to values that occur. Where the values are on no grid, but the same few occur again and
    again (at most half as many values as rows), it is the smallest gap between them.

    >>> [value_step(np.array(values)) for values in ([1.0, 3.0, 6.0], [0.5, 0.25, 1.0], [0.0, 1.0, 3.1416])]
    [1.0, 0.25, 0.0]
    >>> value_step(np.array([0.0, 1.0, 3.1416] * 2))
    1.0
    """
    known = np.unique(np.asarray(values, float))
    if len(known) < 2:
        return 0.0
    if np.all(known == np.round(known)) and np.abs(known).max() < 2**52:
        return float(np.gcd.reduce(np.diff(known).astype(np.int64)))
    step = _common_step(np.diff(known)) if len(known) <= _MOST_VALUES else 0.0
    recurring = 2 * len(known) <= len(values)
    return float(np.diff(known).min()) if recurring and not step else step


def _common_step(gaps: np.ndarray) -> float:
    """Return the largest number of which all gaps are multiples, by Euclid's algorithm; 0 where there is none."""
    tolerance = _TOLERANCE * float(gaps.min())
    step = float(gaps.min())
    for gap in np.unique(gaps):
        rest = abs(gap - step * np.round(gap / step))
        while rest > max(tolerance, 1e-12 * gap):
            step, rest = rest, abs(step - rest * np.round(step / rest))
            if step < _FINEST * gaps.min():
                return 0.0
    return step


@dataclass(frozen=True, eq=False)
class Refits:
    """Bounds on how far the minimiser moves when one record changes, for a regularised logistic regression.

    `rows` have a bias column, `penalty` is λ of each weight of the mean objective, `inverse` that of its Hessian times
    N; `left` is what solving left of the gradient.
    """

    rows: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    penalty: np.ndarray
    inverse: np.ndarray
    moments: np.ndarray
    left: float

    @classmethod
    def of(cls, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, penalty: np.ndarray) -> Refits:
        """Return what all records' refits share."""
        scores, count = expit(rows @ weights), len(rows)
        hessian = (rows * (scores * (1 - scores))[:, None]).T @ rows + count * np.diag(penalty)
        left = float(np.linalg.norm((scores - labels) @ rows / count + penalty * weights))
        return cls(rows, labels, weights, penalty, np.linalg.inv(hessian), rows.T @ rows / count, left)

    def distances(self, moved: np.ndarray) -> np.ndarray:
        """Return for each record [record] the most that the minimiser moves if it alone becomes its row of `moved`."""
        change = self._gradients(moved) - self._gradients(self.rows)
        step = self._newton_step(moved, change)
        count, weakest = len(self.rows), float(self.penalty.min())
        spread = np.einsum("ij,jk,ik->i", step, self.moments, step)
        spread += (np.einsum("ij,ij->i", moved, step) ** 2 - np.einsum("ij,ij->i", self.rows, step) ** 2) / count
        longest = max(float(np.linalg.norm(rows, axis=1).max()) for rows in (self.rows, moved))
        beyond = _THIRD / 2 * longest * np.maximum(spread, 0.0) / weakest
        near = np.linalg.norm(step, axis=1) + beyond
        far = np.linalg.norm(change, axis=1) / (count * weakest)
        distances: np.ndarray = np.minimum(near, far) + 2 * self.left / weakest
        return distances

    def _gradients(self, rows: np.ndarray) -> np.ndarray:
        """Return each record's gradient at the minimiser."""
        residuals: np.ndarray = (expit(rows @ self.weights) - self.labels)[:, None] * rows
        return residuals

    def _newton_step(self, moved: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Return one Newton step of every changed problem: its Hessian has one row for another (Woodbury)."""
        pair = np.stack([moved, self.rows], axis=2)  # [record, weight, 2]
        bends = np.stack([self._curvatures(moved), -self._curvatures(self.rows)], axis=1)
        plain, pulled = change @ self.inverse, np.einsum("jk,ikc->ijc", self.inverse, pair)
        inner = np.eye(2) + bends[:, :, None] * np.einsum("ijc,ijd->icd", pair, pulled)
        weights = np.linalg.solve(inner, bends[:, :, None] * np.einsum("ijc,ij->ic", pair, plain)[:, :, None])[:, :, 0]
        step: np.ndarray = plain - np.einsum("ijc,ic->ij", pulled, weights)
        return step

    def _curvatures(self, rows: np.ndarray) -> np.ndarray:
        """Return s(1 − s) of rows."""
        scores = expit(rows @ self.weights)
        curvatures: np.ndarray = scores * (1 - scores)
        return curvatures


def grid_error_lower(step: float | np.ndarray, distances: np.ndarray, noise_scale: float) -> np.ndarray:
    """Return h/√(e^(‖θ' − θ‖²/σ²) − 1): the least root mean squared error of a guess unbiased at values h apart.

    >>> grid_error_lower(1.0, np.array([0.0, 1.0]), 1.0).round(3)
    array([  inf, 0.763])
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # 0 apart: nothing
        error: np.ndarray = _DOWN * step / np.sqrt(np.expm1((distances / noise_scale) ** 2))
        return error


def information_on_grid(information: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return h²/(e^{h²I} − 1), what Fisher information I estimates of the squared error on a grid of step h.

    Between the values the information may be larger than at them: an *estimate*, where `grid_error_lower` is proved.

    >>> information_on_grid(np.array([4.0, 4.0]), np.array([0.0, 1.0])).round(4)          # 0: continuous
    array([0.25  , 0.0187])
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        grid = step**2 / np.expm1(step**2 * information)
        return np.where((step > 0) & (information > 0), grid, 1 / information)
