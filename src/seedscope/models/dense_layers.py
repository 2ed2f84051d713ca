"""Dense layers as an Equinox module; importing it loads JAX."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from seedscope.models.base import Network, Parameters, Shape
from seedscope.models.networks import ACTIVATION_FUNCTIONS, equinox_network, outputs

MASK_VALUES = 1 << 16  # of the random numbers that decide which units are left out


def dense_network(shape: Shape, hidden: Shape, classes: int, activation: str) -> Network:
    """Return the (init, apply) pair of dense layers."""
    size, last = int(np.prod(shape)), outputs(classes)
    return equinox_network(lambda key: Dense(size, hidden, last, activation, key))._replace(takes_rows=True)


def with_dropout(network: Network, hidden: Shape, dropout: float) -> Network:
    """Return the network of dense layers with masks for its hidden units while it trains."""
    module: Any = network.module

    def while_training(parameters: Parameters, batch: jax.Array, key: jax.Array) -> jax.Array:
        masks = dropout_masks(key, len(batch), hidden, 1 - dropout)
        logits: jax.Array = jax.vmap(module(parameters))(batch, masks)
        return logits

    return network._replace(while_training=while_training)


def dropout_masks(key: jax.Array, examples: int, hidden: Shape, kept: float) -> tuple[jax.Array, ...]:
    """Return a mask [example, unit] for each hidden layer: 0, or what keeps the mean as it is.

    Drawing masks takes longer than a small network's step, so a hash of the generator serves four units: the chance to
    be `kept` is rounded to a whole number of 2⁻¹⁶.
    """
    values_kept = max(1, round(kept * MASK_VALUES))
    with jax.threefry_partitionable(False):
        drawn = jax.random.bits(key, (examples, sum(hidden)), jnp.uint16)
    masks = jnp.where(drawn < values_kept, jnp.float32(MASK_VALUES / values_kept), 0.0)
    return tuple(jnp.split(masks, np.cumsum(hidden)[:-1], axis=1))


def dense_layer(inputs: int, outputs: Any, key: jax.Array) -> eqx.nn.Linear:
    """Return a dense layer with Glorot-uniform weights and zero bias."""
    layer = eqx.nn.Linear(inputs, outputs, key=key)
    units = layer.weight.shape[0]
    limit = np.sqrt(6 / (inputs + units))
    weight = jax.random.uniform(key, layer.weight.shape, minval=-limit, maxval=limit)
    filled: eqx.nn.Linear = eqx.tree_at(lambda linear: (linear.weight, linear.bias), layer, (weight, jnp.zeros(units)))
    return filled


class Dense(eqx.Module):
    """Dense layers with an activation between them."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: str = eqx.field(static=True)

    def __init__(self, inputs: int, hidden: Shape, outputs: int | str, activation: str, key: jax.Array):
        widths: tuple[Any, ...] = (inputs, *hidden, outputs)
        keys = jax.random.split(key, len(widths) - 1)
        self.layers = tuple(dense_layer(a, b, k) for (a, b), k in zip(pairwise(widths), keys, strict=True))
        self.activation = activation

    def __call__(self, x: jax.Array, masks: tuple[jax.Array, ...] = ()) -> jax.Array:
        x = x.reshape(-1)
        for place, layer in enumerate(self.layers[:-1]):
            x = ACTIVATION_FUNCTIONS[self.activation](layer(x))
            x = x * masks[place] if masks else x
        return self.layers[-1](x)
