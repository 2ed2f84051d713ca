"""How wrong any attacker must be: lower bounds on the squared error, from Rényi divergence and Fisher information.

Errors are mean squared errors per private coordinate, unless a function says *feature*: then they are root mean squared
errors of one feature in its own units. "Unbiased" is about the attacker's guess averaged over the training noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from seedscope.core import require, require_positive

_DOWN = 1 - 1e-14  # the formulas below are a few roundings long: this puts them on the safe side
_SMALLEST_STEP = 1e-9


def rdp_error_lower(
    rdp_epsilon: ArrayLike, diameters: ArrayLike, response: ArrayLike = 1.0, bias: ArrayLike = 0.0
) -> np.ndarray:
    """Return the least mean squared error of any attacker, from the order-2 Rényi divergence; rounded down.

    `Σ γ_i² diam_i² / (4d (e^ε₂ − 1)) + ‖μ(z) − z‖²/d`. The divergence must be that of *replacing* a record: one for
    adding or removing it is smaller and proves nothing here. Infinite where ε₂ = 0: the output says nothing.

    Args:
        rdp_epsilon: replace-one divergence ε₂ ≥ 0, any shape.
        diameters: lengths of the private coordinates' ranges, the last axis along coordinates; a number if all are
            alike. They must be public: taken from the data they turn the bound into an estimate.
        response: γ_i, how much the attacker's expected guess of coordinate i at least moves when the truth moves by
            one; 1 for an unbiased attacker, 0 for one who ignores the model.
        bias: μ(z) − z by coordinate, how far the expected guess is from the truth; 0 for an unbiased attacker.

    >>> float(rdp_error_lower(2.0, 100.0).round(1))          # an age between 0 and 100
    391.3
    >>> rdp_error_lower([0.0, 2.0], [100.0, 1.0], bias=[0.0, 5.0]).round(1)
    array([  inf, 208.2])

    BR Theorem 1 (Hammersley–Chapman–Robbins); an unbiased attacker has γ = 1 and no bias.
    """
    squares = np.asarray(response, float) ** 2 * _checked_diameters(diameters) ** 2
    variance = _times(np.atleast_1d(squares).mean(-1) / 4, _inverse_excess(rdp_epsilon))
    error: np.ndarray = (_DOWN * (variance + np.atleast_1d(np.asarray(bias, float) ** 2).mean(-1)))[()]
    return error


def rdp_feature_error_lower(rdp_epsilon: ArrayLike, diameters: ArrayLike) -> np.ndarray:
    """Return the least root mean squared error of an unbiased guess of each feature, in its own units; rounded down.

    >>> float(rdp_feature_error_lower(2.0, 100.0).round(1))         # ± 20 years
    19.8

    BR Theorem 1, which holds coordinate by coordinate.
    """
    error: np.ndarray = _DOWN * np.sqrt(_times(_checked_diameters(diameters) ** 2 / 4, _inverse_excess(rdp_epsilon)))
    return error


def rdp_uncertainty_left(rdp_epsilon: ArrayLike) -> np.ndarray:
    """Return the share of a feature's variance that is left to any attacker, biased or not; rounded down.

    For a normal prior of any variance τ² the mean squared error is at least h²/(e^{ε₂ + h²/τ²} − 1) for every shift h
    (Bobrovsky–Zakai: the prior moves by h too). The best is at h² = τ²(1 − s), where the share is s = −W₀(−e^{−1−ε₂}):
    1 if the model tells nothing. Where a step h changes the model's law by ε₂ = I h², small steps give van Trees'
    1/(1 + τ²I).

    Args:
        rdp_epsilon: replace-one divergence ε₂ ≥ 0, any shape.

    >>> rdp_uncertainty_left([0.0, 0.1, 1.0, 4.0]).round(3)
    array([1.   , 0.617, 0.159, 0.007])

    Bobrovsky & Zakai 1976; Weinstein & Weiss 1988.
    """
    epsilon = np.asarray(rdp_epsilon, float)
    require(epsilon >= 0, f"rdp_epsilon must be at least 0, got {epsilon}.")
    step = np.maximum(1 + lambertw(-np.exp(-1 - epsilon)).real, _SMALLEST_STEP)  # h²/τ²; any is a bound
    with np.errstate(over="ignore"):
        left: np.ndarray = np.where(epsilon == 0, 1.0, _DOWN * step / np.expm1(epsilon + step))[()]
    return left


def fisher_error_lower(fisher_trace: ArrayLike, dimension: ArrayLike) -> np.ndarray:
    """Return the least mean squared error of any unbiased attacker, d / Tr I(z); rounded down.

    Traces of several runs must be averaged first and inverted then. Infinite where the trace is 0.

    Args:
        fisher_trace: trace of the released model's Fisher information about a record, any shape.
        dimension: number d of private coordinates.

    >>> fisher_error_lower([0.0, 8.0, 400.0], 4)
    array([ inf, 0.5 , 0.01])

    BR Theorem 2 (Cramér–Rao).
    """
    trace, d = np.asarray(fisher_trace, float), np.asarray(dimension, float)
    require(trace >= 0, "fisher_trace must be at least 0 and not NaN.")
    require((d >= 1) & (d == np.floor(d)), f"dimension must be a whole number of at least 1, got {dimension!r}.")
    with np.errstate(divide="ignore"):
        return np.asarray(_DOWN * d / trace)[()]


def fisher_matrix_error_lower(
    information: ArrayLike, response: ArrayLike | None = None, bias: ArrayLike = 0.0
) -> np.ndarray:
    """Return the least mean squared error from the whole Fisher information, `Tr(J I⁻¹ Jᵀ)/d + ‖μ(z) − z‖²/d`.

    At least d / Tr I. Infinite where the information is singular in a direction that the guess would follow: there
    no attack of that kind with a finite variance exists, and no unbiased one at all.

    Args:
        information: Fisher information about the record, [..., coordinate, coordinate].
        response: J, the derivative of the attacker's expected guess by the record, [..., coordinate, coordinate]; the
            identity, for an unbiased attacker, if not given.
        bias: μ(z) − z, the last axis along coordinates.

    >>> float(fisher_matrix_error_lower(np.diag([1.0, 4.0])).round(6)), float(fisher_error_lower(5.0, 2).round(6))
    (0.625, 0.4)
    >>> float(fisher_matrix_error_lower(np.diag([1.0, 0.0])))
    inf

    BR Theorem 2.
    """
    matrix = np.asarray(information, float)
    square = matrix.ndim >= 2 and matrix.shape[-1] == matrix.shape[-2]
    require(square, f"information must be square matrices, got shape {matrix.shape}.")
    d = matrix.shape[-1]
    values, axes = np.linalg.eigh(matrix)
    followed = np.sum(((np.eye(d) if response is None else np.asarray(response, float)) @ axes) ** 2, axis=-2)
    silent = values <= d * np.finfo(float).eps * values[..., -1:]
    ignored = followed <= d * np.finfo(float).eps * followed.max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(silent, np.where(ignored, 0.0, np.inf), followed / values)
    error: np.ndarray = (_DOWN * (terms.mean(-1) + np.atleast_1d(np.asarray(bias, float) ** 2).mean(-1)))[()]
    return error


def feature_error_lower(information: ArrayLike, scale: ArrayLike = 1.0) -> np.ndarray:
    """Return the least root mean squared error of an unbiased guess of each feature, in the feature's own units.

    Holds even for an attacker who knows all other features of the record. "No such attacker can know this patient's age
    to better than ± 6 years on average."

    Args:
        information: diagonal of the Fisher information, the last axis along features.
        scale: one unit of the scaled feature in the feature's own units (its standard deviation, if standardised).

    >>> feature_error_lower([4.0, 0.25], scale=[12.0, 1.0])          # age in standard deviations of 12 years
    array([6., 2.])

    Cramér–Rao for one coordinate: `(I⁻¹)_ii ≥ 1 / I_ii`.
    """
    diagonal = np.asarray(information, float)
    require(diagonal >= 0, "information must be at least 0 and not NaN.")
    require_positive("scale", scale)
    with np.errstate(divide="ignore"):
        error: np.ndarray = _DOWN * np.asarray(scale, float) / np.sqrt(diagonal)
        return error


def _checked_diameters(diameters: ArrayLike) -> np.ndarray:
    """Return the diameters, all finite and not negative."""
    lengths = np.asarray(diameters, float)
    require(np.isfinite(lengths) & (lengths >= 0), f"diameters must be finite and at least 0, got {lengths}.")
    return lengths


def _inverse_excess(rdp_epsilon: ArrayLike) -> np.ndarray:
    """Return 1/(e^ε₂ − 1), without overflow; infinite at 0."""
    epsilon = np.asarray(rdp_epsilon, float)
    require(epsilon >= 0, f"rdp_epsilon must be at least 0, got {epsilon}.")
    with np.errstate(divide="ignore", under="ignore"):
        inverse: np.ndarray = np.exp(-epsilon) / -np.expm1(-epsilon)
        return inverse


def _times(squares: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return the product, 0 where a square is 0 even if the factor is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(squares == 0, 0.0, squares * factor)
