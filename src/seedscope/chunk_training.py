"""What a worker does: train one chunk of a plan and return its records as arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.blas import one_blas_thread
from seedscope.mechanisms import CONVEX, DPSGD, AugmentedOutputPerturbation, Relation, Setting
from seedscope.streams import normals

Arrays = dict[str, np.ndarray]
ChunkTrainer = Callable[[np.ndarray, np.ndarray], Arrays]


@dataclass(frozen=True, eq=False)
class Job:
    """What training needs of a plan, apart from the chunk; rows and labels have the spare example last."""

    fingerprint: str
    mechanism: Any
    model: Any
    classes: int
    setting: Setting
    relation: Relation
    root_seed: int
    inits: tuple[str, ...]
    steps: tuple[int, ...]
    scores_at_checkpoints: bool
    rows: np.ndarray
    labels: np.ndarray
    probe_rows: np.ndarray
    probe_labels: np.ndarray
    watched_rows: np.ndarray | None = None
    watched_labels: np.ndarray | None = None
    norms_every: int = 1
    norms_precision: str = "float32"
    traced: np.ndarray | None = None  # indices of the rows whose Fisher traces are recorded


ARRAYS = ("rows", "labels", "probe_rows", "probe_labels", "watched_rows", "watched_labels", "traced")
_trainers: dict[str, ChunkTrainer] = {}
_preparing = threading.Lock()


def filed(job: Job, folder: Path) -> Job:
    """Return the job with its arrays written to files of a folder: what is sent with every chunk is then small."""
    paths: dict[str, Any] = {}
    for name in ARRAYS:
        if (array := getattr(job, name)) is not None:
            paths[name] = folder / f"{name}.npy"
            np.save(paths[name], array)
    return replace(job, **paths)


def is_filed(job: Job) -> bool:
    """Whether the job's arrays are in files."""
    return isinstance(job.rows, Path)


def loaded(job: Job) -> Job:
    """Return the job with the arrays that were written to files: mapped, so that workers share them."""
    paths = {name: one for name in ARRAYS if isinstance(one := getattr(job, name), Path)}
    try:
        return replace(job, **{name: np.load(path, mmap_mode="r") for name, path in paths.items()})
    except FileNotFoundError as error:
        raise RuntimeError(
            f"the worker cannot read {error.filename}: set TMPDIR to a folder that all workers share"
        ) from error


def train_chunk(job: Job, seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
    """Return the records [seed, neighbour, init, ...] of a chunk; the job is prepared once in each process."""
    with one_blas_thread():  # cores are shared out by chunks
        return _trainer(job)(seeds, neighbours)


def _trainer(job: Job) -> ChunkTrainer:
    """Return the function that trains the job's chunks; only the latest job's is kept."""
    with _preparing:
        if job.fingerprint not in _trainers:
            _trainers.clear()
            _trainers[job.fingerprint] = _prepare(loaded(job))
        return _trainers[job.fingerprint]


def _prepare(job: Job) -> ChunkTrainer:
    """Return the function that trains the job's chunks."""
    if isinstance(job.mechanism, CONVEX):
        return _convex(job)
    if isinstance(job.mechanism, DPSGD):
        return _dpsgd(job)
    return _augmented(job) if isinstance(job.mechanism, AugmentedOutputPerturbation) else _gradient(job)


def _gradient(job: Job) -> ChunkTrainer:
    """Return the trainer for gradient steps."""
    from seedscope.models import network_of
    from seedscope.training import train_sgd

    network = network_of(job.model, job.rows.shape[1:], job.classes)
    probes = (job.probe_rows, job.probe_labels) if len(job.probe_rows) else None

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        return train_sgd(
            job.mechanism, network, job.relation, job.root_seed, seeds, neighbours, job.inits, job.steps, job.rows,
            job.labels, probes, job.scores_at_checkpoints,
        )  # fmt: skip

    return train


def _dpsgd(job: Job) -> ChunkTrainer:
    """Return the trainer for clipped gradients plus noise."""
    from seedscope.dpsgd import People, rounded_up, train_dpsgd
    from seedscope.models import network_of

    network = network_of(job.model, job.rows.shape[1:], job.classes)
    probes = (job.probe_rows, job.probe_labels) if len(job.probe_rows) else None
    people = None
    if job.watched_rows is not None and job.watched_labels is not None:
        people = People(job.watched_rows, job.watched_labels, job.norms_every)

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        records = train_dpsgd(
            job.mechanism, network, job.relation, job.root_seed, seeds, neighbours, job.inits, job.steps, job.rows,
            job.labels, probes, job.scores_at_checkpoints, people, job.traced,
        )  # fmt: skip
        if people is None:
            return records
        norms = rounded_up(records["gradient_norms"], job.norms_precision)
        return records | {"gradient_norms": norms, "correct": records["correct"].astype(np.float16)}

    return train


def _augmented(job: Job) -> ChunkTrainer:
    """Return the trainer for SGD whose weights get the noise that the seed lacks, and are scored with it."""
    from seedscope.models import network_of
    from seedscope.training import score_block, train_sgd

    mechanism: AugmentedOutputPerturbation = job.mechanism
    network = network_of(job.model, job.rows.shape[1:], job.classes)

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        records = train_sgd(
            mechanism.sgd, network, job.relation, job.root_seed, seeds, neighbours, job.inits, job.steps, job.rows,
            job.labels, None,
        )  # fmt: skip
        weights = records["weights"]
        noise = mechanism.added_noise() * normals(job.root_seed, "augmentation", seeds, weights.shape[-1])
        weights = (weights + noise[:, None, None, None, :]).astype(np.float32)
        if not len(job.probe_rows):
            return {"weights": weights}
        released = weights if job.scores_at_checkpoints else weights[..., -1, :]
        models = released.reshape(len(seeds), -1, weights.shape[-1])
        scored = score_block(network, models, (job.probe_rows, job.probe_labels))
        shaped = {name: np.asarray(one).reshape(*released.shape[:-1], *one.shape[2:]) for name, one in scored.items()}
        return {"weights": weights, **shaped}

    return train


def _convex(job: Job) -> ChunkTrainer:
    """Return the trainer for minimisers."""
    from seedscope.perturbation import ConvexTrainer, linear_scores

    trainer = ConvexTrainer(job.mechanism, job.setting, job.relation, job.rows, job.labels)

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        records = trainer.train(job.root_seed, seeds, neighbours)
        weights = records["weights"][:, :, None]  # [seed, neighbour, init, weight]
        kept: Arrays = {
            "weights": weights[:, :, :, None].astype(np.float32),
            "gradient_norms": records["gradient_norms"][:, :, None],
        }
        if len(job.probe_rows):
            scored = weights[:, :, :, None] if job.scores_at_checkpoints else weights
            kept |= linear_scores(scored, job.probe_rows, job.probe_labels)
        return kept

    return train
