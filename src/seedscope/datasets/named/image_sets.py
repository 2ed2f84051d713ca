"""The image sets: MNIST and CIFAR-10, as images and as the intrinsic-privacy papers reduce them.

`rows` number the original training images from 0 and the test images after them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from seedscope.core import unknown_name
from seedscope.datasets.dataset import Dataset, Part
from seedscope.datasets.named.downloads import read_arrays
from seedscope.datasets.pixels import pixel_names
from seedscope.datasets.preprocessing import central_crop, principal_components, random_directions, rows_within_ball
from seedscope.datasets.splits import first_tenth_validates

COMPONENTS = 50
CROP = 10
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR2_CLASSES = ("airplane", "bird")
Reduction = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def mnist(path: Path, *, validation: bool = False) -> Dataset:
    """Return all ten digits as images [row, 28, 28, 1] in [0, 1]; `validation` takes off 6,000 rows as IP1 D.3 does."""
    data = _as_images("mnist", path, tuple(str(digit) for digit in range(10)))
    return first_tenth_validates(data) if validation else data


def mnist_binary(
    path: Path, *, features: Literal["pca", "random-projection", "crop"] = "pca", seed: int = 0
) -> Dataset:
    """Return the digits 3 (0) and 5 (1) with rows of norm at most 1 (IP1 Table 1 and D.1).

    Features are 50 principal components, 50 random projections (drawn from the seed), or the 10 × 10 central pixels.
    """
    reductions = {"pca": _pca, "random-projection": _random_projection(seed), "crop": _crop}
    if features not in reductions:
        raise unknown_name("features of mnist-binary", features, reductions)
    train, test = (_only(part, (3, 5)) for part in _pixel_parts(path))
    return _reduced("mnist-binary", train, test, reductions[features], ("3", "5"), f"{features}-")


def cifar2(path: Path, *, features: Literal["pca", "pixels"] = "pca") -> Dataset:
    """Return airplanes (0) and birds (1): 50 principal components of norm at most 1, or the images in [0, 1]."""
    if features not in ("pca", "pixels"):
        raise unknown_name("features of cifar2", features, ("pca", "pixels"))
    if features == "pixels":
        return first_tenth_validates(_as_images("cifar2", path, CIFAR2_CLASSES))
    train, test = _pixel_parts(path)
    return _reduced("cifar2", train, test, _pca, CIFAR2_CLASSES, "pca-")


def cifar10_small(path: Path) -> Dataset:
    """Return 1,500 training and 300 test images of each CIFAR-10 class, [row, 32, 32, 3] in [0, 1]."""
    return _as_images("cifar10-small", path, CIFAR10_CLASSES)


def _pixel_parts(path: Path) -> tuple[Part, Part]:
    """Return the training and the test part with the file's pixels, 0 … 255."""
    x_train, y_train, x_test, y_test = read_arrays(path, "x_train", "y_train", "x_test", "y_test")
    places = np.arange(len(y_train)), len(y_train) + np.arange(len(y_test))
    train = Part(x_train, y_train.astype(np.int64), places[0], places[0])
    return train, Part(x_test, y_test.astype(np.int64), places[1], places[1])


def _only(part: Part, classes: tuple[int, int]) -> Part:
    """Return the rows of two classes, relabelled 0 and 1."""
    kept = part.take(np.flatnonzero(np.isin(part.labels, classes)))
    return replace(kept, labels=(kept.labels == classes[1]).astype(np.int64))


def _as_images(name: str, path: Path, classes: tuple[str, ...]) -> Dataset:
    """Return the file's images [row, height, width, channel] as float32 in [0, 1]."""
    train, test = (replace(part, features=_unit_pixels(part.features)) for part in _pixel_parts(path))
    return Dataset(name, train, test, pixel_names(train.features.shape[1:]), classes, path.name)


def _unit_pixels(pixels: np.ndarray) -> np.ndarray:
    """Return images with a channel axis, as float32 in [0, 1]."""
    images = pixels if pixels.ndim == 4 else pixels[..., None]
    return images.astype(np.float32) / np.float32(255)


def _reduced(name: str, train: Part, test: Part, reduce: Reduction, classes: tuple[str, ...], prefix: str) -> Dataset:
    """Return the set with reduced features of norm at most 1, the first tenth of its training rows for validation."""
    # Reductions are fitted on all training rows, before the validation part is taken off (METHODS of IP1 and IP2).
    fitted, applied = (rows_within_ball(values) for values in reduce(train.features / 255, test.features / 255))
    names = tuple(f"{prefix}{index}" for index in range(fitted.shape[1]))
    parts = replace(train, features=fitted), replace(test, features=applied)
    learned = ("the principal components",) if reduce is _pca else ()
    return first_tenth_validates(Dataset(name, *parts, names, classes, name, norm_bound=1.0, learned=learned))


def _pca(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both parts on the leading principal components of the training part."""
    train, test = _flat(train), _flat(test)
    mean, axes = principal_components(train, COMPONENTS)
    return train @ axes - mean @ axes, test @ axes - mean @ axes


def _random_projection(seed: int) -> Reduction:
    """Return the reduction of both parts by one Gaussian random matrix."""

    def reduce(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        directions = random_directions(_flat(train).shape[1], COMPONENTS, seed)
        return _flat(train) @ directions, _flat(test) @ directions

    return reduce


def _crop(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the central pixels of both parts."""
    return _flat(central_crop(train, CROP)), _flat(central_crop(test, CROP))


def _flat(images: np.ndarray) -> np.ndarray:
    """Return images as rows."""
    return images.reshape(len(images), -1)
