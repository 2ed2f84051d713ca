"""Estimators that are moved onto our engine are those that scikit-learn fits; others are fitted honestly."""

from __future__ import annotations

import json
from collections.abc import Iterable
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
from seedscope.integrations import moved_sgd, own_audit, transfer
from seedscope.integrations.moved_training import MovedTraining, Sample, apart
from seedscope.integrations.training import EstimatorTraining, packed
from seedscope.numerics import WeightedProblem, WeightedSoftmax

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


def longer_ones_marked(kinds: Iterable[str], *longer: str) -> list[Any]:
    """Return kinds as parameters; those named by a part of theirs are left to the slow stage."""
    marked = {kind: [pytest.mark.slow] if any(part in kind for part in longer) else [] for kind in kinds}
    return [pytest.param(kind, marks=marks) for kind, marks in marked.items()]


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


def test_weighted_multinomial_minimisers_are_those_of_a_slow_solver() -> None:
    draw = np.random.default_rng(1)
    rows = np.column_stack([draw.normal(size=(40, 3)), np.ones(40)])
    y = np.digitize(rows[:, 0] + draw.normal(size=40), [-0.5, 0.5])
    k, penalties = draw.integers(0, 4, (3, 40)), np.column_stack([draw.uniform(0.1, 2, (3, 3)), np.zeros(3)])
    fast = WeightedSoftmax(rows, y, 3).minimise(k, penalties)
    for own, penalty, found in zip(k, penalties, fast, strict=True):

        def objective(w: np.ndarray, own: np.ndarray = own, penalty: np.ndarray = penalty) -> float:
            logits = rows @ w.reshape(3, 4).T
            losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(40), y]
            return float(own @ losses + 0.5 * (penalty * w.reshape(3, 4) ** 2).sum())

        slow = minimize(objective, np.zeros(12), method="BFGS", options={"gtol": 1e-10}).x.reshape(3, 4)
        np.testing.assert_allclose(found, slow - slow.mean(0), atol=1e-5)


MOVED = {
    "alone": LogisticRegression(C=0.5, **EXACT),
    "without an intercept": LogisticRegression(C=0.5, fit_intercept=False, **EXACT),
    "after a scaler": make_pipeline(StandardScaler(), LogisticRegression(**EXACT)),
    "of 3 classes": LogisticRegression(**EXACT),
    "of 3 classes after a scaler": make_pipeline(StandardScaler(), LogisticRegression(C=3, **EXACT)),
    "by steps": make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.05)),
    "by steps of 3 classes": SGDClassifier(learning_rate="invscaling", eta0=0.1, max_iter=8),
    "a network": make_pipeline(StandardScaler(), MLPClassifier((4,), batch_size=32, max_iter=6)),
    "a network of 3 classes": MLPClassifier((3, 2), solver="sgd", activation="tanh", max_iter=6),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", longer_ones_marked(MOVED, "network", "of 3 classes after", "steps of 3"))
def test_what_is_moved_scores_as_refits_do(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(classes=3 if "3 classes" in kind else 2)
    X = X if hasattr(MOVED[kind], "steps") else X / [20, 0.01, 1]
    ours = ss.audit(MOVED[kind], X, y, **FEW)
    assert "moved onto Seedscope's own engine: the coefficients of one fit agree" in words(ours)
    monkeypatch.setattr(own_audit, "moved", lambda training, rows: (training, transfer.Verdict(False, "refitted")))
    theirs = ss.audit(MOVED[kind], X, y, **FEW)
    scores = [audit.levels[0].ensemble.scores.values for audit in (ours, theirs)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)
    attacked = [audit.levels[0].membership for audit in (ours, theirs)]
    assert attacked[0] is not None
    assert attacked[1] is not None
    np.testing.assert_allclose(attacked[0].true_positive_rate, attacked[1].true_positive_rate, atol=1e-6)
    np.testing.assert_allclose(ours.levels[0].multiplicity.disagreement, theirs.levels[0].multiplicity.disagreement)


class Clipping(StandardScaler):  # type: ignore[misc]
    """A scaler of the user's own that is called as scikit-learn's is, and has no coefficients to compare."""

    def fit(self, X: Any, y: Any = None) -> Clipping:
        self.low_, self.high_ = np.quantile(np.asarray(X, float), [0.1, 0.9], axis=0)
        return self

    def transform(self, X: Any, copy: bool | None = None) -> np.ndarray:
        return np.asarray(np.clip(np.asarray(X, float), self.low_, self.high_))


Clipping.__name__ = "StandardScaler"
KEPT = {
    "the scaler's means, which differ between samples, need an intercept": make_pipeline(
        StandardScaler(), LogisticRegression(fit_intercept=False)
    ),
    "what comes before it in its pipeline is its own": make_pipeline(Clipping(), LogisticRegression()),
    "solver='liblinear' is its own": LogisticRegression(solver="liblinear"),
    "class_weight and warm_start are its own": LogisticRegression(class_weight="balanced"),
    "without a penalty there may be no minimum": LogisticRegression(C=np.inf),
    "what comes before it in its pipeline": make_pipeline(MinMaxScaler(), LogisticRegression()),
    "early_stopping, average, warm_start and class_weight are its own": SGDClassifier(average=True),
    "penalty='l1' is its own": SGDClassifier(penalty="l1"),
    "early_stopping and warm_start are its own": MLPClassifier((3,), max_iter=3, early_stopping=True),
    "solver='lbfgs' is its own": MLPClassifier((3,), max_iter=3, solver="lbfgs"),
}


@pytest.mark.parametrize("reason", KEPT)
def test_whatever_else_is_fitted_honestly_and_the_report_says_why(reason: str) -> None:
    X, y = table(60)
    audit = ss.audit(KEPT[reason], X / [20, 0.01, 1], y, seeds=4, neighbours=0, resample="bootstrap", jobs=1)
    assert f"fitted again for every seed and data set: {reason}" in words(audit)


@pytest.mark.parametrize("model", [SGDClassifier(max_iter=3), MLPClassifier((3,), max_iter=3)])
def test_steps_in_single_precision_are_left_to_scikit_learn(model: Any) -> None:
    X, y = table(60)
    single: list[Any] = [X.astype(np.float32), X.to_numpy(np.float32)]
    for rows in single:
        training = EstimatorTraining(packed(model), rows, y, "none", 0, 4)
        assert "single precision" in transfer.moved(training, np.arange(60))[1].words


def test_regressions_of_many_weights_are_fitted_one_by_one() -> None:
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(60, 70)), np.arange(60) % 3
    audit = ss.audit(LogisticRegression(), X, y, seeds=4, neighbours=0, resample="bootstrap", jobs=1)
    assert "210 weights of 3 classes are found sooner one model at a time" in words(audit)


def test_large_tables_are_left_to_the_loop_of_stochastic_descent() -> None:
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(100, 301)), np.arange(100) % 2
    audit = ss.audit(SGDClassifier(max_iter=5), X, y, seeds=3, neighbours=0, jobs=1)
    assert "fitted again for every seed and data set: on 30,100 cells its own loop is as fast" in words(audit)
    assert "moved onto Seedscope's own engine" in words(
        ss.audit(SGDClassifier(max_iter=5), X[:, :9], y, seeds=3, neighbours=0, jobs=1)
    )


def test_trees_are_fitted_honestly_too() -> None:
    X, y = table(60)
    tree = words(ss.audit(DecisionTreeClassifier(max_features=1), X, y, seeds=4, neighbours=0, jobs=1))
    assert tree.endswith("fitted again for every seed and data set")


STEPS: dict[str, Any] = {
    "hinge": SGDClassifier(),
    "log loss": SGDClassifier(loss="log_loss", learning_rate="invscaling", eta0=0.1),
    "squared hinge": SGDClassifier(loss="squared_hinge", learning_rate="constant", eta0=0.01),
    "modified huber": SGDClassifier(loss="modified_huber", learning_rate="adaptive", eta0=0.05),
    "perceptron, unpenalised": SGDClassifier(loss="perceptron", penalty=None, fit_intercept=False),
    "in the rows' order": SGDClassifier(loss="log_loss", shuffle=False, tol=None, max_iter=5),
    "adam": MLPClassifier((5,), batch_size=16, max_iter=15),
    "adam until it stops": MLPClassifier((3,), learning_rate_init=0.1, tol=0.01, n_iter_no_change=2),
    "momentum, slower": MLPClassifier((4, 3), solver="sgd", learning_rate="invscaling", activation="tanh", max_iter=9),
    "plain, adaptive": MLPClassifier(
        (4,), solver="sgd", learning_rate="adaptive", learning_rate_init=0.3, nesterovs_momentum=False, tol=0.01,
        activation="logistic", n_iter_no_change=1, max_iter=40,
    ),
}  # fmt: skip


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", longer_ones_marked(STEPS, "adam", "momentum"))
def test_steps_on_our_engine_end_at_the_estimators_own_coefficients(kind: str, classes: int) -> None:
    X, y = table(70, classes)
    training = EstimatorTraining(packed(STEPS[kind]), (X / [20, 0.01, 1]).to_numpy(), y, "none", 0, 4)
    ours, verdict = transfer.moved(training, np.arange(0, 70, 2))
    assert verdict.moved, verdict.words
    assert isinstance(ours, MovedTraining)
    assert apart(ours, np.arange(3, 60))[0] < 1e-4


def test_another_order_of_the_examples_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(70)
    training = EstimatorTraining(packed(SGDClassifier()), (X / [20, 0.01, 1]).to_numpy(), y, "none", 0, 4)
    monkeypatch.setattr(moved_sgd, "shuffles", lambda seeds, count: np.tile(np.arange(count)[::-1, None], len(seeds)))
    _, verdict = transfer.moved(training, np.arange(60))
    assert not verdict.moved
    assert "our engine's coefficients differ" in verdict.words


def test_lanes_that_are_taken_again_change_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(50)
    training = EstimatorTraining(packed(SGDClassifier()), (X / [20, 0.01, 1]).to_numpy(), y, "none", 0, 4)
    ours, _ = transfer.moved(training, np.arange(50))
    assert isinstance(ours, MovedTraining)
    together = ours.coefficients([Sample(np.arange(50), np.random.default_rng(seed)) for seed in range(9)])
    monkeypatch.setattr(moved_sgd, "LANES", 4)
    monkeypatch.setattr(moved_sgd, "FEW_LANES", 2)
    lanes = ours.coefficients([Sample(np.arange(50), np.random.default_rng(seed)) for seed in range(9)])
    np.testing.assert_allclose(together, lanes, atol=1e-9)


def test_a_fit_that_stops_early_is_not_what_our_solver_finds() -> None:
    X, y = table()
    audit = ss.audit(LogisticRegression(max_iter=1), X, y, seeds=4, neighbours=0, resample="bootstrap", jobs=1)
    assert "it stops far from where our engine's coefficients are" in words(audit)


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
