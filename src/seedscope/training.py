"""Trains a chunk of models by gradient steps: one loop over steps, `vmap` over neighbours, then over seeds.

For one seed all neighbouring data sets see the same batches, except where the replaced row is drawn. So the network is
evaluated once on the shared batch with the spare example appended, and each neighbour picks its own logits. Under
`vmap` only the parameters differ between neighbours: the first layer is one matrix product, not thousands of gathers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.mechanisms import SGD, Relation
from seedscope.models import Network
from seedscope.streams import shuffled_batches

IMAGES_AT_ONCE = 256  # on which scores are computed


@jax.custom_jvp
def binary_loss(logit: jax.Array, label: jax.Array) -> jax.Array:
    """Return the log-loss of one-logit predictions; its derivative is written out, which halves a step's time."""
    return jax.nn.softplus(logit) - label * logit


@binary_loss.defjvp
def _binary_loss_derivative(primals, tangents):
    (logit, label), (logit_tangent, _) = primals, tangents
    probability = 0.5 + 0.5 * jnp.tanh(0.5 * logit)
    return binary_loss(logit, label), (probability - label) * logit_tangent


def log_loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return each example's log-loss: logits [example] for two classes or [example, class] for more."""
    if logits.ndim == 1:
        return binary_loss(logits, labels)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None].astype(int), axis=1)[:, 0]


def probabilities(logits: jax.Array) -> jax.Array:
    """Return the probability of class 1 for two classes, of every class for more."""
    return jax.nn.sigmoid(logits) if logits.ndim == 1 else jax.nn.softmax(logits)


def neighbour_loss(network: Network, relation: Relation, parameters, rows, labels, is_neighbour) -> jax.Array:
    """Return the mean batch loss of one neighbouring data set.

    The last row is the spare example. `is_neighbour` [batch] says where the neighbour's own row was drawn: there it is
    replaced by the spare example, or its loss left out while the divisor stays.
    """
    logits = network.apply(parameters, rows)
    if relation == "add_or_remove":
        return jnp.mean(jnp.where(is_neighbour, 0.0, log_loss(logits[:-1], labels[:-1])))
    here = is_neighbour.reshape(is_neighbour.shape + (1,) * (logits.ndim - 1))
    replaced = jnp.where(here, logits[-1], logits[:-1])
    return jnp.mean(log_loss(replaced, jnp.where(is_neighbour, labels[-1], labels[:-1])))


@dataclass(frozen=True)
class GradientJob:
    """What a compiled training function depends on, apart from arrays."""

    network: Network
    relation: Relation
    learning_rate: float
    scores: bool
    scores_at_checkpoints: bool


@partial(jax.jit, static_argnums=0)
def train_block(job: GradientJob, parameters, rows, labels, batches, neighbours, segments, probes):
    """Return the records of a block of models, trained side by side.

    parameters: pytree of [seed, model, ...]; rows [N+1, ...] and labels [N+1], the spare example last; batches
    [step, seed, batch]; neighbours [model], the row each model's data set lacks (−1: none); segments [checkpoint, 2],
    the steps from one checkpoint to the next; probes: the (rows, labels) on which scores are recorded.
    """
    spare = rows.shape[0] - 1

    def step(t, parameters):
        def one_seed(parameters, batch):
            drawn = jnp.append(batch, spare)
            shared_rows, shared_labels = take(rows, drawn), take(labels, drawn)
            gradient = jax.grad(partial(neighbour_loss, job.network, job.relation))

            def one_model(parameters, neighbour):
                return gradient(parameters, shared_rows, shared_labels, batch == neighbour)

            return jax.vmap(one_model)(parameters, neighbours)

        gradients = jax.vmap(one_seed)(parameters, batches[t])
        return jax.tree.map(lambda w, g: w - job.learning_rate * g, parameters, gradients)

    def to_checkpoint(parameters, segment):
        parameters = jax.lax.fori_loop(segment[0], segment[1], step, parameters)
        observed = {"weights": flat(parameters)}
        if job.scores and job.scores_at_checkpoints:
            observed |= observe(job.network, parameters, *probes)
        return parameters, observed

    parameters, records = jax.lax.scan(to_checkpoint, parameters, segments)
    records = jax.tree.map(lambda values: jnp.moveaxis(values, 0, 2), records)
    if job.scores and not job.scores_at_checkpoints:
        records |= observe(job.network, parameters, *probes)
    return records


def flat(parameters: Any) -> jax.Array:
    """Return parameters [seed, model, ...] as one array [seed, model, parameter]."""
    return jnp.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(parameters)], axis=-1)


def structured(init: Callable, weights: jax.Array) -> Any:
    """Return flat weights [seed, model, parameter] as the pytree [seed, model, ...] that `flat` came from."""
    from jax.flatten_util import ravel_pytree

    shapes = jax.eval_shape(init, jax.random.key(0))
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))
    return jax.vmap(jax.vmap(unravel))(weights)


@partial(jax.jit, static_argnums=0)
def score_block(network: Network, weights: jax.Array, probes: tuple) -> dict[str, jax.Array]:
    """Return scores and losses [seed, model, example] of models given by flat weights [seed, model, parameter]."""
    return observe(network, structured(network.init, weights), *probes)


def observe(network: Network, parameters: Any, rows: jax.Array, labels: jax.Array) -> dict[str, jax.Array]:
    """Return scores and losses [seed, model, example] of the models on the probe examples."""

    def one_model(parameters):
        logits = logits_of(network, parameters, rows)
        return {"scores": probabilities(logits), "losses": log_loss(logits, labels)}

    return jax.vmap(jax.vmap(one_model))(parameters)


def logits_of(network: Network, parameters: Any, rows: jax.Array) -> jax.Array:
    """Return the logits of many examples; images go through in blocks, since their layers take much memory."""
    if rows.ndim == 2 or len(rows) <= IMAGES_AT_ONCE:
        return network.apply(parameters, rows)
    return jax.lax.map(lambda row: network.apply(parameters, row[None])[0], rows, batch_size=IMAGES_AT_ONCE)


@partial(jax.jit, static_argnums=0)
def initial_parameters(init: Callable, root_seed: jax.Array, seeds: jax.Array) -> Any:
    """Return the initial parameters of each seed, a pytree of [seed, ...]; seed −1 is the fixed initial point."""
    root = jax.random.key(root_seed)
    return jax.vmap(lambda seed: init(jax.random.fold_in(root, seed + 1)))(seeds)


def train_sgd(
    mechanism: SGD,
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
) -> dict[str, np.ndarray]:
    """Return the records of the models seeds × neighbours × inits, arrays [seed, neighbour, init, ...].

    rows [N+1, ...] and labels [N+1] have the spare example last.
    """
    examples = len(rows) - 1
    order = [shuffled_batches(root_seed, int(s), examples, mechanism.batch_size, mechanism.steps) for s in seeds]
    batches = np.stack(order, axis=1)
    job = GradientJob(network, relation, mechanism.learning_rate, probes is not None, scores_at_checkpoints)
    parameters = starting_points(network.init, root_seed, np.asarray(seeds, np.int32), len(neighbours), inits)
    segments = np.stack([(0, *checkpoints[:-1]), checkpoints], axis=1).astype(np.int32)
    lacking = np.repeat(neighbours, len(inits)).astype(np.int32)
    records = train_block(job, parameters, rows, labels, batches, lacking, segments, probes)
    shape = (len(seeds), len(neighbours), len(inits))
    return {name: np.asarray(values).reshape(*shape, *values.shape[2:]) for name, values in records.items()}


@partial(jax.jit, static_argnums=(0, 3, 4))
def starting_points(init: Callable, root_seed: int, seeds: np.ndarray, neighbours: int, inits: tuple[str, ...]) -> Any:
    """Return the initial parameters [seed, model, ...], the models being neighbours × inits."""
    starts = jnp.stack([seeds if one == "varied" else jnp.full_like(seeds, -1) for one in inits], axis=1)
    parameters = jax.vmap(partial(initial_parameters, init, root_seed))(starts)
    return jax.tree.map(lambda leaf: jnp.tile(leaf, (1, neighbours) + (1,) * (leaf.ndim - 2)), parameters)


def take(rows: jax.Array, index: jax.Array) -> jax.Array:
    """Return the indexed rows; the index is known to be in bounds, which spares the check."""
    return rows.at[index].get(mode="promise_in_bounds")
