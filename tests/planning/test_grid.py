"""Coordinates of a grid, checkpoints, and the chunks that cover it."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedscope.core.errors import SeedscopeError
from seedscope.core.relations import BASE
from seedscope.planning.chunks import ChunkShape
from seedscope.planning.grid import Grid


def test_the_base_comes_first_then_the_people_asked_about_then_drawn_rows() -> None:
    rows = Grid(neighbours=5, people=[7, 2]).neighbour_rows(20)
    np.testing.assert_array_equal(rows[:3], [BASE, 7, 2])
    assert len(rows) == 8


def test_drawn_neighbours_are_different_rows() -> None:
    rows = Grid(neighbours=50).neighbour_rows(50)
    np.testing.assert_array_equal(np.sort(rows), np.arange(-1, 50))


def test_more_neighbours_keep_those_that_exist() -> None:
    few, many = (Grid(neighbours=count).neighbour_rows(200) for count in (10, 60))
    np.testing.assert_array_equal(few, many[:11])


def test_neighbours_are_drawn_uniformly_from_the_root_seed() -> None:
    drawn = [int(Grid(neighbours=1, root_seed=seed).neighbour_rows(10)[1]) for seed in range(2000)]
    counts = np.bincount(drawn, minlength=10)
    assert counts.min() > 140  # 200 expected, standard deviation 13
    assert counts.max() < 260


@given(last=st.integers(1, 300), count=st.integers(1, 40))
def test_evenly_spaced_checkpoints_ascend_and_end_at_the_last_step(last: int, count: int) -> None:
    steps = Grid(checkpoints=count).steps(last)
    assert steps[-1] == last
    assert steps[0] >= 1
    assert list(steps) == sorted(set(steps))
    assert len(steps) == min(count, last)


def test_checkpoints_given_as_steps_are_kept_and_the_last_step_added() -> None:
    assert Grid(checkpoints=[50, 10, 10]).steps(100) == (10, 50, 100)
    assert Grid(checkpoints=4).steps(100) == (25, 50, 75, 100)


def test_both_initialisations_are_two_coordinates() -> None:
    assert Grid(init="both").inits == ("fixed", "varied")
    assert Grid(init="fixed").inits == ("fixed",)


def test_numpy_numbers_are_as_good_as_python_numbers() -> None:
    three, two, people = (cast(Any, value) for value in (np.int64(3), np.int32(2), np.array([4])))
    assert Grid(seeds=three, checkpoints=two, people=people) == Grid(3, checkpoints=2, people=(4,))
    assert all(type(value) is int for value in (Grid(three).seeds, Grid(checkpoints=two).checkpoints))


@given(
    seeds=st.integers(1, 30),
    neighbours=st.integers(1, 30),
    shape=st.builds(ChunkShape, st.integers(1, 12), st.integers(1, 12)),
)
def test_chunks_cover_every_model_exactly_once(seeds: int, neighbours: int, shape: ChunkShape) -> None:
    covered = np.zeros((seeds, neighbours), int)
    chunks = list(shape.chunks(seeds, neighbours))
    for chunk in chunks:
        covered[shape.seed_slice(chunk, seeds), shape.neighbour_slice(chunk, neighbours)] += 1
    assert (covered == 1).all()
    assert len(chunks) == shape.count(seeds, neighbours)
    assert len({chunk.name for chunk in chunks}) == len(chunks)


@given(seeds=st.integers(1, 20), more=st.integers(0, 20), shape=st.builds(ChunkShape, st.integers(1, 9), st.just(4)))
def test_a_larger_grid_has_the_chunks_of_the_smaller_one(seeds: int, more: int, shape: ChunkShape) -> None:
    assert set(shape.chunks(seeds, 5)) <= set(shape.chunks(seeds + more, 9))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seeds": 0}, "seeds must be a whole number of at least 1, got 0"),
        ({"seeds": 2.0}, "seeds must be a whole number"),
        ({"neighbours": -1}, "neighbours must be a whole number of at least 0"),
        ({"root_seed": -1}, "root_seed must be a whole number"),
        ({"root_seed": 2**31}, "root_seed must be below 2³¹"),
        ({"init": "random"}, "init must be 'fixed', 'varied' or 'both', got 'random'"),
        ({"relation": "replace"}, "relation must be one of"),
        ({"people": [1, 1]}, "people must be different rows"),
        ({"people": [1.5]}, "people must be whole numbers"),
        ({"people": "ab"}, "people must be whole numbers"),
        ({"people": 3}, "people must be whole numbers"),
        ({"checkpoints": [1.5]}, "checkpoints must be whole numbers"),
        ({"checkpoints": "all"}, "checkpoints must be whole numbers"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SeedscopeError, match=sentence):
        Grid(**arguments)


@pytest.mark.parametrize("checkpoints", [0, -2, [101], [-1]])
def test_checkpoints_outside_the_training_are_refused(checkpoints: int | list[int]) -> None:
    with pytest.raises(SeedscopeError, match="checkpoints must be"):
        Grid(checkpoints=checkpoints).steps(100)


@pytest.mark.parametrize("people", [[-1], [10], [3, 99]])
def test_people_outside_the_data_are_refused(people: list[int]) -> None:
    with pytest.raises(SeedscopeError, match="people must be row indices from 0 to 9"):
        Grid(people=people).neighbour_rows(10)


def test_more_neighbours_than_rows_are_refused() -> None:
    with pytest.raises(
        SeedscopeError, match=r"neighbours must be at most 10, got 11: the data have 10 training rows\."
    ):
        Grid(neighbours=11).neighbour_rows(10)


def test_people_asked_about_are_not_drawn_again() -> None:
    rows = Grid(neighbours=17, people=[7, 2, 11]).neighbour_rows(20)
    assert sorted(rows.tolist()) == list(range(-1, 20))
    with pytest.raises(SeedscopeError, match="neighbours must be at most 17, got 18"):
        Grid(neighbours=18, people=[7, 2, 11]).neighbour_rows(20)
