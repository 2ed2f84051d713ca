"""How an ensemble is laid out: its variables with named axes, and the coordinates along them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seedscope.chunk_training import Arrays
from seedscope.grid import BASE, Chunk
from seedscope.mechanisms import CONVEX
from seedscope.plan import Plan

CHUNKED = ("seed", "neighbour")  # the axes along which models are trained in chunks


@dataclass(frozen=True)
class Variable:
    """A recorded variable: its named axes, its whole shape, the shape of one chunk, and its type."""

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: str


def variables(plan: Plan) -> list[Variable]:
    """Return the variables that a plan records."""
    examples = len(plan.job.probe_rows)
    scores = ("seed", "neighbour", "init", *(("step",) if plan.records.scores_at_checkpoints else ()), "example")
    probabilities = scores if plan.data.classes == 2 else (*scores, "class")
    found = [_variable(plan, "weights", ("seed", "neighbour", "init", "step", "parameter"), "float32")]
    if examples:
        found.append(_variable(plan, "scores", probabilities, "float32"))
        found.append(_variable(plan, "losses", scores, "float32"))
    if isinstance(plan.mechanism, CONVEX):
        found.append(_variable(plan, "gradient_norms", ("seed", "neighbour", "init"), "float64"))
    return found


def coordinates(plan: Plan) -> dict[str, tuple[str, np.ndarray]]:
    """Return name → (axis, values) of every coordinate."""
    parts = plan.probe_parts()
    drawn = np.arange(len(plan.neighbours)) > len(plan.grid.people)
    labels = [part.labels for *_, part in parts]
    return {
        "seed": ("seed", plan.seeds),
        "neighbour": ("neighbour", plan.neighbours),
        "neighbour_drawn": ("neighbour", drawn),
        "init": ("init", np.array(plan.inits)),
        "step": ("step", np.array(plan.steps)),
        "example_part": ("example", np.array([name for name, rows, _ in parts for _ in rows], dtype=str)),
        "example_row": ("example", np.concatenate([np.zeros(0, int), *(rows for _, rows, _ in parts)])),
        "example_label": ("example", np.concatenate([np.zeros(0, int), *labels])),
    }


def region(plan: Plan, chunk: Chunk) -> tuple[slice, slice]:
    """Return the seeds and neighbours of the grid that a chunk holds, as slices of the first two axes."""
    seeds = plan.shape.seed_slice(chunk, plan.grid.seeds)
    return seeds, plan.shape.neighbour_slice(chunk, len(plan.neighbours))


def trim(plan: Plan, chunk: Chunk, records: Arrays) -> Arrays:
    """Return the records without the padding beyond the grid's edge."""
    seeds, neighbours = region(plan, chunk)
    inside = np.s_[: seeds.stop - seeds.start, : neighbours.stop - neighbours.start]
    return {name: np.ascontiguousarray(values[inside]) for name, values in records.items()}


def is_base(neighbours: np.ndarray) -> np.ndarray:
    """Return where the neighbour coordinate names the base data set."""
    return np.asarray(neighbours) == BASE


def _variable(plan: Plan, name: str, axes: tuple[str, ...], dtype: str) -> Variable:
    """Return the variable with the sizes that the plan gives its axes."""
    sizes = {
        "seed": plan.grid.seeds,
        "neighbour": len(plan.neighbours),
        "init": len(plan.inits),
        "step": len(plan.steps),
        "parameter": plan.parameters,
        "example": len(plan.job.probe_rows),
        "class": plan.data.classes,
    }
    chunk = sizes | {"seed": plan.shape.seeds, "neighbour": plan.shape.neighbours}
    return Variable(name, axes, tuple(sizes[a] for a in axes), tuple(chunk[a] for a in axes), dtype)
