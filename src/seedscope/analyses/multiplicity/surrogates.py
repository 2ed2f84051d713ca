"""Fewer re-trainings: cheap stand-ins' votes are known, re-trainings only tell how often models differ from them.

A stand-in of a seed is a model that needs no training but has the same noise (`Mechanism.surrogate`). How often
stand-ins decide 1 about a person is known. So the share p of models that decide 1 is that plus the mean of
"model minus stand-in", a value of −1, 0 or 1 that is nearly always 0: far fewer models show it as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.multiplicity.intervals import (
    chance_interval,
    disagreement_image,
    first_enough,
    half_risk,
)
from seedscope.core import require, require_count, require_positive, require_probability
from seedscope.numerics import mean_refuted, three_valued_interval

SURROGATE_RISK = 0.75  # of what the confidence leaves; the rest is for intervals from the models' votes alone
USELESS = 0.5  # from this share of the variance on, stand-ins say too little about the models


@dataclass(frozen=True, eq=False)
class StandIns:
    """What stand-ins say about each person: how often they decide 1, and how many models of their seeds differ.

    `ups` counts the models that decide 1 where their stand-in decides 0, `downs` the others that differ. The
    truth is at most `below` under and `above` over `shares`, for all people but with probability `risk`; `variance` is
    that of `shares`, where they were drawn.
    """

    shares: np.ndarray
    ups: np.ndarray
    downs: np.ndarray
    models: int
    below: float | np.ndarray = 0.0
    above: float | np.ndarray = 0.0
    risk: float = 0.0
    variance: float | np.ndarray = 0.0

    @classmethod
    def counted(
        cls, shares: ArrayLike, models: ArrayLike, stand_ins: ArrayLike, *, below: float | np.ndarray = 0.0,
        above: float | np.ndarray = 0.0, risk: float = 0.0, variance: float | np.ndarray = 0.0,
    ) -> StandIns:  # fmt: skip
        """Return the counts from decisions [model, example] of models and of their stand-ins.

        >>> found = StandIns.counted([0.5, 0.1], [[1, 0], [0, 0], [1, 1]], [[1, 0], [1, 0], [1, 0]])
        >>> found.ups, found.downs
        (array([0, 1]), array([1, 0]))
        """
        real, cheap = np.asarray(models, bool), np.asarray(stand_ins, bool)
        require(real.shape == cheap.shape, f"each model needs its stand-in, got {real.shape} and {cheap.shape}.")
        ups, downs = (real & ~cheap).sum(axis=0), (cheap & ~real).sum(axis=0)
        return cls(np.asarray(shares, float), ups, downs, len(real), below, above, risk, variance)

    def __add__(self, other: StandIns) -> StandIns:
        """Return the counts of both, of different models with the same stand-ins."""
        ups, downs, models = self.ups + other.ups, self.downs + other.downs, self.models + other.models
        return replace(self, ups=ups, downs=downs, models=models)

    @property
    def chances(self) -> np.ndarray:
        """The estimated share of all models that decide 1, in [0, 1]."""
        chances: np.ndarray = np.clip(self.shares + (self.ups - self.downs) / self.models, 0.0, 1.0)
        return chances

    @property
    def disagreement(self) -> np.ndarray:
        """The estimated disagreement: 4p(1 − p), with the estimate's own variance added as that makes it unbiased."""
        p = self.shares + (self.ups - self.downs) / self.models
        own = self.variance + self._variance / max(1, self.models - 1)
        estimate: np.ndarray = np.maximum(4 * (p * (1 - p) + own), 0.0)
        return estimate

    @property
    def variance_left(self) -> float:
        """What is left of the variance of the models' votes, over all people; small where stand-ins are good."""
        votes = (self.chances * (1 - self.chances)).sum()
        return float(self._variance.sum() / votes) if votes > 0 else 0.0

    @property
    def useful(self) -> bool:
        """Whether stand-ins save models."""
        return self.variance_left < USELESS

    @property
    def _variance(self) -> np.ndarray:
        """The variance of "model minus stand-in"."""
        m = self.models
        variance: np.ndarray = (self.ups + self.downs) / m - ((self.ups - self.downs) / m) ** 2
        return variance

    def words(self) -> str:
        """Return in a sentence what stand-ins are worth here."""
        left = f"{100 * min(self.variance_left, 1):.0f} % of the variance is left"
        if self.useful:
            return f"Stand-ins with the same noise vote almost as the models do ({left}), so fewer are needed."
        return f"Stand-ins with the same noise vote too differently ({left}): only the models' own votes count."


def surrogate_interval(stand_ins: StandIns, confidence: float, examples: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return (lower, upper) of the share p of models that decide 1: exact, for `examples` at once, at any moment.

    >>> found = StandIns(np.array([0.2]), np.array([6]), np.array([2]), models=1000)
    >>> lower, upper = surrogate_interval(found, 0.95)
    >>> lower.round(3), upper.round(3)
    (array([0.195]), array([0.216]))
    """
    require_count("examples", examples)
    risk = 1 - confidence - stand_ins.risk
    require(
        risk > 0,
        f"confidence must be below {1 - stand_ins.risk:g}: the stand-ins' shares are no surer; got {confidence}.",
    )
    low, high = three_valued_interval(stand_ins.ups, stand_ins.downs, stand_ins.models, 1 - risk / examples)
    return np.clip(stand_ins.shares - stand_ins.below + low, 0, 1), np.clip(
        stand_ins.shares + stand_ins.above + high, 0, 1
    )


def combined_interval(
    positives: ArrayLike, stand_ins: StandIns, confidence: float, examples: int, latest: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (lower, upper) of the disagreement from stand-ins *and* the models' own votes, whichever tell more.

    Both intervals of p hold with their part of the confidence, so their intersection holds: where stand-ins are bad,
    the votes count alone and nothing but a little width is lost. No choice is made after the fact.

    Args:
        positives: number of models that decide 1.
        latest: where the number of models was found by looking, the largest one; None where it was fixed.
    """
    risk = 1 - confidence
    low, high = surrogate_interval(stand_ins, 1 - SURROGATE_RISK * risk, examples)
    rest = 1 - (1 - SURROGATE_RISK) * risk
    level, anytime = (rest, False) if latest is None else (half_risk(rest), stand_ins.models < latest)
    own_low, own_high = chance_interval(positives, stand_ins.models, level, examples, anytime)
    lower, upper = np.maximum(low, own_low), np.minimum(high, own_high)
    apart = lower > upper  # then one of them is wrong: the votes' own is believed
    return disagreement_image(np.where(apart, own_low, lower), np.where(apart, own_high, upper))


def combined_error(
    positives: ArrayLike, stand_ins: StandIns, confidence: float, examples: int, latest: int | None = None
) -> np.ndarray:
    """Return how far the true disagreement can be from the middle of its interval."""
    lower, upper = combined_interval(positives, stand_ins, confidence, examples, latest)
    error: np.ndarray = (upper - lower) / 2
    return error


def models_needed_surrogate(error: float, confidence: float, examples: int = 1) -> int:
    """Return the fewest models after which stand-ins can make every disagreement known: where none ever differs.

    >>> models_needed_surrogate(0.05, 0.95, examples=208)
    425
    """
    require_positive("error", error)
    require_probability("confidence", confidence)
    require_count("examples", examples)
    share = (1 - math.sqrt(max(0.0, 1 - 2 * error))) / 2  # 4p(1 − p) is then twice the error; any p is, from ½ on
    level = 1 - SURROGATE_RISK * (1 - confidence) / examples
    return first_enough(lambda models: 2 * error >= 1 or mean_refuted(share, 0, 0, models, level))
