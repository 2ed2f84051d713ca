"""What an attack that worked this well contradicts: an ε, a μ, or a whole trade-off curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from seedscope.accounting import TradeOff
from seedscope.core import require, require_positive, require_probability
from seedscope.numerics import clopper_pearson


def epsilon_lower(
    true_positives: ArrayLike,
    members: ArrayLike,
    false_positives: ArrayLike,
    nonmembers: ArrayLike,
    confidence: float,
    delta: float = 0.0,
) -> np.ndarray:
    """Return a lower bound on epsilon, at the given confidence, from counts of a membership attack; at least 0.

    An (ε, δ)-private training allows no attack with TPR > e^ε·FPR + δ, nor with 1 − FPR > e^ε·(1 − TPR) + δ. One-sided
    Clopper–Pearson bounds at (1 − confidence)/2 each stand for the rates. The attack must be fixed on other runs.

    Args (all counts broadcast):
        true_positives, members: attacked members called so, of all members attacked.
        false_positives, nonmembers: attacked non-members called members, of all attacked.
        confidence: in (0, 1).
        delta: in [0, 1).

    >>> float(epsilon_lower(100, 100, 0, 100, confidence=0.95).round(2))
    3.28
    """
    require_probability("confidence", confidence)
    require(0 <= delta < 1, f"delta must be in [0, 1), got {delta}.")
    rate_lower, rate_upper = _rate_bounds(true_positives, members, false_positives, nonmembers, confidence)
    with np.errstate(divide="ignore"):
        by_positives = np.log(np.maximum(rate_lower - delta, 0.0)) - np.log(rate_upper)
        by_negatives = np.log(np.maximum(1 - rate_upper - delta, 0.0)) - np.log1p(-rate_lower)
    epsilon: np.ndarray = np.maximum(np.maximum(by_positives, by_negatives), 0.0)[()]
    return epsilon


def mu_lower(
    true_positives: ArrayLike, members: ArrayLike, false_positives: ArrayLike, nonmembers: ArrayLike, confidence: float
) -> np.ndarray:
    """Return a lower bound on the μ of Gaussian privacy, at the given confidence, from counts of an attack; at least 0.

    A training whose trade-off curve is no worse than that of N(0, 1) against N(μ, 1) allows no attack with
    Φ⁻¹(TPR) − Φ⁻¹(FPR) > μ. So the bound needs no condition; turned into an ε it presumes that the curve is Gaussian,
    and then shows far more than `epsilon_lower` can with as few runs. Arguments as there.

    >>> float(mu_lower(50, 50, 0, 50, confidence=0.95).round(2)), float(mu_lower(25, 50, 25, 50, confidence=0.95))
    (2.93, 0.0)
    """
    require_probability("confidence", confidence)
    rate_lower, rate_upper = _rate_bounds(true_positives, members, false_positives, nonmembers, confidence)
    mu: np.ndarray = np.maximum(np.nan_to_num(ndtri(rate_lower) - ndtri(rate_upper), nan=0.0), 0.0)[()]
    return mu


@dataclass(frozen=True)
class CurveTest:
    """An attack's rates against a claimed trade-off curve.

    At least `true_positive_lower` of the members are found while at most `false_positive_upper` of the others are
    accused, where the curve allows `allowed`.
    """

    true_positive_lower: float
    false_positive_upper: float
    allowed: float
    confidence: float

    @property
    def exceeded(self) -> bool:
        """Whether the attack contradicts the curve, at the confidence."""
        return self.true_positive_lower > self.allowed


def curve_test(
    true_positives: int, members: int, false_positives: int, nonmembers: int, curve: TradeOff, confidence: float
) -> CurveTest:
    """Return the test of a claimed trade-off curve f: rejected if TPR_L > 1 − f(FPR_U), from counts of an attack.

    It presumes nothing and sees what the (ε, δ) test cannot with as few runs, because a curve allows less than its
    worst ε. Both rest on the same bounds of the two rates, so that both together err no oftener than one. The attack
    must be fixed on other runs.

    >>> from seedscope.accounting import trade_off
    >>> found = curve_test(50, 50, 0, 50, trade_off(mu=2.0), confidence=0.95)
    >>> round(found.true_positive_lower, 3), round(found.allowed, 3), found.exceeded
    (0.929, 0.703, True)
    """
    require_probability("confidence", confidence)
    lower, upper = _rate_bounds(true_positives, members, false_positives, nonmembers, confidence)
    return CurveTest(float(lower), float(upper), float(curve.true_positive_rate(upper)), confidence)


def _rate_bounds(
    true_positives: ArrayLike, members: ArrayLike, false_positives: ArrayLike, nonmembers: ArrayLike, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the true-positive rate from below and the false-positive rate from above, both at once."""
    confidence_each = (1 + confidence) / 2
    rate_lower, _ = clopper_pearson(true_positives, members, confidence_each, side="lower")
    _, rate_upper = clopper_pearson(false_positives, nonmembers, confidence_each, side="upper")
    return rate_lower, rate_upper


def seeds_needed(epsilon: float, confidence: float = 0.95, delta: float = 0.0) -> int:
    """Return how many held-out seeds a side could show more than epsilon, were the attack never wrong.

    >>> seeds_needed(2.57), seeds_needed(3.28)
    (51, 100)
    """
    require_positive("epsilon", epsilon)
    fewest, enough = 0, 1
    while epsilon_lower(enough, enough, 0, enough, confidence, delta) <= epsilon:
        fewest, enough = enough, 2 * enough
        require(enough < 1 << 60, f"no number of seeds shows an epsilon of {epsilon:g} at delta {delta:g}.")
    while enough > fewest + 1:
        middle = (fewest + enough) // 2
        shown = epsilon_lower(middle, middle, 0, middle, confidence, delta) > epsilon
        fewest, enough = (fewest, middle) if shown else (middle, enough)
    return enough
