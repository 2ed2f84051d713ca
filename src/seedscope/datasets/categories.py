"""Which columns are categories rather than measurements: squared error says nothing about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seedscope.core import SeedscopeError

if TYPE_CHECKING:
    from seedscope.datasets.dataset import Dataset

_LEVELS = 5  # a column of this many values or fewer is a category
_REPEATS = 4  # if its values occur at least so often on average
_SHARE = 0.01  # and if that share of the rows, or more, has another value than the most frequent one


def few_valued(columns: np.ndarray, least_share: float = _SHARE) -> np.ndarray:
    """Say which columns [record, column] have at most five values, each more than once: categories, not measurements.

    Args:
        columns: the values.
        least_share: a column counts only if this share of its rows has another value than the most frequent one: a
            pixel at the border of images is black nearly always, and a measurement all the same.

    >>> few_valued(np.column_stack([np.arange(100), np.arange(100) % 3, np.arange(100) == 7]))
    array([False,  True,  True])
    """
    first = np.sort(columns[:64], axis=0)
    candidates = np.flatnonzero((np.diff(first, axis=0) != 0).sum(axis=0) < _LEVELS)
    few_levels = np.zeros(columns.shape[1], bool)
    for j in candidates:
        values, counts = np.unique(columns[:, j], return_counts=True)
        few = 1 < len(values) <= min(_LEVELS, len(columns) // _REPEATS)
        few_levels[j] = few and counts.max() <= (1 - least_share) * len(columns)
    return few_levels


def not_continuous(name: str, values: np.ndarray, remedy: str = "leave it out") -> SeedscopeError:
    """Return the complaint about a category that was declared continuous."""
    known = np.unique(values)
    shown = f"has only the values {', '.join(f'{value:g}' for value in known)}" if len(known) <= 8 else "is a category"
    return SeedscopeError(
        f"private features must be continuous, but {name} {shown}: squared error says nothing "
        f"about a category; {remedy}, and see reconstruction.mechanism_success_upper."
    )


@dataclass(frozen=True)
class Category:
    """A column of levels: its name, its levels, and the features that encode them.

    `columns` are 0/1 features, one for each of the last levels (without one for the first where `reference`); or a
    single feature that has the levels' `values`.
    """

    name: str
    levels: tuple[str, ...]
    columns: tuple[int, ...]
    reference: bool = False
    values: tuple[float, ...] = ()

    def codes(self, features: np.ndarray) -> np.ndarray:
        """Return the number of each row's level."""
        rows = features[:, list(self.columns)]
        if self.values:
            nearest: np.ndarray = np.abs(rows - np.array(self.values)).argmin(axis=1)
            return nearest
        return np.where((rows == 0).all(axis=1), 0, rows.argmax(axis=1) + self.reference)


def category_columns(data: Dataset) -> tuple[Category, ...]:
    """Return the categories of a table: by what the encoder made of them, and numbers of at most five values.

    Their encoder's names tell, not their values: after rows are scaled to norm 1 a 0/1 column has thousands of them.

    >>> from seedscope import from_arrays
    >>> rows, names = [[k % 2, 1 - k % 2, k] for k in range(40)], ("sex=f", "sex=m", "age")
    >>> data = from_arrays(rows, [0, 1] * 20, feature_names=names)
    >>> [(one.name, one.levels, one.columns) for one in category_columns(data)]
    [('sex', ('f', 'm'), (0, 1))]
    """
    if data.features.ndim != 2:
        return ()
    encoded = _encoded(data)
    inside = {column for category in encoded for column in category.columns}
    few = np.flatnonzero(few_valued(np.asarray(data.base.features), least_share=0.0))
    single = (_few_levels(data, int(j)) for j in few if int(j) not in inside)
    return tuple(sorted([*encoded, *single], key=lambda category: category.columns))


def _encoded(data: Dataset) -> list[Category]:
    """Return the categories whose features are named column=level."""
    read = None if data.reading is None else {entry.name for entry in data.reading.columns}
    places_of: dict[str, list[int]] = {}
    for j, name in enumerate(data.feature_names):
        column, mark, _ = name.partition("=")
        if mark and (read is None or column in read):
            places_of.setdefault(column, []).append(j)
    return [_of_features(data, column, places) for column, places in places_of.items()]


def _of_features(data: Dataset, column: str, places: list[int]) -> Category:
    """Return the category of 0/1 features; a row with none of them has the level that was left out."""
    levels = tuple(data.feature_names[j].partition("=")[2] for j in places)
    rows = np.concatenate([part.features[:, places] for part in (data.train, data.test)])
    reference = bool((rows == 0).all(axis=1).any())
    names = (f"not {levels[0]}" if len(levels) == 1 else "(another)", *levels) if reference else levels
    return Category(column, names, tuple(places), reference)


def _few_levels(data: Dataset, column: int) -> Category:
    """Return the category of a feature with few values."""
    values = np.unique(np.concatenate([part.features[:, column] for part in (data.train, data.test)]))
    levels = tuple(f"{value:g}" for value in values)
    return Category(data.feature_names[column], levels, (column,), values=tuple(values.tolist()))
