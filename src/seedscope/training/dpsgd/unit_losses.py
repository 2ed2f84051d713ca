"""Everybody's privacy losses under logistic regression: two products of matrices a step, for all models of a chunk.

Gradients are δ·(x, 1), so ⟨n, g⟩ is δ times the "logit" of the noise, and ‖g‖ = |δ|·‖(x, 1)‖. People are rows, models
columns, in blocks of people that stay in the cache: what dominates are the products, and one tanh, exp and log. Of a
table's categories most columns have one value in most rows: there a row keeps what is otherwise in it, and a product
adds up as many rows of the weights.
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

DENSE = 3  # an entry of a sparse row costs at most what this many columns of a dense one do
MOST_ENTRIES = 32  # of a sparse row: each is a term of the compiled loop
LOOKED_AT = 1000  # rows, for what is usual


class Columns(NamedTuple):
    """Of models side by side: weights and noise [feature, model], the bias last, and models a seed has."""

    weights: jax.Array
    normals: jax.Array  # [feature, seed]
    per_seed: int


class DenseRows(NamedTuple):
    """Rows [..., person, feature], with a last 1."""

    rows: jax.Array

    def times(self, columns: jax.Array) -> jax.Array:
        """Return the product [person, model] with columns [feature, model]."""
        return self.rows @ columns

    def squares(self) -> jax.Array:
        """Return each row's squared norm [..., person]."""
        return jnp.sum(self.rows * self.rows, -1)


class SparseRows(NamedTuple):
    """Rows by what is unusual in them: differences [..., person, entry] from the usual row, in which columns."""

    usual: jax.Array  # [..., feature], with a last 1
    differences: jax.Array
    columns: jax.Array
    norms_squared: jax.Array  # [..., person], of the rows with a last 1

    def times(self, columns: jax.Array) -> jax.Array:
        """Return the product [person, model] with columns [feature, model]: one loop, written out over the entries."""
        total = self.usual @ columns
        for k in range(self.differences.shape[-1]):
            total = total + self.differences[:, k, None] * columns.at[self.columns[:, k]].get(mode="promise_in_bounds")
        return total

    def squares(self) -> jax.Array:
        """Return each row's squared norm [..., person]."""
        return self.norms_squared


UnitRows = DenseRows | SparseRows


class Unit(NamedTuple):
    """People as one unit sees them: rows, labels [..., person], and the norms of rows [..., person], the 1 included."""

    rows: UnitRows
    labels: jax.Array
    lengths: jax.Array


def unit_of(rows: jax.Array | SparseRows, labels: jax.Array) -> Unit:
    """Return people as one unit sees them, from rows [..., person, ...] of which two axes or less come before."""
    seen = rows if isinstance(rows, SparseRows) else DenseRows(with_ones(rows, labels.ndim))
    return Unit(seen, labels, jnp.sqrt(seen.squares()))


def sparse_rows(rows: np.ndarray) -> SparseRows | None:
    """Return rows [block, person, feature] by what is unusual in them, or None where products of matrices are as fast.

    Any row may be the usual one. A value that more than half of the rows have is in the middle of its column; some rows
    are enough to find it.

    >>> rows = np.full((1, 5, 6), 0.5, np.float32)
    >>> rows[0, 3, 4] = 2
    >>> found = sparse_rows(rows)
    >>> found.differences[0, :, 0].tolist(), int(found.columns[0, 3, 0])
    ([0.0, 0.0, 0.0, 1.5, 0.0], 4)
    >>> sparse_rows(np.arange(12.0).reshape(1, 4, 3)) is None
    True
    """
    blocks, _, features = rows.shape
    flat = rows.reshape(-1, features)
    some = flat[:: -(-len(flat) // LOOKED_AT)]
    usual = np.partition(some, len(some) // 2, axis=0)[len(some) // 2]
    people, unusual = np.nonzero(flat != usual)
    counts = np.bincount(people, minlength=len(flat))
    entries = int(counts.max(initial=0))
    if not 0 < entries <= min(MOST_ENTRIES, features // DENSE):
        return None
    places = np.arange(len(people)) - (np.cumsum(counts) - counts)[people]  # of an entry among its row's
    differences, columns = np.zeros((len(flat), entries), flat.dtype), np.zeros((len(flat), entries), np.int32)
    differences[people, places], columns[people, places] = flat[people, unusual] - usual[unusual], unusual
    squares = np.einsum("pf,pf->p", flat, flat) + flat.dtype.type(1)
    shaped = [array.reshape(*rows.shape[:2], *array.shape[1:]) for array in (differences, columns, squares)]
    return SparseRows(np.tile(np.append(usual, flat.dtype.type(1)), (blocks, 1)), *shaped)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class UnitLosses(LossRecorder):
    """Adds up losses [block, person, model] of networks with one unit."""

    smooth: bool
    rate: Any
    spare_place: int
    places: jax.Array  # [person]
    everybody: bool  # whether the places are all rows, in their order
    blocks: Unit  # rows and labels [block, person], the last filled up
    spare: Spare | None

    def empty(self, parameters: Parameters) -> jax.Array:
        leaf = jax.tree.leaves(parameters)[0]
        return jnp.zeros((*self.blocks.labels.shape, leaf.shape[0] * leaf.shape[1]), leaf.dtype)

    def add(
        self, losses: jax.Array, parameters: Parameters, normals: Parameters, batch: jax.Array, neighbours: jax.Array,
        scales: Scales,
    ) -> jax.Array:  # fmt: skip
        columns = Columns(columns_of(parameters), columns_of(normals), len(neighbours))
        inside = self._inside(batch, neighbours).reshape(losses.shape)

        def block(unit: tuple[Unit, jax.Array, jax.Array]) -> jax.Array:
            people, present, sums = unit
            return sums + self._step(people, columns, present, scales)

        added: jax.Array = jax.lax.map(block, (self.blocks, inside, losses))
        return added

    def finished(self, losses: jax.Array, parameters: Parameters) -> jax.Array:
        seeds, models = jax.tree.leaves(parameters)[0].shape[:2]
        people = losses.reshape(-1, seeds, models)[: len(self.places)]
        return jnp.moveaxis(people, 0, 2)

    def _inside(self, batch: jax.Array, neighbours: jax.Array) -> jax.Array:
        """Return whether each person is in each model's batch [person, model], the last block filled up."""
        seeds, padded = len(batch), int(np.prod(self.blocks.labels.shape))
        drawn = (
            jnp.zeros((max(self.spare_place + 1, padded), seeds), bool).at[batch, jnp.arange(seeds)[:, None]].set(True)
        )
        filled = jnp.resize(self.places, (padded,))
        drawn = drawn[:padded] if self.everybody else drawn[filled]
        if len(neighbours) == 1:
            return drawn & (filled[:, None] != neighbours)
        each = drawn[:, :, None] & (filled[:, None, None] != neighbours)
        return each.reshape(padded, -1)

    def _step(self, people: Unit, columns: Columns, inside: jax.Array, scales: Scales) -> jax.Array:
        """Return a step's losses [person, model] of a block of people."""
        pulls, slopes = unit_pulls(people, columns, self.smooth, scales)
        own = step_losses(pulls.products, pulls.squares, inside, self.rate)
        if self.spare is None:
            return own
        instead = unit_of(self.spare.row[None], self.spare.label[None])
        other, slope = unit_pulls(instead, columns, self.smooth, scales)
        row = with_ones(self.spare.row[None]) / scales.noise_scale**2
        shared = slopes * slope * people.rows.times(row.T)
        return own - replaced_losses(other.products, other.squares, shared, inside, self.rate)


def unit_pulls(people: Unit, columns: Columns, smooth: bool, scales: Scales) -> tuple[Pulls, jax.Array]:
    """Return people's pulls [person, model], gradients in the noise's deviations, and the clipped derivatives δ."""
    clipping_norm, sigma = scales
    along = jnp.repeat(people.rows.times(columns.normals / sigma), columns.per_seed, axis=1)
    slopes = jax.nn.sigmoid(people.rows.times(columns.weights)) - people.labels[:, None]
    lengths = people.lengths[:, None]
    if smooth:
        slopes = slopes * smooth_factors(jnp.abs(slopes) * lengths, clipping_norm)
    else:
        slopes = clipped_slopes(slopes, clipping_norm / lengths)
    return Pulls(slopes * along, (slopes * (lengths / sigma)) ** 2), slopes


def with_ones(rows: jax.Array, axes: int = 1) -> jax.Array:
    """Return the rows, flat after the first axes, with a last 1 for the bias."""
    flat = rows.reshape(*rows.shape[:axes], -1)
    return jnp.concatenate([flat, jnp.ones((*flat.shape[:-1], 1), flat.dtype)], axis=-1)


def columns_of(parameters: Parameters) -> jax.Array:
    """Return the weights of one-unit networks [..., weight] as [feature, model], the bias last."""
    layer = layers_of(parameters)[0][0]
    models = layer.bias.size
    return jnp.concatenate([layer.weight.reshape(models, -1), layer.bias.reshape(models, 1)], axis=1).T
