"""How a grid is cut into chunks: about half a second of work each, within a worker's memory."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.errors import SeedscopeError, require
from seedscope.grid import ChunkShape
from seedscope.mechanisms import CONVEX, AugmentedOutputPerturbation
from seedscope.solvers import MODELS_TOGETHER

if TYPE_CHECKING:
    from seedscope.plan import Plan

WORK_PER_CHUNK = 1.5e10  # floating-point operations: about half a second on one core
BYTES_PER_CHUNK = 64 << 20
BYTES_PER_SEED = 512 << 20  # of records; then the neighbours that share a seed's batches are split up
SEEDS_TOGETHER = 4
MODELS_PER_SEED = 256  # neighbours × inits that share a seed's batches in one chunk
PROCESS_BYTES = 400 << 20  # a worker with everything imported and one function compiled
COPIES = 3  # of records: where they are computed, as the worker's arrays, and on their way to the driver
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def choose_chunk_shape(plan: Plan, memory: int | str | None = None) -> ChunkShape:
    """Return a chunk of about half a second of work and bounded memory; small grids are cut into four.

    `memory` is what a worker may use in all, its own libraries and the data included.
    """
    most = None if memory is None else models_within(plan, memory)
    if isinstance(plan.mechanism, CONVEX):
        return _convex_shape(plan, most)
    inits = len(plan.inits)
    neighbours = min(len(plan.neighbours), max(1, MODELS_PER_SEED // inits))
    numbers = recorded_numbers(plan)
    neighbours = max(1, min(neighbours, BYTES_PER_SEED // (4 * numbers * inits)))
    neighbours = neighbours if most is None else min(neighbours, most // inits)
    blocks = -(-len(plan.neighbours) // neighbours)
    neighbours = -(-len(plan.neighbours) // blocks)  # of even size: what pads the last block is trained for nothing
    per_seed = neighbours * inits
    by_memory = BYTES_PER_CHUNK // (4 * numbers * per_seed)
    by_memory = by_memory if most is None else min(by_memory, most // per_seed)
    by_work = WORK_PER_CHUNK / (model_work(plan) * per_seed)
    if by_work > 0.1 * SEEDS_TOGETHER:  # batched products are several times faster than those of a single seed
        by_work = max(by_work, SEEDS_TOGETHER)
    pair = min(by_memory, plan.grid.seeds) >= 2 and by_work > 0.1  # one seed's products take a slower way through XLA
    seeds = int(max(1 + pair, min(by_memory, by_work, -(-plan.grid.seeds // 4))))
    return ChunkShape(seeds, neighbours)


def _convex_shape(plan: Plan, most: int | None) -> ChunkShape:
    """Return a chunk of many seeds and few data sets: its solver shares work between seeds, not between data sets."""
    models = min(WORK_PER_CHUNK / model_work(plan), BYTES_PER_CHUNK // (4 * recorded_numbers(plan)), most or np.inf)
    datasets = len(plan.neighbours)
    seeds = int(max(1, min(models, -(-plan.grid.seeds // (1 if datasets > 3 else 4)))))
    if seeds > MODELS_TOGETHER:
        seeds -= seeds % MODELS_TOGETHER  # whole blocks of the solver
    return ChunkShape(seeds, int(max(1, min(models // seeds, -(-datasets // 4)))))


def recorded_numbers(plan: Plan) -> int:
    """Return how many numbers are recorded of one model."""
    probes = sum(len(index) for _, index, _ in plan.probe_parts())
    outputs = 1 if plan.data.classes == 2 else plan.data.classes
    checkpoints = len(plan.steps)
    numbers = checkpoints * plan.parameters
    numbers += probes * (outputs + 1) * (checkpoints if plan.records.scores_at_checkpoints else 1)
    numbers += len(plan.norm_steps) * (len(plan.watched[1]) if plan.watched else 0)
    return numbers + checkpoints * (0 if plan.traced is None else len(plan.traced))


def models_within(plan: Plan, memory: int | str) -> int:
    """Return how many models a worker can train at once within its memory, or raise where not even one fits."""
    available = parse_bytes(memory) - PROCESS_BYTES - 3 * plan.data.features.nbytes
    each = model_bytes(plan)
    least = parse_bytes(memory) - available + each * len(plan.inits)
    room = int(available // each)
    require(
        room >= len(plan.inits),
        f"memory must be at least {-(-least // 2**20)}MiB for a chunk of one model, got {memory}.",
    )
    return room


def model_bytes(plan: Plan) -> int:
    """Return roughly how much memory a model takes while it is trained: records, weights, and a batch's activations."""
    numbers = COPIES * recorded_numbers(plan) + 8 * plan.parameters
    if isinstance(plan.mechanism, CONVEX):
        return 8 * (numbers + 2 * len(plan.data.base))
    shape = plan.data.features.shape[1:]
    activations = _forward(plan.model, shape, plan.data.classes)[1] - 4 * plan.parameters
    rows = gradient_part(plan.mechanism).batch_size + 1
    return int(4 * numbers + rows * max(0, activations) / 2)  # what is moved counts reading and writing


def parse_bytes(memory: int | str) -> int:
    """Return a number of bytes, given as such or like "2GiB".

    >>> parse_bytes("2GiB"), parse_bytes("500 MB"), parse_bytes(1000)
    (2147483648, 500000000, 1000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(memory).lower())
    if found is None or not float(found[1]):
        raise SeedscopeError(f"memory must be a number of bytes above 0 or like 2GiB, got {str(memory)[:60]!r}.")
    return int(float(found[1]) * (UNITS | BINARY_UNITS)[found[2] or ""])


def model_work(plan: Plan) -> float:
    """Return roughly how many floating-point operations training one model takes."""
    if isinstance(plan.mechanism, CONVEX):
        return 60.0 * len(plan.data.base) * plan.parameters  # about ten Newton steps
    sgd = gradient_part(plan.mechanism)
    flops, _ = _forward(plan.model, plan.data.features.shape[1:], plan.data.classes)
    examples = sgd.steps * (sgd.batch_size + 1) + len(plan.norm_steps) * (len(plan.watched[1]) if plan.watched else 0)
    work = 3.0 * examples * max(flops, 2.0 * plan.parameters)
    return work if plan.traced is None else 3 * work


@lru_cache(maxsize=32)
def _forward(model: Any, shape: tuple[int, ...], classes: int) -> tuple[float, float]:
    """Return the floating-point operations and the bytes moved when a model looks at one row."""
    import jax

    from seedscope.models import network_of

    network = network_of(model, shape, classes)
    parameters = jax.eval_shape(network.init, jax.random.key(0))
    one_row = jax.ShapeDtypeStruct((1, *shape), np.float32)
    found = jax.jit(network.apply).lower(parameters, one_row).cost_analysis() or {}
    return found.get("flops", 0.0), found.get("bytes accessed", 0.0)


def gradient_part(mechanism: Any) -> Any:
    """Return the mechanism that takes gradient steps: itself, or the SGD beneath an augmentation."""
    return mechanism.sgd if isinstance(mechanism, AugmentedOutputPerturbation) else mechanism
