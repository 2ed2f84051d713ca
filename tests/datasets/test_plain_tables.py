"""Tables for somebody's own pipeline: every column as it is, whatever was said about it taken into account."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seedscope as ss
from seedscope.datasets import PlainTable, read_frame, read_plain_table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with numbers among words, empty cells, and a test column."""
    words, said = ["x", "1.5", "2"], ["yes", "no", ""]
    rows = [f"{k},{words[k % 3]},{'' if k % 4 == 0 else k},{said[k % 3]},{k % 2},{k % 5 == 0}" for k in range(30)]
    (tmp_path / "people.csv").write_text("\n".join(["age,mixed,dose,note,ill,held", *rows]))
    return tmp_path / "people.csv"


def read(path: Path, **about: Any) -> PlainTable:
    """Return the table with `ill` as its target."""
    return read_plain_table(path, **{"target": "ill"} | about)


def test_columns_have_the_type_of_what_they_hold_and_nothing_is_lost(path: Path) -> None:
    table = read(path, test="held")
    assert [str(table.X[name].dtype) for name in ("age", "dose")] == ["int64", "float64"]
    assert table.X["mixed"].tolist() == ["x", "1.5", "2"] * 10  # numbers among words are no numbers
    assert table.X["dose"].isna().sum() == 8
    assert table.X["note"].isna().sum() == 10
    assert table.y.tolist() == [0, 1] * 15
    assert table.test is not None
    assert np.flatnonzero(table.test).tolist() == [0, 5, 10, 15, 20, 25]
    assert read_frame(path)[0]["mixed"].tolist() == ["x", "1.5", "2"] * 10


def test_what_was_said_of_columns_holds(path: Path) -> None:
    table = read(path, fill={"dose": "7", "note": "none said"}, missing=["x"], ignore=["held"], category=["age"])
    assert table.X["dose"].tolist()[:5] == [7, 1, 2, 3, 7]
    assert table.X["note"].tolist()[:3] == ["yes", "no", "none said"]
    assert table.X["mixed"].isna().sum() == 10
    assert table.X["mixed"].sum() == pytest.approx(35)
    assert table.X["age"].tolist()[:2] == ["0", "1"]
    assert "held" not in table.X
    assert list(read(path, features=["age"]).X) == ["age"]


def test_rows_with_empty_cells_of_used_columns_are_dropped_when_asked(path: Path) -> None:
    assert len(read(path, drop_missing=True, ignore=["note"]).X) == 22
    table = read(path, drop_missing=True, groups=["note"], id="age")
    assert table.ids is not None
    assert len(table.X) == len(table.ids) == len(table.groups["note"]) == 22
    assert table.X.index.tolist() == list(range(22))
    assert "(missing)" in read(path, groups=["note"]).groups["note"]


def test_a_target_of_numbers_is_divided(path: Path) -> None:
    table = read(path, target="age", above=12)
    assert (table.y == "above 12").sum() == 17


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"numeric": ["mixed"]}, "row 0 has 'x'"),
        ({"target": "note"}, r"column 'note' has 10 empty cells; fill them \(fill\)"),
        ({"ignore": ["absent"]}, "unknown column to ignore 'absent'"),
        ({"test": "note"}, "column 'note' has 10 empty cells"),
        ({"test": "age"}, "must say test or train"),
        ({"groups": ["age"]}, "30 levels, at most 20"),
        ({"features": ["ill"]}, "named both as target and as feature"),
        ({"separator": "||"}, "separator must be one character"),
    ],
)
def test_mistakes_are_one_sentence(path: Path, said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ss.SeedscopeError, match=sentence) as raised:
        read(path, **said)
    assert "\n" not in str(raised.value)
