"""The same composition for everybody at once: tens of thousands of people, thousands of steps, several orders.

Sensitivities are rounded up to bins a few thousandths apart, and the orders and temperatures of neighbouring steps up
to common ones. With A = e^((α−1)·D_α), the function (A − 1)/(α(α−1)) of α is a mixture of exponentials, so its
logarithm is convex and a straight line between two tabulated orders lies above it. All of that rounds up: the result
is never below that of `expected_contributions`, and about one percent above it (more only at the order where a
divergence takes off); but each divergence is looked up instead of computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import bin_edges, binned_up, divergence_table, sampled_gaussian_rdp
from seedscope.analyses.per_instance.composition import (
    LARGE_EXPONENT,
    default_holder,
    hoeffding_width,
    step_orders,
    upper_contributions,
)
from seedscope.core import require, require_positive, require_probability

GROUPS = 400  # of steps that share an order and a temperature
PEOPLE_AT_ONCE = 8192
FIRST_ORDER, ORDER_RATIO = 0.05, 1.009  # tabulated orders: α − 1 is FIRST_ORDER times powers of the ratio


def everybodys_rdp(
    sensitivities: ArrayLike,
    noise_multiplier: float,
    sampling_probability: float,
    orders: ArrayLike,
    holder: float | None = None,
    *,
    clipping_norm: float = 1.0,
    every: int = 1,
    steps: int | None = None,
    confidence: float | None = None,
    covered: int = 1,
) -> np.ndarray:
    """Return each person's divergence of a whole run [person, order], never above the data-independent one.

    Like `compose_expected`, for many people: the same theorem, rounded up. With `confidence` it is the bound of
    `statistical_contributions`.

    Args:
        sensitivities: [run, state, person], gradient norms, clipped or not, at the states before steps 0, k, 2k, …
        noise_multiplier: standard deviation of the noise over the clipping norm.
        sampling_probability: q in [0, 1].
        orders: one axis of orders α > 1.
        holder: the Hölder constant; by default 3n.
        clipping_norm: in the units of the norms.
        every: how many steps k a recorded state stands for.
        steps: of the run; by default states × k.
        confidence: in (0, 1); needs every state (k = 1), and a Hölder constant fixed before seeing the runs.
        covered: how many people, orders and directions the confidence is for, together.

    >>> norms = np.random.default_rng(0).exponential(0.2, size=(3, 50, 7))
    >>> everybodys_rdp(norms, 1.0, 0.01, [2.0, 8.0]).shape
    (7, 2)

    GLA Theorem 3.3.
    """
    norms, alphas = np.asarray(sensitivities), np.asarray(orders, float)
    require(norms.ndim == 3 and norms.size > 0, f"sensitivities must be [run, state, person], got {norms.shape}.")
    require(alphas.ndim == 1 and np.all(alphas > 1), f"orders must be one axis of numbers above 1, got {alphas}.")
    require_positive("clipping_norm", clipping_norm)
    length = int(_steps_of_states(norms.shape[1], every, steps).sum())
    p = default_holder(length) if holder is None else holder
    require(p > 1, f"holder must be above 1, got {p}.")
    width = None
    if confidence is not None:
        require_probability("confidence", confidence)
        require(every == 1, f"a confidence needs the norms at every step, they were recorded every {every}.")
        width = hoeffding_width(len(norms), length * covered, confidence)
    total = np.zeros((norms.shape[2], len(alphas)))
    for first, last in _groups(length):
        table = _Table(alphas, p, length, first, noise_multiplier, sampling_probability, width)
        recorded = np.arange(first, last) // every
        total += _group_sum(norms, recorded, table, clipping_norm)
    baseline = length * sampled_gaussian_rdp(1.0, noise_multiplier, sampling_probability, alphas)
    rdp: np.ndarray = np.minimum(total, baseline)
    return rdp


def path_sums(
    sensitivities: ArrayLike,
    noise_multiplier: float,
    sampling_probability: float,
    orders: ArrayLike,
    *,
    clipping_norm: float = 1.0,
    every: int = 1,
    steps: int | None = None,
) -> np.ndarray:
    """Return each run's sum of step divergences [run, person, order], rounded up: what `paths_rdp` and `cut_off` take.

    Arguments as of `everybodys_rdp`. A state that stands for k steps is counted k times: then it is an estimate.

    >>> norms = np.full((2, 10, 3), 0.5)
    >>> path_sums(norms, 1.0, 0.1, [2.0]).round(4).ravel().tolist()
    [0.0286, 0.0286, 0.0286, 0.0286, 0.0286, 0.0286]
    """
    norms, alphas = np.asarray(sensitivities), np.asarray(orders, float)
    require(norms.ndim == 3 and norms.size > 0, f"sensitivities must be [run, state, person], got {norms.shape}.")
    require_positive("clipping_norm", clipping_norm)
    counts = _steps_of_states(norms.shape[1], every, steps)
    tables = np.stack(
        [divergence_table(noise_multiplier, sampling_probability, float(alpha)) for alpha in alphas], axis=1
    )
    sums = np.zeros((norms.shape[0], norms.shape[2], len(alphas)))
    for state, count in enumerate(counts):
        sums += count * tables[binned_up(norms[:, state], clipping_norm)]
    return sums


def _steps_of_states(states: int, every: int, steps: int | None) -> np.ndarray:
    """Return how many steps each recorded state stands for."""
    length = states * every if steps is None else steps
    needed = -(-length // every)
    require(needed <= states, f"{length} steps need {needed} recorded states, got {states}.")
    return np.diff(np.minimum(np.arange(needed + 1) * every, length))


class _Table:
    """Divergences [order, bin] and temperatures of a group of steps, as at its first step, where both are largest."""

    def __init__(
        self,
        alphas: np.ndarray,
        holder: float,
        steps: int,
        first: int,
        noise: float,
        q: float,
        width: float | None,
    ):
        raised = np.array([step_orders(alpha, holder, steps)[first] for alpha in alphas])
        self.divergences = np.stack([binned_divergences(noise, q, alpha) for alpha in raised])
        self.temperatures = holder * (raised - 1)
        self.width = width

    def contributions(self, bins: np.ndarray) -> np.ndarray:
        """Return the contributions [order, state, person], with a confidence their upper bounds."""
        means = self.mean(bins)
        if self.width is None:
            return means
        worst, t = self.divergences[:, -1:, None], self.temperatures[:, None, None]
        return upper_contributions(means, worst, t, self.width)

    def mean(self, bins: np.ndarray) -> np.ndarray:
        """Return the contributions [order, state, person] of binned sensitivities [run, state, person]."""
        if len(bins) == 1 or np.isinf(self.temperatures).any():
            largest: np.ndarray = np.take(self.divergences, bins[0] if len(bins) == 1 else bins.max(axis=0), axis=1)
            return largest
        return np.stack([self._mean_exponential(bins, k) for k in range(len(self.divergences))])

    def _mean_exponential(self, bins: np.ndarray, k: int) -> np.ndarray:
        """Return (1/t) ln mean exp(t·D) over runs, by a table of the exponentials, relative to each entry's largest."""
        divergences, t = self.divergences[k], self.temperatures[k]
        if t * divergences[-1] < LARGE_EXPONENT:  # the exponentials are numbers as they are
            mean = np.take(np.expm1(t * divergences), bins).mean(axis=0)
            log_mean: np.ndarray = np.log1p(mean) / t
            return log_mean
        each = np.take(divergences, bins)
        largest = each.max(axis=0)
        with np.errstate(under="ignore"):
            mean_log: np.ndarray = largest + np.log(np.exp(t * (each - largest)).mean(axis=0)) / t
            return mean_log


def binned_divergences(noise_multiplier: float, sampling_probability: float, order: float) -> np.ndarray:
    """Return an upper bound on the divergence at the upper end of each bin, by interpolation between orders."""
    place = max(0, int(np.ceil(np.log((order - 1) / FIRST_ORDER) / np.log(ORDER_RATIO) - 1e-9)))
    high, low = (1 + FIRST_ORDER * ORDER_RATIO**k for k in (place, place - 1))
    log_high = _log_kernels(noise_multiplier, sampling_probability, place)
    if place == 0 or order >= high:
        return _divergences(log_high, high)  # D_α grows with α
    share = (order - low) / (high - low)
    log_low = _log_kernels(noise_multiplier, sampling_probability, place - 1)
    return _divergences((1 - share) * log_low + share * log_high, order) * (1 + 1e-12)


@lru_cache(maxsize=2048)
def _log_kernels(noise_multiplier: float, sampling_probability: float, place: int) -> np.ndarray:
    """Return ln((A − 1)/(α(α−1))) at the upper end of each bin, at a tabulated order."""
    alpha = 1 + FIRST_ORDER * ORDER_RATIO**place
    log_a = (alpha - 1) * sampled_gaussian_rdp(bin_edges(), noise_multiplier, sampling_probability, alpha)
    with np.errstate(divide="ignore"):
        log_kernel: np.ndarray = log_a + np.log(-np.expm1(-log_a)) - np.log(alpha * (alpha - 1))
        return log_kernel


def _divergences(log_kernels: np.ndarray, alpha: float) -> np.ndarray:
    """Return D_α from ln((A − 1)/(α(α−1)))."""
    divergences: np.ndarray = np.logaddexp(0.0, log_kernels + np.log(alpha * (alpha - 1))) / (alpha - 1)
    return divergences


def _groups(steps: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last + 1) of consecutive steps that share a table."""
    ends = np.linspace(0, steps, min(GROUPS, steps) + 1).round().astype(int)
    yield from pairwise(ends)


def _group_sum(norms: np.ndarray, states: np.ndarray, table: _Table, clipping_norm: float) -> np.ndarray:
    """Return the sum over a group's steps [person, order]; a state that stands for several steps is looked up once."""
    distinct, counts = np.unique(states, return_counts=True)
    chosen = slice(distinct[0], distinct[-1] + 1)
    people = norms.shape[2]
    total = np.empty((people, len(table.divergences)))
    for start in range(0, people, PEOPLE_AT_ONCE):
        block = slice(start, min(people, start + PEOPLE_AT_ONCE))
        each = table.contributions(binned_up(norms[:, chosen, block], clipping_norm))
        total[block] = np.einsum("s,osp->po", counts, each)
    return total
