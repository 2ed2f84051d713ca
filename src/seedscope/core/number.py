"""A number that says what kind it is: proved, statistical at a confidence, or an estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from seedscope.core.errors import require, require_probability

Kind = Literal["proved", "statistical", "estimate"]


@dataclass(frozen=True)
class Number:
    """A value with its kind, and where known an interval and its confidence.

    `proved` holds by a theorem whose conditions were checked; `statistical` holds with probability at least
    `confidence` over the runs drawn; `estimate` is a point estimate without a guarantee.

    >>> sigma = Number(0.085, "estimate", lower=0.084, upper=0.086, confidence=0.95)
    >>> print(sigma)
    0.085 [0.084, 0.086] (estimate at 95 %)
    >>> float(sigma)
    0.085
    """

    value: float
    kind: Kind
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        require(self.kind in get_args(Kind), f"kind must be one of {get_args(Kind)}, got {self.kind!r}.")
        if self.kind == "statistical":
            require(self.confidence is not None, "a statistical number needs its confidence.")
        if self.confidence is not None:
            require_probability("confidence", self.confidence)

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        ends = [f"{end:.4g}" for end in (self.lower, self.upper) if end is not None]
        interval = f" [{', '.join(ends)}]" if len(set(ends)) == 2 else ""
        level = "" if self.confidence is None else f" at {100 * self.confidence:g} %"
        return f"{self.value:.4g}{interval} ({self.kind}{level})"

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON needs: the value, its kind and whatever else is known."""
        fields = {name: getattr(self, name) for name in ("value", "kind", "lower", "upper", "confidence", "note")}
        return {name: value for name, value in fields.items() if value not in (None, "")}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Number:
        """Return the number that `as_dict` wrote."""
        return cls(**written)


def rounded_up(number: float, digits: int) -> float:
    """Return a number of this many digits that is not below; without any digit, a power of ten.

    >>> rounded_up(0.99987, 3), rounded_up(5.5e-6, 0), rounded_up(1e-5, 0), rounded_up(1.0, 3)
    (1.0, 1e-05, 1e-05, 1.0)
    """
    if not 0 < number < math.inf:
        return number
    if digits == 0:
        power = float(f"1e{math.floor(math.log10(number))}")
        return power if power >= number else float(f"1e{math.floor(math.log10(number)) + 1}")
    places = digits - 1 - math.floor(math.log10(number))
    nearest = round(number, places)
    return nearest if nearest >= number else round(nearest + 10.0**-places, places)
