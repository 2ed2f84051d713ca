"""How features are scaled before training, so that every row's norm has a stated public bound.

A scaling is frozen data; `fit(data)` learns what it needs from the training part only and gives a `FittedScaling`,
which is recorded with the trained models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from seedscope.datasets.dataset import Dataset
from seedscope.errors import require, require_positive


@dataclass(frozen=True, eq=False)
class FittedScaling:
    """A linear map of the columns, then rows longer than `norm_bound` shortened to it."""

    mean: np.ndarray
    deviation: np.ndarray
    norm_bound: float | None
    learned: bool

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Return the scaled features, as float64 for tables and as they came for images."""
        if features.ndim > 2:
            return features
        scaled = (np.asarray(features, float) - self.mean) / self.deviation
        return scaled if self.norm_bound is None else clip_rows(scaled, self.norm_bound)

    def describe(self) -> dict[str, Any]:
        """Return what is written down beside the trained models."""
        return {"norm_bound": self.norm_bound, "learned_from_training_part": self.learned}


@dataclass(frozen=True)
class Unscaled:
    """Features as they are; rows longer than the data set's own norm bound are shortened to it."""

    def fit(self, data: Dataset) -> FittedScaling:
        """Return the scaling that changes nothing but rows beyond the bound."""
        return FittedScaling(np.zeros(1), np.ones(1), data.norm_bound, learned=False)


@dataclass(frozen=True)
class Standardised:
    """Columns to mean 0 and variance 1/columns over the training part, then rows shortened to `norm_bound`.

    The division by √columns keeps a typical row's norm near 1, so that the bound shortens the long half of the rows
    instead of nearly all of them.
    """

    norm_bound: float = 1.0

    def __post_init__(self) -> None:
        require_positive("norm_bound", self.norm_bound)

    def fit(self, data: Dataset) -> FittedScaling:
        """Return the scaling with means and deviations of the training part."""
        features = np.asarray(data.base.features, float)
        require(features.ndim == 2, "Standardised() is for tables; train images with scaling=Unscaled().")
        constant = features.min(0) == features.max(0)
        deviation = np.where(constant, 1.0, features.std(0)) * np.sqrt(features.shape[1])
        return FittedScaling(features.mean(0), deviation, self.norm_bound, learned=True)


Scaling = Unscaled | Standardised


def default_scaling(data: Dataset) -> Scaling:
    """Return `Unscaled()` for images and for data whose rows have a bound already, else `Standardised()`."""
    return Unscaled() if data.norm_bound is not None or data.features.ndim > 2 else Standardised()


def clip_rows(rows: np.ndarray, bound: float) -> np.ndarray:
    """Return the rows with those longer than the bound shortened to it."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, bound / np.maximum(norms, bound))
