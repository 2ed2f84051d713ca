"""DP-SGD for a model that is published: double precision, noise exactly as accounted, nothing that can be drawn again.

A step's sum of clipped gradients is put on a grid and gets integer noise: the exact Gaussian's, rounded. That is the
sampled Gaussian mechanism followed by rounding, so the accounting holds for it as it is; what the grid and double
precision add to a person's reach is covered by a little more noise.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.models import Network, network_of
from seedscope.training import Job, SystemDraws, poisson_capacity, transformation
from seedscope.training.dpsgd.per_example import clipped_sum
from seedscope.training.dpsgd.steps import PrivateSteps

FINENESS = 2.0**24  # steps of the grid in a standard deviation, over √weights
ROUNDING = 2.0**-30  # of the clipping norm: what double precision may add to a person's reach


def published_steps(job: Job, private: PrivateSteps, draws: SystemDraws) -> np.ndarray:
    """Return the weights [weight] of one run with the operating system's random numbers."""
    with jax.enable_x64(True):
        return _run(job, private, network_of(job.model, job.rows.shape[1:], job.classes), draws)


def _run(job: Job, private: PrivateSteps, network: Network, draws: SystemDraws) -> np.ndarray:
    """Return the weights after all steps."""
    from jax.flatten_util import ravel_pytree

    key = jax.random.wrap_key_data(jnp.asarray(draws.words(1).view(np.uint32)))
    start, structured = ravel_pytree(jax.tree.map(lambda leaf: leaf.astype(float), network.init(key)))
    weights = np.asarray(start, float)
    optimiser = transformation(private.learning_rate, private.momentum, private.steps, private.l2)
    carried = optimiser.init(jnp.asarray(weights))
    gradients = _Gradients(job, private, network, structured)
    grid = _Grid.of(private, len(weights))
    for _ in range(private.steps):
        batch = draws.batch(job.examples, private.batch_size / private.sampling_size(job.examples))
        update = grid.noisy(gradients.sum(weights, batch), draws) / private.batch_size
        moved, carried = optimiser.update(jnp.asarray(update), carried, jnp.asarray(weights))
        weights = weights + np.asarray(moved, float)
    return weights


class _Gradients:
    """Sums of clipped gradients over batches, computed in blocks of one size."""

    def __init__(self, job: Job, private: PrivateSteps, network: Network, structured: Any):
        self.rows, self.labels = job.rows.astype(float), job.labels.astype(float)
        self.block = min(job.examples, poisson_capacity(private.drawn_size(job.examples), job.examples))
        self.compiled = jax.jit(partial(_clipped, network, structured, private.clipping_norm, private.clipping.smooth))

    def sum(self, weights: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Return the sum over a batch, however large."""
        total = np.zeros_like(weights)
        for first in range(0, len(batch), self.block):
            part = batch[first : first + self.block]
            places = np.resize(part, self.block)
            shares = (np.arange(self.block) < len(part)).astype(float)
            total += np.asarray(self.compiled(weights, self.rows[places], self.labels[places], shares))
        return total


def _clipped(
    network: Network, structured: Any, norm: float, smooth: bool, weights: Any, rows: Any, labels: Any, shares: Any
) -> Any:
    """Return the flat sum of clipped gradients."""
    from jax.flatten_util import ravel_pytree

    return ravel_pytree(clipped_sum(network, structured(weights), rows, labels, shares, norm, smooth))[0]


class _Grid:
    """A grid for sums, and the noise on it."""

    def __init__(self, step: float, scale: float):
        self.step, self.scale = step, scale

    @classmethod
    def of(cls, private: PrivateSteps, weights: int) -> _Grid:
        """Return a grid so fine that its √weights·step, and rounding, are covered by hardly more noise."""
        deviation = private.noise_scale
        reach = private.clipping_norm * private.clipping.largest_norm
        step = 2.0 ** math.floor(math.log2(deviation / (FINENESS * math.sqrt(weights))))
        more = 1 + ROUNDING + math.sqrt(weights) * step / reach
        return cls(step, deviation * more / step)

    def noisy(self, total: np.ndarray, draws: SystemDraws) -> np.ndarray:
        """Return a sum on the grid with its noise."""
        noise = draws.rounded_normals(self.scale, len(total))
        placed: np.ndarray = (np.round(total / self.step) + noise) * self.step
        return placed
