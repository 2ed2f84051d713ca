"""Which estimators of scikit-learn are moved onto our own engine: those with settings that it has, once it was checked.

`LogisticRegression`, `SGDClassifier` and `MLPClassifier`. One fit of the estimator itself is compared before anything
else; whatever is not moved, or does not agree, is fitted honestly, and the report says why.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from seedscope.core import has_networks, networks_missing
from seedscope.integrations.moved_network import NetworkTraining
from seedscope.integrations.moved_regression import RegressionTraining
from seedscope.integrations.moved_sgd import SgdTraining
from seedscope.integrations.moved_training import MovedTraining, apart, before_and_last
from seedscope.integrations.training import EstimatorTraining

AGREE = 1e-4  # coefficients of one fit, of the largest
AS_GIVEN = 1e-2  # scores of the estimator with its own tolerance
MOVED, REFITTED = "moved onto Seedscope's own engine", "fitted again for every seed and data set"
KINDS: dict[str, type[MovedTraining]] = {
    "LogisticRegression": RegressionTraining, "SGDClassifier": SgdTraining, "MLPClassifier": NetworkTraining
}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """Whether an estimator is moved, and in words what happened."""

    moved: bool
    words: str


def moved(training: EstimatorTraining, rows: np.ndarray) -> tuple[EstimatorTraining, Verdict]:
    """Return how an estimator is trained from here on, and what happened: moved and compared, or fitted honestly."""
    last = before_and_last(training.code)[1]
    kind = KINDS.get(type(last).__name__) if type(last).__module__.startswith("sklearn.") else None
    if kind is None:
        return training, Verdict(False, REFITTED)
    ours = kind.of(training)
    installed = has_networks() or not ours.needs_networks
    reason = ours.foreign() if installed else str(networks_missing("our own engine for it")).removesuffix(".")
    if reason:
        return training, Verdict(False, f"{REFITTED}: {reason}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said when it was tried
        distance, scores = apart(ours, rows)
    if distance > AGREE:
        return training, Verdict(False, f"{REFITTED}: our engine's coefficients differ by {distance:.1g}")
    if scores > AS_GIVEN:
        return training, Verdict(False, f"{REFITTED}: it stops far from where our engine's coefficients are")
    return ours, Verdict(True, f"{MOVED}: the coefficients of one fit agree to {max(distance, 1e-12):.0e}")
