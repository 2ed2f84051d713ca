"""What a column can be besides something to learn from: target, group, identifier, person, mark of test rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.core import SeedscopeError, require
from seedscope.datasets.cells import yes_before_no
from seedscope.datasets.columns import Column, Levels, number_name, shown
from seedscope.datasets.understanding import factorised, texts_of

if TYPE_CHECKING:
    import pandas as pd

MOST_CLASSES = 100
MOST_GROUP_LEVELS = 20
MISSING_LEVEL = "(missing)"  # of a group
_TEST_WORDS = {"test": True, "true": True, "yes": True, "1": True}
_TRAIN_WORDS = {"train": False, "training": False, "false": False, "no": False, "0": False}


def classes(column: Column, above: float | None = None) -> Levels:
    """Return the target's classes, numbered from 0 in order; raise if there is one only, or far too many.

    >>> import pandas as pd
    >>> from seedscope.datasets.understanding import understand
    >>> target = classes(understand(pd.Series(["no", "yes", "no", "yes"], name="ill")))
    >>> target.names, target.codes.tolist()
    (('no', 'yes'), [0, 1, 0, 1])

    Of two words for yes and no, in any of the languages that we know, yes is class 1.
    """
    target = f"target {shown(column.name)}"
    levels = _no_first(column.levels) if above is None else _cut(column, above)
    count = len(levels.names)
    require(count > 1, f"{target} has one class only ({shown(levels.names[0])}); at least two are needed.")
    fractional = levels.numbers is not None and bool(np.any(levels.numbers % 1 != 0))
    if count > MOST_CLASSES or (fractional and count > 20):
        numeric = column.is_numeric and column.values.ndim == 1
        middle = f", for example its middle {_median(column)}" if numeric else ""
        raise SeedscopeError(
            f"{target} has {count} different values; is it a regression target? Only classes (at most {MOST_CLASSES}) "
            f"can be audited: say above which number is class 1 (above){middle}.",
            argument="above",
        )
    rows = np.bincount(levels.codes)
    rare = levels.names[int(rows.argmin())]
    require(rows.min() > 1, f"class {shown(rare)} of {target} has one row only; each class needs at least two.")
    return levels


def _no_first(levels: Levels) -> Levels:
    """Return two levels that say yes and no with no first: 'ja' comes before 'nein' only in the alphabet."""
    if not yes_before_no(levels.names):
        return levels
    codes = np.where(levels.codes < 0, levels.codes, 1 - levels.codes)
    return Levels(codes, levels.names[::-1], None if levels.numbers is None else levels.numbers[::-1])


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
    levels = column.levels
    names = (*levels.names, MISSING_LEVEL) if column.missing else levels.names
    count, name = len(names), f"group column {shown(column.name)}"
    require(count > 1, f"{name} has the same value in every row; leave it out.")
    require(
        count <= MOST_GROUP_LEVELS,
        f"{name} has {count} levels, at most {MOST_GROUP_LEVELS} are allowed; put its values into bands first.",
    )
    return Levels(levels.codes, names).texts


def identifiers(column: pd.Series) -> np.ndarray:
    """Return the rows' identifiers, whole numbers or text as they stand; raise if two rows share one."""
    from pandas.api.types import is_integer_dtype

    if is_integer_dtype(column.dtype) and column.is_unique:
        numbers: np.ndarray = column.to_numpy(dtype=np.int64)
        return numbers
    codes, values = factorised(column)
    require_no_nul(values)
    different = texts_of(values)
    texts: np.ndarray = np.array(different, dtype=np.str_)[codes]
    name = f"identifier column {shown(column.name)}"
    if len(set(different)) < len(texts):
        ids, counts = np.unique(texts, return_counts=True)
        twice = ids[int(counts.argmax())]
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
    ending = next((value for value in ids if isinstance(value, str) and value.endswith("\0")), None)
    require(ending is None, f"identifier {ending!r} ends with a NUL character, which would be lost; remove it first.")


def marked_as_test(column: Column) -> np.ndarray:
    """Return which rows are test rows: test/true/yes/1 against train/false/no/0, in any case."""
    levels = column.levels
    known = _TEST_WORDS | _TRAIN_WORDS
    for name in levels.names:
        require(
            name.lower() in known,
            f"test column {shown(column.name)} must say test or train (or true/false, yes/no, 1/0), got {shown(name)}.",
        )
    marks: np.ndarray = np.array([known[name.lower()] for name in levels.names])[levels.codes]
    require(
        marks.any() and not marks.all(),
        f"test column {shown(column.name)} puts every row into the {'test' if marks.all() else 'training'} part.",
    )
    return marks
