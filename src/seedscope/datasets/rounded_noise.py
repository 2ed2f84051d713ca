"""Noise of private preprocessing: sums on a grid get whole numbers, so that no digit says what was added to what."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

FINENESS = 2**16  # steps of the grid, on which private sums are taken, in half a range

RoundedNormals = Callable[[float, int], np.ndarray]  # (scale, count) → integers: normals of this deviation, rounded


@cache
def gaussian_noise(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the Gaussian mechanism's noise; every model of an audit asks for the same."""
    from seedscope.accounting import gaussian_noise_scale  # start-up

    return float(gaussian_noise_scale(sensitivity, epsilon, delta))


def seeded_normals(generator: np.random.Generator) -> RoundedNormals:
    """Return rounded normals from a generator: for audits, which must be repeatable."""
    return lambda scale, count: np.round(scale * generator.standard_normal(count))
