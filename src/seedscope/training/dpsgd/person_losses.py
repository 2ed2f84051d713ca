"""Privacy losses of people with several rows under DP-SGD, summed up while it trains.

Each of a person's k rows is in a batch or not by itself, with chance q. Whoever knows the others' rows and batches
knows, at a step, `y = ξ + g_A`: the noise, and the clipped gradients of those rows A that were drawn. With the person y
is a mixture over all subsets S of their rows, g_S the sum of their gradients; without them it is N(0, σ²), so the step
adds `ln Σ_S q^|S| (1−q)^(k−|S|) exp((⟨y, g_S⟩ − ‖g_S‖²/2)/σ²)`. With another in their place each row is that one's: m
of them pull by m·h, m binomial, and the same of these is taken off. All of it follows from ⟨ξ, g_i⟩ and the Gram matrix
⟨g_i, g_j⟩. There are 2^k subsets, so people of equally many rows are worked on together.

Beyond `SUBSET_ROWS` rows of a person the attacker is told which of the others were drawn, T: the law of y is then moved
by g_T and a mixture over subsets of the first rows alone. Whoever is not told can do no better (data processing), and
`E e^−L = 1` as before: without the person T is drawn by the same chances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.models import Network, Parameters
from seedscope.training.dpsgd.per_example import clipped_sum, examples, flat_factors, smooth_factors
from seedscope.training.dpsgd.privacy_losses import LARGE, LossRecorder, Scales, Spare, dot, in_turn
from seedscope.training.dpsgd.unit_losses import Columns, columns_of, unit_of, unit_pulls, with_ones
from seedscope.training.sampling import SUBSET_ROWS


class Group(NamedTuple):
    """People of equally many rows, in blocks, the last filled up: whose they are [block, person], and their rows."""

    owners: Any
    places: Any  # [block, person, row] in the training data
    rows: Any  # [block, person, row, ...]
    labels: Any


class Persons(NamedTuple):
    """People whose losses are recorded: groups, and where in their row each person is, blocks filled up."""

    order: Any
    groups: tuple[Group, ...]


class Pulls(NamedTuple):
    """Of a person's clipped gradients, in the noise's standard deviations: ⟨n, g_i⟩ [row, ...], and ⟨g_i, g_j⟩."""

    products: jax.Array
    gram: jax.Array


class StandIn(NamedTuple):
    """Of who stands in, in the same unit: ⟨n, h⟩ and ‖h‖² [...], and ⟨g_i, h⟩ [row, ...]."""

    product: jax.Array
    square: jax.Array
    shared: jax.Array


def grouped(owners: np.ndarray, places: np.ndarray, rows: np.ndarray, labels: np.ndarray, numbers: int) -> Persons:
    """Return the owners of the rows at these places with all their rows, in blocks of some numbers · 2^rows each.

    Args:
        owners: whose each of the training rows is, which the spare example may follow.
        places: one row of each person.
        rows, labels: the training rows.
        numbers: persons times subsets of their first rows that are worked on together.
    """
    whose, everybody = owners[places], np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[everybody], whose)
    ends = np.searchsorted(owners[everybody], whose, "right")
    own = [everybody[start:end] for start, end in zip(starts, ends, strict=True)]
    sizes = ends - starts
    order, groups, before = np.empty(len(places), np.int32), [], 0
    for size in np.unique(sizes):
        members = np.flatnonzero(sizes == size)
        width = min(len(members), max(1, numbers >> min(int(size), SUBSET_ROWS)))
        filled = np.resize(members, -(-len(members) // width) * width).reshape(-1, width)
        at = np.stack([own[person] for person in filled.ravel()]).reshape(*filled.shape, size).astype(np.int32)
        groups.append(Group(whose[filled].astype(np.int32), at, rows[at], labels[at]))
        order[members], before = before + np.arange(len(members)), before + filled.size
    return Persons(order, tuple(groups))


@dataclass(frozen=True, eq=False)
class PersonUnitLosses(LossRecorder):
    """Adds up losses of networks with one unit: for each group [block, person, model]."""

    smooth: bool
    rate: float  # the chance of a row to be in a batch
    spare_place: int  # of the row with which batches are padded
    persons: Persons
    spare: Spare | None

    def empty(self, parameters: Parameters) -> Any:
        leaf = jax.tree.leaves(parameters)[0]
        models = leaf.shape[0] * leaf.shape[1]
        return tuple(jnp.zeros((*group.owners.shape, models), leaf.dtype) for group in self.persons.groups)

    def add(
        self, losses: Any, parameters: Parameters, normals: Parameters, batch: jax.Array, neighbours: jax.Array,
        scales: Scales,
    ) -> Any:  # fmt: skip
        columns = Columns(columns_of(parameters), columns_of(normals), len(neighbours))
        drawn = drawn_rows(batch, self.spare_place).T

        def block(pair: tuple[Group, jax.Array]) -> jax.Array:
            group, sums = pair
            lacking = group.owners[:, None] == neighbours
            inside = drawn[group.places][..., None] & ~lacking[:, None, None]  # [person, row, seed, model]
            present = jnp.moveaxis(inside.reshape(*group.places.shape, -1), 1, 0)
            return sums + self._step(group, columns, present, scales)

        return tuple(jax.lax.map(block, pair) for pair in zip(self.persons.groups, losses, strict=True))

    def finished(self, losses: Any, parameters: Parameters) -> jax.Array:
        seeds, models = jax.tree.leaves(parameters)[0].shape[:2]
        every = jnp.concatenate([group.reshape(-1, seeds, models) for group in losses])
        return jnp.moveaxis(every[self.persons.order], 0, 2)

    def _step(self, group: Group, columns: Columns, inside: jax.Array, scales: Scales) -> jax.Array:
        """Return a step's losses [person, model] of a block of people; inside [row, person, model]."""
        people, size = group.places.shape
        rows = group.rows.reshape(people * size, -1)
        separate, slopes = unit_pulls(unit_of(rows, group.labels.reshape(-1)), columns, self.smooth, scales)

        def by_row(values: jax.Array) -> jax.Array:
            return jnp.moveaxis(values.reshape(people, size, -1), 1, 0)

        own, slopes = by_row(with_ones(rows)), by_row(slopes)
        alike = jnp.einsum("ipf,jpf->ijp", own, own) / scales.noise_scale**2
        pulls = Pulls(by_row(separate.products), slopes[:, None] * slopes * alike[..., None])
        if self.spare is None:
            return person_losses(pulls, inside, self.rate)
        instead = unit_of(self.spare.row[None], self.spare.label[None])
        other, slope = unit_pulls(instead, columns, self.smooth, scales)
        row = with_ones(self.spare.row[None])[0] / scales.noise_scale**2
        shared = slopes * slope * (own @ row)[..., None]
        return person_losses(pulls, inside, self.rate, StandIn(other.products, other.squares, shared))


@dataclass(frozen=True, eq=False)
class PersonNetworkLosses(LossRecorder):
    """Adds up losses of any network: for each group [seed, model, block, person]."""

    network: Network
    smooth: bool
    one_by_one: bool
    rate: float
    spare_place: int
    persons: Persons
    spare: Spare | None

    def empty(self, parameters: Parameters) -> Any:
        leaf = jax.tree.leaves(parameters)[0]
        return tuple(jnp.zeros((*leaf.shape[:2], *group.owners.shape), leaf.dtype) for group in self.persons.groups)

    def add(
        self, losses: Any, parameters: Parameters, normals: Parameters, batch: jax.Array, neighbours: jax.Array,
        scales: Scales,
    ) -> Any:  # fmt: skip
        over: Any = in_turn if self.one_by_one else jax.vmap
        drawn = drawn_rows(batch, self.spare_place)

        def of_seed(seed: tuple[Parameters, Parameters, jax.Array]) -> Any:
            models, draws, drawn = seed
            return over(lambda pair: self._step(pair[0], draws, drawn, pair[1], scales))((models, neighbours))

        return jax.tree.map(jnp.add, losses, over(of_seed)((parameters, normals, drawn)))

    def finished(self, losses: Any, parameters: Parameters) -> jax.Array:
        every = jnp.concatenate([group.reshape(*group.shape[:2], -1) for group in losses], axis=2)
        return every[..., self.persons.order]

    def _step(
        self, parameters: Parameters, normals: Parameters, drawn: jax.Array, neighbour: jax.Array, scales: Scales
    ) -> tuple[jax.Array, ...]:
        """Return a step's losses of one model, for each group [block, person]."""
        C, sigma = scales
        instead = None if self.spare is None else self._instead(parameters, C)

        def of_person(person: Group) -> jax.Array:
            inside = drawn[person.places] & (person.owners != neighbour)
            gradients = clipped_gradients(self.network, self.smooth, C, parameters, person.rows, person.labels)
            pulls = Pulls(_along(gradients, normals) / sigma, _gram(gradients) / sigma**2)
            if instead is None:
                return person_losses(pulls, inside, self.rate)
            shared = _along(gradients, instead) / sigma**2
            stand_in = StandIn(dot(normals, instead) / sigma, dot(instead, instead) / sigma**2, shared)
            return person_losses(pulls, inside, self.rate, stand_in)

        return tuple(jax.lax.map(jax.vmap(of_person), group) for group in self.persons.groups)

    def _instead(self, parameters: Parameters, clipping_norm: Any) -> Parameters:
        """Return the clipped gradient of who stands in."""
        assert self.spare is not None
        row, label = self.spare.row[None], self.spare.label[None]
        ones = jnp.ones(1, row.dtype)
        return clipped_sum(self.network, parameters, row, label, ones, clipping_norm, self.smooth)


def person_losses(pulls: Pulls, inside: jax.Array, rate: float, other: StandIn | None = None) -> jax.Array:
    """Return a step's losses [...] of people whose rows were drawn or not, inside [row, ...]."""
    rows = min(len(inside), SUBSET_ROWS)
    there = inside.astype(pulls.gram.dtype)
    along = pulls.products + jnp.einsum("ij...,j...->i...", pulls.gram, there)  # ⟨y, g_i⟩
    told = there.at[:rows].set(0)
    moved = jnp.einsum("ij...,j...->i...", pulls.gram, told)  # ⟨g_T, g_i⟩
    exponents = jnp.einsum("i...,i...->...", along - moved / 2, told)[None]  # ⟨y, g_T⟩ − ‖g_T‖²/2
    along -= moved
    for i in range(rows):  # every subset so far, then the same with row i
        crossed = jnp.einsum("si,i...->s...", subsets(i).astype(along.dtype), pulls.gram[:i, i])
        exponents = jnp.concatenate([exponents, exponents + (along[i] - pulls.gram[i, i] / 2) - crossed])
    own = log_mean_exp(exponents, chances(subsets(rows).sum(1), rows, rate))
    if other is None:
        return own
    pull = other.product + jnp.einsum("i...,i...->...", other.shared, there)  # ⟨y, h⟩
    drawn = np.arange(rows + 1)
    many = jnp.asarray(drawn.reshape(-1, *[1] * pull.ndim), along.dtype) + told.sum(0)
    weights = chances(drawn, rows, rate) * [math.comb(rows, m) for m in drawn]
    return own - log_mean_exp(many * pull - many**2 / 2 * other.square, weights)


def subsets(rows: int) -> np.ndarray:
    """Return which rows each subset has [subset, row], those without the last row first.

    >>> subsets(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    subsets: np.ndarray = (np.arange(2**rows)[:, None] >> np.arange(rows)) % 2 == 1
    return subsets


def chances(drawn: np.ndarray, rows: int, rate: float) -> np.ndarray:
    """Return the chance of each choice of this many drawn rows among the rows."""
    chances: np.ndarray = np.power(rate, drawn) * np.power(1 - rate, rows - drawn)
    return chances


def log_mean_exp(exponents: jax.Array, weights: np.ndarray) -> jax.Array:
    """Return ln Σ w e^z over the first axis, for weights that add up to 1; those of 0 count for nothing.

    Weights too small for single precision count as the smallest number: only a loss beyond 60 in one step sees it.
    """
    kept = np.flatnonzero(weights > 0)
    z, tiny = exponents[kept], float(jnp.finfo(exponents.dtype).tiny)
    w = np.maximum(weights[kept], tiny).reshape(-1, *[1] * (z.ndim - 1)).astype(exponents.dtype)
    most = z.max(0)
    beyond = most - jnp.clip(most, -LARGE, LARGE)
    return jnp.log(jnp.sum(w * jnp.exp(z - beyond), axis=0)) + beyond


def drawn_rows(batch: jax.Array, spare_place: int) -> jax.Array:
    """Return whether each row, the spare one last, is in each seed's batch [seed, row]."""
    return jax.vmap(lambda place: jnp.zeros(spare_place + 1, bool).at[place].set(True))(batch)


def clipped_gradients(
    network: Network, smooth: bool, clipping_norm: Any, parameters: Parameters, rows: jax.Array, labels: jax.Array
) -> Parameters:
    """Return the clipped gradient of each row, leaves [row, ...]: the gradients' sum is linear in the rows' weights."""
    examined = examples(network, parameters, rows, labels)
    factors = (smooth_factors if smooth else flat_factors)(examined.norms, clipping_norm)
    return jax.vmap(examined.weighted_sum)(jnp.diag(factors))


def _along(gradients: Parameters, direction: Parameters) -> jax.Array:
    """Return the products of gradients [row, ...] with a direction."""
    return jax.vmap(partial(dot, direction))(gradients)


def _gram(gradients: Parameters) -> jax.Array:
    """Return the products of gradients [row, ...] with each other [row, row]."""
    return jax.vmap(partial(_along, gradients))(gradients)
