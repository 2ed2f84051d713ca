"""Everybody's privacy loss in an ensemble: what was recorded while training, or exactly where nothing is to sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seedscope.accounting import TradeOff
from seedscope.analyses.privacy_loss.exact import output_perturbation, rows_of_each
from seedscope.analyses.privacy_loss.redrawn import REDRAWS, redrawn
from seedscope.analyses.privacy_loss.result import PrivacyLoss
from seedscope.analyses.privacy_loss.sampled import SampledLoss, from_losses
from seedscope.core import BASE, require, require_type, varied_init
from seedscope.datasets import Dataset
from seedscope.storage import Ensemble

ATTACKERS = {
    "model": "sees the released model and knows everything about the others",
    "steps": "sees every step of training and knows the others' rows and batches",
}


def everybody(ensemble: Ensemble, *, data: Dataset | None = None, confidence: float = 0.95) -> PrivacyLoss:
    """Return the best possible attack on each person, from above and from below.

    Args:
        ensemble: trained with `Records(losses_of="train")`; its models on the base data are used. Output perturbation
            needs no such records.
        data: what it was trained on; only output perturbation needs it.
        confidence: of the intervals.

    People are places on the ensemble's person axis; of a person with several rows the first stands for all of them, and
    the attack is on all together. Where models were trained until enough was known (`train_until`), intervals hold
    whenever that was. Where the preprocessing was learned from the same rows, privately
    or not, all of this is about what happens after it, so an estimate: `attacker` says so. So it does where losses were
    recorded from somebody else's training, whose noise and preprocessing are taken on trust.
    """
    require_type("ensemble", ensemble, Ensemble, "train(data, mechanism) gives one")
    if ensemble.mechanism.regression_released:
        return _exact(ensemble, data)
    dataset = ensemble.dataset
    asked = "no privacy losses were recorded; train with Records(losses_of=…)."
    require("privacy_losses" in dataset, _not_recorded(ensemble) or asked)
    losses = varied_init(dataset["privacy_losses"]).sel(neighbour=BASE).values
    guarantee, sums = ensemble.guarantee, ensemble.mechanism.noisy_sums(ensemble.description.data.examples)
    pure = guarantee.epsilon is not None and guarantee.delta == 0
    told = ensemble.mechanism.told_besides(ensemble.description.preprocessing.rows_per_person)
    return from_losses(
        losses,
        confidence,
        people=dataset["loser_person"].values,
        curve=None if told else claimed_curve(ensemble),  # which is about attackers who are not told
        largest_loss=float(guarantee.epsilon) if pure and guarantee.epsilon is not None else None,
        relation=ensemble.relation,
        kind="estimate" if _learned(ensemble) or _assumed(ensemble) else "statistical",
        attacker=_attacker(ensemble, "model" if sums is None else "steps", told),
        anytime=ensemble.latest is not None,
    )


def everybody_redrawn(ensemble: Ensemble, *, redraws: int = REDRAWS, confidence: float = 0.95) -> SampledLoss:
    """Return the best possible attack on each person whose gradient norms DP-SGD recorded, estimated from few runs.

    Args:
        ensemble: trained with `Records(norms=Norms(…))`; its models on the base data are used.
        redraws: losses of each person, noise and batches drawn anew along the recorded norms.
        confidence: of the intervals, which are about the drawing alone.
    """
    dataset, examples = ensemble.dataset, ensemble.description.data.examples
    sums = ensemble.mechanism.noisy_sums(examples)
    known = sums is not None and "gradient_norms" in dataset
    require(known, "no gradient norms were recorded; train DPSGD with Records(norms=Norms(…)).")
    refusal = ensemble.mechanism.cannot_record("privacy_losses") or _only_of_rows(ensemble)
    require(not refusal, refusal)
    require(ensemble.relation == "add_or_remove", "losses are redrawn for add_or_remove, the grid is replace_one.")
    assert sums is not None
    flat = not sums.clipping.smooth
    require(flat, "redrawing reads norms as flatly clipped, the mechanism clips smoothly.")
    states = dataset["norm_step"].values
    before_last = states < sums.steps
    recorded = varied_init(dataset["gradient_norms"]).sel(neighbour=BASE).values[:, before_last]
    every = int(states[1] - states[0]) if before_last.sum() > 1 else sums.steps
    steps = np.minimum(np.repeat(np.arange(before_last.sum()), every), before_last.sum() - 1)[: sums.steps]
    return redrawn(
        np.minimum(recorded, sums.clipping_norm)[:, steps],
        noise_scale=sums.noise_multiplier * sums.clipping_norm,
        sampling_probability=sums.sampling_probability,
        redraws=redraws,
        confidence=confidence,
        people=dataset["watched_person"].values,
        curve=claimed_curve(ensemble),
        relation=ensemble.relation,
        attacker=f"{_attacker(ensemble, 'steps')}; noise drawn anew along the gradients of {len(recorded)} runs",
    )


def _not_recorded(ensemble: Ensemble) -> str:
    """Return why privacy losses cannot be recorded; empty where they can."""
    rows, mechanism = ensemble.description.preprocessing.rows_per_person, ensemble.mechanism
    classes = ensemble.description.conditions.classes
    several = "" if rows == 1 else mechanism.cannot_lose_together(rows, classes)
    return mechanism.cannot_record("privacy_losses") or several


def _only_of_rows(ensemble: Ensemble) -> str:
    """Return why losses redrawn along norms are not those of a person with several rows; empty where they are."""
    rows = ensemble.description.preprocessing.rows_per_person
    several = f"losses redrawn along gradient norms are about single rows, and people have up to {rows} here; train "
    return "" if rows == 1 else several + "more models, whose own losses are about persons."


def claimed_curve(ensemble: Ensemble) -> TradeOff | None:
    """Return the guarantee's curve where it is about the ensemble's relation; None where nothing is proved."""
    if ensemble.guarantee.epsilon is None or ensemble.guarantee.relation != ensemble.relation:
        return None
    return ensemble.mechanism.trade_off(ensemble.description.conditions)


def _exact(ensemble: Ensemble, data: Dataset | None) -> PrivacyLoss:
    """Return everybody's exact privacy under output perturbation."""
    require(data is not None, "everybody needs the rows themselves for output perturbation; give data=….")
    assert data is not None
    scaling = ensemble.scaling.fit(data)
    released = ensemble.mechanism.noisy_minimum(ensemble.description.conditions)
    assert released is not None  # it says that it releases one
    require(released.noise_scale > 0, "output perturbation without noise hides nobody: every attack succeeds.")
    rows, spare = (_with_bias(scaling.apply(table)) for table in (data.base.unfilled, data.spare_example.unfilled))
    owners = data.base.persons
    exact = output_perturbation(
        rows,
        data.base.labels,
        released.l2,
        released.noise_scale,
        relation=ensemble.relation,
        spare=(spare[0], float(data.spare_example.labels[0])),
        classes=data.classes,
        people=_places(data) if owners is None else _places(data)[[rows[0] for rows in rows_of_each(owners)]],
        owners=owners,
        attacker=_attacker(ensemble, "model"),
    )
    return replace(exact, kind="estimate" if _learned(ensemble) else "proved")


def _attacker(ensemble: Ensemble, which: str, told: str = "") -> str:
    """Return who the attacker is, in words, with the conditions that a learned scaling and doubts put on it."""
    besides = f", and is told {told}" if told else ""
    given = "; the preprocessing, learned from the same rows, is taken as known" if _learned(ensemble) else ""
    assumed = _assumed(ensemble)
    return ATTACKERS[which] + besides + given + (f"; an estimate for {' and '.join(assumed)}" if assumed else "")


def _assumed(ensemble: Ensemble) -> list[str]:
    """Return what the record of somebody else's training takes for granted, in words."""
    return list(ensemble.description.records.get("assumed", ()))


def _learned(ensemble: Ensemble) -> bool:
    """Whether the preprocessing was learned from the rows that it is applied to, be it with noise of its own."""
    fitted = ensemble.description.preprocessing
    return fitted.learned or bool(fitted.also_learned) or any(fitted.spent)


def _places(data: Dataset) -> np.ndarray:
    """Return the places on an ensemble's person axis of the rows that models are trained on."""
    parts = [part for part in (data.train, data.validation, data.test) if part is not None]
    return np.searchsorted(np.sort(np.concatenate([part.rows for part in parts])), data.base.rows)


def _with_bias(features: np.ndarray) -> np.ndarray:
    """Return the rows with a last column of ones."""
    return np.column_stack([np.asarray(features, float), np.ones(len(features))])
