"""Trains a user's own model on the grid: what travels to the workers, and what they record.

A job's rows are row numbers of the user's table. A model that fails leaves records that are not numbers, so that the
others are kept; the driver says which and why.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from seedscope.core import SeedscopeError, require
from seedscope.integrations.fitted_scores import fitted_scores
from seedscope.integrations.seeding import seeded
from seedscope.storage import log_losses
from seedscope.training import Arrays, ChunkTrainer, Job, generator

Resample = Literal["none", "bootstrap"]


@dataclass(frozen=True, eq=False)
class OwnTraining(ABC):
    """What travels to the workers: the user's code, what it learns from, and how rows and random numbers are drawn."""

    packed: bytes  # the estimator or the function; workers may not know the module that defines it
    table: Any
    labels: np.ndarray  # of all rows, as the user gave them
    resample: Resample
    draw: int
    seeds: int  # of the grid: what pads its last chunk is not trained
    seconds: float = 1.0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was unpacked here."""
        return {name: value for name, value in self.__dict__.items() if name not in ("code", "classes")}

    @cached_property
    def code(self) -> Any:
        """The estimator or the function."""
        return pickle.loads(self.packed)

    @cached_property
    def classes(self) -> np.ndarray:
        """The labels' values, ascending."""
        return np.unique(self.labels)

    @property
    def identity(self) -> str:
        """What tells it from any other: the code with what it refers to, and how many seeds it knows of."""
        way = f"{type(self).__name__} {self.resample} {self.draw} {self.seeds}"
        return hashlib.sha256(self.packed + way.encode()).hexdigest()[:16]

    @abstractmethod
    def scores(self, rows: np.ndarray, draw: np.random.Generator, probes: np.ndarray) -> np.ndarray:
        """Return scores of the probes by a model trained on these rows with these random numbers."""

    def model(self, root_seed: int, seed: int, rows: np.ndarray, probes: np.ndarray) -> np.ndarray:
        """Return scores of the probes by the model of one seed on the rows of one data set."""
        if self.resample == "bootstrap":
            rows = rows[generator(root_seed, "bootstrap", seed).integers(len(rows), size=len(rows))]
        return self.scores(rows, generator(root_seed, f"own model {self.draw}", seed), probes)

    def trainer(self, job: Job) -> ChunkTrainer:
        """Return the function (seeds, neighbours) → records [seed, neighbour, init, ...]."""
        from threadpoolctl import ThreadpoolController

        controller = ThreadpoolController() if self.code is not None else None  # after its libraries are loaded
        probes, labels = job.probe_rows[:, 0].astype(int), job.probe_labels.astype(int)

        def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
            assert controller is not None
            with controller.limit(limits=1), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the same for every model, and said once when it was tried
                answers = [self._data_sets(job, int(seed), neighbours, probes) for seed in seeds]
            scores = np.stack(answers)[:, :, None]
            losses = log_losses(scores, labels, len(self.classes))
            return {"scores": scores.astype(np.float32), "losses": losses.astype(np.float32)}

        return train

    def _data_sets(self, job: Job, seed: int, neighbours: np.ndarray, probes: np.ndarray) -> np.ndarray:
        """Return scores [neighbour, probe(, class)] of one seed; what stands there twice is trained once."""
        different, places = np.unique(neighbours, return_inverse=True)
        return np.stack([self._or_nothing(job, seed, int(neighbour), probes) for neighbour in different])[places]

    def _or_nothing(self, job: Job, seed: int, neighbour: int, probes: np.ndarray) -> np.ndarray:
        """Return one model's scores; not numbers where it fails, or is beyond the grid."""
        nothing = np.full((len(probes), *((len(self.classes),) if len(self.classes) > 2 else ())), np.nan)
        if seed >= self.seeds:
            return nothing
        try:
            return self.model(job.root_seed, seed, rows_of(job, neighbour), probes)
        except Exception:  # whatever the user's own code raises: the driver tries it again and says what
            return nothing


def rows_of(job: Job, neighbour: int) -> np.ndarray:
    """Return the row numbers of a neighbouring data set: one taken out, or replaced by the spare one."""
    return neighbouring(job.rows[:-1, 0].astype(int), int(job.rows[-1, 0]), job.relation, neighbour)


def neighbouring(rows: np.ndarray, spare: int, relation: str | None, neighbour: int) -> np.ndarray:
    """Return the rows of the base without one, or with the spare one in its place; the base's own below 0.

    >>> neighbouring(np.array([4, 5, 6]), 9, "replace_one", 1).tolist()
    [4, 9, 6]
    """
    if neighbour < 0:
        return rows
    if relation == "add_or_remove":
        return np.delete(rows, neighbour)
    return np.where(np.arange(len(rows)) == neighbour, spare, rows)


@dataclass(frozen=True, eq=False)
class EstimatorTraining(OwnTraining):
    """Fits clones of an estimator."""

    def scores(self, rows: np.ndarray, draw: np.random.Generator, probes: np.ndarray) -> np.ndarray:
        from sklearn.utils import _safe_indexing

        model = seeded(self.code, draw).fit(_safe_indexing(self.table, rows), self.labels[rows])
        return fitted_scores(model, _safe_indexing(self.table, probes), self.classes)


@dataclass(frozen=True, eq=False)
class FunctionTraining(OwnTraining):
    """Calls a function `train(indices, seed)` that returns scores of all rows."""

    def scores(self, rows: np.ndarray, draw: np.random.Generator, probes: np.ndarray) -> np.ndarray:
        returned = np.asarray(self.code(rows.copy(), int(draw.integers(2**31 - 1))), float)
        scores: np.ndarray = _checked(returned, len(self.labels), len(self.classes))[probes]
        return scores


def _checked(scores: np.ndarray, rows: int, classes: int) -> np.ndarray:
    """Return a function's scores, or raise where their shape or values are others than promised."""
    wanted = f"[{rows}]" if classes == 2 else f"[{rows}, {classes}]"
    if scores.ndim == 2 and classes == 2 and scores.shape[1] == 2:
        scores = scores[:, 1]
    right = scores.shape == ((rows,) if classes == 2 else (rows, classes))
    require(right, f"train(indices, seed) must return scores of all rows, {wanted}, got shape {scores.shape}.")
    require(np.isfinite(scores) & (scores >= 0) & (scores <= 1), "train(indices, seed) must return scores from 0 to 1.")
    return scores


def packed(code: Any) -> bytes:
    """Return an estimator or a function as bytes that another process can read, though it was defined in a notebook."""
    import cloudpickle

    try:
        sent: bytes = cloudpickle.dumps(code)
    except Exception as error:  # whatever an object's own pickling raises
        name = getattr(code, "__name__", type(code).__name__)
        raise SeedscopeError(
            f"{name} cannot be sent to other processes ({error}); keep open files out of it."
        ) from error
    return sent
