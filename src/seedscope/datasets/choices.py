"""What somebody says about a table, and whether that fits its columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seedscope.core import require, unknown_name
from seedscope.datasets.columns import shown
from seedscope.datasets.dictionary import Dictionary
from seedscope.datasets.understanding import Forced

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Choices:
    """What somebody says about a table: which column is what, and what to do with those that are hard to read."""

    target: str
    groups: tuple[str, ...] = ()
    test: str | None = None
    id: str | None = None
    drop_missing: bool = False
    seed: int = 0
    groups_as_features: bool = False
    ignore: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    fill: Mapping[str, Any] = field(default_factory=dict)
    above: float | None = None
    decimal: str | None = None
    dictionary: Dictionary = field(default_factory=Dictionary)
    person: str | None = None
    rows_per_person: int | None = None
    impute: str | None = None

    def forced(self, name: str) -> Forced | None:
        """Return how a column must be read, whatever it looks like; None if that was not said."""
        if name in self.dictionary.levels:
            return "levels"
        return "numeric" if name in self.numeric else "category" if name in self.category else None


def require_roles(frame: pd.DataFrame, choices: Choices) -> None:
    """Raise unless every named column exists and has one role only."""
    require(frame.columns.is_unique, "a table must not have two columns of one name.")
    once = [("target", choices.target), *(("group", group) for group in choices.groups), ("test column", choices.test)]
    choices.dictionary.require_known(frame.columns)
    once += [
        ("identifier", choices.id),
        ("person column", choices.person),
        *(("column to ignore", name) for name in choices.ignore),
    ]
    lists = {"feature": choices.features, "numeric column": choices.numeric, "category": choices.category}
    also = [(role, name) for role, names in (lists | {"column to fill": tuple(choices.fill)}).items() for name in names]
    for role, column in (*once, *also):
        if column is not None and column not in frame.columns:
            raise unknown_name(role, column, [str(name)[:60] for name in frame.columns])
    _require_one_role(
        [*once, *(("feature", feature) for feature in choices.features if not choices.groups_as_features)]
    )
    _require_one_role(
        [("numeric column", name) for name in choices.numeric] + [("category", name) for name in choices.category]
    )


def _require_one_role(wanted: Iterable[tuple[str, str | None]]) -> None:
    """Raise if a column is named twice."""
    roles: dict[str, str] = {}
    for role, column in wanted:
        if column is not None:
            require(column not in roles, f"column {shown(column)} is named both as {roles.get(column)} and as {role}.")
            roles[column] = role
