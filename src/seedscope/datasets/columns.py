"""One column of a table: what it holds, how it becomes features, and what keeps it from that.

Numbers stay numbers, dates become days, true/false becomes 1/0, pairs such as 120/80 become two numbers, text becomes
one 0/1 column per level (one column if there are two levels). What has no honest encoding is a problem that says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from seedscope.datasets.reading import Problem

MOST_TEXT_LEVELS = 100
TIMES = "times of day"
_LEAST_ROWS = 20  # in a smaller table, different values in every row are no sign of an identifier
_UNIQUE = 0.9  # a share of different values from which on text identifies rows
_IDENTIFIER = re.compile(
    r"(?:^|[_\W])(?:id|nr|no|num|number|nummer|key|uuid|guid|index|mrn|record|case|row|fall|pid|ssn|phone|tel|telefon|mobile)(?:$|[_\W])"
    r"|^(?:patient|person|case|record|row|customer|user|client|fall)_?(?:id|nr|no)$|(?:nummer|kennung|kennzeichen)$",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"^(?:patient|person|customer|client|user|subject|participant|member|employee|kunden|fall)s?[\W_]?"
    r"(?:id|nr|no|num|number|nummer|key|code|uuid|kennung)$|^(?:mrn|ssn|pid)$",
    re.IGNORECASE,
)
_FEW_PEOPLE = 20  # a column with fewer levels may well be a code that says something
_PLACEHOLDERS = (-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999, 999999)
_CAMEL_IDENTIFIER = re.compile(r"[a-z](?:Id|ID|Nr|No)$")


@dataclass(frozen=True)
class Encoded:
    """A column as features: their names, what they are of each of its values [value, feature], and each row's value.

    An empty cell, −1, has the last line.
    """

    names: tuple[str, ...]
    lines: np.ndarray
    codes: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """The features [row, feature]."""
        values: np.ndarray = self.lines[self.codes]
        return values


@dataclass(frozen=True)
class Levels:
    """A column as levels: each row's level, the levels' names in order, and their values where all are numbers."""

    codes: np.ndarray
    names: tuple[str, ...]
    numbers: np.ndarray | None = None

    @property
    def texts(self) -> np.ndarray:
        """Each row's level by name."""
        texts: np.ndarray = np.array(self.names, dtype=np.str_)[self.codes]
        return texts


@dataclass(frozen=True, eq=False)
class Column:
    """A column as understood: its kind, each row's value (−1: none), and what the values are.

    `values` are ascending numbers, pairs of numbers [value, 2], or names in alphabetical order.
    """

    name: str
    kind: str
    codes: np.ndarray
    values: np.ndarray
    note: str = ""
    problem: Problem | None = None

    @property
    def missing(self) -> int:
        """How many cells are empty."""
        return int((self.codes < 0).sum())

    @cached_property
    def is_numeric(self) -> bool:
        """Whether the values are numbers, one or two each."""
        return self.values.dtype.kind == "f"

    @property
    def levels(self) -> Levels:
        """The column as levels; an empty cell has the code −1."""
        if not self.is_numeric:
            return Levels(self.codes, tuple(self.values.tolist()))
        if self.values.ndim == 2:
            return Levels(self.codes, tuple(f"{first:g}/{second:g}" for first, second in self.values))
        truth = self.kind == "true/false"
        names = tuple(str(bool(value)) if truth else number_name(value) for value in self.values)
        return Levels(self.codes, names, self.values)

    @property
    def shown_values(self) -> str:
        """The range of numbers, or the first levels."""
        if len(self.values) == 0:
            return "–"
        if self.kind == "true/false":
            return ", ".join(self.levels.names)
        if self.is_numeric:
            return f"{_range(self.values.min(0), self.kind)} to {_range(self.values.max(0), self.kind)}"
        few = ", ".join(str(value)[:30] for value in self.values[:5])
        return few if len(self.values) <= 5 else f"{few}, … ({len(self.values):,} levels)"

    def take(self, rows: np.ndarray | slice) -> Column:
        """Return the column with these rows only, and without values that no row has any more."""
        if isinstance(rows, np.ndarray) and np.array_equal(rows, np.arange(len(self.codes))):
            rows = slice(None)
        codes = self.codes[rows]
        used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(self.values)))
        if len(used) == len(self.values):
            return replace(self, codes=codes)
        place = np.full(len(self.values) + 1, -1, np.int32)
        place[used] = np.arange(len(used))
        return replace(self, codes=place[codes], values=self.values[used])


def shown(name: object) -> str:
    """Return the name in quotes, short enough for a sentence and with control characters escaped.

    >>> shown("age")
    "'age'"
    """
    text = repr(str(name))
    return text if len(text) <= 62 else text[:58] + "…'"


def features(column: Column) -> Encoded:
    """Return the column as features.

    >>> import pandas as pd
    >>> from seedscope.datasets.understanding import understand
    >>> colours = features(understand(pd.Series(["red", "blue", "green", "blue"], name="colour")))
    >>> colours.names
    ('colour=blue', 'colour=green', 'colour=red')
    >>> colours.values.tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    if not column.is_numeric:
        first = 1 if len(column.values) == 2 else 0
        lines = np.eye(len(column.values) + 1, len(column.values))[:, first:]  # an empty cell has no level
        return Encoded(tuple(f"{column.name}={level}" for level in column.values[first:]), lines, column.codes)
    if column.values.ndim == 1:
        return Encoded((column.name,), column.values[:, None], column.codes)
    return Encoded((f"{column.name} (first)", f"{column.name} (second)"), column.values, column.codes)


def unusable(column: Column) -> Problem | None:
    """Return what keeps a column from being a feature: an infinite value, or too many levels; None if nothing does."""
    name, remedy = shown(column.name), {"ignore": [column.name]}
    if column.problem is not None:
        return column.problem
    if column.is_numeric and not np.isfinite(column.values).all():
        bad = np.flatnonzero(~np.isfinite(column.values).reshape(len(column.values), -1).all(1))
        row = int(np.isin(column.codes, bad).argmax())
        return Problem(
            f"column {name} has an infinite value in row {row}; correct it, or leave it out.", remedy, "ignore"
        )
    if not column.is_numeric and len(column.values) > MOST_TEXT_LEVELS:
        count = len(column.values)
        way = "leave it out" if column.kind != "codes" else "leave it out, or read it as numbers (numeric)"
        return Problem(
            f"column {name} is text with {count} different values, at most {MOST_TEXT_LEVELS} can be encoded; {way}.",
            remedy,
            "ignore",
        )
    return None


def says_nothing(column: Column) -> str | None:
    """Return why a column is left out though nobody asked for it, None for one that can be learned from."""
    rows = len(column.codes) - column.missing
    if rows == 0:
        return "it is empty in every row"
    if len(column.values) == 1:
        where = "in every row" if not column.missing else "wherever it is not empty"
        return f"it has the same value {where} ({str(column.levels.names[0])[:30]})"
    if rows < _LEAST_ROWS:
        return None
    if _names_people(column):
        return (
            "its name and repeated values say whose a row is; count a person's rows together (person), or name it (id)"
        )
    if not column.is_numeric:
        unique = len(column.values) >= _UNIQUE * rows
        return (
            "nearly every row has a value of its own: it identifies rows; name it (id) to see it in the report"
            if unique
            else None
        )
    return "it numbers the rows; name it (id) to see it in the report" if _numbers_rows(column) else None


def _names_people(column: Column) -> bool:
    """Say whether a column names people who have several rows: it is called so, and values are there again."""
    several = _FEW_PEOPLE < len(column.values) < len(column.codes) - column.missing
    if not several or not _PERSON.search(column.name):
        return False
    return not column.is_numeric or (column.values.ndim == 1 and not np.any(np.mod(column.values, 1)))


def stands_for_nothing(column: Column) -> float | None:
    """Return a number such as −999 that is far from all others and there more than once: often a missing value.

    >>> import pandas as pd
    >>> from seedscope.datasets.understanding import understand
    >>> [stands_for_nothing(understand(pd.Series(one))) for one in ([-999, 70, -999, 81], [-999, -998, -999, -990])]
    [-999.0, None]
    """
    if column.kind != "numbers" or len(column.values) < 3:
        return None
    values = column.values
    for place, rest in ((0, values[1:]), (-1, values[:-1])):
        end, span = values[place], rest[-1] - rest[0]
        apart = np.abs(end - rest).min() > max(2 * span, 10.0)
        if end in _PLACEHOLDERS and apart and int((column.codes == place % len(values)).sum()) > 1:
            return float(end)
    return None


def _numbers_rows(column: Column) -> bool:
    """Say whether a column of numbers identifies rows: counts them up from 0 or 1, or is unique and named so."""
    whole = column.kind == "numbers" and not column.missing and len(column.values) == len(column.codes)
    if not whole or np.any(column.values % 1 != 0):
        return False
    numbers = column.values[column.codes]
    counted = numbers[0] in (0, 1) and bool(np.all(np.diff(numbers) == 1))
    return counted or bool(_IDENTIFIER.search(column.name) or _CAMEL_IDENTIFIER.search(column.name))


def number_name(number: Any) -> str:
    """Return a number as people write it: 3 rather than 3.0."""
    return str(int(number)) if np.isfinite(number) and number % 1 == 0 else str(float(number))


def _range(end: np.ndarray, kind: str) -> str:
    """Return an end of a range; of a date its day."""
    if kind == "dates":
        return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(end)), "D"))
    if kind == TIMES:
        minutes = round(60 * float(end))
        return f"{minutes // 60:02d}:{minutes % 60:02d}"
    return "/".join(f"{float(value):.6g}" for value in np.atleast_1d(end))
