"""Per-instance privacy of a trained ensemble: everybody whose gradient norms were recorded, in both directions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import dpsgd_epsilon, path_epsilon, pld_epsilon, rdp_to_epsilon, sampled_gaussian_rdp
from seedscope.analyses.per_instance.composition import default_holder, expected_contributions
from seedscope.analyses.per_instance.everybody import everybodys_rdp, path_sums
from seedscope.analyses.per_instance.meaning import membership_advantage, memorisation, true_positive_rate
from seedscope.analyses.per_instance.paths import PATH_ORDERS, cut_off, paths_rdp, paths_rdp_upper
from seedscope.analyses.per_instance.unlearning import Divergence
from seedscope.core import BASE, Number, SeedscopeError, require, require_probability, unknown_name
from seedscope.planning import Norms
from seedscope.storage import Ensemble

ORDERS = (1.1, 1.25, 1.5, 1.75, 2.0, 2.2, 2.4, 2.7, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
HOLDERS_PER_STEP = (3.0, 10.0, 100.0)
TRAINING_ALONE = "of training alone: preprocessing saw the rows too"
FEW_RUNS = 100  # below, an estimate is often under what it estimates


@dataclass(frozen=True)
class Training:
    """What the accounting needs of a run of DP-SGD with Poisson batches."""

    noise_multiplier: float
    clipping_norm: float
    sampling_probability: float
    steps: int
    every: int
    delta: float

    def baseline(self, orders: ArrayLike) -> np.ndarray:
        """Return the data-independent divergence of the whole run at each order."""
        return self.steps * self.step_baseline(orders)

    def step_baseline(self, orders: ArrayLike) -> np.ndarray:
        """Return the data-independent divergence of one step."""
        return sampled_gaussian_rdp(1.0, self.noise_multiplier, self.sampling_probability, orders)


@dataclass(frozen=True, eq=False)
class PerInstancePrivacy:
    """How well each person is hidden by this training on these data, beside what is guaranteed for any data.

    Arrays are over the watched people: `people` are their places on the ensemble's person axis. `rdp` [person, order]
    is the larger of the directions that were measured: `rdp_with`, D(trained with‖without) from runs with the person,
    and `rdp_without`, D(without‖with) from runs without; NaN where no such runs were made. Each is the smaller of two
    compositions: `by_steps` (GLA's theorem; NaN where only path sums were recorded) and `by_paths` (one Hölder step).
    `epsilon` [person] is an estimate, with
    few runs often below the truth. `epsilon_statistical` and `advantage_statistical` hold for everybody at once with
    the confidence over the runs drawn, whichever composition gave them; NaN where norms were not recorded at every step
    or a direction is missing. `epsilon_baseline` is the guarantee for any data by Rényi divergences,
    `epsilon_baseline_pld` by the privacy-loss distribution: a better accountant gives it to everybody. All numbers of
    people depend on the data: they are not for publication.
    """

    people: np.ndarray
    rows: np.ndarray
    part: str
    orders: np.ndarray
    delta: float
    rdp: np.ndarray
    rdp_with: np.ndarray
    rdp_without: np.ndarray
    by_steps: np.ndarray
    by_paths: np.ndarray
    epsilon: np.ndarray
    epsilon_statistical: np.ndarray
    advantage_statistical: np.ndarray
    epsilon_baseline: Number
    epsilon_baseline_pld: Number
    baseline: np.ndarray
    confidence: float
    runs: int
    training: Training

    @property
    def both_directions(self) -> np.ndarray:
        """Where both directions were measured: only there `epsilon` covers adding and removing the person."""
        both: np.ndarray = ~np.isnan(self.rdp_with[:, 0]) & ~np.isnan(self.rdp_without[:, 0])
        return both

    @property
    def epsilon_everybody(self) -> float:
        """The smallest ε that holds for anybody in any data: what is not below it is nobody's own."""
        return min(float(self.epsilon_baseline), float(self.epsilon_baseline_pld))

    @property
    def own_statistical(self) -> np.ndarray:
        """`epsilon_statistical` where it is a person's own; NaN where it is only what everybody has."""
        own: np.ndarray = np.where(self.epsilon_statistical < self.epsilon_everybody, self.epsilon_statistical, np.nan)
        return own

    def number(self, place: int) -> Number:
        """Return one watched person's epsilon as a number with its kind; the statistical bound is its `upper`."""
        upper = self.epsilon_statistical[place]
        note = "; ".join([*([] if self.both_directions[place] else ["one direction only"]), *self._few_runs()])
        if np.isnan(upper):
            return Number(float(self.epsilon[place]), "estimate", note=note)
        value = float(self.epsilon[place])
        return Number(value, "estimate", lower=0.0, upper=float(upper), confidence=self.confidence, note=note)

    def caveats(self) -> list[str]:
        """Return what must be said of the estimates: of whom one direction is missing, and that runs are few."""
        lacking, people = int((~self.both_directions).sum()), len(self.people)
        whom = "" if lacking == people else f" for {lacking:,} of {people:,} people"
        alone = [self.epsilon_baseline.note] if self.epsilon_baseline.note else []
        return [*alone, *([f"one direction only{whom}"] if lacking else []), *self._few_runs()]

    def _few_runs(self) -> list[str]:
        """Return that estimates from few runs are often below what they estimate, where they are few."""
        if self.runs >= FEW_RUNS:
            return []
        return [f"from {self.runs} runs, so often below the true divergence"]

    def shares(self, order: float) -> np.ndarray:
        """Return each person's divergence of the whole run over the data-independent one, at an order computed."""
        places = np.flatnonzero(np.isclose(self.orders, order))
        require(len(places) > 0, f"order must be one of those computed, {self.orders.tolist()}, got {order}.")
        share: np.ndarray = self.rdp[:, places[0]] / self.baseline[places[0]]
        return share

    def true_positive_rate(self, false_positive_rate: ArrayLike) -> np.ndarray:
        """Return, estimated, the largest true-positive rate of a membership attack on each person [person, rate]."""
        rates = np.atleast_1d(np.asarray(false_positive_rate, float))
        return true_positive_rate(self.rdp[:, None, :], self.orders, rates)

    def membership_advantage(self) -> np.ndarray:
        """Return, estimated, the largest membership advantage over each person."""
        return membership_advantage(self.rdp, self.orders)

    def memorisation(self, accuracy_without: ArrayLike) -> np.ndarray:
        """Return, estimated, the most that training on each person adds to the chance to be right about them."""
        return memorisation(self.rdp, self.orders, accuracy_without)

    def divergence(self, row: int) -> Divergence:
        """Return the curve D_α(trained with‖without) of a training row, for an unlearning schedule."""
        places = np.flatnonzero(self.rows == row)
        known = len(places) and self.part != "test" and not np.isnan(self.rdp_with[places[0], 0])
        require(known, f"gradient norms of row {row} were not recorded along runs with it; record Norms(of='train').")
        return Divergence(self.orders, self.rdp_with[places[0]])


def per_instance_privacy(
    ensemble: Ensemble,
    *,
    delta: float | None = None,
    orders: ArrayLike = ORDERS,
    holder: float | None = None,
    confidence: float = 0.95,
    init: str | None = None,
) -> PerInstancePrivacy:
    """Return the privacy of everybody whose gradient norms an ensemble of DP-SGD models recorded.

    Runs on the base data are runs *with* the watched training rows; runs on the data without a row give its other
    direction. For watched test rows the base runs are the runs *without*, and adding the row is what is bounded.

    Args:
        ensemble: trained by DPSGD with Poisson batches, sum rule, relation add-or-remove, `Records(norms=Norms(…))`.
        delta: default the mechanism's.
        orders: Rényi orders to minimise over.
        holder: the Hölder constant of the composition by steps; by default the best of 3n, 10n and 100n for each
            person and order. The statistical bound takes the given one, else 3n: it must not be chosen by the runs.
        confidence: of `epsilon_statistical`, for everybody, all orders and both directions at once.
        init: "varied" or "fixed"; default "varied" where it was trained.

    GLA Theorems 3.2 and 3.3.
    """
    training = training_of(ensemble, delta)
    require_probability("confidence", confidence)
    alphas = np.asarray(orders, float)
    sides = _directions(ensemble, init)
    people = ensemble.dataset.sizes["watched"]
    covered = 2 * people

    def bounds(places: np.ndarray, recorded: np.ndarray) -> _Bounds:
        """Return one direction's bounds from norms, or path sums."""
        if len(places) == 0:
            return _nobody(alphas)
        if "path_order" in ensemble.dataset.dims:
            path_orders = ensemble.dataset["path_order"].values
            return _path_bounds(np.moveaxis(recorded, 1, 2), path_orders, training, alphas, confidence, covered)
        return _bounds(recorded, training, alphas, holder, confidence, covered)

    found = [bounds(places, recorded) for places, recorded in sides]
    return _summed_up(ensemble, training, alphas, [places for places, _ in sides], found, confidence)


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Of one direction: estimated divergences [person, order] by both compositions, and what holds with a confidence.

    `upper` [person, order] are divergences, `epsilon` [person] and `advantage` [person] come from the cut-off.
    """

    by_steps: np.ndarray
    by_paths: np.ndarray
    upper: np.ndarray
    epsilon: np.ndarray
    advantage: np.ndarray


@dataclass(frozen=True, eq=False)
class StepShares:
    """Divergences of single steps as fractions of the data-independent one, and correctness, [run, state, person]."""

    steps: np.ndarray
    shares: np.ndarray
    correct: np.ndarray
    order: float


def step_shares(ensemble: Ensemble, order: float = 8.0, *, init: str | None = None) -> StepShares:
    """Return how large each watched person's step divergence is at every recorded state of the runs on the base data.

    GLA Theorem 3.2, Figures 2 and 3.
    """
    training, chosen = training_of(ensemble), _init_place(ensemble, init)
    _require_norms(ensemble)
    base = ensemble.dataset.isel(init=chosen).sel(neighbour=BASE)
    relative = np.minimum(base["gradient_norms"].values / training.clipping_norm, 1.0)
    rdp = sampled_gaussian_rdp(relative, training.noise_multiplier, training.sampling_probability, order)
    shares = rdp / training.step_baseline(order)
    return StepShares(base["norm_step"].values, shares, base["correct"].values, order)


def contribution_shares(
    ensemble: Ensemble, order: float = 8.0, holder: float | None = None, *, init: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (steps, shares [person, step]): contributions along the base runs over the data-independent step's.

    Only steps whose state was recorded. GLA Theorem 3.3, Figures 1 and 5; above 1 in early steps where the growth of
    orders costs more than the average gains.
    """
    training, chosen = training_of(ensemble), _init_place(ensemble, init)
    _require_norms(ensemble)
    base = ensemble.dataset.isel(init=chosen).sel(neighbour=BASE)
    before_last = base["norm_step"].values < training.steps
    steps = base["norm_step"].values[before_last]
    relative = np.minimum(base["gradient_norms"].values[:, before_last] / training.clipping_norm, 1.0)
    p = default_holder(training.steps) if holder is None else holder
    contributions = expected_contributions(
        np.moveaxis(relative, 2, 0), training.noise_multiplier, training.sampling_probability, order, p,
        steps_before_last=training.steps - 1 - steps,
    )  # fmt: skip
    return steps, contributions / training.step_baseline(order)


def run_epsilon(ensemble: Ensemble, place: int, run: int = 0, *, init: str | None = None) -> Number:
    """Return one watched person's ε of one run on the base data, by the privacy-loss distribution of its own steps.

    *This run's*, output-specific: what would hold had the norms along it been known before. An estimate, and the fair
    comparison with `epsilon_baseline_pld`: the same accountant with the person's norms in the clipping norm's place.
    """
    training, chosen = training_of(ensemble), _init_place(ensemble, init)
    _require_norms(ensemble)
    norms = ensemble.dataset["gradient_norms"].isel(init=chosen, seed=run, watched=place).sel(neighbour=BASE).values
    states = np.arange(training.steps) // training.every
    relative = np.minimum(norms[states].astype(float) / training.clipping_norm, 1.0)
    value = path_epsilon(relative, training.noise_multiplier, training.sampling_probability, training.delta)
    return Number(value, "estimate", note="this run's, output-specific")


def training_of(ensemble: Ensemble, delta: float | None = None) -> Training:
    """Return what the accounting needs of an ensemble's training, or raise where the theorems do not cover it."""
    sums, relation = ensemble.mechanism.noisy_sums(ensemble.description.data.examples), ensemble.relation
    if sums is None:
        raise SeedscopeError(
            f"per-instance privacy is of DPSGD, the ensemble was trained by {ensemble.mechanism.name}."
        )
    poisson = sums.sampling.amplifies == "poisson"
    along = f"the norms were recorded along {sums.sampling} ones"
    require(poisson, f"per-instance accounting needs Poisson() batches, {along}.")
    own_rule = sums.divided_by_true_size
    require(not own_rule, "per-instance accounting is of rule='sum'; use general_step for the mean.")
    flat = not sums.clipping.smooth
    require(flat, "per-instance accounting reads norms as flatly clipped, the mechanism clips smoothly.")
    require(sums.noise_multiplier > 0, "per-instance accounting needs noise, noise_multiplier is 0.")
    added = relation == "add_or_remove"
    require(added, f"per-instance accounting is of the add_or_remove relation, the grid has {relation}.")
    recorded = bool({"norm_step", "path_order"} & set(ensemble.dataset.dims))
    require(recorded, "no gradient norms were recorded; train with Records(norms=Norms()).")
    rows = ensemble.description.preprocessing.rows_per_person
    require(rows == 1, f"per-instance accounting is of single rows, and people have up to {rows} here.")
    chosen = sums.delta if delta is None else delta
    require_probability("delta", chosen)
    return Training(
        noise_multiplier=sums.noise_multiplier,
        clipping_norm=sums.clipping_norm,
        sampling_probability=sums.sampling_probability,
        steps=sums.steps,
        every=_every(ensemble, sums.steps),
        delta=chosen,
    )


def _every(ensemble: Ensemble, steps: int) -> int:
    """Return how many steps a state whose norms were looked at stands for."""
    if "path_order" in ensemble.dataset.dims:
        norms = Norms(**ensemble.description.records["norms"])
        return min(norms.steps_between(ensemble.description.data.examples, ensemble.mechanism.batch_size), steps)
    states = ensemble.dataset["norm_step"].values
    return int(states[1] - states[0]) if len(states) > 2 else steps


def _require_norms(ensemble: Ensemble) -> None:
    """Raise where only sums over runs were recorded."""
    kept = "norm_step" in ensemble.dataset.dims
    require(
        kept, "single steps need gradient norms, and only their path sums were recorded; leave out Norms(orders=…)."
    )


def _directions(
    ensemble: Ensemble, init: str | None
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return (watched places, norms [run, state, person]) of runs with the people, then of runs without them.

    Where only path sums were recorded they are in the place of norms, their orders in the place of states.
    """
    dataset = ensemble.dataset.isel(init=_init_place(ensemble, init))
    norms = dataset["path_sums" if "path_order" in dataset.dims else "gradient_norms"]
    neighbours = dataset["neighbour"].values
    base = norms.sel(neighbour=BASE).values
    everyone, rows = np.arange(dataset.sizes["watched"]), dataset["watched_row"].values
    nobody = np.zeros(0, int), base[..., :0]
    if str(dataset["watched_part"].values[0]) == "test":
        return nobody, (everyone, base)
    own = [(place, int(np.flatnonzero(neighbours == row)[0])) for place, row in enumerate(rows) if row in neighbours]
    if not own:
        return (everyone, base), nobody
    without = np.stack([norms.isel(neighbour=column, watched=place).values for place, column in own], axis=-1)
    return (everyone, base), (np.array([place for place, _ in own]), without)


def _measured(norms: np.ndarray, training: Training, orders: np.ndarray, holder: float | None) -> np.ndarray:
    """Return the estimated divergences [person, order], the smallest over Hölder constants unless one is given."""
    holders = [holder] if holder is not None else [max(share * training.steps, 1.5) for share in HOLDERS_PER_STEP]
    least: np.ndarray = np.min([_composed(norms, training, orders, constant) for constant in holders], axis=0)
    return least


def _bounds(
    norms: np.ndarray, training: Training, orders: np.ndarray, holder: float | None, confidence: float, covered: int
) -> _Bounds:
    """Return one direction's bounds of norms [run, state, person]; NaN for the confidence if steps are missing."""
    sums = path_sums(
        norms, training.noise_multiplier, training.sampling_probability, PATH_ORDERS,
        clipping_norm=training.clipping_norm, every=training.every, steps=training.steps,
    )  # fmt: skip
    half = (1 + confidence) / 2  # the other half of the error is for the other composition
    by_paths = _path_bounds(sums, np.array(PATH_ORDERS), training, orders, half, covered)
    found = replace(by_paths, by_steps=_measured(norms, training, orders, holder))
    if training.every > 1:
        return found
    upper = _composed(norms, training, orders, holder, confidence=half, covered=covered * len(orders))
    return replace(found, upper=np.minimum(found.upper, upper))


def _path_bounds(
    sums: np.ndarray, path_orders: np.ndarray, training: Training, orders: np.ndarray, confidence: float, covered: int
) -> _Bounds:
    """Return one direction's bounds of path sums [run, person, path order] alone."""
    paths = np.minimum(paths_rdp(sums, path_orders, orders), training.baseline(orders))
    without_steps = np.full(paths.shape, np.nan)
    if training.every > 1:
        unknown = np.full(len(paths), np.nan)
        return _Bounds(without_steps, paths, without_steps, unknown, unknown)
    half = (1 + confidence) / 2  # one half of the error for divergences, one for the cut-off
    upper = paths_rdp_upper(sums, path_orders, orders, training.baseline(path_orders), half, covered)
    cut = cut_off(sums, path_orders, half, people=covered)
    capped = np.minimum(upper, training.baseline(orders))
    return _Bounds(without_steps, paths, capped, cut.epsilon(training.delta), cut.membership_advantage())


def _nobody(orders: np.ndarray) -> _Bounds:
    """Return the bounds of a direction in which nobody was measured."""
    nobody, nothing = np.zeros(0), np.zeros((0, len(orders)))
    return _Bounds(nothing, nothing, nothing, nobody, nobody)


def _composed(
    norms: np.ndarray, training: Training, orders: np.ndarray, holder: float | None, **options: Any
) -> np.ndarray:
    """Return the divergences [person, order] of recorded norms [run, state, person]."""
    return everybodys_rdp(
        norms, training.noise_multiplier, training.sampling_probability, orders, holder,
        clipping_norm=training.clipping_norm, every=training.every, steps=training.steps, **options,
    )  # fmt: skip


def _summed_up(
    ensemble: Ensemble,
    training: Training,
    orders: np.ndarray,
    places: list[np.ndarray],
    bounds: list[_Bounds],
    confidence: float,
) -> PerInstancePrivacy:
    """Return the result from the bounds of both directions, each for the people at these places."""
    dataset = ensemble.dataset
    people = dataset.sizes["watched"]
    q, noise = training.sampling_probability, training.noise_multiplier
    baseline = float(dpsgd_epsilon(noise, q, training.steps, training.delta))
    pld = pld_epsilon(noise, q, training.steps, training.delta)

    def of_all(name: str) -> np.ndarray:
        """Return [direction, person, ...] of a bound, NaN where a direction was not measured."""
        found = np.full((2, people, *getattr(bounds[0], name).shape[1:]), np.nan)
        for side, (chosen, bound) in enumerate(zip(places, bounds, strict=True)):
            found[side, chosen] = getattr(bound, name)
        return found

    by_steps, by_paths = of_all("by_steps"), of_all("by_paths")
    smaller = np.fmin(by_steps, by_paths)
    rdp = np.fmax(*smaller)
    upper, cut, advantage = of_all("upper").max(axis=0), of_all("epsilon").max(axis=0), of_all("advantage").max(axis=0)
    before = ensemble.description.preprocessing
    alone = not (before.learned or before.also_learned or any(before.spent))  # nothing but training knew the rows
    both = ~np.isnan(upper).any(axis=1)
    statistical = np.full(people, np.nan)
    if both.any():
        statistical[both] = np.minimum(rdp_to_epsilon(upper[both], orders, training.delta), cut[both])
        advantage[both] = np.minimum(advantage[both], membership_advantage(upper[both], orders))
    return PerInstancePrivacy(
        people=dataset["watched_person"].values,
        rows=dataset["watched_row"].values,
        part=str(dataset["watched_part"].values[0]),
        orders=orders,
        delta=training.delta,
        rdp=rdp,
        rdp_with=smaller[0],
        rdp_without=smaller[1],
        by_steps=np.fmax(*by_steps),
        by_paths=np.fmax(*by_paths),
        epsilon=np.minimum(rdp_to_epsilon(rdp, orders, training.delta), min(baseline, pld)),
        epsilon_statistical=np.minimum(statistical, min(baseline, pld)),
        advantage_statistical=advantage,
        epsilon_baseline=Number(baseline, "proved" if alone else "estimate", note="" if alone else TRAINING_ALONE),
        epsilon_baseline_pld=Number(pld, "proved" if alone else "estimate", note="" if alone else TRAINING_ALONE),
        baseline=training.baseline(orders),
        confidence=confidence,
        runs=dataset.sizes["seed"],
        training=training,
    )


def _init_place(ensemble: Ensemble, init: str | None) -> int:
    """Return the place of an initialisation, by default of the varied one where it was trained."""
    names = [str(name) for name in ensemble.dataset["init"].values]
    if init is None:
        return len(names) - 1
    if init not in names:
        raise unknown_name("init", init, names)
    return names.index(init)
