"""Intervals by betting: they hold the mean, alone and together, and are about as narrow as the spread allows."""

import numpy as np
import pytest

from seedscope import SeedscopeError
from seedscope.numerics import betting_interval, betting_lower

LAWS = {
    "coin": lambda draw, shape: (draw.random(shape) < 0.3).astype(float),
    "rare": lambda draw, shape: (draw.random(shape) < 0.01).astype(float),
    "narrow": lambda draw, shape: draw.beta(2, 60, shape),
    "even": lambda draw, shape: draw.random(shape),
}
MEANS = {"coin": 0.3, "rare": 0.01, "narrow": 2 / 62, "even": 0.5}


@pytest.mark.parametrize("law", LAWS)
def test_intervals_miss_the_mean_no_more_often_than_they_say(law: str) -> None:
    values = LAWS[law](np.random.default_rng(1), (150, 1000))
    lower, upper = betting_interval(values, 0.9)
    missed = float(((lower > MEANS[law]) | (upper < MEANS[law])).mean())
    assert missed <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 1000)


def test_intervals_together_all_hold_at_once() -> None:
    draw = np.random.default_rng(2)
    missed = 0
    for _ in range(60):
        lower, upper = betting_interval(draw.random((100, 20)), 0.9, together=20)
        missed += bool(np.any((lower > 0.5) | (upper < 0.5)))
    assert missed <= 0.1 * 60 + 3 * np.sqrt(0.1 * 0.9 * 60)


@pytest.mark.parametrize("law", ["coin", "narrow", "even"])
def test_intervals_are_nearly_as_narrow_as_the_normal_approximation(law: str) -> None:
    values = LAWS[law](np.random.default_rng(3), (2000, 50))
    lower, upper = betting_interval(values, 0.95)
    normal = 2 * 1.96 * values.std(0) / np.sqrt(2000)
    assert np.median((upper - lower) / normal) < 2.2


def test_from_below_values_need_no_largest() -> None:
    values = np.random.default_rng(5).pareto(2.5, size=(200, 1000)) * 0.15  # mean 0.1, no third moment
    missed = float((betting_lower(values, 0.8) > 0.1).mean())  # half of the error is for the other side
    assert missed <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 1000)
    assert np.median(betting_lower(values, 0.8)) > 0.07


def test_shares_of_the_error_may_differ() -> None:
    values = np.random.default_rng(6).random((300, 1)).repeat(2, axis=1)
    lower, upper = betting_interval(values, 0.9, together=[2, 50])
    for k, together in enumerate((2, 50)):
        np.testing.assert_allclose((lower[k], upper[k]), betting_interval(values[:, 0], 0.9, together=together))


def test_intervals_for_any_time_are_a_little_wider_than_for_a_number_known_beforehand() -> None:
    values = np.random.default_rng(7).random((1000, 20))
    (low, high), (lower, upper) = (betting_interval(values, 0.95, anytime=anytime) for anytime in (False, True))
    wider = np.median((upper - lower) / (high - low))
    assert 1 < wider < 1.45


def test_constant_values_leave_only_what_so_many_runs_cannot_exclude() -> None:
    lower, upper = betting_interval(np.zeros((500, 2)), 0.95)
    assert np.all(lower == 0)
    assert np.all((upper > 0) & (upper < 0.02))
    lower, upper = betting_interval(np.ones(500), 0.95)
    assert upper == 1
    assert lower > 0.98


def test_scaling_values_scales_the_interval() -> None:
    values = np.random.default_rng(4).random((200, 3))
    small, large = betting_interval(values, 0.95), betting_interval(7 * values, 0.95, largest=7.0)
    np.testing.assert_allclose(np.array(large), 7 * np.array(small), rtol=1e-12)


@pytest.mark.parametrize("values", [[[1.5]], [[-0.1]], [[np.nan]], []])
def test_values_out_of_range_are_named(values: list[list[float]]) -> None:
    with pytest.raises(SeedscopeError, match="values must"):
        betting_interval(values, 0.95)
