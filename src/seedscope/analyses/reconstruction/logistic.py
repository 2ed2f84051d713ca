"""Fisher information of output-perturbed logistic regression about each of its training records, in closed form.

The released weights are `w + N(0, σ² I)`, w the minimiser of `mean log-loss + ½ Σ λ_j w_j²`. Its derivative by a
record, `−H⁻¹ (r e_j + s' w_j x̃)/N` for feature j, gives the information `JᵀJ/σ²`. Everything below needs one inverse
Hessian and one matrix product for all records together; the authors' way builds a Jacobian for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.reconstruction.regression import Regression
from seedscope.core import require, require_positive

_BLOCK = 1024  # records worked on together
_BISECTIONS = 32  # of the interval from trace/d to trace, on the logarithm


def logistic_dfil(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    l2: ArrayLike,
    noise_scale: float,
    private: ArrayLike | None = None,
    label_private: bool = False,
) -> np.ndarray:
    """Return each record's diagonal Fisher information leakage η̄² = Tr I(z)/d; no unbiased attacker beats 1/η̄².

    Args:
        features: all training records, [record, feature]; images are flattened.
        labels: 0 or 1.
        weights: the minimiser without noise. One entry more than features: the last is the bias.
        l2: the regularisation λ of the mean loss, bias included; a number, or one per weight.
        noise_scale: standard deviation σ > 0 of the noise on the weights.
        private: the columns of features that the attacker does not know; default all. They must be continuous.
        label_private: the label is unknown too, and is counted as one more (continuous) coordinate.

    >>> features, labels = np.array([[0.1], [0.3], [0.2], [0.9]]), [0, 0, 1, 1]
    >>> logistic_dfil(features, labels, weights=[0.65342416, -0.17400583], l2=0.1, noise_scale=0.5).round(2)
    array([2.85, 3.76, 4.39, 1.52])

    BR §7.1; Hannun, Guo & van der Maaten 2021, "Measuring data leakage in machine-learning models with Fisher
    information".
    """
    fit = _Fit.of(features, labels, weights, l2, noise_scale, private, label_private)
    return fit.traces() / fit.dimension


def logistic_feature_information(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    l2: ArrayLike,
    noise_scale: float,
    private: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> np.ndarray:
    """Return the diagonal of each record's Fisher information, [record, private column]; see `feature_error_lower`.

    Args:
        lengths: each row's norm before it was shortened to the one it has in `features`; by default none was. The
            information is about the rows before they were shortened.

    Other arguments as for `logistic_dfil`, which is the mean over the columns (of rows that were not shortened).
    """
    fit = _Fit.of(features, labels, weights, l2, noise_scale, private, False)
    information = np.empty((len(fit.regression.rows), fit.dimension))
    shortening = _Shortening.of(fit, lengths)
    for part in fit.parts():
        own, w, cross = (values[:, fit.regression.private] for values in shortening.of_part(part))
        r, bend = part.residuals[:, None], part.curvatures[:, None]
        information[part.where] = r**2 * own + 2 * r * bend * w * cross + bend**2 * part.squares[:, None] * w**2
    return np.maximum(information, 0.0) / fit.divisor


def logistic_spectral_norm(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    l2: ArrayLike,
    noise_scale: float,
    private: ArrayLike | None = None,
    label_private: bool = False,
) -> np.ndarray:
    """Return each record's Fisher information leakage η² = ‖I(z)‖, the largest eigenvalue, rounded up.

    It bounds the error in *every* direction: no unbiased attacker knows any combination of features (of norm 1) to
    better than 1/η². Arguments as for `logistic_dfil`, which is never above it.
    """
    fit = _Fit.of(features, labels, weights, l2, noise_scale, private, label_private)
    F = fit.regression.private
    levels, axes = np.linalg.eigh(fit.squared_inverse[np.ix_(F, F)])
    traces, turned = fit.traces() * fit.divisor, fit.private_weights @ axes
    norms = np.empty(len(traces))
    for part in fit.parts():
        pencil = _rank_two(part, levels, turned, part.twice[:, F] @ axes, label_private)
        norms[part.where] = pencil.largest_eigenvalues(traces[part.where], fit.dimension)
    return norms / fit.divisor


def logistic_fisher_information(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    l2: ArrayLike,
    noise_scale: float,
    records: ArrayLike,
    private: ArrayLike | None = None,
    label_private: bool = False,
) -> np.ndarray:
    """Return the whole Fisher information of some records, [record, coordinate, coordinate]; the label comes last.

    Args:
        records: which of them; each takes 8·d² bytes.

    Other arguments as for `logistic_dfil`.
    """
    fit = _Fit.of(features, labels, weights, l2, noise_scale, private, label_private)
    chosen = np.atleast_1d(np.asarray(records))
    rows, r, bend = (values[chosen] for values in (fit.regression.rows, fit.residuals, fit.curvatures))
    pulled = rows @ fit.inverse
    jacobians = r[:, None, None] * fit.inverse[:, fit.regression.private]
    jacobians = jacobians + (bend[:, None] * pulled)[:, :, None] * fit.private_weights
    if label_private:
        jacobians = np.concatenate([jacobians, -pulled[:, :, None]], axis=2)
    information: np.ndarray = np.swapaxes(jacobians, 1, 2) @ jacobians / fit.divisor
    return information


@dataclass(frozen=True, eq=False)
class _Part:
    """A block of records: b = H⁻¹x̃ only as ‖b‖² (`squares`), and `twice` = H⁻²x̃."""

    where: slice
    residuals: np.ndarray
    curvatures: np.ndarray
    squares: np.ndarray
    twice: np.ndarray


@dataclass(frozen=True, eq=False)
class _Fit:
    """A regression at its minimiser: residuals r = s − y, curvatures s(1−s), H⁻¹, H⁻², and N²σ²."""

    regression: Regression
    residuals: np.ndarray
    curvatures: np.ndarray
    inverse: np.ndarray
    squared_inverse: np.ndarray
    divisor: float
    label_private: bool

    @classmethod
    def of(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        weights: ArrayLike,
        l2: ArrayLike,
        noise_scale: float,
        private: ArrayLike | None,
        label_private: bool,
    ) -> _Fit:
        """Return the fit of checked arguments."""
        require_positive("noise_scale (without noise the released weights give the record away)", noise_scale)
        regression = Regression.of(features, labels, weights, l2, private)
        regression.require_continuous()
        inverse = np.linalg.inv(regression.hessian())
        divisor = (len(regression.rows) * noise_scale) ** 2
        return cls(
            regression,
            regression.residuals(),
            regression.curvatures(),
            inverse,
            inverse @ inverse,
            divisor,
            label_private,
        )

    @property
    def features(self) -> int:
        """How many features a record has, the bias not among them."""
        return self.regression.features

    @property
    def dimension(self) -> int:
        """How many coordinates are private."""
        return len(self.regression.private) + self.label_private

    @property
    def private_weights(self) -> np.ndarray:
        """The weights w_F of the private columns."""
        weights: np.ndarray = self.regression.weights[self.regression.private]
        return weights

    def traces(self) -> np.ndarray:
        """Return Tr I(z) of every record."""
        regression, r, bend = self.regression, self.residuals, self.curvatures
        own = float(np.diag(self.squared_inverse)[regression.private].sum())  # ‖(H⁻¹)_{:,F}‖²
        masked = np.zeros(len(regression.weights))
        masked[regression.private] = self.private_weights
        cross = regression.rows @ (self.squared_inverse @ masked)  # w_Fᵀ(H⁻²x̃)_F
        squares = self._squares()
        traces = r**2 * own + 2 * r * bend * cross + bend**2 * squares * (masked @ masked)
        information: np.ndarray = (traces + squares * self.label_private) / self.divisor
        return information

    def parts(self) -> Iterator[_Part]:
        """Yield blocks of records with what H⁻² gives for them."""
        rows = self.regression.rows
        for start in range(0, len(rows), _BLOCK):
            where = slice(start, start + _BLOCK)
            twice = rows[where] @ self.squared_inverse
            squares = np.einsum("ij,ij->i", rows[where], twice)
            yield _Part(where, self.residuals[where], self.curvatures[where], squares, twice)

    def _squares(self) -> np.ndarray:
        """Return ‖H⁻¹x̃‖² of every record, block by block."""
        rows = self.regression.rows
        blocks = (rows[start : start + _BLOCK] @ self.inverse for start in range(0, len(rows), _BLOCK))
        return np.concatenate([np.einsum("ij,ij->i", block, block) for block in blocks])


@dataclass(frozen=True, eq=False)
class _Shortening:
    """The rows' shortening x = R·z/‖z‖, whose derivative P = (R/‖z‖)(1 − x̂x̂ᵀ) turns what the formulas need.

    `units` are the directions x̂ [record, feature], 0 for rows that were left as they were; `factors` are R/‖z‖.
    """

    fit: _Fit
    norms: np.ndarray
    units: np.ndarray
    factors: np.ndarray

    @classmethod
    def of(cls, fit: _Fit, lengths: ArrayLike | None) -> _Shortening:
        """Return the shortening from rows of these lengths, by default none."""
        rows = fit.regression.rows[:, : fit.features]
        norms = np.linalg.norm(rows, axis=1)
        before = norms if lengths is None else np.asarray(lengths, float)
        require(before.shape == norms.shape, f"lengths must be one per record, {len(norms)}, got shape {before.shape}.")
        require(before >= norms * (1 - 1e-9), "lengths must be at least the rows' norms: rows are only ever shortened.")
        shortened = before > norms * (1 + 1e-9)
        with np.errstate(divide="ignore", invalid="ignore"):
            units = np.where(shortened[:, None], rows / norms[:, None], 0.0)
            factors = np.where(shortened, norms / before, 1.0)
        return cls(fit, norms, units, factors)

    def of_part(self, part: _Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return diag(P A P), P w and P A x̃ of a block [record, feature], A = H⁻² (without P for rows left alone)."""
        count = self.fit.features
        unit, factor = self.units[part.where], self.factors[part.where, None]
        square = self.fit.squared_inverse
        cross = part.twice[:, :count]
        with np.errstate(divide="ignore", invalid="ignore"):
            pulled = np.where(unit != 0, (cross - square[:count, count:].sum(1)) / self.norms[part.where, None], 0.0)
        # A x̂, from H⁻²x̃ less the bias column's part; only where x̂ is not 0 does it enter.
        along = np.einsum("ij,ij->i", unit, pulled)[:, None]
        own = np.diag(square)[:count] - 2 * unit * pulled + unit**2 * along
        w = self.fit.regression.weights[:count]
        return factor**2 * own, factor * _across(w, unit), factor * _across(cross, unit)


def _across(vectors: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the vectors without their parts along the units, row by row."""
    vectors = np.broadcast_to(vectors, units.shape)
    across: np.ndarray = vectors - units * np.einsum("ij,ij->i", vectors, units)[:, None]
    return across


def _rank_two(part: _Part, levels: np.ndarray, turned: np.ndarray, twice: np.ndarray, with_label: bool) -> _RankTwo:
    """Return N²σ²·I(z) of a block in the eigenbasis of (H⁻²)_FF: r²Λ + r(u vᵀ + v uᵀ) + ‖b‖² v vᵀ, v = (s'w_F, −1)."""
    poles, u = part.residuals[:, None] ** 2 * levels, twice
    v = part.curvatures[:, None] * turned
    if with_label:
        end = np.zeros((len(u), 1))
        poles, u, v = np.hstack([poles, end]), np.hstack([u, end]), np.hstack([v, end - 1])
    return _RankTwo(poles, u, v, part.residuals, part.squares)


@dataclass(frozen=True, eq=False)
class _RankTwo:
    """Matrices diag(poles) + r(u vᵀ + v uᵀ) + squares·v vᵀ, one per record."""

    poles: np.ndarray
    u: np.ndarray
    v: np.ndarray
    r: np.ndarray
    squares: np.ndarray

    def largest_eigenvalues(self, traces: np.ndarray, dimension: int) -> np.ndarray:
        """Return the largest eigenvalue of each matrix from above, by bisection between trace/d and the trace."""
        with np.errstate(divide="ignore"):
            low, high = np.log(traces / dimension) - 1e-9, np.log(traces) + 1e-9
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            above = self._all_below(np.exp(middle))
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        alone = self.squares * np.einsum("ij,ij->i", self.v, self.v)  # where r = 0 only v vᵀ is left
        largest: np.ndarray = np.where(self.r == 0, alone, np.exp(high))
        return largest

    def _all_below(self, level: np.ndarray) -> np.ndarray:
        """Say for which matrices all eigenvalues are below a level, by the inertia of the 2 × 2 Schur complement."""
        gaps = level[:, None] - self.poles
        with np.errstate(divide="ignore", invalid="ignore"):
            uu = -self.squares / self.r**2 - np.einsum("ij,ij->i", self.u, self.u / gaps)
            uv = 1 / self.r - np.einsum("ij,ij->i", self.u, self.v / gaps)
            vv = -np.einsum("ij,ij->i", self.v, self.v / gaps)
            negative = np.where(uu * vv < uv**2, 1, np.where(uu + vv < 0, 2, 0))
        # Haynsworth: eigenvalues above the level = poles above it + negative ones of the complement − 1.
        all_below: np.ndarray = (gaps < 0).sum(1) + negative - 1 <= 0
        return all_below
