"""A step of any update rule, such as the mean over the batch: bounded from sampled updates (GLA Theorem 3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from seedscope.core import Number, require, require_count, require_positive

TUPLES = 4000
REPETITIONS = 8


@dataclass(frozen=True, eq=False)
class GeneralStep:
    """Both directions of one step's divergence at one order, estimates with their spread over parts of the samples."""

    with_without: Number
    without_with: Number
    order: int

    @property
    def rdp(self) -> Number:
        """The larger direction."""
        return max(self.with_without, self.without_with, key=float)


def general_step_rdp(
    updates_numerator: ArrayLike,
    updates_denominator: ArrayLike,
    noise_scale: float,
    order: ArrayLike,
    *,
    tuples: int = TUPLES,
    seed: int = 0,
) -> np.ndarray:
    """Return an estimate of a bound on D_α(numerator‖denominator) of one noisy step, for any update rule.

    `E_v ln E_{u_1…u_α} exp(Σ_{i≠j} (u_i − v)·(u_j − v)/2σ²)/(α − 1)` over independent updates u of the numerator's
    data and v of the denominator's. One Gram matrix of the sampled updates serves every order and every tuple of
    distinct u; tuples are all of them where there are at most `tuples`, otherwise a random choice. The logarithm of a
    sample mean is biased low: an estimate. Swap the first two arguments for the other direction.

    Args:
        updates_numerator: [sample, parameter], updates (without noise) of independent batches of one data set.
        updates_denominator: [sample, parameter], of the neighbouring data set. An empty batch gives 0.
        noise_scale: standard deviation of the noise on an update, in its units.
        order: integers α of at least 2 and at most the number of numerator samples, any shape.
        tuples: most tuples of u evaluated.
        seed: of the choice of tuples.

    >>> u, v = np.tile([1.0, 0.0], (9, 1)), np.zeros((3, 2))
    >>> general_step_rdp(u, v, noise_scale=2.0, order=[2, 8]).tolist()          # no batches to mix: α s²/2σ²
    [0.25, 1.0]

    GLA Theorem 3.6.
    """
    u, v = _checked_updates(updates_numerator), _checked_updates(updates_denominator)
    require(u.shape[1] == v.shape[1], f"updates must have the same parameters, got {u.shape[1]} and {v.shape[1]}.")
    require_positive("noise_scale", noise_scale)
    orders = np.asarray(order)
    draw = np.random.default_rng(seed)
    gram = _Gram(u / noise_scale, v / noise_scale)
    values = [gram.divergence(_indicators(len(u), _checked_order(one, len(u)), tuples, draw)) for one in orders.ravel()]
    return np.reshape(values, orders.shape)[()]


def general_step(
    updates_with: ArrayLike,
    updates_without: ArrayLike,
    noise_scale: float,
    order: int,
    *,
    tuples: int = TUPLES,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> GeneralStep:
    """Return both directions of a step's divergence with their spread.

    `lower` and `upper` are the smallest and largest value over `repetitions` halves of the samples, drawn at random.

    >>> draw = np.random.default_rng(0)
    >>> step = general_step(draw.normal(size=(40, 3)) + 0.1, draw.normal(size=(40, 3)), 10.0, 2)
    >>> step.rdp.kind, step.rdp.lower <= float(step.rdp) <= step.rdp.upper
    ('estimate', True)
    """
    samples = _checked_updates(updates_with), _checked_updates(updates_without)
    require_count("repetitions", repetitions)
    draw = np.random.default_rng(seed)
    halves = [tuple(_half(one, order, draw) for one in samples) for _ in range(repetitions)]

    def direction(first: int, second: int) -> Number:
        def value(pair: tuple[np.ndarray, ...]) -> float:
            return float(general_step_rdp(pair[first], pair[second], noise_scale, order, tuples=tuples, seed=seed))

        spread, whole = [value(pair) for pair in halves], value(samples)
        return Number(whole, "estimate", lower=min(whole, *spread), upper=max(whole, *spread))

    return GeneralStep(direction(0, 1), direction(1, 0), order)


class _Gram:
    """Inner products of sampled updates, in units of the noise."""

    def __init__(self, u: np.ndarray, v: np.ndarray):
        self.among = u @ u.T
        self.between = u @ v.T
        self.own = np.einsum("vd,vd->v", v, v)

    def divergence(self, indicators: np.ndarray) -> float:
        """Return the bound for tuples given as rows of 0 and 1 over the samples of u."""
        order = int(indicators[0].sum())
        pairs = np.einsum("mk,mk->m", indicators @ self.among, indicators) - indicators @ np.diag(self.among)
        # Σ_{i≠j} (u_i − v)(u_j − v) = Σ_{i≠j} u_i u_j − 2(α−1) Σ_i u_i v + α(α−1) v v
        exponents = pairs[:, None] - 2 * (order - 1) * (indicators @ self.between) + order * (order - 1) * self.own
        logs = logsumexp(exponents / 2, axis=0) - np.log(len(indicators))
        return max(0.0, float(logs.mean()) / (order - 1))


def _indicators(samples: int, order: int, tuples: int, draw: np.random.Generator) -> np.ndarray:
    """Return tuples of distinct samples as rows of 0 and 1: all of them, or a random choice."""
    if comb(samples, order) <= tuples:
        chosen = np.array(list(combinations(range(samples), order)))
    else:
        chosen = draw.random((tuples, samples)).argpartition(order - 1, axis=1)[:, :order]
    rows = np.zeros((len(chosen), samples))
    np.put_along_axis(rows, chosen, 1.0, axis=1)
    return rows


def _half(samples: np.ndarray, order: int, draw: np.random.Generator) -> np.ndarray:
    """Return a random half of the samples, but at least as many as the order needs."""
    size = min(len(samples), max(-(-len(samples) // 2), order))
    return samples[draw.permutation(len(samples))[:size]]


def _checked_updates(updates: ArrayLike) -> np.ndarray:
    """Return updates [sample, parameter] as float64, finite."""
    array = np.asarray(updates, float)
    require(array.ndim == 2 and len(array) > 0, f"updates must be [sample, parameter], got shape {array.shape}.")
    require(np.isfinite(array), "updates must be finite.")
    return array


def _checked_order(order: float, samples: int) -> int:
    """Return the order as an integer that the number of samples allows."""
    whole = float(order).is_integer() and order >= 2
    require(whole, f"order must be a whole number of at least 2, got {order}.")
    require(order <= samples, f"order {int(order)} needs at least as many sampled updates, got {samples}.")
    return int(order)
