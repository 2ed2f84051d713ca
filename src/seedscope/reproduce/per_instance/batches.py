"""Steps of other update rules: what batches drawn at a stage of training would have done, with and without a point.

A batch's clipped sum S and a point's clipped gradient g enter the theorems through inner products only: with g the
update becomes (S + g)/(n + 1) for the mean rule and (S + g)/L for the sum rule. So the products of K sums among
themselves and with P gradients serve all points, orders and rules. The products with gradients are derivatives of the
points' losses along S: no point's gradient is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

import seedscope as ss
from seedscope.core import BASE
from seedscope.models import Network, Parameters, network_of
from seedscope.reproduce.per_instance.settings import CLIPPING_NORM, DELTA, MODELS, ORDERS, STAGES, Cell, Sweep
from seedscope.training import generator, poisson_batches, poisson_capacity
from seedscope.training.dpsgd import clipped_sum, flat_factors, gradient_norms
from seedscope.training.gradient import initial_parameters, log_loss, structured

Rule = Literal["mean", "sum"]
RULES: tuple[Rule, ...] = ("mean", "sum")
HOLDER = 1e4  # of Corollary 3.1 (GLA B.1)
REFERENCES = 4  # batches of the other data set in high orders' expectation: the rest is for tuples
PART = 32  # images whose layers are held at once


@dataclass(frozen=True, eq=False)
class StageBatches:
    """Inner products at one state of a model: of K batches' clipped sums, and of P points' clipped gradients.

    `among` [K, K], `between` [K, P] and `own` [P] are in units of C²; `sizes` [K] are the batches' true sizes.
    """

    sizes: np.ndarray
    among: np.ndarray
    between: np.ndarray
    own: np.ndarray
    noise_multiplier: float
    sampling_probability: float
    batch_size: int
    tuple_batches: int

    def noise_scale(self, rule: Rule) -> float:
        """Return the noise on an update: an update's worst change is C for the mean rule, C/L for the sum rule."""
        return self.noise_multiplier / (1 if rule == "mean" else self.batch_size)

    def step_rdp(self, rule: Rule, order: int) -> np.ndarray:
        """Return both directions [2, point] of Theorem 3.6: (with‖without), (without‖with)."""
        found = [self._point_rdp(rule, order, point) for point in range(len(self.own))]
        return np.array(found).T

    def rdp_by_order(self, rule: Rule, orders: Sequence[int], points: int) -> np.ndarray:
        """Return the larger direction of Theorem 3.6 [order, point] for the first points, at orders as high as 64.

        All sampled batches are used, tuples of them drawn afresh and by how many have the point (`sampled_step_rdp`).
        """
        everything = np.arange(len(self.sizes))
        found = []
        for point in range(min(points, len(self.own))):
            *sums, gradient = _coordinates(self._gram(everything, point))
            without = self._updates(rule, np.array(sums), self.sizes)
            drawn = self._updates(rule, np.array(sums) + gradient, self.sizes + 1)
            noise, q = self.noise_scale(rule), self.sampling_probability
            both = ss.per_instance.sampled_step_rdp(without, drawn, noise, q, orders, references=REFERENCES, seed=point)
            found.append(both.max(0))
        return np.array(found).T

    def step_epsilon(self, rule: Rule) -> np.ndarray:
        """Return Corollary 3.1 [point] at δ, over the batches that a point may be added to."""
        moved = self.sensitivities() if rule == "mean" else np.sqrt(self.own)[:, None] / self.batch_size
        return ss.per_instance.step_epsilon(
            moved, self.noise_scale(rule), self.sampling_probability, DELTA, holder=HOLDER
        )

    def step_epsilon_worst(self) -> float:
        """Return the data-independent counterpart of `step_epsilon`, the same for both rules."""
        worst = ss.per_instance.step_epsilon_worst(1.0, self.noise_multiplier, self.sampling_probability, DELTA)
        return float(worst)

    def sensitivities(self) -> np.ndarray:
        """Return how far adding each point moves the mean of each batch [point, batch]."""
        n = np.maximum(self.sizes, 1)[:, None]
        # ‖(S + g)/(n + 1) − S/n‖² = ‖n g − S‖²/(n(n + 1))²; an empty batch's mean is 0
        squares = n**2 * self.own - 2 * n * self.between + np.diag(self.among)[:, None]
        moved = np.sqrt(np.maximum(squares, 0.0)) / (n * (n + 1))
        moved_by: np.ndarray = np.where(self.sizes[:, None] > 0, moved, np.sqrt(self.own)).T
        return moved_by

    def _point_rdp(self, rule: Rule, order: int, point: int) -> tuple[float, float]:
        """Return both directions for one point, from batches of its own choice."""
        draw = generator(0, f"batches of {rule}", point)
        chosen = draw.permutation(len(self.sizes))[: 2 * self.tuple_batches]
        drawn = draw.random(len(chosen) // 2) < self.sampling_probability
        sums = _coordinates(self._gram(chosen, point))
        first, second, gradient = sums[: len(drawn)], sums[len(drawn) : -1], sums[-1]
        sizes = self.sizes[chosen]
        updates_with = self._updates(rule, first + drawn[:, None] * gradient, sizes[: len(drawn)] + drawn)
        updates_without = self._updates(rule, second, sizes[len(drawn) :])
        noise, general = self.noise_scale(rule), ss.per_instance.general_step_rdp
        return (
            float(general(updates_with, updates_without, noise, order)),
            float(general(updates_without, updates_with, noise, order)),
        )

    def _updates(self, rule: Rule, sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the updates of sums over batches of this many rows."""
        return sums / (np.maximum(sizes, 1)[:, None] if rule == "mean" else self.batch_size)

    def _gram(self, chosen: np.ndarray, point: int) -> np.ndarray:
        """Return the products of the chosen sums and, last, the point's gradient."""
        beside = self.between[chosen, point]
        return np.block([[self.among[np.ix_(chosen, chosen)], beside[:, None]], [beside[None], self.own[point]]])


def stage_batches(sweep: Sweep, cell: Cell, data: ss.Dataset, ensemble: Any) -> dict[str, StageBatches]:
    """Return the products at each stage of a cell's first run."""
    network = network_of(MODELS[cell.model](), data.features.shape[1:], data.classes)
    rows, labels = data.base.features.astype(np.float32), data.base.labels.astype(np.float32)
    mechanism = ensemble.mechanism
    q = cell.batch_size / len(labels)
    count = max(sweep.batches, ORDERS[-1] + 2 * REFERENCES) if cell == sweep.main else sweep.batches
    index, sizes = _padded_batches(len(labels), q, count, poisson_capacity(cell.batch_size, len(labels)))
    points = data.test.features.astype(np.float32), data.test.labels.astype(np.float32)
    found = {}
    for stage, weights in zip(STAGES, _stage_weights(network, ensemble), strict=True):
        products = _products(network, weights, rows, labels, index, sizes, *points)
        among, between, own = (np.asarray(one, float) / CLIPPING_NORM**2 for one in products)
        found[stage] = StageBatches(
            sizes, among, between, own, mechanism.noise_multiplier, q, cell.batch_size, sweep.tuple_batches
        )
    return found


def _padded_batches(examples: int, q: float, count: int, capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Poisson batches [batch, place], filled up with row 0, and their sizes."""
    drawn, sizes = poisson_batches(1, 0, examples, q, count)
    index = np.zeros((count, max(capacity, sizes.max())), np.int32)
    index[np.arange(index.shape[1]) < sizes[:, None]] = drawn
    return index, sizes


def _stage_weights(network: Network, ensemble: Any) -> list[jax.Array]:
    """Return the first run's weights before training, half-way and after it."""
    root_seed = ensemble.description.grid.root_seed
    start = initial_parameters(network.init, root_seed, np.array([-1], np.int32))
    initial = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(start)])
    later = ensemble.weights.isel(seed=0, init=0).sel(neighbour=BASE).values
    return [initial, *map(jnp.asarray, later)]


@partial(jax.jit, static_argnums=0)
def _products(
    network: Network,
    weights: jax.Array,
    rows: jax.Array,
    labels: jax.Array,
    index: jax.Array,
    sizes: jax.Array,
    *points: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the products of `StageBatches` at flat weights, a part of the images at a time."""
    parameters = jax.tree.map(lambda leaf: leaf[0, 0], structured(network.init, weights[None, None]))
    norms = in_parts(lambda *part: gradient_norms(network, parameters, *part)[0], points)
    factors = flat_factors(norms, CLIPPING_NORM)

    def one_batch(batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        places, size = batch
        total = _clipped_total(network, parameters, rows, labels, places, size)

        def along(*part: jax.Array) -> jax.Array:
            """Return the derivatives of losses in the direction of the batch's sum: ∇ℓ·S."""
            derivatives: jax.Array = jax.jvp(
                lambda p: log_loss(network.apply(p, part[0]), part[1]), (parameters,), (total,)
            )[1]
            return derivatives

        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(total)]), factors * in_parts(along, points)

    sums, between = jax.lax.map(one_batch, (index, sizes))
    return sums @ sums.T, between, (factors * norms) ** 2


def _clipped_total(
    network: Network, parameters: Parameters, rows: jax.Array, labels: jax.Array, places: jax.Array, size: jax.Array
) -> Parameters:
    """Return the sum of clipped gradients over the first `size` of the places, part by part."""
    present = (jnp.arange(len(places)) < size).astype(rows.dtype)
    width = min(PART, len(places))
    room = -len(places) % width
    parts = [jnp.pad(one, (0, room)).reshape(-1, width) for one in (places, present)]

    def add(total: Parameters, part: Sequence[jax.Array]) -> tuple[Parameters, None]:
        chosen, weights = part
        more = clipped_sum(network, parameters, rows[chosen], labels[chosen], weights, CLIPPING_NORM)
        return jax.tree.map(jnp.add, total, more), None

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, parameters), parts)[0]


def in_parts(function: Any, arrays: tuple[jax.Array, ...]) -> jax.Array:
    """Return a function of rows [row, ...] → [row], evaluated on a part of the rows at a time."""
    found: jax.Array = jax.lax.map(lambda one: function(*(array[None] for array in one))[0], arrays, batch_size=PART)
    return found


def _coordinates(gram: np.ndarray) -> np.ndarray:
    """Return vectors [vector, coordinate] with these inner products."""
    values, axes = np.linalg.eigh(gram)
    coordinates: np.ndarray = axes * np.sqrt(np.maximum(values, 0.0))
    return coordinates
