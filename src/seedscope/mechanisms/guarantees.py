"""What a guarantee depends on, and what is proved: an (ε, δ) of the whole pipeline, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from seedscope.core import Kind, Number, Relation
from seedscope.datasets import MOST_ROWS

if TYPE_CHECKING:
    from seedscope.datasets import Dataset, FittedScaling


@dataclass(frozen=True)
class Conditions:
    """What a guarantee depends on: the number of training rows and the public bound on their norm, bias included.

    And what a mechanism may need besides: the classes, whether examples are rows of a table, whether the model's loss
    is convex, and the model in words. What of the preprocessing was learned from those rows (the scaling; anything
    else, in words) turns *proved* into *estimate*; `spent` is the (ε, δ) that private preprocessing has cost already,
    `rows_per_person` how many rows one person has at most. `Guarantee.proved` accounts for all of these.
    """

    examples: int
    norm_bound: float | None
    scaling_learned: bool = False
    classes: int = 2
    is_table: bool = True
    convex: bool = True
    model: str = "Logistic()"
    width: int | None = None  # of a row with its bias; calibrations that go with the number of weights need it
    also_learned: tuple[str, ...] = ()
    spent: tuple[float, float] = (0.0, 0.0)
    rows_per_person: int = 1
    by_person: bool = False  # whether it is known whose each row is

    @classmethod
    def of(cls, data: Dataset, scaling: FittedScaling, convex: bool = True, model: str = "Logistic()") -> Conditions:
        """Return the conditions of a data set's scaled rows, to which training adds a bias column of ones."""
        bound = None if scaling.norm_bound is None else math.hypot(scaling.norm_bound, 1)
        width = math.prod(data.features.shape[1:]) + 1
        learned = tuple(dict.fromkeys((*data.learned, *scaling.also_learned)))
        return cls(
            len(data.base), bound, scaling.learned, data.classes, data.features.ndim == 2, convex, model, width,
            learned, scaling.spent, data.rows_per_person, data.base.persons is not None,
        )  # fmt: skip

    @property
    def alone(self) -> bool:
        """Whether the mechanism's own proof is all there is: nothing was spent before, and a person is a row."""
        return self.spent == (0.0, 0.0) and self.rows_per_person == 1

    @property
    def learned(self) -> tuple[str, ...]:
        """What of the preprocessing was learned from the training rows, in words; empty where all of it is public."""
        return (("the scaling",) if self.scaling_learned else ()) + self.also_learned


LARGEST_EXPONENT = 700  # of e, in floating point
SIZE_SEEN = ", and is small enough to show in the weights: give public_size, known without the data"
NOT_COVERED = (
    "The people of a test part: no ε is about them, and what is measured on them tells something of them.",
    "The choice of a level or a setting by results on private data: every such look costs privacy beyond this ε.",
    "Other models trained on the same people, an audit's among them: what they cost adds up.",
    "What a model says of people because it is true of many: that needs nobody's own row.",
)


@dataclass(frozen=True)
class Guarantee:
    """An (ε, δ) under one neighbour relation for one unit, or the reason why there is none.

    The ε is *proved* for the whole pipeline, or an *estimate* where it would be proved only if something that was
    learned from the rows were public; `assumes` says what.
    """

    relation: Relation
    epsilon: Number | None
    delta: float
    reason: str
    assumes: tuple[str, ...] = ()
    unit: Literal["row", "person"] = "row"

    @classmethod
    def proved(cls, relation: Relation, epsilon: float, delta: float, conditions: Conditions, by: str) -> Guarantee:
        """Return what a mechanism's proved (ε, δ) comes to for the whole pipeline.

        A person of several rows has group privacy, private preprocessing is added (basic composition), and what was
        learned from the rows makes the number an estimate.

        >>> found = Guarantee.proved("replace_one", 1.0, 0.0, Conditions(100, 1.0, scaling_learned=True), "noise")
        >>> found.epsilon.kind, found.reason
        ('estimate', 'noise; proved only if the scaling were public, and here it was learned from the training rows.')
        """
        rows, learned = conditions.rows_per_person, conditions.learned
        (whole, rest), before = group_privacy(epsilon, delta, rows), group_privacy(*conditions.spent, rows)
        if rest + before[1] >= 1:
            return cls.none(relation, 0.0, f"{by}; for all rows of a person that leaves δ at 1: nothing.")
        kind: Kind = "estimate" if learned else "proved"
        number = Number(whole + before[0], kind, note=only_if(learned) if learned else "")
        unit: Literal["row", "person"] = "person" if conditions.by_person or rows > 1 else "row"
        reason = "; ".join([by, *_conditions_in_words(conditions)]) + "."
        return cls(relation, number, rest + before[1], reason, learned, unit)

    @classmethod
    def none(cls, relation: Relation, delta: float, reason: str) -> Guarantee:
        """Return that nothing is proved, and why."""
        return cls(relation, None, delta, reason)

    @property
    def is_proved(self) -> bool:
        """Whether there is an ε, and it is proved for what is trained here."""
        return self.epsilon is not None and self.epsilon.kind == "proved"

    def describe(self) -> dict[str, Any]:
        """Return what is written down beside the trained models."""
        epsilon = None if self.epsilon is None else self.epsilon.as_dict()
        written = {"relation": self.relation, "epsilon": epsilon, "delta": self.delta, "reason": self.reason}
        further = {"assumes": list(self.assumes)} if self.assumes else {}
        return written | further | ({"unit": self.unit} if self.unit != "row" else {})

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Guarantee:
        """Return the guarantee that was written down."""
        epsilon = description["epsilon"]
        number = None if epsilon is None else Number.from_dict(epsilon)
        assumes, unit = tuple(description.get("assumes", ())), description.get("unit", "row")
        return cls(description["relation"], number, description["delta"], description["reason"], assumes, unit)

    def assuming(self, learned: tuple[str, ...]) -> Guarantee:
        """Return the guarantee as an estimate, for preprocessing that was learned; as it is where that is known."""
        if self.epsilon is None or not learned or set(learned) <= set(self.assumes):
            return self
        estimate = replace(self.epsilon, kind="estimate", note=only_if(learned))
        return replace(self, epsilon=estimate, assumes=learned, reason=f"{self.reason[:-1]}; {only_if(learned)}.")


def group_privacy(epsilon: float, delta: float, rows: int) -> tuple[float, float]:
    """Return the (ε, δ) of a person with this many rows, from that of one row (Vadhan 2017, Lemma 2.2).

    >>> group_privacy(0.5, 0.0, 2)
    (1.0, 0.0)
    """
    if rows == 1:
        return epsilon, delta
    if rows * epsilon > LARGEST_EXPONENT:
        return rows * epsilon, float(delta > 0)
    growth = math.expm1(rows * epsilon) / math.expm1(epsilon) if epsilon else rows
    return rows * epsilon, min(1.0, delta * growth)


def only_if(learned: tuple[str, ...]) -> str:
    """Return in words that something would have to be public.

    >>> only_if(("the scaling", "the category levels"))
    'proved only if the scaling and the category levels were public, and here they were learned from the training rows'
    """
    were = "it was" if len(learned) == 1 and not learned[0].endswith("s") else "they were"
    return f"proved only if {' and '.join(learned)} were public, and here {were} learned from the training rows"


def _conditions_in_words(conditions: Conditions) -> list[str]:
    """Return what the pipeline adds to a mechanism's own proof, a phrase each."""
    said = []
    if conditions.rows_per_person > 1:
        learned = MOST_ROWS in conditions.also_learned  # then the number itself would tell of somebody
        said.append(
            f"group privacy for a person of {'several' if learned else f'at most {conditions.rows_per_person}'} rows"
        )
    if conditions.spent != (0.0, 0.0):
        epsilon, delta = group_privacy(*conditions.spent, conditions.rows_per_person)
        said.append(f"ε = {epsilon:.4g} and δ = {delta:.2g} of it went into private preprocessing")
    return [*said, only_if(conditions.learned)] if conditions.learned else said
