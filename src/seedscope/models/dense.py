"""Logistic regression and networks of dense layers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from seedscope.core import require_count, require_probability
from seedscope.models.base import (
    ACTIVATIONS,
    Model,
    Network,
    Parameters,
    Shape,
    _require_activation,
    equinox_network,
    outputs,
)

MASK_VALUES = 1 << 16  # of the random numbers that decide which units are left out


@dataclass(frozen=True)
class Logistic(Model):
    """Logistic regression with a bias; multinomial where there are more than two classes."""

    @property
    def convex(self) -> bool:
        return True

    def network(self, shape: Shape, classes: int) -> Network:
        return dense_network(shape, (), classes, "relu")


@dataclass(frozen=True)
class MLP(Model):
    """A network of dense layers, by default with one hidden layer of 10 (IP1, IP2)."""

    hidden: tuple[int, ...] = (10,)
    activation: str = "relu"

    def __post_init__(self) -> None:
        for width in self.hidden:
            require_count("hidden", width)
        _require_activation(self.activation)

    def network(self, shape: Shape, classes: int) -> Network:
        return dense_network(shape, self.hidden, classes, self.activation)


@dataclass(frozen=True)
class DropoutMLP(MLP):
    """A network of dense layers that leaves out each hidden unit with the probability `dropout` while it trains.

    The mask is each example's own in each step and the same for all data sets of a seed; a released model has none. The
    authors of IP1 and IP2 train their networks with 0.2, which neither paper says.
    """

    dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        require_probability("dropout", self.dropout)

    @property
    def draws_masks(self) -> bool:
        return True

    def network(self, shape: Shape, classes: int) -> Network:
        network = super().network(shape, classes)
        module: Any = network.module

        def while_training(parameters: Parameters, batch: jax.Array, key: jax.Array) -> jax.Array:
            masks = self._masks(key, len(batch))
            logits: jax.Array = jax.vmap(module(parameters))(batch, masks)
            return logits

        return network._replace(while_training=while_training)

    def _masks(self, key: jax.Array, examples: int) -> tuple[jax.Array, ...]:
        """Return a mask [example, unit] for each hidden layer: 0, or what keeps the mean as it is.

        Drawing masks takes longer than a small network's step, so a hash of the generator serves four units: the chance
        to be kept is a whole number of 2⁻¹⁶.
        """
        kept = max(1, round((1 - self.dropout) * MASK_VALUES))
        with jax.threefry_partitionable(False):
            drawn = jax.random.bits(key, (examples, sum(self.hidden)), jnp.uint16)
        masks = jnp.where(drawn < kept, jnp.float32(MASK_VALUES / kept), 0.0)
        return tuple(jnp.split(masks, np.cumsum(self.hidden)[:-1], axis=1))


def logistic() -> Logistic:
    """Return logistic regression: binary, or multinomial where there are more than two classes."""
    return Logistic()


def mlp(hidden: int | tuple[int, ...] = 10, activation: str = "relu", dropout: float = 0.0) -> MLP:
    """Return a dense network: one hidden layer of `hidden` units, or several for a tuple.

    With `dropout` each hidden unit is left out with that probability while training (plain SGD only).

    >>> mlp(10, dropout=0.2)
    DropoutMLP(hidden=(10,), activation='relu', dropout=0.2)
    """
    widths = hidden if isinstance(hidden, tuple) else (hidden,)
    return DropoutMLP(widths, activation, dropout) if dropout else MLP(widths, activation)


def dense_network(shape: Shape, hidden: Shape, classes: int, activation: str) -> Network:
    """Return the (init, apply) pair of dense layers."""
    size, last = int(np.prod(shape)), outputs(classes)
    return equinox_network(lambda key: _Dense(size, hidden, last, activation, key))._replace(takes_rows=True)


def dense_layer(inputs: int, outputs: Any, key: jax.Array) -> eqx.nn.Linear:
    """Return a dense layer with Glorot-uniform weights and zero bias."""
    layer = eqx.nn.Linear(inputs, outputs, key=key)
    units = layer.weight.shape[0]
    limit = np.sqrt(6 / (inputs + units))
    weight = jax.random.uniform(key, layer.weight.shape, minval=-limit, maxval=limit)
    filled: eqx.nn.Linear = eqx.tree_at(lambda linear: (linear.weight, linear.bias), layer, (weight, jnp.zeros(units)))
    return filled


class _Dense(eqx.Module):
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
            x = ACTIVATIONS[self.activation](layer(x))
            x = x * masks[place] if masks else x
        return self.layers[-1](x)
