"""How strongly each example's clipped gradient reacts to the example itself, measured while DP-SGD trains.

The Fisher information of a noisy step about an example z has the trace `‖∂g̃/∂z‖_F²/(σC)²`, g̃ the smoothly clipped
gradient. For v of random signs `E‖(∂g̃/∂z) v‖² = ‖∂g̃/∂z‖_F²`, and one such direction needs one pass forward over the
backward pass that training does anyway. With ġ the derivative along v of the gradient g, layer by layer

    g = δ aᵀ,  ġ = δ̇ aᵀ + δ ȧᵀ     the same form over twice the positions: its norm comes from the same formulas
    g̃ = s·g,   s = 1/(GELU(‖g‖/C − 1) + 1),  ṡ = s'(‖g‖)·(g·ġ)/‖g‖
    ‖(g̃)˙‖² = s²‖ġ‖² + 2sṡ(g·ġ) + ṡ²‖g‖²

so no example's gradient is held (BR Equation 5, with signs instead of coordinates).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from seedscope.models import Network, Parameters, PooledConvolution, ScaleAndShift
from seedscope.training.dpsgd.per_example import (
    Examples,
    Layer,
    Passes,
    as_matrices,
    examples,
    from_passes,
    ghost_is_cheaper,
    layer_passes,
    layers_of,
    output_shapes,
    smooth_factors,
    squared_norms,
    units,
)
from seedscope.training.gradient import log_loss


class Reaction(NamedTuple):
    """Per example: the gradient g, and of its derivative ġ along the example's direction g·ġ and ‖ġ‖²."""

    passed: Examples
    products: jax.Array
    squares: jax.Array


def smoothly_clipped_sum(
    network: Network,
    parameters: Parameters,
    rows: jax.Array,
    labels: jax.Array,
    weights: jax.Array,
    clipping_norm: float,
    directions: jax.Array,
) -> tuple[Any, jax.Array]:
    """Return Σ_b weight_b·g̃_b, and ‖(∂g̃_b/∂z_b) v_b‖² [example] for the directions v [example, ...]."""
    reacted = reactions(network, parameters, rows, labels, directions)
    norms = reacted.passed.norms
    factors, slopes = jax.jvp(lambda n: smooth_factors(n, clipping_norm), (norms,), (jnp.ones_like(norms),))
    bends = slopes * reacted.products / jnp.maximum(norms, jnp.finfo(norms.dtype).tiny)
    reaction = factors**2 * reacted.squares + 2 * factors * bends * reacted.products + (bends * norms) ** 2
    return reacted.passed.weighted_sum(weights * factors), jnp.maximum(reaction, 0.0)


def reactions(
    network: Network, parameters: Parameters, rows: jax.Array, labels: jax.Array, directions: jax.Array
) -> Reaction:
    """Return how each example's gradient changes as the example moves along its direction."""
    shapes = output_shapes(network, parameters, rows[0])
    if shapes is None:
        return _materialised_reactions(network, parameters, rows, labels, directions)

    def passes(rows: jax.Array) -> Passes:
        return layer_passes(network, parameters, rows, labels, shapes)

    passed, changes = jax.jvp(passes, (rows,), (directions,))
    layers, _ = layers_of(parameters)
    pairs = zip(layers, passed.inputs, passed.deltas, changes.inputs, changes.deltas, strict=True)
    products, squares = (sum(parts) for parts in zip(*[_layer_change(*pair) for pair in pairs], strict=True))
    return Reaction(from_passes(parameters, passed), products, squares)


def _layer_change(
    layer: Layer, lifted: jax.Array, delta: jax.Array, lifted_change: jax.Array, delta_change: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return a layer's parts in g·ġ and ‖ġ‖² of every example.

    The gradient g itself is written as `layer_gradient` has it: the compiler computes it once.
    """
    if isinstance(layer, ScaleAndShift):
        positions = tuple(range(1, lifted.ndim - 1))
        scale_change = jnp.sum(lifted_change * delta + lifted * delta_change, positions)
        return _added(
            _with_itself(jnp.sum(lifted * delta, positions), scale_change),
            _with_itself(jnp.sum(delta, positions), jnp.sum(delta_change, positions)),
        )
    if isinstance(layer, eqx.nn.Linear):
        return _dense_change(layer, *map(units, (lifted, lifted_change, delta, delta_change)))
    if isinstance(layer, PooledConvolution):
        change = layer.gradients(lifted, delta_change) + layer.gradients(lifted_change, delta)
        weight = _with_itself(layer.gradients(lifted, delta), change)
        return _added(weight, _with_itself(layer.bias_gradients(delta), layer.bias_gradients(delta_change)))
    a, d = as_matrices(lifted, delta)
    a_change, d_change = as_matrices(lifted_change, delta_change)
    weight = _matrix_change(a, d, a_change, d_change)
    return weight if layer.bias is None else _added(weight, _with_itself(d.sum(1), d_change.sum(1)))


def _with_itself(gradients: jax.Array, changes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return g·ġ and ‖ġ‖² of every example from g and ġ [example, ...]."""
    flat, change = (values.reshape(len(values), -1) for values in (gradients, changes))
    return jnp.einsum("bi,bi->b", flat, change), squared_norms(change)


def _added(one: tuple[jax.Array, jax.Array], other: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Return the parts of two arrays of a layer together."""
    return one[0] + other[0], one[1] + other[1]


def _matrix_change(a: jax.Array, d: jax.Array, a_change: jax.Array, d_change: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the parts of a weight matrix [output, input], whose gradient is Σ over positions of δ aᵀ."""
    if ghost_is_cheaper(a, d):
        inputs, outputs = (_position_products(*pair) for pair in ((a, a_change), (d, d_change)))
        products = inputs.own * outputs.mixed + inputs.mixed * outputs.own
        squares = inputs.own * outputs.changed + inputs.changed * outputs.own
        crossed = inputs.mixed * jnp.swapaxes(outputs.mixed, 1, 2)
        return products.sum((1, 2)), (squares + 2 * crossed).sum((1, 2))
    both = jnp.einsum("bpo,bpi->boi", jnp.concatenate([d_change, d], 1), jnp.concatenate([a, a_change], 1))
    return _with_itself(jnp.einsum("bpo,bpi->boi", d, a), both)


class _PositionProducts(NamedTuple):
    """Inner products [example, position, position] of values x and their changes ẋ: x·x, x·ẋ and ẋ·ẋ."""

    own: jax.Array
    mixed: jax.Array
    changed: jax.Array


def _position_products(values: jax.Array, changes: jax.Array) -> _PositionProducts:
    """Return the inner products of positions, from values and changes [example, position, number]."""
    pairs = (values, values), (values, changes), (changes, changes)
    return _PositionProducts(*[jnp.einsum("bpi,bqi->bpq", one, other) for one, other in pairs])


def _dense_change(
    layer: eqx.nn.Linear, a: jax.Array, a_change: jax.Array, d: jax.Array, d_change: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return a dense layer's parts, ġ = δ̇ aᵀ + δ ȧᵀ (and δ̇ for the bias), all arrays [unit, example]."""
    own, mixed, changed = (jnp.sum(one * other, 0) for one, other in ((a, a), (a, a_change), (a_change, a_change)))
    own = own + (layer.bias is not None)
    slopes, bends, curves = (jnp.sum(one * other, 0) for one, other in ((d, d), (d, d_change), (d_change, d_change)))
    return slopes * mixed + bends * own, curves * own + 2 * bends * mixed + slopes * changed


def step_information(
    network: Network,
    parameters: Parameters,
    rows: jax.Array,
    labels: jax.Array,
    clipping_norm: float,
    noise_scale: float,
) -> jax.Array:
    """Return the whole Fisher information of one noisy step about each example, [example, coordinate, coordinate].

    For a few examples of a small network: it holds a Jacobian [parameter, coordinate] for each (BR Equation 1, with
    1/(σC)², where `noise_scale` is σC).
    """

    def one(row: jax.Array, label: jax.Array) -> jax.Array:
        jacobian = jax.jacrev(lambda z: clipped_gradient(network, parameters, z, label, clipping_norm))(row)
        flat = jacobian.reshape(len(jacobian), -1) / noise_scale
        information: jax.Array = flat.T @ flat
        return information

    information: jax.Array = jax.lax.map(lambda pair: one(*pair), (rows, labels))
    return information


def step_spectral_norms(
    network: Network,
    parameters: Parameters,
    rows: jax.Array,
    labels: jax.Array,
    clipping_norm: float,
    noise_scale: float,
    key: jax.Array,
    iterations: int = 50,
) -> jax.Array:
    """Return the largest eigenvalue of one noisy step's Fisher information about each example, by power iteration.

    Only products with the Jacobian and its transpose are taken. The value approaches the eigenvalue from below: it says
    in which combination of coordinates an example leaks most, and is not a bound (BR §6.2).
    """

    def one(row: jax.Array, label: jax.Array, start: jax.Array) -> jax.Array:
        gradient = partial(clipped_gradient, network, parameters, label=label, clipping_norm=clipping_norm)
        _, pull = jax.vjp(gradient, row)

        def turned(_: Any, v: jax.Array) -> jax.Array:
            (back,) = pull(jax.jvp(gradient, (row,), (v,))[1])
            unit: jax.Array = back / jnp.maximum(jnp.linalg.norm(back), jnp.finfo(back.dtype).tiny)
            return unit

        v = jax.lax.fori_loop(0, iterations, turned, start / jnp.linalg.norm(start))
        change = jax.jvp(gradient, (row,), (v,))[1] / noise_scale
        square: jax.Array = change @ change
        return square

    starts = jax.random.normal(key, rows.shape, rows.dtype)
    norms: jax.Array = jax.lax.map(lambda parts: one(*parts), (rows, labels, starts))
    return norms


def clipped_gradient(
    network: Network, parameters: Parameters, row: jax.Array, label: jax.Array, clipping_norm: float
) -> jax.Array:
    """Return one example's smoothly clipped gradient as a vector."""
    gradient = jax.grad(lambda p: log_loss(network.apply(p, row[None]), jnp.asarray(label)[None])[0])(parameters)
    flat = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(gradient)])
    return flat * smooth_factors(jnp.linalg.norm(flat), clipping_norm)


def _materialised_reactions(
    network: Network, parameters: Parameters, rows: jax.Array, labels: jax.Array, directions: jax.Array
) -> Reaction:
    """Return the same for any network, from gradients held one by one."""

    def loss(parameters: Parameters, row: jax.Array, label: jax.Array) -> jax.Array:
        return log_loss(network.apply(parameters, row[None]), label[None])[0]

    def gradients(rows: jax.Array) -> jax.Array:
        each = jax.vmap(jax.grad(loss), (None, 0, 0))(parameters, rows, labels)
        return jnp.concatenate([leaf.reshape(len(rows), -1) for leaf in jax.tree.leaves(each)], axis=1)

    g, change = jax.jvp(gradients, (rows,), (directions,))
    passed = examples(network, parameters, rows, labels)
    return Reaction(passed, jnp.einsum("bi,bi->b", g, change), squared_norms(change))
