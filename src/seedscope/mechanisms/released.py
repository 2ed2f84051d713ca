"""What mechanisms release, in the numbers that analyses about it need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from seedscope.training import Clipping, NoiseLaw, Sampling


@dataclass(frozen=True, eq=False)
class NoisyRegression:
    """A regularised minimiser, the bias last, that is released with Gaussian noise."""

    weights: np.ndarray
    l2: float
    noise_scale: float


@dataclass(frozen=True)
class NoisyMinimum:
    """What a minimiser that is released with Gaussian noise was regularised by, and the noise's standard deviation."""

    l2: float
    noise_scale: float


@dataclass(frozen=True)
class NoisySums:
    """The noisy sums of clipped gradients that a run releases step by step: what accounting for a person needs."""

    noise_multiplier: float
    clipping_norm: float
    sampling_probability: float
    steps: int
    delta: float
    sampling: Sampling
    clipping: Clipping
    divided_by_true_size: bool


@dataclass(frozen=True)
class NoisyObjective:
    """The minimiser w of Σ losses + ½ Σ penalty·w² + b·w that is released, b a random tilt: *sums*, not means.

    So w has the density p(b(w))·det H(w), `b(w) = −(Σ gradients of the losses + penalties·w)`, H the Hessian of the sum
    with its penalties. For more than two classes weights and tilts are [class, width] whose sum over the classes is 0,
    and the density is on that subspace.
    """

    penalty: float
    bias_penalty: float
    law: NoiseLaw
    scale: float

    def penalties(self, width: int) -> np.ndarray:
        """Return the penalty of each weight of a logit, the bias last."""
        return np.append(np.full(width - 1, self.penalty), self.bias_penalty)

    def log_density(self, tilts: np.ndarray) -> np.ndarray:
        """Return ln p(b) of tilts [..., weight], up to a constant.

        >>> float(NoisyObjective(1.0, 1.0, "gaussian", 2.0).log_density(np.array([0.0, 4.0])))
        -2.0
        """
        norms = np.linalg.norm(tilts, axis=-1) / self.scale
        density: np.ndarray = -(norms**2) / 2 if self.law == "gaussian" else -norms
        return density


@dataclass(frozen=True)
class PlainSteps:
    """Gradient steps of a fixed size on shuffled batches, and nothing else."""

    learning_rate: float
    batch_size: int
