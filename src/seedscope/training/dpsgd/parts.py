"""In which parts a batch is worked through: few enough rows for the cache, many enough for speed."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import jax
import numpy as np

from seedscope.models import VECTOR, Network, PooledConvolution, ScaleAndShift
from seedscope.training.dpsgd.batches import Parts
from seedscope.training.dpsgd.per_example import Layer, layers_of, output_shapes
from seedscope.training.dpsgd.steps import PrivateSteps

WORKING_SET = 1 << 22  # bytes of layer inputs and outputs that one part may have: it should stay in the cache
LEAST_ROWS = 8  # of a part, whatever its bytes
FIRST_PART = 0.8  # the chance that the first part has room for the Poisson batches of all seeds
LATER_PART = 8  # rows of a later part
ROWS_ALONE = 16  # of a part, at most, where models take turns


def batch_parts(
    network: Network, private: PrivateSteps, shape: tuple[int, ...], seeds: int, models: int, examples: int
) -> Parts:
    """Return the parts for this many seeds × models: few enough rows for the cache, many enough for speed.

    Where not even one model's batch fits, models share little and are worked through one by one.
    """
    batch = first = private.drawn_size(examples)
    if private.sampling.varies:
        deviations = NormalDist().inv_cdf(FIRST_PART ** (1 / seeds))
        first = min(examples, batch + math.ceil(deviations * math.sqrt(batch * (1 - batch / examples))))
    if models > 1 and first > 4 * VECTOR:  # then rows lie side by side in vector registers: fill them
        first = -(-first // VECTOR) * VECTOR
    alone = max(LEAST_ROWS, WORKING_SET // row_bytes(network, shape, 1))
    if first > alone:
        return _equal_parts(batch, min(alone, ROWS_ALONE))._replace(one_by_one=True)
    most = max(LEAST_ROWS, WORKING_SET // (seeds * row_bytes(network, shape, models)))
    return _equal_parts(batch, most) if first > most else Parts(first, min(LATER_PART, first))


def _equal_parts(batch: int, most: int) -> Parts:
    """Return parts of equal size, at most this many rows, that a batch of the expected size fills."""
    rows = -(-batch // -(-batch // most))
    return Parts(rows, rows)


@lru_cache
def row_bytes(network: Network, shape: tuple[int, ...], models: int) -> int:
    """Return the bytes that one example takes: the first layer's input once, and per model what all layers hold."""
    parameters = jax.eval_shape(network.init, jax.random.key(0))
    outputs = output_shapes(network, parameters, jax.ShapeDtypeStruct(shape, np.float32))
    held: int
    if outputs is None:
        held = sum(leaf.size for leaf in jax.tree.leaves(parameters))
        return 4 * (math.prod(shape) + models * held)
    lifted = [_lifted_numbers(*layer) for layer in zip(layers_of(parameters)[0], outputs, strict=True)]
    held = sum(lifted[1:]) + sum(output.size for output in outputs)
    return 4 * (lifted[0] + models * held)


def _lifted_numbers(layer: Layer, output: jax.ShapeDtypeStruct) -> int:
    """Return how many numbers a layer's lifted input has for one example."""
    if isinstance(layer, ScaleAndShift):
        return int(output.size)
    pooled = isinstance(layer, PooledConvolution)
    matrix = jax.eval_shape(PooledConvolution.matrix, layer) if pooled else layer.weight
    numbers: int = output.size // matrix.shape[0] * matrix.shape[1]
    return numbers
