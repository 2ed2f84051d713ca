"""Beside GLA's composition: the best possible attack on the same people, from their privacy losses in the same runs.

Composition by Hölder's inequality multiplies orders step by step; a sampled loss composes nothing, it is what the whole
run gave away. Both are turned into the one quantity that they share, the advantage of a membership attack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import seedscope as ss
from seedscope.analyses.per_instance import PerInstancePrivacy, default_holder, per_instance_privacy, training_of
from seedscope.analyses.privacy_loss import LEAST_RUNS, SampledLoss, claimed_curve, everybody_redrawn
from seedscope.core import model_progress
from seedscope.reproduce.comparison import Comparison, Run
from seedscope.reproduce.per_instance.settings import MODELS, RUN_ORDERS, Sweep

PLACE = "beside GLA: the sampled loss"
STATES_PER_EPOCH = 10
RUNS = {  # (data, scale): runs, and training people who are watched; below 20 runs their losses are redrawn
    ("mnist", "small"): (24, 100),
    ("mnist", "paper"): (40, 500),
    ("cifar10-small", "small"): (6, 50),
    ("cifar10-small", "paper"): (10, 500),
}


@dataclass(frozen=True, eq=False)
class Losses:
    """The same people by both ways: their losses, GLA's composition, and the guarantee's advantage."""

    data: str
    setting: str
    loss: SampledLoss
    composed: PerInstancePrivacy
    guarantee: float


def study_losses(
    sweep: Sweep, data: ss.Dataset, run: Run, runs: int | None = None, watched: int | None = None
) -> Losses:
    """Return the losses and the composition of the main cell's people, after training what its store lacks.

    runs, watched: in the place of the scale's. Below 20 runs losses are drawn anew along norms, not recorded.
    """
    usual = RUNS[sweep.data, run.scale]
    runs, watched = runs or usual[0], watched or usual[1]
    cell, sampled = sweep.main, runs >= LEAST_RUNS
    every = max(1, len(data.base) // (cell.batch_size * STATES_PER_EPOCH))
    records = ss.Records(probes=(), norms=ss.Norms(watched, every=every), losses_of=watched if sampled else None)
    with model_progress(f"{sweep.data}: {cell.model}, privacy losses", run.quiet) as move:
        ensemble = ss.train(
            data, sweep.mechanism(cell, len(data.base)), model=MODELS[cell.model](),
            grid=ss.Grid(runs, init="fixed"), records=records, store=run.store(_store(sweep, watched, sampled)),
            jobs=run.jobs, progress=move,
        )  # fmt: skip
    losses = ss.privacy_loss.everybody(ensemble) if sampled else everybody_redrawn(ensemble)
    holder = default_holder(training_of(ensemble).steps)
    composed = per_instance_privacy(ensemble, orders=RUN_ORDERS, holder=holder)
    curve = claimed_curve(ensemble)
    assert isinstance(losses, SampledLoss)
    assert curve is not None  # the noise is calibrated to an ε
    setting = f"{cell.model}, ε={cell.epsilon:g}, {sweep.epochs} epochs, {runs} runs, {watched} people"
    return Losses(sweep.data, setting, losses, composed, float(curve.advantage))


def loss_rows(losses: Losses) -> Iterator[Comparison]:
    """Yield which share of people is far below the guarantee in advantage by either way, and the extremes' sides."""
    loss, limit = losses.loss, losses.guarantee / 10
    share, way = loss.share_below(limit), "sampled" if loss.kind == "statistical" else "redrawn"
    composed = losses.composed.membership_advantage()
    quantity = "share of people 10× below the guarantee in advantage"
    note = f"{loss.kind}; the attacker {loss.attacker}"
    numbers = {
        "advantage that the guarantee allows": losses.guarantee,
        f"{quantity}, {way} loss": share.value,
        f"{quantity}, at least": _known(share.lower),
        f"{quantity}, at most": _known(share.upper),
        f"{quantity}, GLA's composition": float((composed <= limit).mean()),
        f"median advantage, {way} loss": float(np.median(loss.advantage)),
        "median advantage, GLA's composition": float(np.median(composed)),
        f"largest advantage, {way} loss": loss.largest.value,
        "largest advantage, at least": _known(loss.largest.lower),
        "largest advantage, at most": _known(loss.largest.upper),
    }
    for name, value in numbers.items():
        yield Comparison(PLACE, losses.data, losses.setting, name, value, note=note)


def _store(sweep: Sweep, watched: int, sampled: bool) -> str:
    """Return the name of a store: other epochs, people or records are another training."""
    return f"{sweep.data}-{sweep.main.name}-{sweep.epochs}-epochs-{watched}-{'losses' if sampled else 'norms'}"


def _known(end: float | None) -> float:
    """Return an end of an interval as a number."""
    return float("nan") if end is None else end
