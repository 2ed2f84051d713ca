"""ResNet-20 with group normalisation: the network that GLA trains on CIFAR-10, with examples treated one by one."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from seedscope.core import require, require_count
from seedscope.models.base import Model, Network, Shape
from seedscope.models.dense_layers import dense_layer
from seedscope.models.layers import PatchConvolution, ScaleAndShift
from seedscope.models.networks import equinox_network, outputs

EPSILON = 1e-5  # added to a variance before it divides


@dataclass(frozen=True)
class ResNet(Model):
    """A residual network for small images (He et al. 2016 §4.2): for each of `channels` a stage of `blocks` blocks.

    Batch normalisation mixes examples, so groups of channels are normalised within each example instead.
    """

    blocks: int = 3
    channels: tuple[int, ...] = (16, 32, 64)
    groups: int = 16

    def __post_init__(self) -> None:
        require_count("blocks", self.blocks)
        require_count("groups", self.groups)
        fits = all(width % self.groups == 0 for width in self.channels)
        require(fits, f"groups must divide each of channels, got {self.groups} and {self.channels}.")

    def network(self, shape: Shape, classes: int) -> Network:
        require(len(shape) == 3, f"a residual network needs images [height, width, channel], got shape {shape}.")
        return equinox_network(lambda key: _Residual(self, shape[-1], outputs(classes), key))


def resnet20() -> ResNet:
    """Return ResNet-20: 272,474 parameters for ten classes of 32×32×3 images, those of normalisation included."""
    return ResNet()


class GroupNorm(ScaleAndShift):
    """Group normalisation of one image [height, width, channel], then a scale and a shift per channel."""

    groups: int = eqx.field(static=True)

    def __init__(self, channels: int, groups: int):
        self.scale, self.shift, self.groups = jnp.ones(channels), jnp.zeros(channels), groups

    def lift(self, x: jax.Array) -> jax.Array:
        grouped = x.reshape(*x.shape[:2], self.groups, -1)
        mean = grouped.mean((0, 1, 3), keepdims=True)
        centred = grouped - mean
        variance = jnp.mean(centred**2, (0, 1, 3), keepdims=True)
        return (centred * jax.lax.rsqrt(variance + EPSILON)).reshape(x.shape)


class _ConvolutionAndNorm(eqx.Module):
    """A convolution without bias, then group normalisation."""

    convolution: PatchConvolution
    norm: GroupNorm

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, groups: int, key: jax.Array):
        self.convolution = PatchConvolution(inputs, outputs, kernel, "same", key, stride, bias=False)
        self.norm = GroupNorm(outputs, groups)

    def __call__(self, image: jax.Array) -> jax.Array:
        return self.norm(self.convolution(image))


class _Block(eqx.Module):
    """Two convolutions beside a shortcut; a 1 × 1 convolution where the shortcut must change the shape."""

    first: _ConvolutionAndNorm
    second: _ConvolutionAndNorm
    shortcut: _ConvolutionAndNorm | None

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int, key: jax.Array):
        keys = jax.random.split(key, 3)
        self.first = _ConvolutionAndNorm(inputs, outputs, 3, stride, groups, keys[0])
        self.second = _ConvolutionAndNorm(outputs, outputs, 3, 1, groups, keys[1])
        same = inputs == outputs and stride == 1
        self.shortcut = None if same else _ConvolutionAndNorm(inputs, outputs, 1, stride, groups, keys[2])

    def __call__(self, image: jax.Array) -> jax.Array:
        beside = image if self.shortcut is None else self.shortcut(image)
        return jax.nn.relu(beside + self.second(jax.nn.relu(self.first(image))))


class _Residual(eqx.Module):
    """A first convolution, stages of blocks that halve the image, the mean over positions, and a dense layer."""

    first: _ConvolutionAndNorm
    blocks: tuple[_Block, ...]
    dense: eqx.nn.Linear

    def __init__(self, model: ResNet, inputs: int, outputs: int | str, key: jax.Array):
        widths = np.repeat(model.channels, model.blocks).tolist()
        first_key, dense_key, *keys = jax.random.split(key, len(widths) + 2)
        self.first = _ConvolutionAndNorm(inputs, widths[0], 3, 1, model.groups, first_key)
        before = [widths[0], *widths[:-1]]
        shapes = zip(before, widths, keys, strict=True)
        self.blocks = tuple(_Block(a, b, 1 if a == b else 2, model.groups, block_key) for a, b, block_key in shapes)
        self.dense = dense_layer(widths[-1], outputs, dense_key)

    def __call__(self, image: jax.Array) -> jax.Array:
        image = jax.nn.relu(self.first(image))
        for block in self.blocks:
            image = block(image)
        return self.dense(image.mean((0, 1)))
