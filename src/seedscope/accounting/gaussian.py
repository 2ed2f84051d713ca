"""The Gaussian mechanism: epsilon, delta and noise, exactly (Balle & Wang 2018) and by the classical formula.

Everything depends on the ratio `μ = sensitivity / noise_scale` alone. With `x∓ = ε/μ ∓ μ/2` and Mills' ratio
`R(x) = Φ(−x)/φ(x)` the exact delta is `δ(ε) = φ(x−)·(R(x−) − R(x+))`, which neither overflows nor cancels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, erfcx, log_ndtr, ndtri, roots_legendre

from seedscope.core import require, require_positive, require_probability

Decreasing = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # value and slope
_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
_ROUNDING = 1e-12  # relative; above the error of every evaluation here, so that results are on the safe side
_LARGEST_RATIO = 1e150  # beyond, ε ≈ μ²/2 is not a number any more: infinity, which is above it
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = roots_legendre(12)


def gaussian_epsilon(sensitivity: ArrayLike, noise_scale: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Return the smallest epsilon of the Gaussian mechanism at `delta`, rounded up by at most 1e-11 relative.

    This is the exact ("analytic") value: releasing a vector of L2 sensitivity Δ plus `N(0, σ² I)` is (ε, δ)-private if
    and only if `Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) ≤ δ`. Solved in log space, so any ratio Δ/σ is allowed.

    Args:
        sensitivity: L2 sensitivity Δ ≥ 0, any shape.
        noise_scale: standard deviation σ > 0 of the noise per coordinate; broadcasts with `sensitivity`.
        delta: in (0, 1); broadcasts too.

    >>> round(float(gaussian_epsilon(0.252, 0.085, 9.25e-9)), 2)
    20.51
    >>> gaussian_epsilon([0.0, 1e-9, 1.0], 1.0, 1e-5).round(3)
    array([0.   , 0.   , 4.377])

    Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8.
    """
    mu, delta = _ratio_and_delta(sensitivity, noise_scale, delta)
    epsilon = np.where(mu > _LARGEST_RATIO, np.inf, 0.0)
    needed = (_total_variation(mu) > delta) & (mu <= _LARGEST_RATIO)  # elsewhere even ε = 0 holds
    if not needed.any():
        return epsilon[()]
    m, target = mu[needed], np.log(delta[needed])

    def excess(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        log_d = _log_delta(y, m)
        slope = -m * np.exp(_log_density(y - m / 2) + _log_mills(y + m / 2) - log_d)  # dδ/dε = −e^ε Φ(−x+)
        return log_d - target, slope

    # y = ε/μ; δ(ε) < Φ(−x−), so the y at which that tail is δ is large enough
    y = _decreasing_root(excess, np.zeros(m.shape), m / 2 - ndtri(delta[needed]))
    epsilon[needed] = m * y * (1 + _ROUNDING)
    return epsilon[()]


def gaussian_delta(sensitivity: ArrayLike, noise_scale: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """Return the smallest delta of the Gaussian mechanism at `epsilon` ≥ 0, rounded up by about 1e-12 relative.

    >>> float(gaussian_delta(1.0, 1.0, 0.0).round(6))    # the total variation distance, 2Φ(½) − 1
    0.382925

    Balle & Wang 2018, Theorem 8; arguments as in `gaussian_epsilon`.
    """
    mu = _ratio(sensitivity, noise_scale)
    epsilon = np.asarray(epsilon, float)
    require(epsilon >= 0, f"epsilon must be at least 0, got {epsilon}.")
    mu, epsilon = np.broadcast_arrays(mu, epsilon)
    positive = np.where(mu > 0, mu, 1.0)
    delta = np.exp(_log_delta(epsilon / positive, positive)) * (1 + _ROUNDING)
    return np.where(mu > 0, np.minimum(delta, 1.0), 0.0)[()]


def gaussian_noise_scale(sensitivity: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Return the smallest noise scale that makes the Gaussian mechanism (epsilon, delta)-private, rounded up.

    The inverse of `gaussian_epsilon`: below the classical scale for epsilon < 1, and proved for every epsilon.

    >>> float(gaussian_noise_scale(1.0, 1.0, 1e-5).round(4))
    3.7306
    >>> float(classical_gaussian_noise_scale(1.0, 1.0, 1e-5).round(4))
    4.8448

    Balle & Wang 2018, Algorithm 1.
    """
    require_positive("epsilon", epsilon)
    mu_unit, delta = _ratio_and_delta(sensitivity, 1.0, delta)
    unit, eps, delta = np.broadcast_arrays(mu_unit, np.asarray(epsilon, float), delta)
    target = np.log(delta)

    def shortfall(log_mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mu = np.exp(-log_mu)  # the unknown is log σ = −log μ, in which δ falls
        log_d = _log_delta(eps / mu, mu)
        return log_d - target, -mu * np.exp(_log_density(eps / mu - mu / 2) - log_d)  # dδ/dμ = φ(x−)

    z = -ndtri(delta)
    root = np.sqrt(z**2 + 2 * eps)
    # δ(ε) < Φ(−x−): this μ is small enough; written so that neither sign of z cancels
    enough = -np.log(np.where(z > 0, 2 * eps / (np.abs(z) + root), np.abs(z) + root))
    log_scale = _decreasing_root(shortfall, _too_little_noise(shortfall, enough), enough)
    noise_scale: np.ndarray = (unit * np.exp(log_scale) * (1 + _ROUNDING))[()]
    return noise_scale


def classical_gaussian_epsilon(sensitivity: ArrayLike, noise_scale: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Return `√(2 ln(1.25/δ))·Δ/σ`, the classical epsilon, to compare with papers that use it.

    It is proved only where it is below 1; it is above the exact value up to about 8.5–10 and below it beyond, so
    use `gaussian_epsilon` for a statement about privacy.

    >>> round(float(classical_gaussian_epsilon(0.252, 0.085, 9.25e-9)), 2)
    18.14

    Dwork & Roth 2014, Theorem A.1.
    """
    mu, delta = _ratio_and_delta(sensitivity, noise_scale, delta)
    epsilon: np.ndarray = np.sqrt(2 * np.log(1.25 / delta)) * mu
    return epsilon


def classical_gaussian_noise_scale(sensitivity: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Return `√(2 ln(1.25/δ))·Δ/ε`, the classical noise scale; proved for epsilon below 1 only.

    >>> float(classical_gaussian_noise_scale(2.0, 0.5, 1e-5).round(3))
    19.379

    Dwork & Roth 2014, Theorem A.1.
    """
    require_positive("epsilon", epsilon)
    mu, delta = _ratio_and_delta(sensitivity, epsilon, delta)
    noise_scale: np.ndarray = np.sqrt(2 * np.log(1.25 / delta)) * mu
    return noise_scale


def _ratio(sensitivity: ArrayLike, noise_scale: ArrayLike) -> np.ndarray:
    """Return sensitivity / noise_scale after checking both."""
    sensitivity = np.asarray(sensitivity, float)
    require(np.isfinite(sensitivity) & (sensitivity >= 0), f"sensitivity must be at least 0, got {sensitivity}.")
    require_positive("noise_scale", noise_scale)
    with np.errstate(over="ignore"):
        ratio: np.ndarray = sensitivity / np.asarray(noise_scale, float)
        return ratio


def _ratio_and_delta(sensitivity: ArrayLike, scale: ArrayLike, delta: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the ratio and delta, checked and broadcast against each other."""
    require_probability("delta", delta)
    ratio, delta = np.broadcast_arrays(_ratio(sensitivity, scale), np.asarray(delta, float))
    return ratio, delta


def _total_variation(mu: np.ndarray) -> np.ndarray:
    """Return δ at ε = 0."""
    distance: np.ndarray = erf(mu / np.sqrt(8))
    return distance


def _log_density(x: np.ndarray) -> np.ndarray:
    """Return log φ(x)."""
    log_density: np.ndarray = -(x**2) / 2 - _HALF_LOG_2PI
    return log_density


def _log_mills(x: np.ndarray) -> np.ndarray:
    """Return log R(x) = log(Φ(−x)/φ(x))."""
    right = np.log(np.sqrt(np.pi / 2) * erfcx(np.maximum(x, 0) / np.sqrt(2)))
    log_mills: np.ndarray = np.where(x > 0, right, log_ndtr(-x) - _log_density(np.minimum(x, 0)))
    return log_mills


def _log_delta(y: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Return log δ at ε = μ·y."""
    with np.errstate(all="ignore"):  # the branch that is not taken may overflow
        wide = log_ndtr(mu / 2 - y) + np.log(-np.expm1(_log_mills(y + mu / 2) - _log_mills(y - mu / 2)))
        return np.where(mu > 1, wide, _log_delta_narrow(y, np.minimum(mu, 1.0))) if np.any(mu <= 1) else wide


def _log_delta_narrow(y: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Return log δ for μ ≤ 1, where R(x−) − R(x+) would cancel: as the integral of −R'(t) = 1 − t·R(t)."""
    t = y[..., None] + mu[..., None] / 2 * _LEGENDRE_NODES
    slope = np.maximum(1 - t * np.exp(_log_mills(t)), 0)  # t is between −½ and 39 wherever δ is a normal number
    log_delta: np.ndarray = _log_density(y - mu / 2) + np.log(mu / 2 * (slope @ _LEGENDRE_WEIGHTS))
    return log_delta


def _too_little_noise(shortfall: Decreasing, enough: np.ndarray) -> np.ndarray:
    """Return log noise scales at which delta is still too large, by going down from scales that are enough."""
    step, lower = 0.5, enough.copy()
    while np.any(short := shortfall(lower)[0] <= 0):
        lower, step = np.where(short, lower - step, lower), 2 * step
    return lower


def _decreasing_root(function: Decreasing, lower: np.ndarray, upper: np.ndarray, steps: int = 200) -> np.ndarray:
    """Return where a decreasing function crosses 0, by Newton's method kept inside [lower, upper], elementwise.

    `function` returns its value and its derivative.
    """
    x = upper
    for _ in range(steps):
        value, slope = function(x)
        lower, upper = np.where(value > 0, x, lower), np.where(value > 0, upper, x)
        with np.errstate(all="ignore"):
            newton = x - value / slope
        inside = (newton >= lower) & (newton <= upper)
        following = np.where(inside, newton, (lower + upper) / 2)
        done = np.abs(following - x) <= 1e-15 * np.abs(x)
        x = following
        if done.all():
            break
    return x
