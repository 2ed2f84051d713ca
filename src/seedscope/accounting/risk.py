"""From a risk to noise: the least randomness that keeps every membership attack below a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri

from seedscope.accounting.conversions import DEFAULT_ORDERS, smallest_noise
from seedscope.accounting.sampled_gaussian import sampled_gaussian_rdp
from seedscope.accounting.trade_off import TradeOff, trade_off
from seedscope.core import Relation, require, require_count, require_probability

LONG_RUN = 1_000_000  # steps beyond which a search by whole curves would take too long


@dataclass(frozen=True)
class Risk:
    """What no attack may exceed: an advantage, or a true-positive rate at a false-positive rate.

    >>> round(Risk(advantage=0.1).mu(), 4)
    0.2513
    >>> round(Risk(true_positive_rate=0.05, false_positive_rate=0.01).epsilon(), 4)
    1.6094
    """

    advantage: float | None = None
    true_positive_rate: float | None = None
    false_positive_rate: float | None = None

    def __post_init__(self) -> None:
        rates = self.true_positive_rate is not None, self.false_positive_rate is not None
        require(rates[0] == rates[1], "true_positive_rate and false_positive_rate go together: give both or neither.")
        one_of_both = (self.advantage is not None) != rates[0]
        require(
            one_of_both, "a risk is either an advantage or a true-positive rate at a false-positive rate: give one."
        )
        for name, value in vars(self).items():
            if value is not None:
                require_probability(name, value)
        require(not rates[0] or self._gain() > 0, "true_positive_rate must be above false_positive_rate.")

    def met_by(self, curve: TradeOff) -> bool:
        """Return whether every attack stays within the risk."""
        if self.advantage is not None:
            return float(curve.advantage) <= self.advantage
        return float(curve.true_positive_rate(self.false_positive_rate or 0.0)) <= (self.true_positive_rate or 0.0)

    def epsilon(self) -> float:
        """Return the largest pure ε that stays within the risk, rounded down."""
        if self.advantage is not None:
            return 2 * math.atanh(self.advantage) * (1 - 1e-9)
        t, f = self.true_positive_rate or 0.0, self.false_positive_rate or 0.0
        return max(math.log(t / f), math.log((1 - f) / (1 - t))) * (1 - 1e-9)

    def mu(self) -> float:
        """Return the largest ratio of sensitivity to Gaussian noise that stays within the risk, rounded down."""
        if self.advantage is not None:
            return 2 * float(ndtri((1 + self.advantage) / 2)) * (1 - 1e-9)
        return float(ndtri(self.true_positive_rate) - ndtri(self.false_positive_rate)) * (1 - 1e-9)

    def __str__(self) -> str:
        if self.advantage is not None:
            return f"advantage={self.advantage:g}"
        return f"true_positive_rate={self.true_positive_rate:g} at false_positive_rate={self.false_positive_rate:g}"

    def _gain(self) -> float:
        """Return how far the true-positive rate is above the false-positive rate."""
        return (self.true_positive_rate or 0.0) - (self.false_positive_rate or 0.0)


def dpsgd_noise_for_risk(
    risk: Risk, sampling_probability: float, steps: int, relation: Relation = "add_or_remove"
) -> float:
    """Return the least noise multiplier of DP-SGD that keeps every attack within the risk, rounded up by at most 1e-4.

    Of more than a million steps, or a chance below one in a million to be drawn, by Rényi divergences alone: a little
    more noise than the least, found at once.

    >>> noise = dpsgd_noise_for_risk(Risk(advantage=0.1), sampling_probability=0.01, steps=1000)
    >>> round(noise, 2)
    1.42
    """
    require_probability("sampling_probability", sampling_probability, closed=True)
    require(sampling_probability > 0, "sampling_probability must be above 0: without sampling nothing is to hide.")
    require_count("steps", steps)

    vast = steps > LONG_RUN or sampling_probability < 1 / LONG_RUN

    def within(noise: float) -> bool:
        if vast:
            step = sampled_gaussian_rdp(1.0, noise, sampling_probability, DEFAULT_ORDERS, relation)
            return risk.met_by(trade_off(rdp=steps * step))
        return risk.met_by(
            trade_off(noise_multiplier=noise, sampling_probability=sampling_probability, steps=steps, relation=relation)
        )

    return smallest_noise(within, str(risk), tolerance=1e-4)
