"""What an attacker can at best learn of each person in a data set, feature by feature, in the features' own units.

For output-perturbed logistic regression the Fisher information is in closed form, person by person. For objective
perturbation and DP-SGD the bound follows from the mechanism alone and is the same for everybody; what DP-SGD revealed
of each record is recorded while it trains (`training_leakage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.reconstruction.error_bounds import feature_error_lower, rdp_feature_error_lower
from seedscope.analyses.reconstruction.logistic import logistic_feature_information
from seedscope.core import Kind, Number, require, unknown_name
from seedscope.datasets import Dataset, FittedScaling, Scaling, default_scaling, few_valued, not_continuous
from seedscope.mechanisms import Conditions, Mechanism, NoisyRegression

Ranges = Mapping[str, tuple[float, float]] | tuple[float, float]


@dataclass(frozen=True, eq=False)
class RecordBounds:
    """The least error of any unbiased attacker about each training record, who knows everything else.

    `feature_error_lower` [record, feature] is root mean squared, in each feature's own units; `spreads` are the
    features' standard deviations, the error of always guessing the mean: a bound above says that the model is of no use
    to the attacker. `units` measure the features in `error_lower`. Records are those models are trained on, in order.
    """

    ids: np.ndarray
    features: tuple[str, ...]
    feature_error_lower: np.ndarray
    spreads: np.ndarray
    units: np.ndarray
    kind: Kind
    note: str = ""

    @property
    def error_lower(self) -> np.ndarray:
        """The least mean squared error over the features in their `units`, [record]: the reciprocal of the dFIL."""
        with np.errstate(divide="ignore"):
            error: np.ndarray = 1 / ((self.units / self.feature_error_lower) ** 2).mean(axis=1)
            return error

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
        found, spread = self.of(record, feature), float(self.spreads[self.features.index(feature)])
        who = f"record {self.ids[record]}"
        if found.value >= spread:
            said = (
                f"The model helps no unbiased attacker to know {feature} of {who}: whoever always guesses the mean is "
                f"off by {_shown(spread)} on average, and with the model by {_shown(found.value)} or more"
            )
        else:
            said = (
                f"No unbiased attacker can know {feature} of {who} to better than ±{_shown(found.value)} on average, "
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
) -> RecordBounds:
    """Return how well any unbiased attacker can at best know each feature of each training record.

    Args:
        data: whose training rows are protected, features in their own units.
        mechanism: one with a proved guarantee; from its divergence follows a bound that is the same for everybody.
        scaling: how features are scaled before training; the default is that of `train`.
        private: names or numbers of the features that the attacker does not know; by default all that are continuous.
        ranges: least and largest possible value of each private feature by name, or one pair for all: public knowledge,
            which bounds from the divergence need. Ranges of the data in their place make the bound an *estimate*.
        regression: of a mechanism that has one, `mechanism.regression(data, scaling.fit(data))`: with it the bound is
            from the Fisher information, record by record.

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
    columns, left_out = _private_columns(data, private)
    values = _flat(data.base.features)[:, columns].astype(float)
    exact, notes = None, []
    if regression is not None:
        exact, notes = _from_information(data, regression, fitted, columns), _learned(fitted)
    ends, public = _ends(data, columns, values, _public_ranges(data, columns) if ranges is None else ranges)
    if exact is None or public:
        divergence = mechanism.order_two(Conditions.of(data, fitted))
        everybody = np.broadcast_to(rdp_feature_error_lower(divergence, ends[1] - ends[0]), values.shape)
        exact = everybody if exact is None else np.maximum(exact, everybody)
    kind: Kind = "proved" if (regression is not None or public) and not fitted.learned else "estimate"
    if regression is None and not public:
        notes = [*notes, "ranges of the features taken from the data"]
    spreads = values.std(axis=0)
    units = np.where(spreads > 0, spreads, 1.0) if fitted.learned else np.ones(len(columns))
    names = tuple(data.feature_names[j] for j in columns)
    return RecordBounds(data.base.ids, names, exact, spreads, units, kind, "; ".join([*notes, *left_out]))


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


def _from_information(
    data: Dataset, regression: NoisyRegression, fitted: FittedScaling, columns: np.ndarray
) -> np.ndarray:
    """Return the least errors [record, private column] from the Fisher information at the minimiser, in own units."""
    raw, labels = _flat(data.base.features), data.base.labels
    rows = _flat(fitted.apply(data.base.features)).astype(float)
    deviations = np.broadcast_to(fitted.deviation, raw.shape[1]) if data.features.ndim == 2 else np.ones(raw.shape[1])
    lengths = np.linalg.norm(_unshortened(raw, fitted) if data.features.ndim == 2 else rows, axis=1)
    information = logistic_feature_information(
        rows, labels, regression.weights, regression.l2, regression.noise_scale, columns, lengths
    )
    return feature_error_lower(information, deviations[columns])


def _unshortened(raw: np.ndarray, fitted: FittedScaling) -> np.ndarray:
    """Return the scaled rows before they are shortened to the norm bound."""
    unshortened: np.ndarray = (raw.astype(float) - fitted.mean) / fitted.deviation
    return unshortened


def _private_columns(data: Dataset, private: Sequence[str | int] | None) -> tuple[np.ndarray, list[str]]:
    """Return the private columns' numbers, and by default what was left out of them; a named category is an error."""
    values, names = _flat(data.base.features), data.feature_names
    rare = {} if data.features.ndim > 2 else {"least_share": 0.0}  # a table's rare category is one all the same
    if private is None:
        categories = few_valued(values, **rare)
        require(not categories.all(), "no feature is continuous; see mechanism_success_upper for categories.")
        count = int(categories.sum())
        return np.flatnonzero(~categories), [f"{count} of {len(names)} features left out: categories"] if count else []
    require(len(private) > 0, "private must name at least one feature.")
    columns = np.array([_column(one, names) for one in private])
    require(len(set(columns.tolist())) == len(columns), "private must name each feature once.")
    found = columns[few_valued(values[:, columns], **rare)]
    if len(found):
        raise not_continuous(f"feature {names[found[0]]!r}", values[:, found[0]])
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
    """Return the data's own public ranges of these columns, None where there are none, or values lie beyond them."""
    if data.ranges is None:
        return None
    low, high = np.array(data.ranges)[columns].T
    values = _flat(data.base.features)[:, columns]
    inside = bool(((values >= low) & (values <= high)).all())
    return {data.feature_names[j]: data.ranges[j] for j in columns} if inside else None


def _ends(
    data: Dataset, columns: np.ndarray, values: np.ndarray, ranges: Ranges | None
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
        require(inside, f"the range of {name!r} must hold all its values, {low[place[0]]:g} to {high[place[0]]:g}.")
        low[place[0]], high[place[0]] = least, most
    return (low, high), len(ranges) == len(columns)


def _learned(fitted: FittedScaling) -> list[str]:
    """Return the condition that scaling learned from the data puts on a proof."""
    return ["proved only if the scaling were public"] if fitted.learned else []


def _flat(features: Any) -> np.ndarray:
    """Return images as rows."""
    return np.asarray(features).reshape(len(features), -1)


def _shown(value: float) -> str:
    """Return a number in two digits, without an exponent where that is readable."""
    return f"{value:.2g}" if value < 10 or value >= 1e6 else f"{float(f'{value:.2g}'):.0f}"
