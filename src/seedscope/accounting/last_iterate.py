"""What the last weights of noisy descent tell, if no step before them is ever seen (docs/mechanisms.md has the proof).

Where every step brings any two weights nearer to each other, by the factor c < 1 at least, what a person changed early
fades, and later noise hides it. Altschuler & Talwar 2022; Bok, Su & Altschuler 2024.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting.conversions import DEFAULT_ORDERS, dpsgd_epsilon, rdp_to_epsilon
from seedscope.accounting.gaussian import gaussian_epsilon
from seedscope.accounting.sampled_gaussian import sampled_gaussian_rdp
from seedscope.core import require, require_count

SHARES = np.linspace(0.05, 0.95, 19)  # of the noise's variance that hide what earlier steps left
WINDOWS = 40  # numbers of last steps that are tried


def last_iterate_epsilon(
    noise_multiplier: float,
    sampling_probability: float,
    steps: int,
    contraction: float,
    delta: float,
    orders: ArrayLike = DEFAULT_ORDERS,
) -> float:
    """Return the ε of the last of `steps` contracting steps, one row added or removed; rounded up.

    Args:
        noise_multiplier: a step's noise over the largest norm of a clipped gradient, σ > 0.
        sampling_probability: chance q of each row to be in a batch; 1 is all rows in every step.
        steps: number of steps T, at least 1.
        contraction: the factor c in [0, 1] by which a step without noise brings weights nearer, whatever the batch.
        delta: in (0, 1).
        orders: Rényi orders to minimise over, one axis, where q < 1.

    >>> round(last_iterate_epsilon(20.0, 1.0, 10_000, 0.99, 1e-5), 3)
    2.935
    >>> round(float(dpsgd_epsilon(20.0, 1.0, 10_000, 1e-5)), 1)  # if every step is seen
    35.1

    With q = 1 it is exact for descent on quadratics: a Gaussian mechanism of ratio √kept_steps/σ.
    """
    require_count("steps", steps)
    require(0 <= contraction <= 1, f"contraction must be between 0 and 1, got {contraction}.")
    every_step = float(dpsgd_epsilon(noise_multiplier, sampling_probability, steps, delta, orders))
    if sampling_probability == 1:
        last = float(gaussian_epsilon(math.sqrt(kept_steps(steps, contraction)), noise_multiplier, delta))
        return min(every_step, last)
    rdp = last_iterate_rdp(noise_multiplier, sampling_probability, steps, contraction, orders)
    return min(every_step, float(rdp_to_epsilon(rdp, orders, delta).min()))


def kept_steps(steps: int, contraction: float) -> float:
    """Return how many steps' worth of a person the last weights keep: (1 − cᵀ)(1 + c) / (1 + cᵀ)(1 − c).

    >>> kept_steps(100, 1.0), round(kept_steps(10**6, 0.9), 9), kept_steps(7, 0.0)
    (100.0, 19.0, 1.0)
    """
    if contraction == 1:
        return float(steps)
    faded = contraction**steps
    return (1 - faded) * (1 + contraction) / ((1 + faded) * (1 - contraction))


def last_iterate_rdp(
    noise_multiplier: float, sampling_probability: float, steps: int, contraction: float, orders: ArrayLike
) -> np.ndarray:
    """Return bounds [share, window, order] on the Rényi divergence of the last weights; every one of them holds.

    In the last `window` steps a person costs what sampled noise lets through, with the variance's other share; what the
    steps before may have moved is hidden bit by bit, by steps that contract and by the share.
    """
    windows = np.unique(np.geomspace(1, steps, WINDOWS).round().astype(int))
    left = np.array([_left(int(window), steps, contraction) for window in windows])
    alpha, share = np.asarray(orders, float), SHARES[:, None]
    sampled = sampled_gaussian_rdp(1.0, noise_multiplier * np.sqrt(1 - share), sampling_probability, alpha)
    hidden = left[:, None] * alpha / (2 * share[..., None] * noise_multiplier**2)
    bounds: np.ndarray = windows[:, None] * sampled[:, None] + hidden
    return bounds


def _left(window: int, steps: int, contraction: float) -> float:
    """Return the least Σ aₖ² of shifts that undo, in the last `window` steps, what the steps before may have moved.

    They may have moved D = Σ cᵏ, of which c^window·D would be left: Σ c^(window − k)·aₖ must be as much.
    """
    fading = contraction ** np.arange(max(window, steps - window), dtype=float)
    moved = float(fading[: steps - window].sum())
    return (contraction**window * moved) ** 2 / float((fading[:window] ** 2).sum())
