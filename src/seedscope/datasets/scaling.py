"""How features are scaled before training, so that every row's norm has a stated public bound.

A scaling is frozen data; `fit(data)` gives a `FittedScaling`, which is recorded with the trained models.

    Unscaled            nothing but rows beyond the data's own bound: public
    Bounded             by ranges that are public knowledge: public
    Standardised        by means and deviations that are given (public), or learned from the training part
    PrivateMoments      by noisy means and deviations within public ranges, paid out of ε
    Imputed             empty cells filled first, by a rule that learns from the rows; then any of these

What is learned from the rows is fitted again for every neighbouring data set (`refit`), so that an audit sees what it
gives away; a proof does not cover it.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from seedscope.core import Described, from_description, require, require_positive, require_probability
from seedscope.datasets.dataset import Dataset
from seedscope.datasets.fill_values import IMPUTED, Imputation
from seedscope.datasets.rounded_noise import FINENESS, RoundedNormals, gaussian_noise, seeded_normals

TYPICAL = 4.0  # deviations that a public range is taken to span: what lies beyond is shortened with its row
LEAST_DEVIATION = 0.02  # of a private moment, in half ranges


@dataclass(frozen=True, eq=False)
class FittedScaling:
    """A linear map of the columns (cut to `lower` and `upper` first), then rows beyond `norm_bound` shortened to it.

    `learned` is whether it was learned from the rows without any noise, `spent` the (ε, δ) that noise on it has cost.
    Empty cells (NaN) are filled with `fill` before anything else, where that is given; `also_learned` says in words
    what else came from the rows.
    """

    mean: np.ndarray
    deviation: np.ndarray
    norm_bound: float | None
    learned: bool
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    spent: tuple[float, float] = (0.0, 0.0)
    fill: np.ndarray | None = None
    also_learned: tuple[str, ...] = ()

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Return the scaled features, as float64 for tables and as they came for images."""
        if features.ndim > 2:
            return features
        within = filled(np.asarray(features, float), self.fill)
        within = within if self.lower is None else np.clip(within, self.lower, self.upper)
        scaled = (within - self.mean) / self.deviation
        return scaled if self.norm_bound is None else clip_rows(scaled, self.norm_bound)

    def describe(self) -> dict[str, Any]:
        """Return what is written down beside the trained models."""
        return {"norm_bound": self.norm_bound, "learned_from_training_part": self.learned}


class Scaling(Described, ABC):
    """Base of the scalings."""

    learns: ClassVar[bool] = False  # whether neighbouring data sets have scalings of their own
    draws: ClassVar[bool] = False  # whether every model has a scaling of its own

    @abstractmethod
    def fit(self, data: Dataset) -> FittedScaling:
        """Return the scaling with what it learns from the training part, if anything."""

    @abstractmethod
    def refit(self, features: np.ndarray, draw: RoundedNormals) -> FittedScaling:
        """Return the scaling fitted on these training rows, if it learns; `draw` gives what is random about it."""

    def __repr__(self) -> str:
        given = [(entry.name, getattr(self, entry.name)) for entry in fields(self)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given if value is not None)})"


@dataclass(frozen=True, repr=False)
class Unscaled(Scaling):
    """Features as they are; rows longer than the data set's own norm bound are shortened to it."""

    def fit(self, data: Dataset) -> FittedScaling:
        """Return the scaling that changes nothing but rows beyond the bound."""
        return FittedScaling(np.zeros(1), np.ones(1), data.norm_bound, learned=False)

    def refit(self, features: np.ndarray, draw: RoundedNormals | None = None) -> FittedScaling:
        """Return the scaling that changes nothing: tables with empty cells have no bound of their own."""
        return FittedScaling(np.zeros(1), np.ones(1), None, learned=False)


@dataclass(frozen=True, repr=False)
class Standardised(Scaling):
    """Columns to mean 0 and variance 1/columns, then rows shortened to `norm_bound`.

    The division by √columns keeps a typical row's norm near 1, so that the bound shortens the long half of the rows
    instead of nearly all of them. With `mean` and `deviation` (one number for each column, from public knowledge) the
    scaling is public; without them both are learned from the training part, and no ε is proved for what follows.

    >>> Standardised(mean=(50.0,), deviation=(15.0,))
    Standardised(norm_bound=1.0, mean=(50.0,), deviation=(15.0,))
    """

    norm_bound: float = 1.0
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("norm_bound", self.norm_bound)
        both = (self.mean is None) == (self.deviation is None)
        require(both, "mean and deviation must be given together, or both be left to be learned.")
        if self.mean is not None and self.deviation is not None:
            object.__setattr__(self, "mean", _numbers("mean", self.mean))
            object.__setattr__(self, "deviation", _numbers("deviation", self.deviation))
            same = len(self.mean) == len(self.deviation)
            require(same, f"mean and deviation must be of one length, got {len(self.mean)} and {len(self.deviation)}.")
            require(min(self.deviation) > 0, f"every deviation must be above 0, got {min(self.deviation)}.")

    @property
    def learns(self) -> bool:  # type: ignore[override]
        """Whether neighbouring data sets have means and deviations of their own."""
        return self.mean is None

    def fit(self, data: Dataset) -> FittedScaling:
        """Return the scaling with the given means and deviations, or with those of the training part."""
        require(data.features.ndim == 2, "Standardised() is for tables; train images with scaling=Unscaled().")
        if self.mean is not None:
            require_columns("mean", len(self.mean), data)
        return self.refit(data.base.features)

    def refit(self, features: np.ndarray, draw: RoundedNormals | None = None) -> FittedScaling:
        """Return the scaling with the means and deviations of these rows, or with the given ones."""
        if self.mean is not None and self.deviation is not None:
            given = np.asarray(self.deviation) * math.sqrt(len(self.mean))
            return FittedScaling(np.asarray(self.mean), given, self.norm_bound, learned=False)
        features = np.asarray(features, float)
        constant = features.min(0) == features.max(0)
        deviation = np.where(constant, 1.0, features.std(0)) * np.sqrt(features.shape[1])
        return FittedScaling(features.mean(0), deviation, self.norm_bound, learned=True)


@dataclass(frozen=True, repr=False)
class Ranged(Scaling):
    """Base of the scalings by public ranges: the least and the largest value of each column."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    norm_bound: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("norm_bound", self.norm_bound)
        object.__setattr__(self, "lower", _numbers("lower", self.lower))
        object.__setattr__(self, "upper", _numbers("upper", self.upper))
        same = len(self.lower) == len(self.upper)
        require(same, f"lower and upper must be of one length, got {len(self.lower)} and {len(self.upper)}.")
        wide = all(low < high for low, high in zip(self.lower, self.upper, strict=True))
        require(wide, "every column's lower bound must be below its upper bound.")

    @property
    def middle(self) -> np.ndarray:
        """The middle of each range."""
        middle: np.ndarray = (np.asarray(self.upper) + np.asarray(self.lower)) / 2
        return middle

    @property
    def half(self) -> np.ndarray:
        """Half of each range."""
        half: np.ndarray = (np.asarray(self.upper) - np.asarray(self.lower)) / 2
        return half

    def _fitted(self, mean: np.ndarray, deviation: np.ndarray, spent: tuple[float, float]) -> FittedScaling:
        """Return the scaling by these means and deviations, columns cut to their ranges."""
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        wide = deviation * math.sqrt(len(lower))
        return FittedScaling(mean, wide, self.norm_bound, False, lower, upper, spent)


@dataclass(frozen=True, repr=False)
class Bounded(Ranged):
    """Columns cut to public ranges, each range's middle to 0, a quarter of it to 1/√columns; then rows shortened.

    Nothing is learned from anybody's row: what is proved of the mechanism is proved of the whole pipeline.

    >>> from seedscope import from_arrays
    >>> age = from_arrays([[float(one)] for one in range(20, 80)], [0, 1] * 30)
    >>> Bounded((0.0,), (120.0,)).fit(age).apply(np.array([[60.0], [90.0], [500.0]])).tolist()
    [[0.0], [1.0], [1.0]]
    """

    def fit(self, data: Dataset) -> FittedScaling:
        """Return the scaling by the ranges."""
        require_columns("lower", len(self.lower), data)
        return self.refit(data.base.features)

    def refit(self, features: np.ndarray, draw: RoundedNormals | None = None) -> FittedScaling:
        """Return the scaling by the ranges, whatever the rows are."""
        return self._fitted(self.middle, 2 * self.half / TYPICAL, (0.0, 0.0))


@dataclass(frozen=True, repr=False)
class PrivateMoments(Ranged):
    """Columns standardised by means and deviations with Gaussian noise, which cost `epsilon` and `delta`.

    Columns are cut to public ranges and put on a grid, so that sums of values and squares are whole numbers, which one
    row moves by a bounded distance, and get whole numbers as noise: the Gaussian mechanism for replacing one row,
    followed by rounding. The number of rows gets the same noise. So taking a row out is covered too, nothing depends on
    how many there are, and no digit says what noise was added to. It pays where ranges are much wider than the data and
    rows are many.
    """

    epsilon: float = 0.1
    delta: float = 1e-6

    learns: ClassVar[bool] = True
    draws: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("epsilon", self.epsilon)
        require_probability("delta", self.delta)

    @property
    def sensitivity(self) -> float:
        """How far replacing a row moves the sums: each column's value in [−1, 1] and square less ½ in [−½, ½].

        Taking one out moves them by half of that at most, and the number of rows by 1: together by no more.
        """
        return 2 * math.sqrt(1.25 * len(self.lower))

    @property
    def noise_scale(self) -> float:
        """The noise's standard deviation on the sums, in half ranges."""
        return gaussian_noise(self.sensitivity, self.epsilon, self.delta)

    def fit(self, data: Dataset) -> FittedScaling:
        """Return the scaling of one draw of the noise."""
        require_columns("lower", len(self.lower), data)
        return self.refit(data.base.features, seeded_normals(np.random.default_rng(0)))

    def refit(self, features: np.ndarray, draw: RoundedNormals) -> FittedScaling:
        """Return the scaling by noisy moments of these rows."""
        sums = self.whole_sums(features)
        noise = draw(FINENESS * self.noise_scale, len(sums))
        first, second, count = np.split((sums + noise) / FINENESS, [len(self.lower), 2 * len(self.lower)])
        rows = np.maximum(count, 1.0)
        mean = np.clip(first / rows, -1, 1)
        deviation = np.sqrt(np.maximum(second / rows + 0.5 - mean**2, LEAST_DEVIATION**2))
        moments = self.middle + self.half * mean, self.half * np.minimum(deviation, 1)
        return self._fitted(*moments, (self.epsilon, self.delta))

    def whole_sums(self, features: np.ndarray) -> np.ndarray:
        """Return the sums of values, of squares less ½, and the number of rows, in steps of the grid: whole numbers."""
        unit = np.clip((np.asarray(features, float) - self.middle) / self.half, -1, 1)
        whole_cells = np.round(FINENESS * np.concatenate([unit, unit**2 - 0.5], axis=1)).astype(np.int64)
        return np.append(whole_cells.sum(0), FINENESS * len(whole_cells))


@dataclass(frozen=True, repr=False)
class Imputed(Scaling):
    """Empty cells filled by a rule that learns from the rows, then scaled by `scaling`, which sees them filled.

    Both are fitted again for every neighbouring data set, in this order; what both cost adds up.
    """

    imputation: Imputation
    scaling: Scaling

    learns: ClassVar[bool] = True

    @property
    def draws(self) -> bool:  # type: ignore[override]
        """Whether every model has values or a scaling of its own."""
        return self.imputation.draws or self.scaling.draws

    def fit(self, data: Dataset) -> FittedScaling:
        """Return values and scaling of the training part, with one draw of what is random about them."""
        self.imputation.require_columns(data.features.shape[1])
        fitted = self.refit(data.base.unfilled, seeded_normals(np.random.default_rng(0)))
        part = replace(data.train, features=filled(data.train.unfilled, fitted.fill))
        bound = self.scaling.fit(replace(data, train=part)).norm_bound  # also checks that it is for these columns
        same = fitted.norm_bound == bound
        name = type(self.scaling).__name__
        require(same, f"{name}() keeps no norm bound once empty cells are filled by what rows have; use Bounded.")
        return fitted

    def refit(self, features: np.ndarray, draw: RoundedNormals) -> FittedScaling:
        """Return values and scaling of these rows, which have NaN where a cell was empty."""
        values = self.imputation.values(features, draw)
        return self._fitted(values, self.scaling.refit(filled(features, values), draw))

    def _fitted(self, values: np.ndarray, then: FittedScaling) -> FittedScaling:
        """Return the scaling with the values, at the price of both."""
        epsilon, delta = self.imputation.spent
        learned = () if self.imputation.draws else (IMPUTED,)
        return replace(then, fill=values, spent=(then.spent[0] + epsilon, then.spent[1] + delta), also_learned=learned)


def filled(features: np.ndarray, values: np.ndarray | None) -> np.ndarray:
    """Return the rows with a value for each feature where a cell was empty."""
    return features if values is None else np.where(np.isnan(features), values, features)


def default_scaling(data: Dataset) -> Scaling:
    """Return `Unscaled()` where rows have a bound or are images, `Bounded` where columns have ranges, or learned.

    Where empty cells are filled by what the rows have, that comes first.
    """
    return with_imputation(_by_what_is_known(data), data)


def with_imputation(scaling: Scaling, data: Dataset) -> Scaling:
    """Return a scaling that fills the data's empty cells first, if these are not filled by public values."""
    if data.imputation is None or isinstance(scaling, Imputed):
        return scaling
    return Imputed(data.imputation, scaling)


def _by_what_is_known(data: Dataset) -> Scaling:
    """Return the scaling by what is public about the columns."""
    if data.norm_bound is not None or data.features.ndim > 2:
        return Unscaled()
    return Standardised() if data.ranges is None else Bounded(*_ends(data.ranges))


def scaling_from(description: Mapping[str, Any] | str) -> Scaling:
    """Return the scaling that a description describes; a text is how older stores have it.

    >>> scaling_from("Standardised(norm_bound=2.0)") == scaling_from(Standardised(2.0).describe())
    True
    >>> scaling_from("Standardised(norm_bound=np.float64(2.0))")  # as it was given, so it was written
    Standardised(norm_bound=2.0)
    """
    if isinstance(description, str):
        match = re.fullmatch(r"(\w+)\((?:norm_bound=(?:np\.float64\()?([0-9.e+-]+)\)?)?\)", description)
        require(match, f"no scaling is known that is written {description!r}.")
        assert match is not None
        description = {"type": match[1]} | ({"norm_bound": float(match[2])} if match[2] else {})
    scaling: Scaling = from_description(dict(description))
    require(isinstance(scaling, Scaling), f"{description['type']} is not a scaling.")
    return scaling


def require_columns(name: str, count: int, data: Dataset) -> None:
    """Raise unless there is one number for each column of a table."""
    require(data.features.ndim == 2, "scalings by column are for tables; train images with scaling=Unscaled().")
    columns = data.features.shape[1]
    require(count == columns, f"{name} must be {columns} numbers, one for each column of {data.name}, got {count}.")


def _ends(ranges: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the least and the largest values of ranges."""
    return tuple(low for low, _ in ranges), tuple(high for _, high in ranges)


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    """Return the values as finite numbers, or raise."""
    array = np.asarray(values, float) if not isinstance(values, str) else np.empty(0)
    good = array.ndim == 1 and len(array) > 0 and bool(np.isfinite(array).all())
    require(good, f"{name} must be finite numbers, one for each column, got {values!r}.")
    return tuple(array.tolist())


def clip_rows(rows: np.ndarray, bound: float) -> np.ndarray:
    """Return the rows with those longer than the bound shortened to it."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    clipped: np.ndarray = rows * np.minimum(1.0, bound / np.maximum(norms, bound))
    return clipped
