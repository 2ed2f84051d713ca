"""Anybody's table: what the encoding does, and a sentence for everything that cannot be encoded."""

from __future__ import annotations

import gzip
import io
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from seedscope.core.errors import SeedscopeError
from seedscope.datasets import from_frame, read_table, separated
from tests.helpers.tables import written


def people(rows: int = 40) -> pd.DataFrame:
    """A small table with one column of every kind."""
    number = np.arange(rows)
    return pd.DataFrame(
        {
            "age": 20 + number,
            "height": 1.5 + number / 100,
            "smoker": number % 3 == 0,
            "colour": np.array(["red", "blue", "green"])[number % 3],
            "sex": np.array(["f", "m"])[number % 2],
            "person": [f"p{one}" for one in number],
            "outcome": np.array(["ill", "well"])[(number // 2) % 2],
        }
    )


def test_every_kind_of_column_is_encoded_as_documented(tmp_path: Path) -> None:
    frame = people()
    data = read_table(written(tmp_path, frame), target="outcome", groups=["sex"], id="person")
    assert data.feature_names == ("age", "height", "smoker", "colour=blue", "colour=green", "colour=red")
    assert data.class_names == ("ill", "well")
    assert data.name == "people"
    assert data.spare == ("test", 0)
    assert data.norm_bound is None
    rows = data.train.rows
    np.testing.assert_array_equal(data.features[:, 0], frame["age"][rows])
    np.testing.assert_array_equal(data.features[:, 2], frame["smoker"][rows].astype(float))
    np.testing.assert_array_equal(data.features[:, 5], (frame["colour"][rows] == "red").astype(float))
    np.testing.assert_array_equal(data.labels, (frame["outcome"][rows] == "well").astype(int))
    np.testing.assert_array_equal(data.groups["sex"], frame["sex"][rows])
    np.testing.assert_array_equal(data.ids, frame["person"][rows])


def test_two_levels_become_one_feature_and_three_become_three() -> None:
    frame = people()[["sex", "colour", "outcome"]]
    assert from_frame(frame, target="outcome").feature_names == ("sex=m", "colour=blue", "colour=green", "colour=red")


def test_groups_are_features_only_when_asked() -> None:
    frame = people().drop(columns="person")
    aside = from_frame(frame, target="outcome", groups="sex")
    inside = from_frame(frame, target="outcome", groups="sex", groups_as_features=True)
    assert "sex=m" not in aside.feature_names
    assert "sex=m" in inside.feature_names
    np.testing.assert_array_equal(aside.groups["sex"], inside.groups["sex"])


def test_the_drawn_test_part_is_scikit_learns_in_the_tables_order() -> None:
    frame = people().drop(columns="person")
    data = from_frame(frame, target="outcome", seed=7)
    labels = (frame["outcome"] == "well").astype(int)
    train, test = train_test_split(np.arange(40), test_size=0.25, stratify=labels, random_state=7)
    np.testing.assert_array_equal(data.train.rows, sorted(train))
    np.testing.assert_array_equal(data.test.rows, sorted(test))
    np.testing.assert_array_equal(data.train.ids, data.train.rows)


@pytest.mark.parametrize(
    ("yes", "no"), [("test", "train"), ("TEST", "Training"), (1, 0), (True, False), ("yes", "no"), (1.0, 0.0)]
)
def test_a_test_column_decides_the_parts(tmp_path: Path, yes: object, no: object) -> None:
    frame = people().drop(columns="person")
    frame["part"] = [yes if row % 4 == 1 else no for row in range(40)]
    data = read_table(written(tmp_path, frame), target="outcome", test="part")
    np.testing.assert_array_equal(data.test.rows, np.arange(1, 40, 4))
    assert len(data.train) == 30
    assert "part" not in " ".join(data.feature_names)


def test_a_table_that_is_read_in_pieces_is_the_same_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only some pieces have a code with a leading zero, a minus zero, an empty cell."""
    frame = people(60).astype(str)
    frame["zip"] = [f"{'0' if row == 50 else '1'}{row % 7}" for row in range(60)]
    frame["2019"] = ["-0.0" if row == 31 else "0.0" if row == 2 else str(row / 8) for row in range(60)]
    frame.loc[[33, 41], "age"] = ""
    path = written(tmp_path, frame)
    call: dict[str, Any] = {"target": "outcome", "groups": ["sex"], "id": "person", "drop_missing": True}
    whole = read_table(path, **call)
    monkeypatch.setattr(separated, "_ROWS_AT_ONCE", 7)
    pieces = read_table(path, **call)
    assert pieces.fingerprint == whole.fingerprint
    assert pieces.reading == whole.reading
    assert {"zip=01", "2019"} <= set(whole.feature_names)


def test_the_parts_of_a_table_are_views_of_one_array() -> None:
    """A copy of a million rows' features would be most of the memory that reading takes."""
    data = from_frame(people(), target="outcome", groups=["sex"], id="person")
    assert data.train.features.base is data.test.features.base is not None
    order = np.concatenate([data.train.rows, data.test.rows])
    ages = np.concatenate([data.train.features, data.test.features])[:, data.feature_names.index("age")]
    np.testing.assert_array_equal(ages, people()["age"].to_numpy()[order])


def test_dropped_rows_leave_the_other_rows_numbers_alone(tmp_path: Path) -> None:
    frame = people().drop(columns="person").astype({"age": float})
    frame.loc[[0, 5], "age"] = np.nan
    frame.loc[7, "colour"] = None
    data = read_table(written(tmp_path, frame), target="outcome", drop_missing=True)
    kept = np.sort(np.concatenate([data.train.rows, data.test.rows]))
    np.testing.assert_array_equal(kept, np.setdiff1d(np.arange(40), [0, 5, 7]))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([2, 10, 2, 10], ("2", "10")),
        ([0.0, 1.0, 0.0, 1.0], ("0", "1")),
        ([True, False, True, False], ("False", "True")),
        (["b", "a", "c", "a"], ("a", "b", "c")),
        (["1", "10", "9", "x"], ("1", "10", "9", "x")),
        ([0.5, 1.5, 0.5, 1.5], ("0.5", "1.5")),
    ],
)
def test_classes_are_numbered_in_order(values: list[object], names: tuple[str, ...]) -> None:
    frame = pd.DataFrame({"x": np.arange(24.0) / 2, "y": values * 6})
    data = from_frame(frame, target="y")
    assert data.class_names == names
    both = np.concatenate([data.train.labels, data.test.labels])
    rows = np.concatenate([data.train.rows, data.test.rows])
    spelled = {str(value): value for value in values} | {
        f"{value:g}": value for value in values if type(value) is float
    }
    assert [spelled[names[label]] for label in both] == [frame["y"][row] for row in rows]


def test_gzip_byte_order_mark_and_spaces_change_nothing(tmp_path: Path) -> None:
    frame = people()
    plain = read_table(written(tmp_path, frame), target="outcome", id="person")
    text = (tmp_path / "people.csv").read_text().replace(",", ", ")
    (tmp_path / "spaced.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    other = read_table(tmp_path / "spaced.csv.gz", target="outcome", id="person")
    assert other.name == "spaced"
    assert other.feature_names == plain.feature_names
    np.testing.assert_array_equal(other.features, plain.features)


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = people()
    frame["colour"] = frame["colour"].astype("category")
    frame["age"] = frame["age"].astype("Int64")
    frame.to_parquet(tmp_path / "people.parquet")
    data = read_table(tmp_path / "people.parquet", target="outcome", groups=["sex"], id="person")
    twin = read_table(written(tmp_path, frame), target="outcome", groups=["sex"], id="person")
    assert data.fingerprint == twin.fingerprint


def test_parquet_without_its_extra_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1....PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SeedscopeError, match=r"needs the parquet extra: pip install 'seedscope\[parquet\]'"):
        read_table(tmp_path / "x.parquet", target="y")


def test_text_stored_without_arrow_is_read_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, people())
    native = read_table(path, target="outcome", id="person")
    with pd.option_context("mode.string_storage", "python"):
        assert read_table(path, target="outcome", id="person").fingerprint == native.fingerprint


def test_a_question_mark_in_text_is_a_level_and_none_is_not_missing(tmp_path: Path) -> None:
    frame = people().drop(columns="person")
    frame["job"] = np.array(["?", "None", "cook", "cook"])[np.arange(40) % 4]
    names = read_table(written(tmp_path, frame), target="outcome").feature_names
    assert {"job=?", "job=None", "job=cook"} <= set(names)


def test_integers_of_any_size_stay_numbers(tmp_path: Path) -> None:
    frame = people().drop(columns="person")
    frame["big"] = [str(10**30 + row * 10**20) for row in range(40)]
    data = read_table(written(tmp_path, frame), target="outcome")
    np.testing.assert_allclose(data.features[:, data.feature_names.index("big")], 1e30, rtol=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(-1e6, 1e6), st.sampled_from(["a", "b", "c d", "é"]), st.booleans(), st.sampled_from(["x", "y"])
        ),
        min_size=16,
        max_size=60,
    )
)
def test_a_table_can_be_read_back_from_its_features(rows: list[tuple[float, str, bool, str]]) -> None:
    frame = pd.DataFrame(rows, columns=["number", "level", "flag", "target"])
    assume(all(frame[column].nunique() > 1 for column in frame) and frame["target"].value_counts().min() > 1)
    path = io.BytesIO(frame.to_csv(index=False).encode())
    data = from_frame(pd.read_csv(path), target="target")
    for part in (data.train, data.test):
        named = dict(zip(data.feature_names, part.features.T, strict=True))
        np.testing.assert_allclose(named["number"], frame["number"][part.rows])
        np.testing.assert_array_equal(named["flag"], frame["flag"][part.rows])
        levels = sorted(frame["level"].unique())
        shown = levels if len(levels) > 2 else levels[1:]
        for level in shown:
            np.testing.assert_array_equal(named[f"level={level}"], frame["level"][part.rows] == level)


def test_a_large_table_keeps_every_row_once() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=20_000), "y": rng.integers(0, 3, 20_000)})
    data = from_frame(frame, target="y")
    assert len(data.test) == math.ceil(20_000 / 4)
    np.testing.assert_array_equal(np.sort(np.concatenate([data.train.rows, data.test.rows])), np.arange(20_000))


# Bad input: one sentence that names what is wrong and how to mend it.


def bad(**columns: object) -> pd.DataFrame:
    """The small table with columns replaced or added."""
    return people().drop(columns="person").assign(**columns)


NUMBERS = [str(one) for one in range(38)]
BAD_TABLES = {
    "unknown target": (bad(), {"target": "outcom"}, r"unknown target 'outcom'\. Did you mean 'outcome'\?"),
    "unknown group": (bad(), {"groups": ["sexx"]}, r"unknown group 'sexx'\. Did you mean 'sex'\?"),
    "unknown id": (bad(), {"id": "nobody"}, r"unknown identifier 'nobody'"),
    "unknown test": (bad(), {"test": "agee"}, r"unknown test column 'agee'\. Did you mean 'age'\?"),
    "two roles": (bad(), {"groups": ["outcome"]}, r"'outcome' is named both as target and as group"),
    "one class": (bad(outcome="ill"), {}, r"target 'outcome' has one class only \('ill'\)"),
    "rare class": (bad(outcome=["odd"] + ["a", "b", "c"] * 13), {}, r"class 'odd' .* has one row only"),
    "regression": (bad(outcome=np.linspace(0, 1, 40)), {}, r"40 different values; is it a regression target\?"),
    "infinite": (bad(height=[1.5, np.inf] * 20), {}, r"column 'height' has an infinite value in row 1"),
    "text in numbers": (bad(age=[*NUMBERS, "old", "older"]), {}, r"'age' holds numbers, but row 38 has 'old' \(and 1"),
    "many groups": (bad(age=np.arange(40)), {"groups": ["age"]}, r"'age' has 40 levels, at most 20"),
    "constant group": (bad(sex="f"), {"groups": ["sex"]}, r"group column 'sex' has the same value"),
    "shared id": (bad(code=[0, *range(39)]), {"id": "code"}, r"'code' must be unique, but '0' is there more than once"),
    "test words": (bad(part="maybe"), {"test": "part"}, r"'part' must say test or train .* got 'maybe'"),
    "all test": (bad(part="test"), {"test": "part"}, r"'part' puts every row into the test part"),
    "all train": (bad(part=0), {"test": "part"}, r"'part' puts every row into the training part"),
    "seed": (bad(), {"seed": -1}, r"seed must be a whole number of at least 0, got -1"),
    "large seed": (bad(), {"seed": 2**32}, r"seed must be below 2\^32"),
}


@pytest.mark.parametrize(("frame", "options", "sentence"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_a_bad_table_ends_in_a_sentence(
    tmp_path: Path, frame: pd.DataFrame, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SeedscopeError, match=sentence) as caught:
        read_table(written(tmp_path, frame), **{"target": "outcome", **options})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_text_of_many_levels_is_refused_with_their_number() -> None:
    frame = pd.DataFrame({"x": [0.5, 1, 2, 4] * 75, "note": [f"a{row % 150}" for row in range(300)], "y": [0, 1] * 150})
    with pytest.raises(SeedscopeError, match=r"'note' is text with 150 different values, at most 100 .* leave it out"):
        from_frame(frame, target="y")


def test_a_question_mark_among_numbers_is_an_empty_cell() -> None:
    frame = bad(age=[*NUMBERS, "?", "5"])
    with pytest.raises(SeedscopeError, match=r"empty cells in column 'age' \(1\)"):
        from_frame(frame, target="outcome")
    assert len(from_frame(frame, target="outcome", drop_missing=True).train) == 29


@pytest.mark.parametrize("value", [3, "red", True, None])
def test_a_column_that_says_nothing_is_left_out(value: object, tmp_path: Path) -> None:
    data = read_table(written(tmp_path, bad(age=value)), target="outcome")
    assert data.reading is not None
    assert data.reading.left_out == ("age",)
    assert "age" not in data.feature_names


def test_empty_cells_are_counted_and_the_remedy_is_named(tmp_path: Path) -> None:
    frame = bad(age=[None] * 12 + list(range(28)), colour=["red", None] * 20, height=[None, *range(39)])
    with pytest.raises(SeedscopeError, match=r"in columns 'age' \(12\), 'height' \(1\); .* leave 12 of 40 rows out"):
        read_table(written(tmp_path, frame.drop(columns="colour")), target="outcome")


def test_nothing_left_after_dropping_is_an_error() -> None:
    frame = bad(age=[None, 1, None, 2] * 10, height=[1, None, 2, None] * 10)
    with pytest.raises(SeedscopeError, match="every row has an empty cell"):
        from_frame(frame, target="outcome", drop_missing=True)


def test_a_class_only_in_the_test_part_is_refused() -> None:
    frame = bad(outcome=["c"] * 4 + ["a", "b"] * 18, part=[1] * 4 + [0] * 36)
    with pytest.raises(SeedscopeError, match="class 'c' is in the test part only"):
        from_frame(frame, target="outcome", test="part")


def test_too_few_rows_say_how_many_are_needed() -> None:
    frame = pd.DataFrame({"x": range(6), "y": [0, 1] * 3})
    with pytest.raises(SeedscopeError, match="needs at least 8 rows for 2 classes, got 6"):
        from_frame(frame, target="y")


def test_a_table_of_target_and_groups_has_nothing_to_learn_from() -> None:
    with pytest.raises(SeedscopeError, match="no column is left to learn from"):
        from_frame(people()[["sex", "outcome"]], target="outcome", groups=["sex"])


def test_cells_that_are_neither_number_nor_text_are_refused() -> None:
    for values in ([[1, 2], [3]] * 20, [b"a", b"b"] * 20, [1 + 2j, 3j] * 20):
        with pytest.raises(SeedscopeError, match="'odd' must hold numbers, text or true/false"):
            from_frame(people().assign(odd=values), target="outcome", id="person")
    data = from_frame(people().assign(odd=pd.date_range("2020-01-01", periods=40)), target="outcome", id="person")
    np.testing.assert_array_equal(data.features[:, data.feature_names.index("odd")], 18262 + data.train.rows)


def test_names_of_any_length_give_short_sentences(tmp_path: Path) -> None:
    long = "x" * 10_000
    cases: list[tuple[pd.DataFrame, dict[str, Any]]] = [
        (bad(**{long: [*NUMBERS, "x", "y"]}), {}),
        (bad(**{long: [None, *range(39)]}), {}),
        (bad(**{long: range(40)}), {"target": "nothing"}),
        (bad(), {"target": long}),
        (bad(outcome=long), {}),
    ]
    for frame, options in cases:
        with pytest.raises(SeedscopeError) as caught:
            read_table(written(tmp_path, frame), **{"target": "outcome", **options})
        assert len(str(caught.value)) < 600


BAD_FILES = {
    "empty": (b"", r"is empty\."),
    "blank": (b"\n\n  \n", r"is empty\."),
    "header only": (b"a,b\n", r"has a header but no rows"),
    "image": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", r"is a binary file, not a table"),
    "broken archive": (b"PK\x03\x04rest", r"is a damaged or locked zip archive; unpack it"),
    "old spreadsheet": (b"\xd0\xcf\x11\xe0rest", r"spreadsheet.*save it as CSV"),
    "document": (b"%PDF-1.7 and so on", r"is a PDF document, not a table; save it as CSV"),
    "damaged gzip": (gzip.compress(b"a,b\n1,2\n")[:-6], r"is a damaged gzip file"),
    "twice": (b"a,b,a\n1,2,3\n", r"has more than one column named 'a'"),
    "spaces": (b"a,b, a\n1,2,3\n", r"has more than one column named 'a'"),
    "one column": (b"a\n1\n2\n", r"has one column only"),
    "long row": (b"a,b\n1,2\n1,2,3\n", r"line 3 has 3 cells where 2 were expected"),
    "long rows": (b"a,b\n1,2,3\n1,2,3\n", r"line 2 has 3 cells where 2 were expected"),
    "open quote": (b'a,b\n1,"2\n3,4\n', r"a quotation mark near line 2 is never closed"),
    "damaged parquet": (b"PAR1 and then nothing", r"is not a readable Parquet file"),
}


@pytest.mark.parametrize(("content", "sentence"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_file_that_is_no_table_ends_in_a_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(SeedscopeError, match=sentence) as caught:
        read_table(path, target="b")
    assert "\n" not in str(caught.value)


def test_a_missing_file_a_folder_and_a_forbidden_file_end_in_sentences(tmp_path: Path) -> None:
    for path, sentence in (
        (tmp_path / "no.csv", r"no\.csv' does not exist"),
        (tmp_path, r"is a folder"),
        (tmp_path / ("n" * 5_000), r"cannot be read"),
        (Path("a\0b"), r"cannot be read"),
    ):
        with pytest.raises(SeedscopeError, match=sentence) as caught:
            read_table(path, target="b")
        assert len(str(caught.value)) < 400
