"""Arrays as a `Dataset`: any features that were computed elsewhere can be audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import SeedscopeError, require, require_positive
from seedscope.datasets.columns import shown
from seedscope.datasets.dataset import Dataset, Part
from seedscope.datasets.roles import MOST_CLASSES, MOST_GROUP_LEVELS, require_no_nul
from seedscope.datasets.splits import stratified_split


def from_arrays(
    features: ArrayLike,
    labels: ArrayLike,
    test_features: ArrayLike | None = None,
    test_labels: ArrayLike | None = None,
    *,
    groups: Mapping[str, ArrayLike] | None = None,
    ids: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    name: str = "arrays",
    norm_bound: float | None = None,
    seed: int = 0,
) -> Dataset:
    """Return features and labels that are in memory as a data set.

    Args:
        features: numbers [row, ...], a pandas data frame (its columns become the feature names), or images.
        labels: [row], any values; classes are numbered in ascending order. With `class_names`: 0 … classes − 1.
        test_features, test_labels: the test part; without it a stratified 25 % is drawn from the seed.
        groups: by name, a value [row] for the training rows followed by the test rows.
        ids: identifiers [row] in the same order; without them a row is identified by its number.
        norm_bound: a norm that no row exceeds, by construction and not by looking at the data.

    >>> from_arrays(np.eye(8), [0, 1] * 4)
    Dataset('arrays': 6 train, 2 test, 8 features, 2 classes)
    """
    feature_names = _names(feature_names, features)
    rows = _numbers("features", features)
    values = _vector("labels", labels, len(rows))
    given = test_features is not None
    require(given == (test_labels is not None), "test_features and test_labels must be given together.")
    first_test = len(rows)
    if given:
        test_rows = _numbers("test_features", test_features)
        require(
            test_rows.shape[1:] == rows.shape[1:],
            f"test_features must have the shape of features, got {test_rows.shape[1:]} and {rows.shape[1:]}.",
        )
        values = np.concatenate([values, _vector("test_labels", test_labels, len(test_rows))])
        rows = np.concatenate([rows, test_rows])
    codes, classes = _classes(values, first_test, class_names)
    _require_within(rows, norm_bound)
    whole = Part(rows, codes, *_identity(ids, len(rows)), _groups(groups, len(rows)))
    order = np.arange(len(rows))
    train, test = (order[:first_test], order[first_test:]) if given else stratified_split(codes, seed)
    feature_names = feature_names or tuple(f"x{index}" for index in range(int(np.prod(rows.shape[1:]))))
    expected = int(np.prod(rows.shape[1:]))
    require(len(feature_names) == expected, f"feature_names must be {expected} names, got {len(feature_names)}.")
    parts = whole.take(train), whole.take(test)
    return Dataset(name, *parts, feature_names, classes, "arrays", norm_bound=norm_bound, drawn_test=not given)


def _names(feature_names: Sequence[str] | None, features: Any) -> tuple[str, ...] | None:
    """Return the given names, else those of a data frame's columns, else None."""
    names = feature_names if feature_names is not None else getattr(features, "columns", None)
    return None if names is None else tuple(map(str, names))


def _numbers(name: str, features: Any) -> np.ndarray:
    """Return the features as finite floating-point numbers [row, ...]; float32 stays float32."""
    array = np.asarray(features)
    if array.dtype != np.float32:
        try:
            array = np.array(features, dtype=np.float64)
        except (TypeError, ValueError):
            raise SeedscopeError(f"{name} must be numbers; use read_table or from_frame to encode text.") from None
    require(
        array.ndim >= 2 and array.size, f"{name} must be a table [row, feature] or images, got shape {array.shape}."
    )
    if not np.isfinite(array).all():
        row = np.argwhere(~np.isfinite(array))[0, 0]
        raise SeedscopeError(f"{name} must be finite, but row {row} is not.")
    return array


def _vector(name: str, values: Any, rows: int) -> np.ndarray:
    """Return the values as a vector with one entry per row."""
    vector = np.asarray(values)
    require(vector.shape == (rows,), f"{name} must have one value per row ({rows}), got shape {vector.shape}.")
    return vector


def _classes(values: np.ndarray, train: int, names: Sequence[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return each row's class number and the classes' names; raise unless the training rows have every class."""
    if names is None:
        codes, names = _numbered(values)
    else:
        whole = np.issubdtype(values.dtype, np.integer) and values.min() >= 0 and values.max() < len(names)
        require(whole, f"labels must be whole numbers from 0 to {len(names) - 1}, one per class name.")
        codes = values.astype(np.int64)
    absent = np.setdiff1d(np.arange(len(names)), codes[:train])
    require(len(absent) == 0, f"class {shown(names[absent[0]]) if len(absent) else ''} has no training row.")
    return codes, tuple(map(str, names))


def _numbered(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return labels of any kind numbered in ascending order, and their names."""
    if values.dtype.kind == "f":
        require(np.isfinite(values), "labels must be finite.")
    known, codes = np.unique(values, return_inverse=True)
    require(len(known) >= 2, f"labels must have at least two classes, got {shown(known[0])} only.")
    require(
        len(known) <= MOST_CLASSES,
        f"labels have {len(known)} different values, at most {MOST_CLASSES} are allowed; is it a regression target?",
    )
    whole = known.dtype.kind == "f" and bool(np.all(known % 1 == 0))
    return codes.astype(np.int64), tuple(str(int(value)) if whole else str(value) for value in known)


def _identity(ids: ArrayLike | None, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the identifiers and the row numbers."""
    numbers = np.arange(rows)
    if ids is None:
        return numbers, numbers
    require_no_nul(ids if isinstance(ids, list | tuple) else np.asarray(ids).tolist())
    vector = _vector("ids", ids, rows)
    require(len(np.unique(vector)) == rows, "ids must be unique.")
    return vector, numbers


def _groups(groups: Mapping[str, ArrayLike] | None, rows: int) -> dict[str, np.ndarray]:
    """Return each group column as text."""
    columns = {name: _vector(f"group {shown(name)}", values, rows) for name, values in (groups or {}).items()}
    for name, values in columns.items():
        count = len(np.unique(values))
        require(
            count <= MOST_GROUP_LEVELS,
            f"group {shown(name)} has {count} levels, at most {MOST_GROUP_LEVELS} are allowed.",
        )
    return {str(name): values.astype(np.str_) for name, values in columns.items()}


def _require_within(features: np.ndarray, norm_bound: float | None) -> None:
    """Raise if a row is longer than the bound (up to rounding)."""
    if norm_bound is None:
        return
    require_positive("norm_bound", norm_bound)
    largest = np.linalg.norm(features.reshape(len(features), -1), axis=1).max()
    slack = 1 + 4 * np.finfo(features.dtype).eps
    require(largest <= norm_bound * slack, f"norm_bound is {norm_bound:g}, but a row has norm {largest:.6g}.")
