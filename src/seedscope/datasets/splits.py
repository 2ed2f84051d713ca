"""Which rows train, which validate and which test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seedscope.core import require, require_count
from seedscope.datasets.dataset import Dataset

TEST_SHARE = 0.25


def stratified_split(
    labels: np.ndarray, seed: int = 0, test_share: float = TEST_SHARE
) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and the test rows, each in the table's order, with the classes' shares kept.

    The rows are those of scikit-learn's `train_test_split(stratify=labels, random_state=seed)`, as in the
    predictive-multiplicity paper.

    >>> train, test = stratified_split(np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    >>> len(train), len(test)
    (6, 2)
    """
    from sklearn.model_selection import train_test_split

    require_seed(seed)
    _require_splittable(labels)
    rows = np.arange(len(labels))
    train, test = train_test_split(rows, test_size=test_share, stratify=labels, random_state=seed)
    return np.sort(train), np.sort(test)


def shuffled_split(rows: int, test_share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and the test rows in a random order, as scikit-learn's `train_test_split` draws them.

    >>> train, test = shuffled_split(100, test_share=0.15)
    >>> len(train), len(test)
    (85, 15)
    """
    from sklearn.model_selection import train_test_split

    return tuple(train_test_split(np.arange(rows), test_size=test_share, random_state=seed))


def require_seed(seed: int) -> None:
    """Raise unless the seed is a whole number below 2³², which is what scikit-learn takes."""
    require_count("seed", seed, at_least=0)
    require(seed < 2**32, f"seed must be below 2^32, got {seed}.")


def _require_splittable(labels: np.ndarray) -> None:
    """Raise unless every class can be in both parts."""
    classes = np.unique(labels)
    rows_needed = 4 * len(classes)
    require(
        len(labels) >= rows_needed,
        f"a test part of 25 % needs at least {rows_needed} rows for {len(classes)} classes, got {len(labels)}.",
    )


def first_tenth_validates(data: Dataset) -> Dataset:
    """Return the set with the first 10 % of its training rows as validation part, the next row as spare example.

    So the intrinsic-privacy papers do it; the training part still holds the spare example, as its first row.
    """
    count = int(0.1 * len(data.train))
    rest, first = data.train.take(slice(count, None)), data.train.take(slice(count))
    return replace(data, train=rest, validation=first, spare=("train", 0))
