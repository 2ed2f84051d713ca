"""Trains one chunk: what a job's mechanism prepares is kept, so that its next chunks start at once."""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext

import numpy as np

from seedscope.core import one_blas_thread, settled
from seedscope.training.job import Arrays, ChunkTrainer, FiledJob, Job
from seedscope.training.refitting import refitting_trainer

_trainers: dict[str, ChunkTrainer] = {}
_preparing = threading.Lock()


def train_chunk(job: Job | FiledJob, seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
    """Return the records [seed, neighbour, init, ...] of a chunk; the job is prepared once in each process."""
    uses_jax = job.model is not None or sys.modules.get("jax") is not None  # minimisers never load it
    with one_blas_thread(), settled() if uses_jax else nullcontext():  # cores are shared out by chunks
        return _trainer(job)(seeds, neighbours)


def _trainer(job: Job | FiledJob) -> ChunkTrainer:
    """Return the function that trains the job's chunks; only the latest job's is kept."""
    with _preparing:
        if job.fingerprint not in _trainers:
            _trainers.clear()
            whole = job.loaded()
            prepared = whole.mechanism.trainer(whole) if whole.scaling is None else refitting_trainer(whole)
            _trainers[job.fingerprint] = prepared
        return _trainers[job.fingerprint]
