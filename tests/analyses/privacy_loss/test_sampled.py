"""Everybody's privacy from sampled losses: where the truth is known it lies inside, and what is wrong is seen."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from seedscope import SeedscopeError
from seedscope.accounting import gaussian_delta, gaussian_epsilon, trade_off
from seedscope.analyses.privacy_loss import Sides, from_losses
from seedscope.numerics import betting_interval

MUS = np.array([0.0, 0.1, 0.5, 1.0, 2.0])


def gaussian_losses(runs: int, mus: np.ndarray = MUS, seed: int = 0) -> np.ndarray:
    """Return losses [run, person] against Gaussian noise, each person with a μ of their own."""
    return np.random.default_rng(seed).normal(mus**2 / 2, mus, size=(runs, len(mus)))


def test_truths_lie_inside_their_intervals_at_their_level() -> None:
    repetitions = 1000
    losses = np.random.default_rng(5).normal(0.5, 1.0, size=(150, repetitions))  # each column a repetition, μ = 1
    found = from_losses(losses, 0.9)
    truths = {
        "advantage": (found.alone(), 2 * norm.cdf(0.5) - 1),
        "delta": (found.delta(1.0), float(gaussian_delta(1.0, 1.0, 1.0))),
        "rate": (found.true_positive_rate(0.1), norm.cdf(norm.ppf(0.1) + 1)),
    }
    for name, (sides, truth) in truths.items():
        missed = float(((sides.lower > truth) | (sides.upper < truth)).mean())
        assert missed <= 0.1 + 3 * np.sqrt(0.09 / repetitions), name
        assert abs(float(sides.value.mean()) - truth) < 0.01, name


def test_all_at_once_is_wider_than_alone_and_holds_everybody() -> None:
    found, truth = from_losses(gaussian_losses(2000)), 2 * norm.cdf(MUS / 2) - 1
    alone = found.alone()
    assert np.all(found.advantage_lower <= alone.lower)
    assert np.all(found.advantage_upper >= alone.upper)
    assert np.all((found.advantage_lower <= truth) & (truth <= found.advantage_upper))
    np.testing.assert_allclose(found.mu.value, MUS, atol=0.1)
    truths = MUS, gaussian_delta(MUS, 1.0, 0.5), norm.cdf(norm.ppf(0.1) + MUS), gaussian_epsilon(MUS, 1.0, 0.05)
    both = [
        (found.mu, found.mu_alone()),
        (found.delta(0.5, together=True), found.delta(0.5)),
        (found.true_positive_rate(0.1, together=True), found.true_positive_rate(0.1)),
        (found.epsilon(0.05, together=True), found.epsilon(0.05)),
    ]
    for (at_once, each), known in zip(both, truths, strict=True):
        assert np.all((at_once.lower <= known + 1e-9) & (known <= at_once.upper + 1e-9))
        wider = (at_once.upper - at_once.lower) - (each.upper - each.lower)
        assert np.all(wider > -1e-9)
        assert np.any(wider > 0)


@pytest.mark.slow
@pytest.mark.parametrize("anytime", [False, True])
def test_sides_of_all_at_once_hold_for_all_in_as_many_repetitions_as_they_say(anytime: bool) -> None:
    mus, draw, repetitions = np.array([0.0, 0.05, 0.3, 1.0, 1.0, 2.0]), np.random.default_rng(8), 300
    truths = 2 * norm.cdf(mus / 2) - 1, gaussian_delta(mus, 1.0, 0.5)
    missed = np.zeros(len(truths))
    for _ in range(repetitions):
        found = from_losses(draw.normal(mus**2 / 2, mus, size=(60, len(mus))), 0.8, anytime=anytime)
        advantage = Sides(found.advantage, found.advantage_lower, found.advantage_upper)
        sides = advantage, found.delta(0.5, together=True)
        missed += [
            np.any((one.lower > truth + 1e-9) | (one.upper < truth - 1e-9))
            for one, truth in zip(sides, truths, strict=True)
        ]
    assert np.all(missed <= 0.2 * repetitions + 3 * np.sqrt(0.2 * 0.8 * repetitions))


def test_the_most_exposed_of_many_has_narrower_sides_than_an_even_share_of_the_error() -> None:
    mus, ratios = np.append(np.full(150, 0.1), 1.0), []
    for seed in range(9):
        found = from_losses(gaussian_losses(500, mus, seed))
        most = -np.expm1(-np.maximum(found.losses[:, -1], 0))
        even = betting_interval(most, 0.95, together=len(mus))
        ratios.append((found.advantage_upper[-1] - found.advantage_lower[-1]) / float(even[1] - even[0]))
    assert np.median(ratios) < 0.95


def test_who_stops_when_it_suits_is_wrong_no_more_often_where_sides_hold_at_any_time() -> None:
    repetitions, truth = 400, 2 * norm.cdf(0.25) - 1
    losses = np.random.default_rng(9).normal(0.125, 0.5, size=(320, repetitions))  # each column a repetition, μ = ½
    looks = [from_losses(losses[:runs], 0.8, anytime=True).alone() for runs in (20, 30, 40, 60, 80, 120, 160, 240, 320)]
    missed = np.any([(one.lower > truth) | (one.upper < truth) for one in looks], axis=0)
    assert missed.mean() <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / repetitions)


def test_epsilon_is_said_only_where_so_many_runs_can() -> None:
    found = from_losses(gaussian_losses(800))
    sides, truth = found.epsilon(0.05), gaussian_epsilon(MUS, 1.0, 0.05)
    assert np.all(sides.lower <= truth)
    assert np.all(sides.lower[3:] > 0.5 * truth[3:])
    assert np.all(sides.upper >= truth - 1e-9)
    assert np.isinf(found.epsilon(1e-6).upper).all()


def test_both_sides_of_epsilon_hold_at_their_level() -> None:
    losses = np.random.default_rng(6).normal(0.5, 1.0, size=(200, 400))  # each column a repetition, μ = 1
    sides, truth = from_losses(losses, 0.9).epsilon(0.05), float(gaussian_epsilon(1.0, 1.0, 0.05))
    missed = float(((sides.lower > truth) | (sides.upper < truth)).mean())
    assert missed <= 0.1 + 3 * np.sqrt(0.09 / 400)


def test_a_correct_density_passes_the_self_test() -> None:
    curve = trade_off(mu=2.0)
    for seed in range(200):
        found = from_losses(gaussian_losses(60, seed=seed), curve=curve)
        assert found.self_test.holds, seed
        assert found.alarms == (), seed


@pytest.mark.parametrize(
    "bug",
    [
        lambda losses: losses + 0.8,  # a density that is off
        lambda losses: losses - 0.8,
        lambda losses: MUS**2 / 2 + (losses - MUS**2 / 2) / 2,  # half of the noise
        lambda losses: MUS**2 / 2 + (losses - MUS**2 / 2) * 1.5,  # noise that adds up
    ],
)
def test_a_wrong_density_fails_the_self_test(bug: Callable[[np.ndarray], np.ndarray]) -> None:
    found = from_losses(bug(gaussian_losses(1000)), curve=trade_off(mu=2.0))
    assert not found.self_test.holds
    assert "contradict themselves" in found.alarms[0]


def test_losses_that_exceed_the_claimed_curve_ring_an_alarm() -> None:
    found = from_losses(gaussian_losses(1000), curve=trade_off(mu=1.0))
    assert "the guarantee allows" in " ".join(found.alarms)


def test_losses_beyond_a_pure_epsilon_ring_an_alarm_and_those_within_do_not() -> None:
    losses = np.clip(gaussian_losses(200, np.array([0.3])), -0.5, 0.5)
    assert "calibration is wrong" in " ".join(from_losses(losses, largest_loss=0.4).alarms)
    assert not any("calibration" in one for one in from_losses(losses, largest_loss=0.5).alarms)


def test_nobody_exposed_means_nothing_to_find() -> None:
    found = from_losses(np.zeros((300, 4)))
    assert np.all(found.advantage == 0)
    assert np.all(found.advantage_lower == 0)
    assert found.advantage_upper.max() < 0.05
    assert found.share_below(0.1).value == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: from_losses(np.zeros(5)), "array"),
        (lambda: from_losses(np.zeros((5, 2))), "at least 20 runs"),
        (lambda: from_losses(np.full((50, 2), np.nan)), "NaN"),
        (lambda: from_losses(np.zeros((50, 2)), confidence=2), "confidence must be"),
        (lambda: from_losses(np.zeros((50, 2))).delta(-1.0), "epsilon must be"),
        (lambda: from_losses(np.zeros((50, 2))).epsilon(0.0), "delta must be"),
    ],
)
def test_a_mistake_is_named(call: Callable[..., Any], words: str) -> None:
    with pytest.raises(SeedscopeError, match=words):
        call()
