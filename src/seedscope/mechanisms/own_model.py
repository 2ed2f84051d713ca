"""A model of the user's own, trained by their code or elsewhere: what the rest of the library needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from seedscope.core import Relation, require
from seedscope.mechanisms.base import Load, Mechanism
from seedscope.mechanisms.guarantees import Conditions, Guarantee
from seedscope.training import ChunkTrainer, Job

SPEED = 1e10  # this many operations count as one second of a user's own training: a chunk is then 1.5 seconds


class Cargo(Protocol):
    """What travels to the workers with a user's own model, and how it trains there."""

    @property
    def seconds(self) -> float:
        """How long training one model took when it was tried."""

    @property
    def identity(self) -> str:
        """A text that tells it from any other, also of code that reads the same and refers to something else."""

    def trainer(self, job: Job) -> ChunkTrainer:
        """Return the function (seeds, neighbours) → records [seed, neighbour, init, ...]."""


@dataclass(frozen=True)
class OwnModel(Mechanism):
    """Whatever the user's own training does with a seed and rows; nothing is proved about it.

    `label` names it, `said` says in words how it was trained, `settings` is a text that is equal for two that train
    alike. Each seed may also draw the rows anew (`resample="bootstrap"`); the `draw` tells apart the seeds that share
    a sample. Without what it carries it only describes models that exist already.
    """

    label: str = "models from elsewhere"
    said: str = "trained elsewhere; only their predictions are known here"
    settings: str = ""
    resample: Literal["none", "bootstrap"] = "none"
    draw: int = 0
    carried: Cargo | None = field(default=None, compare=False, repr=False)

    relation: ClassVar[Relation] = "add_or_remove"
    shares_work: ClassVar[Literal["neighbours", "seeds"]] = "seeds"
    takes_network: ClassVar[bool] = False
    has_initial_point: ClassVar[bool] = False
    precision: ClassVar[type] = np.float64
    adds_noise: ClassVar[bool] = False
    records_weights: ClassVar[bool] = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is carried: a job has it once, chunks do not bring it again."""
        return self.__dict__ | {"carried": None}

    def describe(self) -> dict[str, Any]:
        described = super().describe()
        return {name: value for name, value in described.items() if name != "carried"}

    @property
    def sampling(self) -> None:
        """None: how the user's own training draws batches is not known."""
        return None

    @property
    def name(self) -> str:
        return self.label

    def cargo(self) -> Cargo | None:
        return self.carried

    def check(self, conditions: Conditions) -> None:
        """Raise where there is nothing to train with."""
        require(self.carried is not None, f"{self.label} cannot be trained here: only their predictions are known.")

    def guarantee(self, conditions: Conditions) -> Guarantee:
        """Return that none is proved: what the user's own training does is not known here."""
        return Guarantee.none(self.relation, 0.0, f"nothing is proved about {self.label}: it is the user's own.")

    def trainer(self, job: Job) -> ChunkTrainer:
        require(job.cargo is not None, f"{self.label} cannot be trained here: only their predictions are known.")
        train: ChunkTrainer = job.cargo.trainer(job)
        return train

    def words(self) -> str:
        return self.said

    def work(self, load: Load) -> float:
        return SPEED * (1.0 if self.carried is None else self.carried.seconds)

    def memory(self, load: Load) -> int:
        return 8 * (3 * load.recorded + load.examples)

    def speed(self, load: Load) -> float:
        return SPEED
