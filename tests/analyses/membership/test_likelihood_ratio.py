"""Likelihood-ratio membership tests: what they must find, and must not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, norm

from seedscope.accounting import trade_off
from seedscope.analyses.membership import curve_test, epsilon_lower, likelihood_ratio_tests, logit_confidence
from seedscope.core.errors import SeedscopeError


def losses(shift: np.ndarray | float, seeds: int, people: int, seed: int = 0) -> np.ndarray:
    """Return losses whose logit confidences are standard normal around a shift."""
    confidence = np.random.default_rng(seed).normal(size=(seeds, people)) + shift
    return np.logaddexp(0, -confidence)


def test_logit_confidence_inverts_the_loss() -> None:
    confidence = np.linspace(-20, 12, 50)
    np.testing.assert_allclose(logit_confidence(np.logaddexp(0, -confidence)), confidence, rtol=1e-6)


def test_a_person_who_changes_nothing_cannot_be_recognised() -> None:
    same = losses(0.0, 200, 30)
    tests = likelihood_ratio_tests(same, same)
    np.testing.assert_array_equal(tests.advantage, 0)
    assert float(tests.set_epsilon_lower) == 0


def test_a_person_far_from_everything_is_recognised_up_to_the_ceiling() -> None:
    tests = likelihood_ratio_tests(losses(20.0, 100, 3), losses(0.0, 100, 3, seed=1))
    np.testing.assert_array_equal(tests.advantage, 1)
    assert float(tests.set_epsilon_lower) == pytest.approx(tests.ceiling) == pytest.approx(2.57, abs=0.005)


def test_exposed_people_rank_first() -> None:
    shift = np.array([0.0, 0.5, 1.0, 2.0, 4.0])
    tests = likelihood_ratio_tests(losses(shift, 2000, 5), losses(0.0, 2000, 5, seed=1))
    assert (np.diff(tests.advantage) > 0).all()
    # For two unit normals at distance s the even test has advantage 2Φ(s/2) − 1.
    np.testing.assert_allclose(tests.advantage, [0.0, 0.197, 0.383, 0.683, 0.954], atol=0.06)


def test_the_lower_bound_keeps_its_confidence_when_thresholds_and_person_are_chosen() -> None:
    # Gaussian noise with distance s has pure ε = ∞, but no attack proves more than the event-wise ε it aims at; with
    # identical distributions the true ε is 0, and whatever is proved above it is an error.
    wrong = 0
    for repetition in range(300):
        inside = losses(0.0, 24, 10, seed=2 * repetition)
        outside = losses(0.0, 24, 10, seed=2 * repetition + 1)
        wrong += float(likelihood_ratio_tests(inside, outside, confidence=0.9).set_epsilon_lower) > 0
    assert wrong / 300 <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 300)


def test_randomised_response_is_bounded_from_below_by_its_own_epsilon() -> None:
    # A mechanism that answers truthfully with probability e^ε/(1 + e^ε) is exactly ε-private.
    epsilon, draw, wrong, best = 1.0, np.random.default_rng(0), 0, []
    for _ in range(100):
        truth = draw.random((400, 1)) < np.exp(epsilon) / (1 + np.exp(epsilon))
        lie = draw.random((400, 1)) >= np.exp(epsilon) / (1 + np.exp(epsilon))
        jitter = 1e-3 * draw.normal(size=(2, 400, 1))
        tests = likelihood_ratio_tests(0.2 + 0.6 * ~truth + jitter[0], 0.2 + 0.6 * ~lie + jitter[1], confidence=0.9)
        best.append(float(tests.set_epsilon_lower))
        wrong += best[-1] > epsilon
    assert wrong <= 20
    assert np.median(best) > 0.4


def test_roc_is_monotone_and_ends_at_one() -> None:
    tests = likelihood_ratio_tests(losses(1.0, 100, 20), losses(0.0, 100, 20, seed=1))
    assert (np.diff(tests.roc_false_positive_rate) >= 0).all()
    assert (np.diff(tests.roc_true_positive_rate) >= 0).all()
    assert tests.roc_true_positive_rate[-1] == tests.roc_false_positive_rate[-1] == 1


def test_the_roc_is_a_mean_of_curves_with_thresholds_of_each_persons_own() -> None:
    # one person is always accused by a shared threshold, though nothing tells their models apart
    shift, always = np.array([0.0, 2.0]), np.array([8.0, 0.0])
    inside, outside = losses(shift + always, 400, 2), losses(always, 400, 2, seed=1)
    tests = likelihood_ratio_tests(inside, outside)
    for rate in (0.05, 0.2, 0.5):
        found = np.interp(rate, tests.roc_false_positive_rate, tests.roc_true_positive_rate)
        exact = (rate + float(norm.cdf(norm.ppf(rate) + 2.0))) / 2
        assert found == pytest.approx(exact, abs=0.08)


def test_a_claimed_curve_is_tested_by_the_rates_bounds() -> None:
    curve = trade_off(mu=1.0)
    found = curve_test(45, 50, 5, 50, curve, 0.95)
    each = 0.975
    lower, upper = beta.ppf(1 - each, 45, 6), beta.ppf(each, 6, 45)
    assert found.true_positive_lower == pytest.approx(lower)
    assert found.false_positive_upper == pytest.approx(upper)
    assert found.allowed == pytest.approx(norm.cdf(norm.ppf(upper) + 1.0))
    assert found.exceeded


def test_a_right_training_exceeds_its_curve_no_oftener_than_stated() -> None:
    curve, wrong = trade_off(mu=1.0), 0
    for repetition in range(200):
        inside, outside = losses(1.0, 40, 3, seed=2 * repetition), losses(0.0, 40, 3, seed=2 * repetition + 1)
        found = likelihood_ratio_tests(inside, outside, confidence=0.9, curve=curve).set_curve
        assert found is not None
        wrong += found.exceeded
    assert wrong / 200 <= 0.1


def test_the_ceiling_is_what_a_perfect_attack_would_prove() -> None:
    tests = likelihood_ratio_tests(losses(0.0, 40, 2), losses(0.0, 40, 2, seed=1), confidence=0.95)
    assert tests.ceiling == pytest.approx(float(epsilon_lower(20, 20, 0, 20, 0.95)))


def test_too_few_seeds_or_other_shapes_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="at least 8 seeds, got 4"):
        likelihood_ratio_tests(losses(0.0, 4, 2), losses(0.0, 4, 2))
    with pytest.raises(SeedscopeError, match="one shape"):
        likelihood_ratio_tests(losses(0.0, 10, 2), losses(0.0, 10, 3))


def test_a_person_of_one_row_is_attacked_as_without_owners() -> None:
    inside, outside = losses(1.0, 100, 6), losses(0.0, 100, 6, seed=1)
    alone, owned = likelihood_ratio_tests(inside, outside), likelihood_ratio_tests(inside, outside, owners=np.arange(6))
    np.testing.assert_array_equal(owned.true_positive_rate, alone.true_positive_rate)
    np.testing.assert_array_equal(owned.epsilon_lower, alone.epsilon_lower)


def test_a_persons_rows_together_tell_as_much_as_their_sum_does() -> None:
    rows, shift = 16, 0.5
    inside, outside = losses(shift, 4000, rows), losses(0.0, 4000, rows, seed=1)
    each = likelihood_ratio_tests(inside, outside).advantage
    together = likelihood_ratio_tests(inside, outside, owners=np.zeros(rows, int)).advantage
    assert together.shape == (1,)
    assert each.max() < 0.3
    assert together[0] == pytest.approx(2 * norm.cdf(shift * np.sqrt(rows) / 2) - 1, abs=0.04)


def test_rows_that_tell_nothing_show_nothing_together() -> None:
    wrong = 0
    for seed in range(60):
        inside, outside = losses(0.0, 60, 12, seed=2 * seed), losses(0.0, 60, 12, seed=2 * seed + 1)
        found = likelihood_ratio_tests(inside, outside, confidence=0.9, owners=np.repeat([0, 1, 2], 4))
        wrong += float(found.set_epsilon_lower) > 0
    assert wrong <= 60 * 0.1 + 8
