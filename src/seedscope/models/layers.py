"""Layers in the form that per-example gradients need: an arrangement of the input, then a product with parameters."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

VECTOR = 16  # numbers that a processor's vector register holds


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
    """A square convolution of one image [height, width, channel], as patches times a matrix."""

    weight: jax.Array  # [out, kernel · kernel · in]
    bias: jax.Array | None
    kernel: int = eqx.field(static=True)
    padding: str = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, kernel: int, padding: str, key: jax.Array, stride: int = 1, bias: bool = True
    ):
        limit = np.sqrt(6 / (kernel * kernel * (inputs + outputs)))
        self.weight = jax.random.uniform(key, (outputs, kernel * kernel * inputs), minval=-limit, maxval=limit)
        self.bias = jnp.zeros(outputs) if bias else None
        self.kernel, self.padding, self.stride = kernel, padding, stride

    def lift(self, x: jax.Array) -> jax.Array:
        return patches(x, self.kernel, self.padding, self.stride)

    def act(self, lifted: jax.Array) -> jax.Array:
        output = lifted @ self.weight.T
        return output if self.bias is None else output + self.bias


class PooledConvolution(LiftedLayer):
    """A convolution at stride 1 whose outputs max pooling takes in squares side by side, tile × tile.

    A larger patch holds those of all places of a tile and meets a wider matrix, in which the weights stand once for
    each place: neighbouring outputs share most of their patch, so much less memory is moved than by `PatchConvolution`,
    for 5 × 5 kernels and tiles of 2 × 2 almost three times.

    Outputs are [height, width, place, channel], or where channels are too few to fill a vector register ("narrow")
    [place, channel, height, width], and patches accordingly; `largest` makes an image of either.
    """

    weight: jax.Array  # [out, kernel · kernel · in]
    bias: jax.Array
    kernel: int = eqx.field(static=True)
    padding: str = eqx.field(static=True)
    tile: int = eqx.field(static=True)
    narrow: bool = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, kernel: int, padding: str, key: jax.Array, tile: int, narrow: bool = False
    ):
        plain = PatchConvolution(inputs, outputs, kernel, padding, key)
        self.weight, self.bias = plain.weight, jnp.zeros(outputs)
        self.kernel, self.padding, self.tile, self.narrow = kernel, padding, tile, narrow

    @staticmethod
    def fits(kernel: int, tile: int) -> bool:
        """Whether tiles are worth it: they fill the larger patch evenly, and it grows by less than 1.6 times."""
        side = kernel + tile - 1
        return tile > 1 and side % tile == 0 and (side / kernel) ** 2 < 1.6

    @property
    def side(self) -> int:
        """The height and width of the larger patch."""
        return self.kernel + self.tile - 1

    def lift(self, x: jax.Array) -> jax.Array:
        """Return the larger patches [height, width, side · side · in]; if narrow [side · side · in, height, width]."""
        around = zeros_around(self.kernel) if self.padding == "same" else (0, 0)
        return (_patches_across if self.narrow else _patches_along)(x, self.side, self.tile, around)

    def act(self, lifted: jax.Array) -> jax.Array:
        if self.narrow:
            # Weights that seem to differ between examples: else all examples' patches are first brought side by side.
            nothing = 0 * jax.lax.stop_gradient(lifted[0, 0, 0])
            output = jnp.einsum("oi,ihw->ohw", self.matrix() + nothing, lifted)
            return output.reshape(self.tile**2, -1, *output.shape[1:]) + self.bias[:, None, None]
        output = lifted @ self.matrix().T
        return output.reshape(*output.shape[:2], self.tile**2, -1) + self.bias

    def largest(self, outputs: jax.Array) -> jax.Array:
        """Return the image [height, width, channel] of each tile's largest output; of equal ones the first counts."""
        axis = 0 if self.narrow else 2
        if self.narrow:  # positions as one axis: loops over a short row of an image are slow
            size, outputs = outputs.shape[2:], outputs.reshape(*outputs.shape[:2], -1)
        places = jax.lax.split(outputs, (1,) * self.tile**2, axis)  # unlike slices, put together again by gradients
        while len(places) > 1:  # pairs, then pairs of pairs: few comparisons between an output and its gradient
            pairs = zip(places[::2], places[1::2], strict=False)
            places = [jnp.where(b > a, b, a) for a, b in pairs] + list(places[len(places) // 2 * 2 :])
        image = places[0].squeeze(axis)
        return channels_last(image).reshape(*size, -1) if self.narrow else image

    def matrix(self) -> jax.Array:
        """Return what multiplies a patch, [tile · tile · out, patch]: the weights, shifted for each place of a tile."""
        square = self.weight.reshape(len(self.weight), self.kernel, self.kernel, -1)
        room = self.tile - 1
        shifted = [jnp.pad(square, ((0, 0), (i, room - i), (j, room - j), (0, 0))) for i, j in self._places()]
        return jnp.stack(shifted).reshape(self.tile**2 * len(self.weight), -1)

    def gradients(self, lifted: jax.Array, delta: jax.Array) -> jax.Array:
        """Return each example's gradient [example, out, kernel · kernel · in] from derivatives by the outputs."""
        if self.narrow:
            inputs = lifted.reshape(*lifted.shape[:2], -1)
            return self._fold(jnp.einsum("bop,bip->boi", delta.reshape(len(delta), -1, inputs.shape[2]), inputs))
        inputs = lifted.reshape(len(lifted), -1, lifted.shape[-1])
        return self._fold(jnp.einsum("bpo,bpi->boi", delta.reshape(*inputs.shape[:2], -1), inputs))

    def bias_gradients(self, delta: jax.Array) -> jax.Array:
        """Return each example's gradient [example, out] by the bias."""
        return delta.sum((1, 3, 4) if self.narrow else (1, 2, 3))

    def _fold(self, gradients: jax.Array) -> jax.Array:
        """Return gradients by the weights from those by `matrix`."""
        k, side = self.kernel, self.side
        squares = gradients.reshape(len(gradients), self.tile**2, -1, side, side, gradients.shape[-1] // side**2)
        shifted = [squares[:, place, :, i : i + k, j : j + k] for place, (i, j) in enumerate(self._places())]
        return sum(shifted).reshape(len(gradients), squares.shape[2], -1)  # type: ignore[union-attr]

    def _places(self) -> list[tuple[int, int]]:
        """The places of a tile."""
        return [(i, j) for i in range(self.tile) for j in range(self.tile)]


def patches(image: jax.Array, kernel: int, padding: str, stride: int = 1) -> jax.Array:
    """Return every kernel × kernel window of an image, flattened: [height', width', kernel · kernel · channel]."""
    if padding == "same":
        image = padded(image, zeros_around(kernel))
    height, width = image.shape[0] - kernel + 1, image.shape[1] - kernel + 1
    windows = [image[i : i + height : stride, j : j + width : stride] for i in range(kernel) for j in range(kernel)]
    return jnp.concatenate(windows, axis=-1)


def zeros_around(kernel: int) -> tuple[int, int]:
    """Return how many zeros before and after each row and column let a convolution keep an image's size."""
    before = (kernel - 1) // 2
    return before, kernel - 1 - before


def padded(image: jax.Array, around: tuple[int, int]) -> jax.Array:
    """Return the image with zeros around it."""
    return jnp.pad(image, (around, around, (0, 0)))


@jax.custom_jvp
def channels_last(image: jax.Array) -> jax.Array:
    """Return an image [channel, position] as [position, channel].

    Gradients go back by a product with the identity. The compiler would make a plain transposition part of whatever
    uses it and so do it many times over; a product it carries out once.
    """
    return image.T


@channels_last.defjvp
def _channels_last_derivative(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (image,), (tangent,) = primals, tangents
    nothing = 0 * jax.lax.stop_gradient(image[0, 0])  # as in `PooledConvolution.act`
    return channels_last(image), jnp.einsum("cp,cd->pd", tangent, jnp.eye(len(image), dtype=image.dtype) + nothing)


def _windows_that_fit(image: jax.Array, side: int, tile: int, around: tuple[int, int]) -> tuple[int, int]:
    """Return how many windows of side × side, one at every tile, an image with zeros around it has: height, width."""
    height, width = ((size + sum(around) - side) // tile + 1 for size in image.shape[:2])
    return height, width


def _patches_along(image: jax.Array, side: int, tile: int, around: tuple[int, int]) -> jax.Array:
    """Return the windows of side × side at every tile, [height', width', side · side · channel].

    Whole tiles of a row are copied at once, first for columns, then for rows.
    """
    height, width = _windows_that_fit(image, side, tile, around)
    cut = padded(image, around)[: (height - 1) * tile + side, : (width - 1) * tile + side]
    rows = cut.reshape(cut.shape[0] // tile, tile, cut.shape[1] // tile, -1)
    columns = jnp.concatenate([rows[:, :, j : j + width] for j in range(side // tile)], axis=-1)
    strips = [strip.squeeze(1) for strip in jax.lax.split(columns, (1,) * tile, 1)]
    return jnp.concatenate([strips[i % tile][i // tile : i // tile + height] for i in range(side)], axis=-1)


def _patches_across(image: jax.Array, side: int, tile: int, around: tuple[int, int]) -> jax.Array:
    """Return the same windows as [side · side · channel, height', width'].

    The image is taken apart into coarser ones, one for each place of a tile: of them every window is a plain cut.
    """
    height, width = _windows_that_fit(image, side, tile, around)
    coarse, spare = _coarser_images(image, tile, around)

    def window(i: int, j: int) -> jax.Array:
        (row, i), (column, j) = divmod(spare + i, tile), divmod(spare + j, tile)
        return coarse[i, j, :, row : row + height, column : column + width]

    return jnp.concatenate([window(i, j) for i in range(side) for j in range(side)])


def _coarser_images(image: jax.Array, tile: int, around: tuple[int, int]) -> tuple[jax.Array, int]:
    """Return what every tile-th pixel makes, [tile, tile, channel, height', width'], and how many zeros are too many.

    Zeros come in whole tiles; and they come last, because the compiler keeps what is padded and cuts windows from that.
    """
    before = -(-around[0] // tile)
    after = [-(-(size + around[1]) // tile) - -(-size // tile) for size in image.shape[:2]]
    whole = jnp.pad(image, (*((0, -size % tile) for size in image.shape[:2]), (0, 0)))
    tiles = whole.reshape(whole.shape[0] // tile, tile, whole.shape[1] // tile, tile, -1)
    coarse = jnp.pad(tiles.transpose(1, 3, 4, 0, 2), ((0, 0),) * 3 + tuple((before, padding) for padding in after))
    return coarse, before * tile - around[0]


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
