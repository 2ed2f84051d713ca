"""The intrinsic epsilon of SGD: its sensitivity and its own randomness, read as a Gaussian mechanism (IP1, IP2).

Every epsilon here is an *estimate*: it takes the weights' distribution to be Gaussian with the measured spread, and a
sensitivity that is measured on some people, or proved for another quantity than the one that the noise hides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import classical_gaussian_epsilon, gaussian_epsilon
from seedscope.analyses.intrinsic.distances import data_distances
from seedscope.analyses.intrinsic.normality import shapiro_wilk
from seedscope.analyses.intrinsic.sensitivity import (
    EmpiricalSensitivity,
    empirical_sensitivity,
    extrapolated_sensitivity,
)
from seedscope.analyses.intrinsic.spread import (
    ResampledVariability,
    Variability,
    bootstrap_shares,
    resampled_variability,
    variability,
)
from seedscope.analyses.intrinsic.weight_grid import checked_weights
from seedscope.core import (
    Number,
    SeedscopeError,
    Shown,
    interval_plot,
    require,
    require_count,
    require_probability,
    unknown_name,
)

VariabilityName = Literal["flat", "min", "eigen"]
VARIABILITIES = ("flat", "min", "max", "eigen")
SENSITIVITIES = ("bound", "strict", "all_pairs", "extrapolated")
EPSILONS = ("epsilon_bound", "epsilon_strict", "epsilon_all_pairs", "epsilon_all_pairs_classical")
TESTED_WEIGHTS = 1000  # of large networks, drawn at random
FORMULAS = {"analytic": gaussian_epsilon, "classical": classical_gaussian_epsilon}
# A bootstrap knows nothing beyond an extreme of its sample: simulated, none of these keeps its confidence.
EXTREMES = {
    "strict": "a maximum over the seeds and people drawn",
    "all_pairs": "a maximum over the seeds and people drawn",
    "extrapolated": "a tail fitted to few people",
    "min": "the least of many weights",
    "max": "the largest of many weights",
    "eigen": "the least of all directions",
}


@dataclass(frozen=True)
class Refused:
    """The reason why a number is not given."""

    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class IntrinsicPrivacy(Shown):
    """What the seed hides: sensitivities, variabilities and the epsilons they amount to; None where refused.

    `refused` has the reason for each None, by attribute. The `epsilon_…` attributes use the variability named in
    `variability_used`; `epsilon()` gives every other combination. `stability` has the smallest and the largest value of
    each variability over the data sets of the grid (IP1 Table 6, IP2 Table 5). Intervals resample the seeds; only the
    pooled spread and the ε of a bound over it have one, since a bootstrap does not cover the other spreads and the
    largest distances, which are extremes of a sample: their notes say so. Of `tested_weights` Shapiro–Wilk
    rejects `rejected_weights` as Gaussian over the base's seeds (Bonferroni, 5 % in all); each epsilon's note says so.
    """

    sensitivity_bound: Number | None
    sensitivity_strict: Number
    sensitivity_all_pairs: Number
    sensitivity_extrapolated: Number | None
    variability_flat: Number
    variability_min: Number
    variability_max: Number
    variability_eigen: Number | None
    delta: float
    epsilon_bound: Number | None
    epsilon_strict: Number | None
    epsilon_all_pairs: Number | None
    epsilon_all_pairs_classical: Number | None
    epsilons: Mapping[tuple[str, str, str], Number]
    refused: Mapping[str, str]
    stability: Mapping[str, tuple[float, float]]
    variability_used: str
    seeds: int
    neighbours: int
    parameters: int
    tested_weights: int = 0
    rejected_weights: int = 0
    init: str | None = None
    step: int | None = None
    relation: str = "replace_one"

    def summary(self) -> dict[str, Any]:
        """Return one person's reach, the seeds' spread, and the ε that the two amount to."""
        return {
            "reach of one person": self.sensitivity_strict,
            "spread over seeds": self.variability_flat,
            "epsilon": self.epsilon_strict,
            "delta": f"{self.delta:g}",
            "seeds": self.seeds,
            "neighbours": self.neighbours,
        }

    def plot(self) -> Any:
        """Return a chart (Altair) of every ε that was not refused, by sensitivity and variability, with intervals."""
        choices = [
            (f"{sensitivity.replace('_', ' ')} over {spread}", number)
            for (sensitivity, spread, formula), number in self.epsilons.items()
            if formula == "analytic"
        ]
        require(choices, "there is no ε to plot: each was refused, see refused.")
        return interval_plot(
            choices, title=f"The ε that the seed's noise would amount to (δ = {self.delta:g})", meaning="ε (estimate)"
        )

    @property
    def gaussian_is_plausible(self) -> bool:
        """Whether no weight is rejected as Gaussian; otherwise a Gaussian mechanism's epsilon means little."""
        return self.rejected_weights == 0

    def epsilon(self, sensitivity: str, variability: str, formula: str = "analytic") -> Number:
        """Return the epsilon of a sensitivity (bound, strict, all_pairs, extrapolated), variability and formula.

        Raises with the reason where one of the two was refused.
        """
        for kind, name, known in (
            ("sensitivity", sensitivity, SENSITIVITIES),
            ("variability", variability, VARIABILITIES),
            ("formula", formula, tuple(FORMULAS)),
        ):
            if name not in known:
                raise unknown_name(kind, name, known)
        if (epsilon := self.epsilons.get((sensitivity, variability, formula))) is not None:
            return epsilon
        reasons = (self.refused.get(f"sensitivity_{sensitivity}"), self.refused.get(f"variability_{variability}"))
        raise SeedscopeError(" ".join(reason for reason in reasons if reason))

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON needs: every number with its kind, every refusal with its reason."""
        result: dict[str, Any] = {}
        for name in (field.name for field in fields(self) if field.name != "epsilons"):
            value = getattr(self, name)
            result[name] = value.as_dict() if isinstance(value, Number) else value
        result["refused"], result["stability"] = dict(self.refused), {k: list(v) for k, v in self.stability.items()}
        result["epsilons"] = [
            {"sensitivity": sensitivity, "variability": spread, "formula": formula, **number.as_dict()}
            for (sensitivity, spread, formula), number in self.epsilons.items()
        ]
        return result


@dataclass(frozen=True)
class Bootstrap:
    """How intervals over seeds are made, by the basic bootstrap of a scale: `draws` resamplings of the seeds."""

    confidence: float = 0.95
    draws: int = 500
    seed: int = 0


@dataclass(frozen=True)
class _Resampled:
    """A number with its bootstrap values [draw]; None where no interval made of them would cover."""

    number: Number
    draws: np.ndarray | None = None


NO_BOUND = Refused("no theoretical bound was given.")
DEFAULT_BOOTSTRAP = Bootstrap()


def intrinsic_privacy_from_weights(
    weights: ArrayLike,
    examples: int,
    *,
    sensitivity_bound: Number | Refused = NO_BOUND,
    delta: float | None = None,
    variability_used: VariabilityName = "flat",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    neighbours_are_random: bool = True,
    seed_names: Sequence[object] | np.ndarray | None = None,
    drop_diverged: bool = False,
) -> IntrinsicPrivacy:
    """Return the intrinsic privacy of one grid of weights.

    Args:
        weights: [seed, dataset, parameter], dataset 0 the base D, the others its neighbours D_i.
        examples: N, rows of the training data.
        sensitivity_bound: the theoretical sensitivity, or why there is none; see `sgd_sensitivity_bound`.
        delta: default 1/N².
        variability_used: "flat" (IP1), "min" (IP2) or "eigen" (conservative where weights correlate) for `epsilon_…`.
        bootstrap: how intervals over seeds are made.
        neighbours_are_random: whether they were drawn uniformly; otherwise nothing is extrapolated to all people.
        seed_names: how to name seeds in an error.
        drop_diverged: leave out seeds with weights that are not finite; otherwise they are an error.

    >>> rng = np.random.default_rng(0)
    >>> grid = rng.normal(scale=0.1, size=(200, 1, 3)) + np.array([0.0, 0.01, -0.01])[:, None]
    >>> found = intrinsic_privacy_from_weights(grid, examples=1000)
    >>> round(found.sensitivity_strict.value, 4), round(found.sensitivity_all_pairs.value, 4)
    (0.0173, 0.0346)
    >>> round(found.variability_flat.value, 2), found.epsilon_strict.kind, found.refused["sensitivity_bound"]
    (0.1, 'estimate', 'no theoretical bound was given.')

    IP1 Algorithm 2 and Table 3; IP2 Algorithm 1 and Table 4, with errata: exact epsilon, strict pairs beside all pairs.
    """
    array = checked_weights(weights, seed_names=seed_names, drop_diverged=drop_diverged, least_datasets=2)
    require_count("examples", examples, at_least=2)
    if variability_used not in ("flat", "min", "eigen"):
        raise unknown_name("variability", variability_used, ("flat", "min", "eigen"))
    chosen_delta = 1 / examples**2 if delta is None else delta
    require_probability("delta", chosen_delta)
    shares = bootstrap_shares(len(array), bootstrap.draws, bootstrap.seed)
    spread = variability(array)
    people = examples if neighbours_are_random else None
    parts = _Parts(
        _sensitivities(empirical_sensitivity(array), sensitivity_bound, people, bootstrap),
        _variabilities(spread, resampled_variability(array, shares), array.shape, bootstrap.confidence),
    )
    privacy = _assembled(parts, chosen_delta, variability_used, bootstrap.confidence, _stability(spread), array.shape)
    return _marked(privacy, *_rejected_weights(array[:, 0]))


def _rejected_weights(rows: np.ndarray) -> tuple[int, int]:
    """Return how many of the base's weights are tested for normality over seeds, and how many are rejected."""
    moving = np.flatnonzero(np.ptp(rows, axis=0) > 0)
    if len(moving) > TESTED_WEIGHTS:
        moving = np.random.default_rng(0).permutation(moving)[:TESTED_WEIGHTS]
    if len(moving) == 0:
        return 0, 0
    return len(moving), int(shapiro_wilk(rows[:, moving]).rejected.sum())


def _marked(privacy: IntrinsicPrivacy, tested: int, rejected: int) -> IntrinsicPrivacy:
    """Return the result with the normality test beside it, and in the note of every epsilon where it is rejected."""
    counted = replace(privacy, tested_weights=tested, rejected_weights=rejected)
    if rejected == 0:
        return counted
    note = f"not Gaussian: Shapiro–Wilk rejects {rejected} of {tested} weights"
    chosen = {
        name: replace(number, note=_joined(number.note, note))
        for name in EPSILONS
        if (number := getattr(privacy, name)) is not None
    }
    marked = {key: replace(number, note=_joined(number.note, note)) for key, number in privacy.epsilons.items()}
    return replace(counted, epsilons=marked, **chosen)


def _joined(*notes: str) -> str:
    """Return the notes that say something, one after the other."""
    return "; ".join(note for note in notes if note)


@dataclass(frozen=True)
class _Parts:
    """The sensitivities and variabilities by name, or why they are refused."""

    sensitivities: Mapping[str, _Resampled | Refused]
    variabilities: Mapping[str, _Resampled | Refused]

    def numbers(self) -> dict[str, Number | Refused]:
        """Return the numbers and refusals by attribute."""
        named = {f"sensitivity_{name}": value for name, value in self.sensitivities.items()}
        named |= {f"variability_{name}": value for name, value in self.variabilities.items()}
        return {name: value if isinstance(value, Refused) else value.number for name, value in named.items()}


def _assembled(
    parts: _Parts,
    delta: float,
    variability_used: str,
    confidence: float,
    stability: Mapping[str, tuple[float, float]],
    shape: tuple[int, ...],
) -> IntrinsicPrivacy:
    """Return the result object: numbers, None where refused, and the reasons."""
    epsilons = _epsilons(parts, delta, confidence)
    numbers = parts.numbers()
    numbers |= _chosen_epsilons(epsilons, numbers, variability_used)
    given: dict[str, Any] = {name: None if isinstance(number, Refused) else number for name, number in numbers.items()}
    return IntrinsicPrivacy(
        **given,
        delta=delta,
        epsilons=epsilons,
        refused={name: value.reason for name, value in numbers.items() if isinstance(value, Refused)},
        stability=stability,
        variability_used=variability_used,
        seeds=shape[0],
        neighbours=shape[1] - 1,
        parameters=shape[2],
    )


def _sensitivities(
    sensitivity: EmpiricalSensitivity, bound: Number | Refused, people: int | None, bootstrap: Bootstrap
) -> dict[str, _Resampled | Refused]:
    """Return the four sensitivities; a bound is the same in every bootstrap sample."""
    fixed = bound if isinstance(bound, Refused) else _Resampled(bound, np.full(bootstrap.draws, float(bound)))
    return {
        "bound": fixed,
        "strict": _extreme("strict", sensitivity.strict),
        "all_pairs": _extreme("all_pairs", sensitivity.all_pairs),
        "extrapolated": _extrapolated(sensitivity, bound, people, bootstrap.confidence),
    }


def _extreme(name: str, value: float, note: str = "") -> _Resampled:
    """Return an estimate without an interval, and why it has none."""
    return _Resampled(Number(float(value), "estimate", note=_joined(_no_interval(name), note)))


def _no_interval(name: str) -> str:
    """Return why a number has no interval; nothing where it has one."""
    return f"no interval: {EXTREMES[name]}" if name in EXTREMES else ""


def _extrapolated(
    sensitivity: EmpiricalSensitivity, bound: Number | Refused, people: int | None, confidence: float
) -> _Resampled | Refused:
    """Return the extrapolation to all people, not above the proved bound."""
    if people is None:
        return Refused("people chosen by name say nothing about all the others.")
    try:
        number = extrapolated_sensitivity(sensitivity.strict_by_neighbour, people, confidence=confidence)
    except SeedscopeError as error:
        return Refused(str(error))
    if isinstance(bound, Number) and bound.kind == "proved" and number.value > bound.value:
        number = Number(bound.value, "estimate", note=f"{number.note}, cut at the proved bound")
    return _Resampled(number)


def _variabilities(
    spread: Variability, resampled: ResampledVariability, shape: tuple[int, ...], confidence: float
) -> dict[str, _Resampled | Refused]:
    """Return the variabilities, the pooled one with its bootstrap values over seeds."""
    result: dict[str, _Resampled | Refused] = {
        "flat": _resampled(spread.flat.min(), resampled.flat, confidence),
        "min": _extreme("min", spread.smallest.min()),
        "max": _extreme("max", spread.largest.max()),
    }
    seeds, _, parameters = shape
    if spread.eigen is None:
        return result | {
            "eigen": Refused(
                f"the smallest eigenvalue of the covariance needs more seeds than parameters, got {seeds} seeds and "
                f"{parameters} parameters; train more seeds."
            )
        }
    # With d parameters and n seeds the smallest eigenvalue is low by about (1 − √(d/n))² (Marchenko & Pastur 1967).
    low = 1 - np.sqrt(parameters / seeds)
    note = (
        f"low by a factor of about {low:.2g} for uncorrelated weights, since {seeds} seeds are few" if low < 0.8 else ""
    )
    return result | {"eigen": _extreme("eigen", spread.eigen.min(), note)}


def _resampled(value: float, draws: np.ndarray, confidence: float) -> _Resampled:
    """Return the number with its interval and its bootstrap values."""
    return _Resampled(_number(float(value), draws, confidence), draws)


def _number(value: float, draws: np.ndarray, confidence: float) -> Number:
    """Return an estimate with its bootstrap interval, widened to hold the estimate.

    The draws are to the estimate what the estimate is to the truth, so the ends are value²/quantile.
    """
    if value == 0 or not np.isfinite(value):
        return Number(value, "estimate", value, value, confidence)
    tail = (1 - confidence) / 2
    high, low = np.quantile(draws, (1 - tail, tail), method="inverted_cdf")
    with np.errstate(divide="ignore"):
        lower, upper = value * (value / np.array([high, low]))
    return Number(value, "estimate", min(float(lower), value), max(float(upper), value), confidence)


def _epsilons(parts: _Parts, delta: float, confidence: float) -> dict[tuple[str, str, str], Number]:
    """Return epsilon for every sensitivity, variability and formula that was not refused."""
    result = {}
    for sensitivity, size in parts.sensitivities.items():
        for name, spread in parts.variabilities.items():
            if isinstance(size, Refused) or isinstance(spread, Refused):
                continue
            ratio = _ratio_number(size, spread, confidence, _joined(_no_interval(sensitivity), _no_interval(name)))
            for formula in FORMULAS:
                result[sensitivity, name, formula] = _epsilon(ratio, formula, delta)
    return result


def _ratio_number(size: _Resampled, spread: _Resampled, confidence: float, note: str) -> Number:
    """Return Δ/σ, with an interval only where both parts have one that covers."""
    value = float(_ratio(size.number.value, spread.number.value))
    if size.draws is None or spread.draws is None:
        return Number(value, "estimate", note=note)
    return _number(value, _ratio(size.draws, spread.draws), confidence)


def _ratio(sensitivity: ArrayLike, noise_scale: ArrayLike) -> np.ndarray:
    """Return Δ/σ: 0 where nothing moves, infinite where something moves and no noise hides it."""
    size, spread = np.asarray(sensitivity, float), np.asarray(noise_scale, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(size == 0, 0.0, size / spread)


def _epsilon(ratio: Number, formula: str, delta: float) -> Number:
    """Return the epsilon of a ratio Δ/σ with its interval, if it has one: epsilon grows with the ratio."""
    sides = (ratio.value, ratio.lower, ratio.upper)
    value, lower, upper = (None if side is None else _epsilon_value(side, formula, delta) for side in sides)
    assert value is not None  # only the interval may be missing
    unproved = "classical formula, unproved above 1" if formula == "classical" else ""
    return Number(value, "estimate", lower, upper, ratio.confidence, _joined(unproved, ratio.note))


def _epsilon_value(ratio: float, formula: str, delta: float) -> float:
    """Return the epsilon of one ratio; infinite where nothing hides the change."""
    return float(FORMULAS[formula](ratio, 1.0, delta)) if np.isfinite(ratio) else np.inf


def _chosen_epsilons(
    epsilons: Mapping[tuple[str, str, str], Number], numbers: Mapping[str, Number | Refused], spread: str
) -> dict[str, Number | Refused]:
    """Return the epsilons with an attribute of their own, or why they are refused."""
    result: dict[str, Number | Refused] = {}
    for attribute, sensitivity, formula in (
        ("epsilon_bound", "bound", "analytic"),
        ("epsilon_strict", "strict", "analytic"),
        ("epsilon_all_pairs", "all_pairs", "analytic"),
        ("epsilon_all_pairs_classical", "all_pairs", "classical"),
    ):
        parts = (numbers[f"sensitivity_{sensitivity}"], numbers[f"variability_{spread}"])
        reasons = [part.reason for part in parts if isinstance(part, Refused)]
        result[attribute] = Refused(" ".join(reasons)) if reasons else epsilons[sensitivity, spread, formula]
    return result


def _stability(spread: Variability) -> dict[str, tuple[float, float]]:
    """Return the smallest and the largest value of each variability over the data sets."""
    named = {"flat": spread.flat, "min": spread.smallest, "max": spread.largest, "eigen": spread.eigen}
    return {name: (float(v.min()), float(v.max())) for name, v in named.items() if v is not None}


def pairwise_epsilon(weights: ArrayLike, noise_scale: float, delta: float, *, strict: bool = True) -> np.ndarray:
    """Return the epsilon of every single pair of neighbouring data sets, [seed, pair]: a distribution, not its worst.

    Args:
        weights: [seed, dataset, parameter], dataset 0 the base.
        noise_scale: the variability to compare with.
        delta: in (0, 1).
        strict: pairs (D, D_i); otherwise all pairs (D_i, D_j) as in the papers.

    >>> grid = np.array([[0.0], [1.0], [0.0]]) * np.ones((3, 1, 1))
    >>> pairwise_epsilon(grid, noise_scale=1.0, delta=1e-5)[0].round(2).tolist()
    [4.38, 0.0]

    IP1 App. C, Eq. (9).
    """
    return gaussian_epsilon(data_distances(weights, strict=strict), noise_scale, delta)
