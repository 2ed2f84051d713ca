"""How well anybody could reconstruct each person's record from what was released, at one privacy level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seedscope.analyses.reconstruction import (
    Leakage,
    RecordBounds,
    mechanism_success_upper,
    rdp_uncertainty_left,
    record_bounds,
    training_leakage,
)
from seedscope.auditing.own_units import OwnUnits, errors_by_trace, own_units
from seedscope.core import BASE, Kind, Number, last_step, number_or_none, require, varied_init
from seedscope.datasets import Category, Dataset, FittedScaling, Part, category_columns
from seedscope.storage import Ensemble

NOBODY = np.zeros(0, int)
LEAST_MODELS, MODELS = 20, 500  # of the base, from which a person's own information is estimated
SHOWN_COLUMNS = 30  # of categories in a report
SAMPLED = "from the trained models' own density"
NORMAL = "proved if what is known before is a normal distribution"
FLAT = "the same for everybody: each person's own needs smooth clipping, with which there is no own ε by norms"
RECORDED = "from what was recorded while training, averaged over the runs"


@dataclass(frozen=True, eq=False)
class Guess:
    """The chance to guess a category: without the model (that of its most frequent level), and at most with it."""

    column: str
    level: str
    prior: float
    at_most: float

    def as_dict(self) -> dict[str, Any]:
        """Return the chances as plain values."""
        return {"column": self.column, "level": self.level, "prior": self.prior, "at_most": self.at_most}


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What is left to an attacker who knows everything but one record; features in standard deviations.

    `everybody` is the least mean squared error of an unbiased guess of anybody's record, where that is the same for
    all, and `left_everybody` the share of uncertainty that the guarantee leaves about anybody. `error_lower` is each
    person's own, `left` the share of the uncertainty about their features that the model leaves to any attacker, biased
    or not, with its least and largest value [person]; `people` are their places. `guesses` are about categories, of
    which squared error says nothing; `own_units` says the errors of a table's features one by one.
    """

    people: np.ndarray
    error_lower: np.ndarray
    left: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    everybody: Number | None
    kind: Kind
    note: str
    confidence: float | None = None
    guesses: tuple[Guess, ...] = ()
    own_units: OwnUnits | None = None
    left_everybody: Number | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what is said once for the level, as plain values."""
        return {
            "people": len(self.people),
            "everybody": number_or_none(self.everybody),
            "left_everybody": number_or_none(self.left_everybody),
            "left_smallest": number_or_none(self._left_of(np.argmin)),
            "left_median": number_or_none(self._left_of(lambda left: np.argsort(left)[len(left) // 2])),
            "own_units": None if self.own_units is None else self.own_units.as_dict(),
            "guesses": [guess.as_dict() for guess in self.guesses],
            "note": self.note,
        }

    def _left_of(self, chosen: Any) -> Number | None:
        """Return the share left of one person, chosen by the shares."""
        if self.left is None or not len(self.people):
            return None
        place = int(chosen(self.left[0]))
        value, lower, upper = (float(values[place]) for values in self.left)
        if self.confidence is None:
            return Number(value, "estimate")
        return Number(value, "estimate", lower, upper, self.confidence)


def reconstruction(ensemble: Ensemble, data: Dataset | None) -> Reconstruction:
    """Return the bounds for everybody trained on; an error says why there are none."""
    guarantee = ensemble.guarantee
    require(guarantee.epsilon is not None, f"no bound is proved: {guarantee.reason}")
    require(data is not None, "it needs the rows themselves; give audit(…, data=…).")
    assert data is not None
    guesses = category_guesses(ensemble, data)
    encoded = {column for category in category_columns(data) for column in category.columns}
    if len(encoded) == len(data.feature_names):
        return Reconstruction(NOBODY, np.zeros(0), None, None, "proved", "every feature is a category", None, guesses)
    return replace(_of_features(ensemble, data), guesses=guesses, left_everybody=left_by_guarantee(ensemble))


def left_by_guarantee(ensemble: Ensemble) -> Number:
    """Return the share of the uncertainty about anybody's features that the guarantee leaves to any attacker."""
    divergence = ensemble.mechanism.order_two(ensemble.description.conditions)
    return Number(float(rdp_uncertainty_left(divergence)), "estimate", note=NORMAL)


def _of_features(ensemble: Ensemble, data: Dataset) -> Reconstruction:
    """Return what is known about features that are numbers: everybody's bound, and each person's own where there is."""
    mechanism, fitted = ensemble.mechanism, ensemble.scaling.fit(data)
    regression = mechanism.regression(data, fitted)
    released = _released(ensemble, data)
    bounds = record_bounds(data, mechanism, ensemble.scaling, regression=regression, released=released)
    places, everybody = person_places(data), same_for_all(bounds)
    if regression is not None:
        made = Reconstruction(places, standardised_error(bounds), bounds.left, None, bounds.kind, bounds.note)
        return _with_own_units(made, bounds, bounds.feature_error_lower, ensemble)
    if bounds.information is not None:
        note, confidence = "; ".join(filter(None, [SAMPLED, bounds.note])), bounds.information.confidence
        made = Reconstruction(places, personal_error(bounds), bounds.left, everybody, "estimate", note, confidence)
        return _with_own_units(made, bounds, _personal(bounds), ensemble)
    if "fisher_traces" in ensemble.dataset:
        return _recorded(ensemble, data, fitted, bounds)
    note = "; ".join(filter(None, [_not_personal(ensemble), bounds.note]))
    made = Reconstruction(NOBODY, np.zeros(0), None, everybody, bounds.kind, note)
    return _with_own_units(made, bounds, bounds.feature_error_lower[:1], ensemble)


def _not_personal(ensemble: Ensemble) -> str:
    """Return what each person's own numbers would need, where clipping is all that is in their way."""
    sums = ensemble.mechanism.noisy_sums(ensemble.description.data.examples)
    return FLAT if sums is not None and not sums.clipping.smooth else ""


def _with_own_units(
    made: Reconstruction, bounds: RecordBounds, errors: np.ndarray, ensemble: Ensemble
) -> Reconstruction:
    """Return it with each feature's error; pixels of images have no units of their own."""
    if len(ensemble.description.data.shape) != 1:
        return made
    units = own_units(bounds, errors, made.people, None if made.left is None else made.left[0], made.kind)
    if units.exposed is not None:
        units = replace(units, name=str(ensemble.texts("person_id")[made.people[units.exposed]]))
    return replace(made, own_units=units)


def _recorded(ensemble: Ensemble, data: Dataset, fitted: FittedScaling, bounds: RecordBounds) -> Reconstruction:
    """Return it from Fisher traces that DP-SGD recorded; the largest ratio of units puts them on the safe side."""
    leakage, columns = training_leakage(ensemble, "exact"), private_columns(ensemble)
    values = np.asarray(data.base.features, float).reshape(len(data.base), -1)
    deviations = np.broadcast_to(fitted.deviation, values.shape[1])
    widest = float(((values.std(axis=0) / deviations)[columns] ** 2).max())
    mean, lower, upper = (_mean_left(leakage, widest, trace) for trace in _traces(leakage))
    people, errors = ensemble.dataset["traced_person"].values, leakage.error_lower / widest
    made = Reconstruction(
        people, errors, (mean, lower, upper), same_for_all(bounds), "estimate", RECORDED, leakage.confidence
    )
    traced = bounds.about([data.feature_names[j] for j in columns])
    return _with_own_units(made, traced, errors_by_trace(traced, leakage.trace, deviations[columns]), ensemble)


def private_columns(ensemble: Ensemble) -> np.ndarray:
    """Return the columns that Fisher traces are about."""
    named = ensemble.description.records.get("private")
    return np.arange(int(np.prod(ensemble.description.data.shape))) if named is None else np.array(named, int)


def _traces(leakage: Leakage) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return traces with those that give the least and the largest share left."""
    upper = leakage.trace if leakage.trace_upper is None else leakage.trace_upper
    lower = leakage.trace if leakage.trace_lower is None else leakage.trace_lower
    return leakage.trace, upper, lower


def _mean_left(leakage: Leakage, widest: float, trace: np.ndarray) -> np.ndarray:
    """Return 1/(1 + mean τ²I), which is at most the mean over features of 1/(1 + τ²I)."""
    left: np.ndarray = 1 / (1 + widest * trace / leakage.dimension)
    return left


def _released(ensemble: Ensemble, data: Dataset) -> np.ndarray | None:
    """Return weights [model, weight] of the base's models, where their density is known."""
    objective = ensemble.mechanism.noisy_objective(ensemble.description.conditions)
    return None if objective is None or data.classes != 2 else base_weights(ensemble)


def base_weights(ensemble: Ensemble) -> np.ndarray | None:
    """Return weights [model, weight] of the base's last models, at most `MODELS`; None where there are too few."""
    if "weights" not in ensemble.dataset:
        return None
    last = last_step(varied_init(ensemble.dataset["weights"].sel(neighbour=BASE)))
    chosen: np.ndarray = last.isel(seed=slice(MODELS)).values
    return chosen if len(chosen) >= LEAST_MODELS else None


def category_guesses(ensemble: Ensemble, data: Dataset) -> tuple[Guess, ...]:
    """Return for each category the chance to guess it right: its most frequent level's, and at most with the model."""
    categories = category_columns(data)[:SHOWN_COLUMNS]
    if not categories:
        return ()
    shares = [level_shares(data, category) for category in categories]
    priors = np.array([share.max() for share in shares])
    at_most = mechanism_success_upper(priors, ensemble.mechanism, ensemble.description.conditions)
    return tuple(
        Guess(category.name, category.levels[int(share.argmax())], float(share.max()), float(most))
        for category, share, most in zip(categories, shares, at_most, strict=True)
    )


def level_shares(data: Dataset, category: Category) -> np.ndarray:
    """Return how frequent each level of a category is among the rows that models are trained on."""
    codes = category.codes(np.asarray(data.base.features))
    shares: np.ndarray = np.bincount(codes, minlength=len(category.levels)) / len(codes)
    return shares


def same_for_all(bounds: RecordBounds) -> Number | None:
    """Return the least mean squared error about anybody's record, features in standard deviations."""
    errors = standardised_error(bounds)
    return Number(float(errors.min()), bounds.kind, note=bounds.note) if len(errors) else None


def standardised_error(bounds: RecordBounds) -> np.ndarray:
    """Return the least mean squared error about each record, features measured by their standard deviations.

    The mean over features: all features' bounds hold at once.
    """
    return _in_deviations(bounds, bounds.feature_error_lower)


def personal_error(bounds: RecordBounds) -> np.ndarray:
    """Return the same by each record's own information, an estimate."""
    return _in_deviations(bounds, _personal(bounds))


def _personal(bounds: RecordBounds) -> np.ndarray:
    """Return each record's own errors in own units [record, feature], where they are known."""
    own = bounds.personal_error
    assert own is not None  # asked for only where it is known
    return own


def _in_deviations(bounds: RecordBounds, errors: np.ndarray) -> np.ndarray:
    """Return the mean squared errors over the features that vary, in their standard deviations."""
    vary = bounds.spreads > 0
    error: np.ndarray = ((errors[:, vary] / bounds.spreads[vary]) ** 2).mean(axis=1)
    return error


def person_places(data: Dataset, part: Part | None = None) -> np.ndarray:
    """Return the places on an ensemble's person axis of a part's rows, by default those that models are trained on."""
    parts = [piece for piece in (data.train, data.validation, data.test) if piece is not None]
    rows = (data.base if part is None else part).rows
    return np.searchsorted(np.sort(np.concatenate([piece.rows for piece in parts])), rows)
