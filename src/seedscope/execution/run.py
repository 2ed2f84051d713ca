"""Trains a plan: its missing chunks go to workers through joblib, and each result is written once as it arrives."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from seedscope.core import (
    OutOfMemoryError,
    SeedscopeError,
    SeedscopeWarning,
    TrainingError,
    require,
    require_count,
    require_path,
    shown_progress,
)
from seedscope.datasets import Dataset, Scaling
from seedscope.execution.dispatch import configured_workers, on_cluster, outcomes
from seedscope.execution.estimate import Estimate, chunk_models, estimate
from seedscope.execution.worker import Failure
from seedscope.mechanisms import Mechanism
from seedscope.planning import WORK_PER_CHUNK, Chunk, Grid, Plan, Records, environment, make_plan, model_work
from seedscope.storage import Ensemble, MemoryStore, Store, open_store, stored_chunk_shape

Progress = Callable[[int, int], None]
Announce = Callable[[Estimate], None]
SMALL_CHUNKS = 6  # up to this many chunks' work, starting processes costs more than they save
LONGEST = 60  # characters of what differs
SHOWN = 5  # this many failed chunks, or diverged seeds, are named


def train(
    data: Dataset,
    mechanism: Mechanism,
    *,
    model: Any = None,
    grid: Grid | None = None,
    records: Records | None = None,
    scaling: Scaling | None = None,
    store: str | Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    memory: int | str | None = None,
    verify: bool = False,
    strict: bool = False,
    progress: Progress | bool | None = None,
    announce: Announce | None = None,
) -> Ensemble:
    """Return the ensemble of models that a mechanism gives on a grid of seeds × neighbouring data sets.

    With `store`, a folder, what is trained is kept there: a run that was stopped goes on where it was, a larger grid
    trains only what is new, and another plan is refused. A chunk of the grid that cannot be trained is tried three
    times, then named in an error after all others are done and kept.

    Args:
        jobs: local processes; by default all cores, or none but this one for a small grid.
        cluster: the address of a Dask scheduler, such as "tcp://10.0.0.1:8786", whose workers train instead. Where
            neither is given and `joblib.parallel_config` names a backend, that one is used. The models' bits do not
            depend on any of these.
        memory: what a worker may use, in bytes or like "2GiB"; it bounds the chunks of a grid and decides only when a
            store is made.
        verify: read everything that is stored first; what is damaged is set aside and trained again.
        strict: refuse to go on where the versions, the processor or the compiler's flags are not those of the chunks
            that are stored, or of a cluster's driver; otherwise a warning names what differs.
        progress: True for a bar, also in a notebook; or a function that is called with the numbers of models done and
            of all.
        announce: is called before training with what is left to do.

    >>> from seedscope import SGD, Grid, load, train
    >>> ensemble = train(load("breast-cancer"), SGD(steps=50), grid=Grid(seeds=3, neighbours=2))
    >>> ensemble.weights.shape
    (3, 3, 1, 1, 31)
    """
    if store is not None:
        require_path("store", store)
    chunk = None if store is None else stored_chunk_shape(store)
    plan = make_plan(data, mechanism, model, grid, records, scaling, chunk, memory)
    require_workers(jobs, cluster)
    with on_cluster(cluster), shown_progress(progress) as move:
        if store is None:
            return Ensemble(train_into(MemoryStore(plan), plan, jobs, move, announce, strict))
        folder = open_store(store, plan)
        with folder.locked():
            folder.set_aside_half_written()
            if verify:
                folder.verify()
            return Ensemble(train_into(folder, plan, jobs, move, announce, strict), folder.path)


def require_workers(jobs: int | None, cluster: str | None) -> None:
    """Raise unless local processes, a cluster, or neither was asked for."""
    if jobs is not None:
        require_count("jobs", jobs)
        require(cluster is None, "jobs is the number of local processes; leave it out with a cluster: all are used.")


def train_into(
    store: Store,
    plan: Plan,
    jobs: int | None,
    progress: Progress | None = None,
    announce: Announce | None = None,
    strict: bool = False,
) -> Any:
    """Train what a store is missing and return its records."""
    fill(store, plan, jobs, progress, announce, strict)
    return store.dataset()


def fill(
    store: Store,
    plan: Plan,
    jobs: int | None,
    progress: Progress | None = None,
    announce: Announce | None = None,
    strict: bool = False,
) -> None:
    """Train what a store is missing."""
    missing = store.missing()
    if missing:
        compare_environments([*store.environments(), environment()], strict, store.path)
    jobs = jobs or default_jobs(plan, len(missing))
    if announce:
        announce(estimate(plan, missing, jobs, store.chunk_seconds(), store.path))
    done = plan.models - sum(chunk_models(plan, chunk) for chunk in missing)
    if progress:
        progress(done, plan.models)
    untried, failed = set(missing), dict[Chunk, Failure]()
    met: list[Mapping[str, str]] = [environment()]
    with closing(outcomes(plan, missing, jobs, strict)) as results:
        for chunk, outcome in results:
            untried.discard(chunk)
            if isinstance(outcome, Failure):
                failed[chunk] = outcome
                continue
            store.write(chunk, outcome.records, outcome.seconds, outcome.environment)
            if outcome.environment not in met:
                met.append(outcome.environment)
            done += chunk_models(plan, chunk)
            if progress:
                progress(done, plan.models)
    compare_environments(met, False, store.path)
    if failed:
        raise failures_error(plan, failed, len(untried), kept=store.path is not None)
    require_learned(store.diverged(), kept=store.path is not None)


def compare_environments(environments: Sequence[Mapping[str, str]], strict: bool, path: Path | None) -> None:
    """Warn, or raise if `strict`, where models were or will be trained in environments that can differ in a bit."""
    names = sorted({name for facts in environments for name in facts})
    unlike = [name for name in names if len({facts.get(name) for facts in environments}) > 1]
    if not unlike:
        return
    said = "; ".join(f"{name}: {_values(environments, name)}" for name in unlike[:SHOWN])
    where = "this run's workers" if path is None else f"the models of {path}"
    sentence = f"{where} are not all of one environment ({said}), so the same seed may differ in its last bits"
    require(not strict, f"{sentence}; train where the others were, or without strict.", argument="strict")
    warnings.warn(f"{sentence}.", SeedscopeWarning, stacklevel=3)


def _values(environments: Sequence[Mapping[str, str]], name: str) -> str:
    """Return the different values of an entry, shortened."""
    values = dict.fromkeys(known.get(name) or "unset" for known in environments)
    return " and ".join(value if len(value) <= LONGEST else f"{value[:LONGEST]}…" for value in values)


def default_jobs(plan: Plan, chunks: int) -> int:
    """Return the workers that joblib is configured with; otherwise 1 for a small grid, or the number of cores."""
    if (configured := configured_workers()) is not None:
        return configured
    per_chunk = model_work(plan) * plan.shape.seeds * plan.shape.neighbours * len(plan.inits)
    small = chunks * per_chunk <= SMALL_CHUNKS * WORK_PER_CHUNK
    return 1 if small else os.cpu_count() or 1


def failures_error(plan: Plan, failed: Mapping[Chunk, Failure], untried: int, kept: bool) -> SeedscopeError:
    """Return the error that names the chunks that could not be trained, each with its own error."""
    named = [f"{_described(plan, chunk)}: {failure.error} (at {failure.where})" for chunk, failure in failed.items()]
    more = f"; and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    skipped = f" All failed alike, so {untried} others were not tried." if untried else ""
    rest = (
        "The others are kept: run the same again to train only these." if kept else "Give a store to keep the others."
    )
    short = all("MemoryError" in failure.error or "RESOURCE_EXHAUSTED" in failure.error for failure in failed.values())
    error = (OutOfMemoryError if short else TrainingError)(
        f"{len(failed)} of the grid's chunks could not be trained: {'; '.join(named[:SHOWN])}{more}.{skipped} {rest}"
    )
    error.__cause__ = RuntimeError(next(iter(failed.values())).traceback)
    return error


def _described(plan: Plan, chunk: Chunk) -> str:
    """Return a chunk's name with its seeds and neighbours."""
    seeds = plan.shape.seed_slice(chunk, plan.grid.seeds)
    neighbours = plan.shape.neighbour_slice(chunk, len(plan.neighbours))
    places = f"seeds {seeds.start}–{seeds.stop - 1}, data sets {neighbours.start}–{neighbours.stop - 1}"
    return f"chunk {chunk.name} ({places})"


def require_learned(seeds: list[int], kept: bool) -> None:
    """Raise where models diverged, and name their seeds: what is computed from them would be meaningless."""
    if not seeds:
        return
    more = f" and {len(seeds) - SHOWN} more" if len(seeds) > SHOWN else ""
    named = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds[:SHOWN]))}{more}"
    where = " The models are kept for whoever wants to look at them." if kept else ""
    raise TrainingError(
        f"training diverged: {named} gave models whose weights are not finite numbers, or too large for a step to "
        f"change; lower the learning rate, or clip.{where}"
    )
