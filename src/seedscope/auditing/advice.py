"""What another privacy level, already trained, would change: what it gains, what it costs, whether that is decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from seedscope.core import Number
from seedscope.mechanisms import Guarantee


class Compared(Protocol):
    """What is compared of a privacy level."""

    @property
    def label(self) -> str:
        """Its name."""

    @property
    def claimed_epsilon(self) -> float | None:
        """The guarantee's ε, proved or an estimate; None without one."""

    @property
    def guarantee(self) -> Guarantee:
        """The whole guarantee."""

    @property
    def retrainings(self) -> int:
        """How many models of the same data there are."""

    @property
    def accuracy(self) -> Number:
        """The share of test people decided rightly."""

    @property
    def arbitrary_share(self) -> Number:
        """The share of test people whose decision hangs on chance."""


@dataclass(frozen=True)
class Advice:
    """A change that one could make: what it gains, what it costs; undecided where intervals overlap.

    `models_needed` is about how many re-trainings of each level would decide it: intervals shrink with the square root.
    """

    remedy: str
    gains: tuple[str, ...]
    costs: tuple[str, ...]
    decided: bool
    models_needed: int | None = None


def advice(levels: Sequence[Compared], chosen: int) -> list[Advice]:
    """Return what each other level would change against the chosen one; those that gain nothing are left out."""
    current = levels[chosen]
    found = [_against(current, other) for place, other in enumerate(levels) if place != chosen]
    return [one for one in found if one.gains]


def _against(current: Compared, other: Compared) -> Advice:
    """Return what one level would change against another."""
    changes = [
        _share("decided arbitrarily", current.arbitrary_share, other.arbitrary_share, smaller_is_better=True),
        _share("decided rightly", current.accuracy, other.accuracy, smaller_is_better=False),
        _protection(current, other),
    ]
    known = [one for one in changes if one is not None]
    gains = tuple(text for text, better, _ in known if better)
    costs = tuple(text for text, better, _ in known if not better)
    decided = all(sure for *_, sure in known)
    instead = f"Use {other.label} instead of {current.label}"
    return Advice(instead, gains, costs, decided, None if decided else _enough(current, other))


def _enough(current: Compared, other: Compared) -> int | None:
    """Return about how many re-trainings bring every interval apart; None where two values are the same."""
    pairs = [(current.arbitrary_share, other.arbitrary_share), (current.accuracy, other.accuracy)]
    factors = [_overlap(*pair) for pair in pairs if _overlap(*pair) > 1]
    models = max(one.retrainings for one in (current, other))
    return math.ceil(models * max(factors)) if factors and max(factors) < math.inf else None


def _overlap(current: Number, other: Number) -> float:
    """Return how many times more models it takes until two intervals are apart."""
    widths = sum((_ends(one)[1] - _ends(one)[0]) / 2 for one in (current, other))
    gap = abs(float(current) - float(other))
    return (widths / gap) ** 2 if gap > 0 else 1.0


def _share(what: str, current: Number, other: Number, smaller_is_better: bool) -> tuple[str, bool, bool] | None:
    """Return in words how a share of people changes, whether for the better, and whether intervals are apart."""
    first, second = f"{100 * float(current):.1f} %", f"{100 * float(other):.1f} %"
    if first == second:
        return None
    better = (float(other) < float(current)) == smaller_is_better
    apart = _ends(current)[1] < _ends(other)[0] or _ends(other)[1] < _ends(current)[0]
    return f"{second} instead of {first} are {what}", better, apart


def _ends(number: Number) -> tuple[float, float]:
    """Return a number's interval, itself where it has none."""
    value = float(number)
    return (value if number.lower is None else number.lower), (value if number.upper is None else number.upper)


def _protection(current: Compared, other: Compared) -> tuple[str, bool, bool] | None:
    """Return how the guaranteed limit of any attack's advantage changes, rounded up."""
    limits = [_limit(one.claimed_epsilon, one.guarantee.delta) for one in (other, current)]
    if None in limits or limits[0] == limits[1]:
        return None
    better = (other.claimed_epsilon or 0) < (current.claimed_epsilon or 0)
    kinds = {one.guarantee.epsilon.kind for one in (other, current) if one.guarantee.epsilon is not None}
    words = "" if kinds == {"proved"} else " (estimate)"
    return f"no attack gains more than {limits[0]} % over guessing, instead of {limits[1]} %{words}", better, True


def _limit(epsilon: float | None, delta: float) -> int | None:
    """Return the most that an attack can gain over guessing in percent, (e^ε − 1 + 2δ)/(e^ε + 1), rounded up."""
    if epsilon is None:
        return None
    return min(100, math.ceil(100 * (math.tanh(epsilon / 2) + 2 * delta / (math.exp(min(epsilon, 700)) + 1))))
