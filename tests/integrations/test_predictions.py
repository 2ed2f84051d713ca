"""Predictions from elsewhere: the same page from a file, from arrays and from a grid; sentences for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import seedscope as ss
from seedscope.auditing.levels import paired_losses
from seedscope.integrations import read_scores
from seedscope.storage import log_losses
from tests.helpers.command_line import run
from tests.helpers.small_data import table

MODELS, EXAMPLES, TRAINED = 24, 40, 12


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    """Scores of models with and without the first examples, which remember them."""
    draw = np.random.default_rng(0)
    labels = np.arange(EXAMPLES) % 2
    middle = 0.5 + 0.2 * (2 * labels - 1) * draw.random(EXAMPLES)
    scores = np.clip(middle + 0.1 * draw.normal(size=(MODELS, EXAMPLES)), 0, 1)
    without = np.full((MODELS, EXAMPLES), np.nan)
    without[:, :TRAINED] = np.clip(scores[:, :TRAINED] - 0.3 * (2 * labels[:TRAINED] - 1), 0, 1)
    return {"scores": scores, "labels": labels, "without": without, "groups": {"sex": np.arange(EXAMPLES) // 2 % 2}}


def test_a_grids_own_predictions_give_the_grids_own_audit() -> None:
    """The slow way, a grid of models, and the short one, its scores, must agree person by person."""
    grid = ss.train(table(), ss.ObjectivePerturbation(2.0), grid=ss.Grid(seeds=16, neighbours=5))
    test, own = (grid.on(part).isel(init=0) for part in ("test", "neighbour"))
    scores = np.concatenate([one["scores"].sel(neighbour=-1).values for one in (test, own)], 1)
    without = np.full_like(scores, np.nan)
    lone = own["scores"].values
    without[:, test.sizes["example"] :] = lone[:, np.arange(1, 6), np.arange(5)]
    labels = np.concatenate([one["example_label"].values for one in (test, own)])
    short = ss.Ensemble.from_scores(scores, labels, without=without, relation="replace_one")
    for ours, theirs in zip(paired_losses(short), paired_losses(grid), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-6)
    one, other = ss.audit(short).levels[0], ss.audit(grid).levels[0]
    np.testing.assert_array_equal(one.multiplicity.disagreement, other.multiplicity.disagreement)
    assert one.membership is not None
    assert other.membership is not None
    np.testing.assert_array_equal(one.membership.true_positive_rate, other.membership.true_positive_rate)


def test_losses_are_minus_the_logarithm_of_the_true_classs_score() -> None:
    scores = np.array([[[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]])
    np.testing.assert_allclose(log_losses(scores, np.array([2, 0]), 3), -np.log([[0.5, 0.1]]))
    np.testing.assert_allclose(log_losses(np.array([[0.25, 0.25]]), np.array([0, 1]), 2), -np.log([[0.75, 0.25]]))


def test_decisions_of_many_classes_are_audited_like_scores_of_zero_and_one() -> None:
    draw = np.random.default_rng(1)
    labels = np.array(["a", "b", "c"] * 5)
    decided = np.where(draw.random((10, 15)) < 0.7, labels, "b")
    ensemble = ss.Ensemble.from_scores(decided, labels)
    assert ensemble.scores.shape == (10, 1, 1, 15, 3)
    shares = (decided == labels).mean(1)
    np.testing.assert_allclose(ensemble.accuracy(), shares)


def saved(kind: str, folder: Path, given: dict[str, Any]) -> Path:
    """Return a file with the same predictions in one of the formats."""
    path = folder / f"predictions.{kind}"
    if kind == "npz":
        arrays = {name: given[name] for name in ("scores", "labels", "without")}
        np.savez(path, format="seedscope-scores", version=1, **arrays, **{"group: sex": given["groups"]["sex"]})
        return path
    columns = {"id": [f"p{k}" for k in range(EXAMPLES)], "label": given["labels"], "group: sex": given["groups"]["sex"]}
    columns |= {f"score: {k}": one for k, one in enumerate(given["scores"])}
    columns |= {f"without: {k}": one for k, one in enumerate(given["without"])}
    frame = pd.DataFrame(columns | {"format": ["seedscope-scores 1"] * EXAMPLES})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_every_file_format_holds_the_same_ensemble(kind: str, tmp_path: Path, given: dict[str, Any]) -> None:
    read = read_scores(saved(kind, tmp_path, given))
    expected = ss.Ensemble.from_scores(**given)
    for name in ("scores", "losses", "losses_without"):
        np.testing.assert_array_equal(read.dataset[name].values, expected.dataset[name].values)
    assert read.description.data.groups == ("sex",)
    np.testing.assert_array_equal(read.texts("group_0"), expected.texts("group_0"))


def test_the_command_makes_the_whole_report_from_a_file(tmp_path: Path, given: dict[str, Any]) -> None:
    more = ["--json", "--parquet", "--about", "3"]
    done = run("audit", "--scores", str(saved("npz", tmp_path, given)), *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "seedscope-report/report.json").read_text())
    assert report["audited"]["models"] == MODELS
    assert report["levels"][0]["attack_advantage"]["value"] > 0.3
    assert len(pd.read_csv(tmp_path / "seedscope-report/individuals.csv")) == EXAMPLES
    assert len(pd.read_parquet(tmp_path / "seedscope-report/individuals.parquet")) == EXAMPLES
    assert list((tmp_path / "seedscope-report/sheets").iterdir())


Change = Callable[[dict[str, Any]], dict[str, Any]]
WRONG: dict[str, Change] = {
    "probabilities from 0 to 1": lambda one: one | {"scores": 3 * one["scores"]},
    "at least two models": lambda one: one | {"scores": one["scores"][:1], "without": None},
    "same scores: nothing varied": lambda one: one | {"scores": np.tile(one["scores"][:1], (5, 1)), "without": None},
    "scores are of 40 examples, labels of 39": lambda one: one | {"labels": one["labels"][:-1], "without": None},
    "at least two classes": lambda one: one | {"labels": np.zeros(EXAMPLES, int)},
    "the labels have 4 classes": lambda one: one | {"labels": np.arange(EXAMPLES) % 4},
    "without must have the shape of scores": lambda one: one | {"without": one["without"][:-1]},
    "known of every model or of none": lambda one: one | {"without": np.where(one["scores"] > 0.5, 0.5, np.nan)},
    "test examples of two classes": lambda one: one | {"without": one["scores"]},
    "group 'sex' must have a value": lambda one: one | {"groups": {"sex": [1, 2]}},
    "group 'sex' has 40 levels": lambda one: one | {"groups": {"sex": np.arange(EXAMPLES)}},
    "scores of model [3] are not numbers": lambda one: one | {"scores": _holed(one["scores"])},
    "decide for 7, which no label is": lambda one: one | {"scores": np.full((3, EXAMPLES), 7), "without": None},
    "ids must be unique": lambda one: one | {"ids": np.zeros(EXAMPLES)},
}


def _holed(scores: np.ndarray) -> np.ndarray:
    """Return the scores with one that is not a number."""
    holed = scores.copy()
    holed[3, 5] = np.nan
    return holed


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_predictions_are_one_sentence(sentence: str, given: dict[str, Any]) -> None:
    with pytest.raises(ss.SeedscopeError) as raised:
        ss.Ensemble.from_scores(**WRONG[sentence](given))
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_files_that_are_something_else_are_refused_in_one_sentence(tmp_path: Path, given: dict[str, Any]) -> None:
    scores, labels = given["scores"], given["labels"]
    np.savez(tmp_path / "newer.npz", scores=scores, labels=labels, version=2)
    np.savez(tmp_path / "foreign.npz", scores=scores, labels=labels, weights=labels)
    np.savez(tmp_path / "bare.npz", scores=scores)
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "odd.csv").write_text("label,score: a,age\n0,.5,1\n1,.5,2\n")
    sentences = {
        "newer.npz": "reads version 1",
        "foreign.npz": "unknown array in foreign.npz 'weights'",
        "bare.npz": "has no 'labels'",
        "text.npz": "not an .npz file",
        "odd.csv": "unknown column in odd.csv 'age'",
        "absent.npz": "no file",
    }
    for name, sentence in sentences.items():
        done = run("audit", "--scores", name, cwd=tmp_path)
        assert done.returncode == 2, name
        assert sentence in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1
    assert "--target is for data" in run("audit", "--scores", "newer.npz", "--target", "y", cwd=tmp_path).stderr
