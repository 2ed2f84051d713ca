"""A step of any update rule, such as the mean over the batch: bounded from sampled updates (GLA Theorem 3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator
from scipy.special import gammaln, logsumexp, xlogy

from seedscope.core import Number, require, require_count, require_positive, require_probability

TUPLES = 4000
REFERENCES, FRESH_TUPLES = 8, 16  # batches of the denominator, and tuples drawn one by one for each
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


def sampled_step_rdp(
    updates_without: ArrayLike,
    updates_with: ArrayLike,
    noise_scale: float,
    sampling_probability: float,
    order: ArrayLike,
    *,
    references: int = REFERENCES,
    tuples: int = FRESH_TUPLES,
    seed: int = 0,
) -> np.ndarray:
    """Return Theorem 3.6, estimated [direction, ...], for a person drawn with chance q: with‖without, without‖with.

    Of a few sampled batches hardly any has the person in it (at q = .002 none of 20), and tuples of batches that pull
    the same way are rare, yet of both a high order's mean is made. So tuples with j such batches are drawn for several
    j, and their means put together by the known chance of j, `C(α,j) q^j (1−q)^(α−j)`; and a tuple is drawn one by
    one, u_{k+1} with a chance in proportion to `exp((u_{k+1} − v)·Σ_{i≤k}(u_i − v)/σ²)`: the product of what these add
    up to has the mean over all tuples of distinct batches as its own. The logarithm is an estimate, biased low.

    Args:
        updates_without: [batch, parameter], updates (without noise) of batches of the others; more than the order.
        updates_with: [batch, parameter], of the same batches with the person in them.
        noise_scale: standard deviation of the noise on an update, in its units.
        sampling_probability: q in [0, 1].
        order: integers α of at least 2, any shape.
        references: how many of the batches are taken as v, at most; the others are for u.
        tuples: fresh ones, for each v.
        seed: of their choice.

    >>> nobody, person = np.zeros((70, 1)), np.full((70, 1), 0.5)            # nobody else: it is the sum rule's step
    >>> from seedscope.accounting import sampled_gaussian_rdp
    >>> found = sampled_step_rdp(nobody, person, 1.0, 0.01, [2, 8, 64])[0]
    >>> bool(np.allclose(found, sampled_gaussian_rdp(0.5, 1.0, 0.01, [2, 8, 64]), rtol=0.1))
    True

    GLA Theorem 3.6.
    """
    without, drawn = _checked_updates(updates_without), _checked_updates(updates_with)
    require(without.shape == drawn.shape, "updates_with must be of the same batches as updates_without.")
    require_positive("noise_scale", noise_scale)
    require_probability("sampling_probability", sampling_probability, closed=True)
    for name, count in (("references", references), ("tuples", tuples)):
        require_count(name, count)
    orders = np.asarray(order)
    most = max(_checked_order(one, len(without) - 1) for one in orders.ravel())
    draw, q = np.random.default_rng(seed), sampling_probability
    mixed, kept = draw.permutation(len(without)), min(references, len(without) - most)
    pair = np.stack([without, drawn]) / noise_scale
    gram = _Gram(np.concatenate(pair[:, mixed[kept:]]), np.concatenate(pair[:, mixed[:kept]]))
    strata = _strata(orders.ravel())
    without_person, either = slice(0, kept), slice(0, 2 * kept)
    drawn_often = _fresh_log_means(gram, without_person, strata, most, tuples, draw)
    never_drawn = _fresh_log_means(gram, either, np.array([0]), most, tuples, draw)[0].reshape(most, 2, kept).mean(2)
    found = [
        [_over_strata(drawn_often[:, one - 1], strata, one, q).mean(), np.dot([1 - q, q], never_drawn[one - 1])]
        for one in orders.ravel().astype(int)
    ]
    logs = np.moveaxis(np.reshape(found, (*orders.shape, 2)), -1, 0)
    return np.asarray(np.maximum(logs / (orders - 1), 0.0))


def _strata(orders: np.ndarray) -> np.ndarray:
    """Return the numbers of batches with the person for which tuples are drawn: small ones, orders, some between."""
    most = int(orders.max())
    some = np.geomspace(1, most, 2 + int(2 * np.log2(most))).round()
    return np.unique([0, 1, 2, 3, *some, *orders]).astype(int)


def _over_strata(logs: np.ndarray, strata: np.ndarray, order: int, q: float) -> np.ndarray:
    """Return ln Σ_j C(α,j) q^j (1−q)^(α−j) e^(logs_j) [v] from logarithms [stratum, v], smooth between the strata."""
    known = strata <= order
    every = PchipInterpolator(strata[known], logs[known])(np.arange(order + 1))
    return np.asarray(logsumexp(every + _log_binomial(order, q)[:, None], axis=0))


def _log_binomial(trials: int, chance: float) -> np.ndarray:
    """Return the logarithm of the chance of each number of successes, from 0 to all."""
    k = np.arange(trials + 1)
    counts = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    return np.asarray(counts + xlogy(k, chance) + xlogy(trials - k, 1 - chance))


def _fresh_log_means(
    gram: _Gram, columns: slice, strata: np.ndarray, most: int, tuples: int, draw: np.random.Generator
) -> np.ndarray:
    """Return ln E exp(Σ_{i≠j} (u_i − v)·(u_j − v)/2σ²) [stratum, order − 1, v], the first batches of u with the person.

    The first half of the products' rows are batches without the person, the second half the same ones with them.
    """
    between, own = gram.between[:, columns].T, gram.own[columns]
    batches, shape = len(gram.among) // 2, (len(strata), len(own), tuples)
    pulls = np.zeros((*shape, 2, batches))  # (u − v)·Σ(u_i − v)/σ² of every batch, without the person and with
    logs, found, columns_of = np.zeros(shape), [], np.arange(len(own))[:, None]
    for chosen in range(most):
        way = (chosen < strata).astype(int)
        directed = pulls[np.arange(len(strata)), :, :, way]
        largest = directed.max(axis=-1)
        running = np.cumsum(np.exp(directed - largest[..., None]), axis=-1)
        logs = logs + largest + np.log(running[..., -1] / (batches - chosen))
        found.append(logsumexp(logs, axis=-1) - np.log(tuples))
        batch = (running < draw.random((*shape, 1)) * running[..., -1:]).sum(axis=-1)
        at = batch + batches * way[:, None, None]
        more = gram.among[at] - between[columns_of, at][..., None] - between[:, None] + own[:, None, None]
        pulls += more.reshape(pulls.shape)
        np.put_along_axis(pulls, batch[..., None, None], -np.inf, axis=-1)  # a batch is taken once
    return np.stack(found, axis=1)


class _Gram:
    """Inner products of sampled updates, in units of the noise."""

    def __init__(self, u: np.ndarray, v: np.ndarray):
        self.among = u @ u.T
        self.between = u @ v.T
        self.own = np.einsum("vd,vd->v", v, v)

    def divergence(self, indicators: np.ndarray) -> float:
        """Return the bound for tuples given as rows of 0 and 1 over the samples of u."""
        order = int(indicators[0].sum())
        return max(0.0, float(self.log_means(indicators).mean()) / (order - 1))

    def log_means(self, indicators: np.ndarray) -> np.ndarray:
        """Return ln mean exp(Σ_{i≠j} (u_i − v)·(u_j − v)/2σ²) over the tuples, for each v."""
        order = int(indicators[0].sum())
        pairs = np.einsum("mk,mk->m", indicators @ self.among, indicators) - indicators @ np.diag(self.among)
        # Σ_{i≠j} (u_i − v)(u_j − v) = Σ_{i≠j} u_i u_j − 2(α−1) Σ_i u_i v + α(α−1) v v
        exponents = pairs[:, None] - 2 * (order - 1) * (indicators @ self.between) + order * (order - 1) * self.own
        logs: np.ndarray = logsumexp(exponents / 2, axis=0) - np.log(len(indicators))
        return logs


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
