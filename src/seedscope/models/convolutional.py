"""Networks of convolutions, then dense layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax

from seedscope.core import require, require_count
from seedscope.models.base import Model, Network, Shape, require_activation
from seedscope.models.dense_layers import Dense
from seedscope.models.layers import VECTOR, PatchConvolution, PooledConvolution, pooled
from seedscope.models.networks import ACTIVATION_FUNCTIONS, equinox_network, outputs


@dataclass(frozen=True)
class ConvolutionLayer:
    """A square convolution, its activation, and the square pooling that follows it (1: none)."""

    channels: int
    kernel: int
    padding: Literal["valid", "same"] = "valid"
    pooling: int = 1

    def __post_init__(self) -> None:
        known = self.padding in ("valid", "same")
        require(known, f"padding must be 'valid' or 'same', got {self.padding!r}.")
        for name in ("channels", "kernel", "pooling"):
            require_count(name, getattr(self, name))


@dataclass(frozen=True)
class StridedLayer(ConvolutionLayer):
    """A convolution whose window moves on by `stride`, and whose pooling squares by `pooling_stride`: they overlap."""

    stride: int = 1
    pooling_stride: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("stride", "pooling_stride"):
            require_count(name, getattr(self, name))


@dataclass(frozen=True)
class CNN(Model):
    """Convolutions with pooling, then dense layers."""

    convolutions: tuple[ConvolutionLayer, ...]
    hidden: tuple[int, ...] = ()
    activation: str = "relu"
    pool: str = "max"

    def __post_init__(self) -> None:
        require_activation(self.activation)
        require(self.pool in ("max", "average"), f"pool must be 'max' or 'average', got {self.pool!r}.")

    def network(self, shape: Shape, classes: int) -> Network:
        require(len(shape) == 3, f"a convolutional model needs images [height, width, channel], got shape {shape}.")
        return equinox_network(lambda key: _Convolutional(self, shape, outputs(classes), key))


def lenet5() -> CNN:
    """Return LeNet-5 for images from 28×28: 61,706 parameters for ten classes of 28×28×1 images."""
    first = ConvolutionLayer(6, 5, "same", 2)
    return CNN((first, ConvolutionLayer(16, 5, "valid", 2)), hidden=(120, 84))


def small_cnn() -> CNN:
    """Return the convolutional network of IP1 D.3: 1,448 parameters for ten classes of 28×28×1 images.

    The second convolution has no padding, as in the authors' code.
    """
    second, third = ConvolutionLayer(8, 2, "valid", 2), ConvolutionLayer(8, 2, "same", 2)
    return CNN((ConvolutionLayer(8, 3, "same", 2), second, third), hidden=(10,))


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
    """Return the layer's convolution of this many input channels, whose image after pooling has this many positions."""
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
    dense: Dense
    model: CNN = eqx.field(static=True)

    def __init__(self, model: CNN, shape: Shape, outputs: int | str, key: jax.Array):
        *keys, dense_key = jax.random.split(key, len(model.convolutions) + 1)
        height, width, channels = shape
        layers = []
        for layer, layer_key in zip(model.convolutions, keys, strict=True):
            inputs, height, width = channels, output_size(layer, height), output_size(layer, width)
            require(min(height, width) >= 1, f"images of shape {shape} are too small for {model}.")
            layers.append(convolution(layer, model.pool, inputs, height * width, layer_key))
            channels = layer.channels
        self.convolutions, self.model = tuple(layers), model
        self.dense = Dense(height * width * channels, model.hidden, outputs, model.activation, dense_key)

    def __call__(self, image: jax.Array) -> jax.Array:
        activation = ACTIVATION_FUNCTIONS[self.model.activation]
        for layer, description in zip(self.convolutions, self.model.convolutions, strict=True):
            if has_tiles(description, self.model.pool):  # activations rise: the largest output stays the largest
                image = activation(layer.largest(layer(image)))  # type: ignore[union-attr]
            else:
                image = pooled(activation(layer(image)), description.pooling, self.model.pool, strides(description)[1])
        return self.dense(image)
