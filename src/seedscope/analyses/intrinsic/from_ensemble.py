"""Intrinsic privacy of a trained ensemble: which weights to take, which bound its training allows, every checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from seedscope.analyses.intrinsic.bounds import logistic_lipschitz, logistic_smoothness, sgd_sensitivity_bound
from seedscope.analyses.intrinsic.distances import SeedAndDataDistances, seed_and_data_distances
from seedscope.analyses.intrinsic.per_person import PersonalPrivacy, joined, least_seeds, personal_privacy
from seedscope.analyses.intrinsic.privacy import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    IntrinsicPrivacy,
    Refused,
    VariabilityName,
    intrinsic_privacy_from_weights,
)
from seedscope.analyses.intrinsic.weight_grid import checked_weights
from seedscope.core import BASE, Number, SeedscopeError, last_step, require, require_type, unknown_name
from seedscope.planning import Description
from seedscope.storage import Ensemble

SMALLEST_LOSS = 1e-12  # a loss that single precision lost is not an infinite logit
READ_BYTES = 2**28  # how much of an ensemble's weights is read at once


def intrinsic_privacy(
    ensemble: Ensemble,
    *,
    init: str | None = None,
    step: int | None = None,
    delta: float | None = None,
    variability_used: VariabilityName = "flat",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    drop_diverged: bool = False,
) -> IntrinsicPrivacy:
    """Return the intrinsic privacy of an ensemble of SGD models at one checkpoint.

    Does the seed hide any one person's record, and which epsilon does that amount to? An estimate, never a guarantee.

    Args:
        ensemble: with recorded weights, at least 3 seeds and at least one neighbour beside the base.
        init: "varied" or "fixed"; default "varied" where it was trained, as in the papers' tables.
        step: the checkpoint; default the last.
        delta: default 1/N².
        variability_used: "flat" (IP1), "min" (IP2) or "eigen" (conservative) for the `epsilon_…` attributes.
        bootstrap: how intervals over seeds are made.
        drop_diverged: leave out seeds whose weights are not finite; otherwise they are an error.

    IP1 Algorithm 2, IP2 Algorithm 1.
    """
    require_type("ensemble", ensemble, Ensemble, "train(data, mechanism, grid=Grid(seeds, neighbours)) gives one")
    chosen_init, chosen_step = _chosen_init(ensemble, init), _chosen_step(ensemble, step)
    weights = checkpoint_weights(ensemble, init=chosen_init, step=chosen_step)
    options = {"delta": delta, "variability_used": variability_used, "bootstrap": bootstrap}
    return _analysed(ensemble, chosen_init, chosen_step, weights, drop_diverged=drop_diverged, **options)


def intrinsic_privacy_along_training(ensemble: Ensemble, **options: Any) -> tuple[IntrinsicPrivacy, ...]:
    """Return the intrinsic privacy at every checkpoint, for each initialisation that was trained (IP1 Fig. 4).

    Args:
        ensemble: as for `intrinsic_privacy`.
        options: of `intrinsic_privacy`, but `init` and `step`.
    """
    return tuple(_analysed(ensemble, *checkpoint, **options) for checkpoint in checkpoints(ensemble))


def _analysed(ensemble: Ensemble, init: str, step: int, weights: np.ndarray, **options: Any) -> IntrinsicPrivacy:
    """Return the intrinsic privacy of one checkpoint's weights, with what the ensemble says about them."""
    privacy = intrinsic_privacy_from_weights(
        weights,
        ensemble.description.data.examples,
        sensitivity_bound=sensitivity_bound_of(ensemble.description, step),
        neighbours_are_random=not ensemble.description.grid.people,
        seed_names=ensemble.dataset["seed"].values,
        **options,
    )
    return replace(privacy, init=init, step=step, relation=ensemble.relation)


def intrinsic_privacy_of_people(
    ensemble: Ensemble, *, delta: float | None = None, confidence: float = 0.95
) -> PersonalPrivacy:
    """Return how well the seed hides each person that models were trained without; people in the neighbours' order.

    One number for all says how far the worst of them moves the weights in any direction. Here each person is looked at
    along the direction that shows them best: by all weights where there are seeds enough, else by the logits on their
    own row and on the row that took its place.

    Args:
        ensemble: of plain SGD, with neighbours.
        delta: default 1/N².
        confidence: of the intervals, for each person alone.

    >>> import seedscope as ss
    >>> grid = ss.Grid(seeds=60, neighbours=2)
    >>> ensemble = ss.train(ss.load("breast-cancer"), ss.SGD(learning_rate=0.5, batch_size=32, steps=39), grid=grid)
    >>> found = intrinsic_privacy_of_people(ensemble)
    >>> found.looked_at, found.mu.shape
    ('all weights', (2,))
    """
    chosen = ensemble.description.data.examples**-2.0 if delta is None else delta
    weights = checkpoint_weights(ensemble)
    moving = weights[..., np.ptp(weights[:, 0], axis=0) > 0]
    if len(moving) >= least_seeds(moving.shape[2]):
        return personal_privacy(moving, delta=chosen, confidence=confidence)
    each = [personal_privacy(logits, delta=chosen, confidence=confidence) for logits in _own_logits(ensemble)]
    return replace(joined(each), looked_at="the logits on the person's row and on the spare row")


def _own_logits(ensemble: Ensemble) -> Iterator[np.ndarray]:
    """Yield for each person the logits [seed, with or without them, row] on their own and on the spare row."""
    parts = ensemble.texts("example_part")
    require((parts == "neighbour").any(), "this many weights need scores on the neighbours; add them to the records.")
    losses = ensemble.losses.sel(init=_chosen_init(ensemble, None))
    losses = last_step(losses)
    ordered = _base_first(losses.compute()).transpose("seed", "neighbour", "example").values.astype(float)
    logits = -np.log(np.expm1(np.maximum(ordered, SMALLEST_LOSS)))  # of the true class
    spare = np.flatnonzero(parts == "spare")
    for person, own in enumerate(np.flatnonzero(parts == "neighbour"), 1):
        values = logits[:, [0, person]][..., [own, *spare[:1]]]
        yield values[..., values[:, 0].std(axis=0) > 0]


def distances_along_training(
    ensemble: Ensemble, *, keep: int = 20_000, drop_diverged: bool = False
) -> dict[tuple[str, int], SeedAndDataDistances]:
    """Return the distances Δ_S, Δ_V and Δ_S+V by (init, step), at every checkpoint (IP2 Fig. 2 and 3).

    Δ_S+V is over the strict pairs (D, D_i) only, except at the last step.

    Args:
        ensemble: with recorded weights.
        keep: how many distances of each kind to keep at most, to draw.
        drop_diverged: leave out seeds whose weights are not finite.
    """
    last = _steps(ensemble)[-1]
    names = ensemble.dataset["seed"].values
    by_key = {}
    for init, step, weights in checkpoints(ensemble):
        checked = checked_weights(weights, seed_names=names, drop_diverged=drop_diverged, least_datasets=2)
        by_key[init, step] = seed_and_data_distances(checked, keep=keep, all_pairs_of_both=step == last)
    return by_key


def checkpoint_weights(ensemble: Ensemble, *, init: str | None = None, step: int | None = None) -> np.ndarray:
    """Return the weights [seed, dataset, parameter] at one checkpoint, the base D first.

    Args:
        ensemble: with recorded weights.
        init: "varied" or "fixed"; default "varied" where it was trained.
        step: default the last.
    """
    selected = _weights(ensemble).sel(init=_chosen_init(ensemble, init), step=_chosen_step(ensemble, step))
    weights: np.ndarray = _base_first(selected.compute()).transpose("seed", "neighbour", "parameter").values
    return weights


def checkpoints(ensemble: Ensemble) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield (init, step, weights [seed, dataset, parameter]) for every checkpoint, reading several at once."""
    weights, steps = _weights(ensemble), _steps(ensemble)
    for init in weights["init"].values:
        of_init = weights.sel(init=init)
        size = max(1, READ_BYTES // max(1, of_init.nbytes // len(steps)))
        for start in range(0, len(steps), size):
            # As it is stored, and only then in another order: to reorder while reading is many times slower.
            read = of_init.isel(step=slice(start, start + size)).compute()
            for step, values in zip(steps[start:], _base_first(read).transpose("step", ...), strict=False):
                ordered = values.transpose("seed", "neighbour", "parameter").values
                yield str(init), step, np.ascontiguousarray(ordered)


def sensitivity_bound_of(description: Description, step: int) -> Number | Refused:
    """Return the proved sensitivity bound after `step` steps of the training described, or why there is none.

    The proof is about two runs on the same features. Where components, ranges or a scaling were fitted on the training
    rows, a neighbour has other features, so the bound is an *estimate* whose note says what was fitted.

    >>> import seedscope as ss
    >>> grid = ss.Grid(seeds=1)
    >>> ensemble = ss.train(ss.load("breast-cancer"), ss.SGD(learning_rate=0.5, batch_size=32, steps=39), grid=grid)
    >>> print(sensitivity_bound_of(ensemble.description, 39))  # three epochs
    0.1326 (proved)
    """
    steps, data = description.mechanism.plain_steps(), description.data
    if steps is None:
        trained = description.mechanism.name
        return Refused(f"the sensitivity bound is for plain SGD, and these models were trained by {trained}.")
    if description.model.convex and not data.norm_bound:
        return Refused("the sensitivity bound needs a bound on the rows' norm, and this data has none; clip its rows.")
    norm_bound, classes = data.norm_bound or 1.0, len(data.classes)
    try:
        bound = sgd_sensitivity_bound(
            step,
            data.examples,
            steps.batch_size,
            steps.learning_rate,
            logistic_lipschitz(norm_bound, classes=classes),
            smoothness=logistic_smoothness(norm_bound, classes=classes),
            convex=description.model.convex,
            relation=description.grid.relation,
        )
    except SeedscopeError as error:
        return Refused(str(error))
    fitted = _fitted_on_rows(description)
    if fitted:
        return Number(float(bound), "estimate", note=f"given public preprocessing, and {fitted} came from these rows")
    return Number(float(bound), "proved")


def _fitted_on_rows(description: Description) -> str:
    """Return in words what of the preprocessing depends on the training rows; a neighbour's would be another."""
    conditions = description.conditions
    private = ("the noisy scaling",) if any(conditions.spent) else ()
    return " and ".join((*conditions.learned, *private))


def _weights(ensemble: Ensemble) -> Any:
    """Return the recorded weights with all five axes."""
    require(
        "weights" in ensemble.dataset,
        "intrinsic privacy needs recorded weights, and this ensemble has none; train with weights among the records.",
    )
    weights = ensemble.dataset["weights"]
    missing = [name for name in ("init", "step") if name not in weights.dims]
    return weights.expand_dims(missing) if missing else weights


def _steps(ensemble: Ensemble) -> list[int]:
    """Return the checkpoint steps."""
    return [int(step) for step in np.atleast_1d(_weights(ensemble)["step"].values)]


def _chosen_init(ensemble: Ensemble, init: str | None) -> str:
    """Return the kind of initialisation asked for, or "varied" where it was trained."""
    known = [str(name) for name in np.atleast_1d(_weights(ensemble)["init"].values)]
    if init is None:
        return "varied" if "varied" in known else known[0]
    if init not in known:
        raise unknown_name("initialisation", init, known)
    return init


def _chosen_step(ensemble: Ensemble, step: int | None) -> int:
    """Return the checkpoint asked for, or the last."""
    known = _steps(ensemble)
    require(step is None or step in known, f"step must be a checkpoint of the ensemble, one of {known}, got {step}.")
    return known[-1] if step is None else step


def _base_first(weights: Any) -> Any:
    """Return the weights with the base D before its neighbours."""
    neighbours = [int(index) for index in weights["neighbour"].values]
    require(BASE in neighbours, "the ensemble has no models of the base data set; train the base with its neighbours.")
    return weights.isel(neighbour=np.argsort([index != BASE for index in neighbours], kind="stable"))
