"""Which columns are categories rather than measurements: squared error says nothing about them."""

from __future__ import annotations

import numpy as np

from seedscope.core import SeedscopeError

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
    found = np.zeros(columns.shape[1], bool)
    for j in candidates:
        values, counts = np.unique(columns[:, j], return_counts=True)
        few = 1 < len(values) <= min(_LEVELS, len(columns) // _REPEATS)
        found[j] = few and counts.max() <= (1 - least_share) * len(columns)
    return found


def not_continuous(name: str, values: np.ndarray) -> SeedscopeError:
    """Return the complaint about a category that was declared continuous."""
    shown = ", ".join(f"{value:g}" for value in np.unique(values))
    return SeedscopeError(
        f"private features must be continuous, but {name} has only the values {shown}: squared error says nothing "
        "about a category; leave it out, and see reconstruction.mechanism_success_upper."
    )
