"""How a grid is cut into chunks: about half a second of work each, within a worker's memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.core import in_bytes, parse_bytes, require, settled
from seedscope.mechanisms import Load
from seedscope.numerics import MODELS_TOGETHER

if TYPE_CHECKING:
    from seedscope.planning.plan import Plan


WORK_PER_CHUNK = 1.5e10  # floating-point operations: about half a second on one core
BYTES_PER_CHUNK = 64 << 20
BYTES_PER_SEED = 512 << 20  # of records; then the neighbours that share a seed's batches are split up
SEEDS_TOGETHER = 4
SEEDS_WITH_LOSSES = 64  # of logistic regressions whose privacy losses are recorded: products of that many columns
MODELS_PER_SEED = 256  # neighbours × inits that share a seed's batches in one chunk
PROCESS_BYTES = 400 << 20  # a worker with everything imported and one function compiled


def choose_chunk_shape(plan: Plan, memory: int | str | None = None) -> ChunkShape:
    """Return a chunk of about half a second of work and bounded memory; small grids are cut into four.

    `memory` is what a worker may use in all, its own libraries and the data included.
    """
    most = None if memory is None else models_within(plan, memory)
    if plan.mechanism.shares_work == "seeds":
        return _wide_shape(plan, most)
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
    if plan.lossy is not None and plan.model.convex and plan.data.classes == 2:
        by_work = max(by_work, SEEDS_WITH_LOSSES / per_seed)
    if by_work > 0.1 * SEEDS_TOGETHER:  # batched products are several times faster than those of a single seed
        by_work = max(by_work, SEEDS_TOGETHER)
    pair = min(by_memory, plan.grid.seeds) >= 2 and by_work > 0.1  # one seed's products take a slower way through XLA
    seeds = int(max(1 + pair, min(by_memory, by_work, -(-plan.grid.seeds // 4))))
    return ChunkShape(seeds, neighbours)


def _wide_shape(plan: Plan, most: int | None) -> ChunkShape:
    """Return a chunk of many seeds and few data sets: its solver shares work between seeds, not between data sets."""
    models = min(WORK_PER_CHUNK / model_work(plan), BYTES_PER_CHUNK // (4 * recorded_numbers(plan)), most or np.inf)
    datasets = len(plan.neighbours)
    seeds = int(max(1, min(models, -(-plan.grid.seeds // (1 if datasets > 3 else 4)))))
    if seeds > MODELS_TOGETHER:
        seeds -= seeds % MODELS_TOGETHER  # whole blocks of the solver
    return ChunkShape(seeds, int(max(1, min(models // seeds, -(-datasets // 4)))))


def recorded_numbers(plan: Plan) -> int:
    """Return how many numbers are recorded of one model."""
    probes = sum(len(probed.rows) for probed in plan.probed)
    outputs = 1 if plan.data.classes == 2 else plan.data.classes
    checkpoints = len(plan.steps)
    numbers = checkpoints * plan.parameters
    numbers += probes * (outputs + 1) * (checkpoints if plan.records.scores_at_checkpoints else 1)
    kept = len(plan.norm_steps) + (len(plan.records.norms.orders) if plan.records.norms else 0)
    numbers += kept * (len(plan.watched.rows) if plan.watched else 0)
    numbers += 0 if plan.lossy is None else len(plan.lossy)
    numbers += len(plan.data.base) if plan.mechanism.limits_people else 0
    return numbers + checkpoints * (0 if plan.traced is None else len(plan.traced))


def models_within(plan: Plan, memory: int | str) -> int:
    """Return how many models a worker can train at once within its memory, or raise where not even one fits."""
    available = parse_bytes(memory) - PROCESS_BYTES - 3 * plan.data.features.nbytes
    per_model = plan.mechanism.memory(load_of(plan))
    least = parse_bytes(memory) - available + per_model * len(plan.inits)
    room = int(available // per_model)
    require(
        room >= len(plan.inits),
        f"memory must be at least {in_bytes(least + 2**20)} for a chunk of one model, got {memory}.",
    )
    return room


def load_of(plan: Plan) -> Load:
    """Return what training one model of a plan deals with."""
    watched = plan.looks * (len(plan.watched.rows) if plan.watched else 0)
    watched += max(1, plan.mechanism.last_step) * (0 if plan.lossy is None else len(plan.lossy))
    watched += plan.mechanism.last_step * len(plan.data.base) if plan.mechanism.limits_people else 0
    shape, classes = plan.data.features.shape[1:], plan.data.classes
    return Load(
        examples=len(plan.data.base),
        parameters=plan.parameters,
        recorded=recorded_numbers(plan),
        datasets=len(plan.neighbours),
        forward=lambda: _forward(plan.model, shape, classes),
        looks=watched,
        traced=plan.traced is not None,
    )


def model_work(plan: Plan) -> float:
    """Return roughly how many floating-point operations training one model takes."""
    return plan.mechanism.work(load_of(plan))


@lru_cache(maxsize=32)
def _forward(model: Any, shape: tuple[int, ...], classes: int) -> tuple[float, float]:
    """Return the floating-point operations and the bytes moved when a model looks at one row."""
    import jax

    from seedscope.models import network_of  # JAX

    with settled():
        network = network_of(model, shape, classes)
        parameters = jax.eval_shape(network.init, jax.random.key(0))
        one_row = jax.ShapeDtypeStruct((1, *shape), np.float32)
        costs = jax.jit(network.apply).lower(parameters, one_row).cost_analysis() or {}
    return costs.get("flops", 0.0), costs.get("bytes accessed", 0.0)


@dataclass(frozen=True)
class Chunk:
    """A block of seeds × neighbours that is trained, written and marked as done together."""

    seed_block: int
    neighbour_block: int

    @property
    def name(self) -> str:
        """The name of the chunk's marker."""
        return f"{self.seed_block}-{self.neighbour_block}"


@dataclass(frozen=True)
class ChunkShape:
    """How many seeds and neighbours a full chunk has; fixed for the life of a store, so that every bit is too."""

    seeds: int
    neighbours: int

    def chunks(self, seeds: int, neighbours: int) -> Iterator[Chunk]:
        """Yield the chunks that cover a grid, the base's first."""
        for neighbour_block in range(-(-neighbours // self.neighbours)):
            for seed_block in range(-(-seeds // self.seeds)):
                yield Chunk(seed_block, neighbour_block)

    def count(self, seeds: int, neighbours: int) -> int:
        """Return how many chunks cover a grid."""
        return -(-seeds // self.seeds) * -(-neighbours // self.neighbours)

    def seed_slice(self, chunk: Chunk, seeds: int) -> slice:
        """Return the seeds of a chunk that a grid of this many seeds has."""
        return slice(chunk.seed_block * self.seeds, min(seeds, (chunk.seed_block + 1) * self.seeds))

    def neighbour_slice(self, chunk: Chunk, neighbours: int) -> slice:
        """Return the neighbours of a chunk that a grid of this many neighbours has."""
        start = chunk.neighbour_block * self.neighbours
        return slice(start, min(neighbours, start + self.neighbours))
