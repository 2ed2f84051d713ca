"""The papers' preprocessing, step by step: pure functions of arrays, whose statistics come from training rows only.

Each takes what it is fitted on and what it is applied to as separate arguments, so a reader sees what was learned from
which rows.
"""

from __future__ import annotations

import numpy as np

from seedscope.core import require


def principal_components(train: np.ndarray, components: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training mean [feature] and the leading principal axes [feature, component], largest first.

    An axis has no sign of its own: here its largest entry is positive, so that every machine gets the same features.
    Only the wanted axes are computed (Lanczos on the covariance), to machine precision.

    >>> mean, axes = principal_components(np.array([[0.0, 0.0], [2.0, 1.0], [4.0, 2.0]]), components=1)
    >>> axes.ravel().round(3).tolist()
    [0.894, 0.447]
    """
    features = train.shape[1]
    require(1 <= components < features, f"components must be from 1 to {features - 1}, got {components}.")
    mean = train.mean(axis=0)
    centred = train - mean
    covariance = centred.T @ centred / (len(train) - 1)
    axes = _leading_eigenvectors(covariance, components)
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(components)])
    return mean, axes * signs


def _leading_eigenvectors(matrix: np.ndarray, count: int) -> np.ndarray:
    """Return the eigenvectors [row, count] of the largest eigenvalues of a symmetric matrix, largest first."""
    from scipy.sparse.linalg import eigsh

    # A fixed start makes Lanczos repeatable; the seed is arbitrary.
    start = np.random.default_rng(0).standard_normal(len(matrix))
    values, vectors = eigsh(matrix, k=count, v0=start)
    leading: np.ndarray = vectors[:, np.argsort(values)[::-1]]
    return leading


def random_directions(features: int, components: int, seed: int) -> np.ndarray:
    """Return a Gaussian random projection [feature, component]: it keeps squared lengths on average.

    >>> random_directions(784, 50, seed=0).shape
    (784, 50)
    """
    return np.random.default_rng(seed).normal(0.0, components**-0.5, size=(features, components))


def central_crop(images: np.ndarray, size: int) -> np.ndarray:
    """Return the central size × size square of each image [image, height, width, ...].

    >>> central_crop(np.arange(16).reshape(1, 4, 4), size=2).tolist()
    [[[5, 6], [9, 10]]]
    """
    top, left = ((images.shape[axis] - size) // 2 for axis in (1, 2))
    return images[:, top : top + size, left : left + size]


def unit_range(train: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what min–max scaling needs: each varying column's place, its minimum and its range over training rows.

    Constant columns carry nothing and have no range: they are left out.

    >>> varying, low, span = unit_range(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> varying.tolist(), low.tolist(), span.tolist()
    ([0], [1.0], [2.0])
    """
    low, high = train.min(axis=0), train.max(axis=0)
    varying = np.flatnonzero(high > low)
    return varying, low[varying], (high - low)[varying]


def rows_within_ball(features: np.ndarray) -> np.ndarray:
    """Return the rows, those with a norm above 1 scaled to norm 1.

    >>> rows_within_ball(np.array([[3.0, 4.0], [0.3, 0.4]])).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    shortened: np.ndarray = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
    return shortened


def rows_on_sphere(features: np.ndarray) -> np.ndarray:
    """Return the rows scaled to norm 1; a row of zeros stays as it is.

    >>> rows_on_sphere(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(norms > 0, norms, 1.0)


def standardised(features: np.ndarray) -> np.ndarray:
    """Return the columns with mean 0 and (population) standard deviation 1.

    >>> standardised(np.array([[1.0], [3.0]])).tolist()
    [[-1.0], [1.0]]
    """
    scaled: np.ndarray = (features - features.mean(axis=0)) / features.std(axis=0)
    return scaled
