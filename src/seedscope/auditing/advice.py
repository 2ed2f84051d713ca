"""What another privacy level, already trained, would change: what it gains, what it costs, whether that is decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from seedscope.auditing.facts import proved_advantage
from seedscope.core import Number
from seedscope.mechanisms import Guarantee


class Compared(Protocol):
    """What is compared of a privacy level."""

    @property
    def label(self) -> str:
        """Its name."""

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
    now = levels[chosen]
    comparisons = [_against(now, level) for place, level in enumerate(levels) if place != chosen]
    return [comparison for comparison in comparisons if comparison.gains]


def _against(now: Compared, other: Compared) -> Advice:
    """Return what one level would change against another."""
    changes = [
        _share("decided arbitrarily", now.arbitrary_share, other.arbitrary_share, smaller_is_better=True),
        _share("decided rightly", now.accuracy, other.accuracy, smaller_is_better=False),
        _protection(now, other),
    ]
    known = [change for change in changes if change is not None]
    gains = tuple(text for text, better, _ in known if better)
    costs = tuple(text for text, better, _ in known if not better)
    decided = all(sure for *_, sure in known)
    return Advice(
        f"Use {other.label} instead of {now.label}", gains, costs, decided, None if decided else _enough(now, other)
    )


def _enough(now: Compared, other: Compared) -> int | None:
    """Return about how many re-trainings bring every interval apart; None where two values are the same."""
    pairs = [(now.arbitrary_share, other.arbitrary_share), (now.accuracy, other.accuracy)]
    factors = [_overlap(*pair) for pair in pairs if _overlap(*pair) > 1]
    models = max(level.retrainings for level in (now, other))
    return math.ceil(models * max(factors)) if factors and max(factors) < math.inf else None


def _overlap(now: Number, other: Number) -> float:
    """Return how many times more models it takes until two intervals are apart."""
    widths = sum((_ends(number)[1] - _ends(number)[0]) / 2 for number in (now, other))
    gap = abs(float(now) - float(other))
    return (widths / gap) ** 2 if gap > 0 else 1.0


def _share(what: str, now: Number, other: Number, smaller_is_better: bool) -> tuple[str, bool, bool] | None:
    """Return in words how a share of people changes, whether for the better, and whether intervals are apart."""
    first, second = f"{100 * float(now):.1f} %", f"{100 * float(other):.1f} %"
    if first == second:
        return None
    better = (float(other) < float(now)) == smaller_is_better
    apart = _ends(now)[1] < _ends(other)[0] or _ends(other)[1] < _ends(now)[0]
    return f"{second} instead of {first} are {what}", better, apart


def _ends(number: Number) -> tuple[float, float]:
    """Return a number's interval, itself where it has none."""
    value = float(number)
    return (value if number.lower is None else number.lower), (value if number.upper is None else number.upper)


def _protection(now: Compared, other: Compared) -> tuple[str, bool, bool] | None:
    """Return how the guaranteed limit of any attack's advantage changes, in percent and rounded up."""
    allowed = [proved_advantage(level) for level in (other, now)]
    limits = [math.ceil(100 * float(limit)) for limit in allowed if limit is not None]
    if len(limits) < 2 or limits[0] == limits[1]:
        return None
    words = "" if all(limit is not None and limit.kind == "proved" for limit in allowed) else " (estimate)"
    sentence = f"no attack gains more than {limits[0]} % over guessing, instead of {limits[1]} %{words}"
    return sentence, limits[0] < limits[1], True
