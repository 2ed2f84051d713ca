"""The batches of DP-SGD: each seed's are drawn on the host, one after another in a row, and cut out step by step.

A batch that is cut out is padded with the index N of the spare example, whose weight is then 0. It is worked through in
parts: a first one for most of it, then as many small ones as the largest of the batches side by side needs. So nothing
is ever cut off and little is padded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.mechanisms import DPSGD, Poisson, Shuffled
from seedscope.streams import poisson_batches, shuffled_batches, subset_batches

OVERFLOW = 1e-12  # the chance that more is drawn than there was room for at first; then there is more room


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


def draw_batches(mechanism: DPSGD, root_seed: int, seeds: np.ndarray, examples: int, parts: Parts) -> Batches:
    """Return the batches of each seed, none of them shortened, with room for whole parts after the last."""
    drawn = [_batches_of(mechanism, root_seed, int(seed), examples) for seed in seeds]
    sizes = np.stack([sizes for _, sizes in drawn], axis=1).astype(np.int32)
    room = parts.room(max(capacity(mechanism, examples, 1), int(sizes.max())))
    length = max(capacity(mechanism, examples, mechanism.steps), *(len(places) for places, _ in drawn))
    rows = np.zeros((len(seeds), length + room), np.int32)
    for row, (places, _) in zip(rows, drawn, strict=True):
        row[: len(places)] = places
    return Batches(rows, sizes, room)


def _batches_of(mechanism: DPSGD, root_seed: int, seed: int, examples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the examples that a seed draws, batch after batch, and how many each batch has."""
    batch, steps = mechanism.batch_size, mechanism.steps
    if isinstance(mechanism.sampling, Poisson):
        return poisson_batches(root_seed, seed, examples, mechanism.sampling_probability(examples), steps)
    draw = shuffled_batches if isinstance(mechanism.sampling, Shuffled) else subset_batches
    return draw(root_seed, seed, examples, batch, steps).ravel(), np.full(steps, batch)


def capacity(mechanism: DPSGD, examples: int, steps: int) -> int:
    """Return how many examples so many steps draw at most; for Poisson batches, but for a chance of 1e-12."""
    batch = mechanism.batch_size
    if isinstance(mechanism.sampling, Poisson):
        return poisson_capacity(steps * batch, steps * examples)
    return steps * batch


def poisson_capacity(batch_size: int, examples: int) -> int:
    """Return a size that a Poisson batch exceeds with probability below 1e-12, by Bernstein's inequality.

    >>> poisson_capacity(128, 60_000), poisson_capacity(100, 100)
    (231, 100)
    """
    log = -math.log(OVERFLOW)
    variance = batch_size * (1 - batch_size / examples)
    return min(examples, math.ceil(batch_size + math.sqrt(2 * variance * log) + 2 * log / 3))


class Cutter:
    """Cuts the batches of one step after another out of the rows of batches, within a compiled loop."""

    def __init__(self, drawn: jax.Array, sizes: jax.Array, room: int, spare: int):
        self.drawn, self.sizes, self.room, self.spare = drawn, sizes, room, spare
        self.starts = jnp.cumsum(sizes, axis=0) - sizes

    def at(self, t: jax.Array) -> jax.Array:
        """Return the batches of step t [seed, place], padded with the spare example."""
        cut = jax.vmap(lambda row, start: jax.lax.dynamic_slice_in_dim(row, start, self.room))
        padded = jnp.arange(self.room) >= self.sizes[t][:, None]
        return jnp.where(padded, self.spare, cut(self.drawn, self.starts[t]))
