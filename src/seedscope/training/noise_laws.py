"""The random vectors that minimisers are tilted or blurred by: two laws, how they are drawn, and their density."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from seedscope.training.streams import gammas, normals
from seedscope.training.system_draws import SystemDraws

NoiseLaw = Literal["gamma", "gaussian"]


@dataclass(frozen=True)
class Noise:
    """A random vector b of a density that falls with its norm.

    "gaussian"   ∝ exp(−‖b‖²/2·scale²)
    "gamma"      ∝ exp(−‖b‖/scale): its direction is uniform, its norm Gamma(dimension, scale)
    """

    law: NoiseLaw
    scale: float

    def draw(self, root_seed: int | SystemDraws, purpose: str, seeds: np.ndarray, dimension: int) -> np.ndarray:
        """Return a vector for each seed [seed, dimension]."""
        if self.law == "gaussian":
            return self.scale * normals(root_seed, purpose, seeds, dimension)
        directions = normals(root_seed, f"{purpose} direction", seeds, dimension)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        sizes = self.scale * gammas(root_seed, f"{purpose} size", seeds, dimension)
        drawn: np.ndarray = directions * sizes[:, None]
        return drawn

    def log_density(self, vectors: np.ndarray) -> np.ndarray:
        """Return the logarithm of the density at vectors [..., dimension], up to a constant.

        >>> float(Noise("gamma", 2.0).log_density(np.array([3.0, 4.0])))
        -2.5
        """
        norms = np.linalg.norm(vectors, axis=-1) / self.scale
        density: np.ndarray = -(norms**2) / 2 if self.law == "gaussian" else -norms
        return density

    def typical_norm(self, dimension: int) -> float:
        """Return the norm's mean (of a Gaussian: the root of its mean square, which is above)."""
        return self.scale * (sqrt(dimension) if self.law == "gaussian" else dimension)
