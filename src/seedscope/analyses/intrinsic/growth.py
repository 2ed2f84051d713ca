"""How an estimate grows or settles with the runs it uses: were enough models trained? (IP1 Fig. 7, IP2 Fig. 6)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from seedscope.core import require


@dataclass(frozen=True, eq=False)
class Growth:
    """An estimate as a function of how many runs or pairs it uses: its mean over random choices, and a 90 % range.

    `used`, `mean`, `lower` and `upper` have one entry per count; the last count is all there are.
    """

    used: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def maximum_growth(values: ArrayLike, used: ArrayLike | None = None) -> Growth:
    """Return the expected largest of m values drawn at random without replacement, for growing m.

    Exact, no simulation: the largest of m among n sorted values is at most the k-th with probability C(k,m)/C(n,m). A
    curve that still rises at its end says that the maximum is an underestimate.

    Args:
        values: distances of pairs, any shape.
        used: counts m; default about 30, evenly spaced on a log scale, up to all.

    >>> growth = maximum_growth([1.0, 2.0, 3.0], used=[1, 2, 3])
    >>> growth.mean.round(4).tolist(), growth.upper.tolist()
    ([2.0, 2.6667, 3.0], [3.0, 3.0, 3.0])
    """
    ordered = np.sort(np.asarray(values, float), axis=None)
    require(ordered.size >= 1, "the growth of a maximum needs at least one value, got none.")
    counts = default_counts(ordered.size) if used is None else np.asarray(used, int)
    require(
        (counts >= 1) & (counts <= ordered.size), f"used must be between 1 and the {ordered.size} values, got {used!r}."
    )
    log_factorials = gammaln(np.arange(ordered.size + 1) + 1.0)
    rows = [_expected_maximum(ordered, log_factorials, count) for count in counts]
    mean, lower, upper = (np.array(column) for column in zip(*rows, strict=True))
    return Growth(counts, mean, lower, upper)


def default_counts(total: int, *, least: int = 1, points: int = 30) -> np.ndarray:
    """Return increasing whole counts from `least` to `total`, evenly spaced on a log scale.

    >>> default_counts(100, points=3).tolist()
    [1, 10, 100]
    """
    return np.unique(np.geomspace(least, total, points).round().astype(int))


def _expected_maximum(ordered: np.ndarray, log_factorials: np.ndarray, m: int) -> tuple[float, float, float]:
    """Return the mean and the 5 % and 95 % points of the largest of m of the sorted values."""
    n = ordered.size
    log_share = log_factorials[m:] - log_factorials[: n - m + 1] - log_factorials[n] + log_factorials[n - m]
    cumulative = np.exp(np.minimum(log_share, 0.0))
    cumulative[-1] = 1.0
    mean = np.diff(cumulative, prepend=0.0) @ ordered[m - 1 :]
    lower, upper = ordered[m - 1 + np.searchsorted(cumulative, (0.05 - 1e-9, 0.95 - 1e-9))]
    return float(mean), float(lower), float(upper)
