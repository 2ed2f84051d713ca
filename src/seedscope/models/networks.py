"""Equinox modules as (init, apply) pairs, and the functions behind the names of activations; importing it loads JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from seedscope.core import require
from seedscope.models.base import Network, Parameters

ACTIVATION_FUNCTIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
}


def outputs(classes: int) -> int | str:
    """Return the number of logits: a single one, 'scalar', for two classes."""
    return "scalar" if classes == 2 else classes


def equinox_network(make: Callable[[jax.Array], eqx.Module]) -> Network:
    """Return the (init, apply) pair of an Equinox module that maps one example to its logits."""
    template = eqx.filter_eval_shape(make, jax.random.key(0))
    _refuse_mixing_layers(template)
    static = eqx.filter(template, is_parameter, inverse=True)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(static)):
        static = eqx.filter(make(jax.random.key(0)), eqx.is_inexact_array, inverse=True)

    def init(key: jax.Array) -> Parameters:
        return eqx.filter(make(key), eqx.is_inexact_array)

    def module(parameters: Parameters) -> eqx.Module:
        combined: eqx.Module = eqx.combine(parameters, static)
        return combined

    def apply(parameters: Parameters, batch: jax.Array) -> jax.Array:
        one_example: Any = module(parameters)
        logits: jax.Array = jax.vmap(one_example)(batch)
        return logits

    return Network(init, apply, module)


def is_parameter(leaf: Any) -> bool:
    """Whether a leaf of a module, or its shape, is a floating-point array."""
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _refuse_mixing_layers(module: eqx.Module) -> None:
    """Raise if the module holds a layer that mixes examples or draws random numbers while training."""
    refused = (eqx.nn.BatchNorm, eqx.nn.Dropout)
    for layer in jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, refused)):
        require(
            not isinstance(layer, refused),
            f"model must treat examples one by one, but it contains {type(layer).__name__}; remove it "
            "or use group or layer normalisation.",
        )
