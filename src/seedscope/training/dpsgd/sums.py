"""The noisy sum of clipped gradients over a batch, for all models of a block.

For one seed all neighbouring data sets share the batches: adding is linear, so a neighbour is a matter of the weights
with which a batch's examples count.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.core import Relation
from seedscope.models import Network, Parameters
from seedscope.training.dpsgd.batches import Parts
from seedscope.training.dpsgd.leakage import smoothly_clipped_sum
from seedscope.training.dpsgd.per_example import clipped_sum
from seedscope.training.dpsgd.steps import PrivateSteps
from seedscope.training.gradient import take

Integer = jax.Array | np.uint32 | int  # that may be traced


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


class Dials(NamedTuple):
    """The numbers of a mechanism that compiled training takes as arguments: other values need no new compilation."""

    learning_rate: Any
    noise_scale: Any
    clipping_norm: Any


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
    by_model = jax.lax.map(alone, tuple(jnp.indices(shape).reshape(2, -1)))
    sums: Sums = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), by_model)
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


def _beside(sizes: jax.Array, leaf: jax.Array) -> jax.Array:
    """Return sizes [seed, model] with the axes that a leaf [seed, model, ...] has beyond."""
    return sizes.reshape(sizes.shape + (1,) * (leaf.ndim - 2))
