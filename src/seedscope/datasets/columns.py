"""One column of a table: what it holds, and how it becomes numbers, classes or groups.

Numbers stay numbers, true/false becomes 1/0, text becomes one 0/1 column per level (one column if there are two
levels). Whatever has no honest encoding (dates, free text, a mix of numbers and text) is an error that says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.errors import SeedscopeError, require

if TYPE_CHECKING:
    import pandas as pd

MOST_TEXT_LEVELS = 100
MOST_CLASSES = 100
MOST_GROUP_LEVELS = 20
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}/\d{1,2}/\d{1,2}( .*)?")
_TEST_WORDS = {"test": True, "true": True, "yes": True, "1": True}
_TRAIN_WORDS = {"train": False, "training": False, "false": False, "no": False, "0": False}


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
        return np.array(self.names, dtype=np.str_)[self.codes]


def shown(name: object) -> str:
    """Return the name in quotes, short enough for a sentence and with control characters escaped.

    >>> shown("age")
    "'age'"
    """
    text = repr(str(name))
    return text if len(text) <= 62 else text[:58] + "…'"


def features(column: pd.Series) -> Encoded:
    """Return the column as features; raise if it is constant, holds dates, or is text that cannot be encoded.

    >>> import pandas as pd
    >>> colours = features(pd.Series(["red", "blue", "green", "blue"], name="colour"))
    >>> colours.names
    ('colour=blue', 'colour=green', 'colour=red')
    >>> colours.values.tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    plain = _plain_numbers(column)
    if plain is None:
        found = levels(column)
        if found.numbers is None:
            return _one_hot(str(column.name), found, column)
        plain = found.numbers[found.codes]
    _require_usable_numbers(column, plain)
    return Encoded((str(column.name),), plain[:, None])


def levels(column: pd.Series) -> Levels:
    """Return the column's levels: numbers in ascending order, text in alphabetical order without outer spaces.

    >>> import pandas as pd
    >>> levels(pd.Series([10, 2, 10])).names
    ('2', '10')
    """
    import pandas as pd

    _require_known_type(column)
    try:
        codes, found = pd.factorize(column.astype(object) if column.dtype == "category" else column)
    except TypeError:
        raise _unknown_type(column) from None
    values = np.asarray(found, dtype=object)
    if not all(isinstance(value, str | int | float | np.number | np.bool_) for value in values):
        raise _unknown_type(column)
    numbers = _numbers(values)
    if np.isnan(numbers).any():
        return _text_levels(codes, values)
    distinct, order = np.unique(numbers, return_inverse=True)
    truth = all(isinstance(value, bool | np.bool_) for value in values)
    names = tuple(str(bool(number)) if truth else _number_name(number) for number in distinct)
    return Levels(order[codes], names, distinct)


def classes(column: pd.Series) -> Levels:
    """Return the target's classes, numbered from 0 in order; raise if there is one only, or far too many.

    >>> import pandas as pd
    >>> target = classes(pd.Series(["no", "yes", "no", "yes"], name="ill"))
    >>> target.names, target.codes.tolist()
    (('no', 'yes'), [0, 1, 0, 1])
    """
    found = levels(column)
    count, target = len(found.names), f"target {shown(column.name)}"
    require(count > 1, f"{target} has one class only ({shown(found.names[0])}); at least two are needed.")
    fractional = found.numbers is not None and bool(np.any(found.numbers % 1 != 0))
    require(
        count <= MOST_CLASSES and not (fractional and count > 20),
        f"{target} has {count} different values; is it a regression target? Only classes (at most {MOST_CLASSES}) "
        "can be audited.",
    )
    rows = np.bincount(found.codes)
    rare = found.names[int(rows.argmin())]
    require(rows.min() > 1, f"class {shown(rare)} of {target} has one row only; each class needs at least two.")
    return found


def group(column: pd.Series) -> np.ndarray:
    """Return each row's group as text; raise if the column is constant or has too many levels."""
    found = levels(column)
    count, name = len(found.names), f"group column {shown(column.name)}"
    require(count > 1, f"{name} has the same value in every row; leave it out.")
    require(
        count <= MOST_GROUP_LEVELS,
        f"{name} has {count} levels, at most {MOST_GROUP_LEVELS} are allowed; put its values into bands first.",
    )
    return found.texts


def identifiers(column: pd.Series) -> np.ndarray:
    """Return the rows' identifiers, whole numbers or text; raise if two rows share one."""
    from pandas.api.types import is_integer_dtype

    if is_integer_dtype(column.dtype) and column.is_unique:
        return column.to_numpy(dtype=np.int64)
    found = levels(column)
    name = f"identifier column {shown(column.name)}"
    if len(found.names) < len(column):
        twice = found.names[int(np.bincount(found.codes).argmax())]
        raise SeedscopeError(f"{name} must be unique, but {shown(twice)} is there more than once.")
    longest = max(map(len, found.names))
    require(longest <= 200, f"{name} has a value of {longest} characters; at most 200 are allowed.")
    return found.texts


def marked_as_test(column: pd.Series) -> np.ndarray:
    """Return which rows are test rows: test/true/yes/1 against train/false/no/0, in any case."""
    found = levels(column)
    known = _TEST_WORDS | _TRAIN_WORDS
    for name in found.names:
        require(
            name.lower() in known,
            f"test column {shown(column.name)} must say test or train (or true/false, yes/no, 1/0), got {shown(name)}.",
        )
    marks = np.array([known[name.lower()] for name in found.names])[found.codes]
    require(
        marks.any() and not marks.all(),
        f"test column {shown(column.name)} puts every row into the {'test' if marks.all() else 'training'} part.",
    )
    return marks


def _plain_numbers(column: pd.Series) -> np.ndarray | None:
    """Return the values of a column of numbers or truth values as float64, or None for any other column."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    plain = is_bool_dtype(column.dtype) or is_numeric_dtype(column.dtype)
    if not plain or is_complex_dtype(column.dtype) or column.dtype == "category":
        return None
    return column.to_numpy(dtype=np.float64)


def _require_usable_numbers(column: pd.Series, values: np.ndarray) -> None:
    """Raise if a value is infinite, or all are the same."""
    if not np.isfinite(values).all():
        row = column.index[int(np.argmin(np.isfinite(values)))]
        raise SeedscopeError(f"column {shown(column.name)} has an infinite value in row {row}; correct or remove it.")
    if values.min() == values.max():
        raise _constant(column)


def _one_hot(name: str, found: Levels, column: pd.Series) -> Encoded:
    """Return one 0/1 feature per level of a text column, or a single one where there are two levels."""
    _require_pure_text(column, found)
    count = len(found.names)
    if count == 1:
        raise _constant(column)
    require(
        count <= MOST_TEXT_LEVELS,
        f"column {shown(name)} is text with {count} different values, at most {MOST_TEXT_LEVELS} can be encoded; "
        "remove it, or name it as the identifier (--id).",
    )
    first = 1 if count == 2 else 0
    values = (found.codes[:, None] == np.arange(first, count)).astype(np.float64)
    return Encoded(tuple(f"{name}={level}" for level in found.names[first:]), values)


def _require_pure_text(column: pd.Series, found: Levels) -> None:
    """Raise if the levels are dates, or if most cells are numbers and some are not."""
    if all(_DATE.fullmatch(name) for name in found.names):
        raise _dates(column)
    texts = np.isnan(_numbers(np.array(found.names, dtype=object)))
    in_text = texts[found.codes]
    strays = int(in_text.sum())
    if strays >= len(in_text) / 2:
        return
    first = int(in_text.argmax())
    value = found.names[found.codes[first]]
    more = f" (and {strays - 1} other rows have text)" if strays > 1 else ""
    remedy = (
        "if it means a missing value, leave the cell empty" if value == "?" else "correct it, or make all cells text"
    )
    raise SeedscopeError(
        f"column {shown(column.name)} holds numbers, but row {column.index[first]} has {shown(value)}{more}; {remedy}."
    )


def _text_levels(codes: np.ndarray, values: np.ndarray) -> Levels:
    """Return levels by name, those that differ in outer spaces only merged."""
    names = [_number_name(value) if isinstance(value, float) else str(value).strip() for value in values]
    distinct = sorted(set(names))
    place = {name: index for index, name in enumerate(distinct)}
    return Levels(np.array([place[name] for name in names])[codes], tuple(distinct))


def _numbers(values: np.ndarray) -> np.ndarray:
    """Return the values read as numbers, NaN where one is not a number."""
    import pandas as pd

    return np.asarray(pd.to_numeric(pd.Series(values, dtype=object), errors="coerce"), dtype=np.float64)


def _number_name(number: Any) -> str:
    """Return a number as people write it: 3 rather than 3.0."""
    return str(int(number)) if np.isfinite(number) and number % 1 == 0 else str(float(number))


def _require_known_type(column: pd.Series) -> None:
    """Raise unless the column's type is numbers, text, truth values or categories of these."""
    from pandas.api.types import is_complex_dtype, is_datetime64_any_dtype, is_timedelta64_dtype

    if is_datetime64_any_dtype(column.dtype) or is_timedelta64_dtype(column.dtype):
        raise _dates(column)
    if is_complex_dtype(column.dtype):
        raise _unknown_type(column)


def _constant(column: pd.Series) -> SeedscopeError:
    """Return the error for a column without information."""
    return SeedscopeError(f"column {shown(column.name)} has the same value in every row; remove it.")


def _dates(column: pd.Series) -> SeedscopeError:
    """Return the error for a column of dates."""
    return SeedscopeError(
        f"column {shown(column.name)} holds dates; turn them into numbers (years, days) or remove it."
    )


def _unknown_type(column: pd.Series) -> SeedscopeError:
    """Return the error for cells that are neither numbers nor text nor truth values."""
    return SeedscopeError(f"column {shown(column.name)} must hold numbers, text or true/false, got {column.dtype}.")
