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


def encoded_rows(frame: pd.DataFrame, **known: Any) -> np.ndarray:
    """Return a table's encoded rows in the order of the table."""
    data = from_frame(frame, target="ill", ignore="who", **(known or KNOWN))
    order = np.argsort(np.concatenate([data.train.rows, data.test.rows]))
    return np.concatenate([data.train.features, data.test.features])[order]


@pytest.mark.parametrize("spelling", ["Red", " RED", "red "])
def test_one_persons_spelling_of_a_level_changes_nobody_elses_row(spelling: str) -> None:
    frame = people()
    frame["colour"] = ["red", "Red"] * 30
    usual = encoded_rows(frame)
    frame.loc[0, "colour"] = spelling
    np.testing.assert_array_equal(encoded_rows(frame), usual)
    assert (usual[:, 3] == 1).all()


def test_a_word_for_yes_is_read_the_same_whatever_others_say() -> None:
    frame = people().assign(smokes=["yes", "no", "y"] * 20)
    known = KNOWN | {"levels": {**KNOWN["levels"], "smokes": ("no", "yes")}}
    usual = encoded_rows(frame, **known)
    frame.loc[0, "smokes"] = "seldom"
    np.testing.assert_array_equal(encoded_rows(frame, **known)[1:], usual[1:])


def test_declared_levels_of_truth_values_and_codes_are_found() -> None:
    frame = people().assign(smokes=np.arange(60) % 2 == 0, ward=[1, 2, 3] * 20)
    known = KNOWN | {"levels": {**KNOWN["levels"], "smokes": ("False", "True"), "ward": ("1", "2", "3")}}
    data = from_frame(frame, target="ill", ignore="who", **known)
    assert data.feature_names[-4:] == ("smokes=True", "ward=1", "ward=2", "ward=3")
    assert data.features[:, -4:].mean(0) == pytest.approx([0.5, 1 / 3, 1 / 3, 1 / 3], abs=0.1)
    assert data.learned == ()


def test_truth_values_that_are_not_declared_are_learned() -> None:
    frame = people().assign(smokes=np.arange(60) % 2 == 0)
    assert from_frame(frame, target="ill", ignore="who", **KNOWN).learned == ("the category levels",)
    known = KNOWN | {"bounds": {"age": (0, 120), "smokes": (0, 1)}}
    assert from_frame(frame, target="ill", ignore="who", **known).learned == ()


def test_a_column_that_the_rows_leave_out_is_learned_and_one_that_is_named_is_not() -> None:
    frame = people().assign(rare="no")
    assert from_frame(frame, target="ill", ignore="who", **KNOWN).learned == ("the columns left out",)
    assert from_frame(frame, target="ill", ignore=["who", "rare"], **KNOWN).learned == ()


def test_numbers_whose_reading_depends_on_other_rows_are_learned() -> None:
    frame = people().assign(age=[f"{one}.125" for one in people().age])
    assert from_frame(frame, target="ill", ignore="who", **KNOWN).learned == ()
    frame.loc[0, "age"] = "2,5"  # a decimal comma for everybody: 21.125 would become 21125
    assert from_frame(frame, target="ill", ignore="who", **KNOWN).learned == ("the way numbers are written",)
    commas = {"decimal": ","} | KNOWN
    assert from_frame(frame, target="ill", ignore="who", **commas).learned == ()  # by its own cell each
    frame["age"] = [f"{one},5" for one in people().age]
    assert from_frame(frame, target="ill", ignore="who", **KNOWN).learned == ("the way numbers are written",)
    assert from_frame(frame, target="ill", ignore="who", **commas).learned == ()


def test_empty_cells_that_are_filled_by_name_are_not_learned() -> None:
    frame = people().assign(age=[str(one) for one in people().age])
    frame.loc[:4, "age"] = "?"
    assert from_frame(frame, target="ill", ignore="who", fill={"age": 40}, **KNOWN).learned == ()


def test_bounds_of_a_column_of_words_are_refused() -> None:
    known: dict[str, Any] = {"bounds": {"age": (0, 120), "colour": (0, 1)}}
    with pytest.raises(SeedscopeError, match="bounds of 'colour' are for numbers, and the column holds words"):
        from_frame(people(), target="ill", ignore="who", **known)


def test_levels_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="two or more different words"):
        parse_dictionary([], ["colour:red,Red"])
