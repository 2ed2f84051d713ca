"""Trains a plan: its missing chunks go through joblib's processes, and each result is written once as it arrives."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.chunk_training import Arrays, Job, filed, train_chunk
from seedscope.datasets.dataset import Dataset
from seedscope.ensemble import Ensemble
from seedscope.errors import SeedscopeError, require_count
from seedscope.grid import Chunk, Grid
from seedscope.mechanisms import Mechanism
from seedscope.plan import WORK_PER_CHUNK, Plan, Records, make_plan, model_work
from seedscope.scaling import Scaling
from seedscope.store import FolderStore, MemoryStore, Store, open_store, stored_chunk_shape

Progress = Callable[[int, int], None]
SMALL_CHUNKS = 6  # up to so many chunks' work, starting processes costs more than they save
ATTEMPTS = 3


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
    verify: bool = False,
    progress: Progress | None = None,
) -> Ensemble:
    """Return the ensemble of models that a mechanism gives on a grid of seeds × neighbouring data sets.

    With `store`, a folder, what is trained is kept there: a run that was stopped goes on where it was, a larger grid
    trains only what is new, and another plan is refused. `jobs` is the number of processes; by default all cores, or
    none but this one for a small grid. `verify` reads what is stored first and trains again what is damaged.
    `progress(done, total)` is called with numbers of models.

    >>> from seedscope import SGD, Grid, load, train
    >>> ensemble = train(load("breast-cancer"), SGD(steps=50), grid=Grid(seeds=3, neighbours=2))
    >>> ensemble.weights.shape
    (3, 3, 1, 1, 31)
    """
    chunk = None if store is None else stored_chunk_shape(store)
    plan = make_plan(data, mechanism, model, grid, records, scaling, chunk)
    if jobs is not None:
        require_count("jobs", jobs)
    if store is None:
        return Ensemble(train_into(MemoryStore(plan), plan, jobs, progress))
    folder = open_store(store, plan)
    with folder.locked():
        if verify:
            folder.verify()
        return Ensemble(train_into(folder, plan, jobs, progress), folder.path)


def train_into(store: MemoryStore | FolderStore, plan: Plan, jobs: int | None, progress: Progress | None) -> Any:
    """Train what a store is missing and return its records."""
    missing = store.missing()
    done = plan.models - sum(chunk_models(plan, one) for one in missing)
    if progress:
        progress(done, plan.models)
    for chunk, records in results(plan, store, missing, jobs or default_jobs(plan, len(missing))):
        store.write(chunk, records)
        done += chunk_models(plan, chunk)
        if progress:
            progress(done, plan.models)
    return store.dataset()


def results(plan: Plan, store: Store, missing: list[Chunk], jobs: int) -> Iterator[tuple[Chunk, Arrays]]:
    """Yield each missing chunk with its records as they finish; killed workers are replaced a few times."""
    if jobs == 1 or len(missing) <= 1:
        for chunk in missing:
            yield chunk, train_chunk(plan.job, *plan.chunk_coordinates(chunk))
        return
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    for attempt in range(ATTEMPTS):
        try:
            yield from _parallel_results(plan, store.missing() if attempt else missing, jobs)
            return
        except TerminatedWorkerError:
            if attempt == ATTEMPTS - 1:
                raise SeedscopeError(
                    f"worker processes were killed {ATTEMPTS} times, likely for lack of memory; run the same again "
                    "with fewer jobs: finished chunks of a store are kept."
                ) from None


def _parallel_results(plan: Plan, chunks: list[Chunk], jobs: int) -> Iterator[tuple[Chunk, Arrays]]:
    """Yield chunks with their records from worker processes, in the order in which they finish."""
    from joblib import Parallel, delayed, parallel_config

    processes = parallel_config("loky", n_jobs=min(jobs, len(chunks)), initializer=prepare_worker)
    with tempfile.TemporaryDirectory(prefix="seedscope-") as folder, processes:
        job = filed(plan.job, Path(folder))
        tasks = (delayed(_train_named)(job, chunk, *plan.chunk_coordinates(chunk)) for chunk in chunks)
        options = {"return_as": "generator_unordered", "pre_dispatch": "2*n_jobs", "batch_size": 1, "max_nbytes": None}
        yield from Parallel(**options)(tasks)


def _train_named(job: Job, chunk: Chunk, seeds: np.ndarray, neighbours: np.ndarray) -> tuple[Chunk, Arrays]:
    """Return the chunk with its records: results arrive in any order."""
    return chunk, train_chunk(job, seeds, neighbours)


def prepare_worker() -> None:
    """Prepare a worker process, and let it end with the process that started it."""
    prepare_process()
    threading.Thread(target=leave_with, args=(os.getppid(),), daemon=True).start()


def leave_with(parent: int) -> None:
    """End this process soon after its parent has gone: a killed run leaves no workers behind."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def prepare_process() -> None:
    """Make JAX single-threaded, if it has not started yet, and let processes share what they compile."""
    os.environ.setdefault("NPROC", "1")
    import jax

    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        jax.config.update("jax_compilation_cache_dir", str(compilation_cache()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def compilation_cache() -> Path:
    """Return the folder in which compiled functions are kept for the next process."""
    root = (
        os.environ.get("SEEDSCOPE_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seedscope"
    )
    return Path(root) / "compiled"


def default_jobs(plan: Plan, chunks: int) -> int:
    """Return 1 for a small grid, otherwise the number of cores."""
    per_chunk = model_work(plan) * plan.shape.seeds * plan.shape.neighbours * len(plan.inits)
    small = chunks * per_chunk <= SMALL_CHUNKS * WORK_PER_CHUNK
    return 1 if small else os.cpu_count() or 1


def chunk_models(plan: Plan, chunk: Chunk) -> int:
    """Return how many models of the grid a chunk holds."""
    seeds = plan.shape.seed_slice(chunk, plan.grid.seeds)
    neighbours = plan.shape.neighbour_slice(chunk, len(plan.neighbours))
    return (seeds.stop - seeds.start) * (neighbours.stop - neighbours.start) * len(plan.inits)
