"""People's privacy losses of DP-SGD, summed up while it trains.

Whoever sees every noisy sum and knows the others' batches knows, at a step, `y = ξ + B g`: the noise that was drawn,
and the clipped gradient g of the person if they were in the batch (B). With the person y is
`(1−q)N(0, σ²) + qN(g, σ²)`, without `N(0, σ²)`, so the step adds
`ln(1 − q + q·exp((⟨y, g⟩ − ‖g‖²/2)/σ²))`. For everybody watched `⟨ξ, g⟩` is one derivative of their losses along ξ; for
logistic regression one matrix product. Momentum and schedules only see the noisy sums: they change nothing. Only the
sum over steps is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from seedscope.models import Network, Parameters
from seedscope.training.dpsgd.per_example import examples, flat_factors, has_one_unit, layers_of, smooth_factors
from seedscope.training.gradient import log_loss

LARGE = 30.0  # an exponent from which on 1 − q + q·e^z is q·e^z


class Pulls(NamedTuple):
    """Of clipped gradients g [..., person]: their products with standard normals ⟨n, g⟩, and ‖g‖²."""

    products: jax.Array
    squares: jax.Array


@dataclass(frozen=True, eq=False)
class LossRecorder:
    """Adds up the privacy losses [seed, model, person] of people: rows of the training data, and blocks of them."""

    network: Network
    smooth: bool
    one_by_one: bool
    rate: Any  # the chance of a row to be in a batch
    places: jax.Array  # [person]
    blocks: tuple[jax.Array, jax.Array]  # rows [block, person, ...] and labels, the last filled up

    def empty(self, parameters: Parameters) -> jax.Array:
        """Return losses of 0."""
        leaf = jax.tree.leaves(parameters)[0]
        return jnp.zeros((*leaf.shape[:2], len(self.places)), leaf.dtype)

    def add(
        self,
        losses: jax.Array,
        parameters: Parameters,
        normals: Parameters,
        batch: jax.Array,
        neighbours: jax.Array,
        spare: int,
        clipping_norm: Any,
        noise_scale: Any,
    ) -> jax.Array:
        """Return the losses after a step: its normals [seed, ...] and batches [seed, place], padded with the spare."""
        pulls = self._pulls(parameters, normals, clipping_norm)
        squares = pulls.squares / noise_scale**2
        drawn = jax.vmap(lambda one: jnp.zeros(spare + 1, bool).at[one].set(True)[self.places])(batch)
        inside = drawn[:, None] & (self.places != neighbours[:, None])
        exponents = pulls.products / noise_scale + jnp.where(inside, squares, 0.0) - squares / 2
        return losses + _log_mixture(exponents, self.rate)

    def _pulls(self, parameters: Parameters, normals: Parameters, clipping_norm: Any) -> Pulls:
        """Return everybody's pulls [seed, model, person], block of people by block."""
        over: Callable[..., Any] = _in_turn if self.one_by_one else jax.vmap
        unit = has_one_unit(jax.tree.map(lambda leaf: leaf[0, 0], parameters))
        of_model = partial(_unit_pulls if unit else _network_pulls, self.network, self.smooth, clipping_norm)

        def block(people: tuple[jax.Array, jax.Array]) -> Pulls:
            def of_seed(pair: tuple[Parameters, Parameters]) -> Pulls:
                own, draws = pair
                found: Pulls = over(lambda one: of_model(people, draws, one))(own)
                return found

            found: Pulls = over(of_seed)((parameters, normals))
            return found

        found = jax.lax.map(block, self.blocks)
        products, squares = (jnp.moveaxis(one, 0, 2).reshape(*one.shape[1:3], -1) for one in found)
        return Pulls(products[..., : len(self.places)], squares[..., : len(self.places)])


def _network_pulls(
    network: Network,
    smooth: bool,
    clipping_norm: Any,
    people: tuple[jax.Array, jax.Array],
    normals: Parameters,
    parameters: Parameters,
) -> Pulls:
    """Return people's pulls at one model: their gradients' norms, and one derivative of their losses."""
    rows, labels = people
    norms = examples(network, parameters, rows, labels).norms

    def losses_at(where: Parameters) -> jax.Array:
        return log_loss(network.apply(where, rows), labels)

    _, along = jax.jvp(losses_at, (parameters,), (normals,))
    factors = (smooth_factors if smooth else flat_factors)(norms, clipping_norm)
    return Pulls(factors * along, (factors * norms) ** 2)


def _unit_pulls(
    network: Network,
    smooth: bool,
    clipping_norm: Any,
    people: tuple[jax.Array, jax.Array],
    normals: Parameters,
    parameters: Parameters,
) -> Pulls:
    """Return people's pulls at one logistic regression, whose gradients are δ·(a, 1): by two products."""
    rows, labels = people[0].reshape(len(people[0]), -1), people[1]
    logits, along = _unit_logits(parameters, rows), _unit_logits(normals, rows)
    slopes = jax.nn.sigmoid(logits) - labels
    lengths = jnp.sqrt(jnp.sum(rows * rows, axis=1) + 1)
    norms = jnp.abs(slopes) * lengths
    slopes = slopes * (smooth_factors if smooth else flat_factors)(norms, clipping_norm)
    return Pulls(slopes * along, (slopes * lengths) ** 2)


def _unit_logits(parameters: Parameters, rows: jax.Array) -> jax.Array:
    """Return what the one layer of a logistic regression makes of rows."""
    layer = layers_of(parameters)[0][0]
    logits: jax.Array = rows @ layer.weight.ravel() + layer.bias
    return logits


def _log_mixture(exponents: jax.Array, rate: Any) -> jax.Array:
    """Return ln(1 − q + q·e^z)."""
    small = jnp.log1p(rate * jnp.expm1(jnp.minimum(exponents, LARGE)))
    return jnp.where(exponents > LARGE, jnp.log(rate) + exponents, small)


def _in_turn(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function over the first axis of its argument, like `jax.vmap`, but one at a time."""
    return lambda values: jax.lax.map(function, values)
