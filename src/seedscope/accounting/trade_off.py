"""The trade-off curve of a guarantee: what any membership attack can achieve at most, at every false-positive rate.

An ε alone says little about attacks; a curve says all: the true-positive rate of the best attack at each false-positive
rate. It comes from (ε, δ), from Gaussian noise, from Rényi divergences or from a set-up of DP-SGD, and where several
are known the smallest of their bounds counts. Everything here is rounded up: no attack does better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, ndtr, ndtri

from seedscope.accounting.attacks import (
    epsilon_advantage,
    epsilon_true_positive_rate,
    membership_advantage,
    true_positive_rate,
)
from seedscope.accounting.conversions import DEFAULT_ORDERS, rdp_to_epsilon
from seedscope.accounting.gaussian import gaussian_delta, gaussian_epsilon
from seedscope.accounting.loss_distribution import (
    NEGLIGIBLE,
    Rates,
    sampled_gaussian_rates,
    total_variation,
    varying_rates,
)
from seedscope.accounting.sampled_gaussian import sampled_gaussian_rdp
from seedscope.core import (
    Kind,
    Number,
    Relation,
    plain_list,
    require,
    require_count,
    require_positive,
    require_probability,
)

LEAST_RATE = 1e-6  # of the error rates at which μ is about: below it a curve's tail says nothing of practice
REPORTED_RATES = (0.001, 0.01, 0.1)
DRAWN_RATES = np.concatenate([[0.0], np.geomspace(1e-4, 0.1, 25), np.linspace(0.1, 1.0, 19)[1:]])
NORM_LEVELS = 32  # a path's norms are rounded up to multiples of the clipping norm's 32nd part
_ROUNDING = 1e-12
_FINE = 1e-5  # to which μ is searched


class Bound(ABC):
    """One thing known about a mechanism, and the attacks that it allows."""

    @abstractmethod
    def true_positive_rate(self, rate: np.ndarray) -> np.ndarray:
        """Return the largest true-positive rates at false-positive rates."""

    @abstractmethod
    def advantage(self) -> float:
        """Return the largest true- minus false-positive rate."""

    @abstractmethod
    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        """Return the smallest known δ at each ε ≥ 0, for both directions."""

    @abstractmethod
    def epsilon(self, delta: np.ndarray) -> np.ndarray:
        """Return the smallest known ε at each δ, infinite where none is."""


@dataclass(frozen=True, eq=False)
class Regions(Bound):
    """One or several (ε, δ), which hold together."""

    epsilons: np.ndarray
    deltas: np.ndarray

    def true_positive_rate(self, rate: np.ndarray) -> np.ndarray:
        rates: np.ndarray = epsilon_true_positive_rate(self.epsilons, self.deltas, rate[..., None]).min(-1)
        return rates

    def advantage(self) -> float:
        return float(epsilon_advantage(self.epsilons, self.deltas).min())

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        # the corners of a region are at the rates 0 and v, where both its sides meet
        growth = np.exp(np.minimum(self.epsilons, 700.0))
        corner = (1 - self.deltas) / (1 + growth)
        beside = 1 - corner - np.exp(np.minimum(epsilon, 700.0))[..., None] * corner
        smallest: np.ndarray = np.maximum(self.deltas, beside).min(-1)
        return smallest

    def epsilon(self, delta: np.ndarray) -> np.ndarray:
        smallest: np.ndarray = np.where(self.deltas <= delta[..., None], self.epsilons, np.inf).min(-1)
        return smallest


@dataclass(frozen=True)
class GaussianNoise(Bound):
    """Gaussian noise on a sensitivity of μ of its standard deviations; nothing is given away."""

    mu: float

    def true_positive_rate(self, rate: np.ndarray) -> np.ndarray:
        rates: np.ndarray = np.where(rate > 0, ndtr(ndtri(rate) + self.mu), 0.0)
        return rates

    def advantage(self) -> float:
        return float(erf(self.mu / np.sqrt(8)))

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        return gaussian_delta(self.mu, 1.0, epsilon)

    def epsilon(self, delta: np.ndarray) -> np.ndarray:
        return gaussian_epsilon(self.mu, 1.0, delta)


@dataclass(frozen=True, eq=False)
class Renyi(Bound):
    """Rényi divergences at several orders, in both directions."""

    rdp: np.ndarray
    orders: np.ndarray

    def true_positive_rate(self, rate: np.ndarray) -> np.ndarray:
        return np.asarray(true_positive_rate(self.rdp, self.orders, rate))

    def advantage(self) -> float:
        return float(membership_advantage(self.rdp, self.orders))

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        a = self.orders
        log_delta = (a - 1) * (self.rdp - epsilon[..., None] + np.log1p(-1 / a)) - np.log(a)
        smallest: np.ndarray = np.minimum(np.exp(np.minimum(log_delta, 0.0)).min(-1), self.advantage())
        return smallest

    def epsilon(self, delta: np.ndarray) -> np.ndarray:
        return np.asarray(rdp_to_epsilon(self.rdp, self.orders, delta))


@dataclass(frozen=True, eq=False)
class LossDistribution(Bound):
    """The corners of the best attack on a composition, by its privacy-loss distribution."""

    rates: Rates

    def true_positive_rate(self, rate: np.ndarray) -> np.ndarray:
        return self.rates.at(rate)

    def advantage(self) -> float:
        return float((self.rates.true_positive - self.rates.false_positive).max())

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        deltas = [self._delta(float(value)) for value in np.ravel(epsilon)]
        return np.reshape(deltas, np.shape(epsilon))

    def epsilon(self, delta: np.ndarray) -> np.ndarray:
        epsilons = [self._epsilon(float(value)) for value in np.ravel(delta)]
        return np.reshape(epsilons, np.shape(delta))

    def _delta(self, epsilon: float) -> float:
        """Return sup P(E) − e^ε Q(E) over events, and over the same with P and Q exchanged."""
        q, p = self.rates.false_positive, self.rates.true_positive
        growth = np.exp(min(epsilon, 700.0))
        return float(max((p - growth * q).max(), (1 - q - growth * (1 - p)).max()))

    def _epsilon(self, delta: float) -> float:
        """Return the smallest ε ≥ 0 at which `_delta` is at most δ."""
        q, p = self.rates.false_positive, self.rates.true_positive
        return max(0.0, _largest_log_ratio(p - delta, q), _largest_log_ratio(1 - q - delta, 1 - p)) * (1 + _ROUNDING)


def _largest_log_ratio(above: np.ndarray, below: np.ndarray) -> float:
    """Return the largest ln(above/below) among positive `above`; infinite where `below` is then 0."""
    counts = above > 0
    with np.errstate(divide="ignore"):
        return float(np.log(above[counts] / below[counts]).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class TradeOff:
    """What any membership attack can achieve at most against a mechanism, from everything known about it.

    `true_positive_rate(fpr)` is the curve; `advantage` its largest distance from guessing; `mu` the smallest Gaussian
    noise whose curve is nowhere below it, so that the mechanism is μ-Gaussian private at error rates from 1e-6 on.
    """

    bounds: tuple[Bound, ...]
    kind: Kind = "proved"

    def true_positive_rate(self, false_positive_rate: ArrayLike) -> np.ndarray:
        """Return the largest true-positive rate of any attack at false-positive rates in [0, 1]."""
        require_probability("false_positive_rate", false_positive_rate, closed=True)
        rate = np.asarray(false_positive_rate, float)
        return self._smallest(lambda bound: np.minimum(bound.true_positive_rate(rate), 1.0))

    def false_negative_rate(self, false_positive_rate: ArrayLike) -> np.ndarray:
        """Return f: the smallest share of members that any attack misses at false-positive rates."""
        missed: np.ndarray = 1 - self.true_positive_rate(false_positive_rate)
        return missed

    def epsilon(self, delta: ArrayLike) -> np.ndarray:
        """Return the smallest ε at each δ in (0, 1); infinite where nothing is known."""
        require_probability("delta", delta)
        return self._smallest(lambda bound: bound.epsilon(np.asarray(delta, float)))

    def delta(self, epsilon: ArrayLike) -> np.ndarray:
        """Return the smallest δ at each ε ≥ 0."""
        values = np.asarray(epsilon, float)
        require(values >= 0, f"epsilon must be at least 0, got {epsilon!r}.")
        return self._smallest(lambda bound: bound.delta(values))

    @cached_property
    def advantage(self) -> Number:
        """The largest true- minus false-positive rate of any attack."""
        least = min(bound.advantage() for bound in self.bounds)
        return Number(min(1.0, least * (1 + _ROUNDING)), self.kind)

    @cached_property
    def mu(self) -> Number:
        """The smallest μ whose Gaussian curve is nowhere below this one, rounded up by at most 1e-5."""
        known = [bound.mu for bound in self.bounds if isinstance(bound, GaussianNoise)]
        searched = _gaussian_above(self.true_positive_rate)
        note = f"at error rates from {LEAST_RATE:g} on"
        return Number(known[0], self.kind) if known and known[0] <= searched else Number(searched, self.kind, note=note)

    def as_dict(self) -> dict[str, Any]:
        """Return the curve and what it says, as JSON has it."""
        rates, curve = self.true_positive_rate(REPORTED_RATES), self.true_positive_rate(DRAWN_RATES)
        return {
            "mu": self.mu.as_dict(),
            "advantage": self.advantage.as_dict(),
            "true_positive_rates": [
                {"false_positive_rate": rate, "at_most": float(most)}
                for rate, most in zip(REPORTED_RATES, rates, strict=True)
            ],
            "curve": {"false_positive_rate": plain_list(DRAWN_RATES), "true_positive_rate": plain_list(curve)},
        }

    def _smallest(self, of: Callable[[Bound], np.ndarray]) -> np.ndarray:
        """Return the smallest of what the bounds say."""
        smallest: np.ndarray = np.min([of(bound) for bound in self.bounds], axis=0)[()]
        return smallest


def trade_off(
    *,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike = 0.0,
    mu: float | None = None,
    rdp: ArrayLike | None = None,
    orders: ArrayLike = DEFAULT_ORDERS,
    noise_multiplier: float | None = None,
    sampling_probability: float = 1.0,
    steps: int = 1,
    relation: Relation = "add_or_remove",
    kind: Kind = "proved",
) -> TradeOff:
    """Return the trade-off curve of everything that is given: what any membership attack can achieve at most.

    Args:
        epsilon, delta: one (ε, δ) or several that hold together, one axis.
        mu: the sensitivity over the standard deviation of Gaussian noise.
        rdp, orders: Rényi divergences at orders, in both directions.
        noise_multiplier, sampling_probability, steps: DP-SGD with Poisson batches. Its privacy-loss distribution is
            composed exactly (rounded up) for `relation="add_or_remove"`; "replace_one" is by Rényi divergences.
        kind: of the numbers given, which those that follow have too.

    >>> curve = trade_off(epsilon=1.0)
    >>> round(float(curve.advantage), 4), float(curve.true_positive_rate(0.01).round(4))
    (0.4621, 0.0272)
    >>> dpsgd = trade_off(noise_multiplier=1.0, sampling_probability=0.01, steps=1000)
    >>> print(dpsgd.advantage, round(float(dpsgd.mu), 2), float(dpsgd.epsilon(1e-5).round(2)))
    0.161 (proved) 0.47 1.83

    Dong, Roth & Su 2022, "Gaussian differential privacy"; Kairouz, Oh & Viswanath 2015.
    """
    bounds: list[Bound] = []
    if epsilon is not None:
        bounds.append(_regions(epsilon, delta))
    if mu is not None:
        require(mu >= 0, f"mu must be at least 0, got {mu!r}.")
        bounds.append(GaussianNoise(float(mu)))
    if rdp is not None:
        bounds.append(_renyi(rdp, orders))
    if noise_multiplier is not None:
        bounds += _dpsgd(noise_multiplier, sampling_probability, steps, orders, relation)
    require(len(bounds) > 0, "trade_off needs epsilon, mu, rdp or noise_multiplier.")
    return TradeOff(tuple(bounds), kind)


def pld_epsilon(noise_multiplier: float, sampling_probability: float, steps: int, delta: float) -> float:
    """Return the epsilon of DP-SGD by its privacy-loss distribution: tighter than Rényi orders, add-or-remove only.

    An upper bound (what is put on a grid is rounded up). Below a delta of about 1e-8 the slack of the composition,
    1e-9, shows; there `trade_off(…).epsilon(delta)` has the Rényi orders' bound too.

    >>> round(pld_epsilon(1.0, 0.01, 1000, 1e-5), 2)
    1.83

    Koskela, Jälkö & Honkela 2020; Doroshenko et al. 2022.
    """
    require_positive("noise_multiplier", noise_multiplier)
    require_probability("sampling_probability", sampling_probability, closed=True)
    require_count("steps", steps)
    require_probability("delta", delta)
    if sampling_probability == 0:
        return 0.0
    bound = _exact_dpsgd(noise_multiplier, sampling_probability, steps)
    return float(bound.epsilon(np.asarray(delta)))


def path_epsilon(sensitivities: ArrayLike, noise_multiplier: float, sampling_probability: float, delta: float) -> float:
    """Return the epsilon at delta of steps in which a person's norm is s of the clipping norm, one after another.

    By the privacy-loss distribution, norms rounded up to multiples of 1/32. For norms that are known before training it
    is an upper bound. For those of one run it is *this run's*, output-specific: what would hold had they been known.

    >>> whole, half = (path_epsilon(np.full(1000, s), 1.0, 0.01, 1e-5) for s in (1.0, 0.5))
    >>> round(whole, 2), round(half, 2)
    (1.83, 0.62)

    Yu et al. 2023, "Individual privacy accounting for DP-SGD" (output-specific), by loss distributions.
    """
    require_positive("noise_multiplier", noise_multiplier)
    require_probability("sampling_probability", sampling_probability)
    require_probability("delta", delta)
    s = np.asarray(sensitivities, float)
    require(s.ndim == 1 and s.size > 0 and np.all((s >= 0) & (s <= 1 + 1e-9)), "sensitivities must be in [0, 1].")
    rounded = np.ceil(NORM_LEVELS * np.minimum(s, 1.0)).astype(int)
    levels, counts = np.unique(rounded[rounded > 0], return_counts=True)
    if len(levels) == 0:
        return 0.0
    rates = varying_rates(noise_multiplier * NORM_LEVELS / levels, counts, sampling_probability)
    return float(LossDistribution(rates).epsilon(np.asarray(delta)))


def _regions(epsilon: ArrayLike, delta: ArrayLike) -> Regions:
    """Return (ε, δ) pairs, checked."""
    e, d = np.broadcast_arrays(np.atleast_1d(np.asarray(epsilon, float)), np.asarray(delta, float))
    require(e >= 0, f"epsilon must be at least 0, got {epsilon!r}.")
    require_probability("delta", delta, closed=True)
    return Regions(e, d)


def _renyi(rdp: ArrayLike, orders: ArrayLike) -> Renyi:
    """Return divergences, checked."""
    divergences, alpha = np.asarray(rdp, float), np.asarray(orders, float)
    membership_advantage(divergences, alpha)  # raises what is wrong with them
    require(divergences.ndim == 1, f"rdp must have one axis, along orders, got shape {divergences.shape}.")
    return Renyi(divergences, alpha)


def _dpsgd(noise: float, q: float, steps: int, orders: ArrayLike, relation: Relation) -> list[Bound]:
    """Return what is known about DP-SGD with Poisson batches."""
    require_positive("noise_multiplier", noise)
    require_probability("sampling_probability", q, closed=True)
    require_count("steps", steps)
    rdp = steps * sampled_gaussian_rdp(1.0, noise, q, orders, relation)
    divergences = Renyi(np.asarray(rdp, float), np.asarray(orders, float))
    if relation != "add_or_remove" or q == 0:
        return [divergences]
    distance = Regions(np.zeros(1), np.array([total_variation(noise, q, steps)]))
    return [divergences, distance, *([] if distance.advantage() < NEGLIGIBLE else [_exact_dpsgd(noise, q, steps)])]


def _exact_dpsgd(noise: float, q: float, steps: int) -> Bound:
    """Return the exact bound of sampled Gaussian steps, 0 < q ≤ 1."""
    if q == 1:
        return GaussianNoise(float(np.sqrt(steps) / noise))
    return LossDistribution(sampled_gaussian_rates(float(noise), float(q), int(steps)))


def _gaussian_above(rates: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the smallest μ with Φ(Φ⁻¹(x) + μ) ≥ rates(x) wherever both errors are at least `LEAST_RATE`.

    Between two rates x the curve is at most its value at the right one: cells in which that leaves doubt are halved.
    """
    z = np.linspace(ndtri(LEAST_RATE), -ndtri(LEAST_RATE), 257)
    lower, upper = z[:-1], z[1:]
    while True:
        most = ndtri(np.minimum(rates(ndtr(upper)), 1 - LEAST_RATE))
        above = most - lower
        reached = float((most - upper).max())
        doubtful = above > max(reached, 0.0) + _FINE
        if not doubtful.any():
            return max(0.0, float(above.max()))
        middle = (lower + upper) / 2
        kept, halved = ~doubtful & (above >= above[~doubtful].max(initial=-np.inf)), doubtful
        lower = np.concatenate([lower[kept], lower[halved], middle[halved]])
        upper = np.concatenate([upper[kept], middle[halved], upper[halved]])
