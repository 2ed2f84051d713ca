"""Columns that alone tell the target: often a result of the outcome, and not known when a decision is due."""

from __future__ import annotations

import numpy as np

from seedscope.datasets.columns import Column

SHARE = 0.995  # of rows whose class one column tells
_BETTER = 10  # times fewer mistakes than always guessing the most frequent class
_ROWS_PER_LEVEL = 10


def predicts_alone(column: Column, labels: np.ndarray) -> float | None:
    """Return the share of rows whose class a column tells by itself, where that is suspiciously many; else None.

    A column of words tells a class by its levels, one of numbers by a single threshold.

    >>> import pandas as pd
    >>> from seedscope.datasets.understanding import understand
    >>> after = understand(pd.Series(["home", "home", "ward", "ward"] * 10, name="discharge"))
    >>> predicts_alone(after, np.array([0, 0, 1, 1] * 10))
    1.0
    """
    rows = len(labels)
    shape = (len(column.values), int(labels.max()) + 1)
    pairs = column.codes.astype(np.int64) * shape[1] + labels
    table = np.bincount(pairs, minlength=shape[0] * shape[1]).reshape(shape).astype(float)
    right = _by_threshold(table) if column.is_numeric and column.values.ndim == 1 else _by_level(table)
    mistakes, guessing = rows - right, rows - table.sum(0).max()
    return float(right / rows) if right >= SHARE * rows and _BETTER * mistakes <= guessing else None


def _by_threshold(table: np.ndarray) -> float:
    """Return how many rows the best threshold on counts [value, class] tells."""
    below = table.cumsum(0)
    return float((below.max(1) + (below[-1] - below).max(1)).max())


def _by_level(table: np.ndarray) -> float:
    """Return how many rows the levels' most frequent classes tell; 0 where levels are too many to say."""
    return float(table.max(1).sum()) if table.sum() >= _ROWS_PER_LEVEL * len(table) else 0.0
