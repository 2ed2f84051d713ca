"""Trains a chunk of models by gradient steps: one loop over steps, `vmap` over neighbours, then over seeds.

For one seed all neighbouring data sets see the same batches, except where the replaced row is drawn. So the network is
evaluated once on the shared batch with the spare example appended, and each neighbour picks its own logits. Under
`vmap` only the parameters differ between neighbours: the first layer is one matrix product, not thousands of gathers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.core import Relation
from seedscope.models import Init, Network, Parameters, network_of, root_key
from seedscope.training import Arrays, ChunkTrainer, Job, normals, shuffled_batches
from seedscope.training.gradient.losses import log_loss, probabilities

IMAGES_AT_ONCE = 256  # on which scores are computed
MASKS = 2**31 - 1  # folded into the root key: initial points fold in small numbers
Records = dict[str, jax.Array]
Probes = tuple[jax.Array, jax.Array]  # rows and labels


class PlainSteps(Protocol):
    """What training reads of plain SGD."""

    @property
    def learning_rate(self) -> float: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def steps(self) -> int: ...


def neighbour_loss(
    network: Network,
    relation: Relation,
    parameters: Parameters,
    rows: jax.Array,
    labels: jax.Array,
    is_neighbour: jax.Array | None,
    key: jax.Array | None = None,
) -> jax.Array:
    """Return the mean batch loss of one neighbouring data set.

    The last row is the spare example. `is_neighbour` [batch] says where the neighbour's own row was drawn: there it is
    replaced by the spare example, or its loss left out while the divisor stays. None: the base, which replaces nothing.
    The key is of the masks of a network that has them while training.
    """
    masked = network.while_training
    logits = network.apply(parameters, rows) if masked is None or key is None else masked(parameters, rows, key)
    if is_neighbour is None:
        return jnp.mean(log_loss(logits[:-1], labels[:-1]))
    if relation == "add_or_remove":
        return jnp.mean(jnp.where(is_neighbour, 0.0, log_loss(logits[:-1], labels[:-1])))
    is_own = is_neighbour.reshape(is_neighbour.shape + (1,) * (logits.ndim - 1))
    replaced = jnp.where(is_own, logits[-1], logits[:-1])
    return jnp.mean(log_loss(replaced, jnp.where(is_neighbour, labels[-1], labels[:-1])))


@dataclass(frozen=True)
class GradientJob:
    """What a compiled training function depends on, apart from arrays."""

    network: Network
    relation: Relation
    learning_rate: float
    scores_at_checkpoints: bool


@partial(jax.jit, static_argnums=0)
def train_block(
    job: GradientJob,
    parameters: Parameters,
    rows: jax.Array,
    labels: jax.Array,
    batches: jax.Array,
    neighbours: jax.Array | None,
    segments: jax.Array,
    probes: Probes | None,
    owners: jax.Array | None = None,
    keys: jax.Array | None = None,
) -> Records:
    """Return the records of a block of models, trained side by side.

    parameters: pytree of [seed, model, ...]; rows [N+1, ...] and labels [N+1], the spare example last; batches
    [step, seed, batch]; neighbours [model], the row each model's data set lacks (−1: none), or None where none lacks
    any, which trains the same bits in less time; segments [checkpoint, 2], the steps from one checkpoint to the next;
    probes: the (rows, labels) on which scores are recorded; owners [N+1]: whose each row is, where neighbours are
    persons; keys [seed]: of the masks of a network that has them while training, shared by all data sets of a seed.
    """
    spare = rows.shape[0] - 1

    def step(t: jax.Array, parameters: Parameters) -> Parameters:
        def one_seed(parameters: Parameters, batch: jax.Array, key: jax.Array | None) -> Parameters:
            drawn = jnp.append(batch, spare)
            shared_rows, shared_labels = take(rows, drawn), take(labels, drawn)
            gradient = jax.grad(partial(neighbour_loss, job.network, job.relation))
            whose = batch if owners is None else take(owners, batch)

            def one_model(parameters: Parameters, neighbour: jax.Array | None) -> Parameters:
                is_neighbour = None if neighbour is None else whose == neighbour
                return gradient(parameters, shared_rows, shared_labels, is_neighbour, key)

            return jax.vmap(one_model)(parameters, neighbours)

        drawing = None if keys is None else jax.vmap(lambda key: jax.random.fold_in(key, t))(keys)
        gradients = jax.vmap(one_seed)(parameters, batches[t], drawing)
        return jax.tree.map(lambda w, g: w - job.learning_rate * g, parameters, gradients)

    def to_checkpoint(parameters: Parameters, segment: jax.Array) -> tuple[Parameters, Records]:
        parameters = jax.lax.fori_loop(segment[0], segment[1], step, parameters)
        observed = {"weights": flat(parameters)}
        if probes is not None and job.scores_at_checkpoints:
            observed |= observe(job.network, parameters, *probes)
        return parameters, observed

    parameters, records = jax.lax.scan(to_checkpoint, parameters, segments)
    kept: Records = jax.tree.map(lambda values: jnp.moveaxis(values, 0, 2), records)
    if probes is not None and not job.scores_at_checkpoints:
        kept |= observe(job.network, parameters, *probes)
    return kept


def flat(parameters: Parameters) -> jax.Array:
    """Return parameters [seed, model, ...] as one array [seed, model, parameter]."""
    return jnp.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(parameters)], axis=-1)


def structured(init: Init, weights: jax.Array) -> Parameters:
    """Return flat weights [seed, model, parameter] as the pytree [seed, model, ...] that `flat` came from."""
    from jax.flatten_util import ravel_pytree

    shapes = jax.eval_shape(init, jax.random.key(0))
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))
    return jax.vmap(jax.vmap(unravel))(weights)


@partial(jax.jit, static_argnums=0)
def score_block(network: Network, weights: jax.Array, probes: Probes) -> Records:
    """Return scores and losses [seed, model, example] of models given by flat weights [seed, model, parameter]."""
    return observe(network, structured(network.init, weights), *probes)


def observe(network: Network, parameters: Parameters, rows: jax.Array, labels: jax.Array) -> Records:
    """Return scores and losses [seed, model, example] of the models on the probe examples."""

    def one_model(parameters: Parameters) -> Records:
        logits = logits_of(network, parameters, rows)
        return {"scores": probabilities(logits), "losses": log_loss(logits, labels)}

    observed: Records = jax.vmap(jax.vmap(one_model))(parameters)
    return observed


def logits_of(network: Network, parameters: Parameters, rows: jax.Array) -> jax.Array:
    """Return the logits of many examples; images go through in blocks, since their layers take much memory."""
    if rows.ndim == 2 or len(rows) <= IMAGES_AT_ONCE:
        return network.apply(parameters, rows)
    logits: jax.Array = jax.lax.map(
        lambda row: network.apply(parameters, row[None])[0], rows, batch_size=IMAGES_AT_ONCE
    )
    return logits


@partial(jax.jit, static_argnums=0)
def initial_parameters(init: Init, root_seed: jax.Array, seeds: jax.Array) -> Parameters:
    """Return the initial parameters of each seed, a pytree of [seed, ...]; seed −1 is the fixed initial point."""
    root = root_key(root_seed)
    return jax.vmap(lambda seed: init(jax.random.fold_in(root, seed + 1)))(seeds)


@jax.jit
def mask_keys(root_seed: jax.Array, seeds: jax.Array) -> jax.Array:
    """Return the key of each seed's masks."""
    masks = jax.random.fold_in(root_key(root_seed), MASKS)
    return jax.vmap(lambda seed: jax.random.fold_in(masks, seed))(seeds)


def train_sgd(
    plain: PlainSteps,
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
    owners: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Return the records of the models seeds × neighbours × inits, arrays [seed, neighbour, init, ...].

    rows [N+1, ...] and labels [N+1] have the spare example last. With `owners` [N+1] neighbours are persons.
    """
    examples = len(rows) - 1
    order = [shuffled_batches(root_seed, int(s), examples, plain.batch_size, plain.steps) for s in seeds]
    batches = np.stack(order, axis=1)
    job = GradientJob(network, relation, plain.learning_rate, scores_at_checkpoints)
    parameters = starting_points(network.init, root_seed, np.asarray(seeds, np.int32), len(neighbours), inits)
    segments = np.stack([(0, *checkpoints[:-1]), checkpoints], axis=1).astype(np.int32)
    lacking = np.repeat(neighbours, len(inits)).astype(np.int32) if np.any(neighbours >= 0) else None
    keys = None if network.while_training is None else mask_keys(root_seed, np.asarray(seeds, np.int32))
    records = train_block(job, parameters, rows, labels, batches, lacking, segments, probes, owners, keys)
    shape = (len(seeds), len(neighbours), len(inits))
    return {name: np.asarray(values).reshape(*shape, *values.shape[2:]) for name, values in records.items()}


def sgd_trainer(job: Job, plain: PlainSteps) -> ChunkTrainer:
    """Return the function that trains a job's chunks by plain gradient steps."""
    network = network_of(job.model, job.rows.shape[1:], job.classes)

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        return train_sgd(
            plain, network, job.relation, job.root_seed, seeds, job.lacking(neighbours), job.inits, job.checkpoints,
            job.rows, job.labels, job.probes, job.scores_at_checkpoints, job.owners,
        )  # fmt: skip

    return train


def noisy_sgd_trainer(job: Job, plain: PlainSteps, noise_scale: float) -> ChunkTrainer:
    """Return the function that trains a job's chunks by SGD whose weights get noise, and are scored with it."""
    network = network_of(job.model, job.rows.shape[1:], job.classes)

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        records = train_sgd(
            plain, network, job.relation, job.root_seed, seeds, job.lacking(neighbours), job.inits, job.checkpoints,
            job.rows, job.labels, None, owners=job.owners,
        )  # fmt: skip
        noise = noise_scale * normals(job.noise_seed, "augmentation", seeds, records["weights"].shape[-1])
        weights = (records["weights"] + noise[:, None, None, None, :]).astype(np.float32)
        return {"weights": weights} | _scores_of_released(job, network, weights)

    return train


def _scores_of_released(job: Job, network: Network, weights: np.ndarray) -> Arrays:
    """Return scores and losses of released weights [seed, neighbour, init, checkpoint, weight]."""
    if job.probes is None:
        return {}
    released = weights if job.scores_at_checkpoints else weights[..., -1, :]
    models = released.reshape(len(weights), -1, weights.shape[-1])
    scored = score_block(network, models, job.probes)
    return {name: np.asarray(one).reshape(*released.shape[:-1], *one.shape[2:]) for name, one in scored.items()}


@partial(jax.jit, static_argnums=(0, 3, 4))
def starting_points(
    init: Init, root_seed: int, seeds: np.ndarray, neighbours: int, inits: tuple[str, ...]
) -> Parameters:
    """Return the initial parameters [seed, model, ...], the models being neighbours × inits."""
    starts = jnp.stack([seeds if one == "varied" else jnp.full_like(seeds, -1) for one in inits], axis=1)
    parameters = jax.vmap(partial(initial_parameters, init, root_seed))(starts)
    return jax.tree.map(lambda leaf: jnp.tile(leaf, (1, neighbours) + (1,) * (leaf.ndim - 2)), parameters)


def take(rows: jax.Array, index: jax.Array) -> jax.Array:
    """Return the indexed rows; the index is known to be in bounds, which spares the check."""
    return rows.at[index].get(mode="promise_in_bounds")
