"""Membership attacks: counts against loops, known epsilons, the value of knowing the seed."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, ttest_rel

from seedscope.analyses import membership
from seedscope.core.errors import SeedscopeError


def losses(
    models: int = 40,
    members: int = 300,
    others: int = 300,
    level_spread: float = 0.5,
    overfit: float = 1.5,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return losses of members and non-members whose level differs between seeds."""
    rng = np.random.default_rng(seed)
    level = np.exp(level_spread * rng.normal(size=(models, 1)))
    return level * rng.exponential(size=(models, members)), overfit * level * rng.exponential(size=(models, others))


def test_accuracy_counts_both_kinds_of_right_answers() -> None:
    inside, outside = losses(models=3, members=20, others=50)
    limits = np.array([0.2, 0.7, 1.5])
    slow = []
    for model in range(3):
        hits = sum(loss <= limits[model] for loss in inside[model]) / 20
        rejections = sum(loss > limits[model] for loss in outside[model]) / 50
        slow.append((hits + rejections) / 2)
    np.testing.assert_allclose(membership.loss_threshold_accuracy(inside, outside, limits), slow)


def test_knowing_the_seed_helps_where_losses_differ_between_seeds() -> None:
    found = membership.seed_known_or_hidden(*losses(models=100, level_spread=1.0, overfit=3.0))
    assert found.accuracy_same.mean() > found.accuracy_different.mean() > 0.5
    assert found.epsilon_gain.value > 0
    assert found.p_value < 1e-3
    assert found.loss_ratio == pytest.approx(3.0, rel=0.05)


def test_knowing_the_seed_is_worth_nothing_where_all_models_are_alike() -> None:
    inside, outside = losses(models=1)
    found = membership.seed_known_or_hidden(np.repeat(inside, 5, axis=0), np.repeat(outside, 5, axis=0))
    np.testing.assert_array_equal(found.accuracy_same, found.accuracy_different)
    assert found.p_value == 0.5
    assert found.epsilon_gain.value == 0


def test_without_overfitting_p_values_are_right() -> None:
    found = [membership.seed_known_or_hidden(*losses(20, 60, 60, 0.3, 1.0, seed)) for seed in range(200)]
    assert np.mean([one.p_value <= 0.05 for one in found]) <= 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 200)


def test_p_value_is_that_of_the_paired_t_test_on_epsilon() -> None:
    found = membership.seed_known_or_hidden(*losses())
    trusted = ttest_rel(found.epsilon_same, found.epsilon_different, alternative="greater").pvalue
    assert found.p_value == pytest.approx(trusted)
    np.testing.assert_allclose(found.epsilon_same, np.log(found.accuracy_same / (1 - found.accuracy_same)))


def test_perfect_attacks_are_compared_by_accuracy() -> None:
    rng = np.random.default_rng(0)
    inside = np.array([0.1, 0.1, 5.0, 0.1])[:, None] * np.ones((4, 10))
    outside = 1 + rng.uniform(size=(4, 10)) + 10 * (np.arange(4) == 2)[:, None]
    found = membership.seed_known_or_hidden(inside, outside)
    assert np.isinf(found.epsilon_same).all()
    assert 0 <= found.p_value <= 1


def test_thresholds_are_set_by_members_that_are_not_attacked() -> None:
    inside = np.concatenate([np.zeros((3, 50)), np.full((3, 50), 9.0)], axis=1)
    found = membership.seed_known_or_hidden(inside, np.full((3, 400), 5.0), threshold_share=0.25)
    assert np.all(found.accuracy_same < 1)  # the mean of both kinds of members is a threshold that misses one kind


def test_several_steps_are_attacked_each_by_itself() -> None:
    steps = {100: losses(seed=1), 200: losses(seed=2)}
    found = membership.seed_known_or_hidden_along_training(
        {step: pair[0] for step, pair in steps.items()}, {step: pair[1] for step, pair in steps.items()}
    )
    for step, pair in steps.items():
        np.testing.assert_array_equal(found[step].accuracy_same, membership.seed_known_or_hidden(*pair).accuracy_same)
    with pytest.raises(SeedscopeError, match=r"got \[100\] and \[200\]"):
        membership.seed_known_or_hidden_along_training({100: steps[100][0]}, {200: steps[200][1]})


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        (np.ones((2, 5)), np.ones((2, 5)), "at least 3 seeds, got 2"),
        (np.ones((3, 5)), np.ones((4, 5)), "of the same models"),
        (np.ones(5), np.ones(5), "of the same models"),
        (np.where(np.arange(4)[:, None] == 1, np.inf, np.ones((4, 5))), np.ones((4, 5)), r"model \[1\] are not finite"),
    ],
)
def test_bad_losses_are_refused(inside: np.ndarray, outside: np.ndarray, message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        membership.seed_known_or_hidden(inside, outside)


def test_a_hundred_seeds_cannot_show_more_than_3_28() -> None:
    assert float(membership.epsilon_lower(100, 100, 0, 100, 0.95)) == pytest.approx(3.28, abs=0.005)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_epsilon_lower_is_the_better_of_two_clopper_pearson_ratios(
    members: int, nonmembers: int, data: st.DataObject
) -> None:
    tp, fp = data.draw(st.integers(0, members)), data.draw(st.integers(0, nonmembers))
    lower = binomtest(tp, members, alternative="greater").proportion_ci(0.975).low
    upper = binomtest(fp, nonmembers, alternative="less").proportion_ci(0.975).high
    ratios = [(lower - 0.01) / upper if upper else np.inf, (1 - upper - 0.01) / (1 - lower)]
    expected = max([0.0] + [np.log(ratio) for ratio in ratios if ratio > 0])
    assert float(membership.epsilon_lower(tp, members, fp, nonmembers, 0.95, 0.01)) == pytest.approx(expected, abs=1e-9)


def test_epsilon_lower_stays_below_the_truth_as_often_as_promised() -> None:
    epsilon, runs = 1.0, 2000
    rng = np.random.default_rng(0)
    rate = np.exp(epsilon) / (1 + np.exp(epsilon))  # randomised response: both ratios are exactly e^ε
    found = membership.epsilon_lower(rng.binomial(200, rate, runs), 200, rng.binomial(200, 1 - rate, runs), 200, 0.9)
    assert np.mean(found <= epsilon) >= 0.9
    assert np.mean(found) > 0.5


def test_more_delta_shows_less_epsilon() -> None:
    found = [float(membership.epsilon_lower(90, 100, 5, 100, 0.95, delta)) for delta in (0.0, 0.01, 0.1, 0.5)]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    "arguments",
    [(11, 10, 0, 10, 0.95), (1, 10, -1, 10, 0.95), (1, 10, 1, 0, 0.95), (1, 10, 1, 10, 1.0), (1, 10, 1, 10, 0.9, 1.0)],
)
def test_impossible_counts_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(SeedscopeError):
        membership.epsilon_lower(*arguments)


def test_mu_lower_stays_below_the_truth_as_often_as_promised() -> None:
    draw, mu, runs = np.random.default_rng(0), 1.5, 60
    hits = draw.binomial(runs, norm.cdf(mu / 2), 2000)
    alarms = draw.binomial(runs, norm.cdf(-mu / 2), 2000)
    bounds = membership.mu_lower(hits, runs, alarms, runs, 0.95)
    assert (bounds <= mu).mean() >= 0.95
    assert bounds.mean() > 0.6  # and it is of use


def test_an_attack_no_better_than_chance_shows_no_mu() -> None:
    assert membership.mu_lower(0, 50, 50, 50, 0.95) == 0
    assert membership.mu_lower(50, 50, 0, 50, 0.95) == pytest.approx(2 * norm.ppf(0.025 ** (1 / 50)))
