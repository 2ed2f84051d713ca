"""What the steps of DP-SGD are made of: frozen data that compiled training depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from seedscope.training import Clipping, Momentum, Sampling, Schedule

Rule = Literal["sum", "mean"]


@dataclass(frozen=True)
class PrivateSteps:
    """Steps on sums of clipped per-example gradients plus noise; see `DPSGD` for what each number means."""

    learning_rate: float | Schedule
    batch_size: int
    steps: int
    noise_multiplier: float
    clipping_norm: float
    sampling: Sampling
    momentum: Momentum | None
    rule: Rule
    clipping: Clipping
    public_size: int | None = None
    l2: float = 0.0
    budget: tuple[float, float] | None = None  # a person's: the order, and the divergence that they may spend

    def sampling_size(self, examples: int) -> int:
        """Return the number of rows by which the batch size is divided: the public one, or what there are."""
        return examples if self.public_size is None else self.public_size

    def drawn_size(self, examples: int) -> int:
        """Return how many of the rows that there are a batch is expected to have, rounded up."""
        if self.public_size is None:
            return self.batch_size
        return min(examples, -(-self.batch_size * examples // self.public_size))

    @property
    def noise_scale(self) -> float:
        """The standard deviation of the noise on the sum."""
        return self.noise_multiplier * self.clipping_norm if self.noise_multiplier else 0.0

    def at_one(self) -> tuple[PrivateSteps, tuple[np.float32, np.float32, np.float32]]:
        """Return the steps with their numbers at 1 (no noise stays none, a schedule stays one), and the numbers.

        Compiled training takes learning rate, noise scale and clipping norm as arguments: others need no compilation.
        """
        rate, scheduled = self.learning_rate, isinstance(self.learning_rate, Schedule)
        noise = 1.0 if self.noise_multiplier else 0.0
        at_one = {"noise_multiplier": noise, "clipping_norm": 1.0, "budget": None}  # a budget is an argument too
        plain = replace(self, learning_rate=rate if scheduled else 1.0, **at_one)  # type: ignore[arg-type]
        numbers = (1.0 if isinstance(rate, Schedule) else rate, self.noise_scale, self.clipping_norm)
        return plain, (np.float32(numbers[0]), float32_above(numbers[1]), -float32_above(-numbers[2]))


def float32_above(number: float) -> np.float32:
    """Return the least single-precision number that is not below: noise must not be rounded away.

    >>> bool(float32_above(0.1) >= 0.1), float(float32_above(0.5))
    (True, 0.5)
    """
    nearest = np.float32(number)
    return nearest if nearest >= number else np.nextafter(nearest, np.float32(np.inf))
