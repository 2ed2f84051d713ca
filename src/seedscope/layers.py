"""Layers in the form that per-example gradients need: an arrangement of the input, then a product with parameters."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class LiftedLayer(eqx.Module):
    """A layer that first arranges its input without using its parameters (`lift`) and then applies them (`act`).

    The split is what per-example gradients need: they follow from the lifted input and the derivative of the output.
    """

    def lift(self, x: jax.Array) -> jax.Array:
        """Return the input as the parameters meet it."""
        raise NotImplementedError

    def act(self, lifted: jax.Array) -> jax.Array:
        """Return the layer's output for a lifted input."""
        raise NotImplementedError

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.act(self.lift(x))


class ScaleAndShift(LiftedLayer):
    """A layer that multiplies each channel, the last axis of its lifted input, by a scale and adds a shift."""

    scale: jax.Array
    shift: jax.Array

    def act(self, lifted: jax.Array) -> jax.Array:
        return lifted * self.scale + self.shift


class PatchConvolution(LiftedLayer):
    """A square convolution of one image [height, width, channel], as patches times a matrix.

    With `tile` T its outputs are computed in squares of T × T side by side, [height/T, width/T, T · T, channel], as
    pooling wants them: a larger patch times a wider matrix, in which the weights stand T · T times. Neighbouring
    outputs share most of their patch, so much less memory is moved: for 5 × 5 kernels and T = 2 almost three times.
    """

    weight: jax.Array  # [out, kernel · kernel · in]
    bias: jax.Array | None
    kernel: int = eqx.field(static=True)
    padding: str = eqx.field(static=True)
    stride: int = eqx.field(static=True)
    tile: int = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        padding: str,
        key: jax.Array,
        stride: int = 1,
        bias: bool = True,
        tile: int = 1,
    ):
        limit = np.sqrt(6 / (kernel * kernel * (inputs + outputs)))
        self.weight = jax.random.uniform(key, (outputs, kernel * kernel * inputs), minval=-limit, maxval=limit)
        self.bias = jnp.zeros(outputs) if bias else None
        self.kernel, self.padding, self.stride, self.tile = kernel, padding, stride, tile

    def lift(self, x: jax.Array) -> jax.Array:
        return patches(x, self.kernel, self.padding, self.stride, self.tile)

    def act(self, lifted: jax.Array) -> jax.Array:
        output = lifted @ self.matrix().T
        if self.tile > 1:
            output = output.reshape(*output.shape[:-1], self.tile**2, -1)
        return output if self.bias is None else output + self.bias

    def matrix(self) -> jax.Array:
        """Return what multiplies a patch, [tile · tile · out, patch]: the weights, shifted for each place of a tile."""
        if self.tile == 1:
            return self.weight
        square = self.weight.reshape(len(self.weight), self.kernel, self.kernel, -1)
        room = self.tile - 1
        shifted = [jnp.pad(square, ((0, 0), (i, room - i), (j, room - j), (0, 0))) for i, j in self._places()]
        return jnp.stack(shifted).reshape(self.tile**2 * len(self.weight), -1)

    def fold(self, gradients: jax.Array) -> jax.Array:
        """Return gradients by the weights [example, out, kernel · kernel · in] from those by `matrix`."""
        if self.tile == 1:
            return gradients
        k, side = self.kernel, self.kernel + self.tile - 1
        squares = gradients.reshape(len(gradients), self.tile**2, -1, side, side, gradients.shape[-1] // side**2)
        shifted = [squares[:, place, :, i : i + k, j : j + k] for place, (i, j) in enumerate(self._places())]
        return sum(shifted).reshape(len(gradients), squares.shape[2], -1)  # type: ignore[union-attr]

    def _places(self) -> list[tuple[int, int]]:
        """The places of a tile."""
        return [(i, j) for i in range(self.tile) for j in range(self.tile)]


def patches(image: jax.Array, kernel: int, padding: str, stride: int = 1, tile: int = 1) -> jax.Array:
    """Return every kernel × kernel window of an image, flattened: [height', width', kernel · kernel · channel].

    With a tile, windows that hold those of tile × tile neighbours (at stride 1), one for each tile that fits.
    """
    if padding == "same":
        before = (kernel - 1) // 2
        image = jnp.pad(image, ((before, kernel - 1 - before),) * 2 + ((0, 0),))
    side, step = kernel + tile - 1, stride * tile
    height, width = image.shape[0] - side + 1, image.shape[1] - side + 1
    windows = [image[i : i + height : step, j : j + width : step] for i in range(side) for j in range(side)]
    return jnp.concatenate(windows, axis=-1)


def pooled(image: jax.Array, size: int, kind: str, stride: int | None = None) -> jax.Array:
    """Return the image with each size × size square replaced by its maximum or average; edges that do not fit go.

    Squares lie side by side, or begin at every `stride`-th pixel.
    """
    if stride not in (None, size):
        windows = patches(image, size, "valid", stride or size)
        windows = windows.reshape(*windows.shape[:2], size**2, image.shape[-1])
        return windows.max(2) if kind == "max" else windows.mean(2)
    height, width, channels = image.shape
    squares = image[: height // size * size, : width // size * size]
    squares = squares.reshape(height // size, size, width // size, size, channels)
    return squares.max((1, 3)) if kind == "max" else squares.mean((1, 3))
