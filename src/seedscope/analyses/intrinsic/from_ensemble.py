"""Intrinsic privacy of a trained ensemble: which weights to take, which bound its training allows, every checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from seedscope.analyses.intrinsic.bounds import logistic_lipschitz, logistic_smoothness, sgd_sensitivity_bound
from seedscope.analyses.intrinsic.distances import SeedAndDataDistances, seed_and_data_distances
from seedscope.analyses.intrinsic.privacy import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    IntrinsicPrivacy,
    Refused,
    VariabilityName,
    intrinsic_privacy_from_weights,
)
from seedscope.analyses.intrinsic.weight_grid import checked_weights
from seedscope.errors import SeedscopeError, require, unknown_name
from seedscope.number import Number

BASE = -1  # the neighbour coordinate of the base D
READ_BYTES = 2**28  # how much of an ensemble's weights is read at once


def intrinsic_privacy(
    ensemble: Any,
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
    chosen_init, chosen_step = _chosen_init(ensemble, init), _chosen_step(ensemble, step)
    weights = checkpoint_weights(ensemble, init=chosen_init, step=chosen_step)
    options = {"delta": delta, "variability_used": variability_used, "bootstrap": bootstrap}
    return _analysed(ensemble, chosen_init, chosen_step, weights, drop_diverged=drop_diverged, **options)


def intrinsic_privacy_along_training(ensemble: Any, **options: Any) -> tuple[IntrinsicPrivacy, ...]:
    """Return the intrinsic privacy at every checkpoint, for each initialisation that was trained (IP1 Fig. 4).

    Args:
        ensemble: as for `intrinsic_privacy`.
        options: of `intrinsic_privacy`, but `init` and `step`.
    """
    return tuple(_analysed(ensemble, *checkpoint, **options) for checkpoint in checkpoints(ensemble))


def _analysed(ensemble: Any, init: str, step: int, weights: np.ndarray, **options: Any) -> IntrinsicPrivacy:
    """Return the intrinsic privacy of one checkpoint's weights, with what the ensemble says about them."""
    found = intrinsic_privacy_from_weights(
        weights,
        int(ensemble.description["data"]["examples"]),
        sensitivity_bound=sensitivity_bound_of(ensemble.description, step),
        neighbours_are_random=not ensemble.description["grid"].get("people"),
        seed_names=ensemble.dataset["seed"].values,
        **options,
    )
    return replace(found, init=init, step=step, relation=_relation(ensemble.description))


def distances_along_training(
    ensemble: Any, *, keep: int = 20_000, drop_diverged: bool = False
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
    found = {}
    for init, step, weights in checkpoints(ensemble):
        checked = checked_weights(weights, seed_names=names, drop_diverged=drop_diverged, least_datasets=2)
        found[init, step] = seed_and_data_distances(checked, keep=keep, all_pairs_of_both=step == last)
    return found


def checkpoint_weights(ensemble: Any, *, init: str | None = None, step: int | None = None) -> np.ndarray:
    """Return the weights [seed, dataset, parameter] at one checkpoint, the base D first.

    Args:
        ensemble: with recorded weights.
        init: "varied" or "fixed"; default "varied" where it was trained.
        step: default the last.
    """
    selected = _weights(ensemble).sel(init=_chosen_init(ensemble, init), step=_chosen_step(ensemble, step))
    return _base_first(selected.compute()).transpose("seed", "neighbour", "parameter").values


def checkpoints(ensemble: Any) -> Iterator[tuple[str, int, np.ndarray]]:
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


def sensitivity_bound_of(description: Mapping[str, Any], step: int) -> Number | Refused:
    """Return the proved sensitivity bound after `step` steps of the training described, or why there is none.

    >>> description = {
    ...     "mechanism": {"type": "SGD", "learning_rate": 0.5, "batch_size": 32, "steps": 1850},
    ...     "data": {"examples": 10396, "norm_bound": 1.0}, "model": {"convex": True},
    ...     "grid": {"relation": "replace_one"}}
    >>> print(sensitivity_bound_of(description, 1850))
    0.2652 (proved)
    >>> sensitivity_bound_of(description | {"model": {"convex": False}}, 1850).reason.split(",")[0]
    'the sensitivity bound needs a convex loss'
    """
    mechanism, data = description["mechanism"], description["data"]
    if mechanism["type"] != "SGD":
        return Refused(f"the sensitivity bound is for plain SGD, and these models were trained by {mechanism['type']}.")
    if description["model"]["convex"] and not data.get("norm_bound"):
        return Refused("the sensitivity bound needs a bound on the rows' norm, and this data has none; clip its rows.")
    changed = [name for name in ("momentum", "l2", "weight_decay") if mechanism.get(name)]
    if changed:
        return Refused(f"the sensitivity bound is for plain SGD steps, and these have {' and '.join(changed)}.")
    return _bound_or_refusal(description, step)


def _bound_or_refusal(description: Mapping[str, Any], step: int) -> Number | Refused:
    """Return the bound, or the condition that fails, in words."""
    mechanism, data = description["mechanism"], description["data"]
    norm_bound, classes = data.get("norm_bound") or 1.0, len(data.get("classes", (0, 1)))
    try:
        bound = sgd_sensitivity_bound(
            step,
            int(data["examples"]),
            int(mechanism["batch_size"]),
            float(mechanism["learning_rate"]),
            logistic_lipschitz(norm_bound, classes=classes),
            smoothness=logistic_smoothness(norm_bound, classes=classes),
            convex=bool(description["model"]["convex"]),
            relation=_relation(description),
        )
    except SeedscopeError as error:
        return Refused(str(error))
    learned = description.get("preprocessing", {}).get("learned_from_training_part")
    return Number(float(bound), "proved", note="given public preprocessing" if learned else "")


def _relation(description: Mapping[str, Any]) -> Any:
    """Return the neighbour relation of the grid."""
    return description["grid"]["relation"]


def _weights(ensemble: Any) -> Any:
    """Return the recorded weights with all five axes."""
    require(
        "weights" in ensemble.dataset,
        "intrinsic privacy needs recorded weights, and this ensemble has none; train with weights among the records.",
    )
    weights = ensemble.dataset["weights"]
    missing = [name for name in ("init", "step") if name not in weights.dims]
    return weights.expand_dims(missing) if missing else weights


def _steps(ensemble: Any) -> list[int]:
    """Return the checkpoint steps."""
    return [int(step) for step in np.atleast_1d(_weights(ensemble)["step"].values)]


def _chosen_init(ensemble: Any, init: str | None) -> str:
    """Return the kind of initialisation asked for, or "varied" where it was trained."""
    known = [str(name) for name in np.atleast_1d(_weights(ensemble)["init"].values)]
    if init is None:
        return "varied" if "varied" in known else known[0]
    if init not in known:
        raise unknown_name("initialisation", init, known)
    return init


def _chosen_step(ensemble: Any, step: int | None) -> int:
    """Return the checkpoint asked for, or the last."""
    known = _steps(ensemble)
    require(step is None or step in known, f"step must be a checkpoint of the ensemble, one of {known}, got {step}.")
    return known[-1] if step is None else step


def _base_first(weights: Any) -> Any:
    """Return the weights with the base D before its neighbours."""
    neighbours = [int(index) for index in weights["neighbour"].values]
    require(BASE in neighbours, "the ensemble has no models of the base data set; train the base with its neighbours.")
    return weights.isel(neighbour=np.argsort([index != BASE for index in neighbours], kind="stable"))
