"""One column of a table: what it holds, and how it becomes numbers, classes or groups.

Numbers stay numbers, dates become days, true/false becomes 1/0, pairs such as 120/80 become two numbers, text becomes
one 0/1 column per level (one column if there are two levels). What has no honest encoding is a problem that says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seedscope.core import SeedscopeError, require
from seedscope.datasets import cells
from seedscope.datasets.reading import Problem

if TYPE_CHECKING:
    import pandas as pd

MOST_TEXT_LEVELS = 100
MOST_CLASSES = 100
MOST_GROUP_LEVELS = 20
MISSING_LEVEL = "(missing)"  # of a group
_MOST_SPELLINGS = 64  # of true and false; a column of more texts says something else
_LEAST_ROWS = 20  # in a smaller table, different values in every row are no sign of an identifier
_UNIQUE = 0.9  # a share of different values from which on text identifies rows
_TEST_WORDS = {"test": True, "true": True, "yes": True, "1": True}
_TRAIN_WORDS = {"train": False, "training": False, "false": False, "no": False, "0": False}
_IDENTIFIER = re.compile(
    r"(?:^|[_\W])(?:id|nr|no|num|number|nummer|key|uuid|guid|index|mrn|record|case|row|fall|pid|ssn)(?:$|[_\W])"
    r"|^(?:patient|person|case|record|row|customer|user|client|fall)_?(?:id|nr|no)$",
    re.IGNORECASE,
)
_CAMEL_IDENTIFIER = re.compile(r"[a-z](?:Id|ID|Nr|No)$")

Forced = Literal["numeric", "category", "levels"]  # numbers; words; words of which each stands for itself
PLURAL = {"numbers": "numbers", "dates": "dates", "pairs": "pairs of numbers"}


@dataclass(frozen=True)
class Encoded:
    """A column as features: their names and values [row, feature]."""

    names: tuple[str, ...]
    values: np.ndarray


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
        names = tuple(str(bool(one)) if truth else number_name(one) for one in self.values)
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
        few = ", ".join(str(one)[:30] for one in self.values[:5])
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


def understand(
    column: pd.Series, forced: Forced | None = None, decimal: str | None = None, words: Sequence[str] = ()
) -> Column:
    """Return what a column holds; what keeps it from being used is its `problem`.

    Args:
        column: its cells, as texts or as pandas typed them.
        forced: read it as numbers, or as words, whatever it looks like.
        decimal: "." or ","; None tries both.
        words: further words for a missing value.

    >>> import pandas as pd
    >>> pressure = understand(pd.Series(["120/80", "135/85", "110/70"], name="pressure"))
    >>> pressure.kind, pressure.values.tolist()
    ('pairs of numbers', [[110.0, 70.0], [120.0, 80.0], [135.0, 85.0]])
    """
    from pandas.api.types import is_datetime64_any_dtype, is_timedelta64_dtype

    if is_datetime64_any_dtype(column.dtype) or is_timedelta64_dtype(column.dtype):
        return _from_days(str(column.name), _typed_days(column))
    codes, values = _factorised(column)
    typed = all(isinstance(value, int | float | np.number | np.bool_) for value in values)
    if typed and forced not in ("category", "levels"):
        truth = all(isinstance(value, bool | np.bool_) for value in values)
        kind = "true/false" if truth and len(values) else "numbers"
        return _numeric(str(column.name), kind, codes, values.astype(np.float64))
    return _from_texts(column, *_as_texts(codes, values, words), forced, decimal)


def features(column: Column) -> Encoded:
    """Return the column as features.

    >>> import pandas as pd
    >>> colours = features(understand(pd.Series(["red", "blue", "green", "blue"], name="colour")))
    >>> colours.names
    ('colour=blue', 'colour=green', 'colour=red')
    >>> colours.values.tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    if not column.is_numeric:
        first = 1 if len(column.values) == 2 else 0
        places = np.arange(first, len(column.values))
        values = (column.codes[:, None] == places).astype(np.float64)
        return Encoded(tuple(f"{column.name}={level}" for level in column.values[first:]), values)
    numbers = column.values[column.codes]
    if numbers.ndim == 1:
        return Encoded((column.name,), numbers[:, None])
    return Encoded((f"{column.name} (first)", f"{column.name} (second)"), numbers)


def read_alone(cells_of: pd.Series, column: Column, decimal: str) -> bool:
    """Say whether each number is what its own cell says with that decimal mark, whatever other rows have.

    >>> import pandas as pd
    >>> plain, sniffed = pd.Series(["1.234", "2"]), pd.Series(["1.234", "2,5"])
    >>> [read_alone(one, understand(one), ".") for one in (plain, sniffed)]
    [True, False]
    """
    codes, values = _factorised(cells_of)
    if column.values.ndim > 1 or not all(isinstance(one, str | int | float | np.number | np.bool_) for one in values):
        return False
    said = np.array([*(not _says_no_number(one) for one in values), False])[codes] & (column.codes >= 0)
    alone = np.array([*(_alone(one, decimal) for one in values), np.nan])[codes]
    return bool(np.array_equal(alone[said], column.values[column.codes[said]]))


def _says_no_number(cell: Any) -> bool:
    """Whether a cell is empty where numbers are expected; what it is filled with is then somebody's to say."""
    text = str(cell)
    return cells.is_empty(text) or text.strip().lower() in cells.EMPTY_AMONG_NUMBERS


def _alone(cell: Any, decimal: str) -> float:
    """Return a cell's number, NaN if it is not written as one."""
    return cells.number(cell.strip(), decimal) if isinstance(cell, str) else float(cell)


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
        return f"it has the same value in every row ({str(column.levels.names[0])[:30]})"
    if rows < _LEAST_ROWS:
        return None
    if not column.is_numeric:
        unique = len(column.values) >= _UNIQUE * rows
        return (
            "nearly every row has a value of its own: it identifies rows; name it as id to see it in the report"
            if unique
            else None
        )
    return "it numbers the rows; name it as id to see it in the report" if _numbers_rows(column) else None


def _numbers_rows(column: Column) -> bool:
    """Say whether a column of numbers identifies rows: counts them up from 0 or 1, or is unique and named so."""
    whole = column.kind == "numbers" and not column.missing and len(column.values) == len(column.codes)
    if not whole or np.any(column.values % 1 != 0):
        return False
    numbers = column.values[column.codes]
    counted = numbers[0] in (0, 1) and bool(np.all(np.diff(numbers) == 1))
    return counted or bool(_IDENTIFIER.search(column.name) or _CAMEL_IDENTIFIER.search(column.name))


def classes(column: Column, above: float | None = None) -> Levels:
    """Return the target's classes, numbered from 0 in order; raise if there is one only, or far too many.

    >>> import pandas as pd
    >>> target = classes(understand(pd.Series(["no", "yes", "no", "yes"], name="ill")))
    >>> target.names, target.codes.tolist()
    (('no', 'yes'), [0, 1, 0, 1])
    """
    target = f"target {shown(column.name)}"
    found = column.levels if above is None else _cut(column, above)
    count = len(found.names)
    require(count > 1, f"{target} has one class only ({shown(found.names[0])}); at least two are needed.")
    fractional = found.numbers is not None and bool(np.any(found.numbers % 1 != 0))
    if count > MOST_CLASSES or (fractional and count > 20):
        numeric = column.is_numeric and column.values.ndim == 1
        middle = f", for example its middle {_median(column)}" if numeric else ""
        raise SeedscopeError(
            f"{target} has {count} different values; is it a regression target? Only classes (at most {MOST_CLASSES}) "
            f"can be audited: say above which number is class 1 (above){middle}.",
            argument="above",
        )
    rows = np.bincount(found.codes)
    rare = found.names[int(rows.argmin())]
    require(rows.min() > 1, f"class {shown(rare)} of {target} has one row only; each class needs at least two.")
    return found


def _median(column: Column) -> str:
    """Return the middle of a column's numbers, with few digits."""
    return f"{np.median(column.values[column.codes]):.4g}"


def _cut(column: Column, above: float) -> Levels:
    """Return two classes of numbers: up to a number, and above it."""
    numeric = column.is_numeric and column.values.ndim == 1
    require(numeric, f"above is for a target of numbers; {shown(column.name)} holds {column.kind}.", argument="above")
    name = number_name(above)
    codes = (column.values > above).astype(np.int64)[column.codes]
    both = len(np.unique(codes)) == 2
    held = f"{shown(column.name)} goes from {column.shown_values}"
    require(both, f"above must leave rows on both sides, got {name}: {held}.", argument="above")
    return Levels(codes, (f"up to {name}", f"above {name}"))


def group(column: Column) -> np.ndarray:
    """Return each row's group as text, an empty cell as a group of its own; raise if all are one, or too many."""
    found = column.levels
    names = (*found.names, MISSING_LEVEL) if column.missing else found.names
    count, name = len(names), f"group column {shown(column.name)}"
    require(count > 1, f"{name} has the same value in every row; leave it out.")
    require(
        count <= MOST_GROUP_LEVELS,
        f"{name} has {count} levels, at most {MOST_GROUP_LEVELS} are allowed; put its values into bands first.",
    )
    return Levels(found.codes, names).texts


def identifiers(column: pd.Series) -> np.ndarray:
    """Return the rows' identifiers, whole numbers or text as they stand; raise if two rows share one."""
    from pandas.api.types import is_integer_dtype

    if is_integer_dtype(column.dtype) and column.is_unique:
        numbers: np.ndarray = column.to_numpy(dtype=np.int64)
        return numbers
    codes, values = _factorised(column)
    require_no_nul(values)
    texts: np.ndarray = np.array(_texts(values), dtype=np.str_)[codes]
    name = f"identifier column {shown(column.name)}"
    if len(set(texts.tolist())) < len(texts):
        found, counts = np.unique(texts, return_counts=True)
        twice = found[int(counts.argmax())]
        raise SeedscopeError(f"{name} must be unique, but {shown(twice)} is there more than once.")
    longest = texts.dtype.itemsize // 4
    require(longest <= 200, f"{name} has a value of {longest} characters; at most 200 are allowed.")
    return texts


def persons(column: pd.Series) -> np.ndarray:
    """Return a number for each row's person; raise where a cell is empty."""
    import pandas as pd

    codes, _ = pd.factorize(column)
    where = f"person column {shown(column.name)}"
    require(bool((codes >= 0).all()), f"{where} has an empty cell; say whose every row is.", argument="person")
    return np.asarray(codes, np.int64)


def require_no_nul(ids: Iterable[Any]) -> None:
    """Raise where an identifier ends with a NUL: arrays of texts drop it, and two people would become one."""
    ids = list(ids)
    if set(map(type, ids)) == {str} and "\0" not in "".join(ids):
        return  # quickly, of millions
    ending = next((one for one in ids if isinstance(one, str) and one.endswith("\0")), None)
    require(ending is None, f"identifier {ending!r} ends with a NUL character, which would be lost; remove it first.")


def empty_cells(column: pd.Series, words: Sequence[str] = ()) -> np.ndarray:
    """Return which cells of a column say nothing, taken as texts."""
    codes, values = _factorised(column)
    longest = cells.longest_empty(words)
    plain = values.tolist()
    if set(map(type, plain)) == {str}:
        short = np.fromiter(map(len, map(str.strip, plain)), np.int64, len(plain)) <= longest
    else:
        short = np.array([isinstance(one, str) for one in plain], bool)
    empty: np.ndarray = np.zeros(len(values) + 1, bool)
    for place in np.flatnonzero(short):
        empty[place] = cells.is_empty(values[place], words)
    empty[-1] = True
    missing: np.ndarray = empty[codes]
    return missing


def marked_as_test(column: Column) -> np.ndarray:
    """Return which rows are test rows: test/true/yes/1 against train/false/no/0, in any case."""
    found = column.levels
    known = _TEST_WORDS | _TRAIN_WORDS
    for name in found.names:
        require(
            name.lower() in known,
            f"test column {shown(column.name)} must say test or train (or true/false, yes/no, 1/0), got {shown(name)}.",
        )
    marks: np.ndarray = np.array([known[name.lower()] for name in found.names])[found.codes]
    require(
        marks.any() and not marks.all(),
        f"test column {shown(column.name)} puts every row into the {'test' if marks.all() else 'training'} part.",
    )
    return marks


def number_name(number: Any) -> str:
    """Return a number as people write it: 3 rather than 3.0."""
    return str(int(number)) if np.isfinite(number) and number % 1 == 0 else str(float(number))


def _range(end: np.ndarray, kind: str) -> str:
    """Return an end of a range; of a date its day."""
    if kind == "dates":
        return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(end)), "D"))
    return "/".join(f"{float(one):.6g}" for one in np.atleast_1d(end))


def _factorised(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's place among the different cells (−1: empty), and these cells."""
    import pandas as pd
    from pandas.api.types import is_complex_dtype

    if is_complex_dtype(column.dtype):
        raise _unknown_type(column)
    try:
        codes, found = pd.factorize(column.astype(object) if column.dtype == "category" else column)
    except TypeError:
        raise _unknown_type(column) from None
    values = np.asarray(found, dtype=object)
    if not all(issubclass(one, _known_types()) for one in set(map(type, values.tolist()))):
        raise _unknown_type(column)
    return codes, values


def _known_types() -> tuple[type, ...]:
    """Return the types of cells: numbers, texts, truth values and dates."""
    import datetime

    return (str, int, float, np.number, np.bool_, datetime.date, datetime.time)


def _text(value: Any) -> str:
    """Return a cell as text, as a person would have typed it."""
    import datetime

    if isinstance(value, float | np.floating):
        return number_name(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    return str(value).strip()


def _texts(values: np.ndarray) -> list[str]:
    """Return cells as texts; plain texts, which a large table has millions of, need only be stripped."""
    plain = values.tolist()
    return list(map(str.strip, plain)) if set(map(type, plain)) == {str} else [_text(value) for value in values]


def _as_texts(codes: np.ndarray, values: np.ndarray, words: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return each row's place (−1: none) among the different texts, and these, empty ones left out."""
    texts, longest = _texts(values), cells.longest_empty(words)
    distinct = sorted({text for text in texts if len(text) > longest or not cells.is_empty(text, words)})
    place = {text: index for index, text in enumerate(distinct)}
    return np.array([*(place.get(text, -1) for text in texts), -1], np.int32)[codes], distinct


def _from_texts(
    column: pd.Series, codes: np.ndarray, texts: list[str], forced: Forced | None, decimal: str | None
) -> Column:
    """Return what a column of texts holds."""
    name = str(column.name)
    folded = {text.lower() for text in texts} if len(texts) <= _MOST_SPELLINGS else {"anything"}
    if forced == "levels":
        return Column(name, "words", codes, np.array(texts, dtype=np.str_))
    if forced == "category" or not texts:
        return _words(name, "words" if texts else "empty", codes, texts)
    if folded <= {"true", "false"}:
        return _numeric(name, "true/false", codes, np.array([text.lower() == "true" for text in texts], float))
    if len(texts) == 1 and folded <= set(cells.TICKS) and np.any(codes < 0):
        return Column(name, "true/false", (codes >= 0).astype(int), np.array([0.0, 1.0]), "an empty cell means no")
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    kind, found, complaint = _best(texts, counts, decimal)
    if complaint:
        return Column(name, "dates", codes, np.array(texts), problem=_problem(name, complaint))
    if found is None or 2 * counts[found.known].sum() <= counts.sum():
        refused = forced == "numeric"
        problem = _strays(name, "numbers", column.index, codes, texts, np.ones(len(texts), bool)) if refused else None
        return replace(_words(name, "words", codes, texts), problem=problem)
    if kind == "numbers" and forced is None and cells.are_codes(texts):
        return replace(_words(name, "codes", codes, texts), note="a leading zero makes them codes")
    return _mostly(column, kind, codes, texts, found)


def _best(texts: list[str], counts: np.ndarray, decimal: str | None) -> tuple[str, cells.Numbers | None, str | None]:
    """Return the kind that most cells are, with their numbers, or the complaint about dates that cannot be told."""
    marks = (".", ",") if decimal is None else (decimal, "." if decimal == "," else ",")
    tries: list[tuple[str, Callable[[], cells.Numbers | str]]] = [
        *(("numbers", lambda mark=mark: _with_note(texts, mark)) for mark in marks),
        ("dates", lambda: cells.dates(texts)),
        ("pairs", lambda: cells.pairs(texts)),
    ]
    best: tuple[str, cells.Numbers | None] = ("words", None)
    most = 0
    for kind, attempt in tries:
        found = attempt()
        if isinstance(found, str):
            return kind, None, found
        rows = int(counts[found.known].sum())
        if rows > most and not (kind == "pairs" and len(texts) < 3):
            best, most = (kind, found), rows
        if rows == counts.sum():
            break
    return *best, None


def _with_note(texts: list[str], mark: str) -> cells.Numbers:
    """Return numbers read with a decimal mark, and a note if that is a comma that made a difference."""
    found = cells.numbers(texts, mark)
    decimal = mark == "," and any("," in text for text in texts)
    return replace(found, note="; ".join(filter(None, [found.note, "a comma separates decimals" if decimal else ""])))


def _mostly(column: pd.Series, kind: str, codes: np.ndarray, texts: list[str], found: cells.Numbers) -> Column:
    """Return a column of numbers, in which other cells are words for a missing value, or a problem."""
    name, known = str(column.name), found.known
    strays = np.array(
        [not one and text.lower() not in cells.EMPTY_AMONG_NUMBERS for one, text in zip(known, texts, strict=True)]
    )
    problem = _strays(name, PLURAL[kind], column.index, codes, texts, strays) if strays.any() else None
    empty = [repr(text) for text, one in zip(texts, known, strict=True) if not one]
    note = "; ".join(
        filter(None, [found.note, f"{', '.join(empty[:4])} read as empty" if empty and not problem else ""])
    )
    if found.values.ndim == 2:
        return _pairs(name, codes, found.values, known, note, problem)
    whole = _numeric(name, kind, np.where(known[codes], codes, -1) if not known.all() else codes, found.values)
    return replace(whole, note=note, problem=problem)


def _pairs(
    name: str, codes: np.ndarray, values: np.ndarray, known: np.ndarray, note: str, problem: Problem | None
) -> Column:
    """Return a column of pairs, its values in ascending order."""
    order = np.lexsort(values[known].T[::-1])
    place = np.full(len(values) + 1, -1)
    place[np.flatnonzero(known)[order]] = np.arange(len(order))
    return Column(name, PLURAL["pairs"], place[codes], values[known][order], note, problem)


def _numeric(name: str, kind: str, codes: np.ndarray, values: np.ndarray) -> Column:
    """Return a column of numbers, its values distinct and ascending."""
    known = ~np.isnan(values)
    distinct, order = np.unique(values[known], return_inverse=True)
    place = np.full(len(values) + 1, -1)
    place[np.flatnonzero(known)] = order
    return Column(name, kind, place[codes], distinct)


def _from_days(name: str, days: np.ndarray) -> Column:
    """Return a column of dates that were typed as such."""
    codes = np.where(np.isnan(days), -1, np.arange(len(days)))
    return replace(_numeric(name, "dates", codes, days), note="dates become days since 1970-01-01")


def _typed_days(column: pd.Series) -> np.ndarray:
    """Return dates or durations in days, NaN where there is none."""
    import pandas as pd
    from pandas.api.types import is_timedelta64_dtype

    if is_timedelta64_dtype(column.dtype):
        return np.asarray(column.dt.total_seconds(), float) / 86400
    plain = column.dt.tz_localize(None) if getattr(column.dt, "tz", None) is not None else column
    return np.asarray((plain - pd.Timestamp("1970-01-01")).dt.total_seconds(), float) / 86400


def _words(name: str, kind: str, codes: np.ndarray, texts: list[str]) -> Column:
    """Return a column of words, those that differ in case or spaces only as one level."""
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    chosen = cells.spellings(dict(zip(texts, counts.tolist(), strict=True)))
    distinct = sorted(set(chosen.values()))
    place = {text: index for index, text in enumerate(distinct)}
    mapped = np.array([*(place[chosen[text]] for text in texts), -1])[codes]
    return Column(name, kind, mapped, np.array(distinct, dtype=np.str_), cells.merged(chosen))


def _strays(name: str, kind: str, index: Any, codes: np.ndarray, texts: list[str], strays: np.ndarray) -> Problem:
    """Return the problem of a column of numbers in which some cells are something else."""
    odd = np.isin(codes, np.flatnonzero(strays))
    first = int(odd.argmax())
    more = f" (and {int(odd.sum()) - 1} other rows have text)" if odd.sum() > 1 else ""
    words = [text for text, stray in zip(texts, strays, strict=True) if stray]
    few = len(words) <= 5 and odd.mean() <= 0.2
    return Problem(
        f"column {shown(name)} holds {kind}, but row {index[first]} has {shown(texts[codes[first]])}{more}; if that "
        "means a missing value say so (missing), read the column as words (category), or leave it out (ignore).",
        {"missing": words, "drop_missing": True} if few else {"ignore": [name]},
        "missing",
    )


def _problem(name: str, complaint: str) -> Problem:
    """Return a complaint about a column as a problem that leaving it out solves."""
    return Problem(f"column {shown(name)} {complaint}, or leave it out.", {"ignore": [name]}, "ignore")


def _unknown_type(column: pd.Series) -> SeedscopeError:
    """Return the error for cells that are neither numbers nor text nor truth values."""
    return SeedscopeError(f"column {shown(column.name)} must hold numbers, text or true/false, got {column.dtype}.")
