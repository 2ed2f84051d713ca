"""Which parts of a network have kinks: where a gradient is to be differentiated by the example, there must be none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seedscope.core import require
from seedscope.models.base import Model, Shape
from seedscope.models.convolutional import CNN
from seedscope.models.dense import MLP

KINKED = (
    "abs", "argmax", "argmin", "ceil", "clamp", "cond", "cummax", "cummin", "eq", "floor", "ge", "gt", "le", "lt",
    "max", "min", "ne", "reduce_max", "reduce_min", "reduce_window_max", "reduce_window_min", "rem", "round",
    "select_n", "sign", "sort", "sqrt", "top_k",
)  # fmt: skip
KNOWN_SMOOTH = ("logaddexp",)  # functions of JAX with a smooth derivative of their own
SMOOTH_ACTIVATIONS = ("tanh", "sigmoid")


def require_smooth(model: Model, shape: Shape, classes: int) -> None:
    """Raise, naming the layer, unless the model's gradient is differentiable by the example."""
    kink = next(kinks(model, shape, classes), None)
    require(
        kink is None,
        f"Fisher information needs a smooth network, but this one has {kink}; use tanh or sigmoid activations and "
        "average pooling, for instance tanh_cnn().",
    )


def kinks(model: Model, shape: Shape, classes: int) -> Iterator[str]:
    """Yield the parts of a model that are not differentiable everywhere, in words.

    >>> from seedscope import mlp
    >>> list(kinks(mlp((10, 5)), (3,), 2))
    ['relu after dense layer 1', 'relu after dense layer 2']
    >>> list(kinks(mlp(10, "tanh"), (3,), 2))
    []
    """
    if isinstance(model, MLP):
        yield from _rough_activations(model.activation, "dense layer", len(model.hidden))
    elif isinstance(model, CNN):
        yield from _rough_activations(model.activation, "convolution", len(model.convolutions))
        pooled = (k for k, layer in enumerate(model.convolutions, 1) if layer.pooling > 1 and model.pool == "max")
        yield from (f"max pooling after convolution {k}" for k in pooled)
        yield from _rough_activations(model.activation, "dense layer", len(model.hidden))
    else:
        yield from _rough_operations(model, shape, classes)


def _rough_activations(activation: str, what: str, layers: int) -> Iterator[str]:
    """Yield the activations after this many layers, if they have kinks."""
    if activation not in SMOOTH_ACTIVATIONS:
        yield from (f"{activation} after {what} {k}" for k in range(1, layers + 1))


def _rough_operations(model: Model, shape: Shape, classes: int) -> Iterator[str]:
    """Yield the operations with kinks that any other network uses, with the number of the layer they follow."""
    import jax
    import jax.numpy as jnp

    network = model.network(shape, classes)
    parameters = jax.eval_shape(network.init, jax.random.key(0))
    traced = jax.make_jaxpr(network.apply)(parameters, jnp.zeros((1, *shape)))
    layers = 0
    for name in _operations(traced.jaxpr):
        layers += name in ("dot_general", "conv_general_dilated")
        if name in KINKED:
            yield f"the operation {name} after layer {layers}"


def _operations(jaxpr: Any) -> Iterator[str]:
    """Yield the names of a traced function's operations, those of functions it calls included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "custom_jvp_call" and _is_known_smooth(equation.params["call_jaxpr"].jaxpr):
            continue
        yield equation.primitive.name
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _operations(inner)


def _is_known_smooth(jaxpr: Any) -> bool:
    """Whether a traced function is one of JAX's own that are smooth; where its origin cannot be told it is not."""
    origin = getattr(getattr(jaxpr, "debug_info", None), "func_src_info", None) or ""
    name, _, place = origin.partition(" at ")
    return name in KNOWN_SMOOTH and "/jax/" in place.replace("\\", "/")
