"""The sets that are always there: two embedded with scikit-learn, one generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from seedscope.datasets.arrays import from_arrays
from seedscope.datasets.dataset import Dataset
from seedscope.datasets.pixels import pixel_names
from seedscope.datasets.splits import require_seed

_SKLEARN = "embedded with scikit-learn"
_PIXELS = pixel_names((8, 8, 1))


def breast_cancer(path: Path | None, *, seed: int = 0) -> Dataset:
    """Return the Wisconsin tumours: 30 measurements, malignant (0) or benign (1)."""
    from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer()
    data = from_arrays(
        raw.data,
        raw.target,
        feature_names=raw.feature_names,
        class_names=raw.target_names,
        name="breast-cancer",
        seed=seed,
    )
    return replace(data, source=_SKLEARN, ranges=_cell_ranges(raw.feature_names))


# A data dictionary in round numbers, a stand-in for a hospital's: we chose it with this published set, and the accuracy
# on it, in view. What lies beyond is cut to it.
_CELL_RANGES = {
    "radius": ((5, 25), (0, 1), (5, 30)),
    "texture": ((10, 30), (0, 3), (10, 40)),
    "perimeter": ((40, 150), (0, 8), (40, 200)),
    "area": ((0, 1500), (0, 150), (0, 2000)),
    "smoothness": ((0.06, 0.14), (0, 0.015), (0.08, 0.2)),
    "compactness": ((0, 0.25), (0, 0.08), (0, 0.6)),
    "concavity": ((0, 0.3), (0, 0.1), (0, 0.8)),
    "concave points": ((0, 0.15), (0, 0.03), (0, 0.3)),
    "symmetry": ((0.1, 0.25), (0, 0.05), (0.1, 0.5)),
    "fractal dimension": ((0.05, 0.08), (0, 0.01), (0.05, 0.15)),
}


def _cell_ranges(names: Sequence[str]) -> tuple[tuple[float, float], ...]:
    """Return the declared range of each measurement: of a nucleus' mean, its standard error, and its worst value."""
    places = {f"mean {measure}": (measure, 0) for measure in _CELL_RANGES}
    places |= {f"{measure} error": (measure, 1) for measure in _CELL_RANGES} | {
        f"worst {measure}": (measure, 2) for measure in _CELL_RANGES
    }
    ranges = [_CELL_RANGES[measure][place] for measure, place in (places[str(name)] for name in names)]
    return tuple((float(low), float(high)) for low, high in ranges)


def digits(path: Path | None, *, seed: int = 0) -> Dataset:
    """Return handwritten digits of 8 × 8 pixels, as 64 features in [0, 1]."""
    pixels, labels = _digits()
    names = [str(digit) for digit in range(10)]
    data = from_arrays(pixels, labels, feature_names=_PIXELS, class_names=names, name="digits", seed=seed)
    return replace(data, source=_SKLEARN)


def digits_binary(path: Path | None, *, seed: int = 0) -> Dataset:
    """Return the digits 3 (0) and 8 (1), which are easily confused."""
    pixels, labels = _digits()
    rows = np.flatnonzero(np.isin(labels, (3, 8)))
    targets = (labels[rows] == 8).astype(np.int64)
    data = from_arrays(
        pixels[rows], targets, feature_names=_PIXELS, class_names=["3", "8"], ids=rows, name="digits-binary", seed=seed
    )
    parts = {part: replace(getattr(data, part), rows=getattr(data, part).ids) for part in ("train", "test")}
    return replace(data, source=_SKLEARN, **parts)


def synthetic(path: Path | None, *, seed: int = 0) -> Dataset:
    """Return two Gaussian clouds in the plane (AD Eq. 11): 1,000 of each to train, 10,000 of each to test."""
    require_seed(seed)
    rng = np.random.default_rng(seed)
    x_train, y_train = _clouds(rng, 1_000)
    x_test, y_test = _clouds(rng, 10_000)
    data = from_arrays(x_train, y_train, x_test, y_test, class_names=["0", "1"], name="synthetic")
    return replace(data, source=f"generated from seed {seed}")


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the digits' pixels [row, 64] in [0, 1] and their labels."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    return raw.data / 16.0, raw.target.astype(np.int64)


def _clouds(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `size` points of both classes in a random order, with their labels."""
    means = ((1.0, 1.0), (-1.0, -1.0))
    covariances = (((1.0, 0.5), (0.5, 1.0)), ((1.0, 0.1), (0.1, 1.0)))
    points = [rng.multivariate_normal(mean, matrix, size) for mean, matrix in zip(means, covariances, strict=True)]
    order = rng.permutation(2 * size)
    return np.concatenate(points)[order], np.repeat([0, 1], size)[order]
