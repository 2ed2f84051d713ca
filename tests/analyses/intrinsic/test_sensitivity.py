"""Empirical sensitivity, variability and their growth, on weights whose answer is known."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedscope.analyses import intrinsic
from seedscope.core.errors import SeedscopeError
from tests.helpers.present import present


def random_grid(seed: int, seeds: int = 7, datasets: int = 4, parameters: int = 3) -> np.ndarray:
    """Return weights [seed, dataset, parameter] with both effects."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(seeds, 1, parameters)) + 0.1 * rng.normal(size=(seeds, datasets, parameters))


def test_empirical_sensitivity_is_the_largest_of_the_pairs() -> None:
    weights = random_grid(0)
    found = intrinsic.empirical_sensitivity(weights)
    strict = np.linalg.norm(weights[:, 1:] - weights[:, :1], axis=-1)
    every = np.linalg.norm(weights[:, :, None] - weights[:, None], axis=-1)
    assert found.strict == pytest.approx(strict.max())
    assert found.all_pairs == pytest.approx(every.max())
    np.testing.assert_allclose(found.strict_by_seed, strict.max(axis=1))
    np.testing.assert_allclose(found.strict_by_neighbour, strict.max(axis=0))
    np.testing.assert_allclose(found.all_pairs_by_seed, every.max(axis=(1, 2)))


def test_sensitivity_by_weight_is_the_largest_change_of_that_weight() -> None:
    weights = random_grid(1)
    found = intrinsic.empirical_sensitivity(weights)
    np.testing.assert_allclose(found.strict_by_weight, np.abs(weights[:, 1:] - weights[:, :1]).max(axis=(0, 1)))
    np.testing.assert_allclose(
        found.all_pairs_by_weight, np.abs(weights[:, :, None] - weights[:, None]).max(axis=(0, 1, 2))
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_all_pairs_lie_between_strict_and_twice_strict(seed: int) -> None:
    found = intrinsic.empirical_sensitivity(random_grid(seed))
    assert found.strict <= found.all_pairs * (1 + 1e-12)
    assert found.all_pairs <= 2 * found.strict * (1 + 1e-12)


def test_identical_neighbours_have_zero_sensitivity() -> None:
    found = intrinsic.empirical_sensitivity(np.repeat(random_grid(0, datasets=1), 5, axis=1))
    assert found.strict == found.all_pairs == 0
    assert not found.all_pairs_by_weight.any()


@pytest.mark.parametrize(
    ("draw", "quantile"),
    [
        (lambda rng, n: rng.exponential(size=n), lambda p: -np.log(1 - p)),
        (lambda rng, n: rng.uniform(size=n), lambda p: p),
        (lambda rng, n: rng.beta(1, 3, size=n), lambda p: 1 - (1 - p) ** (1 / 3)),
    ],
    ids=["exponential", "uniform", "ending slowly"],
)
def test_extrapolation_recovers_the_sensitivity_over_all_people(
    draw: Callable[..., Any], quantile: Callable[..., Any]
) -> None:
    people, rng = 5000, np.random.default_rng(0)
    found = [intrinsic.extrapolated_sensitivity(draw(rng, 200), people, draws=2).value for _ in range(200)]
    assert np.median(found) == pytest.approx(quantile(1 - 1 / people), rel=0.15)


def test_extrapolation_is_an_estimate_never_below_what_was_seen() -> None:
    maxima = np.random.default_rng(0).uniform(size=50)
    found = intrinsic.extrapolated_sensitivity(maxima, people=50)
    assert found.kind == "estimate"
    assert maxima.max() <= found.value <= present(found.upper)
    assert maxima.max() <= present(found.lower) <= found.value


def test_extrapolation_of_equal_maxima_is_that_maximum() -> None:
    assert intrinsic.extrapolated_sensitivity(np.full(30, 0.25), people=1000).value == 0.25


def test_extrapolation_needs_twenty_neighbours() -> None:
    with pytest.raises(SeedscopeError, match="at least 20 neighbours, got 19"):
        intrinsic.extrapolated_sensitivity(np.ones(19), people=100)


def test_growth_of_a_maximum_averages_all_subsets() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.0])
    growth = intrinsic.maximum_growth(values, used=[1, 2, 3, 6])
    for m, mean, lower, upper in zip(growth.used, growth.mean, growth.lower, growth.upper, strict=True):
        maxima = [max(subset) for subset in itertools.combinations(values, m)]
        assert mean == pytest.approx(np.mean(maxima))
        assert lower == np.quantile(maxima, 0.05, method="inverted_cdf")
        assert upper == np.quantile(maxima, 0.95, method="inverted_cdf")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=2, max_size=60))
def test_growth_of_a_maximum_rises_to_the_maximum(values: list[float]) -> None:
    growth = intrinsic.maximum_growth(values)
    assert np.all(np.diff(growth.mean) >= -1e-9)
    assert growth.used[-1] == len(values)
    assert growth.mean[-1] == pytest.approx(max(values))


def test_growth_of_half_a_million_pairs_keeps_its_precision() -> None:
    growth = intrinsic.maximum_growth(np.linspace(0, 1, 500_000), used=[1, 10, 1000])
    np.testing.assert_allclose(growth.mean, [1 / 2, 10 / 11, 1000 / 1001], rtol=1e-5)


def test_variability_is_the_standard_deviation_of_the_papers() -> None:
    weights = random_grid(2)
    found = intrinsic.variability(weights)
    for dataset in range(weights.shape[1]):
        deviations = weights[:, dataset] - weights[:, dataset].mean(axis=0)
        assert found.flat[dataset] == pytest.approx(np.std(deviations.ravel()))  # IP1 Alg. 2
        assert found.smallest[dataset] == pytest.approx(np.std(deviations, axis=0).min())  # IP2 Alg. 1
        smallest = np.linalg.eigvalsh(np.cov(deviations.T, bias=True))[0]
        assert present(found.eigen)[dataset] == pytest.approx(np.sqrt(smallest))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 5))
def test_variabilities_are_ordered(seed: int, parameters: int) -> None:
    found = intrinsic.variability(random_grid(seed, seeds=8, parameters=parameters))
    slack = 1 + 1e-9
    assert np.all(present(found.eigen) <= found.smallest * slack)
    assert np.all(found.smallest <= found.flat * slack)
    assert np.all(found.flat <= found.largest * slack)


def test_variability_recovers_the_spread_of_known_gaussians() -> None:
    scales = np.array([0.05, 0.1, 0.2])
    found = intrinsic.variability(np.random.default_rng(0).normal(scale=scales, size=(20_000, 1, 3)))
    np.testing.assert_allclose(found.by_weight[0], scales, rtol=0.02)
    assert found.flat[0] == pytest.approx(np.sqrt(np.mean(scales**2)), rel=0.02)


def test_only_eigen_sees_that_correlated_weights_hide_less() -> None:
    covariance = np.array([[1.0, 0.99], [0.99, 1.0]])
    weights = np.random.default_rng(0).multivariate_normal([0, 0], covariance, size=(20_000, 1))
    found = intrinsic.variability(weights)
    assert found.smallest[0] == pytest.approx(1, rel=0.02)
    assert present(found.eigen)[0] == pytest.approx(0.1, rel=0.02)


def test_eigen_is_not_given_without_more_seeds_than_parameters() -> None:
    assert intrinsic.variability(random_grid(0, seeds=3, parameters=3)).eigen is None
    assert intrinsic.variability(random_grid(0, seeds=4, parameters=3)).eigen is not None


def test_weighted_variability_is_that_of_the_repeated_seeds() -> None:
    weights = random_grid(3)
    counts = np.array([[2, 0, 1, 1, 0, 3, 0], [1, 1, 1, 1, 1, 1, 1]])
    found = intrinsic.resampled_variability(weights, counts / 7)
    for draw, count in enumerate(counts):
        again = intrinsic.variability(np.repeat(weights, count, axis=0))
        assert found.flat[draw] == pytest.approx(again.flat.min())
        assert found.smallest[draw] == pytest.approx(again.smallest.min())
        assert found.largest[draw] == pytest.approx(again.largest.max())
    assert present(found.eigen)[1] == pytest.approx(present(intrinsic.variability(weights).eigen).min())


def test_bootstrap_interval_of_the_flat_variability_covers_the_truth() -> None:
    rng = np.random.default_rng(0)
    covered = []
    for repetition in range(200):
        weights = rng.normal(size=(40, 1, 3))
        drawn = intrinsic.resampled_variability(weights, intrinsic.bootstrap_shares(40, 200, repetition)).flat
        low, high = np.quantile(drawn, (0.025, 0.975))
        estimate = intrinsic.variability(weights).flat[0]
        covered.append(estimate**2 / high <= 1 <= estimate**2 / low)
    assert 0.88 <= np.mean(covered) <= 0.99


def test_growth_of_the_variability_ends_at_the_estimate_and_settles() -> None:
    weights = random_grid(4, seeds=60)
    growth = intrinsic.variability_growth(weights)
    found = intrinsic.variability(weights)
    assert growth["flat"].used[-1] == 60
    assert growth["flat"].mean[-1] == pytest.approx(found.flat.min())
    assert growth["smallest"].mean[-1] == pytest.approx(found.smallest.min())
    width = growth["flat"].upper - growth["flat"].lower
    assert width[0] > 3 * width[-2] > width[-1]


def test_growth_with_people_averages_over_all_choices_of_them() -> None:
    weights = np.random.default_rng(0).normal(size=(3, 5, 2))
    found = intrinsic.sensitivity_growth(weights, draws=4000)
    largest = [[np.linalg.norm(weights[:, i] - weights[:, j], axis=1).max() for j in range(5)] for i in range(5)]
    for place, people in enumerate(found["strict"].used):
        chosen = list(itertools.combinations(range(1, 5), int(people)))
        strict = np.mean([max(largest[0][i] for i in some) for some in chosen])
        pairs = np.mean([max(largest[i][j] for i in (0, *some) for j in (0, *some)) for some in chosen])
        assert found["strict"].mean[place] == pytest.approx(strict)
        assert found["all_pairs"].mean[place] == pytest.approx(pairs, rel=0.01)
    assert found["all_pairs"].mean[-1] == intrinsic.empirical_sensitivity(weights).all_pairs


def test_one_person_who_moves_the_weights_is_in_many_pairs_and_still_one_person() -> None:
    weights = np.zeros((3, 21, 1))
    weights[:, 7] = 1.0  # in 20 of the 210 pairs of data sets, and one of 20 people
    found = intrinsic.sensitivity_growth(weights)["strict"]
    assert found.mean[found.used == 10] == pytest.approx(0.5)


def test_the_largest_of_some_pairs_is_what_drawing_them_many_times_gives() -> None:
    weights = np.random.default_rng(0).standard_t(3, size=(6, 8, 4))
    found = intrinsic.sampled_sensitivity(weights, 20)
    every = intrinsic.data_distances(weights, strict=False).ravel()
    rng = np.random.default_rng(1)
    drawn = np.array([rng.choice(every, 20, replace=False).max() for _ in range(4000)])
    assert found.possible == every.size == 6 * 28
    for quantile, value in ((0.05, found.lower), (0.5, found.median), (0.95, found.upper)):
        assert np.mean(drawn < value) - 0.025 < quantile < np.mean(drawn <= value) + 0.025


def test_the_largest_of_all_pairs_is_the_largest() -> None:
    weights = np.random.default_rng(0).normal(size=(5, 6, 3))
    found = intrinsic.sampled_sensitivity(weights, 5 * 15)
    assert found.lower == found.median == found.upper == found.all_pairs
    assert found.all_pairs == pytest.approx(intrinsic.empirical_sensitivity(weights).all_pairs)
    with pytest.raises(SeedscopeError, match="at most the 75 that there are"):
        intrinsic.sampled_sensitivity(weights, 76)
