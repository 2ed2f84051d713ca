"""Each example's own gradient: its norm, and the weighted sum of all after clipping, without holding them all.

Differentiating the losses with respect to a zero offset added to a layer's output gives, in one backward pass, the
derivative δ that reaches that layer for every example. An example's gradient follows from δ and the layer's input a:

    dense                 δ aᵀ, of squared norm ‖δ‖²‖a‖² (+ ‖δ‖² for the bias); the clipped sum is one matrix product
    convolution (patches) Σ_p δ_p a_pᵀ over positions p; its norm from the products of positions ("ghost" norm) or from
                          the example's gradient itself, whichever is cheaper; with pooling always from the gradient
    scale and shift       Σ_p δ_p a_p and Σ_p δ_p, small enough to hold

So clipping costs about what plain gradients cost. Networks made of other layers, or given as plain functions, get
per-example gradients by `vmap`: correct, and many times slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from seedscope.models import Network, Parameters, PatchConvolution, PooledConvolution, ScaleAndShift
from seedscope.training.gradient import careful_log_loss, log_loss

LAYERS = (eqx.nn.Linear, PatchConvolution, PooledConvolution, ScaleAndShift)
Layer = eqx.nn.Linear | PatchConvolution | PooledConvolution | ScaleAndShift
AnyLayer = TypeVar("AnyLayer", bound=Layer)
Loss = Callable[[jax.Array, jax.Array], jax.Array]


class Examples(NamedTuple):
    """What one pass over examples gives: gradient norms, logits, and the gradients' sum for given weights [example]."""

    norms: jax.Array
    logits: jax.Array
    weighted_sum: Callable[[jax.Array], Any]


def clipped_sum(
    network: Network,
    parameters: Parameters,
    rows: jax.Array,
    labels: jax.Array,
    weights: jax.Array,
    clipping_norm: float,
    smooth: bool = False,
    known: jax.Array | None = None,
) -> Any:
    """Return Σ_b weight_b · clip(g_b), a pytree like the parameters; clip shortens a gradient to the clipping norm.

    known: of the same rows, what `known_of_rows` gives.
    """
    if known is not None and not smooth and has_one_unit(parameters):
        return _clipped_unit_sum(network, parameters, rows, labels, weights, clipping_norm * known)
    passed = examples(network, parameters, rows, labels, known)
    factors = smooth_factors if smooth else flat_factors
    return passed.weighted_sum(weights * factors(passed.norms, clipping_norm))


def known_of_rows(network: Network, rows: jax.Array, smooth: bool = False) -> jax.Array | None:
    """Return what clipping can know of rows before training, where the network takes rows as they are.

    Of networks with one unit, whose gradients are δ (a, 1), it is 1/‖(a, 1)‖; of others ‖a‖².
    """
    if not network.takes_rows:
        return None
    squares = squared_norms(rows.reshape(len(rows), -1))
    parameters = jax.eval_shape(network.init, jax.random.key(0))
    return squares if smooth or not has_one_unit(parameters) else jax.lax.rsqrt(squares + 1)


def has_one_unit(parameters: Parameters) -> bool:
    """Whether a network is one dense layer with one output and a bias, as binary logistic regression is."""
    layers, _ = layers_of(parameters)
    dense = len(layers) == 1 and isinstance(layers[0], eqx.nn.Linear)
    return dense and layers[0].bias is not None and layers[0].bias.size == 1


def _clipped_unit_sum(
    network: Network, parameters: Parameters, rows: jax.Array, labels: jax.Array, weights: jax.Array, bounds: jax.Array
) -> Any:
    """Return `clipped_sum` of a network with one unit by clipping δ itself to the bounds [example].

    All models of a data set have the same bounds; else each would need a root and a quotient for every example.
    """
    (layer,), structure = layers_of(parameters)
    shapes = output_shapes(network, parameters, rows[0])
    passes = layer_passes(network, parameters, rows, labels, shapes)  # type: ignore[arg-type]  # a dense layer has them
    gradient = layer_gradient(layer, passes.inputs[0], clipped_slopes(passes.deltas[0], bounds))
    return jax.tree.unflatten(structure, [gradient.sum(weights)])


def clipped_slopes(slopes: jax.Array, bounds: jax.Array) -> jax.Array:
    """Return derivatives δ of networks with one unit, clipped to C/‖(a, 1)‖: then gradients δ (a, 1) are to C."""
    return jnp.clip(slopes, -bounds, bounds)


def flat_factors(norms: jax.Array, clipping_norm: float) -> jax.Array:
    """Return what shortens gradients of these norms to the clipping norm C: min(1, C/‖g‖)."""
    return jnp.minimum(1.0, clipping_norm / norms)


def smooth_factors(norms: jax.Array, clipping_norm: float) -> jax.Array:
    """Return 1/(GELU(‖g‖/C − 1) + 1), differentiable: norms stay below 1.1153·C (BR §6.2)."""
    return 1 / (jax.nn.gelu(norms / clipping_norm - 1, approximate=False) + 1)


def gradient_norms(
    network: Network, parameters: Parameters, rows: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return each example's gradient norm, and whether it is classified correctly."""
    passed = examples(network, parameters, rows, labels, loss=careful_log_loss)
    binary = passed.logits.ndim == 1
    predicted = passed.logits > 0 if binary else passed.logits.argmax(-1)
    return passed.norms, predicted == labels.astype(int)


def examples(
    network: Network,
    parameters: Parameters,
    rows: jax.Array,
    labels: jax.Array,
    row_squares: jax.Array | None = None,
    loss: Loss = log_loss,
) -> Examples:
    """Return the per-example gradients of a batch in the form that the network's layers allow."""
    shapes = output_shapes(network, parameters, rows[0])
    if shapes is None:
        return _materialised(network, parameters, rows, labels, loss)
    return from_passes(parameters, layer_passes(network, parameters, rows, labels, shapes, loss), row_squares)


class Passes(NamedTuple):
    """Of every example: each layer's lifted input, the derivative δ of the loss by its output, and the logits.

    Examples are the first axis, but with dense layers the last: their units are often too few for vector registers.
    """

    inputs: list[jax.Array]
    deltas: list[jax.Array]
    logits: jax.Array


def layer_passes(
    network: Network,
    parameters: Parameters,
    rows: jax.Array,
    labels: jax.Array,
    shapes: list[jax.ShapeDtypeStruct],
    loss: Loss = log_loss,
) -> Passes:
    """Return what one forward and one backward pass over examples give; shapes are those of `output_shapes`."""

    axes = [-1 if isinstance(layer, eqx.nn.Linear) else 0 for layer in layers_of(parameters)[0]]

    def one_example(row: jax.Array, offsets: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
        logits, calls = _call_recorded(network, parameters, row, offsets)
        return logits, [lifted for lifted, _ in calls]

    def losses_of(offsets: list[jax.Array]) -> tuple[jax.Array, tuple[jax.Array, list[jax.Array]]]:
        logits, inputs = jax.vmap(one_example, (0, axes), (0, axes))(rows, offsets)
        return loss(logits, labels).sum(), (logits, inputs)

    offsets = [jnp.zeros((*shape.shape, len(rows)), shape.dtype) for shape in shapes]
    offsets = [offset if axis else jnp.moveaxis(offset, -1, 0) for offset, axis in zip(offsets, axes, strict=True)]
    deltas, (logits, inputs) = jax.grad(losses_of, has_aux=True)(offsets)
    return Passes(inputs, deltas, logits)


def from_passes(parameters: Parameters, passes: Passes, row_squares: jax.Array | None = None) -> Examples:
    """Return the per-example gradients that follow from the passes; row_squares: of the first layer's inputs."""
    layers, structure = layers_of(parameters)
    known = [row_squares, *[None] * (len(layers) - 1)]
    parts = [layer_gradient(*layer) for layer in zip(layers, passes.inputs, passes.deltas, known, strict=True)]
    norms = jnp.sqrt(sum(part.squares for part in parts))

    def weighted(weights: jax.Array) -> Any:
        return jax.tree.unflatten(structure, [part.sum(weights) for part in parts])

    return Examples(norms, passes.logits, weighted)


def output_shapes(network: Network, parameters: Parameters, row: Any) -> list[jax.ShapeDtypeStruct] | None:
    """Return the output shape of each layer for one example, or None where the layers do not allow the fast way.

    They do if every parameter belongs to a layer that is known here and each layer is called exactly once.
    """
    layers, _ = layers_of(parameters)
    if network.module is None or not all(isinstance(layer, LAYERS) for layer in layers):
        return None

    def outputs(parameters: Parameters, row: jax.Array) -> list[jax.Array]:
        _, calls = _call_recorded(network, parameters, row, [0.0] * len(layers))
        return [output for _, output in calls]

    try:
        shapes: list[jax.ShapeDtypeStruct] = jax.eval_shape(outputs, parameters, row)
        return shapes
    except (AttributeError, _NotOneCallEachError, jax.errors.UnexpectedTracerError):
        return None


class _NotOneCallEachError(Exception):
    """A layer was called never or more than once: the formulas here do not cover that."""


@dataclass(eq=False)
class _StandIn:
    """Stands in for a layer: adds the offset to its output, and notes its lifted input and its output."""

    layer: Any
    offset: Any
    traced: type
    calls: list[tuple[jax.Array, jax.Array]]

    def largest(self, outputs: jax.Array) -> jax.Array:
        """Return what a pooled convolution makes of its outputs; nothing else of a layer is there beside its call."""
        largest: jax.Array = self.layer.largest(outputs)
        return largest

    def __call__(self, x: jax.Array, *, key: Any = None) -> jax.Array:
        if type(x) is not self.traced:  # called inside a transformation of the network's own: a map over positions
            raise _NotOneCallEachError
        dense = isinstance(self.layer, eqx.nn.Linear)
        lifted = x if dense else self.layer.lift(x)
        output: jax.Array = (self.layer(x) if dense else self.layer.act(lifted)) + self.offset
        self.calls.append((lifted, output))
        return output


def _call_recorded(
    network: Network, parameters: Parameters, row: jax.Array, offsets: Sequence[jax.Array | float]
) -> tuple[jax.Array, list[tuple[jax.Array, jax.Array]]]:
    """Return one example's logits and each layer's (lifted input, output), offsets being added to the outputs."""
    leaves, structure = layers_of(network.module(parameters))  # type: ignore[misc]
    remaining = iter(offsets)
    stands = [_StandIn(leaf, next(remaining), type(row), []) if isinstance(leaf, LAYERS) else leaf for leaf in leaves]
    logits = jax.tree.unflatten(structure, stands)(row)
    calls = [stand_in.calls for stand_in in stands if isinstance(stand_in, _StandIn)]
    if any(len(of_layer) != 1 for of_layer in calls):
        raise _NotOneCallEachError
    return logits, [call[0] for call in calls]


def layers_of(tree: Any) -> tuple[list[Any], Any]:
    """Return the tree's layers (and what belongs to none) as leaves, and its structure above them."""
    return jax.tree.flatten(tree, is_leaf=lambda node: isinstance(node, LAYERS))


class _LayerGradient(NamedTuple):
    """One layer's part in every example's gradient: its squared norms, and the layer's sum for given weights."""

    squares: jax.Array
    sum: Callable[[jax.Array], Any]


def layer_gradient(
    layer: Layer, lifted: jax.Array, delta: jax.Array, squares: jax.Array | None = None
) -> _LayerGradient:
    """Return the layer's part, from lifted inputs and derivatives of outputs as `Passes` has them.

    squares: the inputs' squared norms, for a dense layer of which they are known.
    """
    if isinstance(layer, ScaleAndShift):
        return _scale_gradient(layer, lifted, delta)
    if isinstance(layer, eqx.nn.Linear):
        return _dense_gradient(layer, units(lifted), units(delta), squares)
    if isinstance(layer, PooledConvolution):
        weight, bias = _held(layer.gradients(lifted, delta)), layer.bias_gradients(delta)
    else:
        weight = matrix_gradient(*as_matrices(lifted, delta))
        bias = delta.reshape(len(delta), -1, len(layer.weight)).sum(1)
    if layer.bias is None:
        return _LayerGradient(weight.squares, lambda weights: _with(layer, weight=weight.sum(weights)))

    def weighted(weights: jax.Array) -> Layer:
        return _with(layer, weight=weight.sum(weights), bias=weights @ bias)

    return _LayerGradient(weight.squares + squared_norms(bias), weighted)


def units(values: jax.Array) -> jax.Array:
    """Return what a dense layer takes or gives as [unit, example]; a scalar layer's has no axis of units."""
    return values.reshape(-1, values.shape[-1])


def _dense_gradient(layer: eqx.nn.Linear, a: jax.Array, delta: jax.Array, squares: jax.Array | None) -> _LayerGradient:
    """Return the part of a dense layer, from inputs [input, example] and derivatives [output, example]."""
    squares = jnp.sum(a * a, 0) if squares is None else squares

    def weighted(weights: jax.Array) -> eqx.nn.Linear:
        clipped = delta * weights
        weight = jnp.einsum("ob,ib->oi", clipped, a)
        return _with(layer, weight=weight) if layer.bias is None else _with(layer, weight=weight, bias=clipped.sum(1))

    return _LayerGradient((squares if layer.bias is None else squares + 1) * jnp.sum(delta * delta, 0), weighted)


def as_matrices(lifted: jax.Array, delta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return a convolution's lifted inputs [example, position, input] and derivatives [example, position, output]."""
    positions = lifted.reshape(len(lifted), -1, lifted.shape[-1])
    return positions, delta.reshape(*positions.shape[:2], -1)


def matrix_gradient(lifted: jax.Array, delta: jax.Array) -> _LayerGradient:
    """Return the part of a weight matrix [output, input]: lifted [example, position, input], delta […, output]."""
    if ghost_is_cheaper(lifted, delta):
        products = jnp.einsum("bpi,bqi->bpq", lifted, lifted) * jnp.einsum("bpo,bqo->bpq", delta, delta)
        return _LayerGradient(products.sum((1, 2)), lambda weights: _contract(delta * weights[:, None, None], lifted))
    return _held(jnp.einsum("bpo,bpi->boi", delta, lifted))


def ghost_is_cheaper(lifted: jax.Array, delta: jax.Array) -> bool:
    """Whether products of positions take less work than a weight matrix's gradients themselves."""
    positions, inputs, outputs = *lifted.shape[1:], delta.shape[-1]
    return positions * (inputs + outputs) < inputs * outputs


def _held(gradients: jax.Array) -> _LayerGradient:
    """Return the part of a weight matrix from every example's gradient [example, output, input]."""
    squares = squared_norms(gradients.reshape(len(gradients), -1))
    return _LayerGradient(squares, lambda weights: jnp.tensordot(weights, gradients, 1))


def _contract(delta: jax.Array, lifted: jax.Array) -> jax.Array:
    """Return Σ over examples and positions of δ aᵀ, as one matrix product."""
    return delta.reshape(-1, delta.shape[-1]).T @ lifted.reshape(-1, lifted.shape[-1])


def squared_norms(vectors: jax.Array) -> jax.Array:
    """Return each row's squared norm; as a product of rows it is twice as fast as a sum of squares under `vmap`."""
    return jnp.einsum("bi,bi->b", vectors, vectors)


def _scale_gradient(layer: ScaleAndShift, lifted: jax.Array, delta: jax.Array) -> _LayerGradient:
    """Return the part of a scale and a shift per channel, the last axis."""
    positions = tuple(range(1, lifted.ndim - 1))
    scale, shift = jnp.sum(lifted * delta, positions), jnp.sum(delta, positions)

    def weighted(weights: jax.Array) -> ScaleAndShift:
        return _with(layer, scale=weights @ scale, shift=weights @ shift)

    return _LayerGradient(squared_norms(scale) + squared_norms(shift), weighted)


def _with(layer: AnyLayer, **values: jax.Array) -> AnyLayer:
    """Return the layer with other arrays."""
    names = list(values)
    changed: AnyLayer = eqx.tree_at(lambda same: [getattr(same, name) for name in names], layer, list(values.values()))
    return changed


def _materialised(
    network: Network, parameters: Parameters, rows: jax.Array, labels: jax.Array, loss: Loss = log_loss
) -> Examples:
    """Return the per-example gradients of any network, held one by one."""

    def of_row(parameters: Parameters, row: jax.Array, label: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits = network.apply(parameters, row[None])
        return loss(logits, label[None])[0], logits[0]

    gradients, logits = jax.vmap(jax.grad(of_row, has_aux=True), (None, 0, 0))(parameters, rows, labels)
    squares = [jnp.sum(leaf.reshape(len(rows), -1) ** 2, -1) for leaf in jax.tree.leaves(gradients)]

    def weighted(weights: jax.Array) -> Any:
        return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1), gradients)

    return Examples(jnp.sqrt(sum(squares)), logits, weighted)
