"""What groups get: means, and the largest difference with an interval that covers every pair."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from seedscope.auditing.groups import group_mean, largest_difference
from tests.helpers.present import present


def test_two_groups_get_welchs_interval() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.normal(1.0, 1.0, 30), draw.normal(0.0, 3.0, 12)
    found = largest_difference(np.concatenate([first, second]), np.repeat(["a", "b"], [30, 12]), 0.9)
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.9)
    ends = (expected.low, expected.high) if first.mean() > second.mean() else (-expected.high, -expected.low)
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx(ends)
    assert found.value == pytest.approx(abs(first.mean() - second.mean()))


def test_the_interval_widens_with_the_number_of_pairs_it_must_cover() -> None:
    values = np.random.default_rng(1).normal(size=60)
    two, many = np.repeat(["a", "b"], 30), np.repeat(list("abcdef"), 10)
    narrow, wide = largest_difference(values, two, 0.95), largest_difference(values, many, 0.95)
    assert narrow is not None
    assert wide is not None
    assert present(wide.upper) - present(wide.lower) > present(narrow.upper) - present(narrow.lower)


def test_equal_groups_differ_clearly_no_more_often_than_stated() -> None:
    draw, clear = np.random.default_rng(2), 0
    groups = np.repeat(list("abcd"), 25)
    for _ in range(300):
        found = largest_difference(draw.normal(size=100), groups, 0.9)
        assert found is not None
        clear += present(found.lower) > 0
    assert clear <= 45  # a tenth would give more with probability 0.003


def test_a_group_of_one_has_no_part_in_the_difference_and_its_mean_says_so() -> None:
    values, groups = np.array([9.0, 0.0, 0.1, 0.2, 0.4]), np.array(["one", "a", "a", "b", "b"])
    found = largest_difference(values, groups, 0.95)
    assert found is not None
    assert found.note == "b against a"
    assert group_mean(values[groups == "one"] / 9, 0.95).note == "of one person"  # type: ignore[union-attr]
    assert group_mean(values[groups == "nobody"], 0.95) is None


def test_nothing_can_be_said_of_fewer_than_two_groups() -> None:
    assert largest_difference(np.array([1.0, 2.0]), np.array(["a", "b"]), 0.95) is None
    assert largest_difference(np.zeros(0), np.zeros(0, str), 0.95) is None
    constant = largest_difference(np.array([1.0, 1.0, 0.5, 0.5]), np.array(["a", "a", "b", "b"]), 0.95)
    assert constant is not None
    assert (constant.value, constant.lower, constant.upper) == (0.5, 0.5, 0.5)
