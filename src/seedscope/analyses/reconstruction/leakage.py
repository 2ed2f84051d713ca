"""Leakage of records: traces of Fisher information, averaged over runs, with what they say about attacks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.reconstruction.error_bounds import fisher_error_lower
from seedscope.analyses.reconstruction.logistic import logistic_dfil
from seedscope.analyses.reconstruction.regression import Regression
from seedscope.core import Kind, Number, require, require_count
from seedscope.numerics import nonnegative_mean_interval

_TOLERANCE = 1e-6  # of a minimiser's gradient, in units of R/N


@dataclass(frozen=True, eq=False)
class Leakage:
    """Traces of the Fisher information about records [record], of this many private coordinates.

    `trace_lower` and `trace_upper` hold the expected trace with about `confidence`, where several runs were averaged.
    """

    trace: np.ndarray
    dimension: int
    kind: Kind
    trace_lower: np.ndarray | None = None
    trace_upper: np.ndarray | None = None
    confidence: float | None = None
    note: str = ""

    @property
    def dfil(self) -> np.ndarray:
        """The diagonal Fisher information leakage η̄², trace / dimension."""
        return self.trace / self.dimension

    @property
    def error_lower(self) -> np.ndarray:
        """The least mean squared error of an unbiased attacker, per coordinate [record]."""
        return fisher_error_lower(self.trace, self.dimension)

    @property
    def worst(self) -> Number:
        """The bound of the record that leaks most."""
        return self.of(int(np.argmax(self.trace)))

    @property
    def typical(self) -> Number:
        """The bound of the record of median leakage (of two, the one that leaks more)."""
        return self.of(int(np.argsort(self.trace)[len(self.trace) // 2]))

    def of(self, record: int) -> Number:
        """Return one record's bound on the mean squared error, with its interval over runs."""
        value = float(self.error_lower[record])
        if self.trace_lower is None or self.trace_upper is None:
            return Number(value, self.kind, note=self.note)
        ends = (self.trace_upper[record], self.trace_lower[record])  # much information, small error
        lower, upper = (float(fisher_error_lower(end, self.dimension)) for end in ends)
        return Number(value, self.kind, lower, upper, self.confidence, self.note)


def average_traces(
    traces: ArrayLike, dimension: int, amplification: float | Number = 1.0, confidence: float = 0.95
) -> Leakage:
    """Return the leakage of records from traces of independent training runs: averaged first, inverted then.

    The mean over runs estimates the expectation that the theorem is about, so the result is an *estimate*; its
    interval is for skewed values (`seedscope.numerics.nonnegative`): a record that was in no batch has an upper end of
    infinity.

    Args:
        traces: Σ over steps of ‖∂g̃/∂z‖²/(σC)², [run, record]; 0 for steps whose batch does not hold the record.
        dimension: number of private coordinates.
        amplification: the factor κ; see `amplification_factors`.
        confidence: of the interval, where there are two runs or more.

    >>> found = average_traces([[2.0, 8.0], [4.0, 8.0]], dimension=3)
    >>> found.error_lower, str(found.worst)
    (array([1.   , 0.375]), '0.375 [0.1318, 0.375] (estimate at 95 %)')

    BR Theorems 3 and 4, Equation 4.
    """
    values = np.asarray(traces, float) * float(amplification)
    require(values.ndim == 2, f"traces must be [run, record], got shape {values.shape}.")
    require(np.all(values >= 0), "traces must be at least 0 and not NaN.")
    require_count("dimension", dimension)
    proved = not isinstance(amplification, Number) or amplification.kind == "proved"
    note = "expectation over training runs estimated by their mean" + ("" if proved else "; κ is an estimate too")
    if len(values) < 2:
        return Leakage(values.mean(axis=0), dimension, "estimate", note=note)
    lower, upper = nonnegative_mean_interval(values, confidence)
    return Leakage(values.mean(axis=0), dimension, "estimate", lower, upper, confidence, note)


def logistic_leakage(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    l2: ArrayLike,
    noise_scale: float,
    private: ArrayLike | None = None,
    label_private: bool = False,
) -> Leakage:
    """Return the leakage of every record through output-perturbed logistic regression: proved, at the minimiser.

    Arguments as for `logistic_dfil`. Raises where the weights do not minimise the objective, because the closed form is
    about the minimiser: give the weights from before the noise was added.
    """
    regression = Regression.of(features, labels, weights, l2, private)
    left = float(np.linalg.norm(regression.gradient()))
    allowed = _TOLERANCE * float(np.linalg.norm(regression.rows, axis=1).max()) / len(regression.rows)
    require(
        left <= allowed,
        f"weights must minimise the regularised loss, but its gradient has norm {left:.2g} there, above {allowed:.2g}; "
        "give the weights before noise is added, or solve further.",
    )
    dimension = len(regression.private) + label_private
    dfil = logistic_dfil(features, labels, weights, l2, noise_scale, private, label_private)
    return Leakage(dfil * dimension, dimension, "proved")
