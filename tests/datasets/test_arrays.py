"""Features that were computed elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from seedscope.core.errors import SeedscopeError
from seedscope.datasets import from_arrays

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(20, 3))
LABELS = np.arange(20) % 2


def test_given_parts_stay_as_they_are() -> None:
    data = from_arrays(
        FEATURES, LABELS, FEATURES[:4] + 1, LABELS[:4], groups={"sex": ["f", "m"] * 12}, ids=np.arange(24) + 100
    )
    np.testing.assert_array_equal(data.features, FEATURES)
    np.testing.assert_array_equal(data.test_features, FEATURES[:4] + 1)
    np.testing.assert_array_equal(data.test.ids, [120, 121, 122, 123])
    np.testing.assert_array_equal(data.test.rows, [20, 21, 22, 23])
    np.testing.assert_array_equal(data.test.groups["sex"], ["f", "m", "f", "m"])


def test_without_a_test_part_a_quarter_is_drawn_from_the_seed() -> None:
    first, again, other = (from_arrays(FEATURES, LABELS, seed=seed) for seed in (0, 0, 1))
    assert len(first.test) == 5
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint


def test_a_data_frame_names_the_features() -> None:
    data = from_arrays(pd.DataFrame(FEATURES, columns=["a", "b", "c"]), LABELS)
    assert data.feature_names == ("a", "b", "c")


def test_images_keep_their_shape_and_float32_its_type() -> None:
    data = from_arrays(np.zeros((8, 4, 4, 1), np.float32), [0, 1] * 4)
    assert data.features.shape == (6, 4, 4, 1)
    assert data.features.dtype == np.float32
    assert len(data.feature_names) == 16


@pytest.mark.parametrize(
    ("labels", "names"),
    [(["b", "a"] * 10, ("a", "b")), ([10, 9] * 10, ("9", "10")), ([1.0, 0.0] * 10, ("0", "1"))],
)
def test_any_labels_are_numbered_in_ascending_order(labels: list[Any], names: tuple[str, ...]) -> None:
    data = from_arrays(FEATURES, labels)
    assert data.class_names == names
    np.testing.assert_array_equal(data.labels, 1 - data.train.rows % 2)


def test_later_changes_of_an_array_do_not_reach_the_data_set() -> None:
    features = FEATURES.copy()
    data = from_arrays(features, LABELS, features, LABELS)
    before = data.fingerprint
    features[:] = 0
    assert from_arrays(data.features, LABELS, data.test_features, LABELS).fingerprint == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"features": FEATURES[:, 0]}, r"features must be a table"),
        ({"features": [["a"]] * 20}, r"features must be numbers; use read_table"),
        ({"features": np.where(FEATURES > 2, np.nan, FEATURES) * np.nan}, r"features must be finite, but row 0"),
        ({"labels": LABELS[:-1]}, r"labels must have one value per row \(20\)"),
        ({"labels": np.zeros(20)}, r"labels must have at least two classes"),
        ({"test_features": FEATURES}, r"must be given together"),
        ({"test_features": FEATURES[:, :2], "test_labels": LABELS}, r"must have the shape of features"),
        ({"test_features": FEATURES, "test_labels": LABELS + 1}, r"class '2' has no training row"),
        ({"ids": [0] * 20}, r"ids must be unique"),
        ({"groups": {"g": np.arange(20)[:5]}}, r"group 'g' must have one value per row"),
        ({"feature_names": ["a"]}, r"feature_names must be 3 names, got 1"),
        ({"class_names": ["only"]}, r"labels must be whole numbers from 0 to 0"),
        ({"labels": LABELS * 0, "class_names": ["a", "b"]}, r"class 'b' has no training row"),
        ({"norm_bound": 0.1}, r"norm_bound is 0.1, but a row has norm"),
        ({"norm_bound": -1}, r"norm_bound must be a finite number above 0"),
    ],
)
def test_arrays_that_do_not_fit_end_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SeedscopeError, match=sentence):
        from_arrays(**{"features": FEATURES, "labels": LABELS, **change})


def test_groups_of_more_than_twenty_levels_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="group 'g' has 24 levels, at most 20"):
        from_arrays(np.eye(24), np.arange(24) % 2, groups={"g": np.arange(24)})
