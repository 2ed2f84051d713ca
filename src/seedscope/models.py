"""Networks as (init, apply) pairs that `vmap` can train by the thousand.

A model is frozen data; `model.network(shape, classes)` gives the pair for examples of that shape:

    init(key)                → parameters, a pytree of arrays (Glorot-uniform weights, zero biases)
    apply(parameters, batch) → logits [example] for two classes, [example, class] for more

A binary network has one logit: it trains four times faster than with two. Networks must treat examples one by one; what
mixes them (batch normalisation) or draws random numbers of its own (dropout) is refused by name. Convolutions are
written as patches times a matrix, which inside a compiled loop on a CPU is several times faster than the library's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from seedscope.errors import SeedscopeError, require, require_count
from seedscope.layers import VECTOR, PatchConvolution, PooledConvolution, pooled

Shape = tuple[int, ...]
ACTIVATIONS: dict[str, Callable] = {"relu": jax.nn.relu, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid}


class Network(NamedTuple):
    """A pair of pure functions: `init(key)` and `apply(parameters, batch)`.

    `module(parameters)`, where there is one, is the Equinox module that maps one example to its logits: from its layers
    per-example gradients are computed without holding them all (see `per_example`). `takes_rows` says that its first
    layer is dense and takes the example itself.
    """

    init: Callable[[jax.Array], Any]
    apply: Callable[[Any, jax.Array], jax.Array]
    module: Callable[[Any], eqx.Module] | None = None
    takes_rows: bool = False


@dataclass(frozen=True)
class Model:
    """Base of the models: frozen data that knows how to make a network for given examples."""

    @property
    def convex(self) -> bool:
        """Whether the training loss is convex in the parameters."""
        return False

    def network(self, shape: Shape, classes: int) -> Network:
        """Return the (init, apply) pair for examples of this shape."""
        raise NotImplementedError

    def identity(self, shape: Shape, classes: int) -> str:
        """Return a text that is equal for two models exactly if they train alike."""
        return repr(self)


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
class ConvolutionLayer:
    """A square convolution, its activation, and the square pooling that follows it (1: none)."""

    channels: int
    kernel: int
    padding: str = "valid"
    pooling: int = 1


@dataclass(frozen=True)
class StridedLayer(ConvolutionLayer):
    """A convolution whose window moves on by `stride`, and whose pooling squares by `pooling_stride`: they overlap."""

    stride: int = 1
    pooling_stride: int = 1


@dataclass(frozen=True)
class CNN(Model):
    """Convolutions with pooling, then dense layers."""

    convolutions: tuple[ConvolutionLayer, ...]
    hidden: tuple[int, ...] = ()
    activation: str = "relu"
    pool: str = "max"

    def __post_init__(self) -> None:
        _require_activation(self.activation)
        require(self.pool in ("max", "average"), f"pool must be 'max' or 'average', got {self.pool!r}.")

    def network(self, shape: Shape, classes: int) -> Network:
        require(len(shape) == 3, f"a convolutional model needs images [height, width, channel], got shape {shape}.")
        return equinox_network(lambda key: _Convolutional(self, shape, outputs(classes), key))


@dataclass(frozen=True, eq=False)
class Custom(Model):
    """A user's own network: an (init, apply) pair, a function key → Equinox module, or a module.

    Two are equal if they hold the same objects: a module's arrays cannot be hashed.
    """

    make: Any = field(repr=False)
    name: str = "custom"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Custom) and self._objects == other._objects

    def __hash__(self) -> int:
        return hash(self._objects)

    @property
    def _objects(self) -> tuple[int, ...]:
        """The identities of what the user gave."""
        return tuple(id(one) for one in (self.make if isinstance(self.make, tuple) else (self.make,)))

    def network(self, shape: Shape, classes: int) -> Network:
        try:
            network = self._pair()
            parameters = jax.eval_shape(network.init, jax.random.key(0))
            logits = jax.eval_shape(network.apply, parameters, jax.ShapeDtypeStruct((2, *shape), jnp.float32))
        except SeedscopeError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            reason = str(error).split("\n")[0]
            raise SeedscopeError(f"model {self.name} fails on examples of shape {shape}: {reason}") from error
        _require_trainable(self.name, parameters, logits, classes)
        return network

    def _pair(self) -> Network:
        """Return the (init, apply) pair of what the user gave."""
        if isinstance(self.make, tuple):
            return Network(*self.make)
        if isinstance(self.make, eqx.Module):
            return equinox_network(lambda key: self.make)
        return equinox_network(self.make)

    @property
    def has_one_initial_point(self) -> bool:
        """Whether every seed starts at the same weights, because a finished module was given."""
        return isinstance(self.make, eqx.Module)

    def identity(self, shape: Shape, classes: int) -> str:
        network = self.network(shape, classes)
        key = jax.random.key(0)
        parameters = network.init(key)
        traced = (jax.make_jaxpr(network.init)(key), jax.make_jaxpr(network.apply)(parameters, jnp.zeros((1, *shape))))
        digest = hashlib.sha256("\n".join(map(str, traced)).encode())
        captured = [constant for one in traced for constant in one.consts]  # their text shows only shapes
        for leaf in [*jax.tree.leaves(parameters), *captured]:
            digest.update(np.asarray(leaf).tobytes())
        return f"{self.name}:{digest.hexdigest()[:16]}"


def logistic() -> Logistic:
    """Return logistic regression: binary, or multinomial where there are more than two classes."""
    return Logistic()


def mlp(hidden: int | tuple[int, ...] = 10, activation: str = "relu") -> MLP:
    """Return a dense network: one hidden layer of `hidden` units, or several for a tuple."""
    return MLP(hidden if isinstance(hidden, tuple) else (hidden,), activation)


def lenet5() -> CNN:
    """Return LeNet-5 for images from 28×28: 61,706 parameters for ten classes of 28×28×1 images."""
    first = ConvolutionLayer(6, 5, "same", 2)
    return CNN((first, ConvolutionLayer(16, 5, "valid", 2)), hidden=(120, 84))


def small_cnn() -> CNN:
    """Return the convolutional network of IP1 D.3: 1,448 parameters for ten classes of 28×28×1 images."""
    later = ConvolutionLayer(8, 2, "same", 2)
    return CNN((ConvolutionLayer(8, 3, "same", 2), later, later), hidden=(10,))


def small_vgg() -> CNN:
    """Return the VGG of IP2 Table 8: 82,554 parameters for ten classes of 32×32×3 images."""
    narrow, wide = (
        (ConvolutionLayer(16, 3, "same"), ConvolutionLayer(16, 3, "same", 2)),
        (ConvolutionLayer(32, 3, "same"), ConvolutionLayer(32, 3, "same", 2)),
    )
    return CNN(narrow + wide, hidden=(32,))


def tanh_cnn() -> CNN:
    """Return the smooth network of BR Table 1: 26,010 parameters for ten classes of 28×28×1 images.

    As in the authors' code: padding is `same` (the table: 2) and the logits have no tanh (the table has one).
    """
    layers = StridedLayer(16, 8, "same", 2, stride=2), StridedLayer(32, 4, "valid", 2, stride=2)
    return CNN(layers, hidden=(32,), activation="tanh", pool="average")


def tanh_vgg() -> CNN:
    """Return the smooth network of BR Table 2: 550,570 parameters for ten classes of 32×32×3 images."""
    pairs = ((ConvolutionLayer(width, 3, "same"), ConvolutionLayer(width, 3, "same", 2)) for width in (32, 64, 128))
    return CNN(tuple(layer for pair in pairs for layer in pair), hidden=(128,), activation="tanh", pool="average")


def as_model(model: Any) -> Model:
    """Return the model for what a user passed: a model, a pair, a module, or a function that makes one."""
    if isinstance(model, Model):
        return model
    pair = isinstance(model, tuple) and len(model) == 2 and all(callable(one) for one in model)
    if pair or callable(model):
        name = "custom" if pair else getattr(model, "__name__", type(model).__name__)
        return Custom(tuple(model) if pair else model, name)
    raise SeedscopeError(
        f"model must be a Seedscope model, an (init, apply) pair or a function key → Equinox module, got {model!r}."
    )


@lru_cache(maxsize=32)
def network_of(model: Model, shape: Shape, classes: int) -> Network:
    """Return the model's network, the same pair of functions each time: what is compiled for it is then used again."""
    return model.network(shape, classes)


def outputs(classes: int) -> int | str:
    """Return the number of logits: a single one, 'scalar', for two classes."""
    return "scalar" if classes == 2 else classes


def parameter_count(model: Model, shape: Shape, classes: int) -> int:
    """Return how many parameters the model has for such examples."""
    parameters = jax.eval_shape(network_of(model, shape, classes).init, jax.random.key(0))
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(parameters))


def equinox_network(make: Callable[[jax.Array], eqx.Module]) -> Network:
    """Return the (init, apply) pair of an Equinox module that maps one example to its logits."""
    template = eqx.filter_eval_shape(make, jax.random.key(0))
    _refuse_mixing_layers(template)
    static = eqx.filter(template, _is_parameter, inverse=True)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(static)):
        static = eqx.filter(make(jax.random.key(0)), eqx.is_inexact_array, inverse=True)

    def init(key: jax.Array) -> Any:
        return eqx.filter(make(key), eqx.is_inexact_array)

    def module(parameters: Any) -> eqx.Module:
        return eqx.combine(parameters, static)

    def apply(parameters: Any, batch: jax.Array) -> jax.Array:
        one_example: Any = module(parameters)
        return jax.vmap(one_example)(batch)

    return Network(init, apply, module)


def dense_network(shape: Shape, hidden: Shape, classes: int, activation: str) -> Network:
    """Return the (init, apply) pair of dense layers."""
    size, last = int(np.prod(shape)), outputs(classes)
    return equinox_network(lambda key: _Dense(size, hidden, last, activation, key))._replace(takes_rows=True)


def _is_parameter(leaf: Any) -> bool:
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


def _require_trainable(name: str, parameters: Any, logits: Any, classes: int) -> None:
    """Raise unless a user's parameters are floating-point arrays and the logits have the shape that training needs."""
    floating = all(_is_parameter(leaf) for leaf in jax.tree.leaves(parameters))
    require(floating, f"model {name} must have only floating-point parameters; keep others out of what init returns.")
    needed = () if classes == 2 else (classes,)
    found = logits.shape[1:] if isinstance(logits, jax.ShapeDtypeStruct) else type(logits).__name__
    right = found == needed
    require(right, f"model {name} must give each example logits of shape {needed} for {classes} classes, got {found}.")


def _require_activation(name: str) -> None:
    """Raise unless the activation is known."""
    require(name in ACTIVATIONS, f"activation must be one of {', '.join(ACTIVATIONS)}, got {name!r}.")


def dense_layer(inputs: int, outputs: Any, key: jax.Array) -> eqx.nn.Linear:
    """Return a dense layer with Glorot-uniform weights and zero bias."""
    layer = eqx.nn.Linear(inputs, outputs, key=key)
    units = layer.weight.shape[0]
    limit = np.sqrt(6 / (inputs + units))
    weight = jax.random.uniform(key, layer.weight.shape, minval=-limit, maxval=limit)
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, (weight, jnp.zeros(units)))


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


def strides(layer: ConvolutionLayer) -> tuple[int, int]:
    """Return by how much the convolution's window and the pooling squares move on."""
    return (layer.stride, layer.pooling_stride) if isinstance(layer, StridedLayer) else (1, layer.pooling)


def has_tiles(layer: ConvolutionLayer, pool: str) -> bool:
    """Whether the layer's outputs are computed in the squares that its pooling takes."""
    side_by_side = not isinstance(layer, StridedLayer) and pool == "max"
    return side_by_side and PooledConvolution.fits(layer.kernel, layer.pooling)


def convolution(
    layer: ConvolutionLayer, pool: str, inputs: int, positions: int, key: jax.Array
) -> PatchConvolution | PooledConvolution:
    """Return the layer's convolution of so many input channels, whose image after pooling has so many positions."""
    if not has_tiles(layer, pool):
        return PatchConvolution(inputs, layer.channels, layer.kernel, layer.padding, key, strides(layer)[0])
    narrow = layer.channels < VECTOR and positions > layer.pooling**2 * layer.channels
    return PooledConvolution(inputs, layer.channels, layer.kernel, layer.padding, key, layer.pooling, narrow)


def output_size(layer: ConvolutionLayer, size: int) -> int:
    """Return the height or width of the layer's output for an input of this height or width."""
    stride, pooling_stride = strides(layer)
    windows = -(-size // stride) if layer.padding == "same" else (size - layer.kernel) // stride + 1
    return (windows - layer.pooling) // pooling_stride + 1


class _Convolutional(eqx.Module):
    """Convolutions with activation and pooling, then dense layers."""

    convolutions: tuple[PatchConvolution | PooledConvolution, ...]
    dense: _Dense
    model: CNN = eqx.field(static=True)

    def __init__(self, model: CNN, shape: Shape, outputs: int | str, key: jax.Array):
        *keys, dense_key = jax.random.split(key, len(model.convolutions) + 1)
        height, width, channels = shape
        layers = []
        for layer, one in zip(model.convolutions, keys, strict=True):
            inputs, height, width = channels, output_size(layer, height), output_size(layer, width)
            require(min(height, width) >= 1, f"images of shape {shape} are too small for {model}.")
            layers.append(convolution(layer, model.pool, inputs, height * width, one))
            channels = layer.channels
        self.convolutions, self.model = tuple(layers), model
        self.dense = _Dense(height * width * channels, model.hidden, outputs, model.activation, dense_key)

    def __call__(self, image: jax.Array) -> jax.Array:
        activation = ACTIVATIONS[self.model.activation]
        for layer, description in zip(self.convolutions, self.model.convolutions, strict=True):
            if has_tiles(description, self.model.pool):  # activations rise: the largest output stays the largest
                image = activation(layer.largest(layer(image)))  # type: ignore[union-attr]
            else:
                image = pooled(activation(layer(image)), description.pooling, self.model.pool, strides(description)[1])
        return self.dense(image)
