"""What an attacker can at best learn of each person in a data set, feature by feature, in the features' own units.

For output-perturbed logistic regression the Fisher information is in closed form, person by person; for objective
perturbation it is a mean over models that were trained (`released`), an estimate beside the proved bound that follows
from the mechanism alone and is the same for everybody. What DP-SGD revealed of each record is recorded while it trains
(`training_leakage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.reconstruction.error_bounds import feature_error_lower, rdp_feature_error_lower
from seedscope.analyses.reconstruction.logistic import logistic_feature_information
from seedscope.analyses.reconstruction.stepped_columns import (
    Refits,
    grid_error_lower,
    information_on_grid,
    value_step,
)
from seedscope.analyses.reconstruction.tilted_information import FeatureInformation, tilted_feature_information
from seedscope.core import Kind, Number, require, unknown_name
from seedscope.datasets import (
    Dataset,
    FittedScaling,
    Scaling,
    category_columns,
    default_scaling,
    few_valued,
    not_continuous,
)
from seedscope.mechanisms import Conditions, Mechanism, NoisyObjective, NoisyRegression

_SHARES = (0.0, 0.01, 0.1)  # of the spread: a bound from any other possible value holds, the best of these is taken
_TOLERANCE = 1e-6  # of a grid's step
Ranges = Mapping[str, tuple[float, float]] | tuple[float, float]


@dataclass(frozen=True, eq=False)
class RecordBounds:
    """The least error of any unbiased attacker about each training record, who knows everything else.

    `feature_error_lower` [record, feature] is root mean squared, in each feature's own units; `spreads` are the
    features' standard deviations, the error of always guessing the mean: a bound above says that the model is of no use
    to the attacker. `units` measure the features in `error_lower`. Records are those models are trained on, in order.
    `information` is each record's own Fisher information about the features in their own units, where it is known.
    `steps` are those of features whose values lie on a grid, 0 for the others.
    """

    ids: np.ndarray
    features: tuple[str, ...]
    feature_error_lower: np.ndarray
    spreads: np.ndarray
    units: np.ndarray
    kind: Kind
    note: str = ""
    information: FeatureInformation | None = None
    steps: np.ndarray | None = None

    @property
    def error_lower(self) -> np.ndarray:
        """The least mean squared error over the features in their `units`, [record].

        All features' bounds hold at once, so their mean bounds the mean error (BR Theorem 1).
        """
        error: np.ndarray = ((self.feature_error_lower / self.units) ** 2).mean(axis=1)
        return error

    @property
    def personal_error(self) -> np.ndarray | None:
        """The least error about each feature by the record's own information, an estimate; None where it is unknown.

        In own units [record, feature]: 1/√I, and on a grid of step h the root of h²/(e^{h²I} − 1).
        """
        if self.information is None:
            return None
        steps = np.zeros(len(self.features)) if self.steps is None else self.steps
        error: np.ndarray = np.sqrt(information_on_grid(self.information.value, steps))
        return error

    @property
    def uncertainty_left(self) -> np.ndarray | None:
        """The share of the uncertainty about each feature that the model leaves to any attacker [record, feature].

        1/(1 + τ²I) of the variance τ² of a population prior (van Trees), biased or not: 1 if the model tells nothing,
        0 if it tells the value. An estimate: τ is the data's spread, and I the information at the record.
        """
        return None if self.information is None else self._left(self.information.value)

    @property
    def left(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The share of uncertainty left, averaged over the features [record], with its least and largest value."""
        information = self.information
        if information is None:
            return None
        mean, lower, upper = (
            self._left(values).mean(axis=1) for values in (information.value, information.upper, information.lower)
        )
        return mean, lower, upper

    def _left(self, information: np.ndarray) -> np.ndarray:
        """Return 1/(1 + τ²I) of the features that vary."""
        vary = self.spreads > 0
        left: np.ndarray = 1 / (1 + self.spreads[vary] ** 2 * information[:, vary])
        return left

    def about(self, features: Sequence[str]) -> RecordBounds:
        """Return the bounds of these features only, in this order; nobody's own information."""
        places = [self.features.index(name) for name in features]
        steps = None if self.steps is None else self.steps[places]
        return replace(
            self, features=tuple(features), feature_error_lower=self.feature_error_lower[:, places],
            spreads=self.spreads[places], units=self.units[places], information=None, steps=steps,
        )  # fmt: skip

    @property
    def worst(self) -> Number:
        """The mean squared error about the record of which most can be learned."""
        return Number(float(self.error_lower.min()), self.kind, note=self.note)

    def of(self, record: int, feature: str) -> Number:
        """Return the least error about one feature of one record."""
        if feature not in self.features:
            raise unknown_name("private feature", feature, self.features)
        value = self.feature_error_lower[record, self.features.index(feature)]
        return Number(float(value), self.kind, note=self.note)

    def sentence(self, record: int, feature: str) -> str:
        """Return what the bound says about one feature of one record, for people to read."""
        bound, spread = self.of(record, feature), float(self.spreads[self.features.index(feature)])
        who = f"record {self.ids[record]}"
        if bound.value >= spread:
            said = (
                f"The model helps no unbiased attacker to know {feature} of {who}: whoever always guesses the mean is "
                f"off by {_shown(spread)} on average, and with the model by {_shown(bound.value)} or more"
            )
        else:
            said = (
                f"No unbiased attacker can know {feature} of {who} to better than ±{_shown(bound.value)} on average, "
                f"not even one who knows everything else (guessing the mean: ±{_shown(spread)})"
            )
        return f"{said} ({self.kind}{', ' + self.note if self.note else ''})."


def record_bounds(
    data: Dataset,
    mechanism: Mechanism,
    scaling: Scaling | None = None,
    private: Sequence[str | int] | None = None,
    ranges: Ranges | None = None,
    regression: NoisyRegression | None = None,
    released: ArrayLike | None = None,
) -> RecordBounds:
    """Return how well any unbiased attacker can at best know each feature of each training record.

    Args:
        data: whose training rows are protected, features in their own units.
        mechanism: one with a proved guarantee; from its divergence follows a bound that is the same for everybody.
        scaling: how features are scaled before training; the default is that of `train`.
        private: names or numbers of the features that the attacker does not know; by default all that are no category.
        ranges: least and largest possible value of each private feature by name, or one pair for all: public knowledge,
            which bounds from the divergence need. Ranges of the data in their place make the bound an *estimate*.
        regression: of a mechanism that has one, `mechanism.regression(data, scaling.fit(data))`: with it the bound is
            from the Fisher information, record by record; where values lie on a grid, from the next that occurs.
        released: weights [model, weight] of models trained by objective perturbation, the bias last: with them each
            record has its own `information`, an estimate.

    >>> import seedscope as ss
    >>> data, mechanism = ss.load("breast-cancer"), ss.OutputPerturbation(noise_scale=0.002)
    >>> regression = mechanism.regression(data, ss.Standardised().fit(data))
    >>> found = record_bounds(data, mechanism, ss.Standardised(), regression=regression)
    >>> found.feature_error_lower.shape, found.kind, found.note
    ((426, 30), 'estimate', 'proved only if the scaling were public')
    >>> print(found.sentence(297, "mean radius").split(",")[0])
    No unbiased attacker can know mean radius of record 392 to better than ±2.1 on average

    BR Theorems 1 and 2, coordinate by coordinate.
    """
    fitted = (scaling or default_scaling(data)).fit(data)
    conditions = Conditions.of(data, fitted)
    columns, left_out = _private_columns(data, private)
    values = _flat(data.base.features)[:, columns].astype(float)
    steps = np.array([value_step(column) for column in values.T])
    own = ranges is None
    ends, public = _ends(data, columns, values, _public_ranges(data, columns) if ranges is None else ranges, own)
    information = exact = None
    if regression is not None:
        information = FeatureInformation.exact(_information_of(data, regression, fitted, columns))
        exact = feature_error_lower(information.value)
        _put_on_grid(exact, data, regression, fitted, columns, steps)
    elif released is not None and (objective := mechanism.noisy_objective(conditions)) is not None:
        information = _sampled_information(data, objective, np.asarray(released, float), fitted, columns)
    if exact is None or public:
        everybody = rdp_feature_error_lower(mechanism.order_two(conditions), _diameters(ends, steps, values))
        exact = np.broadcast_to(everybody, values.shape) if exact is None else np.maximum(exact, everybody)
    notes = _learned(conditions)
    if regression is None and not public:
        notes = [*notes, "ranges of the features taken from the data"]
    kind: Kind = "proved" if (regression is not None or public) and not _learned(conditions) else "estimate"
    spreads = values.std(axis=0)
    by_columns = data.features.ndim == 2 and data.norm_bound is None  # else all features are of one kind
    units = np.where(spreads > 0, spreads, 1.0) if by_columns else np.ones(len(columns))
    names = tuple(data.feature_names[j] for j in columns)
    said = "; ".join([*notes, *left_out, *_prepared(data)])
    return RecordBounds(data.base.ids, names, exact, spreads, units, kind, said, information, steps)


def replace_one_rdp(mechanism: Mechanism, conditions: Conditions) -> float:
    """Return the order-2 divergence ε₂ of replacing one record under a mechanism; an error where none is proved.

    >>> from seedscope import Conditions, ObjectivePerturbation
    >>> round(replace_one_rdp(ObjectivePerturbation(epsilon=1.0), Conditions(1000, 1.0)), 4)
    0.7353
    """
    return mechanism.order_two(conditions)


def mechanism_success_upper(prior: ArrayLike, mechanism: Mechanism, conditions: Conditions) -> np.ndarray:
    """Return the largest chance of a reconstruction that succeeds with chance `prior` without the model.

    For any attacker, any notion of success, any kind of feature: categories too.

    Args:
        prior: the chance of success without the model, any shape.
        mechanism: one with a proved guarantee.
        conditions: the number of training rows and the public bound on their norms.

    >>> from seedscope import Conditions, ObjectivePerturbation
    >>> mechanism_success_upper([0.001, 0.5], ObjectivePerturbation(epsilon=1.0), Conditions(1000, 1.0)).round(4)
    array([0.0027, 0.8161])

    Hayes, Mahloujifar & Balle 2023; for pure ε Balle, Cherubin & Hayes 2022, Theorem 3.
    """
    kappa = np.asarray(prior, float)
    require((kappa >= 0) & (kappa <= 1), f"prior must be in [0, 1], got {prior!r}.")
    return mechanism.success_upper(kappa, conditions)


def _information_of(
    data: Dataset, regression: NoisyRegression, fitted: FittedScaling, columns: np.ndarray
) -> np.ndarray:
    """Return the Fisher information [record, private column] at the minimiser, in own units."""
    rows = _flat(fitted.apply(data.base.unfilled)).astype(float)
    information = logistic_feature_information(
        rows, data.base.labels, regression.weights, regression.l2, regression.noise_scale, columns,
        _lengths(data, fitted, rows),
    )  # fmt: skip
    own: np.ndarray = information / _deviations(data, fitted)[columns] ** 2
    return own


def _sampled_information(
    data: Dataset, objective: NoisyObjective, released: np.ndarray, fitted: FittedScaling, columns: np.ndarray
) -> FeatureInformation:
    """Return the Fisher information [record, private column] under a random tilt, in own units."""
    rows = _flat(fitted.apply(data.base.unfilled)).astype(float)
    require(data.classes == 2, f"a record's own information is for two classes, the data have {data.classes}.")
    information = tilted_feature_information(
        rows, data.base.labels, released, objective.penalties(rows.shape[1] + 1), objective.law, objective.scale,
        columns, _lengths(data, fitted, rows),
    )  # fmt: skip
    return information.per_unit(1 / _deviations(data, fitted)[columns])


def _put_on_grid(
    errors: np.ndarray,
    data: Dataset,
    regression: NoisyRegression,
    fitted: FittedScaling,
    columns: np.ndarray,
    steps: np.ndarray,
) -> None:
    """Write into `errors` what is proved of columns on a grid: from other values that occur in the column."""
    if data.features.ndim != 2 or not steps.any():
        return
    raw = np.asarray(data.base.features, float)
    penalty = np.full(raw.shape[1] + 1, regression.l2)
    refits = Refits.of(_with_bias(fitted.apply(raw)), data.base.labels.astype(float), regression.weights, penalty)
    for k in np.flatnonzero(steps):
        values = raw[:, columns[k]]
        errors[:, k] = 0.0
        for other_values in _other_values(values, steps[k]):
            moved = raw.copy()
            moved[:, columns[k]] = other_values
            far = refits.distances(_with_bias(fitted.apply(moved)))
            lower = grid_error_lower(np.abs(other_values - values), far, regression.noise_scale)
            errors[:, k] = np.maximum(errors[:, k], np.where(other_values == values, 0.0, lower))


def _other_values(values: np.ndarray, step: float) -> list[np.ndarray]:
    """Return where in its column each value is moved, both ways: to the next, and where they are close some further.

    Only values that occur are surely possible: a grid may have others that nobody can have, and an attacker need not be
    unbiased at those. A value that has none on a side stays as it is.
    """
    known = np.unique(values)
    neighbouring = []
    for away in sorted({max(step / 2, share * float(values.std())) for share in _SHARES}):
        above, below = np.searchsorted(known, values + away), np.searchsorted(known, values - away, "right") - 1
        neighbouring.append(np.where(above < len(known), known[np.minimum(above, len(known) - 1)], values))
        neighbouring.append(np.where(below >= 0, known[np.maximum(below, 0)], values))
    return neighbouring


def _with_bias(rows: np.ndarray) -> np.ndarray:
    """Return rows with a last column of ones."""
    return np.column_stack([rows, np.ones(len(rows))])


def _diameters(ends: tuple[np.ndarray, np.ndarray], steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the ranges' lengths; on a grid that an end is not on, the length that the column's own values have."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = [(end - values[0]) / steps for end in ends]
        whole = np.all(
            [np.abs(places_of_end - np.round(places_of_end)) < _TOLERANCE for places_of_end in places], axis=0
        )
    diameters: np.ndarray = np.where((steps > 0) & ~whole, np.ptp(values, axis=0), ends[1] - ends[0])
    return diameters


def _lengths(data: Dataset, fitted: FittedScaling, rows: np.ndarray) -> np.ndarray:
    """Return the rows' norms before they were shortened."""
    table = data.features.ndim == 2
    lengths: np.ndarray = np.linalg.norm(_unshortened(_flat(data.base.features), fitted) if table else rows, axis=1)
    before: np.ndarray = np.maximum(lengths, np.linalg.norm(rows, axis=1))
    return before


def _deviations(data: Dataset, fitted: FittedScaling) -> np.ndarray:
    """Return how many own units make one of each scaled feature."""
    count = int(np.prod(data.features.shape[1:]))
    deviations: np.ndarray = np.broadcast_to(fitted.deviation if data.features.ndim == 2 else 1.0, count)
    return deviations


def _unshortened(raw: np.ndarray, fitted: FittedScaling) -> np.ndarray:
    """Return the scaled rows before they are shortened to the norm bound."""
    within = raw.astype(float) if fitted.lower is None else np.clip(raw.astype(float), fitted.lower, fitted.upper)
    unshortened: np.ndarray = (within - fitted.mean) / fitted.deviation
    return unshortened


def _private_columns(data: Dataset, private: Sequence[str | int] | None) -> tuple[np.ndarray, list[str]]:
    """Return the private columns' numbers, and by default what was left out of them; a named category is an error."""
    values, names = _flat(data.base.features), data.feature_names
    encoded = [j for category in category_columns(data) for j in category.columns]
    categories = few_valued(values) if data.features.ndim > 2 else np.isin(np.arange(len(names)), encoded)
    if private is None:
        require(not categories.all(), "no feature is continuous; see mechanism_success_upper for categories.")
        count = int(categories.sum())
        return np.flatnonzero(~categories), [f"{count} of {len(names)} features left out: categories"] if count else []
    require(len(private) > 0, "private must name at least one feature.")
    columns = np.array([_column(name, names) for name in private])
    require(len(set(columns.tolist())) == len(columns), "private must name each feature once.")
    not_numbers = columns[categories[columns]]
    if len(not_numbers):
        raise not_continuous(f"feature {names[not_numbers[0]]!r}", values[:, not_numbers[0]])
    return columns, []


def _column(feature: str | int, names: tuple[str, ...]) -> int:
    """Return the number of a feature given by name or number."""
    if isinstance(feature, str):
        if feature not in names:
            raise unknown_name("feature", feature, names)
        return names.index(feature)
    require(0 <= feature < len(names), f"private features must be between 0 and {len(names) - 1}, got {feature}.")
    return int(feature)


def _public_ranges(data: Dataset, columns: np.ndarray) -> Ranges | None:
    """Return the data's own public ranges of these columns, None where there are none.

    A value beyond its range is at least half of it away from one of its ends too, which is all that the bound needs.
    """
    return None if data.ranges is None else {data.feature_names[j]: data.ranges[j] for j in columns}


def _ends(
    data: Dataset, columns: np.ndarray, values: np.ndarray, ranges: Ranges | None, own: bool
) -> tuple[tuple[np.ndarray, np.ndarray], bool]:
    """Return the private features' least and largest values, and whether all of them are public."""
    low, high = values.min(axis=0), values.max(axis=0)
    if ranges is None:
        return (low, high), False
    if not isinstance(ranges, Mapping):
        ranges = dict.fromkeys((data.feature_names[j] for j in columns), ranges)
    for name, (least, most) in ranges.items():
        place = np.flatnonzero(columns == _column(name, data.feature_names))
        require(len(place) == 1, f"ranges names {name!r}, which is not private.")
        inside = least <= low[place[0]] and high[place[0]] <= most
        require(
            own or inside, f"the range of {name!r} must hold all its values, {low[place[0]]:g} to {high[place[0]]:g}."
        )
        low[place[0]], high[place[0]] = least, most
    return (low, high), len(ranges) == len(columns)


def _learned(conditions: Conditions) -> list[str]:
    """Return the conditions on a proof: of preprocessing learned from the data, and of what private scaling tells."""
    learned = conditions.learned
    said = [f"proved only if {' and '.join(learned)} were public"] if learned else []
    return [*said, "what the private scaling tells of a record is not counted"] if any(conditions.spent) else said


def _prepared(data: Dataset) -> list[str]:
    """Return that features are not in their original units, where whole rows were scaled."""
    encoded = [j for category in category_columns(data) if not category.values for j in category.columns]
    if not encoded or np.isin(data.base.features[:, encoded], (0, 1)).all():
        return []
    return ["features as the data set prepares them: rows were scaled, so units are not the columns' own"]


def _flat(features: Any) -> np.ndarray:
    """Return images as rows."""
    return np.asarray(features).reshape(len(features), -1)


def _shown(value: float) -> str:
    """Return a number in two digits, without an exponent where that is readable."""
    return f"{value:.2g}" if value < 10 or value >= 1e6 else f"{float(f'{value:.2g}'):.0f}"
