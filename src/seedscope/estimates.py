"""What a plan will take before it starts: models, bytes, and roughly how long."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seedscope.chunk_shapes import model_work
from seedscope.grid import Chunk
from seedscope.layout import region, variables
from seedscope.mechanisms import CONVEX, DPSGD
from seedscope.plan import Plan

# Floating-point operations per second that one core of an ordinary server reaches, from `python -m benchmarks`.
CONVEX_SPEED = 3.5e9
NEIGHBOURS_SPEED = 3e10
SEEDS_SPEED = 4e9  # without neighbours every seed gathers batches of its own
NORMS_SPEED = 1e10  # DP-SGD: per-example gradients


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
    models = sum(chunk_models(plan, one) for one in missing)
    padded = len(missing) * plan.shape.seeds * plan.shape.neighbours * len(plan.inits)
    busy = min(workers, max(1, len(missing)))
    alone = padded * model_work(plan) / speed(plan) if chunk_seconds is None else len(missing) * chunk_seconds
    space = models * bytes_per_model(plan) // (len(plan.neighbours) * len(plan.inits))
    return Estimate(models, plan.models, space, alone / busy, workers, chunk_seconds is not None, _free(place))


def speed(plan: Plan) -> float:
    """Return roughly how many floating-point operations per second a core reaches on a plan."""
    if isinstance(plan.mechanism, CONVEX):
        return CONVEX_SPEED
    if isinstance(plan.mechanism, DPSGD):
        return NORMS_SPEED
    return NEIGHBOURS_SPEED if len(plan.neighbours) > 4 else SEEDS_SPEED


def bytes_per_model(plan: Plan) -> int:
    """Return the bytes that the records of one seed take, before compression."""
    sizes = (math.prod(one.shape) * np.dtype(one.dtype).itemsize / plan.grid.seeds for one in variables(plan))
    return math.ceil(sum(sizes))


def chunk_models(plan: Plan, chunk: Chunk) -> int:
    """Return how many models of the grid a chunk holds."""
    seeds, neighbours = region(plan, chunk)
    return (seeds.stop - seeds.start) * (neighbours.stop - neighbours.start) * len(plan.inits)


def in_bytes(size: float) -> str:
    """Return a number of bytes in words.

    >>> in_bytes(300), in_bytes(5 << 20), in_bytes(3.5 * 2**30)
    ('300 bytes', '5 MiB', '3.5 GiB')
    """
    if size < 2**20:
        return f"{size / 1024:.0f} KiB" if size >= 1024 else f"{size:.0f} bytes"
    return f"{size / 2**20:.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"


def in_time(seconds: float) -> str:
    """Return a duration in words.

    >>> in_time(0.2), in_time(12.3), in_time(600), in_time(9000), in_time(200_000)
    ('1 s', '12 s', '10 min', '2.5 h', '2.3 days')
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 100_000 else f"{seconds / 86400:.1f} days"


def _free(place: Path | None) -> int | None:
    """Return the bytes that are free where a store is, or None where nothing is stored or nobody can tell."""
    try:
        return None if place is None else shutil.disk_usage(place).free
    except OSError:
        return None
