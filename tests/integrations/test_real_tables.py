"""Ten kinds of estimators end to end on real tables, by the command; one of them killed on the way and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

import seedscope as ss
from tests.helpers.command_line import run

pytestmark = [pytest.mark.slow]
FEW = ["--models", "6", "--neighbours", "2", "--neighbour-models", "8", "--jobs", "1"]
MODULE = """
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import *
from sklearn.linear_model import *
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
import time

tree = DecisionTreeClassifier(max_features=2, max_depth=3)
pipeline = make_pipeline(StandardScaler(), SGDClassifier(max_iter=5, tol=None))
columns = make_pipeline(
    make_column_transformer((KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), [0, 1]),
    remainder=StandardScaler()), Perceptron(max_iter=3, tol=None))
search = GridSearchCV(tree, {"max_depth": [1, 2]}, cv=2)
calibrated = CalibratedClassifierCV(tree, cv=2)
voting = VotingClassifier([("tree", tree), ("bayes", GaussianNB())])
boosting = HistGradientBoostingClassifier(max_iter=3, max_features=0.5)
svm = BaggingClassifier(SVC(), 2, bootstrap=False, max_samples=0.5, n_jobs=-1)
forest = RandomForestClassifier(100, n_jobs=-1)
network = make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=5))
linear = make_pipeline(StandardScaler(), LinearSVC(dual=True, max_iter=5))


class Slow(DecisionTreeClassifier):
    def fit(self, X, y):
        time.sleep(0.1)
        return super().fit(X, y)


slow = Slow(max_features=1)
"""
KINDS = (
    "pipeline", "columns", "search", "calibrated", "voting", "boosting", "svm", "forest", "network", "linear",
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two real tables and a module of estimators."""
    folder = tmp_path_factory.mktemp("tables")
    for name, load in {"cancer": load_breast_cancer, "wine": load_wine}.items():
        found = load(as_frame=True).frame
        found["ill"] = np.array(["no", "yes", "perhaps"])[found.pop("target")]
        found["half"] = np.arange(len(found)) % 2
        found.to_csv(folder / f"{name}.csv", index=False)
    (folder / "estimators.py").write_text(MODULE)
    return folder


def command(place: Path, table: str, kind: str, *more: str) -> list[str]:
    """Return the command that audits an estimator on a table."""
    return [
        "audit", f"{table}.csv", "--target", "ill", "--group", "half", "--estimator", f"estimators:{kind}",
        "--out", f"out-{kind}", *FEW, *more,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_ten_kinds_of_estimators_are_audited_by_the_command(place: Path, kind: str) -> None:
    table = "wine" if kind in ("voting", "boosting", "network") else "cancer"
    more = ("--models", "30") if kind == "forest" else ()
    done = run(*command(place, table, kind, *more), cwd=place)
    assert done.returncode == 0, done.stderr
    report = json.loads((place / f"out-{kind}" / "report.json").read_text())
    people = pd.read_csv(place / f"out-{kind}" / "individuals.csv")
    assert len(people) == (178 if table == "wine" else 569)
    attacked = people["membership_advantage"].notna().sum()
    assert attacked >= (
        0.9 * (people["part"] == "train").sum() if kind == "forest" else 2
    )  # a forest tells of everybody
    assert report["groups"][0]["name"] == "half"


def test_killed_on_the_way_it_goes_on_and_gives_the_same(place: Path) -> None:
    more = ("--models", "24", "--neighbours", "0")
    line = [sys.executable, "-m", "seedscope", *command(place, "cancer", "slow", "--store", "killed", *more)]
    process = subprocess.Popen(line, cwd=place, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    waited = time.monotonic()
    while len(markers(place)) < 1 and time.monotonic() - waited < 60:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    kept = {path.name: path.stat().st_mtime_ns for path in markers(place)}
    assert kept
    for store in ("killed", "whole"):
        done = run(*command(place, "cancer", "slow", "--store", store, *more), cwd=place)
        assert done.returncode == 0, done.stderr
    assert {path.name: path.stat().st_mtime_ns for path in markers(place) if path.name in kept} == kept  # not again
    scores: list[Any] = [stored(place / store).scores.values for store in ("killed", "whole")]
    np.testing.assert_array_equal(*scores)


def environment() -> dict[str, str]:
    """Return the environment in which this package is found from elsewhere too."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([one for one in sys.path if one])}


def markers(place: Path) -> list[Path]:
    """Return the markers of finished chunks in the store that was killed."""
    return [path for path in (place / "killed").rglob("done/*") if path.is_file()]


def stored(folder: Path) -> ss.Ensemble:
    """Return the ensemble of the base data set in a store."""
    return ss.Ensemble.open(next(iter(folder.rglob("models.zarr"))).parent)
