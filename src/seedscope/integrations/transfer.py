"""Logistic regression of scikit-learn's, moved onto our solver: all fits of a chunk are one problem.

What is moved: `LogisticRegression` for two classes with the squared penalty, class weights None and a solver
that looks for the minimum, on a table of numbers; alone, or after a `StandardScaler`, whose scaling is then a penalty
of each model's own. One fit of the estimator itself is compared before anything else; whatever is not moved, or does
not agree, is fitted honestly, and the report says why.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedscope.core import SeedscopeError
from seedscope.integrations.training import EstimatorTraining, rows_of
from seedscope.numerics import WeightedProblem
from seedscope.storage import log_losses
from seedscope.training import Arrays, ChunkTrainer, Job, generator

SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky")
AGREE = 1e-4  # coefficients of one fit, of the largest
AS_GIVEN = 1e-2  # scores of the estimator with its own tolerance
TIGHT = {"tol": 1e-12, "max_iter": 1000, "solver": "newton-cholesky"}  # the same minimum, to the last digits
QUICKER = 10  # times, roughly, that a fit among many is quicker than one alone: for the size of chunks
MOVED, REFITTED = "moved onto Seedscope's own solver", "fitted again for every seed and data set"
OWN_LOOPS = ("SGDClassifier", "MLPClassifier", "LogisticRegression")


@dataclass(frozen=True)
class Verdict:
    """Whether an estimator is moved, and in words what happened."""

    moved: bool
    words: str


@dataclass(frozen=True, eq=False)
class LinearTraining(EstimatorTraining):
    """Fits logistic regressions of many samples at once."""

    penalty: float = 0.0  # 1/C
    intercept: bool = True
    scaled: bool = False

    def coefficients(self, weightings: np.ndarray) -> np.ndarray:
        """Return coefficients [model, feature + 1], the intercept last, for how often each row is in a sample."""
        table, truth = np.asarray(self.table, float), (self.labels == self.classes[1]).astype(float)
        everywhere: np.ndarray = weightings.sum(0) > 0
        centre, spread = _moments(table, everywhere[None].astype(float))
        scaled = (table - centre[0]) / spread[0]
        ones = np.ones((len(table), int(self.intercept)))
        rows = np.column_stack([scaled if self.intercept else table, ones])
        widths = spread[0] if self.intercept else np.ones(table.shape[1])
        own = _moments(table, weightings)[1] if self.scaled else np.ones((len(weightings), table.shape[1]))
        penalties = np.column_stack([self.penalty * (own / widths) ** 2, np.zeros((len(weightings), ones.shape[1]))])
        used = np.flatnonzero(everywhere)
        found = WeightedProblem(rows[used], truth[used]).minimise(weightings[:, used], penalties)
        slopes = found[:, : table.shape[1]] / widths
        shift = found[:, -1] - slopes @ centre[0] if self.intercept else np.zeros(len(found))
        return np.column_stack([slopes, shift])

    def trainer(self, job: Job) -> ChunkTrainer:
        """Return the function (seeds, neighbours) → records; what fails together is fitted one by one."""
        from threadpoolctl import threadpool_limits

        honestly = super().trainer(job)
        probes, labels = job.probe_rows[:, 0].astype(int), job.probe_labels.astype(int)

        def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
            if seeds.max() >= self.seeds:  # what pads the last chunk is not a number, as for every estimator
                inside = seeds < self.seeds
                return _padded(train(seeds[inside], neighbours), len(seeds))
            samples = np.stack([self._sample(job, int(s), int(n)) for s in seeds for n in neighbours])
            if not self._have_both_classes(samples):
                return honestly(seeds, neighbours)
            try:
                with threadpool_limits(1):
                    weights = self.coefficients(samples)
            except SeedscopeError:
                return honestly(seeds, neighbours)
            scores = self._scores(weights, probes).reshape(len(seeds), len(neighbours), 1, len(probes))
            return {"scores": scores.astype(np.float32), "losses": log_losses(scores, labels).astype(np.float32)}

        return train

    def _have_both_classes(self, samples: np.ndarray) -> bool:
        """Whether every sample has both classes: the estimator itself says what it thinks of another."""
        positive = samples[:, self.labels == self.classes[1]].sum(1)
        return bool(np.all((positive > 0) & (positive < samples.sum(1))))

    def _sample(self, job: Job, seed: int, neighbour: int) -> np.ndarray:
        """Return how often each row of the table is in the sample of one seed on one data set."""
        rows = rows_of(job, neighbour)
        if self.resample == "bootstrap":
            rows = rows[generator(job.root_seed, "bootstrap", seed).integers(len(rows), size=len(rows))]
        return np.bincount(rows, minlength=len(self.labels))

    def _scores(self, weights: np.ndarray, probes: np.ndarray) -> np.ndarray:
        """Return scores [model, probe]."""
        margins = weights[:, :-1] @ np.asarray(self.table, float)[probes].T + weights[:, -1:]
        with np.errstate(over="ignore"):
            scores: np.ndarray = 1 / (1 + np.exp(-margins))
        return scores


def moved(training: EstimatorTraining, rows: np.ndarray) -> tuple[EstimatorTraining, Verdict]:
    """Return how an estimator is trained from here on, and what happened: moved and compared, or fitted honestly."""
    reason = _cannot(training)
    if reason is None:
        return training, Verdict(False, REFITTED)
    if reason:
        return training, Verdict(False, f"{REFITTED}: {reason}")
    scaler, model = _steps(training.code)
    taken = (training.packed, training.table, training.labels, training.resample, training.draw, training.seeds)
    linear = LinearTraining(
        *taken, training.seconds / QUICKER, 1 / model.C, bool(model.fit_intercept), scaler is not None
    )
    apart = _apart(linear, rows)
    if apart > AGREE:
        return training, Verdict(False, f"{REFITTED}: our solver's coefficients differ by {apart:.1g}")
    return linear, Verdict(True, f"{MOVED}: the coefficients of one fit agree to {max(apart, 1e-12):.0e}")


def _steps(estimator: Any) -> tuple[Any, Any]:
    """Return the scaler, None where there is none, and the last step."""
    steps = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
    return (steps[0] if len(steps) == 2 else None), steps[-1]


def _cannot(training: EstimatorTraining) -> str | None:
    """Return why an estimator is not moved: empty where it can be, None where nobody would think it could."""
    steps = [step for _, step in getattr(training.code, "steps", [("", training.code)])]
    last, name = steps[-1], type(steps[-1]).__name__
    if not type(last).__module__.startswith("sklearn.") or name not in OWN_LOOPS:
        return None
    if name != "LogisticRegression":
        return "the order and first weights of its steps are its own"
    before = [type(step).__name__ for step in steps[:-1]]
    if before not in ([], ["StandardScaler"]) or (before and not (steps[0].with_mean and steps[0].with_std)):
        return "what comes before it in its pipeline is its own"
    if not _is_numbers(training.table):
        return "X is not a table of numbers"
    return _foreign_setting(last, len(training.classes))


def _foreign_setting(model: Any, classes: int) -> str:
    """Return which setting of a logistic regression our solver does not have; empty for none."""
    if classes != 2:
        return f"there are {classes} classes"
    if model.solver not in SOLVERS:
        return f"solver={model.solver!r} is its own"
    if model.class_weight is not None or model.warm_start:
        return "class_weight and warm_start are its own"
    if math.isinf(model.C) or getattr(model, "penalty", "l2") is None:
        return "without a penalty there may be no minimum"
    if getattr(model, "l1_ratio", None) or getattr(model, "penalty", "l2") not in ("l2", "deprecated"):
        return "its penalty is not the squared one"
    return ""


def _is_numbers(table: Any) -> bool:
    """Whether a table is dense and all of it finite numbers."""
    try:
        return bool(np.isfinite(np.asarray(table, float)).all()) and np.ndim(table) == 2
    except (TypeError, ValueError):
        return False


def _apart(linear: LinearTraining, rows: np.ndarray) -> float:
    """Return how far our coefficients are from those of the estimator itself, solved tightly, of the largest.

    Infinite where the estimator as it was given, with its own tolerance, scores people otherwise.
    """
    from sklearn.base import clone
    from sklearn.utils import _safe_indexing

    prefix = "" if not hasattr(linear.code, "steps") else f"{linear.code.steps[-1][0]}__"
    tight = clone(linear.code).set_params(**{prefix + name: value for name, value in TIGHT.items()})
    table, truth = _safe_indexing(linear.table, rows), linear.labels[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact, given = tight.fit(table, truth), clone(linear.code).fit(table, truth)
    theirs = _raw_coefficients(exact)
    try:
        ours = linear.coefficients(np.bincount(rows, minlength=len(linear.labels))[None])[0]
    except SeedscopeError:
        return math.inf
    scores = linear._scores(ours[None], rows)[0]
    if np.abs(given.predict_proba(table)[:, 1] - scores).max() > AS_GIVEN:
        return math.inf
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


def _raw_coefficients(estimator: Any) -> np.ndarray:
    """Return a fitted estimator's coefficients for rows as they were given, the intercept last."""
    scaler, model = _steps(estimator)
    slopes, shift = model.coef_[0], float(np.ravel(model.intercept_)[0])
    if scaler is not None:
        slopes = slopes / scaler.scale_
        shift -= float(slopes @ scaler.mean_)
    return np.append(slopes, shift)


def _moments(table: np.ndarray, weightings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations [model, feature] of samples; a column that does not vary has 1."""
    counts = weightings.sum(1, keepdims=True)
    centre = table.mean(0)  # of all, so that squares do not cancel
    first = weightings @ (table - centre) / counts
    second = weightings @ (table - centre) ** 2 / counts - first**2
    spread = np.sqrt(second.clip(0))
    constant = spread <= 10 * np.finfo(float).eps * np.maximum(1.0, np.abs(first + centre))
    return first + centre, np.where(constant, 1.0, spread)


def _padded(records: Arrays, seeds: int) -> Arrays:
    """Return records with seeds that are not numbers after the last."""
    return {
        name: np.concatenate([one, np.full((seeds - len(one), *one.shape[1:]), np.nan, one.dtype)])
        for name, one in records.items()
    }
