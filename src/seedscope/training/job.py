"""What a worker needs of a plan to train any of its chunks; with its arrays in memory, or in files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from seedscope.core import Relation

Arrays = dict[str, np.ndarray]
ChunkTrainer = Callable[[np.ndarray, np.ndarray], Arrays]


class Trains(Protocol):
    """What a job needs of its mechanism: how it trains."""

    def trainer(self, job: Job) -> ChunkTrainer:
        """Return the function (seeds, neighbours) → records [seed, neighbour, init, ...]."""


class Maps(Protocol):
    """What scaling needs: a map of rows."""

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Return the scaled rows."""


class Refits(Protocol):
    """What a job needs of a scaling that is learned from the rows."""

    @property
    def draws(self) -> bool:
        """Whether every model has a scaling of its own."""

    def refit(self, features: np.ndarray, draw: Callable[[float, int], np.ndarray]) -> Maps:
        """Return the scaling fitted on these training rows."""


@dataclass(frozen=True, eq=False)
class Job:
    """What training needs of a plan, apart from the chunk; rows and labels have the spare example last."""

    fingerprint: str
    mechanism: Trains
    model: Any
    classes: int
    norm_bound: float | None  # of a row with its bias, public
    relation: Relation
    root_seed: int
    inits: tuple[str, ...]
    checkpoints: tuple[int, ...]
    scores_at_checkpoints: bool
    rows: np.ndarray
    labels: np.ndarray
    probe_rows: np.ndarray
    probe_labels: np.ndarray
    watched_rows: np.ndarray | None = None
    watched_labels: np.ndarray | None = None
    norms_every: int = 1
    norms_precision: str = "float32"
    path_orders: tuple[float, ...] = ()  # where only sums of step divergences are recorded: at these orders
    traced: np.ndarray | None = None  # indices of the rows whose Fisher traces are recorded
    private_columns: tuple[int, ...] | None = None  # that Fisher traces are about; None: all
    lossy: np.ndarray | None = None  # indices of the rows whose privacy losses are recorded
    cargo: Any = None  # what a user's own model needs besides arrays
    noise_key: str = ""  # what noise is keyed by beside the root seed: mechanism, level, and use of the data
    owners: np.ndarray | None = None  # whose each row is, the spare example nobody's; None: every row is a person
    scaling: Refits | None = None  # where it is learned: then rows are scaled anew for every neighbour
    raw_rows: np.ndarray | None = None  # before scaling, like `rows`; likewise the next two
    raw_probe_rows: np.ndarray | None = None
    raw_watched_rows: np.ndarray | None = None

    @property
    def examples(self) -> int:
        """How many rows a model is trained on."""
        return len(self.rows) - 1

    @cached_property
    def noise_seed(self) -> int:
        """The root of the noise: two mechanisms, levels or data sets never share a draw."""
        if not self.noise_key:
            return self.root_seed
        return int.from_bytes(hashlib.sha256(f"{self.root_seed}:{self.noise_key}".encode()).digest()[:16], "big")

    def rows_of(self, neighbour: int) -> np.ndarray:
        """Return the rows that a neighbouring data set lacks: one, or all of a person."""
        if self.owners is None:
            return np.array([neighbour])
        return np.flatnonzero(self.owners == self.owners[neighbour])

    def lacking(self, neighbours: np.ndarray) -> np.ndarray:
        """Return what each neighbouring data set lacks: the row's number, or the person's (−1: nothing)."""
        if self.owners is None:
            return neighbours
        return np.where(neighbours < 0, neighbours, self.owners[neighbours])

    @property
    def probes(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The rows and labels on which scores are recorded, None where there are none."""
        return (self.probe_rows, self.probe_labels) if len(self.probe_rows) else None

    def loaded(self) -> Job:
        """Return the job itself: its arrays are in memory."""
        return self


CARGO = "cargo"
RAW = {"rows": "raw_rows", "probe_rows": "raw_probe_rows", "watched_rows": "raw_watched_rows"}
ARRAYS = (
    "rows", "labels", "probe_rows", "probe_labels", "watched_rows", "watched_labels", "traced", "lossy", "owners",
    *RAW.values(),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class FiledJob:
    """A job whose arrays are in files of a folder: what is sent with every chunk is then small."""

    bare: Job  # without its arrays
    folder: Path

    @property
    def fingerprint(self) -> str:
        """The job's fingerprint."""
        return self.bare.fingerprint

    @property
    def model(self) -> Any:
        """The job's model."""
        return self.bare.model

    @classmethod
    def write(cls, job: Job, folder: Path) -> FiledJob:
        """Return the job after its arrays were written to files."""
        for name, array in _arrays(job).items():
            np.save(folder / f"{name}.npy", array)
        if job.cargo is not None:
            import joblib

            joblib.dump(job.cargo, folder / CARGO)
        nothing: Any = np.zeros(0)
        return cls(replace(job, cargo=None, **dict.fromkeys(_arrays(job), nothing)), folder)

    def loaded(self) -> Job:
        """Return the job with its arrays: mapped, so that workers share them."""
        try:
            arrays: Any = {name: np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in _arrays(self.bare)}
        except FileNotFoundError as error:
            raise RuntimeError(
                f"the worker cannot read {error.filename}: set TMPDIR to a folder that all workers share"
            ) from error
        return replace(self.bare, cargo=self._cargo(), **arrays)

    def _cargo(self) -> Any:
        """Return the cargo, its arrays mapped too; None where there is none."""
        import joblib

        return joblib.load(self.folder / CARGO, mmap_mode="r") if (self.folder / CARGO).exists() else None


def _arrays(job: Job) -> dict[str, np.ndarray]:
    """Return the arrays that a job has, by name."""
    return {name: array for name in ARRAYS if (array := getattr(job, name)) is not None}
