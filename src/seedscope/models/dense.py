"""Logistic regression and networks of dense layers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from seedscope.core import require_count
from seedscope.models.base import ACTIVATIONS, Model, Network, Shape, _require_activation, equinox_network, outputs


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


def logistic() -> Logistic:
    """Return logistic regression: binary, or multinomial where there are more than two classes."""
    return Logistic()


def mlp(hidden: int | tuple[int, ...] = 10, activation: str = "relu") -> MLP:
    """Return a dense network: one hidden layer of `hidden` units, or several for a tuple."""
    return MLP(hidden if isinstance(hidden, tuple) else (hidden,), activation)


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
    filled: eqx.nn.Linear = eqx.tree_at(lambda one: (one.weight, one.bias), layer, (weight, jnp.zeros(units)))
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

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x.reshape(-1)
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return self.layers[-1](x)
