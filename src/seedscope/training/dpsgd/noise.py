"""The Gaussian noise of DP-SGD: a stream for each seed, from which every step has its own draw.

For small networks a draw costs less than starting it, so several steps are drawn at once; the numbers are the same.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

STEPS_AT_ONCE = 16
NUMBERS_AT_ONCE = 1 << 17  # more are not drawn ahead: they would fill the cache


def noise_keys(root_seed: int, seeds: np.ndarray) -> jax.Array:
    """Return the key of each seed's noise, from which every step folds its own; of the root 64 bits count."""
    words = np.array([root_seed >> 32 & 0xFFFFFFFF, root_seed & 0xFFFFFFFF], np.uint32)
    keys: jax.Array = _noise_keys(words, np.asarray(seeds, np.uint32))
    return keys


@jax.jit
def _noise_keys(words: jax.Array, seeds: jax.Array) -> jax.Array:
    """Return the keys of `noise_keys`."""
    root = jax.random.fold_in(jax.random.wrap_key_data(words), np.uint32(zlib.crc32(b"noise")))
    return jax.vmap(partial(jax.random.fold_in, root))(seeds)


def normals_like(init: Any, key: jax.Array) -> Any:
    """Return standard normals in the shape of a network's parameters.

    Each hash gives two numbers, as JAX had it before it could spread a draw over devices, at half the cost.
    """
    from jax.flatten_util import ravel_pytree

    shapes = jax.eval_shape(init, jax.random.key(0))
    empty, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))
    with jax.threefry_partitionable(False):
        return unravel(jax.random.normal(key, empty.shape, empty.dtype))


class Noise:
    """Draws standard normals [seed, ...] in the shape of a network's parameters, step after step from 0 on."""

    def __init__(self, init: Any, keys: jax.Array, steps: int):
        self.init = init
        numbers = keys.size * sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(init, keys[0])))
        self.ahead = STEPS_AT_ONCE if STEPS_AT_ONCE * numbers <= NUMBERS_AT_ONCE else 1
        every = jnp.arange(-(-steps // self.ahead) * self.ahead)
        self.keys = jax.vmap(lambda t: jax.vmap(lambda key: jax.random.fold_in(key, t))(keys))(every)

    def empty(self) -> Any:
        """Return room for draws of later steps [step, seed, ...], which the training loop carries; () for none."""
        if self.ahead == 1:
            return ()
        drawn = jax.eval_shape(self._draw_ahead, 0)
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), drawn)

    def at(self, drawn: Any, t: jax.Array) -> tuple[Any, Any]:
        """Return step t's normals, and what has been drawn until then."""
        if self.ahead == 1:
            return self._draw(self.keys[t]), drawn
        drawn = jax.lax.cond(t % self.ahead == 0, self._draw_ahead, lambda _: drawn, t)
        return jax.tree.map(lambda leaf: leaf[t % self.ahead], drawn), drawn

    def _draw_ahead(self, t: Any) -> Any:
        """Return the draws of step t and those that follow it."""
        return jax.vmap(self._draw)(jax.lax.dynamic_slice_in_dim(self.keys, t, self.ahead))

    def _draw(self, keys: jax.Array) -> Any:
        """Return the draw of one step, by the step's keys [seed]."""
        return jax.vmap(partial(normals_like, self.init))(keys)
