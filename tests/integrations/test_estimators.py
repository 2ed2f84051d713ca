"""Estimators of many kinds end to end: each seed a fresh clone, resumed to the bit, failures named in a sentence."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import seedscope as ss
from seedscope.core import SeedscopeWarning
from seedscope.integrations.fitted_scores import fitted_scores
from seedscope.integrations.seeding import seeded
from seedscope.integrations.sources import seed_share
from seedscope.training import generator
from tests.helpers.command_line import run
from tests.helpers.tables import patients

TREE = DecisionTreeClassifier(max_features=1, max_depth=3)
FEW: dict[str, Any] = {"seeds": 6, "neighbours": 2, "neighbour_seeds": 8, "jobs": 1}


def people(rows: int = 80) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with text in it, and labels that depend on it with noise."""
    draw = np.random.default_rng(0)
    X = pd.DataFrame(
        {"age": draw.normal(size=rows), "pressure": draw.normal(size=rows), "town": draw.choice(["a", "b"], rows)}
    )
    y = (X["age"] + 0.5 * X["pressure"] + (X["town"] == "a") + draw.normal(size=rows) > 0.5).astype(int)
    return X, y.to_numpy()


def encoded(estimator: Any) -> Any:
    """Return a pipeline that encodes the text and scales the numbers first."""
    return make_pipeline(make_column_transformer((OneHotEncoder(), ["town"]), remainder=StandardScaler()), estimator)


DEPTHS = {"decisiontreeclassifier__max_depth": [1, 2]}
SEVERAL = BaggingClassifier(SVC(C=50.0, gamma=2.0), 3, n_jobs=-1, bootstrap=False, max_samples=0.5)
KINDS: dict[str, Any] = {
    "pipeline": encoded(SGDClassifier()),
    "grid search": GridSearchCV(encoded(TREE), DEPTHS, cv=StratifiedKFold(2, shuffle=True)),
    "calibrated": CalibratedClassifierCV(encoded(TREE), cv=2),
    "voting": encoded(VotingClassifier([("tree", TREE), ("bayes", GaussianNB())])),
    "histogram boosting": encoded(HistGradientBoostingClassifier(max_iter=3, max_features=0.5)),
    "boosting": encoded(GradientBoostingClassifier(n_estimators=3, subsample=0.5)),
    "svm, many cores": encoded(SEVERAL),
    "linear svm": encoded(LinearSVC(dual=True, max_iter=3)),
    "extra trees": encoded(ExtraTreesClassifier(n_estimators=4)),
    "perceptron": encoded(Perceptron()),
    "threshold": FixedThresholdClassifier(encoded(MLPClassifier((3,), max_iter=5)), threshold=0.3),
}  # fmt: skip


QUICK = ("pipeline", "svm, many cores", "threshold")


@pytest.mark.parametrize("kind", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in KINDS])
def test_every_kind_of_estimator_is_audited_with_its_own_decisions(kind: str) -> None:
    X, y = people()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = ss.audit(KINDS[kind], X, y, groups=["town"], **FEW)
    level = audit.levels[0]
    assert level.multiplicity.models == 6
    assert level.membership is not None
    assert len(level.audited) == 2
    assert audit.as_dict()["audited"]["features"] == 3
    assert level.multiplicity.disagreement.max() > 0


def by_hand(estimator: Any, X: Any, y: np.ndarray, seed: int, rows: np.ndarray, probes: np.ndarray) -> np.ndarray:
    """Return the scores of one seed's model in the obvious way."""
    model = seeded(estimator, generator(0, "own model 0", seed)).fit(X.iloc[rows], y[rows])
    return np.asarray(model.predict_proba(X.iloc[probes]))[:, 1]


def test_models_are_those_that_a_plain_loop_fits(tmp_path: Path) -> None:
    X, y = people()
    level = ss.audit(encoded(TREE), X, y, store=tmp_path / "runs", **FEW).levels[0]
    data = level.ensemble.dataset
    train, test = (np.flatnonzero(level.ensemble.texts("person_part") == part) for part in ("train", "test"))
    for seed in (0, 5):
        expected = by_hand(encoded(TREE), X, y, seed, train, test)
        np.testing.assert_allclose(data["scores"].values[seed, 0, 0], expected, atol=1e-6)
    shadows = ss.Ensemble.open(tmp_path / "runs" / "neighbours")
    row = int(shadows.dataset["neighbour"].values[1])
    expected = by_hand(encoded(TREE), X, y, 3, np.delete(train, row), train[[row]])
    np.testing.assert_allclose(shadows.dataset["scores"].values[3, 1, 0, 0], expected[0], atol=1e-6)


class Dies(DecisionTreeClassifier):  # type: ignore[misc]
    """A tree that ends the process the so-and-so-manieth time, as a power cut would."""

    def fit(self, X: Any, y: Any) -> Any:
        count = Path(os.environ["FITS"])
        done = int(count.read_text()) if count.exists() else 0
        if done == int(os.environ["LAST"]):
            raise KeyboardInterrupt
        count.write_text(str(done + 1))
        return super().fit(X, y)


def test_a_stopped_run_goes_on_and_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = people()
    numbers, options = X[["age", "pressure"]], FEW | {"neighbours": 0, "seeds": 40}
    monkeypatch.setenv("FITS", str(tmp_path / "fits"))
    monkeypatch.setenv("LAST", "23")
    estimator = Dies(max_features=1, max_depth=3)
    with pytest.raises(KeyboardInterrupt):
        ss.audit(estimator, numbers, y, store=tmp_path / "stopped", **options)
    monkeypatch.setenv("LAST", "-1")
    (tmp_path / "fits").write_text("0")
    resumed = ss.audit(estimator, numbers, y, store=tmp_path / "stopped", **options)
    assert int((tmp_path / "fits").read_text()) < 42  # two to try, the rest; not all again
    whole = ss.audit(estimator, numbers, y, **options)
    for name in ("scores", "losses"):
        one, other = (audit.levels[0].ensemble.dataset[name].values for audit in (resumed, whole))
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ss.SeedscopeError, match="belongs to another plan"):
        ss.audit(DecisionTreeClassifier(max_features=1), numbers, y, store=tmp_path / "stopped", **options)


def test_more_seeds_later_in_the_same_process_are_trained(tmp_path: Path) -> None:
    X, y = people()
    options = FEW | {"neighbours": 0}
    for seeds in (5, 9):  # the chunk with the last seed is padded, and what trains it is kept in the process
        found = ss.audit(encoded(TREE), X, y, store=tmp_path / "s", **options | {"seeds": seeds})
        assert found.levels[0].multiplicity.models == seeds


class FailsSometimes(DecisionTreeClassifier):  # type: ignore[misc]
    """A tree that fails for some random states."""

    def fit(self, X: Any, y: Any) -> Any:
        if self.random_state % 4 == 0:
            raise ArithmeticError("the matrix is singular")
        return super().fit(X, y)


def test_a_seed_that_fails_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    X, y = people()
    estimator = FailsSometimes(max_features=1)
    with pytest.warns(SeedscopeWarning, match=r"of 30 seeds .*singular") as said:
        audit = ss.audit(estimator, X[["age", "pressure"]], y, seeds=30, neighbours=0, jobs=1, store=tmp_path / "s")
    failed = int(str(said[0].message).split()[0])
    assert audit.levels[0].multiplicity.models == 30 - failed
    assert 0 < failed < 20
    assert ss.audit(tmp_path / "s" / "base").levels[0].multiplicity.models == 30 - failed


@pytest.mark.parametrize("failing", [0, 1])
def test_the_first_seeds_may_fail_too(failing: int) -> None:
    _, y = people()
    number = int(generator(0, "own model 0", failing).integers(2**31 - 1))  # as the function is given it

    def sometimes(indices: np.ndarray, seed: int) -> np.ndarray:
        if seed == number:
            raise ArithmeticError("no memory")
        return np.random.default_rng(seed).random(80)

    with pytest.warns(SeedscopeWarning, match=rf"1 of 8 seeds .*seed {failing}: ArithmeticError: no memory"):
        audit = ss.audit(sometimes, y=y, seeds=8, neighbours=0, jobs=1)
    assert audit.levels[0].multiplicity.models == 7


def test_a_data_set_without_somebody_that_fails_is_named() -> None:
    _, y = people()

    def needs_everybody(indices: np.ndarray, seed: int) -> np.ndarray:
        if len(indices) < 60 and seed % 2:
            raise ValueError("somebody is missing")
        return np.random.default_rng(seed).random(80)

    with pytest.warns(SeedscopeWarning, match=r"seed \d+ without \d+: ValueError: somebody is missing"):
        ss.audit(needs_everybody, y=y, **FEW | {"neighbour_seeds": 12})


def test_nested_estimators_get_random_states_of_their_own_and_one_core() -> None:
    search = KINDS["grid search"]
    one, other = (seeded(search, np.random.default_rng(k)) for k in (0, 1))
    assert one.cv.random_state != other.cv.random_state
    assert search.cv.random_state is None
    state = "estimator__decisiontreeclassifier__random_state"
    assert one.get_params()[state] != other.get_params()[state]
    assert seeded(KINDS["svm, many cores"], np.random.default_rng(0)).steps[-1][1].n_jobs == 1


@pytest.mark.parametrize("kind", ["threshold", "svm, many cores", "pipeline", "boosting", "calibrated"])
def test_scores_decide_as_predict_does(kind: str) -> None:
    X, y = people()
    model = seeded(KINDS[kind], np.random.default_rng(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    scores = fitted_scores(model, X, np.unique(y))
    assert scores.min() >= 0
    assert scores.max() <= 1
    np.testing.assert_array_equal(scores > 0.5, model.predict(X) == 1)


@pytest.mark.parametrize(
    "model", [SVC(), SVC(probability=False, decision_function_shape="ovr"), NearestCentroid(), GaussianNB()]
)
def test_scores_of_many_classes_decide_as_predict_does(model: Any) -> None:
    X, _ = people()
    y = np.array(["low", "mid", "high"])[pd.qcut(X["age"], 3, labels=False)]
    fitted = model.fit(X[["age", "pressure"]], y)
    classes = np.unique(y)
    scores = fitted_scores(fitted, X[["age", "pressure"]], classes)
    assert scores.shape == (len(y), 3)
    np.testing.assert_array_equal(classes[scores.argmax(1)], fitted.predict(X[["age", "pressure"]]))


def test_a_sample_without_a_class_gives_it_no_score() -> None:
    fitted = GaussianNB().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 2, 2])
    scores = fitted_scores(fitted, [[0.0], [3.0]], np.arange(3))
    np.testing.assert_array_equal(scores[:, 1], 0)
    np.testing.assert_array_equal(scores.argmax(1), [0, 2])


@pytest.mark.parametrize("kind", ["array", "sparse", "sparse by cells", "list", "texts"])
def test_rows_and_labels_of_every_kind_give_the_same_audit(kind: str) -> None:
    X, y = people()
    numbers = X[["age", "pressure"]]
    kinds: dict[str, Any] = {"sparse": csr_matrix(numbers), "sparse by cells": coo_array(numbers)}
    rows = (kinds | {"list": numbers.to_numpy().tolist()}).get(kind, numbers.to_numpy())
    labels = np.array(["no", "yes"])[y] if kind == "texts" else y
    one, other = (ss.audit(TREE, *given, **FEW).levels[0] for given in ((rows, labels), (numbers, y)))
    np.testing.assert_array_equal(one.multiplicity.disagreement, other.multiplicity.disagreement)


def test_a_test_part_may_be_given_apart_or_marked() -> None:
    X, y = people()
    rows = X[["age", "pressure"]].to_numpy()
    mark = np.arange(len(y)) % 3 == 0
    apart = ss.audit(
        TREE, rows[~mark], y[~mark], test=(rows[mark], y[mark]), ids=np.arange(len(y))[np.argsort(mark)], **FEW
    )
    marked = ss.audit(TREE, rows, y, test=mark, **FEW)
    assert marked.individuals.query("part == 'test'")["id"].astype(int).tolist() == np.flatnonzero(mark).tolist()
    assert len(apart.individuals) == len(y)
    assert apart.levels[0].accuracies.mean() > 0.4


@pytest.mark.slow
def test_polars_frames_are_taken_too() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    X, y = people()
    one = ss.audit(encoded(TREE), polars.from_pandas(X), polars.Series(y), groups=["town"], **FEW)
    other = ss.audit(encoded(TREE), X, y, groups=["town"], **FEW)
    np.testing.assert_array_equal(one.levels[0].ensemble.scores.values, other.levels[0].ensemble.scores.values)
    pd.testing.assert_frame_equal(one.individuals, other.individuals)
    with pytest.raises(ss.SeedscopeError, match="X has text in 'town'; encode it"):
        ss.audit(TREE, polars.from_pandas(X), y, **FEW)


BOOSTED: dict[str, tuple[str, dict[str, Any]]] = {
    "lightgbm": ("LGBMClassifier", {"n_estimators": 5, "num_leaves": 4, "subsample_freq": 1, "verbose": -1}),
    "xgboost": ("XGBClassifier", {"n_estimators": 5, "max_depth": 2}),
}


@pytest.mark.slow
@pytest.mark.parametrize("library", BOOSTED)
def test_boosting_of_other_libraries_is_audited_as_a_plain_loop_fits_it(library: str) -> None:
    name, settings = BOOSTED[library]
    boosting = getattr(pytest.importorskip(library, reason=f"{library} is not installed"), name)
    X, y = people(200)
    model = encoded(boosting(subsample=0.5, n_jobs=1, **settings))
    level = ss.audit(model, X, y, groups=["town"], **FEW).levels[0]
    train, test = (np.flatnonzero(level.ensemble.texts("person_part") == part) for part in ("train", "test"))
    for seed in (0, 5):
        expected = by_hand(model, X, y, seed, train, test)
        np.testing.assert_allclose(level.ensemble.scores.values[seed, 0, 0], expected, atol=1e-6)
    assert level.multiplicity.disagreement.max() > 0
    assert level.membership is not None


def test_without_random_numbers_the_sample_is_what_decisions_hang_on() -> None:
    X, y = people()
    with pytest.raises(ss.SeedscopeError, match="same predictions for every seed"):
        ss.audit(encoded(LogisticRegression()), X, y, **FEW)
    audit = ss.audit(encoded(LogisticRegression()), X, y, resample="bootstrap", **FEW)
    assert "The sample alone" in audit.findings[0].answer
    assert audit.levels[0].multiplicity.disagreement.max() > 0
    assert audit.as_dict()["relations"][-1]["question"] == "Is it the seed, or the sample?"


def test_what_takes_all_cores_by_itself_is_left_with_one() -> None:
    class Eager(BaseEstimator):  # type: ignore[misc]
        """As LightGBM is: no number of cores means all of them."""

        def __init__(self, n_jobs: int | None = None):
            self.n_jobs = n_jobs

    inside = VotingClassifier([("eager", Eager()), ("tree", TREE)])
    found = seeded(inside, np.random.default_rng(0))
    assert found.get_params()["eager__n_jobs"] == 1
    assert seeded(Eager(), np.random.default_rng(0)).n_jobs == 1
    assert found.n_jobs is None  # scikit-learn's own takes one


def test_the_seeds_share_is_one_without_samples_effect_and_none_without_seeds() -> None:
    draw = np.random.default_rng(0)
    sample, seeds = draw.random((500, 8)), draw.random((2, 500, 8))
    assert float(seed_share(*seeds)) > 0.9
    assert float(seed_share(sample, sample)) == 0.0
    half = seed_share(*(seeds + sample) / 2)
    assert 0.5 < float(half) < 0.8  # 2/3 for a sum of two uniform numbers
    assert half.lower is not None
    assert half.lower < 2 / 3 < (half.upper or 0)


def test_a_function_is_audited_like_an_estimator_that_does_the_same() -> None:
    X, y = people()
    numbers = X[["age", "pressure"]].to_numpy()

    def fitted(indices: np.ndarray, seed: int) -> np.ndarray:
        tree = DecisionTreeClassifier(max_features=1, max_depth=3, random_state=seed).fit(numbers[indices], y[indices])
        return np.asarray(tree.predict_proba(numbers))

    one, other = ss.audit(fitted, y=y, **FEW).levels[0], ss.audit(TREE, numbers, y, **FEW).levels[0]
    np.testing.assert_array_equal(one.multiplicity.disagreement, other.multiplicity.disagreement)
    assert one.label == "fitted"


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_functions_that_read_the_same_are_not_taken_for_each_other(jobs: int) -> None:
    X, y = people()
    numbers = X[["age", "pressure"]].to_numpy()

    def of_depth(depth: int) -> Any:
        def fitted(indices: np.ndarray, seed: int) -> np.ndarray:
            tree = DecisionTreeClassifier(max_features=1, max_depth=depth, random_state=seed)
            return np.asarray(tree.fit(numbers[indices], y[indices]).predict_proba(numbers))

        return fitted

    few: dict[str, Any] = {"seeds": 6, "neighbours": 0, "jobs": jobs}
    found = [ss.audit(of_depth(depth), y=y, **few).levels[0].ensemble.scores.values for depth in (1, 8)]
    deep = ss.audit(DecisionTreeClassifier(max_features=1, max_depth=8), numbers, y, **few).levels[0]
    assert not np.array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[1], deep.ensemble.scores.values)


def test_a_function_that_changes_its_indices_changes_only_its_own() -> None:
    _, y = people()

    def reverses(indices: np.ndarray, seed: int) -> np.ndarray:
        first = indices[0]
        indices[:] = indices[::-1].copy()
        return np.full(len(y), first / len(y))

    with pytest.raises(ss.SeedscopeError, match="same predictions for every seed"):
        ss.audit(reverses, y=y, **FEW)


class NoPredict(BaseEstimator):  # type: ignore[misc]
    """Something that only fits."""

    def fit(self, X: Any, y: Any) -> NoPredict:
        return self


class Odd(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that predicts what no label is."""

    def fit(self, X: Any, y: Any) -> Odd:
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), 7)


def test_wrong_models_and_data_are_one_sentence() -> None:
    X, y = people()
    numbers = X[["age", "pressure"]]
    wrong: list[tuple[str, Any]] = [
        ("must have fit, and predict_proba", (NoPredict(), numbers, y)),
        ("is a regressor", (LinearRegression(), numbers, y)),
        ("give an instance, DecisionTreeClassifier()", (DecisionTreeClassifier, numbers, y)),
        ("none of the labels", (Odd(), numbers, y)),
        ("X has 80 rows, y has 79 labels", (TREE, numbers, y[:-1])),
        ("at least two classes", (TREE, numbers, np.zeros(80))),
        ("y must be the labels", (TREE, numbers)),
        ("y has 40 empty labels, the first in row 1", (TREE, numbers, np.array(["a", None] * 40, object))),
        ("y has 1 empty labels, the first in row 3", (TREE, numbers, np.where(np.arange(80) == 3, np.nan, y))),
        ("y has 1 empty labels", (TREE, numbers, pd.Series(y).astype("Int64").where(np.arange(80) > 0))),
        ("is it a regression target", (TREE, numbers, X["age"])),
        ("X has text in 'town'", (TREE, X, y)),
        ("must return scores of all rows, [80], got shape (3,)", (lambda indices, seed: np.zeros(3), None, y)),
        ("scores from 0 to 1", (lambda indices, seed: np.full(80, 2.0), None, y)),
        ("must return scores of all rows", (lambda indices, seed: np.full(79 + seed % 2, 0.5), None, y)),
        ("gives the same predictions for every seed", (lambda indices, seed: np.full(80, 0.5), None, y)),
        ("cannot be trained on these data: ZeroDivisionError", (lambda indices, seed: 1 / 0, None, y)),
    ]
    for sentence, given in wrong:
        with pytest.raises(ss.SeedscopeError) as raised:
            ss.audit(*given, **FEW)
        assert sentence in str(raised.value)
        assert "\n" not in str(raised.value)
    with pytest.raises(ss.SeedscopeError, match=r"differ in shape between models: \(1,\) and \(2,\)"):
        ss.Ensemble.from_scores([[0.1, 0.2], [0.3]], [0, 1])
    with pytest.raises(ss.SeedscopeError, match="seeds must be a whole number"):
        ss.audit(RandomForestClassifier(5), numbers, y, seeds="40")
    with pytest.raises(ss.SeedscopeError, match="OneHotEncoder"):
        ss.audit(TREE, X, y)
    with pytest.raises(ss.SeedscopeError, match=r"none of the labels|fit, and predict"):
        ss.audit(KMeans(5), numbers, y)


def test_the_command_audits_an_estimator_of_a_module_in_this_folder(tmp_path: Path) -> None:
    people_table = patients(90)
    people_table.to_csv(tmp_path / "people.csv", index=False)
    numbers = [one for one in people_table if people_table[one].dtype.kind in "fi" and one != "sick"]
    (tmp_path / "own_module.py").write_text(
        "from sklearn.tree import ExtraTreeClassifier\nfrom sklearn.pipeline import make_pipeline\n"
        "from sklearn.compose import make_column_transformer\n"
        f"pipeline = make_pipeline(make_column_transformer(('passthrough', {numbers})), "
        "ExtraTreeClassifier(max_features=1))\n"
    )
    few = ["--models", "6", "--neighbours", "2", "--neighbour-models", "8", "--jobs", "1"]
    own = ["audit", "people.csv", "--target", "sick", "--group", "sex", "--estimator", "own_module:pipeline"]
    done = run(*own, *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "seedscope-report" / "report.json").read_text())
    assert report["audited"]["model"] == "ExtraTreeClassifier"
    assert report["groups"][0]["name"] == "sex"
    assert len(pd.read_csv(tmp_path / "seedscope-report" / "individuals.csv")) == 90
    for wrong, sentence in {
        "own_module:pipelin": "Did you mean 'pipeline'",
        "own_module": "module:name",
        "absent_module:x": "cannot be imported",
    }.items():
        refused = run(*own[:-1], wrong, *few, cwd=tmp_path)
        assert refused.returncode == 2
        assert sentence in refused.stderr
    for foreign in (["--epsilon", "1"], ["--private-scaling", "0.1"], ["--person", "sex"], ["--impute", "typical"]):
        refused = run(*own, *foreign, cwd=tmp_path)
        assert refused.returncode == 2
        assert f"{foreign[0]} is for Seedscope's own mechanisms" in refused.stderr
    assert "--resample is for an --estimator" in run(*own[:-2], "--resample", "bootstrap", cwd=tmp_path).stderr


def test_what_is_said_about_a_table_holds_for_an_estimator_and_is_written_back_whole(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"dose": draw.random(60), "note": "x", "age": np.arange(60.0), "level": draw.random(60)})
    frame.loc[5, "age"] = np.nan
    frame.to_csv(tmp_path / "people.csv", sep=";", decimal=",", index=False)
    (tmp_path / "trees.py").write_text(
        "from sklearn.tree import ExtraTreeClassifier\ntree = ExtraTreeClassifier(max_features=1)\n"
    )
    said = ["--target", "level", "--above", "0.5", "--ignore", "note", "--fill", "age=30", "--estimator", "trees:tree"]
    few = ["--models", "5", "--neighbours", "0", "--jobs", "1"]
    done = run("audit", "people.csv", *said, *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "seedscope-report" / "report.json").read_text())
    assert report["audited"]["features"] == 2
    (tmp_path / "again.toml").write_text(report["provenance"]["configuration"])
    again = run("audit", "--config", "again.toml", "--out", "again", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "again" / "report.json").read_text())["levels"] == report["levels"]
    assert len(list((tmp_path / "runs").iterdir())) == 1
    (tmp_path / "again.toml").write_text(report["provenance"]["configuration"].replace("age=30", "age=31"))
    assert run("audit", "--config", "again.toml", "--out", "again", cwd=tmp_path).returncode == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2  # other data have another folder
