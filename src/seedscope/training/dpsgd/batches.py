"""The batches of DP-SGD: each seed's are drawn on the host, one after another in a row, and cut out step by step.

A batch that is cut out is padded with the index N of the spare example, whose weight is then 0. It is worked through in
parts: a first one for most of it, then as many small ones as the largest of the batches side by side needs. So nothing
is ever cut off and little is padded.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.training.dpsgd.steps import PrivateSteps


class Parts(NamedTuple):
    """How a batch is worked through: rows of the first part and of each later one, and whether model by model."""

    first: int
    later: int
    one_by_one: bool = False

    def needed(self, sizes: jax.Array) -> jax.Array:
        """Return how many later parts each batch needs, for batch sizes [step, seed]."""
        return jnp.maximum(0, -(-(sizes - self.first) // self.later))

    def room(self, capacity: int) -> int:
        """Return the smallest number of places from the capacity on that whole parts fill."""
        return self.first + -(-max(0, capacity - self.first) // self.later) * self.later


class Batches(NamedTuple):
    """Example indices [seed, place], batch after batch; the sizes of batches [step, seed]; the room that one takes."""

    drawn: np.ndarray
    sizes: np.ndarray
    room: int

    def of_seed(self, place: int) -> list[np.ndarray]:
        """Return every step's batch of the seed at this place."""
        return np.split(self.drawn[place], np.cumsum(self.sizes[:, place]))[:-1]


def draw_batches(private: PrivateSteps, root_seed: int, seeds: np.ndarray, examples: int, parts: Parts) -> Batches:
    """Return the batches of each seed, none of them shortened, with room for whole parts after the last."""
    batch, steps, sampling = private.batch_size, private.steps, private.sampling
    size = private.sampling_size(examples)
    drawn = [sampling.draw(root_seed, int(seed), examples, batch, steps, size) for seed in seeds]
    sizes = np.stack([sizes for _, sizes in drawn], axis=1).astype(np.int32)
    expected = private.drawn_size(examples)
    room = parts.room(max(sampling.capacity(expected, examples, 1), int(sizes.max())))
    length = max(sampling.capacity(expected, examples, steps), *(len(places) for places, _ in drawn))
    rows = np.zeros((len(seeds), length + room), np.int32)
    for row, (places, _) in zip(rows, drawn, strict=True):
        row[: len(places)] = places
    return Batches(rows, sizes, room)


class Cutter:
    """Cuts the batches of one step after another out of the rows of batches, within a compiled loop."""

    def __init__(self, drawn: jax.Array, sizes: jax.Array, room: int, spare: int):
        self.drawn, self.sizes, self.room, self.spare = drawn, sizes, room, spare
        self.starts = jnp.cumsum(sizes, axis=0) - sizes

    def at(self, t: jax.Array | int) -> jax.Array:
        """Return the batches of step t [seed, place], padded with the spare example."""

        def cut(row: jax.Array, start: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice_in_dim(row, start, self.room)

        padded = jnp.arange(self.room) >= self.sizes[t][:, None]
        return jnp.where(padded, self.spare, jax.vmap(cut)(self.drawn, self.starts[t]))
