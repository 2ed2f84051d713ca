"""Logistic regressions that are moved onto our solver are those that scikit-learn fits; others are fitted honestly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import seedscope as ss
from seedscope.core import SeedscopeWarning
from seedscope.integrations import own_audit, transfer
from seedscope.numerics import WeightedProblem

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
EXACT: dict[str, Any] = {"tol": 1e-11, "solver": "newton-cholesky"}
FEW: dict[str, Any] = {
    "seeds": 7, "neighbours": 2, "neighbour_seeds": 8, "resample": "bootstrap", "jobs": 1, "relation": "replace_one"
}  # fmt: skip


def table(rows: int = 120, classes: int = 2) -> tuple[pd.DataFrame, np.ndarray]:
    """Return numbers of very different sizes, one column constant, and labels that depend on them with noise."""
    draw = np.random.default_rng(0)
    X = pd.DataFrame({"a": draw.normal(50, 20, rows), "b": draw.normal(0, 0.01, rows), "c": np.ones(rows)})
    signal = X["a"] / 20 - 2.5 + X["b"] / 0.01 + draw.normal(size=rows)
    return X, np.digitize(signal, np.linspace(-0.5, 0.5, classes - 1) if classes > 2 else [0.0])


def words(audit: Any) -> str:
    """Return how models were trained, as the report says it."""
    return str(audit.levels[0].ensemble.mechanism.words())


def test_weighted_minimisers_are_those_of_a_slow_solver() -> None:
    draw = np.random.default_rng(1)
    rows = np.column_stack([draw.normal(size=(40, 3)), np.ones(40)])
    y = (rows[:, 0] + draw.normal(size=40) > 0).astype(float)
    k, penalties = draw.integers(0, 4, (5, 40)), np.column_stack([draw.uniform(0.1, 2, (5, 3)), np.zeros(5)])
    fast = WeightedProblem(rows, y).minimise(k, penalties)
    for own, penalty, found in zip(k, penalties, fast, strict=True):

        def objective(w: np.ndarray, own: np.ndarray = own, penalty: np.ndarray = penalty) -> float:
            margins = rows @ w
            return float(own @ (np.logaddexp(0, margins) - y * margins) + 0.5 * penalty @ w**2)

        slow = minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-10}).x
        np.testing.assert_allclose(found, slow, atol=1e-5)


MOVED = {
    "alone": LogisticRegression(C=0.5, **EXACT),
    "without an intercept": LogisticRegression(C=0.5, fit_intercept=False, **EXACT),
    "after a scaler": make_pipeline(StandardScaler(), LogisticRegression(**EXACT)),
}


@pytest.mark.parametrize("kind", MOVED)
def test_what_is_moved_scores_as_refits_do(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    X = X if kind == "after a scaler" else X / [20, 0.01, 1]
    ours = ss.audit(MOVED[kind], X, y, **FEW)
    assert "moved onto Seedscope's own solver: the coefficients of one fit agree" in words(ours)
    monkeypatch.setattr(own_audit, "moved", lambda training, rows: (training, transfer.Verdict(False, "refitted")))
    theirs = ss.audit(MOVED[kind], X, y, **FEW)
    scores = [audit.levels[0].ensemble.scores.values for audit in (ours, theirs)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)
    attacked = [audit.levels[0].membership for audit in (ours, theirs)]
    assert attacked[0] is not None
    assert attacked[1] is not None
    np.testing.assert_allclose(attacked[0].true_positive_rate, attacked[1].true_positive_rate, atol=1e-6)
    np.testing.assert_allclose(ours.levels[0].multiplicity.disagreement, theirs.levels[0].multiplicity.disagreement)


KEPT = {
    "there are 3 classes": LogisticRegression(),
    "solver='liblinear' is its own": LogisticRegression(solver="liblinear"),
    "class_weight and warm_start are its own": LogisticRegression(class_weight="balanced"),
    "without a penalty there may be no minimum": LogisticRegression(C=np.inf),
    "what comes before it in its pipeline": make_pipeline(MinMaxScaler(), LogisticRegression()),
    "the order and first weights of its steps are its own": SGDClassifier(loss="log_loss", max_iter=5, tol=None),
}


@pytest.mark.parametrize("reason", KEPT)
def test_whatever_else_is_fitted_honestly_and_the_report_says_why(reason: str) -> None:
    X, y = table(60, 3 if "3 classes" in reason else 2)
    audit = ss.audit(KEPT[reason], X / [20, 0.01, 1], y, seeds=4, neighbours=0, resample="bootstrap", jobs=1)
    assert f"fitted again for every seed and data set: {reason}" in words(audit)


def test_networks_and_trees_are_fitted_honestly_too() -> None:
    X, y = table(60)
    few: dict[str, Any] = {"seeds": 4, "neighbours": 0, "jobs": 1}
    network = ss.audit(make_pipeline(StandardScaler(), MLPClassifier((3,), max_iter=5)), X, y, **few)
    assert "the order and first weights of its steps are its own" in words(network)
    tree = words(ss.audit(DecisionTreeClassifier(max_features=1), X, y, **few))
    assert tree.endswith("fitted again for every seed and data set")


def test_a_fit_that_stops_early_is_not_what_our_solver_finds() -> None:
    X, y = table()
    audit = ss.audit(LogisticRegression(max_iter=1), X, y, seeds=4, neighbours=0, resample="bootstrap", jobs=1)
    assert "our solver's coefficients differ" in words(audit)


def test_a_sample_of_one_class_fails_as_it_does_in_scikit_learn() -> None:
    X = np.arange(24.0)[:, None]
    y = np.zeros(24, int)
    y[[3, 15, 16, 20]] = 1
    model = LogisticRegression(**EXACT)
    with pytest.warns(SeedscopeWarning, match="left out"):
        audit = ss.audit(model, X, y, seeds=120, neighbours=0, resample="bootstrap", jobs=1)
    assert audit.levels[0].multiplicity.models < 120


def test_a_store_of_moved_fits_resumes_and_says_so_on_the_page(tmp_path: Path) -> None:
    X, y = table()
    model = make_pipeline(StandardScaler(), LogisticRegression(**EXACT))
    first = ss.audit(model, X, y, store=tmp_path / "runs", **FEW | {"neighbours": 0})
    again = ss.audit(model, X, y, store=tmp_path / "runs", **FEW | {"seeds": 9, "neighbours": 0})
    scores = [audit.levels[0].ensemble.scores.values for audit in (first, again)]
    np.testing.assert_array_equal(scores[0], scores[1][:7])
    again.save(tmp_path / "out")
    assert "moved onto Seedscope" in json.dumps(json.loads((tmp_path / "out" / "report.json").read_text()))
