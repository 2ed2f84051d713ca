"""Which models are trained: seeds × neighbouring data sets × initialisations, and the chunks they are trained in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from seedscope.core import BASE, RELATIONS, Relation, require, require_count
from seedscope.training import generator

INITS = ("fixed", "varied")


@dataclass(frozen=True)
class Grid:
    """Seeds × neighbouring data sets × initialisations.

    `neighbours` data sets that differ from the base in one row are trained beside it; the rows are drawn uniformly from
    the root seed. `people` are further rows (indices into the training rows) that somebody asks about by name.
    `init` is "fixed" (one initial point for all seeds), "varied" (drawn from the seed) or "both". `checkpoints` are
    steps (0 is the initial point), or how many to space evenly; the last step is always among them. `relation`
    overrides the mechanism's.

    >>> Grid(seeds=2, neighbours=1).neighbour_rows(examples=10)
    array([-1,  7])
    """

    seeds: int = 100
    neighbours: int = 0
    init: Literal["fixed", "varied", "both"] = "varied"
    checkpoints: int | Sequence[int] = 1
    relation: Relation | None = None
    root_seed: int = 0
    people: Sequence[int] = field(default=())

    def __post_init__(self) -> None:
        require_count("seeds", self.seeds)
        require_count("neighbours", self.neighbours, at_least=0)
        require_count("root_seed", self.root_seed, at_least=0)
        require(self.root_seed < 2**31, f"root_seed must be below 2³¹ = {2**31}, got {self.root_seed}.")
        require(self.init in (*INITS, "both"), f"init must be 'fixed', 'varied' or 'both', got {self.init!r}.")
        known = self.relation is None or self.relation in RELATIONS
        require(known, f"relation must be one of {RELATIONS}, got {self.relation!r}.")
        for name in ("seeds", "neighbours", "root_seed"):
            object.__setattr__(self, name, int(getattr(self, name)))
        people = _whole_numbers("people", self.people)
        require(len(set(people)) == len(people), f"people must be different rows, got {list(people)}.")
        object.__setattr__(self, "people", people)
        one_number = np.ndim(self.checkpoints) == 0
        checkpoints = _whole_numbers("checkpoints", [self.checkpoints] if one_number else self.checkpoints)
        object.__setattr__(self, "checkpoints", checkpoints[0] if one_number else checkpoints)

    @property
    def inits(self) -> tuple[str, ...]:
        """The initialisations, as coordinates."""
        return INITS if self.init == "both" else (self.init,)

    def neighbour_rows(self, examples: int, persons: np.ndarray | None = None) -> np.ndarray:
        """Return the neighbour coordinates: the base, the people asked about, then rows in a random order.

        With `persons` [row], whose each row is, a neighbour lacks a person, and one row stands for all of theirs.
        """
        inside = all(0 <= row < examples for row in self.people)
        require(inside, f"people must be row indices from 0 to {examples - 1}, got {list(self.people)}.")
        order = generator(self.root_seed, "neighbours").permutation(examples)
        unnamed = order[~np.isin(order, self.people)]
        room = f"the data have {examples} training rows"
        if persons is not None:
            unnamed = first_of_each(unnamed, persons)
            unnamed = unnamed[~np.isin(persons[unnamed], persons[list(self.people)])]
            room = f"the training rows are of {len(unnamed) + len(self.people)} people"
        most = len(unnamed)
        require(self.neighbours <= most, f"neighbours must be at most {most}, got {self.neighbours}: {room}.")
        return np.concatenate([[BASE], np.asarray(self.people, int), unnamed[: self.neighbours]]).astype(int)

    def steps(self, last: int) -> tuple[int, ...]:
        """Return the checkpoint steps, ascending, the last step included."""
        if isinstance(self.checkpoints, int):
            require_count("checkpoints", self.checkpoints)
            return tuple(sorted({max(1, round(last * k / self.checkpoints)) for k in range(1, self.checkpoints + 1)}))
        inside = all(0 <= step <= last for step in self.checkpoints)
        require(
            inside, f"checkpoints must be steps from 0 (the initial point) to {last}, got {list(self.checkpoints)}."
        )
        return tuple(sorted({*self.checkpoints, last}))


def first_of_each(rows: np.ndarray, persons: np.ndarray) -> np.ndarray:
    """Return the first row of every person, in the rows' order."""
    _, first = np.unique(persons[rows], return_index=True)
    one_each: np.ndarray = rows[np.sort(first)]
    return one_each


def _whole_numbers(name: str, values: Any) -> tuple[int, ...]:
    """Return the values as integers, or raise where they are not a sequence of whole numbers."""
    array = np.asarray(values)
    whole = array.ndim == 1 and (array.dtype.kind in "iu" or len(array) == 0)
    require(whole, f"{name} must be whole numbers, got {values!r}.")
    return tuple(int(number) for number in array)
