"""Random numbers by coordinate."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seedscope.training.streams import SEEDS_PER_BLOCK, gammas, generator, normals, shuffled_batches

SEEDS = np.arange(3 * SEEDS_PER_BLOCK + 5)


@pytest.mark.parametrize("draw", [lambda seeds: normals(0, "n", seeds, 3), lambda seeds: gammas(0, "g", seeds, 2.5)])
class TestDrawsBySeed:
    def test_a_seed_draws_the_same_whichever_others_are_asked_for(self, draw: Callable[..., np.ndarray]) -> None:
        every = draw(SEEDS)
        for some in (SEEDS[:1], SEEDS[-1:], SEEDS[60:70], SEEDS[::-1], np.array([130, 2, 64, 63])):
            np.testing.assert_array_equal(draw(some), every[some])

    def test_growing_leaves_the_first_seeds_as_they_were(self, draw: Callable[..., np.ndarray]) -> None:
        np.testing.assert_array_equal(draw(np.arange(50)), draw(np.arange(100))[:50])

    def test_no_two_seeds_draw_the_same(self, draw: Callable[..., np.ndarray]) -> None:
        values = draw(SEEDS).reshape(len(SEEDS), -1)
        assert len(np.unique(values[:, 0])) == len(SEEDS)


def test_each_purpose_root_seed_and_coordinate_has_its_own_stream() -> None:
    coordinates = [(0, "batches", 0), (0, "batches", 1), (0, "noise", 0), (1, "batches", 0), (2**40, "batches", 0)]
    drawn = [generator(*one).standard_normal(2000) for one in coordinates]
    matrix: np.ndarray = np.asarray(np.corrcoef(drawn))
    correlations = matrix[np.triu_indices(len(drawn), 1)]
    assert np.abs(correlations).max() < 0.1  # 4.5 standard errors


def test_normals_are_standard_normal_and_independent_between_seeds() -> None:
    drawn = normals(7, "noise", np.arange(400), 50)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-3
    between = np.corrcoef(drawn)[np.triu_indices(400, 1)]
    assert abs(between.mean()) < 0.005
    assert between.std() == pytest.approx(1 / np.sqrt(50), rel=0.05)


def test_gammas_have_the_gamma_distribution() -> None:
    assert stats.kstest(gammas(7, "size", np.arange(4000), 6), stats.gamma(6).cdf).pvalue > 1e-3


@settings(max_examples=60, deadline=None)
@given(examples=st.integers(1, 60), batch_size=st.integers(1, 60), steps=st.integers(1, 40))
def test_an_epoch_visits_each_example_at_most_once_in_whole_batches(examples: int, batch_size: int, steps: int) -> None:
    batch_size = min(batch_size, examples)
    batches = shuffled_batches(0, 3, examples, batch_size, steps)
    assert batches.shape == (steps, batch_size)
    assert batches.min() >= 0
    assert batches.max() < examples
    per_epoch = examples // batch_size
    for first in range(0, steps, per_epoch):
        epoch = batches[first : first + per_epoch].ravel()
        assert len(np.unique(epoch)) == len(epoch)


def test_a_whole_epoch_without_remainder_visits_everybody() -> None:
    epochs = shuffled_batches(0, 0, 12, 4, 6).reshape(2, 12)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), [np.arange(12)] * 2)
    assert (epochs[0] != epochs[1]).any()


def test_the_incomplete_batch_leaves_out_others_each_epoch() -> None:
    epochs = shuffled_batches(0, 0, 13, 4, 300).reshape(100, 12)
    left_out = [np.setdiff1d(np.arange(13), epoch)[0] for epoch in epochs]
    assert len(set(left_out)) == 13


def test_more_steps_leave_the_first_steps_as_they_were() -> None:
    np.testing.assert_array_equal(shuffled_batches(5, 2, 30, 7, 9), shuffled_batches(5, 2, 30, 7, 31)[:9])


def test_batches_differ_between_seeds_and_root_seeds() -> None:
    first, second, third = (shuffled_batches(*one, 50, 10, 5) for one in ((0, 0), (0, 1), (1, 0)))
    assert (first != second).any()
    assert (first != third).any()


def test_every_example_is_equally_often_in_every_place_of_an_epoch() -> None:
    first = np.stack([shuffled_batches(1, seed, 10, 5, 1)[0] for seed in range(3000)])
    counts = np.stack([np.bincount(column, minlength=10) for column in first.T])
    assert stats.chisquare(counts, axis=1).pvalue.min() > 1e-4
