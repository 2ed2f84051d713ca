"""A block of models trained side by side by DP-SGD, compiled: one loop over steps, and what it records on the way.

The shape is that of `training`: one loop over steps, `vmap` over neighbours, then over seeds; models of large networks
take turns within a step instead. For one seed all neighbouring data sets share the batches *and* the noise, as with SGD
they share the batches: a neighbour differs only by what its own row contributes. Each model alone is a true run of
DP-SGD; two models of one seed are not independent.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from seedscope.models import Parameters
from seedscope.training import Schedule, transformation
from seedscope.training.dpsgd.batches import Cutter
from seedscope.training.dpsgd.noise import Noise
from seedscope.training.dpsgd.norms import NormRecorder
from seedscope.training.dpsgd.path_sums import PathSummer
from seedscope.training.dpsgd.per_example import has_one_unit, known_of_rows
from seedscope.training.dpsgd.person_losses import PersonNetworkLosses, Persons, PersonUnitLosses
from seedscope.training.dpsgd.personal_budgets import SPENT, Budget, Filter
from seedscope.training.dpsgd.privacy_losses import LossRecorder, NetworkLosses, Scales, Spare
from seedscope.training.dpsgd.sums import Data, Dials, PrivateJob, batch_sum, no_traces, noisy_update, probe_keys
from seedscope.training.dpsgd.unit_losses import UnitLosses, unit_of
from seedscope.training.gradient import Probes, Records, flat, observe

State = tuple[Parameters, Any, Any, Records, Any, Any, Any]  # … optimiser, draws ahead, norms, traces, losses, spent


class Lossy(NamedTuple):
    """People whose privacy losses are recorded: places in the data, blocks of rows (or sparse ones) and labels."""

    places: Any
    blocks: Any


@partial(jax.jit, static_argnums=0)
def train_block(
    job: PrivateJob,
    dials: Dials,
    parameters: Parameters,
    rows: jax.Array,
    labels: jax.Array,
    drawn: jax.Array,
    sizes: jax.Array,
    keys: jax.Array,
    neighbours: jax.Array,
    segments: jax.Array,
    probes: Probes | None,
    people: tuple[jax.Array, jax.Array] | None,
    traced: jax.Array | None,
    owners: jax.Array | None = None,
    lossy: Lossy | Persons | None = None,
    tables: jax.Array | None = None,
    budget: Budget | None = None,
) -> Records:
    """Return the records of a block of models, trained side by side.

    dials: the mechanism's numbers; parameters: pytree of [seed, model, ...]; rows [N+1, ...] and labels [N+1], the
    spare example last; drawn [seed, place] and sizes [step, seed], the batches; keys [seed], of the noise; neighbours
    [model]; segments [checkpoint, 2]; probes: (rows, labels) on which scores are recorded; people: blocks of (rows,
    labels) whose gradient norms are recorded; traced [example]: the rows whose Fisher traces are; owners [N+1]: whose
    each row is, where neighbours are persons; lossy: the rows, or persons, whose privacy losses are recorded;
    tables [order, bin]: of step divergences, where instead of people's norms their sums over the run are recorded;
    budget: what everybody may spend, where people have one.
    """
    rate = job.private.learning_rate
    rate = rate if isinstance(rate, Schedule) else dials.learning_rate
    optimizer = transformation(rate, job.private.momentum, job.private.steps, job.private.l2)
    recorder, loser = _recorder(job, people, tables, dials), _loss_recorder(job, lossy, rows, labels)
    purse = None if budget is None else _filter(job, budget, dials, len(rows) - 1)
    noise = Noise(job.network.init, keys, len(sizes)) if job.private.noise_multiplier else None
    data = Data(rows, labels, known_of_rows(job.network, rows, job.private.clipping.smooth), owners)
    batches = Cutter(drawn, sizes, job.room, spare=len(rows) - 1)
    later_parts = job.parts.needed(sizes)

    def step(t: jax.Array, state: State) -> State:
        parameters, carried, ahead, norms, traces, losses, spent = state
        norms = recorder.record(norms, parameters, t)
        spent, counted = (spent, None) if purse is None else purse.admitted(spent, parameters)
        batch = batches.at(t)
        sums = batch_sum(job, dials, parameters, data, batch, later_parts[t], neighbours, probe_keys(keys, t), counted)
        normals, ahead = noise.at(ahead, t) if noise else (None, ahead)
        if loser is not None:
            scales = Scales(dials.clipping_norm, dials.noise_scale)
            losses = loser.add(losses, parameters, normals, batch, neighbours, scales)
        noisy = noisy_update(job, dials, sums.gradient, batch, rows.shape[0] - 1, neighbours, normals, owners)
        updates, carried = optimizer.update(noisy, carried, parameters)
        traces = jax.tree.map(jnp.add, traces, sums.traces)
        return jax.tree.map(jnp.add, parameters, updates), carried, ahead, norms, traces, losses, spent

    def to_checkpoint(state: State, segment: jax.Array) -> tuple[State, Records]:
        state = jax.lax.fori_loop(segment[0], segment[1], step, state)
        observed = {"weights": flat(state[0])}
        if probes is not None and job.scores_at_checkpoints:
            observed |= observe(job.network, state[0], *probes)
        if job.traces:
            observed["fisher_traces"] = state[4][..., traced] / dials.noise_scale**2
        return state, observed

    traces = no_traces(job, parameters, rows)
    ahead = noise.empty() if noise else ()
    losses: Any = () if loser is None else loser.empty(parameters)
    spent: Any = () if purse is None else purse.empty(parameters)
    start = (parameters, optimizer.init(parameters), ahead, recorder.empty(parameters), traces, losses, spent)
    (parameters, _, _, norms, _, losses, spent), records = jax.lax.scan(to_checkpoint, start, segments)
    kept: Records = jax.tree.map(lambda values: jnp.moveaxis(values, 0, 2), records)
    if probes is not None and not job.scores_at_checkpoints:
        kept |= observe(job.network, parameters, *probes)
    kept |= {} if loser is None else {"privacy_losses": loser.finished(losses, parameters)}
    kept |= {} if purse is None else {SPENT: spent}
    return kept | recorder.finished(norms, parameters)


def _filter(job: PrivateJob, budget: Budget, dials: Dials, examples: int) -> Filter:
    """Return what keeps people within their budgets."""
    return Filter(NormRecorder(job, budget.blocks).norms_now, budget, dials.clipping_norm, examples)


def _recorder(
    job: PrivateJob, people: tuple[jax.Array, jax.Array] | None, tables: jax.Array | None, dials: Dials
) -> NormRecorder | PathSummer:
    """Return what keeps people's norms, or with tables only the sums of what their steps cost."""
    norms = NormRecorder(job, people)
    if tables is None:
        return norms
    return PathSummer(norms.norms_now, tables, dials.clipping_norm, job.norms_every, job.private.steps)


def _loss_recorder(
    job: PrivateJob, lossy: Lossy | Persons | None, rows: jax.Array, labels: jax.Array
) -> LossRecorder | None:
    """Return what sums up privacy losses, None where nobody's are recorded; the spare example is the last row."""
    if lossy is None:
        return None
    examples, smooth = len(rows) - 1, job.private.clipping.smooth
    rate = job.private.batch_size / job.private.sampling_size(examples)
    spare = Spare(rows[-1], labels[-1]) if job.relation == "replace_one" else None
    one_unit = has_one_unit(jax.eval_shape(job.network.init, jax.random.key(0)))
    if isinstance(lossy, Persons):
        if one_unit:
            return PersonUnitLosses(smooth, rate, examples, lossy, spare)
        return PersonNetworkLosses(job.network, smooth, job.parts.one_by_one, rate, examples, lossy, spare)
    if one_unit:
        return UnitLosses(smooth, rate, examples, lossy.places, job.losses_of_all, unit_of(*lossy.blocks), spare)
    return NetworkLosses(job.network, smooth, job.parts.one_by_one, rate, examples, *lossy, spare)
