"""Sums over a run of people's step divergences, added up while DP-SGD trains: norms are never kept.

A norm is rounded up to a bin that is read off its bits, and the divergences of a step at that bin are looked up, one
for each order. Everything rounds up: tables to single precision, and the sum by more than its additions can have lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.accounting import ABOVE, BINS, SHIFT, TOP, divergence_table
from seedscope.models import Parameters
from seedscope.training.gradient import Records

SUMS = "path_sums"
NORM_MARGIN = 2.0**-12  # relative: more than single precision loses of a norm


@dataclass(frozen=True, eq=False)
class PathSummer:
    """Adds up step divergences [order, seed, model, person] of norms that `observe` [seed, model, person] gives."""

    observe: Callable[[Parameters], jax.Array]
    tables: jax.Array  # [order, bin]
    clipping_norm: Any
    every: int
    steps: int

    def empty(self, parameters: Parameters) -> Records:
        """Return sums of 0."""
        seen = jax.eval_shape(self.observe, parameters)
        return {SUMS: jnp.zeros((len(self.tables), *seen.shape), jnp.float32)}

    def record(self, sums: Records, parameters: Parameters, t: jax.Array) -> Records:
        """Return the sums with the state before step t added, for as many steps as it stands for."""

        def added(total: jax.Array) -> jax.Array:
            bins = binned_up(self.observe(parameters), self.clipping_norm)
            count = jnp.minimum(self.every, self.steps - t).astype(jnp.float32)
            return total + count * self.tables.at[:, bins].get(mode="promise_in_bounds")

        if self.every == 1:
            return {SUMS: added(sums[SUMS])}
        return {SUMS: jax.lax.cond(t % self.every == 0, added, lambda total: total, sums[SUMS])}

    def finished(self, sums: Records, parameters: Parameters) -> Records:
        """Return the sums [seed, model, order, person]."""
        return {SUMS: jnp.moveaxis(sums[SUMS], 0, 2)}


def binned_up(norms: jax.Array, clipping_norm: Any) -> jax.Array:
    """Return the bin of each norm after clipping; what is not a number counts as the clipping norm."""
    relative = norms.astype(jnp.float32) * ((ABOVE + NORM_MARGIN) / clipping_norm)
    relative = jnp.where(relative < 1, relative, 1.0)
    bits = jax.lax.bitcast_convert_type(relative, jnp.uint32) + jnp.uint32((1 << SHIFT) - 1)
    return jnp.maximum((bits >> SHIFT).astype(jnp.int32) - (TOP - (BINS - 1)), 0)


def path_tables(noise_multiplier: float, sampling_probability: float, orders: tuple[float, ...]) -> np.ndarray:
    """Return the divergences [order, bin] of a step in single precision, rounded up."""
    exact = np.stack([divergence_table(noise_multiplier, sampling_probability, order) for order in orders])
    return np.nextafter(exact.astype(np.float32), np.float32(np.inf))


def summed_up(sums: np.ndarray, steps: int) -> np.ndarray:
    """Return sums that are not below the true ones, whatever adding this many numbers rounded away."""
    return np.nextafter(sums * np.float32(1 + (steps + 2) * 2.0**-23), np.float32(np.inf))
