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

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from seedscope.models import Network, ScaleAndShift
from seedscope.per_example import (
    Examples,
    Layer,
    Passes,
    examples,
    from_passes,
    layer_gradient,
    layer_passes,
    layers_of,
    matrix_gradient,
    output_shapes,
    smooth_factors,
    squared_norms,
)
from seedscope.training import log_loss


class Reaction(NamedTuple):
    """Per example: the gradient g, and of its derivative ġ along the example's direction g·ġ and ‖ġ‖²."""

    passed: Examples
    products: jax.Array
    squares: jax.Array


def smoothly_clipped_sum(
    network: Network,
    parameters: Any,
    rows: jax.Array,
    labels: jax.Array,
    weights: jax.Array,
    clipping_norm: float,
    directions: jax.Array,
) -> tuple[Any, jax.Array]:
    """Return Σ_b weight_b·g̃_b, and ‖(∂g̃_b/∂z_b) v_b‖² [example] for the directions v [example, ...]."""
    found = reactions(network, parameters, rows, labels, directions)
    norms = found.passed.norms
    factors, slopes = jax.jvp(lambda n: smooth_factors(n, clipping_norm), (norms,), (jnp.ones_like(norms),))
    bends = slopes * found.products / jnp.maximum(norms, jnp.finfo(norms.dtype).tiny)
    reaction = factors**2 * found.squares + 2 * factors * bends * found.products + (bends * norms) ** 2
    return found.passed.weighted_sum(weights * factors), jnp.maximum(reaction, 0.0)


def reactions(network: Network, parameters: Any, rows: jax.Array, labels: jax.Array, directions: jax.Array) -> Reaction:
    """Return how each example's gradient changes as the example moves along its direction."""
    shapes = output_shapes(network, parameters, rows[0])
    if shapes is None:
        return _materialised_reactions(network, parameters, rows, labels, directions)
    layers, _ = layers_of(parameters)

    def passes(rows: jax.Array) -> tuple[Passes, jax.Array]:
        found = layer_passes(network, parameters, rows, labels, shapes)
        parts = zip(layers, found.inputs, found.deltas, strict=True)
        return found, jnp.sum(jnp.stack([layer_gradient(*one).squares for one in parts]), 0)

    (found, _), (changes, slopes) = jax.jvp(passes, (rows,), (directions,))
    pairs = zip(layers, found.inputs, found.deltas, changes.inputs, changes.deltas, strict=True)
    squares = jnp.sum(jnp.stack([_change_squares(*one) for one in pairs]), 0)
    return Reaction(from_passes(parameters, found), slopes / 2, squares)  # ‖g‖² changes by 2 g·ġ


def _change_squares(
    layer: Layer, lifted: jax.Array, delta: jax.Array, lifted_change: jax.Array, delta_change: jax.Array
) -> jax.Array:
    """Return a layer's part in ‖ġ‖² of every example."""
    if isinstance(layer, ScaleAndShift):
        positions = tuple(range(1, lifted.ndim - 1))
        scale = jnp.sum(lifted_change * delta + lifted * delta_change, positions)
        return squared_norms(scale) + squared_norms(jnp.sum(delta_change, positions))
    inputs, outputs = (len(lifted), -1, lifted.shape[-1]), (len(lifted), -1, layer.weight.shape[0])
    a, a_change = lifted.reshape(inputs), lifted_change.reshape(inputs)
    d, d_change = delta.reshape(outputs), delta_change.reshape(outputs)
    weight = matrix_gradient(jnp.concatenate([a, a_change], 1), jnp.concatenate([d_change, d], 1)).squares
    return weight if layer.bias is None else weight + squared_norms(d_change.sum(1))


def _materialised_reactions(
    network: Network, parameters: Any, rows: jax.Array, labels: jax.Array, directions: jax.Array
) -> Reaction:
    """Return the same for any network, from gradients held one by one."""

    def loss(parameters: Any, row: jax.Array, label: jax.Array) -> jax.Array:
        return log_loss(network.apply(parameters, row[None]), label[None])[0]

    def gradients(rows: jax.Array) -> jax.Array:
        each = jax.vmap(jax.grad(loss), (None, 0, 0))(parameters, rows, labels)
        return jnp.concatenate([leaf.reshape(len(rows), -1) for leaf in jax.tree.leaves(each)], axis=1)

    g, change = jax.jvp(gradients, (rows,), (directions,))
    passed = examples(network, parameters, rows, labels)
    return Reaction(passed, jnp.einsum("bi,bi->b", g, change), squared_norms(change))
