"""`LogisticRegression` on our own solver: all fits of a chunk are one problem.

Two classes or several, the squared penalty, class weights None and a solver that looks for the minimum, on a table of
numbers; alone, or after a `StandardScaler`, whose scaling is then a penalty of each model's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from seedscope.integrations.moved_linear import LinearTraining, margin_scores, moments
from seedscope.integrations.moved_training import Sample, before_and_last
from seedscope.numerics import WeightedProblem, WeightedSoftmax

SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky")
TIGHT = {"tol": 1e-12, "max_iter": 1000, "solver": "newton-cholesky"}  # the same minimum, to the last digits
MOST_WEIGHTS = 200  # of several classes: digits' 640 take us 1.4 times scikit-learn's time


@dataclass(frozen=True, eq=False)
class RegressionTraining(LinearTraining):
    """Fits logistic regressions of many samples at once."""

    quicker: ClassVar[int] = 10

    def foreign(self) -> str:
        return super().foreign() or self._too_many_weights() or _foreign_settings(self.last, self.scaled)

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
        return margin_scores(slopes @ self.numbers[probes].T + shifts[..., None])

    def coefficients_of(self, fitted: Any) -> np.ndarray:
        before, model = before_and_last(fitted)
        slopes, shifts = model.coef_, np.broadcast_to(model.intercept_, len(model.coef_))
        if before is not None:
            slopes = slopes / before[0].scale_
            shifts = shifts - slopes @ before[0].mean_
        if len(slopes) > 1:  # the same for every class changes nothing
            slopes, shifts = slopes - slopes.mean(0), shifts - shifts.mean()
        return np.column_stack([slopes, shifts]).ravel()

    def _lines(self, samples: Sequence[Sample]) -> tuple[np.ndarray, np.ndarray]:
        """Return slopes [model, class, feature] and intercepts [model, class]; two classes are one."""
        counts, table, truth = self.counts(samples), self.numbers, np.searchsorted(self.classes, self.labels)
        intercept, used = bool(self.last.fit_intercept), counts.sum(0) > 0
        centre, spread = moments(table, used[None].astype(float))
        ones = np.ones((len(table), int(intercept)))
        rows = np.column_stack([(table - centre[0]) / spread[0] if intercept else table, ones])[used]
        widths = spread[0] if intercept else np.ones(table.shape[1])
        own = moments(table, counts)[1] if self.scaled else np.ones((len(samples), table.shape[1]))
        penalties = np.column_stack([(own / widths) ** 2 / self.last.C, np.zeros((len(samples), ones.shape[1]))])
        weights = self._solved(rows, truth[used], counts[:, used], penalties)
        slopes = weights[..., : table.shape[1]] / widths
        shifts = weights[..., -1] - slopes @ centre[0] if intercept else np.zeros(weights.shape[:2])
        return slopes, shifts

    def _too_many_weights(self) -> str:
        """Return why several classes are better fitted one model at a time; empty where they are not."""
        weights = len(self.classes) * np.shape(self.table)[1]
        if len(self.classes) == 2 or weights <= MOST_WEIGHTS:
            return ""
        return f"{weights} weights of {len(self.classes)} classes are found sooner one model at a time"

    def _solved(self, rows: np.ndarray, truth: np.ndarray, counts: np.ndarray, penalties: np.ndarray) -> np.ndarray:
        """Return the minimisers [model, class, column]; of two classes only the second's."""
        if len(self.classes) == 2:
            return WeightedProblem(rows, truth.astype(float)).minimise(counts, penalties)[:, None]
        return WeightedSoftmax(rows, truth, len(self.classes)).minimise(counts, penalties)


def _foreign_settings(model: Any, scaled: bool) -> str:
    """Return which setting of a logistic regression our solver does not have; empty for none."""
    if scaled and not model.fit_intercept:
        return "the scaler's means, which differ between samples, need an intercept"
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
