"""Mechanisms that take gradient steps on a network from an initial point."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from seedscope.core import require
from seedscope.mechanisms.base import COPIES, Load, Mechanism
from seedscope.mechanisms.guarantees import Conditions

# Floating-point operations per second that one core of an ordinary server reaches, from `python -m benchmarks`.
NEIGHBOURS_SPEED = 3e10
SEEDS_SPEED = 4e9  # without neighbours every seed gathers batches of its own


class StepMechanism(Mechanism):
    """Base of the mechanisms that take gradient steps: batches of rows, a network, single precision."""

    shares_work: ClassVar[Literal["neighbours", "seeds"]] = "neighbours"
    takes_network: ClassVar[bool] = True
    has_initial_point: ClassVar[bool] = True
    precision: ClassVar[type] = np.float32

    @property
    @abstractmethod
    def last_step(self) -> int:
        """The number of steps."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """The expected number of rows in a batch; a field of this name will do."""

    def check(self, conditions: Conditions) -> None:
        """Raise where a batch is larger than the data."""
        require_batch(self.batch_size, conditions.examples)

    def work(self, load: Load) -> float:
        examples = self.last_step * (self.batch_size + 1) + load.looks
        work = 3.0 * examples * max(load.forward()[0], 2.0 * load.parameters)
        return 3 * work if load.traced else work

    def memory(self, load: Load) -> int:
        numbers = COPIES * load.recorded + 8 * load.parameters
        activations = load.forward()[1] - 4 * load.parameters
        return int(4 * numbers + (self.batch_size + 1) * max(0, activations) / 2)  # what is moved is read and written

    def speed(self, load: Load) -> float:
        return NEIGHBOURS_SPEED if load.datasets > 4 else SEEDS_SPEED


def require_batch(batch_size: int, examples: int) -> None:
    """Raise where a batch is larger than the data."""
    require(batch_size <= examples, f"batch_size must be at most the {examples} training rows, got {batch_size}.")
