"""How an ensemble is laid out: its variables with named axes, and the coordinates along them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seedscope.core import require
from seedscope.datasets import Part
from seedscope.planning import Chunk, Plan
from seedscope.training import Arrays

LARGEST_STEPPED = 2.0**24

FORMAT = 1  # of a store
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
    planned = []
    if plan.mechanism.records_weights:
        planned.append(_variable(plan, "weights", ("seed", "neighbour", "init", "step", "parameter"), "float32"))
    if examples:
        planned.append(_variable(plan, "scores", probabilities, "float32"))
        planned.append(_variable(plan, "losses", scores, "float32"))
    for name, dtype in plan.mechanism.model_records.items():
        planned.append(_variable(plan, name, ("seed", "neighbour", "init"), dtype))
    if plan.records.norms is not None and plan.records.norms.orders:
        planned.append(_variable(plan, "path_sums", ("seed", "neighbour", "init", "path_order", "watched"), "float32"))
    elif plan.records.norms is not None:
        axes = ("seed", "neighbour", "init", "norm_step", "watched")
        planned.append(_variable(plan, "gradient_norms", axes, plan.records.norms.precision))
        # correct is 0 or 1; like everything else NaN until it is known
        planned.append(_variable(plan, "correct", axes, "float16"))
    if plan.mechanism.limits_people:
        planned.append(_variable(plan, "spent_divergences", ("seed", "neighbour", "init", "spender"), "float32"))
    if plan.traced is not None:
        planned.append(_variable(plan, "fisher_traces", ("seed", "neighbour", "init", "step", "traced"), "float32"))
    if plan.lossy is not None:
        planned.append(_variable(plan, "privacy_losses", ("seed", "neighbour", "init", "loser"), "float32"))
    return planned


def stored_name(name: str) -> str:
    """Return the name that a variable has on the disk: format 1 has one name for two kinds of norms."""
    return "gradient_norms" if name == "residual_norms" else name


def stored_variables(plan: Plan) -> list[Variable]:
    """Return the variables that a plan records, by their names on the disk."""
    return [replace(variable, name=stored_name(variable.name)) for variable in variables(plan)]


def coordinates(plan: Plan) -> dict[str, tuple[str, np.ndarray]]:
    """Return name → (axis, values) of every coordinate."""
    parts = plan.probed
    drawn = np.arange(len(plan.neighbours)) > len(plan.grid.people)
    labels = [probed.part.labels for probed in parts]
    return {
        "seed": ("seed", plan.seeds),
        "neighbour": ("neighbour", plan.neighbours),
        "neighbour_drawn": ("neighbour", drawn),
        "init": ("init", np.array(plan.inits)),
        "step": ("step", np.array(plan.steps)),
        "example_part": ("example", np.array([probed.name for probed in parts for _ in probed.rows], dtype=str)),
        "example_row": ("example", np.concatenate([np.zeros(0, int), *(probed.rows for probed in parts)])),
        "example_label": ("example", np.concatenate([np.zeros(0, int), *labels])),
        "example_person": (
            "example",
            np.concatenate([np.zeros(0, int), *(_person(plan, probed.part) for probed in parts)]),
        ),
        **_example_neighbours(plan),
        **_people(plan),
        **_watched(plan),
        **_traced(plan),
        **_lossy(plan),
        **_spenders(plan),
    }


def _example_neighbours(plan: Plan) -> dict[str, tuple[str, np.ndarray]]:
    """Return which neighbour each example is a row of (−1: none), where people have several; else each is its own."""
    if plan.data.base.persons is None or not any(probed.name == "neighbour" for probed in plan.probed):
        return {}
    beside = sum(len(probed.rows) for probed in plan.probed if probed.name != "neighbour")
    return {"example_neighbour": ("example", np.concatenate([np.full(beside, -1), plan.probed_neighbours]))}


def _watched(plan: Plan) -> dict[str, tuple[str, np.ndarray]]:
    """Return the coordinates of recorded gradient norms (the steps done before) or path sums, and whose they are."""
    if plan.watched is None or plan.records.norms is None:
        return {}
    name, rows, part = plan.watched.name, plan.watched.rows, plan.watched.part
    orders = plan.records.norms.orders
    along = ("path_order", np.array(orders)) if orders else ("norm_step", np.array(plan.norm_steps))
    return {
        along[0]: along,
        "watched_part": ("watched", np.repeat([name], len(rows))),
        "watched_row": ("watched", rows),
        "watched_label": ("watched", part.labels),
        "watched_person": ("watched", _person(plan, part)),
    }


def _traced(plan: Plan) -> dict[str, tuple[str, np.ndarray]]:
    """Return the coordinates of recorded Fisher traces: whose they are, rows of the data that models are trained on."""
    if plan.traced is None:
        return {}
    part = plan.data.base.take(plan.traced)
    return {
        "traced_row": ("traced", plan.traced),
        "traced_label": ("traced", part.labels),
        "traced_person": ("traced", _person(plan, part)),
    }


def _lossy(plan: Plan) -> dict[str, tuple[str, np.ndarray]]:
    """Return the coordinates of recorded privacy losses: whose they are, rows that models are trained on."""
    if plan.lossy is None:
        return {}
    return {
        "loser_row": ("loser", plan.lossy),
        "loser_person": ("loser", _person(plan, plan.data.base.take(plan.lossy))),
    }


def _spenders(plan: Plan) -> dict[str, tuple[str, np.ndarray]]:
    """Return the coordinates of what people have spent of their budgets: all rows that models are trained on."""
    if not plan.mechanism.limits_people:
        return {}
    return {"spender_person": ("spender", _person(plan, plan.data.base))}


def _people(plan: Plan) -> dict[str, tuple[str, np.ndarray]]:
    """Return the coordinates of the person axis: every row of the data in its original order, whether probed or not."""
    parts = _data_parts(plan)
    order = np.argsort(np.concatenate([part.rows for part in parts.values()]), kind="stable")

    def together(arrays: Iterable[np.ndarray]) -> tuple[str, np.ndarray]:
        return "person", np.concatenate(list(arrays))[order]

    return {
        "person_id": together(part.ids.astype(str) for part in parts.values()),
        "person_part": together(np.repeat([name], len(part)) for name, part in parts.items()),
        "person_label": together(part.labels for part in parts.values()),
        **{
            f"group_{k}": together(part.groups[name].astype(str) for part in parts.values())
            for k, name in enumerate(plan.data.groups)
        },
    }


def _person(plan: Plan, part: Part) -> np.ndarray:
    """Return the place of each row of a part on the person axis."""
    rows = np.sort(np.concatenate([data_part.rows for data_part in _data_parts(plan).values()]))
    return np.searchsorted(rows, part.rows)


def _data_parts(plan: Plan) -> dict[str, Part]:
    """Return the parts of the data by name; the validation part only where there is one."""
    data = plan.data
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    return {name: part for name, part in parts.items() if part is not None}


def region(plan: Plan, chunk: Chunk) -> tuple[slice, slice]:
    """Return the seeds and neighbours of the grid that a chunk holds, as slices of the first two axes."""
    seeds = plan.shape.seed_slice(chunk, plan.grid.seeds)
    return seeds, plan.shape.neighbour_slice(chunk, len(plan.neighbours))


def trim(plan: Plan, chunk: Chunk, records: Arrays) -> Arrays:
    """Return the records without the padding beyond the grid's edge, or raise where a trainer gave others."""
    seeds, neighbours = region(plan, chunk)
    inside = np.s_[: seeds.stop - seeds.start, : neighbours.stop - neighbours.start]
    require_records(plan, records)
    return {name: np.ascontiguousarray(values[inside]) for name, values in records.items()}


def require_records(plan: Plan, records: Arrays) -> None:
    """Raise unless a trainer gave every record that the plan has, no other, each with its axes."""
    wanted = {variable.name: variable for variable in stored_variables(plan)}
    given = {stored_name(name): values for name, values in records.items()}
    trainer = f"the trainer of {plan.mechanism.name}"
    for name in sorted(wanted.keys() | given.keys()):
        require(name in given, f"{trainer} must give the record {name!r}, which the plan has; it gave {sorted(given)}.")
        require(name in wanted, f"{trainer} gave a record {name!r} that no plan of it has; name it in model_records.")
        axes, shape, got = wanted[name].axes, wanted[name].shape[2:], given[name].shape[2:]
        rule = f"{trainer} must give {name!r} with the axes {list(axes)}, those after neighbour of sizes {shape}"
        require(got == shape, f"{rule}; got {got}.")


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
        "norm_step": len(plan.norm_steps),
        "path_order": 0 if plan.records.norms is None else len(plan.records.norms.orders),
        "watched": 0 if plan.watched is None else len(plan.watched.rows),
        "spender": len(plan.data.base),
        "traced": 0 if plan.traced is None else len(plan.traced),
        "loser": 0 if plan.lossy is None else len(plan.lossy),
    }
    chunk = sizes | {"seed": plan.shape.seeds, "neighbour": plan.shape.neighbours}
    return Variable(name, axes, tuple(sizes[a] for a in axes), tuple(chunk[a] for a in axes), dtype)


def diverged_seeds(seeds: slice, kept: Arrays) -> list[int]:
    """Return the seeds of a chunk whose models diverged; none where no weights are kept.

    Their weights are not finite, or so large that single precision, in which gradient steps are taken, no longer tells
    a step of 1 from none.
    """
    if "weights" not in kept:
        return []
    weights = kept["weights"]
    largest = LARGEST_STEPPED if weights.dtype == np.float32 else np.inf
    with np.errstate(invalid="ignore"):
        learned = (np.isfinite(weights) & (np.abs(weights) <= largest)).all(axis=tuple(range(1, weights.ndim)))
    return [seeds.start + int(place) for place in np.flatnonzero(~learned)]


def attributes(plan: Plan) -> dict[str, Any]:
    """Return the attributes of an ensemble: its whole description as JSON, and what tells whether it is whole."""
    from seedscope.storage.reading import CHECKSUMS, known_checksums  # start-up

    known = coordinates(plan)
    named = " ".join(name for name, (axis, _) in known.items() if name != axis)
    description = plan.description().text()
    checksums = known_checksums(description, {name: values for name, (_, values) in known.items()})
    return {"description": description, "format": FORMAT, "coordinates": named, CHECKSUMS: checksums}
