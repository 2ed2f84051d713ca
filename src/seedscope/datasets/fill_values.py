"""What empty cells are filled with where that comes from the rows, by noise or not: a rule on encoded features.

    TypicalValues    the rows' median of each number, their most frequent level of each category: learned
    PrivateValues    noisy means and most frequent levels within public ranges, paid out of ε

Features have NaN where a cell was empty. What is learned is learned again for every neighbouring data set.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from seedscope.core import Described, require, require_positive, require_probability
from seedscope.datasets.rounded_noise import FINENESS, RoundedNormals, gaussian_noise

Categories = tuple[tuple[int, ...], ...]
IMPUTED = "the imputed values"  # in words, where they are learned from the rows without noise


@dataclass(frozen=True)
class Imputation(Described, ABC):
    """Base of the rules. `categories` are the features of each column of levels: one 0/1 feature, or one a level."""

    categories: Categories = ()

    draws: ClassVar[bool] = False  # whether every model has values of its own

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "categories", tuple(tuple(map(int, category)) for category in self.categories))

    @property
    def spent(self) -> tuple[float, float]:
        """The (ε, δ) that noise on the values has cost."""
        return 0.0, 0.0

    def require_columns(self, count: int) -> None:
        """Raise unless the rule is for this many features."""
        places = [column for columns in self.categories for column in columns]
        apart = len(set(places)) == len(places) and all(0 <= place < count for place in places)
        require(apart, f"categories must be places of {count} features, each once, got {self.categories}.")

    @abstractmethod
    def values(self, features: np.ndarray, draw: RoundedNormals) -> np.ndarray:
        """Return a value for each feature from rows with empty cells; `draw` gives what is random about it."""

    @property
    def _one_hot(self) -> list[list[int]]:
        """The features of the columns that have one for each level."""
        return [list(category) for category in self.categories if len(category) > 1]


@dataclass(frozen=True)
class TypicalValues(Imputation):
    """The median of each number (the lower one of two), the most frequent level of each category.

    >>> rows = np.array([[1.0, 1, 0], [2.0, 0, 1], [9.0, 0, 1], [np.nan, np.nan, np.nan]])
    >>> TypicalValues(((1, 2),)).values(rows).tolist()
    [2.0, 0.0, 1.0]
    """

    def values(self, features: np.ndarray, draw: RoundedNormals | None = None) -> np.ndarray:
        """Return each feature's typical value; 0 where no row has any."""
        known = (~np.isnan(features)).sum(0)
        places = np.maximum(known - 1, 0) // 2
        medians = np.sort(features, axis=0)[places, np.arange(features.shape[1])]  # NaN comes last
        fills = np.where(known > 0, medians, 0.0)
        for columns in self._one_hot:
            fills[columns] = _one_level(np.nansum(features[:, columns], axis=0))
        return fills


@dataclass(frozen=True)
class PrivateValues(Imputation):
    """The mean of each number within its public range and the most frequent level of each category, with noise.

    Numbers are cut to their ranges and put on a grid, so that sums of values, of known cells and of levels are whole
    numbers, and get whole numbers as noise: the Gaussian mechanism for replacing a row or taking one out, followed by
    rounding. An empty cell adds nothing to any sum. Every column pays, whether cells of it are empty or not: which
    ones are would tell.
    """

    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    epsilon: float = 0.1
    delta: float = 1e-6

    draws: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("epsilon", self.epsilon)
        require_probability("delta", self.delta)
        require(len(self.lower) == len(self.upper) > 0, "private values need a public range of every feature.")
        halves = (np.asarray(self.upper, float) - np.asarray(self.lower, float)) / 2
        wide = np.isfinite(halves) & (halves > 0)
        require(wide, "every range of private values must be finite, its lower end below its upper one.")
        super().require_columns(len(self.lower))

    def require_columns(self, count: int) -> None:
        """Raise unless there is a range for each of this many features."""
        super().require_columns(count)
        ranges = len(self.lower)
        require(ranges == count, f"private values need {count} ranges, one for each feature, got {ranges}.")

    @property
    def spent(self) -> tuple[float, float]:
        """The (ε, δ) of the noise."""
        return self.epsilon, self.delta

    @property
    def sensitivity(self) -> float:
        """How far replacing a row moves the sums.

        Of a number the value, in [−1, 1], and whether it is known: (u, 1) and (v, 1) are at most 2 apart, (u, 1) and
        (0, 0) at most √2. Of a category with a feature for each level: two of them, by 1 each. Taking a row out moves
        each by no more.
        """
        one_hot = len(self._one_hot)
        numbers = len(self.lower) - sum(map(len, self._one_hot))
        return math.sqrt(4 * numbers + 2 * one_hot)

    @property
    def noise_scale(self) -> float:
        """The noise's standard deviation on the sums."""
        return gaussian_noise(self.sensitivity, self.epsilon, self.delta)

    def values(self, features: np.ndarray, draw: RoundedNormals) -> np.ndarray:
        """Return each feature's value by noisy sums of these rows."""
        sums = self.whole_sums(features)
        noisy = (sums + draw(FINENESS * self.noise_scale, sums.size).reshape(sums.shape)) / FINENESS
        means = np.clip(noisy[0] / np.maximum(noisy[1], 1.0), -1, 1)
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        fills: np.ndarray = (upper + lower) / 2 + (upper - lower) / 2 * means
        for columns in self.categories:
            fills[list(columns)] = _one_level(noisy[0, list(columns)]) if len(columns) > 1 else means[columns[0]] >= 0
        return fills

    def whole_sums(self, features: np.ndarray) -> np.ndarray:
        """Return the sums of values and the numbers of known cells [2, feature], in steps of the grid: whole numbers.

        Of a category with a feature for each level the first are counts of levels, and the second 0.
        """
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        known = ~np.isnan(features)
        unit = np.clip((np.where(known, features, 0.0) - (upper + lower) / 2) / ((upper - lower) / 2), -1, 1)
        one_hot = [column for columns in self._one_hot for column in columns]
        for columns in self._one_hot:  # the first level that a row has: a row that has several counts once, too
            has = np.where(known[:, columns], features[:, columns], 0.0) > 0.5
            unit[:, columns] = has & (np.cumsum(has, axis=1) == 1)
        whole_cells = np.round(FINENESS * np.where(known, unit, 0.0)).astype(np.int64)
        counts = FINENESS * known.sum(0)
        counts[one_hot] = 0
        return np.stack([whole_cells.sum(0), counts])


def _one_level(counts: np.ndarray) -> np.ndarray:
    """Return 1 for the most frequent level (the first of several), 0 for the others."""
    one_hot: np.ndarray = (np.arange(len(counts)) == counts.argmax()).astype(float)
    return one_hot
