"""Intervals for means of values that are at least 0 and skewed: sums of squares, ratios of densities.

Student's interval of such a mean misses it too often from below: what is rare and large was not drawn. Its upper end is
mended in three ways, each of which only lengthens it. The interval is one of the mean's logarithm; its t-quantile
is moved by the skewness (Cornish & Fisher, as Johnson 1978 and Hall 1992 have it for t); and what happens in none of n
runs may with confidence 1 − α/2 still have a chance of ln(2/α)/n, which is granted values as large as the largest seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from seedscope.core import require, require_probability


@dataclass(frozen=True, eq=False)
class RunningMoments:
    """Sums of values, of their squares and cubes, and the largest, over runs that are added one by one."""

    first: np.ndarray
    second: np.ndarray
    third: np.ndarray
    largest: np.ndarray

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> RunningMoments:
        """Return the sums before the first run."""
        return cls(*(np.zeros(shape) for _ in range(4)))

    def add(self, values: np.ndarray, where: slice | EllipsisType = ...) -> None:
        """Add one run's values, or those of the places that `where` cuts out."""
        np.maximum(self.largest[where], values, out=self.largest[where])
        self.first[where] += values
        powers = values * values
        self.second[where] += powers
        powers *= values
        self.third[where] += powers

    def mean(self, runs: int) -> np.ndarray:
        """Return the mean over this many runs."""
        mean: np.ndarray = self.first / runs
        return mean

    def interval(self, runs: int, confidence: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the mean's interval; from 0 to infinity where no value is above 0."""
        mean = self.first / runs
        variance = np.maximum(self.second / runs - mean**2, 0.0)
        third = self.third / runs - 3 * mean * self.second / runs + 2 * mean**3
        error, t = np.sqrt(variance / (runs - 1)), stdtrit(runs - 1, (1 + np.asarray(confidence)) / 2)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            skewness = np.where(variance > 0, np.clip(third / variance**1.5, 0.0, np.sqrt(runs)), 0.0)
            relative = np.where(mean > 0, error / mean, np.inf)
            further = t + skewness * (2 * t**2 + 1) / (6 * np.sqrt(runs))
            unseen = np.log(2 / (1 - np.asarray(confidence))) / runs * self.largest
            upper = np.where(mean > 0, mean * np.exp(further * relative) + unseen, np.inf)
            return mean * np.exp(-t * relative), upper


def nonnegative_mean_interval(values: ArrayLike, confidence: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of the mean over the first axis of values that are at least 0; approximate.

    It covers skewed values better than `mean_interval`, and is wider.

    >>> lower, upper = nonnegative_mean_interval([1.0, 2.0, 3.0, 10.0], 0.95)
    >>> float(lower.round(3)), float(upper.round(3))
    (0.788, 60.167)
    """
    require_probability("confidence", confidence)
    x = np.asarray(values, float)
    require(len(x) >= 2, f"an interval of a mean needs at least two values, got {len(x)}.")
    require(np.all(x >= 0), "values must be at least 0 and not NaN.")
    moments = RunningMoments.zeros(x.shape[1:])
    for run in x:
        moments.add(run)
    return moments.interval(len(x), confidence)
