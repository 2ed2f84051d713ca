"""Anybody's table as a `Dataset`: typed columns, a target, groups kept aside, and a test part."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seedscope.datasets import columns
from seedscope.datasets.columns import shown
from seedscope.datasets.dataset import Dataset, Part
from seedscope.datasets.splits import stratified_split
from seedscope.datasets.table_files import read_frame
from seedscope.errors import SeedscopeError, require, unknown_name

if TYPE_CHECKING:
    import pandas as pd


def read_table(
    path: str | Path,
    *,
    target: str,
    groups: str | Iterable[str] = (),
    test: str | None = None,
    id: str | None = None,
    drop_missing: bool = False,
    seed: int = 0,
    groups_as_features: bool = False,
) -> Dataset:
    """Return the table in a CSV or Parquet file as a data set that can be audited.

    Numbers stay as they are, true/false becomes 1/0, and text becomes one 0/1 feature per level (`colour=red`; a
    single one where there are two levels). What cannot be encoded honestly is an error that names the column. Rows
    count from 0, the first row below the header.

    Args:
        path: a CSV file in UTF-8 with a header, also gzipped, or a Parquet file (extra `parquet`).
        target: the column to predict; its classes are numbered in order, so class 1 of two is the larger one.
        groups: columns by which results are compared. At most 20 levels each; not features unless
            `groups_as_features`.
        test: a column that says which rows are the test part (test/true/yes/1); without it a stratified 25 % is drawn.
        id: a column of unique identifiers; without it a row is identified by its number.
        drop_missing: leave out rows with an empty cell, which are an error otherwise.
        seed: what the test part is drawn from.
        groups_as_features: whether models may also learn from the group columns.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "people.csv"
    ...     _ = path.write_text("age,sex,ill\\n" + "\\n".join(f"{a},{'fm'[a % 2]},{a // 50}" for a in range(20, 80)))
    ...     read_table(path, target="ill", groups=["sex"])
    Dataset('people': 45 train, 15 test, 1 features, 2 classes)
    """
    frame, source = read_frame(path)
    return from_frame(
        frame,
        target=target,
        groups=groups,
        test=test,
        id=id,
        drop_missing=drop_missing,
        seed=seed,
        groups_as_features=groups_as_features,
        name=_stem(Path(path)),
        source=source,
    )


def from_frame(
    frame: pd.DataFrame,
    *,
    target: str,
    groups: str | Iterable[str] = (),
    test: str | None = None,
    id: str | None = None,
    drop_missing: bool = False,
    seed: int = 0,
    groups_as_features: bool = False,
    name: str = "table",
    source: str = "a data frame",
) -> Dataset:
    """Return a pandas data frame as a data set; the arguments and rules are those of `read_table`."""
    groups = list(dict.fromkeys([groups] if isinstance(groups, str) else groups))
    frame = frame.reset_index(drop=True)
    _require_roles(frame, target, groups, test, id)
    frame = _without_missing(frame, drop_missing)
    classes = columns.classes(frame[target])
    aside = {target, test, id} | (set() if groups_as_features else set(groups))
    names, features = _features(frame, [column for column in frame.columns if column not in aside])
    whole = Part(
        features,
        classes.codes.astype(np.int64),
        frame.index.to_numpy() if id is None else columns.identifiers(frame[id]),
        frame.index.to_numpy(),
        {group: columns.group(frame[group]) for group in groups},
    )
    train, test_rows = _parts(frame, whole.labels, classes.names, test, seed)
    return Dataset(name, whole.take(train), whole.take(test_rows), names, classes.names, source)


def _require_roles(frame: pd.DataFrame, target: str, groups: list[str], test: str | None, id: str | None) -> None:
    """Raise unless every named column exists and has one role only."""
    require(frame.columns.is_unique, "a table must not have two columns of one name.")
    wanted = [("target", target), *(("group", group) for group in groups), ("test column", test), ("identifier", id)]
    roles: dict[str, str] = {}
    for role, column in wanted:
        if column is None:
            continue
        if column not in frame.columns:
            raise unknown_name(role, column, [str(name)[:60] for name in frame.columns])
        require(column not in roles, f"column {shown(column)} is named both as {roles.get(column)} and as {role}.")
        roles[column] = role


def _without_missing(frame: pd.DataFrame, drop_missing: bool) -> pd.DataFrame:
    """Return the rows without empty cells, which are an error unless they may be dropped."""
    empty = frame.isna()
    counts = empty.sum()
    holed = [column for column in frame.columns if counts[column]]
    if not holed:
        return frame
    hollow = [column for column in holed if counts[column] == len(frame)]
    require(not hollow, f"column {shown(hollow[0]) if hollow else ''} is empty in every row; remove it.")
    if not drop_missing:
        cells = "1 empty cell" if counts[holed[0]] == 1 else f"{counts[holed[0]]} empty cells"
        more = f" and {len(holed) - 1} more columns have some" if len(holed) > 1 else ""
        raise SeedscopeError(
            f"column {shown(holed[0])} has {cells}{more}; drop those rows with --drop-missing or fill them first."
        )
    kept = frame[~empty.any(axis=1)]
    require(len(kept) > 0, f"every row has an empty cell, for example in column {shown(holed[0])}; fill them first.")
    return kept


def _features(frame: pd.DataFrame, names: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the features' names and values [row, feature] of the named columns, in their order."""
    require(
        len(names) > 0, "no column is left to learn from; the table needs at least one besides target, groups and id."
    )
    encoded = [columns.features(frame[name]) for name in names]
    features = np.empty((len(frame), sum(len(column.names) for column in encoded)))
    place = 0
    for column in encoded:
        features[:, place : place + len(column.names)] = column.values
        place += len(column.names)
    return tuple(name for column in encoded for name in column.names), features


def _parts(
    frame: pd.DataFrame, labels: np.ndarray, classes: tuple[str, ...], test: str | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and test rows: as the test column says, or a stratified draw."""
    if test is None:
        return stratified_split(labels, seed)
    marks = columns.marked_as_test(frame[test])
    absent = np.setdiff1d(np.arange(len(classes)), labels[~marks])
    require(
        len(absent) == 0,
        f"class {shown(classes[absent[0]]) if len(absent) else ''} is in the test part only; "
        "the training part needs every class.",
    )
    return np.flatnonzero(~marks), np.flatnonzero(marks)


def _stem(path: Path) -> str:
    """Return the file's name without its endings: 'people' for people.csv.gz."""
    name = path.name
    for ending in (".gz", ".csv", ".tsv", ".txt", ".parquet", ".pq"):
        name = name.removesuffix(ending)
    return name or path.name
