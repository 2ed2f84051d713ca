"""What any attack can achieve at most: by Rényi divergences, by (ε, δ), by Gaussian noise.

For every event E and every order, `P(E) ≤ (e^{D_α} Q(E))^{(α−1)/α}`. An attack says "member" on an event, so this
bounds its true-positive rate by its false-positive rate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from seedscope.core import require, require_probability

PEOPLE_AT_ONCE = 64  # whose rates are held together
RATES = np.concatenate([[0.0], np.geomspace(1e-8, 0.01, 60), np.linspace(0.01, 1.0, 400)[1:]])


def true_positive_rate(rdp: ArrayLike, orders: ArrayLike, false_positive_rate: ArrayLike) -> np.ndarray:
    """Return the largest true-positive rate of any membership attack at a false-positive rate.

    Args:
        rdp: [..., order], divergences that hold in both directions.
        orders: one axis of orders α > 1.
        false_positive_rate: in [0, 1]; broadcasts with the leading axes of `rdp`.

    >>> orders = np.array([1.5, 2, 4, 8, 16, 32])
    >>> float(true_positive_rate(orders / 2 * 0.1, orders, 0.01).round(3))
    0.025

    GLA §2.2; van Erven & Harremoës 2014 for the inequality, used on the event and on its complement.
    """
    divergences, alpha = _checked(rdp, orders)
    require_probability("false_positive_rate", false_positive_rate, closed=True)
    rate = np.asarray(false_positive_rate, float)[..., None]
    power = (alpha - 1) / alpha
    with np.errstate(divide="ignore"):
        by_event = np.exp(np.minimum(power * (divergences + np.log(rate)), 0.0))
    # the complement, other direction: 1 − FPR ≤ (e^D (1 − TPR))^((α−1)/α)
    by_complement = 1 - np.exp(-divergences) * (1 - rate) ** (1 / power)
    rate_upper: np.ndarray = np.minimum(by_event, by_complement).min(axis=-1)[()]
    return rate_upper


def membership_advantage(rdp: ArrayLike, orders: ArrayLike) -> np.ndarray:
    """Return the largest difference of true- and false-positive rate of any membership attack.

    The smallest of the bound along all false-positive rates, and of the total variation distance by Pinsker and by
    Bretagnolle & Huber.

    >>> orders = np.array([1.5, 2, 4, 8, 16, 32])
    >>> float(membership_advantage(orders / 2 * 0.1, orders).round(3))        # the exact value is 0.126
    0.188
    """
    divergences, alpha = _checked(rdp, orders)
    smallest = divergences.min(axis=-1)  # every order's divergence is above that of order 1
    variation = np.minimum(np.sqrt(smallest / 2), np.sqrt(-np.expm1(-smallest)))
    flat = divergences.reshape(-1, len(alpha))
    parts = np.array_split(flat, max(1, -(-len(flat) // PEOPLE_AT_ONCE)))
    along = np.concatenate([_largest_gap(part, alpha) for part in parts]).reshape(smallest.shape)
    advantage: np.ndarray = np.minimum(variation, along)[()]
    return advantage


def _largest_gap(divergences: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return the largest difference of the rates [person] that divergences [person, order] allow."""
    # between two rates neither the bound rises above its right end nor the rate falls below its left one
    rates = true_positive_rate(divergences[:, None, :], alpha, RATES)
    largest: np.ndarray = np.max(rates[:, 1:] - RATES[:-1], axis=-1)
    return largest


def epsilon_advantage(epsilon: ArrayLike, delta: ArrayLike = 0.0) -> np.ndarray:
    """Return the largest membership advantage that (epsilon, delta) allows: (e^ε − 1 + 2δ)/(e^ε + 1).

    >>> float(epsilon_advantage(1.0).round(4))
    0.4621

    Humphries et al. 2023; with δ = 0, Yeom et al. 2018 sharpened.
    """
    e, d = np.asarray(epsilon, float), np.asarray(delta, float)
    require(e >= 0, f"epsilon must be at least 0, got {e}.")
    require_probability("delta", delta, closed=True)
    advantage: np.ndarray = np.minimum(np.tanh(e / 2) + 2 * d / (1 + np.exp(np.minimum(e, 700.0))), 1.0)[()]
    return advantage


def epsilon_true_positive_rate(epsilon: ArrayLike, delta: ArrayLike, false_positive_rate: ArrayLike) -> np.ndarray:
    """Return the largest true-positive rate that (epsilon, delta) allows at a false-positive rate.

    >>> float(epsilon_true_positive_rate(1.0, 1e-5, 0.01).round(4))
    0.0272

    Kairouz, Oh & Viswanath 2015.
    """
    require_probability("false_positive_rate", false_positive_rate, closed=True)
    e, d, f = (np.asarray(values, float) for values in (epsilon, delta, false_positive_rate))
    require(e >= 0, f"epsilon must be at least 0, got {e}.")
    growth = np.exp(np.minimum(e, 700.0))
    rate_upper: np.ndarray = np.minimum(np.minimum(growth * f + d, 1 - (1 - f - d) / growth), 1.0)[()]
    return rate_upper


def gaussian_true_positive_rate(ratio: ArrayLike, false_positive_rate: ArrayLike) -> np.ndarray:
    """Return the exact largest true-positive rate against Gaussian noise: Φ(Φ⁻¹(FPR) + μ), μ sensitivity over noise.

    For several steps without sampling, μ is the root of the sum of the squared ratios.

    >>> float(gaussian_true_positive_rate(1.0, 0.01).round(4))
    0.0924

    Dong, Roth & Su 2022.
    """
    mu = np.asarray(ratio, float)
    require(mu >= 0, f"ratio must be at least 0, got {mu}.")
    require_probability("false_positive_rate", false_positive_rate, closed=True)
    rate: np.ndarray = ndtr(ndtri(np.asarray(false_positive_rate, float)) + mu)
    return rate


def _checked(rdp: ArrayLike, orders: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return divergences [..., order] and orders, checked."""
    divergences, alpha = np.asarray(rdp, float), np.asarray(orders, float)
    require(alpha.ndim == 1 and np.all(alpha > 1), f"orders must be one axis of numbers above 1, got {alpha}.")
    fits = divergences.shape[-1:] == alpha.shape
    require(fits, f"rdp must have one value per order on its last axis, got {divergences.shape} and {alpha.shape}.")
    require(divergences >= 0, "rdp must be at least 0 and not NaN.")
    return divergences, alpha
