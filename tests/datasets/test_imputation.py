"""Empty cells filled by a rule: what they become, who they are learned from, and what that does to a guarantee."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seedscope as ss
from seedscope.datasets import Bounded, Imputed, PrivateValues, TypicalValues, Unscaled, read_dictionary, scaling_from
from seedscope.datasets.fill_values import Imputation
from seedscope.datasets.rounded_noise import FINENESS
from seedscope.datasets.tables import from_frame
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


def knife_edge(tmp_path: Path, rows: int = 3000) -> ss.Dataset:
    """Return people of whom the first decides what a third of all cells are filled with: 0 with him, else 1."""
    score = np.full(rows + 20, np.nan)
    score[: rows // 3], score[rows // 3 : rows // 3 * 2] = 0.0, 1.0
    sick = np.where(np.isnan(score), 1, 0)
    sick[rows + 10 :] = 0
    part = np.where(np.arange(rows + 20) < rows, "train", "test")
    table = pd.DataFrame({"score": score, "age": 40.0 + np.arange(rows + 20) % 7, "sick": sick, "part": part})
    known: dict[str, Any] = {"bounds": {"score": (0, 1), "age": (0, 120)}, "decimal": "."}
    path = written(tmp_path, table, "edge.csv")
    return ss.read_table(path, target="sick", test="part", impute="typical", **known)


def slow_minimisers(data: ss.Dataset, gone: int, l2: float) -> np.ndarray:
    """Return the regression's weights without a row, everything filled and scaled by hand on what is left."""
    rows = np.delete(data.train.unfilled, gone, axis=0)
    score = np.sort(rows[:, 0][~np.isnan(rows[:, 0])])
    rows[:, 0] = np.where(np.isnan(rows[:, 0]), score[(len(score) - 1) // 2], rows[:, 0])
    scaled = ss.Bounded((0.0, 0.0), (1.0, 120.0)).fit(data).apply(rows)
    labels = np.delete(data.train.labels, gone)
    padded, weights, divisor = np.column_stack([scaled, np.ones(len(scaled))]), np.zeros(3), len(data.train)
    for _ in range(50):
        chance = 1 / (1 + np.exp(-padded @ weights))
        gradient = padded.T @ (chance - labels) / divisor + l2 * weights
        hessian = (padded * (chance * (1 - chance))[:, None]).T @ padded / divisor + l2 * np.eye(3)
        weights = weights - np.linalg.solve(hessian, gradient)
    return weights


def test_neighbours_fill_their_empty_cells_by_their_own_rows(tmp_path: Path) -> None:
    data, mechanism = knife_edge(tmp_path, 120), ss.OutputPerturbation(noise_scale=1e-9, l2=0.01)
    grid = ss.Grid(seeds=1, neighbours=0, people=[0, 60], relation="add_or_remove")
    weights = ss.train(data, mechanism, grid=grid).dataset["weights"].squeeze().values
    np.testing.assert_allclose(weights[1], slow_minimisers(data, 0, 0.01), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weights[2], slow_minimisers(data, 60, 0.01), rtol=1e-4, atol=1e-5)
    moved = np.linalg.norm(weights[1:] - weights[0], axis=1)
    assert moved[0] > 20 * moved[1]  # he alone moves what half of the people are filled with


def test_the_audit_sees_whose_row_decides_what_is_imputed(tmp_path: Path) -> None:
    data = knife_edge(tmp_path)
    grid = ss.Grid(seeds=400, people=[0], relation="replace_one")
    ensemble = ss.train(data, ss.OutputPerturbation(0.2, delta=1e-6, l2=0.2), grid=grid)
    found = ss.audit(ensemble, data=data)
    assert not ensemble.guarantee.is_proved
    assert found.alarms, "an ε that the imputed values break must ring"


def test_private_values_are_the_slow_means_and_modes_with_little_noise(tmp_path: Path) -> None:
    data, table = read(tmp_path, impute="private", **KNOWN), people()
    rule = data.imputation
    assert isinstance(rule, PrivateValues)
    values = rule.values(data.base.unfilled, lambda scale, count: np.zeros(count))
    training = table.iloc[np.sort(data.train.rows)]
    means = {name: training[name].clip(*KNOWN["bounds"][name]).mean() for name in ("age", "dose")}
    assert values[data.feature_names.index("age")] == pytest.approx(means["age"], abs=1e-2)
    assert values[data.feature_names.index("dose")] == pytest.approx(means["dose"], abs=1e-2)
    level = data.feature_names.index(f"colour={training['colour'].value_counts().index[0]}")
    colours = [data.feature_names.index(f"colour={one}") for one in KNOWN["levels"]["colour"]]
    assert values[level] == 1
    assert values[colours].sum() == 1


@given(seed=st.integers(0, 10**6))
def test_no_row_moves_the_private_sums_further_than_their_sensitivity(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rule = PrivateValues(((1, 2, 3), (4,)), (0.0,) * 5, (7.0, 1.0, 1.0, 1.0, 1.0))
    levels = np.eye(3)[draw.integers(0, 3, 6)]
    levels[draw.random(6) < 0.2] = 1.0  # a caller's rows need not have one level each
    rows = np.column_stack([draw.choice([-50, 0, 3, 7, 90], 6), levels, draw.integers(0, 2, 6)])
    rows[draw.random(rows.shape[0]) < 0.4, 1:4] = np.nan
    rows[draw.random(rows.shape[0]) < 0.4, 0] = np.nan
    rows[draw.random(rows.shape[0]) < 0.4, 4] = np.nan
    whole, without = rule.whole_sums(rows[:-1]), rule.whole_sums(rows[:-2])
    replaced = rule.whole_sums(np.concatenate([rows[:-2], rows[-1:]]))
    for other in (without, replaced):
        assert np.linalg.norm(whole - other) <= FINENESS * rule.sensitivity * (1 + 1e-12)


def test_the_sensitivity_of_private_sums_is_reached() -> None:
    rule = PrivateValues(((1, 2, 3),), (0.0,) * 4, (7.0, 1.0, 1.0, 1.0))
    one, other = np.array([[0.0, 1, 0, 0]]), np.array([[7.0, 0, 0, 1]])
    distance = np.linalg.norm(rule.whole_sums(one) - rule.whole_sums(other))
    assert distance == pytest.approx(FINENESS * rule.sensitivity)


def test_private_imputation_is_proved_and_its_price_is_in_the_guarantee(tmp_path: Path) -> None:
    data = read(tmp_path, impute="private", **KNOWN)
    ensemble = ss.train(data, ss.ObjectivePerturbation(1.0), grid=ss.Grid(seeds=3, neighbours=1))
    assert ensemble.guarantee.is_proved
    assert float(ensemble.guarantee.epsilon or 0) == pytest.approx(1.1)
    assert ensemble.guarantee.delta == pytest.approx(1e-6)
    assert scaling_from(ensemble.scaling.describe()) == ensemble.scaling


@pytest.mark.slow
def test_the_audit_of_private_values_stays_below_what_is_proved(tmp_path: Path) -> None:
    table = knife_edge(tmp_path)
    private = PrivateValues((), (0.0, 0.0), (1.0, 120.0), epsilon=0.1, delta=1e-6)
    data = replace(table, imputation=private, learned=())
    grid = ss.Grid(seeds=200, people=[0], relation="replace_one")
    ensemble = ss.train(data, ss.OutputPerturbation(0.2, delta=1e-6, l2=0.2), grid=grid)
    assert ensemble.guarantee.is_proved
    assert not ss.audit(ensemble, data=data).alarms


def test_a_released_model_fills_empty_cells_itself(tmp_path: Path) -> None:
    data = read(tmp_path, impute="private", **KNOWN)
    model = ss.release(data, ss.ObjectivePerturbation(1.0))
    assert model.guarantee.is_proved
    model.save(tmp_path / "model")
    again = ss.load_released(tmp_path / "model")
    empty = np.full((1, len(data.feature_names)), np.nan)
    chances = again.predict_proba(empty)
    assert np.isfinite(chances).all()
    assert model.scaling.fill is not None
    np.testing.assert_array_equal(chances, model.predict_proba(model.scaling.fill[None]))


def test_a_dictionary_declares_values_of_empty_cells_which_are_public(tmp_path: Path) -> None:
    written(tmp_path, people())
    known = "age = { known = [0, 120], fill = 45 }\ndose = [0, 20]\n"
    colours = 'colour = { known = ["blue", "green", "red"], fill = "red" }\n'
    (tmp_path / "known.toml").write_text(known + colours)
    dictionary = read_dictionary(tmp_path / "known.toml")
    arguments = {"bounds": dictionary.bounds, "levels": dictionary.levels, "fill": dictionary.fill}
    data, table = read(tmp_path, **arguments), people()
    rows = rows_of(data)
    np.testing.assert_array_equal(rows[table["age"].isna().to_numpy(), 0], 45.0)
    np.testing.assert_array_equal(
        rows[table["colour"].isna().to_numpy()][:, 1:4], [[0, 0, 1]] * table["colour"].isna().sum()
    )
    assert data.learned == ()
    words = ("--bounds", "known.toml", "--decimal", ".", "--epsilon", "1", "--json")
    done = run("release", "people.csv", "--target", "sick", *words, "--out", "model", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["guarantee"]["epsilon"]["kind"] == "proved"


@pytest.mark.parametrize(
    "entry", ["{ known = [0, 120], fill = 200 }", "{ fill = 3 }", '{ known = ["a", "b"], fill = "c" }']
)
def test_a_declared_value_that_cannot_be_is_refused(tmp_path: Path, entry: str) -> None:
    (tmp_path / "known.toml").write_text(f"age = {entry}\n")
    with pytest.raises(ss.SeedscopeError, match="'age' must be"):
        read_dictionary(tmp_path / "known.toml")


@pytest.mark.parametrize("command", ["release", "audit", "train"])
def test_the_price_of_private_imputation_is_paid_out_of_epsilon(tmp_path: Path, command: str) -> None:
    written(tmp_path, people())
    known = ("--bounds", "age:0:120", "--bounds", "dose:0:20", "--levels", "colour:blue,green,red", "--decimal", ".")
    paid = ("--impute", "private", "--imputation-share", "0.2", "--private-scaling", "0.1", "--epsilon", "2")
    own = {
        "release": ("--out", "model"),
        "audit": ("--models", "4", "--neighbours", "0", "--jobs", "1", "--out", "out"),
        "train": ("--mechanism", "objective", "--seeds", "2", "--jobs", "1"),
    }[command]
    done = run(command, "people.csv", "--target", "sick", *known, *paid, *own, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out/report.json").read_text() if command == "audit" else done.stdout)
    guarantee = found["levels"][0]["guarantee"] if command == "audit" else found["guarantee"]
    assert guarantee["epsilon"]["kind"] == "proved"
    assert 1.9 < guarantee["epsilon"]["value"] <= 2.0 + 1e-9
    assert "private preprocessing" in guarantee["reason"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"impute": "middle"}, "the middle of column 'age' is not known"),
        ({"impute": "private", "bounds": KNOWN["bounds"]}, "bounds of every number and levels of every word"),
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


def unit_rows(rows: int = 60, columns: int = 2) -> ss.Dataset:
    """Return rows in the unit cube whose labels are drawn."""
    draw = np.random.default_rng(0)
    return ss.from_arrays(draw.uniform(size=(rows, columns)), draw.integers(0, 2, rows))


def test_typical_values_given_by_hand_are_learned_too() -> None:
    """Published medians are somebody's own number: no ε that goes with them is proved."""
    scaling = Imputed(TypicalValues(), Bounded((0, 0), (1, 1)))
    found = ss.train(unit_rows(), ss.ObjectivePerturbation(1.0), grid=ss.Grid(seeds=2), scaling=scaling)
    assert found.guarantee.assumes == ("the imputed values",)
    assert found.guarantee.epsilon is not None
    assert found.guarantee.epsilon.kind == "estimate"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda: PrivateValues((), (0,), (1,)), "2 ranges, one for each feature, got 1"),
        (lambda: PrivateValues((), (0, 0), (0, 1)), "its lower end below its upper one"),
        (lambda: PrivateValues((), (0, 0), (math.inf, 1)), "must be finite"),
        (lambda: PrivateValues(((0, 2),), (0, 0), (1, 1)), "places of 2 features"),
        (lambda: TypicalValues(((0, 1), (1,))), "each once"),
    ],
)
def test_a_rule_for_other_columns_is_refused(rule: Callable[[], Imputation], words: str) -> None:
    """One range for 200 columns would have been a sensitivity of 2 where it is 28."""
    with pytest.raises(ss.SeedscopeError, match=words):
        Imputed(rule(), Bounded((0, 0), (1, 1))).fit(unit_rows())


def test_filling_never_loses_the_bound_that_the_proof_uses() -> None:
    data = replace(unit_rows(), norm_bound=1.0)
    with pytest.raises(ss.SeedscopeError, match="keeps no norm bound"):
        Imputed(PrivateValues((), (0, 0), (1, 1)), Unscaled()).fit(data)


def test_with_bounds_a_column_of_truth_values_is_a_number_whatever_its_cells() -> None:
    """Which rule fills a column must not hang on somebody's cell."""
    for cell in (True, 0.5):
        table = pd.DataFrame({"a": pd.Series([cell, *[True, False] * 20], dtype=object), "y": [0, 1] * 20 + [0]})
        found = from_frame(table, target="y", bounds={"a": (0, 1)}, impute="private").imputation
        assert found is not None
        assert found.categories == ()


def test_a_person_of_two_rows_with_two_private_parts_gets_the_delta_that_was_asked_for(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    a = draw.uniform(size=120)
    table = written(tmp_path, {"who": np.arange(120) // 2, "a": a, "y": (a > 0.5).astype(int)})
    options = "--bounds a:0:1 --person who --rows-per-person 2 --delta 1e-5 --private-scaling 0.2 --impute private"
    where = ["--mechanism", "output", "--out", str(tmp_path / "model"), "--json"]
    done = run("release", str(table), "--target", "y", *options.split(), *where)
    found = json.loads(done.stdout)["guarantee"]
    assert found["delta"] == pytest.approx(1e-5)
    assert found["unit"] == "person"
