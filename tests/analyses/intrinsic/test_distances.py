"""Distances between models, against the slow and obvious way: one pair at a time."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedscope.analyses import intrinsic
from seedscope.core.errors import SeedscopeError
from tests.helpers.present import present


def grid_of_weights(
    seeds: int = 6,
    datasets: int = 5,
    parameters: int = 4,
    seed: int = 0,
    seed_effect: float = 1.0,
    data_effect: float = 0.1,
) -> np.ndarray:
    """Return weights [seed, dataset, parameter] whose seed moves them more than the data, as float32."""
    rng = np.random.default_rng(seed)
    by_seed = seed_effect * rng.normal(size=(seeds, 1, parameters))
    by_data = data_effect * rng.normal(size=(seeds, datasets, parameters))
    return (by_seed + by_data).astype(np.float32)


def pairs_one_by_one(weights: np.ndarray) -> dict[str, list[float]]:
    """Return the five kinds of distances, each pair by itself."""
    w = weights.astype(float)
    seeds, datasets, _ = w.shape

    def distance(r: int, i: int, s: int, j: int) -> float:
        return float(np.linalg.norm(w[r, i] - w[s, j]))

    two_seeds = list(itertools.combinations(range(seeds), 2))
    two_datasets = list(itertools.combinations(range(datasets), 2))
    return {
        "data_strict": [distance(r, 0, r, i) for r in range(seeds) for i in range(1, datasets)],
        "data_all_pairs": [distance(r, i, r, j) for r in range(seeds) for i, j in two_datasets],
        "seed": [distance(r, i, s, i) for r, s in two_seeds for i in range(datasets)],
        "both_strict": [
            distance(r, 0, s, i) for r in range(seeds) for s in range(seeds) if r != s for i in range(1, datasets)
        ],
        "both_all_pairs": [
            distance(r, i, s, j) for r, s in two_seeds for i in range(datasets) for j in range(datasets) if i != j
        ],
    }


@pytest.mark.parametrize("kind", ["data_strict", "data_all_pairs", "seed", "both_strict", "both_all_pairs"])
def test_distances_are_those_of_the_pairs_taken_one_by_one(kind: str) -> None:
    weights = grid_of_weights()
    found, slow = getattr(intrinsic.seed_and_data_distances(weights), kind), np.sort(pairs_one_by_one(weights)[kind])
    np.testing.assert_allclose(found.values, slow, rtol=1e-12)
    assert found.pairs == len(slow)
    np.testing.assert_allclose(
        [found.minimum, found.mean, found.standard_deviation, found.maximum],
        [slow.min(), slow.mean(), slow.std(), slow.max()],
        rtol=1e-12,
    )


def test_extremes_and_moments_stay_exact_when_only_a_few_values_are_kept() -> None:
    weights = grid_of_weights(seeds=12, datasets=9)
    few, all_of_them = (intrinsic.seed_and_data_distances(weights, keep=keep) for keep in (7, 10**6))
    for kind in ("data_strict", "data_all_pairs", "seed", "both_strict", "both_all_pairs"):
        small, full = getattr(few, kind), getattr(all_of_them, kind)
        assert len(small.values) == 7
        assert set(small.values) <= set(full.values)
        assert (small.maximum, small.minimum, small.mean) == (full.maximum, full.minimum, full.mean)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 12), st.integers(1, 6), st.floats(-1e3, 1e3), st.integers(0, 2**31))
def test_pairwise_distances_do_not_depend_on_where_the_origin_is(
    rows: int, columns: int, offset: float, seed: int
) -> None:
    points = np.random.default_rng(seed).normal(size=(rows, columns)) + offset
    slow = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.testing.assert_allclose(intrinsic.pairwise_distances(points), slow, rtol=1e-9, atol=1e-12)


def test_close_pairs_far_from_the_others_keep_their_digits() -> None:
    rng = np.random.default_rng(0)
    pair = rng.normal(size=3) * 1e-7 + np.zeros((2, 3))
    pair[1] += 1e-9
    points = np.concatenate([pair, 1e3 * rng.normal(size=(5, 3))])
    assert intrinsic.pairwise_distances(points)[0, 1] == pytest.approx(np.linalg.norm(pair[0] - pair[1]), rel=1e-3)


def test_identical_neighbours_are_exactly_zero_apart() -> None:
    weights = np.repeat(grid_of_weights(datasets=1) + 100, 4, axis=1)
    found = intrinsic.seed_and_data_distances(weights)
    assert found.data_strict.maximum == found.data_all_pairs.maximum == 0
    assert found.seed.minimum > 0
    assert found.seed_exceeds_data == 1


def test_one_identical_pair_among_others_is_exactly_zero_apart() -> None:
    weights = grid_of_weights(datasets=4)
    weights[:, 3] = weights[:, 1]
    assert intrinsic.data_distances(weights, strict=False).min() == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_the_order_of_seeds_and_of_neighbours_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = grid_of_weights(seed=seed % 1000)
    shuffled = weights[rng.permutation(6)][:, np.r_[0, 1 + rng.permutation(4)]]
    one, other = intrinsic.seed_and_data_distances(weights), intrinsic.seed_and_data_distances(shuffled)
    np.testing.assert_allclose(present(one.both_all_pairs).values, present(other.both_all_pairs).values, rtol=1e-12)
    assert one.data_strict.maximum == pytest.approx(other.data_strict.maximum, rel=1e-14)


def test_seed_distance_of_independent_gaussians_is_that_of_their_difference() -> None:
    sigma, parameters = 0.1, 400
    weights = np.random.default_rng(0).normal(scale=sigma, size=(40, 1, parameters))
    assert intrinsic.seed_distances(weights).mean == pytest.approx(sigma * np.sqrt(2 * parameters), rel=0.01)


def test_two_neighbours_can_be_twice_as_far_apart_as_each_from_the_base() -> None:
    weights = np.zeros((3, 3, 1))
    weights[:, 1], weights[:, 2] = 1.0, -1.0
    found = intrinsic.seed_and_data_distances(weights)
    assert (found.data_strict.maximum, found.data_all_pairs.maximum) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros((2, 3, 4)), "at least 3 seeds, got 2"),
        (np.zeros((3, 1, 4)), "got 1 data set;"),
        (np.zeros((3, 4)), r"\[seed, dataset, parameter\], got the shape \(3, 4\)"),
        (np.where(np.arange(4)[:, None, None] == 2, np.nan, np.zeros((4, 3, 2))), "diverged: seed 2;"),
    ],
)
def test_bad_grids_are_refused_with_the_reason(weights: np.ndarray, message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        intrinsic.seed_and_data_distances(weights)
