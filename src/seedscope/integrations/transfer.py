"""Which estimators of scikit-learn are moved onto our own engine: those with settings that it has, once it was checked.

`LogisticRegression`, `SGDClassifier` and `MLPClassifier`. One fit of the estimator itself is compared before anything
else; whatever is not moved, or does not agree, is fitted honestly, and the report says why.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedscope.integrations.moved_network import NetworkTraining, before_and_last, foreign_network
from seedscope.integrations.moved_regression import RegressionTraining, foreign_regression
from seedscope.integrations.moved_sgd import SgdTraining, foreign_sgd
from seedscope.integrations.moved_training import MovedTraining, apart
from seedscope.integrations.training import EstimatorTraining

AGREE = 1e-4  # coefficients of one fit, of the largest
AS_GIVEN = 1e-2  # scores of the estimator with its own tolerance
MOVED, REFITTED = "moved onto Seedscope's own engine", "fitted again for every seed and data set"
FOREIGN = {
    "LogisticRegression": foreign_regression, "SGDClassifier": foreign_sgd, "MLPClassifier": foreign_network
}  # fmt: skip
MOST_WEIGHTS = 200  # of several classes' regressions: digits' 640 take us 1.4 times scikit-learn's time
MOST_CELLS = 30_000  # rows × features of `SGDClassifier`: 2,000 × 14 took us 0.6 of its own time, 1,000 × 100 1.1
QUICKER = {"LogisticRegression": 10, "SGDClassifier": 6, "MLPClassifier": 5}  # for the size of chunks


@dataclass(frozen=True)
class Verdict:
    """Whether an estimator is moved, and in words what happened."""

    moved: bool
    words: str


def moved(training: EstimatorTraining, rows: np.ndarray) -> tuple[EstimatorTraining, Verdict]:
    """Return how an estimator is trained from here on, and what happened: moved and compared, or fitted honestly."""
    reason = _cannot(training)
    if reason is None:
        return training, Verdict(False, REFITTED)
    if reason:
        return training, Verdict(False, f"{REFITTED}: {reason}")
    ours = _on_our_engine(training)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said when it was tried
        distance, scores = apart(ours, rows)
    if distance > AGREE:
        return training, Verdict(False, f"{REFITTED}: our engine's coefficients differ by {distance:.1g}")
    if scores > AS_GIVEN:
        return training, Verdict(False, f"{REFITTED}: it stops far from where our engine's coefficients are")
    return ours, Verdict(True, f"{MOVED}: the coefficients of one fit agree to {max(distance, 1e-12):.0e}")


def _on_our_engine(training: EstimatorTraining) -> MovedTraining:
    """Return the training of the same models by our own code."""
    before, last = before_and_last(training.code)
    seconds = training.seconds / QUICKER[type(last).__name__]
    taken = (training.packed, training.table, training.labels, training.resample, training.draw, training.seeds)
    if type(last).__name__ == "MLPClassifier":
        return NetworkTraining(*taken, seconds)
    if type(last).__name__ == "SGDClassifier":
        return SgdTraining(*taken, seconds, before is not None)
    return RegressionTraining(*taken, seconds, 1 / last.C, bool(last.fit_intercept), before is not None)


def _cannot(training: EstimatorTraining) -> str | None:
    """Return why an estimator is not moved: empty where it can be, None where nobody would think it could."""
    steps = [step for _, step in getattr(training.code, "steps", [("", training.code)])]
    last, name = steps[-1], type(steps[-1]).__name__
    if not type(last).__module__.startswith("sklearn.") or name not in FOREIGN:
        return None
    if name != "MLPClassifier":  # which works on rows as they leave the step before
        before = [type(step).__name__ for step in steps[:-1]]
        if before not in ([], ["StandardScaler"]) or (before and not (steps[0].with_mean and steps[0].with_std)):
            return "what comes before it in its pipeline is its own"
        if not _is_numbers(training.table):
            return "X is not a table of numbers"
    if name == "SGDClassifier" and np.size(training.table) > MOST_CELLS:
        return f"on {np.size(training.table):,} cells its own loop is as fast"
    weights = len(training.classes) * np.shape(training.table)[1]
    if name == "LogisticRegression" and len(training.classes) > 2 and weights > MOST_WEIGHTS:
        return f"{weights} weights of {len(training.classes)} classes are found sooner one model at a time"
    return FOREIGN[name](last)


def _is_numbers(table: Any) -> bool:
    """Whether a table is dense and all of it finite numbers."""
    try:
        return bool(np.isfinite(np.asarray(table, float)).all()) and np.ndim(table) == 2
    except (TypeError, ValueError):
        return False
