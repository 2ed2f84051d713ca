"""A table whose columns stay as they are, for somebody's own pipeline: typed, but neither encoded nor left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.core import SeedscopeError, printable, require, require_path
from seedscope.datasets import roles, understanding
from seedscope.datasets.choices import Choices, require_roles
from seedscope.datasets.columns import Column, shown
from seedscope.datasets.reading import raise_problems
from seedscope.datasets.table_files import FileOptions, read_file, typed, without_value
from seedscope.datasets.table_steps import TableSteps
from seedscope.datasets.tables import Names, character, names_of, stem

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class PlainTable:
    """Rows of any kind, their labels, and what goes with them: which are test rows, groups and identifiers."""

    X: Any
    y: np.ndarray
    test: np.ndarray | None
    groups: Mapping[str, np.ndarray]
    ids: np.ndarray | None
    name: str


def read_plain_table(
    path: str | Path,
    *,
    target: str,
    groups: Names = (),
    test: str | None = None,
    id: str | None = None,
    drop_missing: bool = False,
    ignore: Names = (),
    features: Names = (),
    numeric: Names = (),
    category: Names = (),
    missing: Names = (),
    fill: Mapping[str, Any] | None = None,
    above: float | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> PlainTable:
    """Return the table in a file with a type for each column; the arguments are those of `read_table`.

    Columns of numbers are numbers (whole ones integers), true/false is boolean, anything else text; an empty cell is a
    missing value unless `fill` has one for it. Encoding the rest is the pipeline's.
    """
    require_path("path", path)
    table = read_file(path, FileOptions(character(separator), encoding, sheet))
    choices = Choices(
        target, names_of(groups), test, id, drop_missing, ignore=names_of(ignore), features=names_of(features),
        numeric=names_of(numeric), category=names_of(category), missing=names_of(missing), fill=fill or {}, above=above,
        decimal=decimal,
    )  # fmt: skip
    require_roles(table.frame, choices)
    read = TableSteps(table.frame, choices).understood
    raise_problems([reading.problem for name in choices.numeric if (reading := read[name]).problem is not None])
    whole = _whole_rows(table.frame, read, choices)
    frame, read = table.frame[whole], {name: column.take(np.flatnonzero(whole)) for name, column in read.items()}
    aside = (target, test, *choices.groups)
    for name in (target, test):
        _require_whole(None if name is None else read[name])
    return PlainTable(
        _typed(frame, {name: column for name, column in read.items() if name not in aside}, choices),
        _labels(frame[target], read[target], choices),
        None if test is None else roles.marked_as_test(read[test]),
        {name: roles.group(read[name]) for name in choices.groups},
        None if id is None else roles.identifiers(frame[id]),
        printable(stem(Path(path))),
    )


def _whole_rows(frame: pd.DataFrame, read: Mapping[str, Column], choices: Choices) -> np.ndarray:
    """Return which rows are kept: those without an empty cell, where others are to be dropped; all otherwise.

    People without a group are a group of their own.
    """
    if not choices.drop_missing:
        return np.ones(len(frame), bool)
    needed = read.keys() - set(choices.groups)
    empty = [without_value(frame[name], read[name], choices.missing) for name in needed]
    whole: np.ndarray = ~np.any(empty, axis=0)
    require(whole.any(), "every row has an empty cell; fill them (fill), or leave such columns out (ignore).", "fill")
    return whole


def _require_whole(column: Column | None) -> None:
    """Raise where a column in which every row must say something has empty cells."""
    if column is not None and column.missing:
        lacking = f"column {shown(column.name)} has {column.missing} empty cells; fill them (fill)"
        raise SeedscopeError(f"{lacking}, or leave those rows out (drop_missing).", "drop_missing")


def _typed(frame: pd.DataFrame, read: Mapping[str, Column], choices: Choices) -> pd.DataFrame:
    """Return the columns that are learned from, each with the type of what it holds."""
    import pandas as pd

    require(len(read) > 0, "no column is left to learn from; the table needs one besides target, groups, test and id.")
    labels = {}
    for name, column in read.items():
        empty = understanding.empty_cells(frame[name], choices.missing)
        cells = frame[name] if name not in choices.fill else frame[name].astype(object).mask(empty, choices.fill[name])
        labels[name] = typed(cells, column, choices.missing).reset_index(drop=True)
    return pd.DataFrame(labels)


def _labels(cells: pd.Series, column: Column, choices: Choices) -> np.ndarray:
    """Return the labels, as they are or by the number that divides them."""
    if choices.above is not None:
        levels = roles.classes(column, choices.above)
        return np.asarray(np.array(levels.names)[levels.codes])
    return np.asarray(typed(cells, column).to_numpy())
