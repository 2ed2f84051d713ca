"""Everybody's privacy losses under logistic regression: two products of matrices a step, for all models of a chunk.

Gradients are δ·(x, 1), so ⟨n, g⟩ is δ times the "logit" of the noise, and ‖g‖ = |δ|·‖(x, 1)‖. People are rows, models
columns, in blocks of people that stay in the cache: what dominates are the products, and one tanh, exp and log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.models import Parameters
from seedscope.training.dpsgd.per_example import clipped_slopes, layers_of, smooth_factors
from seedscope.training.dpsgd.privacy_losses import LossRecorder, Pulls, Scales, Spare, replaced_losses, step_losses


class Columns(NamedTuple):
    """Of models side by side: weights and noise [feature, model], the bias last, and models a seed has."""

    weights: jax.Array
    normals: jax.Array  # [feature, seed]
    per_seed: int


@dataclass(frozen=True, eq=False)
class UnitLosses(LossRecorder):
    """Adds up losses [block, person, model] of networks with one unit."""

    smooth: bool
    rate: Any
    spare_place: int
    places: jax.Array  # [person]
    everybody: bool  # whether the places are all rows, in their order
    blocks: tuple[jax.Array, jax.Array]  # rows with a last 1 [block, person, feature] and labels, the last filled up
    spare: Spare | None

    def empty(self, parameters: Parameters) -> jax.Array:
        leaf = jax.tree.leaves(parameters)[0]
        return jnp.zeros((*self.blocks[1].shape, leaf.shape[0] * leaf.shape[1]), leaf.dtype)

    def add(
        self, losses: jax.Array, parameters: Parameters, normals: Parameters, batch: jax.Array, neighbours: jax.Array,
        scales: Scales,
    ) -> jax.Array:  # fmt: skip
        columns = Columns(columns_of(parameters), columns_of(normals), len(neighbours))
        inside = self._inside(batch, neighbours).reshape(losses.shape)

        def block(one: tuple[jax.Array, ...]) -> jax.Array:
            rows, labels, present, sums = one
            return sums + self._step(rows, labels, columns, present, scales)

        added: jax.Array = jax.lax.map(block, (*self.blocks, inside, losses))
        return added

    def finished(self, losses: jax.Array, parameters: Parameters) -> jax.Array:
        seeds, models = jax.tree.leaves(parameters)[0].shape[:2]
        people = losses.reshape(-1, seeds, models)[: len(self.places)]
        return jnp.moveaxis(people, 0, 2)

    def _inside(self, batch: jax.Array, neighbours: jax.Array) -> jax.Array:
        """Return whether each person is in each model's batch [person, model], the last block filled up."""
        seeds, padded = len(batch), int(np.prod(self.blocks[1].shape))
        drawn = (
            jnp.zeros((max(self.spare_place + 1, padded), seeds), bool).at[batch, jnp.arange(seeds)[:, None]].set(True)
        )
        filled = jnp.resize(self.places, (padded,))
        drawn = drawn[:padded] if self.everybody else drawn[filled]
        if len(neighbours) == 1:
            return drawn & (filled[:, None] != neighbours)
        each = drawn[:, :, None] & (filled[:, None, None] != neighbours)
        return each.reshape(padded, -1)

    def _step(
        self, rows: jax.Array, labels: jax.Array, columns: Columns, inside: jax.Array, scales: Scales
    ) -> jax.Array:
        """Return a step's losses [person, model] of a block of people."""
        C, sigma = scales
        pulls, slopes = unit_pulls(rows, labels, columns, self.smooth, C)
        own = step_losses(pulls.products / sigma, pulls.squares / sigma**2, inside, self.rate)
        if self.spare is None:
            return own
        row = with_ones(self.spare.row.reshape(1, -1))
        other, slope = unit_pulls(row, self.spare.label[None], columns, self.smooth, C)
        shared = slopes * slope * (rows @ row[0])[:, None] / sigma**2
        product, square = other.products / sigma, other.squares / sigma**2
        return own - replaced_losses(product, square, shared, inside, self.rate)


def unit_pulls(
    rows: jax.Array, labels: jax.Array, columns: Columns, smooth: bool, clipping_norm: Any
) -> tuple[Pulls, jax.Array]:
    """Return people's pulls [person, model], rows with a last 1, and the clipped derivatives δ of their losses."""
    along = jnp.repeat(rows @ columns.normals, columns.per_seed, axis=1)
    slopes = jax.nn.sigmoid(rows @ columns.weights) - labels[:, None]
    lengths = jnp.sqrt(jnp.sum(rows * rows, axis=1))[:, None]
    if smooth:
        slopes = slopes * smooth_factors(jnp.abs(slopes) * lengths, clipping_norm)
    else:
        slopes = clipped_slopes(slopes, clipping_norm / lengths)
    return Pulls(slopes * along, (slopes * lengths) ** 2), slopes


def with_ones(rows: jax.Array) -> jax.Array:
    """Return the rows, flat, with a last 1 for the bias."""
    flat = rows.reshape(len(rows), -1)
    return jnp.concatenate([flat, jnp.ones((len(flat), 1), flat.dtype)], axis=1)


def columns_of(parameters: Parameters) -> jax.Array:
    """Return the weights of one-unit networks [..., weight] as [feature, model], the bias last."""
    layer = layers_of(parameters)[0][0]
    models = layer.bias.size
    return jnp.concatenate([layer.weight.reshape(models, -1), layer.bias.reshape(models, 1)], axis=1).T
