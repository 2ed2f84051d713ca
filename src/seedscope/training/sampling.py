"""How a batch is drawn: frozen data that draws, and that says how many examples it draws at most."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from seedscope.core import Described
from seedscope.training.streams import poisson_batches, shuffled_batches, subset_batches

SUBSET_ROWS = 8  # of a person, whose every subset is looked at in every step for their privacy loss
OVERFLOW = 1e-12  # the chance that more Poisson draws come than room was made for; then there is an error


class Sampling(Described, ABC):
    """Base of the ways to draw batches."""

    varies: ClassVar[bool] = False  # whether batches have different sizes
    amplifies: ClassVar[Literal["poisson", "subset"] | None] = None  # by which theorem sampling amplifies privacy

    @abstractmethod
    def draw(
        self, root_seed: int, seed: int, examples: int, batch_size: int, steps: int, size: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the examples that a seed draws, batch after batch, and how many each batch has.

        `size` is a public number of examples, in place of the true one, that the chance to be drawn follows from.
        """

    def capacity(self, batch_size: int, examples: int, steps: int) -> int:
        """Return how many examples this many steps draw at most."""
        return steps * batch_size


@dataclass(frozen=True)
class Poisson(Sampling):
    """Each example enters each batch independently, with the same probability."""

    varies: ClassVar[bool] = True
    amplifies: ClassVar[Literal["poisson", "subset"] | None] = "poisson"

    def draw(
        self, root_seed: int, seed: int, examples: int, batch_size: int, steps: int, size: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        return poisson_batches(root_seed, seed, examples, min(1.0, batch_size / (size or examples)), steps)

    def capacity(self, batch_size: int, examples: int, steps: int) -> int:
        """Return how many examples this many steps draw at most, but for a chance of 1e-12."""
        return poisson_capacity(steps * batch_size, steps * examples)


@dataclass(frozen=True)
class WithoutReplacement(Sampling):
    """Each batch is a fresh uniform subset of fixed size."""

    amplifies: ClassVar[Literal["poisson", "subset"] | None] = "subset"

    def draw(
        self, root_seed: int, seed: int, examples: int, batch_size: int, steps: int, size: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        return subset_batches(root_seed, seed, examples, batch_size, steps).ravel(), np.full(steps, batch_size)


@dataclass(frozen=True)
class Shuffled(Sampling):
    """Each epoch visits the examples in a random order, in consecutive batches; an incomplete last batch is dropped."""

    def draw(
        self, root_seed: int, seed: int, examples: int, batch_size: int, steps: int, size: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        return shuffled_batches(root_seed, seed, examples, batch_size, steps).ravel(), np.full(steps, batch_size)


def poisson_capacity(batch_size: int, examples: int) -> int:
    """Return a size that a Poisson batch exceeds with probability below 1e-12, by Bernstein's inequality.

    >>> poisson_capacity(128, 60_000), poisson_capacity(100, 100)
    (231, 100)
    """
    log = -math.log(OVERFLOW)
    variance = batch_size * (1 - batch_size / examples)
    return min(examples, math.ceil(batch_size + math.sqrt(2 * variance * log) + 2 * log / 3))
