"""`LogisticRegression` on our own solver: all fits of a chunk are one problem.

Two classes or several, the squared penalty, class weights None and a solver that looks for the minimum, on a table of
numbers; alone, or after a `StandardScaler`, whose scaling is then a penalty of each model's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedscope.integrations.moved_training import MovedTraining, Sample
from seedscope.numerics import WeightedProblem, WeightedSoftmax

SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky")
TIGHT = {"tol": 1e-12, "max_iter": 1000, "solver": "newton-cholesky"}  # the same minimum, to the last digits


@dataclass(frozen=True, eq=False)
class RegressionTraining(MovedTraining):
    """Fits logistic regressions of many samples at once."""

    penalty: float = 0.0  # 1/C
    intercept: bool = True
    scaled: bool = False

    def reference(self) -> Any:
        """Return the estimator that finds the minimum itself, where its own tolerance only comes near."""
        from sklearn.base import clone

        prefix = f"{self.code.steps[-1][0]}__" if hasattr(self.code, "steps") else ""
        return clone(self.code).set_params(**{prefix + name: value for name, value in TIGHT.items()})

    def coefficients(self, samples: Sequence[Sample]) -> np.ndarray:
        slopes, shifts = self._lines(samples)
        both: np.ndarray = np.concatenate([slopes, shifts[..., None]], -1).reshape(len(samples), -1)
        return both

    def scored(self, samples: Sequence[Sample], probes: np.ndarray) -> np.ndarray:
        slopes, shifts = self._lines(samples)
        return margin_scores(slopes @ np.asarray(self.table, float)[probes].T + shifts[..., None])

    def coefficients_of(self, fitted: Any) -> np.ndarray:
        scaler, model = scaler_and_last(fitted)
        slopes, shifts = model.coef_, np.broadcast_to(model.intercept_, len(model.coef_))
        if scaler is not None:
            slopes = slopes / scaler.scale_
            shifts = shifts - slopes @ scaler.mean_
        if len(slopes) > 1:  # the same for every class changes nothing
            slopes, shifts = slopes - slopes.mean(0), shifts - shifts.mean()
        return np.column_stack([slopes, shifts]).ravel()

    def _lines(self, samples: Sequence[Sample]) -> tuple[np.ndarray, np.ndarray]:
        """Return slopes [model, class, feature] and intercepts [model, class]; two classes are one."""
        weightings = np.stack([np.bincount(one.rows, minlength=len(self.labels)) for one in samples])
        table, truth = np.asarray(self.table, float), np.searchsorted(self.classes, self.labels)
        used = weightings.sum(0) > 0
        centre, spread = moments(table, used[None].astype(float))
        ones = np.ones((len(table), int(self.intercept)))
        rows = np.column_stack([(table - centre[0]) / spread[0] if self.intercept else table, ones])[used]
        widths = spread[0] if self.intercept else np.ones(table.shape[1])
        own = moments(table, weightings)[1] if self.scaled else np.ones((len(samples), table.shape[1]))
        penalties = np.column_stack([self.penalty * (own / widths) ** 2, np.zeros((len(samples), ones.shape[1]))])
        found = self._solved(rows, truth[used], weightings[:, used], penalties)
        slopes = found[..., : table.shape[1]] / widths
        shifts = found[..., -1] - slopes @ centre[0] if self.intercept else np.zeros(found.shape[:2])
        return slopes, shifts

    def _solved(self, rows: np.ndarray, truth: np.ndarray, counts: np.ndarray, penalties: np.ndarray) -> np.ndarray:
        """Return the minimisers [model, class, column]; of two classes only the second's."""
        if len(self.classes) == 2:
            return WeightedProblem(rows, truth.astype(float)).minimise(counts, penalties)[:, None]
        return WeightedSoftmax(rows, truth, len(self.classes)).minimise(counts, penalties)


def foreign_regression(model: Any) -> str:
    """Return which setting of a logistic regression our solver does not have; empty for none."""
    if model.solver not in SOLVERS:
        return f"solver={model.solver!r} is its own"
    if model.class_weight is not None or model.warm_start:
        return "class_weight and warm_start are its own"
    if math.isinf(model.C) or getattr(model, "penalty", "l2") is None:
        return "without a penalty there may be no minimum"
    if getattr(model, "l1_ratio", None) or getattr(model, "penalty", "l2") not in ("l2", "deprecated"):
        return "its penalty is not the squared one"
    if getattr(model, "multi_class", "auto") not in ("auto", "multinomial", "deprecated"):
        return f"multi_class={model.multi_class!r} is its own"
    return ""


def scaler_and_last(estimator: Any) -> tuple[Any, Any]:
    """Return the scaler, None where there is none, and the last step."""
    steps = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
    return (steps[0] if len(steps) == 2 else None), steps[-1]


def margin_scores(margins: np.ndarray) -> np.ndarray:
    """Return scores [model, probe] of margins [model, 1, probe]; or [model, probe, class] of several classes'."""
    from scipy.special import expit, softmax

    if margins.shape[1] == 1:
        return np.asarray(expit(margins[:, 0]))
    return np.asarray(softmax(margins, axis=1).transpose(0, 2, 1))


def moments(table: np.ndarray, weightings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations [model, feature] of samples; a column that does not vary has 1."""
    counts = weightings.sum(1, keepdims=True)
    centre = table.mean(0)  # of all, so that squares do not cancel
    first = weightings @ (table - centre) / counts
    second = weightings @ (table - centre) ** 2 / counts - first**2
    spread = np.sqrt(second.clip(0))
    constant = spread <= 10 * np.finfo(float).eps * np.maximum(1.0, np.abs(first + centre))
    return first + centre, np.where(constant, 1.0, spread)
