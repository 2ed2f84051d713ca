"""Values for empty cells by a rule that is part of the preprocessing, and what the rule does to a guarantee.

    middle     the middle of a column's public range, no level of a column of words: public, so it costs nothing
    typical    the training rows' median, or their most frequent word: learned, so that an ε becomes an estimate

A value of the owner's own (`fill`) is public too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from seedscope.core import require
from seedscope.datasets.columns import Column, shown

RULES = ("middle", "typical")
IMPUTED = "the imputed values"  # what `typical` learns from the rows
MISSING = "(missing)"


def imputed(column: Column, rule: str, bounds: Mapping[str, tuple[float, float]], training: np.ndarray) -> Column:
    """Return a column without empty cells, by the rule; `training` are the rows that a rule may learn from."""
    if not column.missing:
        return column
    filled, what = _middle(column, bounds) if rule == "middle" else _typical(column, training)
    note = f"{column.missing:,} empty cells are filled with {what}"
    return replace(filled, note="; ".join(filter(None, [column.note, note])))


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


def _typical(column: Column, training: np.ndarray) -> tuple[Column, str]:
    """Return a column filled with the training rows' median, or their most frequent word or pair."""
    codes = column.codes[training]
    codes = codes[codes >= 0]
    require(len(codes), f"column {shown(column.name)} has no value in the training part; leave it out.", "ignore")
    by_rank = column.is_numeric and column.values.ndim == 1
    chosen = int(np.sort(codes)[(len(codes) - 1) // 2]) if by_rank else int(np.bincount(codes).argmax())
    name = column.levels.names[chosen]
    what = f"{name}, the training rows' {'median' if by_rank else 'most frequent'}"
    return replace(column, codes=np.where(column.codes < 0, chosen, column.codes)), what


def _with(column: Column, value: np.ndarray) -> Column:
    """Return a column whose empty cells have a value, which takes its place among the others."""
    same = column.values == value
    there = np.flatnonzero(same if same.ndim == 1 else same.all(1))
    if len(there):
        return replace(column, codes=np.where(column.codes < 0, there[0], column.codes))
    keys = column.values if column.values.ndim == 1 else column.values[:, 0]
    place = int(np.searchsorted(keys, value if value.ndim == 0 else value[0]))
    wide = (
        column.values if column.is_numeric else column.values.astype(f"<U{max(len(MISSING), column.values.itemsize)}")
    )
    moved = np.where(column.codes >= place, column.codes + 1, column.codes)
    return replace(column, codes=np.where(column.codes < 0, place, moved), values=np.insert(wide, place, value, axis=0))
