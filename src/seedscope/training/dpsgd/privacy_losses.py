"""People's privacy losses of DP-SGD, summed up while it trains.

Whoever sees every noisy sum and knows the others' batches knows, at a step, `y = ξ + B g`: the noise that was drawn,
and the clipped gradient g of the person if they were in the batch (B). With the person y is
`(1−q)N(0, σ²) + qN(g, σ²)`, without `N(0, σ²)`, so the step adds
`ln(1 − q + q·exp((⟨y, g⟩ − ‖g‖²/2)/σ²))`. With another in their place, whose gradient is h, it is `(1−q)N(0, σ²) +
qN(h, σ²)` without them, and the same of h is taken off, `⟨y, h⟩ = ⟨ξ, h⟩ + B⟨g, h⟩`. For everybody watched `⟨ξ, g⟩`
and `⟨g, h⟩` follow from the passes that give the norms ‖g‖; for logistic regression they are products of matrices
(`unit_losses`). Momentum and schedules only see the noisy sums: they change nothing. Only the sum over steps is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from seedscope.models import Network, Parameters
from seedscope.training.dpsgd.elementary import exponential, logarithm
from seedscope.training.dpsgd.per_example import clipped_sum, examples, flat_factors, smooth_factors

LARGE = 60.0  # an exponent from which on 1 − q + q·e^z is q·e^z in single precision


class Spare(NamedTuple):
    """Who stands in for a person: a row and its label."""

    row: jax.Array
    label: jax.Array


class Scales(NamedTuple):
    """The mechanism's numbers: what gradients are clipped to, and the noise's standard deviation."""

    clipping_norm: Any
    noise_scale: Any


class Pulls(NamedTuple):
    """Of clipped gradients g [..., person]: products with standard normals ⟨n, g⟩, ‖g‖², and with a stand-in ⟨g, h⟩."""

    products: jax.Array
    squares: jax.Array
    shared: Any = ()


class LossRecorder(ABC):
    """Adds up the privacy losses of people, rows of the training data."""

    @abstractmethod
    def empty(self, parameters: Parameters) -> Any:
        """Return losses of 0, in the recorder's own layout."""

    @abstractmethod
    def add(
        self, losses: Any, parameters: Parameters, normals: Parameters, batch: jax.Array, neighbours: jax.Array,
        scales: Scales,
    ) -> Any:  # fmt: skip
        """Return the losses after a step: its normals [seed, ...] and batches [seed, place], padded with the spare."""

    @abstractmethod
    def finished(self, losses: Any, parameters: Parameters) -> jax.Array:
        """Return the losses [seed, model, person]."""


@dataclass(frozen=True, eq=False)
class NetworkLosses(LossRecorder):
    """Adds up losses [seed, model, person] of any network, block of people by block."""

    network: Network
    smooth: bool
    one_by_one: bool
    rate: float  # the chance of a row to be in a batch
    spare_place: int  # of the row with which batches are padded
    places: jax.Array  # [person]
    blocks: tuple[jax.Array, jax.Array]  # rows [block, person, ...] and labels, the last filled up
    spare: Spare | None

    def empty(self, parameters: Parameters) -> jax.Array:
        leaf = jax.tree.leaves(parameters)[0]
        return jnp.zeros((*leaf.shape[:2], len(self.places)), leaf.dtype)

    def add(
        self, losses: jax.Array, parameters: Parameters, normals: Parameters, batch: jax.Array, neighbours: jax.Array,
        scales: Scales,
    ) -> jax.Array:  # fmt: skip
        over: Callable[..., Any] = in_turn if self.one_by_one else jax.vmap
        drawn = jax.vmap(lambda places: jnp.zeros(self.spare_place + 1, bool).at[places].set(True)[self.places])(batch)
        inside = drawn[:, None] & (self.places != neighbours[:, None])

        def of_seed(seed: tuple[Parameters, Parameters, jax.Array]) -> jax.Array:
            own, draws, present = seed
            pulls: jax.Array = over(lambda pair: self._step(pair[0], draws, pair[1], scales))((own, present))
            return pulls

        step: jax.Array = over(of_seed)((parameters, normals, inside))
        return losses + step

    def finished(self, losses: jax.Array, parameters: Parameters) -> jax.Array:
        return losses

    def _step(self, parameters: Parameters, normals: Parameters, inside: jax.Array, scales: Scales) -> jax.Array:
        """Return a step's losses [person] of one model."""
        C, sigma = scales
        instead = None if self.spare is None else self._clipped(parameters, C)
        pulls = self._pulls(parameters, normals, instead, C)
        own = step_losses(pulls.products / sigma, pulls.squares / sigma**2, inside, self.rate)
        if instead is None:
            return own
        product, square = dot(normals, instead) / sigma, dot(instead, instead) / sigma**2
        return own - replaced_losses(product, square, pulls.shared / sigma**2, inside, self.rate)

    def _clipped(self, parameters: Parameters, clipping_norm: Any) -> Parameters:
        """Return the clipped gradient of who stands in."""
        assert self.spare is not None
        row, label = self.spare.row[None], self.spare.label[None]
        ones = jnp.ones(1, row.dtype)
        return clipped_sum(self.network, parameters, row, label, ones, clipping_norm, self.smooth)

    def _pulls(self, parameters: Parameters, normals: Parameters, instead: Any, clipping_norm: Any) -> Pulls:
        """Return everybody's pulls [person] at one model."""
        of_block = partial(network_pulls, self.network, self.smooth, clipping_norm, normals, parameters, instead)
        pulls = jax.lax.map(of_block, self.blocks)
        return Pulls(*jax.tree.map(lambda leaf: leaf.reshape(-1)[: len(self.places)], pulls))


def network_pulls(
    network: Network, smooth: bool, clipping_norm: Any, normals: Parameters, parameters: Parameters,
    instead: Parameters | None, people: tuple[jax.Array, jax.Array],
) -> Pulls:  # fmt: skip
    """Return people's pulls at one model, from the passes that give their gradients' norms.

    The gradients' sum Σ w_i g_i is linear in w, so its transpose makes of a direction n the products ⟨n, g_i⟩.
    """
    examined = examples(network, parameters, *people)
    factors = (smooth_factors if smooth else flat_factors)(examined.norms, clipping_norm)
    _, along = jax.vjp(examined.weighted_sum, jnp.ones_like(examined.norms))
    shared = () if instead is None else factors * along(instead)[0]
    return Pulls(factors * along(normals)[0], (factors * examined.norms) ** 2, shared)


def step_losses(products: jax.Array, squares: jax.Array, inside: jax.Array, rate: Any) -> jax.Array:
    """Return ln(1 − q + q·e^z), `z = ⟨n, g⟩ + (B − ½)‖g‖²`, g in the noise's standard deviations."""
    return log_mixture(products + jnp.where(inside, 0.5, -0.5) * squares, rate)


def replaced_losses(
    products: jax.Array, squares: jax.Array, shared: jax.Array, inside: jax.Array, rate: Any
) -> jax.Array:
    """Return ln(1 − q + q·e^z), `z = ⟨n, h⟩ + B⟨g, h⟩ − ½‖h‖²`, h the stand-in's gradient."""
    return log_mixture(products - squares / 2 + jnp.where(inside, shared, 0.0), rate)


def log_mixture(exponents: jax.Array, rate: float) -> jax.Array:
    """Return ln(1 − q + q·e^z); each rounding is below 2e-7, of losses that are summed up over steps."""
    if rate == 1:  # then the smallest e^z is no number that a logarithm could be taken of
        return exponents
    beyond = jnp.maximum(exponents - LARGE, 0.0)  # NaN where an exponent is: training that diverged has no loss
    return logarithm((1 - rate) + rate * exponential(exponents - beyond)) + beyond


def dot(first: Parameters, second: Parameters) -> jax.Array:
    """Return the product of two pytrees."""
    products = jax.tree.map(lambda a, b: jnp.sum(a * b), first, second)
    return jnp.sum(jnp.stack(jax.tree.leaves(products)))


def in_turn(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function over the first axis of its argument, like `jax.vmap`, but one at a time."""
    return lambda values: jax.lax.map(function, values)
