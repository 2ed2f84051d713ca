"""A regularised logistic regression with its checked arguments: rows with bias, labels, weights, private columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import require, require_positive
from seedscope.datasets import few_valued, not_continuous

_BLOCK = 4096  # rows of a block of the Hessian's sum


@dataclass(frozen=True, eq=False)
class Regression:
    """Rows [record, weight], a bias column of ones last where the weights have a bias; weights; λ per weight.

    `private` are the columns that the attacker does not know; `features` counts the columns without the bias. The
    objective is `mean log-loss + ½ Σ λ_j w_j²`.
    """

    rows: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    penalty: np.ndarray
    private: np.ndarray
    features: int

    @classmethod
    def of(
        cls, features: ArrayLike, labels: ArrayLike, weights: ArrayLike, l2: ArrayLike, private: ArrayLike | None
    ) -> Regression:
        """Return the regression of checked arguments; see `logistic_dfil`."""
        x, y, w = np.asarray(features), np.asarray(labels, float), np.asarray(weights, float)
        require(x.ndim >= 2 and len(x) > 0, f"features must be [record, feature], got shape {x.shape}.")
        x = x.reshape(len(x), -1)
        require(y.shape == (len(x),), f"labels must be one per record, {len(x)}, got shape {y.shape}.")
        require((y == 0) | (y == 1), "labels must be 0 or 1.")
        count = x.shape[1]
        require(
            w.shape in ((count,), (count + 1,)),
            f"weights must have one entry per feature, {count}, or one more for the bias, got shape {w.shape}.",
        )
        require_positive("l2", l2)
        rows = np.ones((len(x), len(w)))
        rows[:, :count] = x
        require(np.isfinite(rows).all() and np.isfinite(w).all(), "features and weights must be finite.")
        penalty = np.broadcast_to(np.asarray(l2, float), w.shape)
        return cls(rows, y, w, penalty, _columns(private, count), count)

    def scores(self) -> np.ndarray:
        """Return the probability s of class 1 of every record."""
        from scipy.special import expit

        scores: np.ndarray = expit(self.rows @ self.weights)
        return scores

    def residuals(self) -> np.ndarray:
        """Return r = s − y, without cancellation where s is near 1."""
        from scipy.special import expit

        signs = 2 * self.labels - 1
        residuals: np.ndarray = -signs * expit(-signs * (self.rows @ self.weights))
        return residuals

    def curvatures(self) -> np.ndarray:
        """Return s(1 − s)."""
        residuals = np.abs(self.residuals())
        curvatures: np.ndarray = residuals * (1 - residuals)
        return curvatures

    def gradient(self) -> np.ndarray:
        """Return the gradient of the mean objective."""
        gradient: np.ndarray = self.residuals() @ self.rows / len(self.rows) + self.penalty * self.weights
        return gradient

    def hessian(self) -> np.ndarray:
        """Return the Hessian of the mean objective, penalty included."""
        curvatures, total = self.curvatures() / len(self.rows), np.diag(self.penalty)
        for start in range(0, len(self.rows), _BLOCK):
            block = self.rows[start : start + _BLOCK]
            total += (block * curvatures[start : start + _BLOCK, None]).T @ block
        return total

    def require_continuous(self) -> None:
        """Raise if a private column has only a few values, as an encoded category has."""
        categories = self.private[few_valued(self.rows[:, self.private])]
        if len(categories):
            raise not_continuous(f"column {categories[0]}", self.rows[:, categories[0]])


def _columns(private: ArrayLike | None, count: int) -> np.ndarray:
    """Return the private columns' numbers; all by default."""
    columns = np.arange(count) if private is None else np.atleast_1d(np.asarray(private))
    if columns.dtype == bool:
        require(columns.shape == (count,), f"a mask of private columns must have {count} entries, got {columns.shape}.")
        columns = np.flatnonzero(columns)
    good = columns.ndim == 1 and columns.dtype.kind in "iu" and columns.size > 0
    require(good, f"private must be columns' numbers, at least one, got {private!r}.")
    within = (columns >= 0) & (columns < count)
    require(within, f"private columns must be between 0 and {count - 1}, got {columns}.")
    require(len(np.unique(columns)) == len(columns), "private must name each column once.")
    return columns
