"""Shadow models of logistic regression without training any: what a random sample of the rows does to each margin.

A model trained on a random share q of the rows has weights `w − H⁻¹ Σ_j (B_j − q) g_j` to first order, where w is the
minimiser with every row weighted by q, H its Hessian, g_j = r_j x_j a row's gradient and B_j whether the row is in. So
a row's margin has a mean with the row in and one with it out (its own Hessian taken into account), and a variance
`q(1−q) Σ_{j≠i} (x_iᵀH⁻¹g_j)²` from the others: what likelihood-ratio attacks estimate from hundreds of shadow models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from seedscope.core import require, require_positive, require_probability
from seedscope.numerics import WeightedProblem

LEAST_CURVATURE = 0.05  # that is left of a row's own Hessian without it: beyond, first order says nothing


@dataclass(frozen=True, eq=False)
class LinearShadows:
    """Of each row [row]: its margin's mean over models with it, without it, and the standard deviation; estimates."""

    mean_with: np.ndarray
    mean_without: np.ndarray
    deviation: np.ndarray

    def log_ratios(self, margins: ArrayLike) -> np.ndarray:
        """Return how much likelier a target's margins [row] are with each row than without, as logarithms: LiRA."""
        target = np.asarray(margins, float)
        apart = (target - self.mean_without) ** 2 - (target - self.mean_with) ** 2
        ratios: np.ndarray = apart / (2 * self.deviation**2)
        return ratios


def linear_shadows(features: ArrayLike, labels: ArrayLike, share: float, l2: float = 1.0) -> LinearShadows:
    """Return everybody's shadow margins under logistic regression with a free intercept.

    Args:
        features, labels: [row, feature] and 0 or 1: rows that the attacked model may or may not have learned from.
        share: of them that it did learn from.
        l2: the penalty (l2/2)‖w‖² beside the *sum* of losses: 1/C of scikit-learn.

    >>> draw = np.random.default_rng(0)
    >>> X = draw.normal(size=(200, 2))
    >>> y = (X[:, 0] + draw.normal(size=200) > 0).astype(int)
    >>> shadows = linear_shadows(X, y, share=0.5)
    >>> bool(np.all((2 * y - 1) * (shadows.mean_with - shadows.mean_without) > 0))  # who is in is fitted better
    True
    """
    rows, y = np.asarray(features, float), np.asarray(labels, float)
    require(rows.ndim == 2 and len(rows) == len(y), "features must be [row, feature], with a label for each row.")
    require((y == 0) | (y == 1), "labels must be 0 or 1.")
    require_probability("share", share)
    require_positive("l2", l2)
    biased = np.column_stack([rows, np.ones(len(rows))])
    penalty = np.append(np.full(rows.shape[1], l2), 0.0)
    weights = WeightedProblem(biased, y).minimise(np.full((1, len(y)), share), penalty[None])[0]
    return _shadows(biased, biased @ weights, y, share, penalty)


def _shadows(rows: np.ndarray, margins: np.ndarray, y: np.ndarray, q: float, penalty: np.ndarray) -> LinearShadows:
    """Return the shadows around the minimiser whose margins these are."""
    s = expit(margins)
    r, bend = s - y, s * (1 - s)
    solved = rows @ np.linalg.inv((rows * (q * bend)[:, None]).T @ rows + np.diag(penalty))
    leverage = np.einsum("ij,ij->i", solved, rows)
    own = r * leverage
    spread = (rows * (r**2)[:, None]).T @ rows
    variance = q * (1 - q) * (np.einsum("ij,ij->i", solved @ spread, solved) - own**2)
    inside = margins - (1 - q) * own / (1 + (1 - q) * bend * leverage)
    outside = margins + q * own / np.maximum(1 - q * bend * leverage, LEAST_CURVATURE)
    return LinearShadows(inside, outside, np.sqrt(np.maximum(variance, 1e-12)))
