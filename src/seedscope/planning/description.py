"""What is written down about an ensemble, beside its records: the one place that knows the keys.

Format 1, JSON: `data`, `mechanism`, `guarantee`, `model`, `grid`, `preprocessing`, `records`, `versions`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod
from typing import Any

from seedscope.core import Relation
from seedscope.datasets import Scaling, scaling_from
from seedscope.mechanisms import Conditions, Guarantee, Mechanism, mechanism_from


@dataclass(frozen=True)
class DataFacts:
    """The data that models were trained on."""

    name: str
    fingerprint: str
    source: str
    examples: int
    test_examples: int
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    norm_bound: float | None  # of a scaled row, without the bias
    persons: int | None = None  # whose the training rows are, where that is known

    @property
    def people(self) -> int:
        """How many people were trained on; where nobody says whose rows are, each is a person's."""
        return self.examples if self.persons is None else self.persons

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON has them; what came later only where it is known: other stores stay the same."""
        written = _lists(asdict(self))
        return written if self.persons is not None else {k: v for k, v in written.items() if k != "persons"}


@dataclass(frozen=True)
class ModelFacts:
    """The model, in words, and what analyses ask about it."""

    name: str
    parameters: int
    convex: bool


@dataclass(frozen=True)
class GridFacts:
    """The grid that was asked for last."""

    seeds: int
    neighbours: int
    people: tuple[int, ...]
    init: tuple[str, ...]
    checkpoints: tuple[int, ...]
    relation: Relation
    root_seed: int
    chunk: Mapping[str, int]


@dataclass(frozen=True)
class Preprocessing:
    """How features were scaled; `described` is the scaling as plain values, or the text that older stores have."""

    described: Mapping[str, Any] | str
    norm_bound: float | None
    learned: bool
    also_learned: tuple[str, ...] = ()  # by the encoding, in words
    spent: tuple[float, float] = (0.0, 0.0)  # (ε, δ) of private preprocessing
    rows_per_person: int = 1

    @cached_property
    def scaling(self) -> Scaling:
        """The scaling, read back."""
        return scaling_from(self.described)

    def to_json(self) -> dict[str, Any]:
        """Return the preprocessing as JSON has it; what older stores lack only where there is something to say."""
        always = {
            "scaling": self.described,
            "norm_bound": self.norm_bound,
            "learned_from_training_part": self.learned,
        }
        seldom = {
            "also_learned": list(self.also_learned),
            "spent": list(self.spent) if any(self.spent) else [],
            "rows_per_person": self.rows_per_person if self.rows_per_person > 1 else None,
        }
        return always | {name: value for name, value in seldom.items() if value}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Preprocessing:
        """Return the preprocessing that was written down."""
        epsilon, delta = written.get("spent", (0.0, 0.0))
        return cls(
            written["scaling"], written["norm_bound"], written["learned_from_training_part"],
            tuple(written.get("also_learned", ())), (epsilon, delta), written.get("rows_per_person", 1),
        )  # fmt: skip


@dataclass(frozen=True)
class Description:
    """How an ensemble was made."""

    data: DataFacts
    described_mechanism: Mapping[str, Any]
    guarantee: Guarantee
    model: ModelFacts
    grid: GridFacts
    preprocessing: Preprocessing
    records: Mapping[str, Any]
    versions: Mapping[str, str]

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism, read back; an error where its class is not known here."""
        return mechanism_from(self.described_mechanism)

    @property
    def conditions(self) -> Conditions:
        """What the mechanism's guarantee depends on."""
        data, bound = self.data, self.preprocessing.norm_bound
        with_bias = None if bound is None else (bound**2 + 1) ** 0.5
        before = self.preprocessing
        return Conditions(
            data.examples, with_bias, before.learned, max(2, len(data.classes)), len(data.shape) == 1,
            self.model.convex, self.model.name, prod(data.shape) + 1, before.also_learned, before.spent,
            before.rows_per_person, data.persons is not None,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON has it."""
        return {
            "data": self.data.to_json(),
            "mechanism": dict(self.described_mechanism),
            "guarantee": self.guarantee.describe(),
            "model": asdict(self.model),
            "grid": _lists(asdict(self.grid)),
            "preprocessing": self.preprocessing.to_json(),
            "records": dict(self.records),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Description:
        """Return the description that was written down."""
        data, grid, before = written["data"], written["grid"], Preprocessing.from_json(written["preprocessing"])
        return cls(
            data=DataFacts(**_tuples(data, "shape", "classes", "groups")),
            described_mechanism=written["mechanism"],
            guarantee=Guarantee.from_description(written["guarantee"]).assuming(  # older stores call it proved
                ("the scaling",) if before.learned else ()
            ),
            model=ModelFacts(**written["model"]),
            grid=GridFacts(**_tuples(grid, "people", "init", "checkpoints")),
            preprocessing=before,
            records=written["records"],
            versions=written["versions"],
        )

    def text(self) -> str:
        """Return the description as the text that is stored."""
        return json.dumps(self.to_json())


def _lists(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts with lists for tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}


def _tuples(facts: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return facts with tuples under these names."""
    return {name: tuple(value) if name in names else value for name, value in facts.items()}
