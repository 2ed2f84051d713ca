"""Tests of the noise's shape: against a trusted library, in dimensions where that fails, and their rejection rates."""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedscope.analyses import intrinsic
from seedscope.analyses.intrinsic.noise import block_length, null_laplace_statistics
from seedscope.analyses.intrinsic.normality import null_log_excess
from seedscope.core.errors import SeedscopeError

REPETITIONS = 200


def expected_rate(level: float = 0.05, deviations: float = 3.5) -> float:
    """Return the largest share of rejections that a valid test may well show in 200 repetitions."""
    return level + deviations * math.sqrt(level * (1 - level) / REPETITIONS)


@pytest.mark.slow  # only because pingouin brings many packages
@pytest.mark.parametrize(("samples", "dimension"), [(20, 2), (60, 5), (100, 20), (200, 50)])
def test_henze_zirkler_agrees_with_pingouin_where_that_works(samples: int, dimension: int) -> None:
    pingouin = pytest.importorskip("pingouin")
    rng = np.random.default_rng(dimension)
    rows = rng.normal(size=(samples, dimension)) @ rng.normal(size=(dimension, dimension)) + 7
    found, trusted = intrinsic.henze_zirkler(rows), pingouin.multivariate_normality(rows)
    assert found.statistic == pytest.approx(trusted.hz, rel=1e-12)
    assert found.p_value_log_normal == pytest.approx(trusted.pval, rel=1e-5)


def henze_zirkler_in_many_digits(rows: np.ndarray) -> tuple[float, float]:
    """Return the statistic minus 1 and the log-normal p-value, by the textbook formulas in 80 digits."""
    n, d = rows.shape
    covariance = np.cov(rows.T, bias=True)
    deviations = rows - rows.mean(axis=0)
    gram = deviations @ np.linalg.solve(covariance, deviations.T)
    squares = np.diag(gram)
    with mpmath.workdps(80):
        b2 = mpmath.power(mpmath.mpf((2 * d + 1) * n) / 4, mpmath.mpf(2) / (d + 4)) / 2
        pairs = mpmath.fsum(
            mpmath.exp(-b2 / 2 * (squares[j] + squares[k] - 2 * gram[j, k]))
            for j in range(n)
            for k in range(n)
            if j != k
        )
        singles = mpmath.fsum(mpmath.exp(-b2 / (2 * (1 + b2)) * s) for s in squares)
        excess = pairs / n - 2 * (1 + b2) ** (-mpmath.mpf(d) / 2) * singles + n * (1 + 2 * b2) ** (-mpmath.mpf(d) / 2)
        a, w = 1 + 2 * b2, (1 + b2) * (1 + 3 * b2)
        half = -mpmath.mpf(d) / 2
        mean = 1 - a**half * (1 + d * b2 / a + d * (d + 2) * b2**2 / (2 * a**2))
        variance = (
            2 * (1 + 4 * b2) ** half
            + 2 * a ** (-d) * (1 + 2 * d * b2**2 / a**2 + 3 * d * (d + 2) * b2**4 / (4 * a**4))
            - 4 * w**half * (1 + 3 * d * b2**2 / (2 * w) + d * (d + 2) * b2**4 / (2 * w**2))
        )
        spread = mpmath.sqrt(mpmath.log(1 + variance / mean**2))
        z = (mpmath.log(1 + excess) - mpmath.log(mean) + spread**2 / 2) / spread
        scaled = excess * (1 + 2 * b2) ** (mpmath.mpf(d) / 2)
        return float(scaled), float(mpmath.ncdf(-z))


@pytest.mark.parametrize(("samples", "dimension"), [(40, 10), (90, 70), (110, 100)])
def test_henze_zirkler_keeps_its_digits_in_high_dimensions(samples: int, dimension: int) -> None:
    rows = np.random.default_rng(1).normal(size=(samples, dimension))
    found = intrinsic.henze_zirkler(rows)
    scaled, p_value = henze_zirkler_in_many_digits(rows)
    assert found.log_excess == pytest.approx(np.sign(scaled) * np.log1p(abs(scaled)), rel=1e-8)
    assert found.p_value_log_normal == pytest.approx(p_value, rel=1e-5, abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31))
def test_henze_zirkler_does_not_change_under_affine_maps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.laplace(size=(30, 4))
    mapped = rows @ (rng.normal(size=(4, 4)) + 3 * np.eye(4)) + rng.normal(size=4)
    one, other = intrinsic.henze_zirkler(rows), intrinsic.henze_zirkler(mapped)
    assert one.log_excess == pytest.approx(other.log_excess, rel=1e-6, abs=1e-6)
    assert one.p_value == other.p_value


@pytest.mark.slow
def test_p_values_stay_uniform_under_the_null_in_100_dimensions() -> None:
    rng = np.random.default_rng(0)
    found = [intrinsic.henze_zirkler(rng.normal(size=(130, 100))).p_value for _ in range(REPETITIONS)]
    largest_gap = np.abs(np.sort(found) - (np.arange(REPETITIONS) + 0.5) / REPETITIONS).max()
    assert largest_gap < 1.63 / np.sqrt(REPETITIONS)  # Kolmogorov–Smirnov at 1 %


@pytest.mark.parametrize(
    ("draw", "rejected"),
    [
        (lambda rng: rng.normal(size=(100, 3)), False),
        (lambda rng: rng.standard_t(2, size=(100, 3)), True),
        (lambda rng: rng.normal(size=(100, 3)) + 5 * rng.integers(2, size=(100, 1)), True),
    ],
    ids=["gaussian", "heavy-tailed", "bimodal"],
)
def test_rejection_rates_of_both_normality_tests(draw: Callable[..., Any], rejected: bool) -> None:
    rng = np.random.default_rng(3)
    samples = [draw(rng) for _ in range(REPETITIONS)]
    joint = np.mean([intrinsic.henze_zirkler(rows).p_value <= 0.05 for rows in samples])
    by_weight = np.mean([intrinsic.shapiro_wilk(rows).rejected.any() for rows in samples])
    for rate in (joint, by_weight):
        assert rate >= 0.95 if rejected else rate <= expected_rate()


@pytest.mark.parametrize(("law", "rejected"), [("laplace", False), ("normal", True), ("standard_cauchy", True)])
def test_rejection_rates_of_the_laplace_test(law: str, rejected: bool) -> None:
    rng = np.random.default_rng(4)
    samples = getattr(rng, law)(size=(REPETITIONS, 300, 2))
    rate = np.mean([intrinsic.laplace_anderson_darling(rows).rejected.any() for rows in samples])
    assert rate >= 0.95 if rejected else rate <= expected_rate()


def test_laplace_statistic_is_the_textbook_formula() -> None:
    from scipy.stats import laplace

    x = np.sort(np.random.default_rng(0).normal(size=40))
    location = np.median(x)
    law = laplace(location, np.mean(np.abs(x - location)))
    i = np.arange(1, 41)
    slow = -40 - np.mean((2 * i - 1) * (law.logcdf(x) + law.logsf(x[::-1])))
    assert intrinsic.laplace_anderson_darling(x[:, None]).statistics[0] == pytest.approx(slow)


def test_laplace_test_can_reject_each_of_many_weights() -> None:
    rows = np.random.default_rng(0).normal(size=(800, 300))
    assert intrinsic.laplace_anderson_darling(rows).rejected_share > 0.9


def test_laplace_p_values_do_not_depend_on_location_and_scale() -> None:
    rows = np.random.default_rng(0).laplace(size=(50, 3))
    one, other = (intrinsic.laplace_anderson_darling(x).p_values for x in (rows, 5 - 0.01 * rows))
    np.testing.assert_allclose(one, other)


def test_subsets_are_those_of_the_paper_and_corrected() -> None:
    found = intrinsic.henze_zirkler_subsets(np.random.default_rng(0).normal(size=(90, 120)))
    assert len(found.tests) == 2 * (120 // 55 + 1)
    assert {test.dimension for test in found.tests} == {55}
    assert found.p_value == min(1, 6 * min(test.p_value for test in found.tests))
    assert found.p_value_smallest == min(test.p_value_log_normal for test in found.tests)


def test_subsets_find_the_weights_that_are_not_gaussian() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 150))
    rows[:, ::2] += 8 * rng.integers(2, size=(100, 75))
    assert intrinsic.henze_zirkler_subsets(rows, size=5).p_value < 0.05


def test_power_grows_with_samples_and_sizes_too_small_are_not_tested() -> None:
    laplace = intrinsic.henze_zirkler_power([25, 150], [2, 30], repetitions=30)
    assert np.isnan(laplace[0, 1]).all()
    assert laplace[1, 0].mean() < laplace[0, 0].mean()
    for law in ("normal_full", "normal_diagonal"):
        normal = intrinsic.henze_zirkler_power([150], [2], distribution=law, repetitions=60)
        assert 0.3 < normal.mean() < 0.7


def test_null_distributions_are_simulated_once_and_cannot_be_changed() -> None:
    assert null_log_excess(30, 2) is null_log_excess(30, 2)
    with pytest.raises(ValueError, match="read-only"):
        null_laplace_statistics(30, 999)[0] = 1


def test_shapiro_wilk_is_scipy_s_with_bonferroni() -> None:
    from scipy.stats import shapiro

    rows = np.random.default_rng(0).normal(size=(50, 4))
    found = intrinsic.shapiro_wilk(rows, level=0.2)
    np.testing.assert_allclose(found.p_values, [shapiro(column).pvalue for column in rows.T])
    np.testing.assert_array_equal(found.rejected, found.p_values <= 0.05)


@pytest.mark.slow
def test_tail_index_of_gaussians_averages_as_known() -> None:
    rng = np.random.default_rng(0)
    found = [intrinsic.tail_index(rng.normal(size=(800, 50)), gaussian_samples=2).alpha for _ in range(40)]
    assert np.mean(found) == pytest.approx(2.02, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "alpha"), [("standard_cauchy", 1.0), ("standard_normal", 2.0)])
def test_tail_index_recovers_stable_laws(law: str, alpha: float) -> None:
    rng = np.random.default_rng(0)
    found = [intrinsic.tail_index(getattr(rng, law)(size=(900, 3)), gaussian_samples=2).alpha for _ in range(40)]
    assert np.mean(found) == pytest.approx(alpha, rel=0.08)


def test_tail_index_comes_with_that_of_gaussians_of_the_same_covariance() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2)) * [1.0, 100.0]
    found = intrinsic.tail_index(rows)
    assert abs(found.alpha - found.gaussian_mean) < 4 * found.gaussian_deviation


@given(st.integers(4, 3000))
def test_block_length_divides_and_is_at_most_the_root(count: int) -> None:
    length = block_length(count)
    assert length > 1
    assert any(total % length == 0 and length * length <= total for total in range(count, count - 3, -1))


def test_correlations_show_what_is_there() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(2000, 1))
    found = intrinsic.correlations(
        np.concatenate([shared + rng.normal(size=(2000, 2)), rng.normal(size=(2000, 1))], axis=1)
    )
    assert found.largest_absolute == pytest.approx(0.5, abs=0.05)
    assert found.values.shape == (3,)


def test_least_gaussian_weights_come_first_with_their_histograms() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 6))
    rows[:, 4] += 6 * rng.integers(2, size=300)
    rows[:, 2] = 1.0
    first, second = intrinsic.least_gaussian_weights(rows, count=2, bins=20)
    assert first.parameter == 4
    assert second.parameter not in (2, 4)
    assert first.counts.sum() == 300
    assert first.p_value < second.p_value


def test_the_whole_description_of_gaussian_and_of_bimodal_noise() -> None:
    rng = np.random.default_rng(0)
    gaussian = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    assert intrinsic.noise_distribution(gaussian).gaussian_is_plausible
    assert not intrinsic.noise_distribution(gaussian + 20 * rng.integers(2, size=(200, 1))).gaussian_is_plausible


def test_constant_weights_are_left_out_and_named() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 4))
    rows[:, 1] = 0.5
    found = intrinsic.noise_distribution(rows)
    assert found.constant_weights.tolist() == [1]
    assert isinstance(found.normality, intrinsic.HenzeZirkler)
    assert found.normality.dimension == 3
    assert not found.enough_seeds


def test_few_seeds_for_many_weights_are_tested_in_subsets() -> None:
    found = intrinsic.noise_distribution(np.random.default_rng(0).normal(size=(60, 20)))
    assert isinstance(found.normality, intrinsic.HenzeZirklerSubsets)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((10, 9)), "got 10 samples of 9 weights"),
        (np.full((10, 2), np.nan), "must be finite"),
        (np.ones((10, 2)), "constant or linearly dependent"),
        (np.zeros(5), "axes"),
    ],
)
def test_bad_samples_are_refused(rows: np.ndarray, message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        intrinsic.henze_zirkler(rows)


def test_fewer_than_999_draws_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="at least 999, got 99"):
        intrinsic.henze_zirkler(np.eye(9)[:, :2], draws=99)
