"""Trains a chunk of models by DP-SGD: clipped per-example gradients plus noise, many models side by side.

The shape is that of `training`: one loop over steps, `vmap` over neighbours, then over seeds; models of large networks
take turns within a step instead. For one seed all neighbouring data sets share the batches *and* the noise, as with SGD
they share the batches: a neighbour differs only by what its own row contributes. Each model alone is a true run of
DP-SGD; two models of one seed are not independent.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import NormalDist
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.core import Relation
from seedscope.models import VECTOR, Network, Parameters, PooledConvolution, ScaleAndShift, network_of
from seedscope.training import Arrays, ChunkTrainer, Job, Schedule, transformation
from seedscope.training.dpsgd.batches import Cutter, Parts, draw_batches
from seedscope.training.dpsgd.leakage import smoothly_clipped_sum
from seedscope.training.dpsgd.noise import Noise, noise_keys
from seedscope.training.dpsgd.path_sums import NORM_MARGIN, SUMS, PathSummer, path_tables, summed_up
from seedscope.training.dpsgd.per_example import (
    Layer,
    clipped_sum,
    gradient_norms,
    has_one_unit,
    known_of_rows,
    layers_of,
    output_shapes,
)
from seedscope.training.dpsgd.personal_budgets import SPENT, Budget, Filter, budget_of
from seedscope.training.dpsgd.privacy_losses import LossRecorder, NetworkLosses, Scales, Spare
from seedscope.training.dpsgd.steps import PrivateSteps
from seedscope.training.dpsgd.unit_losses import UnitLosses, with_ones
from seedscope.training.gradient import Probes, Records, flat, observe, starting_points, take

WORKING_SET = 1 << 22  # bytes of layer inputs and outputs that one part may have: it should stay in the cache
LEAST_ROWS = 8  # of a part, whatever its bytes
FIRST_PART = 0.8  # the chance that the first part has room for the Poisson batches of all seeds
LATER_PART = 8  # rows of a later part
ROWS_ALONE = 16  # of a part, at most, where models take turns
PEOPLE_AT_ONCE = 2048  # whose path sums under logistic regression are added up together
NUMBERS_AT_ONCE = 1 << 16  # people × models whose privacy losses under logistic regression are worked on together
Integer = jax.Array | np.uint32 | int  # that may be traced
State = tuple[Parameters, Any, Any, Records, Any, Any, Any]  # … optimiser, draws ahead, norms, traces, losses, spent


class Lossy(NamedTuple):
    """People whose privacy losses are recorded: their places in the training data, and blocks of their rows, labels."""

    places: Any
    blocks: Any


class Dials(NamedTuple):
    """The numbers of a mechanism that compiled training takes as arguments: other values need no new compilation."""

    learning_rate: Any
    noise_scale: Any
    clipping_norm: Any


class People(NamedTuple):
    """The examples whose gradient norms are recorded, and every how many steps."""

    rows: np.ndarray
    labels: np.ndarray
    every: int


@dataclass(frozen=True)
class PrivateJob:
    """What a compiled training function depends on, apart from arrays."""

    network: Network
    private: PrivateSteps
    relation: Relation
    parts: Parts
    room: int
    scores_at_checkpoints: bool
    norms_every: int
    traces: bool = False
    private_columns: tuple[int, ...] | None = None  # that traces are about; None: all
    losses_of_all: bool = False  # whether everybody's privacy losses are recorded


class Data(NamedTuple):
    """Rows [N+1, ...], the spare example last, their labels, and what clipping knows of rows before training."""

    rows: jax.Array
    labels: jax.Array
    known: jax.Array | None
    owners: jax.Array | None = None  # whose each row is, where neighbours are persons


class Sums(NamedTuple):
    """Over a batch, or a part of it: the clipped gradients' sum, and where traces are recorded each example's [N+1]."""

    gradient: Parameters
    traces: Any


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
    lossy: Lossy | None = None,
    tables: jax.Array | None = None,
    budget: Budget | None = None,
) -> Records:
    """Return the records of a block of models, trained side by side.

    dials: the mechanism's numbers; parameters: pytree of [seed, model, ...]; rows [N+1, ...] and labels [N+1], the
    spare example last; drawn [seed, place] and sizes [step, seed], the batches; keys [seed], of the noise; neighbours
    [model]; segments [checkpoint, 2]; probes: (rows, labels) on which scores are recorded; people: blocks of (rows,
    labels) whose gradient norms are recorded; traced [example]: the rows whose Fisher traces are; owners [N+1]: whose
    each row is, where neighbours are persons; lossy: places and blocks of the rows whose privacy losses are recorded;
    tables [order, bin]: of step divergences, where instead of people's norms their sums over the run are recorded;
    budget: what everybody may spend, where people have one.
    """
    rate = job.private.learning_rate
    rate = rate if isinstance(rate, Schedule) else dials.learning_rate
    optimizer = transformation(rate, job.private.momentum, job.private.steps)
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
        updates, carried = optimizer.update(noisy, carried)
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
    return Filter(_Recorder(job, budget.blocks).norms_now, budget, dials.clipping_norm, examples)


def _recorder(
    job: PrivateJob, people: tuple[jax.Array, jax.Array] | None, tables: jax.Array | None, dials: Dials
) -> _Recorder | PathSummer:
    """Return what keeps people's norms, or with tables only the sums of what their steps cost."""
    norms = _Recorder(job, people)
    if tables is None:
        return norms
    return PathSummer(norms.norms_now, tables, dials.clipping_norm, job.norms_every, job.private.steps)


def _loss_recorder(job: PrivateJob, lossy: Lossy | None, rows: jax.Array, labels: jax.Array) -> LossRecorder | None:
    """Return what sums up privacy losses, None where nobody's are recorded; the spare example is the last row."""
    if lossy is None:
        return None
    examples, smooth = len(rows) - 1, job.private.clipping.smooth
    rate = job.private.batch_size / job.private.sampling_size(examples)
    spare = Spare(rows[-1], labels[-1]) if job.relation == "replace_one" else None
    if has_one_unit(jax.eval_shape(job.network.init, jax.random.key(0))):
        blocks = jax.vmap(with_ones)(lossy.blocks[0]), lossy.blocks[1]
        return UnitLosses(smooth, rate, examples, lossy.places, job.losses_of_all, blocks, spare)
    return NetworkLosses(job.network, smooth, job.parts.one_by_one, rate, examples, *lossy, spare)


def batch_sum(
    job: PrivateJob,
    dials: Dials,
    parameters: Parameters,
    data: Data,
    batch: jax.Array,
    parts: jax.Array,
    neighbours: jax.Array,
    keys: jax.Array,
    counted: jax.Array | None = None,
) -> Sums:
    """Return the sums over a batch [seed, place] for every model; parts and keys (of traces' directions) [seed].

    counted [seed, model, N+1]: 0 for rows that are left out, where people have budgets.
    """
    completed, add = partial(with_spare, job, data), partial(part_sum, job, dials, len(data.rows))

    def side_by_side(part: jax.Array, number: Integer) -> Sums:
        def of_seed(parameters: Parameters, part: jax.Array, key: jax.Array, counted: jax.Array | None) -> Sums:
            drawn = completed(drawn_examples(data, part), jax.random.fold_in(key, number))
            return jax.vmap(partial(add, drawn))(parameters, neighbours, counted)

        return jax.vmap(of_seed)(parameters, part, keys, counted)

    def alone(place: tuple[jax.Array, jax.Array]) -> Sums:
        seed, model = place
        own = jax.tree.map(lambda leaf: leaf[seed, model], parameters)

        def of_model(part: jax.Array, number: Integer) -> Sums:
            drawn = completed(drawn_examples(data, part), jax.random.fold_in(keys[seed], number))
            return add(drawn, own, neighbours[model], None if counted is None else counted[seed, model])

        return sum_of_parts(job.parts, parts[seed], of_model, batch[seed])

    if not job.parts.one_by_one:
        return sum_of_parts(job.parts, parts.max(), side_by_side, batch)
    shape = (batch.shape[0], neighbours.shape[0])
    found = jax.lax.map(alone, tuple(jnp.indices(shape).reshape(2, -1)))
    sums: Sums = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), found)
    return sums


def sum_of_parts(
    parts: Parts, later_parts: jax.Array, over: Callable[[jax.Array, Integer], Sums], batch: jax.Array
) -> Sums:
    """Return the sum of what `over` gives for each part of a batch [..., place] and the part's number."""

    def cut(start: Integer, rows: int) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(batch, start, rows, axis=-1)

    def add_part(k: jax.Array, total: Sums) -> Sums:
        added: Sums = jax.tree.map(jnp.add, total, over(cut(parts.first + k * parts.later, parts.later), k + 1))
        return added

    first, whole = cut(0, parts.first), batch.shape[-1]
    if parts.first == parts.later < whole:  # one loop compiles faster than a first part and a loop
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(over, first, 0))
        total: Sums = jax.lax.fori_loop(-1, later_parts, add_part, nothing)
        return total
    return jax.lax.fori_loop(0, later_parts, add_part, over(first, 0)) if parts.first < whole else over(first, 0)


class Drawn(NamedTuple):
    """A part of a batch: its examples' places in the data, the examples, and for traces a random direction of each."""

    places: jax.Array
    data: Data
    directions: jax.Array | None = None


def drawn_examples(data: Data, places: jax.Array) -> Drawn:
    """Return the examples at these places."""
    return Drawn(places, jax.tree.map(lambda values: take(values, places), data))


def with_spare(job: PrivateJob, data: Data, drawn: Drawn, key: jax.Array) -> Drawn:
    """Return the drawn examples, the spare one after them where it replaces a row, with directions where needed."""
    if job.relation == "replace_one":
        last = drawn_examples(data, jnp.array([len(data.rows) - 1], drawn.places.dtype))
        drawn = jax.tree.map(lambda *values: jnp.concatenate(values), drawn, last)
    return drawn._replace(directions=_directions(job, key, drawn.data.rows) if job.traces else None)


def _directions(job: PrivateJob, key: jax.Array, rows: jax.Array) -> jax.Array:
    """Return a direction of random signs for each row, 0 in columns that are not private."""
    signs = jax.random.rademacher(key, rows.shape, rows.dtype)
    if job.private_columns is None:
        return signs
    flat = np.zeros(math.prod(rows.shape[1:]), rows.dtype)
    flat[list(job.private_columns)] = 1
    return signs * flat.reshape(rows.shape[1:])


def part_sum(
    job: PrivateJob,
    dials: Dials,
    examples: int,
    drawn: Drawn,
    parameters: Parameters,
    neighbour: jax.Array,
    counted: jax.Array | None = None,
) -> Sums:
    """Return the sums over a part of a batch for one model; examples: N+1, the spare one counted.

    Adding is linear, so a neighbouring data set is a matter of weights: its own row counts 0, and where it is replaced
    the spare example, the last of the part, counts as often as that row was drawn.
    """
    rows, labels, known, owners = drawn.data
    lacking = (drawn.places if owners is None else owners) == neighbour
    weights = ((drawn.places != examples - 1) & ~lacking).astype(rows.dtype)
    if job.relation == "replace_one":
        weights = weights.at[-1].set(lacking.sum(dtype=weights.dtype))
    if counted is not None:
        weights = weights * take(counted, drawn.places)
    arguments = (job.network, parameters, rows, labels, weights, dials.clipping_norm)
    if drawn.directions is None:
        smooth = job.private.clipping.smooth
        return Sums(clipped_sum(*arguments, smooth, known), ())
    total, squares = smoothly_clipped_sum(*arguments, drawn.directions)
    return Sums(total, jnp.zeros(examples, squares.dtype).at[drawn.places].add(weights * squares))


def no_traces(job: PrivateJob, parameters: Parameters, rows: jax.Array) -> Any:
    """Return the traces [seed, model, N+1] before the first step; nothing where none are recorded."""
    if not job.traces:
        return ()
    leaf = jax.tree.leaves(parameters)[0]
    return jnp.zeros((*leaf.shape[:2], rows.shape[0]), leaf.dtype)


def probe_keys(keys: jax.Array, t: Integer) -> jax.Array:
    """Return the key [seed] of this step's random directions; noise has the keys' own folds by the step."""
    return fold_each(fold_each(keys, np.uint32(zlib.crc32(b"directions"))), t)


def fold_each(keys: jax.Array, number: Integer) -> jax.Array:
    """Return every key with a number folded in."""
    return jax.vmap(partial(jax.random.fold_in, data=number))(keys)


def noisy_update(
    job: PrivateJob,
    dials: Dials,
    total: Parameters,
    batch: jax.Array,
    spare: int,
    neighbours: jax.Array,
    normals: Parameters | None,
    owners: jax.Array | None = None,
) -> Parameters:
    """Return the sums [seed, model, ...] divided by the batch size, with noise from the seed's normals added."""
    expected = job.private.batch_size
    if job.private.rule == "sum":
        update = jax.tree.map(lambda leaf: leaf / expected, total)
    else:
        sizes = true_sizes(job.relation, batch, spare, neighbours, owners)
        update = jax.tree.map(lambda leaf: leaf / _beside(sizes, leaf).astype(leaf.dtype), total)
    if normals is None:
        return update
    normals = jax.lax.optimization_barrier(normals)  # otherwise the compiler draws them again for every model
    scale = dials.noise_scale / expected
    return jax.tree.map(lambda leaf, draw: leaf + scale * draw[:, None].astype(leaf.dtype), update, normals)


def true_sizes(
    relation: Relation, batch: jax.Array, spare: int, neighbours: jax.Array, owners: jax.Array | None = None
) -> jax.Array:
    """Return how many examples each model's batch holds [seed, model], at least 1."""
    drawn = jnp.sum(batch != spare, axis=1)[:, None]
    if relation == "replace_one":
        return jnp.maximum(drawn + 0 * neighbours, 1)
    whose = batch if owners is None else take(owners, batch)
    lacking = jnp.sum(whose[:, None, :] == neighbours[:, None], axis=2)
    return jnp.maximum(drawn - lacking, 1)


class _Recorder:
    """Writes the gradient norms of people into arrays that the training loop carries; without people, nothing."""

    def __init__(self, job: PrivateJob, people: tuple[jax.Array, jax.Array] | None):
        self.job, self.people = job, people
        self.slots = -(-job.private.steps // job.norms_every) if people else 0

    def empty(self, parameters: Parameters) -> Records:
        """Return room for every recorded state, and a last slot: for what is not kept, in the end the final state."""
        if self.people is None:
            return {}
        found = jax.eval_shape(self._observe, parameters)
        return {name: jnp.zeros((self.slots + 1, *one.shape), one.dtype) for name, one in found.items()}

    def record(self, norms: Records, parameters: Parameters, t: jax.Array) -> Records:
        """Return the arrays with the norms at the state before step t, if it is one of those recorded."""
        if self.people is None:
            return norms
        every = self.job.norms_every
        if every == 1:
            return {name: norms[name].at[t].set(one) for name, one in self._observe(parameters).items()}
        here = t % every == 0
        nothing = {name: jnp.zeros(one.shape[1:], one.dtype) for name, one in norms.items()}
        found = jax.lax.cond(here, self._observe, lambda _: nothing, parameters)
        return {name: norms[name].at[jnp.where(here, t // every, self.slots)].set(one) for name, one in found.items()}

    def finished(self, norms: Records, parameters: Parameters) -> Records:
        """Return the arrays [seed, model, state, person] with the final state's norms in the last slot."""
        if self.people is None:
            return {}
        last = self._observe(parameters)
        return {name: jnp.moveaxis(norms[name].at[-1].set(last[name]), 0, 2) for name in norms}

    def norms_now(self, parameters: Parameters) -> jax.Array:
        """Return the norms [seed, model, person] now."""
        return self._observe(parameters)["gradient_norms"]

    def _observe(self, parameters: Parameters) -> Records:
        """Return norms and correctness [seed, model, person] now, block of people by block."""

        def block(people: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            one_model = partial(gradient_norms, self.job.network, rows=people[0], labels=people[1])
            over: Callable[[Any], Any] = one_after_another if self.job.parts.one_by_one else jax.vmap
            found: tuple[jax.Array, jax.Array] = over(over(one_model))(parameters)
            return found

        found = jax.lax.map(block, self.people)
        norms, correct = (jnp.moveaxis(one, 0, 2).reshape(*one.shape[1:3], -1) for one in found)
        return {"gradient_norms": norms, "correct": correct.astype(jnp.int8)}


def one_after_another(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function over an axis of its argument, like `jax.vmap`, but one at a time."""
    return lambda values: jax.lax.map(function, values)


def batch_parts(
    network: Network, private: PrivateSteps, shape: tuple[int, ...], seeds: int, models: int, examples: int
) -> Parts:
    """Return the parts for this many seeds × models: few enough rows for the cache, many enough for speed.

    Where not even one model's batch fits, models share little and are worked through one by one.
    """
    batch = first = private.drawn_size(examples)
    if private.sampling.varies:
        deviations = NormalDist().inv_cdf(FIRST_PART ** (1 / seeds))
        first = min(examples, batch + math.ceil(deviations * math.sqrt(batch * (1 - batch / examples))))
    if models > 1 and first > 4 * VECTOR:  # then rows lie side by side in vector registers: fill them
        first = -(-first // VECTOR) * VECTOR
    alone = max(LEAST_ROWS, WORKING_SET // row_bytes(network, shape, 1))
    if first > alone:
        return _equal_parts(batch, min(alone, ROWS_ALONE))._replace(one_by_one=True)
    most = max(LEAST_ROWS, WORKING_SET // (seeds * row_bytes(network, shape, models)))
    return _equal_parts(batch, most) if first > most else Parts(first, min(LATER_PART, first))


def _equal_parts(batch: int, most: int) -> Parts:
    """Return parts of equal size, at most this many rows, that a batch of the expected size fills."""
    rows = -(-batch // -(-batch // most))
    return Parts(rows, rows)


@lru_cache
def row_bytes(network: Network, shape: tuple[int, ...], models: int) -> int:
    """Return the bytes that one example takes: the first layer's input once, and per model what all layers hold."""
    parameters = jax.eval_shape(network.init, jax.random.key(0))
    outputs = output_shapes(network, parameters, jax.ShapeDtypeStruct(shape, np.float32))
    held: int
    if outputs is None:
        held = sum(leaf.size for leaf in jax.tree.leaves(parameters))
        return 4 * (math.prod(shape) + models * held)
    lifted = [_lifted_numbers(*one) for one in zip(layers_of(parameters)[0], outputs, strict=True)]
    held = sum(lifted[1:]) + sum(output.size for output in outputs)
    return 4 * (lifted[0] + models * held)


def _lifted_numbers(layer: Layer, output: jax.ShapeDtypeStruct) -> int:
    """Return how many numbers a layer's lifted input has for one example."""
    if isinstance(layer, ScaleAndShift):
        return int(output.size)
    pooled = isinstance(layer, PooledConvolution)
    matrix = jax.eval_shape(PooledConvolution.matrix, layer) if pooled else layer.weight
    numbers: int = output.size // matrix.shape[0] * matrix.shape[1]
    return numbers


def train_dpsgd(
    private: PrivateSteps,
    network: Network,
    relation: Relation,
    root_seed: int,
    seeds: np.ndarray,
    neighbours: np.ndarray,
    inits: tuple[str, ...],
    checkpoints: tuple[int, ...],
    rows: np.ndarray,
    labels: np.ndarray,
    probes: tuple[np.ndarray, np.ndarray] | None,
    scores_at_checkpoints: bool = False,
    people: People | None = None,
    traced: np.ndarray | None = None,
    noise_seed: int | None = None,
    owners: np.ndarray | None = None,
    lossy: np.ndarray | None = None,
    path_orders: tuple[float, ...] = (),
    private_columns: tuple[int, ...] | None = None,
) -> dict[str, np.ndarray]:
    """Return the records of the models seeds × neighbours × inits, arrays [seed, neighbour, init, ...].

    rows [N+1, ...] and labels [N+1] have the spare example last. With `people`, their gradient norms before clipping
    and whether they are classified correctly are recorded [..., state, person] before steps 0, k, 2k, … and after the
    last. With `traced`, indices of rows, the traces of their Fisher information up to each checkpoint [...,
    checkpoint, row], about the `private_columns`, default all. With `noise_seed`, noise has that root instead. With
    `owners` [N+1] neighbours are persons. With `lossy`, indices of rows, their privacy losses of the whole run [...,
    row]. With `path_orders` people's norms are not kept, but the sums of their step divergences [..., order, person].
    """
    examples, models = len(rows) - 1, len(neighbours) * len(inits)
    parts = batch_parts(network, private, rows.shape[1:], len(seeds), models, examples)
    batches = draw_batches(private, root_seed, seeds, examples, parts)
    every = people.every if people else 1
    plain, numbers = private.at_one()
    dials = Dials(*numbers)
    job = PrivateJob(
        network, plain, relation, parts, batches.room, scores_at_checkpoints, every, traced is not None,
        private_columns, lossy is not None and np.array_equal(lossy, np.arange(examples)),
    )  # fmt: skip
    parameters = starting_points(network.init, root_seed, np.asarray(seeds, np.int32), len(neighbours), inits)
    segments = np.stack([(0, *checkpoints[:-1]), checkpoints], axis=1).astype(np.int32)
    lacking = np.repeat(neighbours, len(inits)).astype(np.int32)
    records = train_block(
        job, dials, parameters, rows, labels, batches.drawn, batches.sizes,
        noise_keys(root_seed if noise_seed is None else noise_seed, seeds), lacking, segments, probes,
        _blocks(people, _width(network, people, parts, path_orders)), traced, owners,
        _lossy(network, lossy, rows, labels, parts, models * len(seeds)), _path_tables(private, examples, path_orders),
        _budget(network, private, rows, labels, parts),
    )  # fmt: skip
    shape = (len(seeds), len(neighbours), len(inits))
    kept = {name: np.asarray(values).reshape(*shape, *values.shape[2:]) for name, values in records.items()}
    if people is None:
        return kept
    kept |= {name: kept[name][..., : len(people.rows)] for name in RECORDED if name in kept}
    return kept | ({SUMS: summed_up(kept[SUMS], private.steps)} if path_orders else {})


RECORDED = ("gradient_norms", "correct", SUMS)


def _path_tables(private: PrivateSteps, examples: int, orders: tuple[float, ...]) -> np.ndarray | None:
    """Return the divergences of steps that path sums look up; None where none are recorded."""
    if not orders:
        return None
    return path_tables(private.noise_multiplier, private.batch_size / private.sampling_size(examples), orders)


def _width(network: Network, people: People | None, parts: Parts, path_orders: tuple[float, ...]) -> int:
    """Return how many people are looked at together: all of them where their path sums under one unit are added up."""
    unit = bool(path_orders) and has_one_unit(jax.eval_shape(network.init, jax.random.key(0)))
    return min(len(people.rows), PEOPLE_AT_ONCE) if people is not None and unit else parts.first


def _budget(
    network: Network, private: PrivateSteps, rows: np.ndarray, labels: np.ndarray, parts: Parts
) -> Budget | None:
    """Return what everybody may spend, and their rows in blocks; None where people have no budget."""
    if private.budget is None:
        return None
    people = People(rows[:-1], labels[:-1], 1)
    blocks = _blocks(people, _width(network, people, parts, (private.budget[0],)))
    rate = private.batch_size / private.sampling_size(len(rows) - 1)
    return budget_of(*private.budget, private.noise_multiplier, rate, private.steps, blocks)


def dpsgd_trainer(job: Job, private: PrivateSteps) -> ChunkTrainer:
    """Return the function that trains a job's chunks by clipped gradients plus noise."""
    network = network_of(job.model, job.rows.shape[1:], job.classes)
    people = None
    if job.watched_rows is not None and job.watched_labels is not None:
        people = People(job.watched_rows, job.watched_labels, job.norms_every)

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        records = train_dpsgd(
            private, network, job.relation, job.root_seed, seeds, job.lacking(neighbours), job.inits, job.checkpoints,
            job.rows, job.labels, job.probes, job.scores_at_checkpoints, people, job.traced, job.noise_seed, job.owners,
            job.lossy, job.path_orders, job.private_columns,
        )  # fmt: skip
        if people is None or job.path_orders:
            return records
        norms = rounded_up(records["gradient_norms"] * np.float32(1 + NORM_MARGIN), job.norms_precision)
        return records | {"gradient_norms": norms, "correct": records["correct"].astype(np.float16)}

    return train


def rounded_up(values: np.ndarray, precision: str) -> np.ndarray:
    """Return the values in the precision, none of them smaller than it was.

    >>> rounded_up(np.array([1.0001]), "float16").tolist()
    [1.0009765625]
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(precision)
        return np.where(rounded < values, np.nextafter(rounded, np.array(np.inf, precision)), rounded)


def _blocks(people: People | None, width: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return people's rows and labels in blocks [block, width, ...], the last filled up with repetitions."""
    if people is None:
        return None
    filled = np.resize(np.arange(len(people.rows)), -(-len(people.rows) // width) * width)
    return people.rows[filled].reshape(-1, width, *people.rows.shape[1:]), people.labels[filled].reshape(-1, width)


def _lossy(
    network: Network, places: np.ndarray | None, rows: np.ndarray, labels: np.ndarray, parts: Parts, models: int
) -> Lossy | None:
    """Return the people whose privacy losses are recorded, in blocks that stay in the cache."""
    if places is None:
        return None
    people = People(rows[places], labels[places], 1)
    unit = has_one_unit(jax.eval_shape(network.init, jax.random.key(0)))
    together = max(LEAST_ROWS, NUMBERS_AT_ONCE // models) if unit else parts.first
    return Lossy(places.astype(np.int32), _blocks(people, min(len(places), together)))


def _beside(sizes: jax.Array, leaf: jax.Array) -> jax.Array:
    """Return sizes [seed, model] with the axes that a leaf [seed, model, ...] has beyond."""
    return sizes.reshape(sizes.shape + (1,) * (leaf.ndim - 2))
