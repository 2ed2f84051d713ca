"""What a worker does: it sets itself up once, gets its job once, and answers each chunk with records or a failure."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from seedscope.chunk_training import Arrays, Job, is_filed, train_chunk
from seedscope.errors import SeedscopeError
from seedscope.grid import Chunk

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


Outcome = tuple[Chunk, Trained | Failure]

_delivered: dict[str, tuple[Job, dict[str, str]]] = {}


def attempt(job: Job | str, chunk: Chunk, seeds: np.ndarray, neighbours: np.ndarray) -> Outcome:
    """Return the chunk with its records, or with the failure to train it: one bad chunk must not end the others.

    The job comes along with its arrays in files, or, as a text, it is the fingerprint of one that was delivered.
    """
    try:
        if isinstance(job, str):
            job = _taken(job)
        elif is_filed(job):
            prepare_process()
        start = time.perf_counter()
        records = train_chunk(job, seeds, neighbours)
        return chunk, Trained(records, time.perf_counter() - start)
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


def deliver(job: Job, versions: dict[str, str]) -> None:
    """Keep a job that chunks will name by its fingerprint, with the versions of the driver's software."""
    prepare_process()
    _delivered[job.fingerprint] = job, versions


def forget(fingerprint: str) -> None:
    """Drop a delivered job."""
    _delivered.pop(fingerprint, None)


def has_jobs() -> bool:
    """Whether any job has been delivered here and not dropped yet."""
    return bool(_delivered)


def _taken(fingerprint: str) -> Job:
    """Return a delivered job, or raise where this worker's software would give other bits."""
    from seedscope.plan import software_versions

    if fingerprint not in _delivered:
        raise RuntimeError("the job was not delivered to this worker")
    job, versions = _delivered[fingerprint]
    here = software_versions()
    other = [f"{name} {here.get(name)}, not {one}" for name, one in versions.items() if here.get(name) != one]
    if other:
        raise RuntimeError(f"the worker has {'; '.join(other)}: install the driver's versions on every machine")
    return job


def prepare_worker(_attempt: int = 0) -> None:
    """Prepare a worker process, and let it end with the process that started it."""
    prepare_process()
    threading.Thread(target=leave_with, args=(os.getppid(),), daemon=True).start()


def leave_with(parent: int) -> None:
    """End this process soon after its parent has gone: a killed run leaves no workers behind."""
    while os.getppid() == parent:
        time.sleep(1)
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
    root = (
        os.environ.get("SEEDSCOPE_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seedscope"
    )
    return Path(root) / "compiled"
