"""What a plan will take before it starts: models, bytes, and roughly how long."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seedscope.core import in_bytes, in_time
from seedscope.planning import Chunk, Plan, load_of
from seedscope.storage import region, variables


@dataclass(frozen=True)
class Estimate:
    """What is left to train: how many models of all, at most how many bytes, roughly how many seconds by how many."""

    models: int
    of_models: int
    bytes: int
    seconds: float
    workers: int
    measured: bool
    free_bytes: int | None = None

    @property
    def fits(self) -> bool:
        """Whether the disk has room, as far as is known; compression may make more fit."""
        return self.free_bytes is None or self.bytes <= self.free_bytes

    def __str__(self) -> str:
        if not self.models:
            return f"{self.of_models:,} models, all trained before."
        kept = f" of {self.of_models:,}" if self.models < self.of_models else ""
        who = f"{self.workers:,} workers" if self.workers > 1 else "1 worker"
        how = "as before" if self.measured else "roughly"
        return (
            f"{self.models:,}{kept} models to train: at most {in_bytes(self.bytes)}, about {in_time(self.seconds)} "
            f"with {who} ({how})."
        )


def estimate(
    plan: Plan, missing: Sequence[Chunk], workers: int, chunk_seconds: float | None = None, place: Path | None = None
) -> Estimate:
    """Return what training the missing chunks takes.

    `chunk_seconds` is what a chunk of the plan took a worker before; without it the time is worked out from the number
    of floating-point operations, which is right to a factor of about three.
    """
    models = sum(chunk_models(plan, chunk) for chunk in missing)
    padded = len(missing) * plan.shape.seeds * plan.shape.neighbours * len(plan.inits)
    busy = min(workers, max(1, len(missing)))
    load = load_of(plan)
    guessed = padded * plan.mechanism.work(load) / plan.mechanism.speed(load)
    alone = guessed if chunk_seconds is None else len(missing) * chunk_seconds
    space = models * bytes_per_model(plan) // (len(plan.neighbours) * len(plan.inits))
    return Estimate(models, plan.models, space, alone / busy, workers, chunk_seconds is not None, _free(place))


def bytes_per_model(plan: Plan) -> int:
    """Return the bytes that the records of one seed take, before compression."""
    sizes = (
        math.prod(variable.shape) * np.dtype(variable.dtype).itemsize / plan.grid.seeds for variable in variables(plan)
    )
    return math.ceil(sum(sizes))


def chunk_models(plan: Plan, chunk: Chunk) -> int:
    """Return how many models of the grid a chunk holds."""
    seeds, neighbours = region(plan, chunk)
    models: int = (seeds.stop - seeds.start) * (neighbours.stop - neighbours.start) * len(plan.inits)
    return models


def _free(place: Path | None) -> int | None:
    """Return the bytes that are free where a store is, or None where nothing is stored or nobody can tell."""
    try:
        return None if place is None else shutil.disk_usage(place).free
    except OSError:
        return None
