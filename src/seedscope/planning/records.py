"""What is kept of each model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from seedscope.core import require, require_count
from seedscope.datasets import Part

Probe = Literal["test", "neighbours", "spare", "train"]


PROBES: tuple[Probe, ...] = ("test", "spare", "train", "neighbours")  # in this order: only the last can grow


SINGULAR = {"neighbours": "neighbour"}  # the name of a part, as a coordinate


@dataclass(frozen=True)
class Norms:
    """Whose gradient norms DP-SGD records while it trains, and how often; whether they are classified correctly too.

    `of` is a part of the data: "neighbours" (the rows that neighbouring data sets lack), "train" or "test", or a
    number: that many training rows, drawn from the root seed. They are recorded before every `every`-th step, or once
    an "epoch", from the initial state on, and after the last step. "float16" halves the space; it is rounded up, so
    that what follows from the norms stays a bound. With `orders` no norms are kept but their path sums: each run's sum
    over its steps of the step's Rényi divergence at these orders, so that everybody of a large data set, or a hundred
    thousand runs, fit in memory.
    """

    of: Literal["neighbours", "train", "test"] | int = "neighbours"
    every: int | Literal["epoch"] = 1
    precision: Literal["float32", "float16"] = "float32"
    orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(float(order) for order in self.orders))
        rising = all(1 < order < np.inf for order in self.orders) and list(self.orders) == sorted(set(self.orders))
        require(rising, f"orders must be rising numbers above 1, got {self.orders}.")
        _require_people("of", self.of, ("neighbours", "train", "test"))
        if self.every != "epoch":
            require_count("every", self.every)
        known = self.precision in ("float32", "float16")
        require(known, f"precision must be 'float32' or 'float16', got {self.precision!r}.")

    def steps_between(self, examples: int, batch_size: int) -> int:
        """Return how many steps lie between two states whose norms are recorded."""
        return max(1, round(examples / batch_size)) if self.every == "epoch" else self.every


@dataclass(frozen=True)
class Records:
    """What is kept of each model: weights, scores and losses on probe examples, and with DP-SGD gradient norms.

    `probes` are parts of the data: "test", "neighbours" (the rows that neighbouring data sets lack), "spare" (x_0) and
    "train". `scores_at_checkpoints` keeps scores and losses at every checkpoint, not only at the end. `fisher_traces`
    of "train" or "neighbours" keeps at every checkpoint how much DP-SGD with smooth clipping has revealed of each row.
    They are about the columns that are `private`, names or numbers; by default all, none of which may be a category.
    `losses_of` "train", "neighbours" or a number of training rows, drawn from the root seed, keeps how much
    likelier what each run released is because of each row: the privacy loss, from which `privacy_loss.everybody`
    computes the best possible attack on each person.
    """

    probes: tuple[Probe, ...] = ("test", "neighbours", "spare")
    scores_at_checkpoints: bool = False
    norms: Norms | None = None
    fisher_traces: Literal["train", "neighbours"] | None = None
    losses_of: Literal["train", "neighbours"] | int | None = None
    private: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "probes", tuple(self.probes))
        known = self.fisher_traces in (None, "train", "neighbours")
        require(known, f"fisher_traces must be 'train' or 'neighbours', got {self.fisher_traces!r}.")
        if self.losses_of is not None:
            _require_people("losses_of", self.losses_of, ("train", "neighbours"))
        if self.private is not None:
            object.__setattr__(self, "private", tuple(self.private))
            require(
                self.fisher_traces is not None, "private columns are those of fisher_traces, which are not asked for."
            )
            require(len(self.private) > 0, "private must name at least one column.")
        unknown = [probe for probe in self.probes if probe not in PROBES]
        require(not unknown, f"probes must be among {', '.join(PROBES)}, got {unknown}.")


def _require_people(name: str, given: object, parts: tuple[str, ...]) -> None:
    """Raise unless this is one of the parts, or a number of training rows."""
    counted = isinstance(given, int) and not isinstance(given, bool) and given >= 1
    known = ", ".join(repr(part) for part in parts)
    require(counted or given in parts, f"{name} must be {known} or a number of training rows, got {given!r}.")


@dataclass(frozen=True, eq=False)
class Probed:
    """Examples that something is recorded of: the part they are of, their places in it, and themselves."""

    name: str  # of the part, as a coordinate
    rows: np.ndarray
    part: Part
