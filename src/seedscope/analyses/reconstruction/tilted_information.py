"""What a randomly tilted minimiser tells of each record: its Fisher information, from models that were trained anyway.

The released w has the density `p_b(b(w; z))·det M(w; z)`, b = −(Σ r x̃ + P w) the tilt that leads to w and M the Hessian
of the sum of losses with its penalties P. Its score in feature f of the record z is in closed form (r = s − y,
s' = s(1−s), s'' the derivative of s' in the logit, β = b/(‖b‖·scale) for the pure tilt, b/scale² for the Gaussian one):

    r β_f + s' w_f (β·x̃)  +  s'' w_f x̃ᵀM⁻¹x̃ + 2 s'(M⁻¹x̃)_f

The mean of its square over models trained on the data is the record's Fisher information about that feature: one
Hessian a model serves everybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.reconstruction.regression import Regression
from seedscope.core import one_blas_thread, require, require_positive, require_probability
from seedscope.numerics import RunningMoments

_BLOCK = 1024  # rows worked on together: their scores stay in the processor's cache
_LEAST_MODELS = 20
_LEAST_FOR_UPPER = 100  # models: with fewer the rare large scores, which rule the mean, may not have been seen


@dataclass(frozen=True, eq=False)
class FeatureInformation:
    """Fisher information about each private feature of each record [record, feature], with a Monte Carlo interval.

    Without models that were sampled (`models` 0) it is exact: `lower` and `upper` are the value.
    """

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    models: int = 0
    confidence: float | None = None

    @classmethod
    def exact(cls, information: np.ndarray) -> FeatureInformation:
        """Return information that is known exactly."""
        return cls(information, information, information)

    def per_unit(self, units: np.ndarray) -> FeatureInformation:
        """Return the information about features measured in other units: this many of the former make one of them."""
        return FeatureInformation(
            self.value * units**2, self.lower * units**2, self.upper * units**2, self.models, self.confidence
        )


def tilted_feature_information(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    penalties: ArrayLike,
    law: Literal["gamma", "gaussian"],
    scale: float,
    private: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    confidence: float = 0.95,
) -> FeatureInformation:
    """Return the diagonal of each record's Fisher information under objective perturbation, an *estimate*.

    Args:
        features: all training records as they were trained on, [record, feature].
        labels: 0 or 1; they count as known to the attacker.
        weights: of models trained on them with independent tilts, [model, weight], the bias last.
        penalties: P of each weight, of the *sum* of losses; a number if all are alike.
        law: "gamma" for the pure tilt, whose density is ∝ exp(−‖b‖/scale), or "gaussian".
        scale: of the tilt.
        private: the columns' numbers, default all; the bias is none of them.
        lengths: each row's norm before it was shortened; the information is about rows before that.
        confidence: of each interval over models, about; with fewer than 100 models it has no upper end.

    Chaudhuri et al. 2011 and Kifer et al. 2012 have the mechanisms and their density.
    """
    released = np.asarray(weights, float)
    require(released.ndim == 2, f"weights must be [model, weight], got shape {released.shape}.")
    enough = f"weights of at least {_LEAST_MODELS} models are needed, got {len(released)}; train more."
    require(len(released) >= _LEAST_MODELS, enough)
    require_positive("scale", scale)
    require_probability("confidence", confidence)
    require(law in ("gamma", "gaussian"), f"law must be 'gamma' or 'gaussian', got {law!r}.")
    regression = Regression.of(features, labels, released[0], penalties, private)
    rows = regression.rows.astype(np.float32)
    density = _Density(regression, rows, law == "gaussian", scale, _shortening(regression, lengths))
    everything = len(regression.private) == regression.features
    moments = RunningMoments.zeros((len(rows), len(regression.private)))
    with one_blas_thread():  # matrices are small: threads would wait for each other
        for w in released:
            for where, scores in density.scores(w):
                relative = scores if everything else scores[:, regression.private]
                relative *= np.float32(scale)  # of order 1: sixth powers stay within single precision
                relative *= relative
                moments.add(relative, where)
    lower, upper = moments.interval(len(released), confidence)
    if len(released) < _LEAST_FOR_UPPER:
        upper = np.full_like(upper, np.inf)
    information = FeatureInformation(moments.mean(len(released)), lower, upper, len(released), confidence)
    return information.per_unit(np.asarray(1 / scale))


@dataclass(frozen=True, eq=False)
class _Shortening:
    """Rows' directions [record, feature], 0 for rows that were not shortened, and the factors that shortened them."""

    units: np.ndarray
    factors: np.ndarray


@dataclass(frozen=True, eq=False)
class _Density:
    """The density of what is released, whose scores in the records' features are taken."""

    regression: Regression
    rows: np.ndarray  # in single precision
    gaussian: bool
    scale: float
    shortening: _Shortening | None

    def scores(self, weights: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield blocks of records with the scores [record, feature] in their features at one released model."""
        rows, count = self.rows, self.regression.features
        at = _Point.of(rows, self.regression.labels, weights)
        direction, inverse = self._direction(at, weights), self._inverse(rows, at).astype(np.float32)
        along = rows @ direction.astype(np.float32)
        beta, w = (vector[:count].astype(np.float32) for vector in (direction, weights))
        for start in range(0, len(rows), _BLOCK):
            where = slice(start, start + _BLOCK)
            pulled = rows[where] @ inverse
            quadratic = np.einsum("ij,ij->i", pulled, rows[where])
            steep = at.curvatures[where] * along[where] + at.bends[where] * quadratic
            # The score's three terms as one product and one scaling: 2s'(M⁻¹x̃)_f + r β_f + steep·w_f.
            scores = np.stack([at.residuals[where], steep], axis=1) @ np.stack([beta, w])
            pulled *= 2 * at.curvatures[where, None]
            scores += pulled[:, :count]
            yield where, self._unshortened(where, scores)

    def _direction(self, at: _Point, weights: np.ndarray) -> np.ndarray:
        """Return β, minus the gradient of ln p_b at the tilt that leads to the weights."""
        tilt = -(at.residuals.astype(float) @ self.regression.rows + self.regression.penalty * weights)
        by: np.ndarray = tilt / (self.scale**2 if self.gaussian else self.scale * np.linalg.norm(tilt))
        return by

    def _inverse(self, rows: np.ndarray, at: _Point) -> np.ndarray:
        """Return M⁻¹."""
        hessian = (rows * at.curvatures[:, None]).T @ rows
        inverse: np.ndarray = np.linalg.inv(hessian.astype(float) + np.diag(self.regression.penalty))
        return inverse

    def _unshortened(self, where: slice, scores: np.ndarray) -> np.ndarray:
        """Return the scores in the features before rows were shortened: P = (R/‖z‖)(1 − x̂x̂ᵀ)."""
        if self.shortening is None:
            return scores
        unit, factor = self.shortening.units[where], self.shortening.factors[where, None]
        turned: np.ndarray = factor * (scores - unit * np.einsum("ij,ij->i", unit, scores)[:, None])
        return turned


@dataclass(frozen=True, eq=False)
class _Point:
    """Residuals r, curvatures s' and their derivatives s'' of all records at one model, in single precision."""

    residuals: np.ndarray
    curvatures: np.ndarray
    bends: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> _Point:
        """Return them at these weights."""
        from scipy.special import expit

        scores = expit(rows @ weights.astype(np.float32))
        curvatures = scores * (1 - scores)
        return cls(scores - labels.astype(np.float32), curvatures, curvatures * (1 - 2 * scores))


def _shortening(regression: Regression, lengths: ArrayLike | None) -> _Shortening | None:
    """Return how rows of these lengths were shortened; None where none was."""
    if lengths is None:
        return None
    rows, before = regression.rows[:, : regression.features], np.asarray(lengths, float)
    norms = np.linalg.norm(rows, axis=1)
    require(before.shape == norms.shape, f"lengths must be one per record, {len(norms)}, got shape {before.shape}.")
    require(before >= norms * (1 - 1e-9), "lengths must be at least the rows' norms: rows are only ever shortened.")
    shortened = before > norms * (1 + 1e-9)
    if not shortened.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        units = np.where(shortened[:, None], rows / norms[:, None], 0.0)
        factors = np.where(shortened, norms / before, 1.0)
    return _Shortening(units.astype(np.float32), factors.astype(np.float32))
