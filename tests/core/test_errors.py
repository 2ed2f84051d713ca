"""The sentence that a user's mistake gets."""

from typing import Any

import numpy as np
import pytest

from seedscope.core.errors import (
    SeedscopeError,
    require,
    require_count,
    require_positive,
    require_probability,
    unknown_name,
)


def test_a_condition_that_fails_anywhere_raises_the_sentence() -> None:
    require(np.array([True, True]), "never seen")
    with pytest.raises(SeedscopeError, match=r"^delta must fit\.$"):
        require(np.array([True, False]), "delta must fit.")


def test_nothing_at_all_is_no_condition_that_holds() -> None:
    require(np.array([]) > 0, "never seen")  # all of no values
    with pytest.raises(SeedscopeError, match=r"^give at least one\.$"):
        require([], "give at least one.")


@pytest.mark.parametrize("bad", [0, -1.0, np.inf, np.nan, [1.0, 0.0]])
def test_positive_means_finite_and_above_zero_everywhere(bad: float | list[float]) -> None:
    require_positive("rate", [1e-300, 1e300])
    with pytest.raises(SeedscopeError, match=r"^rate must be a finite number above 0, got "):
        require_positive("rate", bad)


@pytest.mark.parametrize(("bad", "closed"), [(0.0, False), (1.0, False), (-1e-9, True), (1.5, True), (np.nan, True)])
def test_a_probability_is_inside_its_interval(bad: float, closed: bool) -> None:
    require_probability("delta", 0.5)
    require_probability("delta", [0.0, 1.0], closed=True)
    with pytest.raises(SeedscopeError, match=r"^delta must be in [\[(]0, 1[\])], got "):
        require_probability("delta", bad, closed=closed)


@pytest.mark.parametrize("bad", [0, -3, 1.0, "2", True, None])
def test_a_count_is_a_whole_number(bad: Any) -> None:
    require_count("steps", 1)
    require_count("steps", np.int64(3), at_least=3)
    with pytest.raises(SeedscopeError, match=r"^steps must be a whole number of at least 1, got "):
        require_count("steps", bad)


def test_an_unknown_name_gets_the_nearest_known_one() -> None:
    near = str(unknown_name("column", "agee", ["age", "sex"]))
    far = str(unknown_name("column", "zzz", ["age", "sex"]))
    assert near == "unknown column 'agee'. Did you mean 'age'? Known: age, sex."
    assert far == "unknown column 'zzz'. Known: age, sex."


def test_long_values_are_shortened_to_keep_one_sentence() -> None:
    with pytest.raises(SeedscopeError) as raised:
        require_positive("rate", np.zeros(1000))
    many = str(unknown_name("column", "y" * 5000, (f"column {i}" for i in range(1000))))
    assert len(str(raised.value)) < 200
    assert len(many) < 1000
