"""Intervals hold the truth as often as they say; tests and ranks equal SciPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from seedscope.core.errors import SeedscopeError
from seedscope.numerics import statistics

PROPORTIONS = [0.0, 1e-3, 0.2, 0.5, 0.93, 1.0]


@pytest.mark.parametrize("trials", [1, 7, 60])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_clopper_pearson_equals_scipys_exact_interval(trials: int, confidence: float) -> None:
    lower, upper = statistics.clopper_pearson(np.arange(trials + 1), trials, confidence)
    for successes in range(trials + 1):
        exact = scipy.stats.binomtest(successes, trials).proportion_ci(confidence, method="exact")
        assert (lower[successes], upper[successes]) == pytest.approx((exact.low, exact.high), abs=1e-12)


@pytest.mark.parametrize("truth", PROPORTIONS)
@pytest.mark.parametrize("side", ["both", "lower", "upper"])
def test_clopper_pearson_covers_every_proportion_exactly_summed_over_outcomes(truth: float, side: Any) -> None:
    counts = np.arange(41)
    lower, upper = statistics.clopper_pearson(counts, 40, 0.9, side)
    covered = (lower <= truth) & (truth <= upper)
    assert scipy.stats.binom.pmf(counts, 40, truth) @ covered >= 0.9


def test_clopper_pearson_keeps_digits_for_many_trials() -> None:
    _, upper = statistics.clopper_pearson(0, 10**9, 0.95, "upper")
    assert upper == pytest.approx(-np.expm1(np.log(0.05) / 1e9), rel=1e-9)  # (1 − p)^n = 0.05


def share_ever_wrong(
    interval: Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]],
    truth: float,
    runs: int = 10_000,
    trials: int = 250,
) -> float:
    """Return how often the truth is outside the interval after any of the trials, over many runs."""
    successes, after = np.meshgrid(np.arange(trials + 1), np.arange(1, trials + 1), indexing="ij")
    lower, upper = interval(np.minimum(successes, after), after, 0.9)
    wrong = (truth < lower) | (truth > upper)
    counts = np.cumsum(np.random.default_rng(3).random((runs, trials)) < truth, axis=1)
    return float(wrong[counts, np.arange(trials)].any(axis=1).mean())


@pytest.mark.parametrize("truth", PROPORTIONS)
def test_confidence_sequence_holds_at_all_times_at_once(truth: float) -> None:
    assert share_ever_wrong(statistics.confidence_sequence, truth) <= 0.1


def test_clopper_pearson_would_not_hold_at_all_times() -> None:
    assert share_ever_wrong(statistics.clopper_pearson, 0.5) > 0.15


@given(st.integers(1, 5000), st.floats(0, 1), st.floats(0.01, 0.999))
def test_confidence_sequence_contains_the_share_and_its_ends_solve_the_equation(
    trials: int, share: float, confidence: float
) -> None:
    successes = round(share * trials)
    lower, upper = statistics.confidence_sequence(successes, trials, confidence)
    assert 0 <= lower <= successes / trials <= upper <= 1

    def log_mixture_ratio(p: float) -> float:
        mixture = scipy.special.betaln(successes + 0.5, trials - successes + 0.5) - np.log(np.pi)
        return float(mixture - successes * np.log(p) - (trials - successes) * np.log1p(-p))

    for end in (lower, upper):
        if 1e-9 < end < 1 - 1e-9:
            assert log_mixture_ratio(float(end)) == pytest.approx(-np.log1p(-confidence), abs=1e-6)


@pytest.mark.parametrize("truth", PROPORTIONS)
def test_hoeffding_margin_covers(truth: float) -> None:
    margin = statistics.hoeffding_margin(50, 0.9)
    counts = np.arange(51)
    assert scipy.stats.binom.pmf(counts, 50, truth) @ (np.abs(counts / 50 - truth) <= margin) >= 0.9


def test_pair_mean_margin_is_that_of_half_as_many_values() -> None:
    assert statistics.pair_mean_margin(101, 0.9, 2.0) == statistics.hoeffding_margin(50, 0.9, 2.0)


def test_mean_interval_covers_normal_values_as_often_as_it_says() -> None:
    values = np.random.default_rng(0).normal(2.0, 3.0, (12, 20_000))
    lower, upper = statistics.mean_interval(values, 0.9)
    assert np.mean((lower <= 2) & (upper >= 2)) == pytest.approx(0.9, abs=0.01)


def test_bootstrap_interval_of_a_median_is_near_the_known_one_and_repeatable() -> None:
    values = np.random.default_rng(0).normal(0, 1, 400)

    def interval(seed: int) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(seed)
        return statistics.bootstrap_interval(values, 0.95, generator, lambda sample: np.median(sample, axis=0))

    lower, upper = interval(1)
    assert upper - lower == pytest.approx(2 * 1.96 * np.sqrt(np.pi / 2 / 400), rel=0.35)
    assert interval(1) == (lower, upper)


def test_paired_t_test_equals_scipys() -> None:
    first, second = np.random.default_rng(1).normal(0, 1, (2, 15, 3))
    expected = scipy.stats.ttest_rel(first, second, alternative="greater")
    t, p = statistics.paired_t_test(first, second)
    np.testing.assert_allclose(t, expected.statistic)
    np.testing.assert_allclose(p, expected.pvalue)


def test_paired_t_test_of_constant_differences_is_certain() -> None:
    rising, equal = (statistics.paired_t_test([1.0, 2.0], other) for other in ([0.0, 1.0], [1.0, 2.0]))
    assert tuple(map(float, rising)) == (np.inf, 0.0)
    assert tuple(map(float, equal)) == (0.0, 0.5)


def test_permutation_test_keeps_its_level_and_finds_a_difference() -> None:
    generator = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 10)
    same = [statistics.permutation_test_of_groups(generator.random(30), codes, generator, 39) for _ in range(400)]
    assert np.mean(np.array(same) <= 0.1) <= 0.1 + 3 * np.sqrt(0.09 / 400)
    different = generator.random(30) + codes
    assert statistics.permutation_test_of_groups(different, codes, generator) == pytest.approx(0.001)


def test_permutation_test_keeps_its_level_where_only_the_spread_differs() -> None:
    generator, codes = np.random.default_rng(1), np.repeat([0, 1], [120, 30])
    spread = np.repeat([0.3, 1.5], [120, 30])
    values = generator.normal(0, spread, (400, 150))
    found = [statistics.permutation_test_of_groups(row, codes, generator, 39) for row in values]
    assert np.mean(np.array(found) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)  # a third without the units


def test_permutation_test_knows_groups_of_one() -> None:
    found = statistics.permutation_test_of_groups([0.0, 0.1, 0.2, 9.0], [0, 0, 0, 1], np.random.default_rng(0))
    assert 0 < found <= 1


def slow_permutation_test(values: np.ndarray, codes: np.ndarray, seed: int, draws: int) -> float:
    """Return the p-value with Welch's statistic written out, one permutation after the other."""
    centred, draw = values - values.mean(), np.random.default_rng(seed)

    def apart(codes: np.ndarray) -> float:
        parts = [centred[codes == code] for code in range(codes.max() + 1) if (codes == code).any()]
        inner = [max(part.var(ddof=1) if len(part) > 1 else centred.var(), 1e-9 * centred.var()) for part in parts]
        weights = np.array(
            [len(part) / one if centred.var() > 0 else len(part) for part, one in zip(parts, inner, strict=True)]
        )
        means = np.array([part.mean() for part in parts])
        return float((weights * (means - (weights * means).sum() / weights.sum()) ** 2).sum())

    observed = apart(codes) * (1 - 1e-9)
    return (1 + sum(apart(draw.permutation(codes)) >= observed for _ in range(draws))) / (1 + draws)


@pytest.mark.parametrize("codes", [np.repeat([0, 1, 2], [20, 9, 1]), np.repeat([0, 2], [10, 20]), np.arange(30) % 2])
@pytest.mark.parametrize("kind", ["numbers", "ties", "constant"])
def test_permutations_together_count_as_one_after_the_other(
    codes: np.ndarray, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = np.random.default_rng(3).normal(size=30)
    values = {"numbers": drawn, "ties": np.round(drawn), "constant": np.ones(30)}[kind]
    slow = slow_permutation_test(values, codes, 5, 99)
    assert statistics.permutation_test_of_groups(values, codes, 5, 99) == slow
    monkeypatch.setattr(statistics, "PERMUTED_TOGETHER", 200)  # six permutations at a time
    assert statistics.permutation_test_of_groups(values, codes, 5, 99) == slow


def slow_empirical_bernstein(values: list[float], confidence: float) -> tuple[float, float]:
    """Return the interval by going through the values one by one, as Theorem 2 is written."""
    log_risk, mean, variance, total, centre, penalty = np.log(2 / (1 - confidence)), 0.5, 0.25, 0.0, 0.0, 0.0
    seen: list[float] = []
    squares = 0.25
    for value in values:
        bet = min(np.sqrt(2 * log_risk / (variance * len(values))), 0.5)
        total, centre = total + bet, centre + bet * value
        penalty += 4 * (value - mean) ** 2 * (-np.log(1 - bet) - bet) / 4
        seen.append(value)
        mean = (0.5 + sum(seen)) / (len(seen) + 1)
        squares += (value - mean) ** 2
        variance = squares / (len(seen) + 1)
    margin = (log_risk + penalty) / total
    return max(0.0, centre / total - margin), min(1.0, centre / total + margin)


def test_empirical_bernstein_is_that_of_one_value_after_another() -> None:
    values = np.random.default_rng(2).beta(2, 5, 60)
    found = statistics.empirical_bernstein(3 * values, 0.9, span=3.0)
    np.testing.assert_allclose(np.array(found) / 3, slow_empirical_bernstein(values.tolist(), 0.9))


@pytest.mark.parametrize("chance", [0.02, 0.5])
def test_empirical_bernstein_covers_at_a_fixed_number_and_at_the_worst_moment(chance: float) -> None:
    values = (np.random.default_rng(3).random((300, 1000)) < chance).astype(float)
    lower, upper = statistics.empirical_bernstein(values, 0.8)
    assert np.mean((lower <= chance) & (chance <= upper)) >= 0.8
    ever = np.zeros(1000, bool)
    for stop in range(10, 301, 10):
        lower, upper = statistics.empirical_bernstein(values[:stop], 0.8, anytime=True)
        ever |= (chance < lower) | (upper < chance)
    assert ever.mean() <= 0.2


def test_empirical_bernstein_is_narrow_where_values_vary_little() -> None:
    values = 0.3 + 0.05 * np.random.default_rng(4).normal(size=2500)
    lower, upper = statistics.empirical_bernstein(values, 0.95)
    assert (upper - lower) / 2 < statistics.hoeffding_margin(2500, 0.95) / 4


def test_permutation_test_of_constant_values_finds_nothing() -> None:
    assert statistics.permutation_test_of_groups(np.ones(6), [0, 0, 0, 1, 1, 1], np.random.default_rng(0)) == 1


def test_spearman_equals_scipys_and_its_interval_covers() -> None:
    generator = np.random.default_rng(5)
    x, y = generator.integers(0, 9, (2, 50))  # ties
    assert statistics.spearman(x, y)[0] == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    correlation, repetitions = 0.6, 4000
    truth = 6 / np.pi * np.arcsin(correlation / 2)
    pairs = generator.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], (repetitions, 60))
    intervals = np.array([statistics.spearman(pair[:, 0], pair[:, 1], 0.9)[1:] for pair in pairs])
    covered = np.mean((intervals[:, 0] <= truth) & (truth <= intervals[:, 1]))
    assert 0.9 - 3 * np.sqrt(0.09 / repetitions) <= covered <= 0.93  # the variance used is a little too large


@given(arrays(float, (3, 9), elements=st.integers(0, 5).map(float)))
def test_mean_ranks_equal_scipys(values: np.ndarray) -> None:
    np.testing.assert_array_equal(statistics.mean_ranks(values), scipy.stats.rankdata(values, axis=-1))


def test_log_mean_exp_is_the_log_of_the_mean() -> None:
    values = np.random.default_rng(0).normal(0, 2, (5, 7))
    np.testing.assert_allclose(statistics.log_mean_exp(values, axis=1), np.log(np.exp(values).mean(axis=1)))
    assert statistics.log_mean_exp([-2000.0, -2000.0]) == -2000


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: statistics.clopper_pearson(5, 4, 0.9), "successes must be"),
        (lambda: statistics.clopper_pearson(0, 0, 0.9), "trials must be"),
        (lambda: statistics.clopper_pearson(1, 4, 1.0), "confidence must be"),
        (lambda: statistics.clopper_pearson(1, 4, 0.9, "upppr"), "upper"),  # type: ignore[arg-type]
        (lambda: statistics.confidence_sequence(-1, 4, 0.9), "successes must be"),
        (lambda: statistics.mean_interval([1.0], 0.9), "at least two"),
        (lambda: statistics.empirical_bernstein([1.5], 0.9), "between 0 and the span"),
        (lambda: statistics.empirical_bernstein([], 0.9), "at least one"),
        (lambda: statistics.paired_t_test([1.0], [1.0]), "at least two"),
        (lambda: statistics.spearman([1, 1, 1, 1], [1, 2, 3, 4]), "differ"),
    ],
)
def test_a_mistake_is_named(call: Callable[..., Any], words: str) -> None:
    with pytest.raises(SeedscopeError, match=words):
        call()
