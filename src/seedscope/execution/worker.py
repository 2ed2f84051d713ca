"""What a worker does: it sets itself up once, gets its job once, and answers each chunk with records or a failure."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from seedscope.core import SeedscopeError, cache_folder, sweep
from seedscope.planning import Chunk, environment, software_versions
from seedscope.training import Arrays, FiledJob, Job, train_chunk

LONGEST_ERROR = 300  # characters of an error that are worth showing


@dataclass(frozen=True)
class Failure:
    """A chunk that could not be trained: why, where, and whether trying again is in vain."""

    error: str
    where: str
    lasting: bool = False
    traceback: str = ""


@dataclass(frozen=True)
class Trained:
    """A chunk's records, and how long training took."""

    records: Arrays
    seconds: float
    environment: Mapping[str, str]


Outcome = tuple[Chunk, Trained | Failure]


@dataclass(frozen=True)
class Expected:
    """What a worker of a cluster must have to give the driver's bits: its software, and its answer to the self-test.

    With `strict` also its processor, kernels and compiler's flags.
    """

    versions: Mapping[str, str]
    answer: int
    environment: Mapping[str, str]
    strict: bool = False


_delivered: dict[str, tuple[Job, Expected]] = {}


def attempt(job: Job | FiledJob | str, chunk: Chunk, seeds: np.ndarray, neighbours: np.ndarray) -> Outcome:
    """Return the chunk with its records, or with the failure to train it: one bad chunk must not end the others.

    The job comes along with its arrays in files, or, as a text, it is the fingerprint of one that was delivered.
    """
    try:
        if isinstance(job, str):
            job = _taken(job)
        elif isinstance(job, FiledJob):
            prepare_process()
        start = time.perf_counter()
        records = train_chunk(job, seeds, neighbours)
        return chunk, Trained(records, time.perf_counter() - start, environment())
    except Exception as error:  # whatever a user's own model raises
        return chunk, failure(error)


def failure(error: BaseException, where: str | None = None) -> Failure:
    """Return the failure that an exception means; Seedscope's own errors come again wherever one tries."""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_ERROR]
    lasting = isinstance(error, SeedscopeError)
    trace = "".join(traceback.format_exception(error))
    return Failure(str(error) if lasting else text, where or whereabouts(), lasting, trace)


def whereabouts() -> str:
    """Return a name of this worker: its address in a Dask cluster, else machine and process."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        try:
            return str(get_worker().address)
        except ValueError:  # not in a Dask worker
            pass
    return f"{socket.gethostname()}, process {os.getpid()}"


def deliver(job: Job, expected: Expected) -> None:
    """Keep a job that chunks will name by its fingerprint, with what the driver expects of who trains it."""
    prepare_process()
    _delivered[job.fingerprint] = job, expected


def forget(fingerprint: str) -> None:
    """Drop a delivered job."""
    _delivered.pop(fingerprint, None)


def has_jobs() -> bool:
    """Whether any job has been delivered here and not dropped yet."""
    return bool(_delivered)


def _taken(fingerprint: str) -> Job:
    """Return a delivered job, or raise where this worker would give other bits."""
    if fingerprint not in _delivered:
        raise RuntimeError("the job was not delivered to this worker")
    job, expected = _delivered[fingerprint]
    require_fit(expected, job.model is not None)
    return job


def require_fit(expected: Expected, uses_network: bool) -> None:
    """Raise unless this worker has the driver's software and gives the driver's bits."""
    from seedscope.execution.self_test import self_test  # start-up

    own = software_versions() | (environment() if expected.strict else {})
    wanted = {**expected.versions, **(expected.environment if expected.strict else {})}
    unlike = [f"{name} {own.get(name)}, not {version}" for name, version in wanted.items() if own.get(name) != version]
    if unlike:
        raise RuntimeError(f"the worker has {'; '.join(unlike)}: install the driver's versions on every machine")
    if self_test(uses_network) != expected.answer:
        raise RuntimeError(f"the worker fails the self-test, its bits are not the driver's ({_unlike(expected)})")


def _unlike(expected: Expected) -> str:
    """Return in words how a worker's environment differs from the driver's."""
    own = environment()
    names = sorted(own.keys() | expected.environment.keys())
    unlike = [name for name in names if own.get(name) != expected.environment.get(name)]
    return f"it differs in {', '.join(unlike)}" if unlike else "nothing that is known differs"


def prepare_worker(parent: int, _attempt: int = 0) -> None:
    """Prepare a worker process, and let it end with the process that started it; who stops that one stops all.

    The parent says who it is: it may be gone before a worker on a busy machine could ask.
    """
    threading.Thread(target=leave_with, args=(parent,), daemon=True).start()
    prepare_process()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def leave_with(parent: int) -> None:
    """End this process soon after its parent has gone: a killed run leaves no workers and no rows behind.

    The folder with the training rows is known by its lock, which nobody holds any more; a worker that was told its name
    could not be used again for the next training.
    """
    while os.getppid() == parent:
        time.sleep(1)
    sweep(Path(tempfile.gettempdir()))
    os._exit(1)


@cache
def prepare_process() -> None:
    """Make JAX single-threaded, if it has not started yet, and let processes share what they compile.

    Where JAX is not imported yet it reads these settings when it is: minimisers never need it.
    """
    os.environ.setdefault("NPROC", "1")
    settings = {
        "jax_compilation_cache_dir": str(compilation_cache()),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    if jax := sys.modules.get("jax"):
        if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
            for name, value in settings.items():
                jax.config.update(name, value)
    elif "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ.update({name.upper(): str(value) for name, value in settings.items()})


def compilation_cache() -> Path:
    """Return the folder in which compiled functions are kept for the next process."""
    return cache_folder() / "compiled"
