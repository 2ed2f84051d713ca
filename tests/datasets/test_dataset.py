"""Parts, the spare example and the fingerprint."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from seedscope.core.errors import SeedscopeError
from seedscope.datasets import Dataset, Part, from_arrays


def small(spare: tuple[str, int] = ("train", 0)) -> Dataset:
    data = from_arrays(np.arange(24.0).reshape(12, 2), np.arange(12) % 2, np.ones((4, 2)), [0, 1, 0, 1])
    return replace(data, spare=spare)


def test_a_training_row_as_spare_example_is_taken_out_of_the_base() -> None:
    data = small(("train", 3))
    np.testing.assert_array_equal(data.base.rows, np.delete(np.arange(12), 3))
    np.testing.assert_array_equal(data.spare_example.features, [[6.0, 7.0]])


def test_a_test_row_as_spare_example_leaves_the_training_part_whole() -> None:
    data = small(("test", 1))
    assert len(data.base) == len(data.train)
    np.testing.assert_array_equal(data.spare_example.rows, [13])


def test_a_data_set_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        small().name = "other"  # type: ignore[misc]


def test_the_fingerprint_sees_every_number_and_label_and_the_spare_example() -> None:
    data = small()
    features, labels = data.features.copy(), data.labels.copy()
    features[5, 1] = np.nextafter(features[5, 1], 1e9)
    labels[2] = 1 - labels[2]
    variants = [
        data,
        replace(data, train=replace(data.train, features=features)),
        replace(data, train=replace(data.train, labels=labels)),
        replace(data, test=replace(data.test, features=data.test_features * 2)),
        replace(data, spare=("train", 1)),
        replace(data, train=replace(data.train, features=data.features.astype(np.float32))),
    ]
    assert len({variant.fingerprint for variant in variants}) == len(variants)
    assert small().fingerprint == data.fingerprint


def test_parts_of_uneven_lengths_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="must be of one length"):
        Part(np.zeros((3, 2)), np.zeros(2), np.arange(3), np.arange(3))


def test_a_spare_example_of_no_part_is_refused() -> None:
    with pytest.raises(SeedscopeError, match="spare must name 'train' or 'test'"):
        small(("validation", 0))


def test_the_fingerprint_covers_validation_rows_row_numbers_and_the_groups_names() -> None:
    part = Part(
        np.eye(4), np.array([0, 1, 0, 1]), np.arange(4).astype(str), np.arange(4), {"sex": np.array(list("abab"))}
    )
    data = Dataset("d", part, part, ("a", "b", "c", "d"), ("0", "1"), "a test", validation=part)
    other_rows = replace(part, features=2 * np.eye(4))
    renumbered = replace(part, rows=np.arange(4)[::-1].copy())
    renamed = replace(part, groups={"gender": part.groups["sex"]})
    others = [
        replace(data, validation=None), replace(data, validation=other_rows), replace(data, train=renumbered),
        replace(data, train=renamed, test=renamed, validation=renamed),
    ]  # fmt: skip
    prints = {one.fingerprint for one in (data, *others)}
    assert len(prints) == 5
    assert replace(data, validation=part).fingerprint == data.fingerprint
