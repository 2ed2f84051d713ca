"""A filter: a person's gradient leaves the sum before their own divergences would exceed a budget.

Before every step each person's clipped norm s says what the step costs them, D_α(s), whether they are in the batch or
not. Whoever has less left than a step costs is left out of it. What a person has spent depends on the models of the run
alone, not on whether they are in the data; so along every run the sum of their steps' divergences stays within the
budget, in both directions, and that bounds the divergence of the whole run (a Rényi filter; Feldman & Zrnic 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.models import Parameters
from seedscope.training.dpsgd.path_sums import binned_up, path_tables

SPENT = "spent_divergences"


class Budget(NamedTuple):
    """What each person may spend, the divergences of a step by bin, and everybody's rows and labels in blocks."""

    limit: Any
    table: Any  # [bin]
    blocks: Any


@dataclass(frozen=True, eq=False)
class Filter:
    """Keeps what everybody has spent [seed, model, row], from norms that `observe` gives for the rows in blocks."""

    observe: Callable[[Parameters], jax.Array]
    budget: Budget
    clipping_norm: Any
    examples: int

    def empty(self, parameters: Parameters) -> jax.Array:
        """Return that nobody has spent anything."""
        leaf = jax.tree.leaves(parameters)[0]
        return jnp.zeros((*leaf.shape[:2], self.examples), jnp.float32)

    def admitted(self, spent: jax.Array, parameters: Parameters) -> tuple[jax.Array, jax.Array]:
        """Return what is spent after this step, and whose gradients count in it, 1 or 0 [seed, model, N+1]."""
        norms = self.observe(parameters)[..., : self.examples]
        costs = self.budget.table.at[binned_up(norms, self.clipping_norm)].get(mode="promise_in_bounds")
        able = spent + costs <= self.budget.limit
        counted = jnp.concatenate([able, jnp.ones((*able.shape[:-1], 1), bool)], axis=-1)
        return jnp.where(able, spent + costs, spent), counted.astype(jnp.float32)


def budget_of(order: float, divergence: float, noise_multiplier: float, rate: float, steps: int, blocks: Any) -> Budget:
    """Return the budget in single precision, lowered by more than adding up this many costs can round away."""
    limit = np.float32(divergence * (1 - (steps + 4) * 2.0**-23))
    return Budget(limit, path_tables(noise_multiplier, rate, (order,))[0], blocks)
