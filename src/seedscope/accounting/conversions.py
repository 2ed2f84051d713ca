"""From Rényi divergences to (epsilon, delta), for a whole run of DP-SGD, and back to the noise it needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting.sampled_gaussian import sampled_gaussian_rdp
from seedscope.core import (
    Relation,
    SeedscopeError,
    require,
    require_count,
    require_numbers,
    require_positive,
    require_probability,
)

DEFAULT_ORDERS: tuple[float, ...] = (
    *(1 + tenth / 10 for tenth in range(1, 100)),
    *map(float, range(11, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)
"""The orders over which an epsilon is minimised unless others are given."""

_LARGEST_NOISE = 1e8
_TOLERANCE = 1e-6


def rdp_to_epsilon(rdp: ArrayLike, orders: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Return the smallest epsilon at `delta` that the Rényi divergences prove, rounded up.

    `ε = min_α D_α + ln((α−1)/α) − (ln δ + ln α)/(α−1)`; and ε = 0 where `√(1 − e^(−D_α)) ≤ δ`, because that bounds the
    total variation distance.

    Args:
        rdp: divergences, the last axis along `orders`; infinite values are allowed and ignored.
        orders: one axis of orders α > 1.
        delta: in (0, 1), broadcasts with the leading axes of `rdp`.

    >>> orders = np.array([2.0, 8.0, 16.0, 32.0])
    >>> float(rdp_to_epsilon(orders / 2, orders, 1e-5).round(4))     # the Gaussian mechanism with σ = 1; exact: 4.377
    5.2141

    Canonne, Kamath & Steinke 2020, "The discrete Gaussian for differential privacy", Proposition 12; the second part
    is the Bretagnolle–Huber inequality.
    """
    require_probability("delta", delta)
    alpha, divergence = np.asarray(orders, float), np.asarray(rdp, float)
    require(alpha > 1, f"orders must be above 1, got {alpha}.")
    require(divergence >= 0, "rdp must be at least 0 and not NaN.")
    require(
        alpha.ndim == 1 and alpha.size > 0 and divergence.shape[-1:] == alpha.shape,
        f"rdp must have one value per order on its last axis, got shapes {divergence.shape} and {alpha.shape}.",
    )
    d = np.asarray(delta, float)[..., None]
    tail = (np.log(d) + np.log(alpha)) / (alpha - 1)
    epsilon = divergence + np.log1p(-1 / alpha) - tail
    epsilon += 4 * np.finfo(float).eps * (divergence + np.abs(tail) + 1)
    indistinguishable = -np.expm1(-divergence) <= d**2 * (1 - 1e-15)
    smallest: np.ndarray = np.maximum(np.where(indistinguishable, 0.0, epsilon), 0.0).min(axis=-1)[()]
    return smallest


def dpsgd_epsilon(
    noise_multiplier: ArrayLike,
    sampling_probability: ArrayLike,
    steps: ArrayLike,
    delta: ArrayLike,
    orders: ArrayLike = DEFAULT_ORDERS,
    relation: Relation = "add_or_remove",
) -> np.ndarray:
    """Return the data-independent epsilon of DP-SGD with Poisson batches, a proved upper bound, rounded up.

    Args:
        noise_multiplier: noise standard deviation over the clipping norm, σ > 0; all arguments broadcast.
        sampling_probability: chance q of each example to be in a batch. Shuffled batches are *not* Poisson batches:
            this bound does not hold for them.
        steps: number of steps, at least 1.
        delta: in (0, 1).
        orders: Rényi orders to minimise over, one axis.
        relation: `"add_or_remove"` or `"replace_one"`.

    >>> float(dpsgd_epsilon(1.0, 0.01, 1000, 1e-5).round(3))
    2.101

    Abadi et al. 2016; Mironov et al. 2019; Canonne et al. 2020.
    """
    require(require_numbers("steps", steps) >= 1, f"steps must be at least 1, got {steps!r}.")
    noise, q = (np.asarray(value, float)[..., None] for value in (noise_multiplier, sampling_probability))
    step_rdp = sampled_gaussian_rdp(1.0, noise, q, orders, relation)
    return rdp_to_epsilon(np.asarray(steps, float)[..., None] * step_rdp, orders, delta)


def personal_budget(
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    sampling_probability: float,
    orders: ArrayLike = DEFAULT_ORDERS,
) -> tuple[float, float]:
    """Return (order, divergence): what a person may spend at a fixed Rényi order within (epsilon, delta), rounded down.

    Of all orders the one at which a person whose gradients are all as long as the clipping norm lasts longest: it is
    chosen by public numbers alone, as a filter's order must be.

    >>> order, divergence = personal_budget(2.0, 1e-5, 1.0, 0.01)
    >>> bool(rdp_to_epsilon([divergence], [order], 1e-5) <= 2.0), order
    (True, 7.9)

    Feldman & Zrnic 2021, "Individual privacy accounting via a Rényi filter".
    """
    require_positive("epsilon", epsilon)
    require_probability("delta", delta)
    alpha = np.asarray(orders, float)
    left = epsilon - np.log1p(-1 / alpha) + (np.log(delta) + np.log(alpha)) / (alpha - 1)
    lasts = left / sampled_gaussian_rdp(1.0, noise_multiplier, sampling_probability, alpha)
    best = int(np.argmax(lasts))
    require(left[best] > 0, f"a personal budget of {epsilon:g} at delta={delta:g} allows nothing; give a larger one.")
    return float(alpha[best]), float(left[best]) * (1 - 1e-9)


def dpsgd_noise_multiplier(
    epsilon: float,
    delta: float,
    sampling_probability: float,
    steps: int,
    orders: ArrayLike = DEFAULT_ORDERS,
    relation: Relation = "add_or_remove",
) -> float:
    """Return the smallest noise multiplier that makes DP-SGD (epsilon, delta)-private, rounded up by at most 1e-6.

    >>> noise = dpsgd_noise_multiplier(epsilon=2.0, delta=1e-5, sampling_probability=0.01, steps=1000)
    >>> round(noise, 3), bool(dpsgd_epsilon(noise, 0.01, 1000, 1e-5) <= 2.0)
    (1.022, True)
    """
    require_positive("epsilon", epsilon)
    require_probability("sampling_probability", sampling_probability, closed=True)
    require(
        sampling_probability > 0, "sampling_probability must be above 0: without sampling there is nothing to hide."
    )
    require_count("steps", steps)

    def private(noise: float) -> bool:
        return bool(dpsgd_epsilon(noise, sampling_probability, steps, delta, orders, relation) <= epsilon)

    return smallest_noise(private, f"epsilon={epsilon:g} at delta={delta:g}")


def smallest_noise(private: Callable[[float], bool], goal: str, tolerance: float = _TOLERANCE) -> float:
    """Return the smallest noise that is private, by doubling and then bisection on the logarithm, from above."""
    upper = 1.0
    while not private(upper):
        upper *= 2
        if upper > _LARGEST_NOISE:
            raise SeedscopeError(f"no noise multiplier up to {_LARGEST_NOISE:g} reaches {goal}; give larger orders.")
    lower = upper / 2
    while private(lower) and lower > 1 / _LARGEST_NOISE:
        lower, upper = lower / 2, lower
    while upper > lower * (1 + tolerance):
        middle = float(np.sqrt(lower * upper))
        lower, upper = (lower, middle) if private(middle) else (middle, upper)
    return upper
