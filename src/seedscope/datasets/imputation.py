"""Values for empty cells by a rule that is part of the preprocessing, and what the rule does to a guarantee.

    middle     the middle of a column's public range, no level of a column of words: public, so it costs nothing
    typical    the training rows' median, or their most frequent level: learned, so that an ε becomes an estimate
    private    a noisy mean within the public range, or the most frequent level by noisy counts: paid out of ε

A value of the owner's own (`fill`) is public too. What comes from rows is part of the preprocessing: a data set's
features only have the training part's values, and every neighbouring data set has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from seedscope.core import require
from seedscope.datasets.columns import Column, shown
from seedscope.datasets.dataset import Dataset
from seedscope.datasets.dictionary import Dictionary, Encoding
from seedscope.datasets.fill_values import Imputation, PrivateValues, TypicalValues

RULES = ("middle", "typical", "private")
MISSING = "(missing)"


def imputed(column: Column, rule: str, bounds: Mapping[str, tuple[float, float]], training: np.ndarray) -> Column:
    """Return a column without empty cells: with the middle, or what stands in until rows give the values."""
    if not column.missing:
        return column
    if rule == "typical":
        return _most_frequent(column, training)
    filled, what = _middle(column, bounds)
    return _noted(filled, column.missing, what) if rule == "middle" else filled


def _noted(column: Column, missing: int, what: str) -> Column:
    """Return a column with a note of what its empty cells are filled with."""
    note = f"{missing:,} empty cells are filled with {what}"
    return replace(column, note="; ".join(filter(None, [column.note, note])))


def _middle(column: Column, bounds: Mapping[str, tuple[float, float]]) -> tuple[Column, str]:
    """Return a column filled with what is known without the rows."""
    if not column.is_numeric:
        return _with(column, np.array(MISSING)), f"the level {MISSING}"
    known = (0.0, 1.0) if column.kind == "true/false" else bounds.get(column.name)
    rule = f"the middle of column {shown(column.name)} is not known without its bounds"
    require(known is not None, f"{rule}; give them (bounds), or impute what is typical.", argument="bounds")
    assert known is not None
    middle = sum(known) / 2
    return _with(column, np.full(column.values.shape[1:], middle)), f"{middle:g}, the middle of its public range"


def _most_frequent(column: Column, training: np.ndarray) -> Column:
    """Return a column filled with the training rows' most frequent value, until preprocessing gives the typical one."""
    codes = column.codes[training]
    codes = codes[codes >= 0]
    require(len(codes), f"column {shown(column.name)} has no value in the training part; leave it out.", "ignore")
    return replace(column, codes=np.where(column.codes < 0, int(np.bincount(codes).argmax()), column.codes))


def _with(column: Column, value: np.ndarray) -> Column:
    """Return a column whose empty cells have a value, which takes its place among the others."""
    same = column.values == value
    places = np.flatnonzero(same if same.ndim == 1 else same.all(1))
    if len(places):
        return replace(column, codes=np.where(column.codes < 0, places[0], column.codes))
    keys = column.values if column.values.ndim == 1 else column.values[:, 0]
    place = int(np.searchsorted(keys, value if value.ndim == 0 else value[0]))
    wide = (
        column.values if column.is_numeric else column.values.astype(f"<U{max(len(MISSING), column.values.itemsize)}")
    )
    moved = np.where(column.codes >= place, column.codes + 1, column.codes)
    return replace(column, codes=np.where(column.codes < 0, place, moved), values=np.insert(wide, place, value, axis=0))


def rule_on_features(rule: str | None, encoding: Encoding, empty: bool) -> Imputation | None:
    """Return the rule as part of the preprocessing; None where values are public, or nothing is there to fill.

    A private rule is there whether or not a cell is empty: that would tell.
    """
    if rule == "private":
        known = encoding.ranges is not None and not encoding.learned
        require(known, "private imputation needs bounds of every number and levels of every word.", argument="bounds")
        lower, upper = zip(*(encoding.ranges or ()), strict=True)
        return PrivateValues(encoding.categories, lower, upper)
    return TypicalValues(encoding.categories) if rule == "typical" and empty else None


def with_typical_values(data: Dataset) -> Dataset:
    """Return the data with empty cells filled by the rows that models are trained on, where that is the rule."""
    if not isinstance(data.imputation, TypicalValues):
        return data
    values = data.imputation.values(data.base.unfilled)
    parts = {
        name: replace(part, features=np.where(np.isnan(part.unfilled), values, part.features))
        for name, part in (("train", data.train), ("test", data.test))
    }
    return replace(data, **parts)  # type: ignore[arg-type]


def with_fill_note(column: Column, empty: Column, encoding: Encoding, data: Dataset, dictionary: Dictionary) -> Column:
    """Return a column with a note of what rows fill its empty cells with."""
    if data.imputation is None or not empty.missing:
        return column
    places = list(encoding.places[column.name])
    by_level = tuple(places) in encoding.categories
    if not isinstance(data.imputation, TypicalValues):
        return _noted(column, empty.missing, f"the {'most frequent level' if by_level else 'mean'}, with noise")
    values = data.imputation.values(data.base.unfilled)[places]
    if not by_level:
        return _noted(column, empty.missing, f"{_numbers_in_words(empty, values)}, the training rows' median")
    levels = dictionary.levels.get(column.name, empty.levels.names)
    chosen = levels[int(values[0]) if len(places) == 1 else int(values.argmax())]
    return _noted(column, empty.missing, f"{chosen}, the training rows' most frequent")


def _numbers_in_words(column: Column, values: np.ndarray) -> str:
    """Return the value of a number as its column writes it; of a pair both."""
    if len(values) > 1:
        return "/".join(f"{one:g}" for one in values)
    places = np.flatnonzero(column.values == values[0])
    return column.levels.names[int(places[0])] if len(places) else f"{values[0]:g}"
