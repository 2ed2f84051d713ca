"""Rényi moments of the sampled Gaussian mechanism by quadrature: any order, both neighbour relations.

In units of the sensitivity the noise has variance `v = 1/c`. The pairs of output distributions are
`P = (1−q)N(0, v) + qN(1, v)` against `Q = N(0, v)` (add or remove) or `Q = (1−q)N(0, v) + qN(−1, v)` (replace one).
The moment is `A = ∫ P^α Q^(1−α)`; with `w = P/Q − 1`, whose mean under Q is 0, the *excess* is

    A − 1 = ∫ Q · G(w),        G(w) = (1 + w)^α − 1 − αw ≥ 0,

a positive integrand, so that small excesses keep all their digits. It is analytic in a strip around the real line,
where the trapezoidal rule converges geometrically: the step below makes its relative error about e^−40.
"""

from __future__ import annotations

import numpy as np

_LOG_ACCURACY = 40.0  # the discretisation error is about e^-40 of the result
_TAIL = 9.5  # standard deviations kept beyond the outermost peak: a tail of e^-45
_MOST_NODES = 2**22  # beyond (orders near 1 at noise below 0.002) the closed-form upper bound is used
_BLOCK = 2**17  # integrand values held at once


def log_excess(c: np.ndarray, q: np.ndarray, alpha: np.ndarray, replace: bool) -> np.ndarray:
    """Return log(A − 1), elementwise over flat arrays, with 0 < c < ∞, 0 < q < 1 and α > 1.

    Where a closed-form upper bound is within about 1e-13 of the truth it is used, which keeps the integrals short.
    """
    result = _log_upper(c, q, alpha, replace)
    lower, step, count = _nodes(c, alpha, replace)
    pending = np.flatnonzero(~_upper_is_tight(c, q, alpha, replace) & (count <= _MOST_NODES))
    pending = pending[np.argsort(count[pending], kind="stable")]
    while pending.size:
        width = int(count[pending[min(pending.size, max(1, int(_BLOCK / count[pending[0]]))) - 1]])
        block, pending = np.split(pending, [max(1, _BLOCK // width)])
        z = lower[block, None] + step[block, None] * np.arange(count[block].max())
        terms = _log_integrand(z, c[block, None], q[block, None], alpha[block, None], replace)
        largest = terms.max(axis=1)
        sums = np.exp(terms - largest[:, None]).sum(axis=1)
        result[block] = largest + np.log(sums) + np.log(step[block]) + 0.5 * np.log(c[block] / (2 * np.pi))
    return result


def _log_upper(c: np.ndarray, q: np.ndarray, alpha: np.ndarray, replace: bool) -> np.ndarray:
    """Return log(A' − 1) of a proved upper bound A' of the moment.

    Add or remove: Minkowski's inequality, `A^(1/α) ≤ 1 − q + q·e^((α−1)c/2)`. Replace one: `Q ≥ (1−q)N(0, v)` adds a
    factor (1−q)^(1−α); joint convexity gives `A ≤ 1 − q + q·e^(2α(α−1)c)`; the smaller of both.
    """
    log_a = alpha * _log_mixture(q, (alpha - 1) * c / 2)
    if replace:
        log_a = np.minimum(log_a + (1 - alpha) * np.log1p(-q), _log_mixture(q, 2 * alpha * (alpha - 1) * c))
    return _log_expm1(log_a)


def _upper_is_tight(c: np.ndarray, q: np.ndarray, alpha: np.ndarray, replace: bool) -> np.ndarray:
    """Say where `_log_upper` is within a relative 1e-13 of the truth.

    `A ≥ q^α e^(α(α−1)c/2)`, and for replace-one `A ≥ q^α (1−q)^(1−α) e^(α(α−1)c/2)·(1 − (α−1)·q/(1−q)·e^(−αc))`.
    """
    tight: np.ndarray = (alpha - 1) * c / 2 + np.log(q) > 30
    if replace:
        tight &= alpha * c - np.log((alpha - 1) * q / (1 - q)) > 34
    return tight


def _nodes(c: np.ndarray, alpha: np.ndarray, replace: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first node, the step and the number of nodes of the trapezoidal rule.

    The integrand is a positive mixture of Gaussians of variance v centred between −1 and 2α − 1 (or 3, where that is
    more; 0 and α, or 2, for add-or-remove). At height θ·πv in the complex plane it has grown by at most
    exp((πθ)²(v/2 + growth)) and the discretisation error is e^(−2π·θπv/step) of that; θ minimises the work.
    """
    v = 1 / c
    growth = (alpha - 1) / 8 if replace else np.zeros_like(alpha)  # of Q^(1−α), which is singular at θ = 1
    rate = np.pi**2 * (v / 2 + growth)
    theta = np.minimum(np.sqrt(_LOG_ACCURACY / rate), 0.5 if replace else 0.9)
    step = 2 * np.pi**2 * v * theta / (_LOG_ACCURACY + theta**2 * rate)
    margin = _TAIL * np.sqrt(v)
    lower = -margin - (1.0 if replace else 0.0)
    upper = margin + (np.maximum(2 * alpha - 1, 3.0) if replace else np.maximum(alpha, 2.0))
    return lower, step, np.minimum(np.ceil((upper - lower) / step) + 1, 2.0**40).astype(np.int64)


def _log_integrand(z: np.ndarray, c: np.ndarray, q: np.ndarray, alpha: np.ndarray, replace: bool) -> np.ndarray:
    """Return the log of exp(−cz²/2)·(Q/N)·G(w) at the nodes z, N the density of N(0, v)."""
    log_ratio = _log_mixture(q, (2 * z - 1) * c / 2)
    log_base = -c * z**2 / 2
    if replace:
        log_denominator = _log_mixture(q, (-2 * z - 1) * c / 2)
        log_ratio, log_base = log_ratio - log_denominator, log_base + log_denominator
    log_integrand: np.ndarray = log_base + _log_remainder(log_ratio, alpha)
    return log_integrand


def _log_mixture(q: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Return log(1 − q + q·e^exponent), exact to the last digits for small and for huge exponents."""
    small: np.ndarray = np.log1p(q * np.expm1(np.minimum(exponent, 700.0)))
    if not np.any(exponent > 700):
        return small
    mixture: np.ndarray = np.where(exponent > 700, np.logaddexp(np.log1p(-q), np.log(q) + exponent), small)
    return mixture


def _log_expm1(x: np.ndarray) -> np.ndarray:
    """Return log(e^x − 1) for x ≥ 0."""
    with np.errstate(divide="ignore"):
        log_difference: np.ndarray = x + np.log(-np.expm1(-x))
        return log_difference


def _log_remainder(log_ratio: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return log G(w) with 1 + w = e^log_ratio: a series near 0, directly in between, in logs when large."""
    w = np.expm1(np.minimum(log_ratio, 700.0))
    power = alpha * log_ratio
    with np.errstate(divide="ignore", invalid="ignore"):
        result: np.ndarray = np.log(np.expm1(np.minimum(power, 30.0)) - alpha * w)
        large = power > 30
        if large.any():
            linear = np.where(log_ratio > 30, np.log(alpha) + log_ratio, np.log1p(alpha * np.maximum(w, 0)))
            result = np.where(large, power + np.log(-np.expm1(np.minimum(linear - power, 0.0))), result)
        small = np.abs(w) * alpha < 0.1
        if small.any():
            result = np.where(small, np.log(_binomial_tail(np.where(small, w, 0.0), alpha)), result)
    return result


def _binomial_tail(w: np.ndarray, alpha: np.ndarray, terms: int = 16) -> np.ndarray:
    """Return Σ_{k ≥ 2} C(α, k) w^k, for |w|·α < 0.1."""
    total = np.zeros_like(w)
    for k in range(terms, 1, -1):  # Horner's scheme: C(α, k+1)/C(α, k) = (α−k)/(k+1)
        total = 1 + (alpha - k) / (k + 1) * w * total
    tail: np.ndarray = alpha * (alpha - 1) / 2 * w * w * total
    return tail
