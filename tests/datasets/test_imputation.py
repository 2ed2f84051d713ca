"""Empty cells filled by a rule: what they become, who they are learned from, and what that does to a guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import seedscope as ss
from tests.helpers.command_line import run
from tests.helpers.tables import written


def people(rows: int = 80) -> pd.DataFrame:
    """Return people with holes: some ages and some colours are not known."""
    draw = np.random.default_rng(0)
    age = draw.integers(20, 80, rows).astype(float)
    colour = draw.choice(["blue", "green", "red"], rows, p=[0.2, 0.5, 0.3]).astype(object)
    sick = (age + draw.normal(0, 10, rows) > 50).astype(int)
    age[::7], colour[::9] = np.nan, None
    return pd.DataFrame({"age": age, "colour": colour, "dose": draw.normal(5, 2, rows), "sick": sick})


KNOWN: dict[str, Any] = {
    "bounds": {"age": (0, 120), "dose": (0, 20)},
    "levels": {"colour": ["blue", "green", "red"]},
}


def read(tmp_path: Path, **options: Any) -> ss.Dataset:
    """Return the people, read with these options."""
    return ss.read_table(written(tmp_path, people()), target="sick", decimal=".", **options)


def rows_of(data: ss.Dataset) -> np.ndarray:
    """Return all rows' features in the table's order."""
    features = np.concatenate([data.train.features, data.test.features])
    return features[np.argsort(np.concatenate([data.train.rows, data.test.rows]))]


def test_the_middle_is_public_and_the_guarantee_stays_proved(tmp_path: Path) -> None:
    data, table = read(tmp_path, impute="middle", **KNOWN), people()
    holes = table["age"].isna().to_numpy()
    rows = rows_of(data)
    assert len(rows) == len(table)
    np.testing.assert_array_equal(rows[holes, 0], 60.0)
    np.testing.assert_array_equal(rows[~holes, 0], table["age"][~holes])
    nothing = table["colour"].isna().to_numpy()
    np.testing.assert_array_equal(rows[nothing, 1:4], 0.0)
    ensemble = ss.train(data, ss.ObjectivePerturbation(1.0), grid=ss.Grid(seeds=2))
    assert ensemble.guarantee.is_proved


def test_what_is_typical_comes_from_training_rows_and_makes_an_estimate(tmp_path: Path) -> None:
    data, table = read(tmp_path, impute="typical", **KNOWN), people()
    training = table.iloc[np.sort(data.train.rows)]
    known = np.sort(training["age"].dropna().to_numpy())
    median = known[(len(known) - 1) // 2]
    rows, holes = rows_of(data), table["age"].isna().to_numpy()
    np.testing.assert_array_equal(rows[holes, 0], median)
    frequent = training["colour"].value_counts().index[0]
    place = ["blue", "green", "red"].index(frequent)
    np.testing.assert_array_equal(rows[table["colour"].isna().to_numpy()][:, 1 + place], 1.0)
    guarantee = ss.train(data, ss.ObjectivePerturbation(1.0), grid=ss.Grid(seeds=2)).guarantee
    assert not guarantee.is_proved
    assert "the imputed values" in guarantee.reason


def test_a_test_row_changes_nothing_of_what_is_imputed(tmp_path: Path) -> None:
    data, table = read(tmp_path, impute="typical"), people()
    other = table.copy()
    other.loc[data.test.rows, "age"] = other.loc[data.test.rows, "age"] * 0 + 21.0
    again = ss.read_table(written(tmp_path, other, "other.csv"), target="sick", decimal=".", impute="typical")
    holes = table["age"].isna().to_numpy()
    np.testing.assert_array_equal(rows_of(data)[holes, 0], rows_of(again)[holes, 0])


def test_a_table_without_holes_is_the_same_with_a_rule(tmp_path: Path) -> None:
    whole = written(tmp_path, people().dropna(), "whole.csv")
    plain, ruled = (ss.read_table(whole, target="sick", impute=rule) for rule in (None, "typical"))
    assert plain.fingerprint == ruled.fingerprint
    assert plain.learned == ruled.learned


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"impute": "middle"}, "the middle of column 'age' is not known"),
        ({"impute": "mean"}, "rule to impute by 'mean'"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_one_sentence(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ss.SeedscopeError, match=words):
        read(tmp_path, **options)


def test_the_command_imputes_and_says_so(tmp_path: Path) -> None:
    written(tmp_path, people())
    few = ("--epsilon", "4", "--models", "4", "--neighbours", "0", "--jobs", "1")
    done = run("audit", "people.csv", "--target", "sick", "--impute", "typical", *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "empty cells are filled with" in " ".join(done.stderr.split())
    assert "by a rule" in run("audit", "people.csv", "--target", "sick", *few, cwd=tmp_path).stderr
