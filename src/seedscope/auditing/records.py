"""How well anybody could reconstruct each person's record from what was released, at one privacy level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seedscope.analyses.reconstruction import RecordBounds, record_bounds
from seedscope.core import Kind, require
from seedscope.datasets import Dataset, Part
from seedscope.storage import Ensemble


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The least mean squared error of an unbiased guess of a record, features in standard deviations [person].

    `error_bayes` is that of a guess which starts from the average, where Fisher information gives it: an estimate.
    """

    people: np.ndarray
    error_lower: np.ndarray
    error_bayes: np.ndarray | None
    kind: Kind
    note: str


def reconstruction(ensemble: Ensemble, data: Dataset | None) -> Reconstruction:
    """Return the bound for everybody trained on; an error says why there is none."""
    guarantee = ensemble.guarantee
    require(guarantee.epsilon is not None, f"no bound is proved: {guarantee.reason}")
    require(data is not None, "it needs the rows themselves; give audit(…, data=…).")
    assert data is not None
    mechanism, scaling = ensemble.mechanism, ensemble.scaling
    regression = mechanism.regression(data, scaling.fit(data))
    found = record_bounds(data, mechanism, scaling, regression=regression)
    bayes = None if regression is None else bayes_error(found)
    return Reconstruction(person_places(data), standardised_error(found), bayes, found.kind, found.note)


def standardised_error(bounds: RecordBounds) -> np.ndarray:
    """Return the least mean squared error about each record, features measured by their standard deviations.

    The harmonic mean over features, as the Fisher information has it: never above the mean of their own bounds.
    """
    vary = bounds.spreads > 0
    with np.errstate(divide="ignore"):
        error: np.ndarray = 1 / ((bounds.spreads[vary] / bounds.feature_error_lower[:, vary]) ** 2).mean(axis=1)
        return error


def bayes_error(bounds: RecordBounds) -> np.ndarray:
    """Return the least mean squared error of any guess whose prior is as wide as the data, features in deviations.

    The van Trees inequality, feature by feature: 1/(I + 1/τ²), τ the feature's standard deviation and I its Fisher
    information. It presumes a Gaussian-like prior, and the same information around the record as at it: an estimate.
    """
    vary = bounds.spreads > 0
    information = (bounds.spreads[vary] / bounds.feature_error_lower[:, vary]) ** 2
    error: np.ndarray = (1 / (information + 1)).mean(axis=1)
    return error


def person_places(data: Dataset, part: Part | None = None) -> np.ndarray:
    """Return the places on an ensemble's person axis of a part's rows, by default those that models are trained on."""
    parts = [one for one in (data.train, data.validation, data.test) if one is not None]
    rows = (data.base if part is None else part).rows
    return np.searchsorted(np.sort(np.concatenate([one.rows for one in parts])), rows)
