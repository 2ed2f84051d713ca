"""Learning-rate schedules and momentum, against their formulas written out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from seedscope import SeedscopeError
from seedscope.training.schedules import Cosine, Drops, Linear, Momentum, WarmUp, schedule, transformation

STEPS = np.arange(0, 101, 10)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (0.3, np.full(11, 0.3)),
        (Cosine(0.4, 0.1), 0.1 + 0.3 * (1 + np.cos(np.pi * STEPS / 100)) / 2),
        (Linear(0.4, 0.2), 0.4 - 0.2 * STEPS / 100),
        (Drops(0.4, ((35, 0.1), (75, 0.5))), 0.4 * np.where(STEPS > 35, 0.1, 1) * np.where(STEPS > 75, 0.5, 1)),
        (WarmUp(20, 0.4), 0.4 * np.minimum(1, STEPS / 20)),
        (WarmUp(20, Linear(0.4)), 0.4 * np.where(STEPS < 20, STEPS / 20, 1 - (STEPS - 20) / 80)),
    ],
)
def test_a_schedule_follows_its_formula(rate: Any, expected: np.ndarray) -> None:
    follow = schedule(rate, 100)
    np.testing.assert_allclose([follow(step) for step in STEPS], expected, atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_adds_up_earlier_gradients(nesterov: bool) -> None:
    optimizer = transformation(0.1, Momentum(0.9, nesterov), 3)
    weights, velocity = np.zeros(2), np.zeros(2)
    state = optimizer.init(weights)
    for gradient in (np.array([1.0, 2.0]), np.array([-1.0, 0.5]), np.array([0.0, 3.0])):
        update, state = optimizer.update(gradient, state)
        velocity = 0.9 * velocity + gradient
        expected = -0.1 * (0.9 * velocity + gradient if nesterov else velocity)
        np.testing.assert_allclose(update, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cosine(0.0), "initial must be a finite number above 0"),
        (lambda: Linear(0.1, -1), "final must be at least 0"),
        (lambda: Drops(0.1, ((0, 0.5),)), "step of a drop must be a whole number of at least 1"),
        (lambda: Drops(0.1, ((5, 0),)), "factor of a drop must be"),
        (lambda: WarmUp(0, 0.1), "steps must be"),
        (lambda: WarmUp(5, -0.1), "then must be"),
        (lambda: Momentum(1.0), "decay must be in"),
    ],
)
def test_bad_values_are_refused_by_name(make: Callable[..., Any], message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        make()
