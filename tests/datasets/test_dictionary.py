"""Ranges and levels that are known without the table; whose rows they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from seedscope.core import SeedscopeError
from seedscope.datasets import Bounded, default_scaling, from_frame, parse_dictionary, read_dictionary
from seedscope.datasets.persons import MOST_ROWS


def people(rows: int = 60) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    ages = draw.integers(20, 80, rows)
    return pd.DataFrame(
        {
            "who": np.arange(rows) // 3,
            "age": ages,
            "colour": np.array(["blue", "green", "red"])[np.arange(rows) % 3],
            "ill": (ages + draw.normal(0, 10, rows) > 50).astype(int),
        }
    )


KNOWN: dict[str, Any] = {"bounds": {"age": (0, 120)}, "levels": {"colour": ("blue", "green", "red", "white")}}


def test_a_dictionary_makes_scaling_and_encoding_public() -> None:
    data = from_frame(people(), target="ill", ignore="who", **KNOWN)
    assert data.learned == ()
    assert data.ranges == ((0.0, 120.0), *((0.0, 1.0),) * 4)
    assert data.feature_names == ("age", "colour=blue", "colour=green", "colour=red", "colour=white")
    assert isinstance(default_scaling(data), Bounded)


def test_without_levels_they_are_learned_and_without_bounds_there_are_no_ranges() -> None:
    data = from_frame(people(), target="ill", ignore="who", bounds={"age": (0, 120)})
    assert data.learned == ("the category levels",)
    assert from_frame(people(), target="ill", ignore="who").ranges is None


def test_a_new_word_changes_no_feature() -> None:
    frame = people()
    usual = from_frame(frame, target="ill", ignore="who", **KNOWN)
    frame.loc[0, "colour"] = "octarine"
    other = from_frame(frame, target="ill", ignore="who", **KNOWN)
    assert other.feature_names == usual.feature_names
    rows = [np.concatenate([one.train.features, one.test.features]) for one in (usual, other)]
    assert (rows[1][:, 1:].sum(1) == 0).sum() == 1


def test_a_declared_column_stays_though_it_is_constant() -> None:
    frame = people().assign(colour="red")
    data = from_frame(frame, target="ill", ignore="who", **KNOWN)
    assert "colour=white" in data.feature_names


def test_bounds_for_some_numbers_need_bounds_for_all() -> None:
    with pytest.raises(SeedscopeError, match="column 'who' has no bounds; give every column of numbers"):
        from_frame(people(), target="ill", numeric="who", **KNOWN)


@pytest.mark.parametrize(
    ("bounds", "levels", "said"),
    [
        (["age:0"], [], "bounds must be COLUMN:LEAST:LARGEST or a .toml file, got 'age:0'"),
        (["age:9:3"], [], "bounds of 'age' must be two finite numbers, the smaller first"),
        (["age:nan:3"], [], "bounds of 'age' must be two finite numbers"),
        ([], ["colour"], "levels must be COLUMN:LEVEL,LEVEL"),
        ([], ["colour:red"], "levels of 'colour' must be two or more different words"),
        (["/no/such.toml"], [], "the data dictionary /no/such.toml cannot be read"),
    ],
)
def test_what_is_no_dictionary_is_refused(bounds: list[str], levels: list[str], said: str) -> None:
    with pytest.raises(SeedscopeError, match=said):
        parse_dictionary(bounds, levels)


def test_a_file_holds_ranges_and_levels(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text('age = [0, 120]\ncolour = ["blue", "red"]\n')
    assert read_dictionary(path) == parse_dictionary(["age:0:120"], ["colour:blue,red"])
    path.write_text("age = ")
    with pytest.raises(SeedscopeError, match="is not TOML"):
        read_dictionary(path)


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(SeedscopeError, match="column with bounds or levels"):
        from_frame(people(), target="ill", bounds={"agee": (0, 1)})


def test_people_are_in_one_part_only_and_their_rows_are_bounded() -> None:
    data = from_frame(people(), target="ill", person="who", rows_per_person=2, **KNOWN)
    assert data.rows_per_person == 2
    assert data.train.persons is not None
    assert data.test.persons is not None
    assert not set(data.train.persons) & set(data.test.persons)
    assert np.bincount(data.train.persons).max() == 2
    assert data.learned == ()


def test_without_a_public_bound_the_largest_number_of_rows_is_learned() -> None:
    data = from_frame(people(), target="ill", person="who", **KNOWN)
    assert data.rows_per_person == 3
    assert data.learned == (MOST_ROWS,)


def test_a_bound_on_rows_needs_to_know_whose_they_are() -> None:
    with pytest.raises(SeedscopeError, match="rows_per_person needs person"):
        from_frame(people(), target="ill", ignore="who", rows_per_person=2)
