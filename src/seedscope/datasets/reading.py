"""How a table was read, column by column: what somebody needs to see that it was understood, or mend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from seedscope.core import SeedscopeError


@dataclass(frozen=True)
class ColumnReading:
    """One column: its role, what it holds, its range or levels, its empty cells, and what became of it."""

    name: str
    role: str
    kind: str
    values: str
    missing: int
    became: str
    note: str = ""


@dataclass(frozen=True)
class Reading:
    """How a file and its columns were read; what should be looked at is in `warnings`."""

    columns: tuple[ColumnReading, ...]
    rows: int
    dropped: int = 0
    file: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that are neither learned from nor used in another way."""
        return tuple(column.name for column in self.columns if column.role == "left out")

    @property
    def sentences(self) -> tuple[str, ...]:
        """The file's facts, dropped rows, columns left out and warnings, one sentence each."""
        dropped = f"{self.dropped:,} of {self.rows:,} rows were dropped: they have an empty cell."
        unused = [
            f"Column {column.name!r} is left out: {column.became}."
            for column in self.columns
            if column.role == "left out"
        ]
        return (*self.file, *((dropped,) if self.dropped else ()), *unused, *self.warnings)

    def describe(self) -> dict[str, Any]:
        """Return the reading as plain values."""
        return {
            "rows": self.rows,
            "dropped": self.dropped,
            "file": list(self.file),
            "warnings": list(self.warnings),
            "columns": [asdict(column) for column in self.columns],
        }


@dataclass(frozen=True)
class Problem:
    """What keeps a table from being read, and which arguments of `read_table` would go on without it."""

    sentence: str
    remedy: Mapping[str, Any] | None = None
    argument: str | None = None


class TableError(SeedscopeError):
    """Everything that keeps a table from being read, at once; `remedy` has the arguments that go on without it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        self.remedy = _together(self.problems)
        super().__init__(_message(self.problems, _as_arguments(self.remedy)))

    def in_words(self, way_out: str) -> str:
        """Return the message with another last line: what to add to go on."""
        return _message(self.problems, way_out)


def raise_problems(problems: list[Problem]) -> None:
    """Raise what was found: a single problem as its sentence, several as a list."""
    if len(problems) == 1:
        raise SeedscopeError(problems[0].sentence, problems[0].argument)
    if problems:
        raise TableError(problems)


def _together(problems: Iterable[Problem]) -> dict[str, Any]:
    """Return the remedies of all problems as one; empty if a problem has none."""
    together: dict[str, Any] = {}
    for problem in problems:
        if problem.remedy is None:
            return {}
        for name, value in problem.remedy.items():
            together[name] = [*together.get(name, []), *value] if isinstance(value, list) else value
    return together


def _as_arguments(remedy: Mapping[str, Any]) -> str:
    """Return a remedy as arguments of a function."""
    return ", ".join(f"{name}={value!r}" for name, value in remedy.items())


def _message(problems: tuple[Problem, ...], way_out: str) -> str:
    """Return all problems as a list, with what goes on without them."""
    shown = [f"  {place}. {problem.sentence}" for place, problem in enumerate(problems[:30], start=1)]
    more = [f"  … and {len(problems) - 30} more."] if len(problems) > 30 else []
    end = [f"To go on without all that: {way_out}"] if way_out else []
    return "\n".join([f"the table has {len(problems)} problems:", *shown, *more, *end])
