"""Noisy fine-tuning against one-dimensional Gaussians whose divergence is known after every step."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedscope import per_instance as pi
from seedscope.core import SeedscopeError

CONTRACTIONS, SCALES, ORDERS = st.floats(0.05, 0.99), st.floats(0.1, 3.0), st.floats(1.05, 20.0)


def gaussian_divergence(mean: float, variance: float, other: float, order: float) -> float:
    """Return D_α(N(mean, variance)‖N(0, other)); infinite where the order is too large for these variances."""
    mixed = (1 - order) * variance + order * other
    if mixed <= 0:
        return math.inf
    log_ratio = math.log(mixed) - (1 - order) * math.log(variance) - order * math.log(other)
    return order * mean**2 / (2 * mixed) - log_ratio / (2 * (order - 1))


def walked(mean: float, variance: float, contraction: float, noise: float, steps: int) -> tuple[float, float]:
    """Return mean and variance after linear noisy steps, one by one."""
    for _ in range(steps):
        mean, variance = contraction * mean, contraction**2 * variance + noise**2
    return mean, variance


@given(CONTRACTIONS, SCALES, ORDERS, st.integers(1, 30), st.floats(0.1, 20.0))
def test_linear_steps_from_two_points_reach_the_bound(
    contraction: float, noise: float, order: float, steps: int, apart: float
) -> None:
    mean, variance = walked(apart, 0.0, contraction, noise, steps)
    exact = gaussian_divergence(mean, variance, variance, order)
    assert pi.iteration_rdp(apart, contraction, noise, steps, order) == pytest.approx(exact, rel=1e-9)


@given(CONTRACTIONS, SCALES, ORDERS, st.integers(0, 30), st.floats(-5.0, 5.0), st.floats(0.1, 4.0), st.floats(0.1, 4.0))
def test_what_is_left_of_a_divergence_is_never_above_the_bound_by_spread(
    contraction: float, noise: float, order: float, steps: int, apart: float, variance: float, other: float
) -> None:
    start = gaussian_divergence(apart, variance, other, order)
    mean, first = walked(apart, variance, contraction, noise, steps)
    exact = gaussian_divergence(mean, first, walked(0.0, other, contraction, noise, steps)[1], order)
    bound = pi.spread_rdp(start, math.sqrt(other), contraction, noise, steps, order)
    assert exact <= bound * (1 + 1e-9) + 1e-12


def test_near_order_one_the_bound_by_spread_is_the_truth() -> None:
    mean, variance = walked(1.0, 2.0, 0.7, 0.5, 4)
    bound = pi.spread_rdp(gaussian_divergence(1.0, 2.0, 2.0, 1.001), math.sqrt(2.0), 0.7, 0.5, 4, 1.001)
    assert bound == pytest.approx(gaussian_divergence(mean, variance, variance, 1.001), rel=0.01)


@pytest.mark.parametrize(("distance", "spread"), [(10.0, math.inf), (math.inf, 0.5), (10.0, 0.5)])
def test_the_steps_are_enough_and_one_fewer_is_not(distance: float, spread: float) -> None:
    def bound(steps: int) -> float:
        by_spread = pi.spread_rdp(2.0, spread, 0.8, 0.3, steps, 3.0)
        return min(by_spread, pi.iteration_rdp(distance, 0.8, 0.3, steps, 3.0))

    found = pi.fine_tuning_steps(2.0, 0.05, 3.0, 0.8, 0.3, distance=distance, spread=spread)
    assert found == next(steps for steps in range(1000) if bound(steps) <= 0.05)


def test_a_person_who_hardly_counts_needs_no_step() -> None:
    assert pi.fine_tuning_steps(0.01, 0.05, 2.0, 0.9, 0.1) == 0


@pytest.mark.parametrize("classes", [2, 4])
def test_gradient_steps_of_logistic_regression_contract_as_promised(classes: int) -> None:
    """Whole-batch steps from many pairs of weights, with rows as long as allowed."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(20, 3))
    rows *= 1.5 / np.linalg.norm(rows, axis=1, keepdims=True)
    labels = draw.integers(classes, size=20)
    tuning = pi.FineTuning(0.05, 1.5, 0.1, 3.0, classes)

    def moved(weights: np.ndarray) -> np.ndarray:
        if classes == 2:
            pull = rows.T @ (1 / (1 + np.exp(-rows @ weights[:, 0])) - labels)[:, None]
        else:
            shares = np.exp(rows @ weights)
            pull = rows.T @ (shares / shares.sum(1, keepdims=True) - np.eye(classes)[labels])
        after: np.ndarray = weights - tuning.learning_rate * (pull / len(rows) + 0.05 * weights)
        return after

    shape = (3, 1 if classes == 2 else classes)
    for scale in (0.01, 1.0, 10.0):
        for _ in range(100):
            one, two = draw.normal(size=(2, *shape)) * scale
            assert np.linalg.norm(moved(one) - moved(two)) <= tuning.contraction * np.linalg.norm(one - two) * (
                1 + 1e-9
            )


def test_what_is_not_proved_is_refused() -> None:
    with pytest.raises(SeedscopeError, match="finite distance"):
        pi.fine_tuning_steps(1.0, 0.1, 2.0, 0.5, 1.0)
    with pytest.raises(SeedscopeError, match="contraction must be"):
        pi.fine_tuning_steps(1.0, 0.1, 2.0, 1.0, 1.0, distance=1.0)
    with pytest.raises(SeedscopeError, match="classes must be"):
        pi.FineTuning(0.1, 1.0, 0.1, 1.0, classes=1)
