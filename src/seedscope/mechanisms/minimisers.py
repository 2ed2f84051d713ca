"""Mechanisms that release a minimiser of regularised logistic regression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from seedscope.core import require
from seedscope.mechanisms.base import COPIES, Load, Mechanism
from seedscope.mechanisms.guarantees import Conditions
from seedscope.training import (
    NOISE_STREAM,
    ChunkTrainer,
    Job,
    Release,
    Surrogate,
    SystemDraws,
    convex_trainer,
    linear_surrogate,
    published_minimiser,
)

RESIDUAL = 1e-6  # of R/N: what the solver may leave of the mean objective's gradient; it is checked, and counted with
SPEED = 3.5e9  # floating-point operations per second of one core, from `python -m benchmarks`


class MinimiserMechanism(Mechanism):
    """Base of the mechanisms that minimise: no batches, no initial point, double precision."""

    shares_work: ClassVar[Literal["neighbours", "seeds"]] = "seeds"
    takes_network: ClassVar[bool] = False
    has_initial_point: ClassVar[bool] = False
    precision: ClassVar[type] = np.float64
    publishes_exactly: ClassVar[bool] = True
    smooths: ClassVar[bool] = True
    noise_stream: ClassVar[int | None] = NOISE_STREAM
    has_surrogate: ClassVar[bool] = True
    surrogate_afterwards: ClassVar[bool] = True
    multinomial: ClassVar[bool] = False  # whether more than two classes are allowed
    model_records: ClassVar[Mapping[str, str]] = {"residual_norms": "float64"}  # what solving left of the gradient

    @property
    def sampling(self) -> None:
        """None: there are no batches."""
        return None

    @abstractmethod
    def release(self, conditions: Conditions) -> Release:
        """Return what is minimised, and what is released of it."""

    def trainer(self, job: Job) -> ChunkTrainer:
        return convex_trainer(job, self._release_of(job))

    def surrogate(self, job: Job) -> Surrogate | None:
        return linear_surrogate(job, self._release_of(job))

    def published(self, job: Job, draws: SystemDraws, epsilon: float) -> np.ndarray:
        """Return a minimiser solved to the last digits, smoothed at the price ε, on a grid."""
        return published_minimiser(job, self._release_of(job), draws, epsilon)

    def _release_of(self, job: Job) -> Release:
        """Return what is released of a job's minimiser."""
        width = job.rows.shape[1] + 1
        return self.release(Conditions(job.examples, job.norm_bound, classes=job.classes, width=width))

    def check(self, conditions: Conditions) -> None:
        """Raise unless the data are a table of classes that the mechanism can do, and the model logistic regression."""
        require(conditions.convex, f"{self.name} needs model=logistic(), got {conditions.model}.")
        can = self.multinomial or conditions.classes == 2
        require(can, f"{self.name} is for two classes, the data have {conditions.classes}.")
        require(conditions.is_table, f"{self.name} needs a table of features, the data are images.")
        self.norm_bound(conditions)

    def cannot_lose_together(self, rows: int, classes: int) -> str:
        return ""

    def work(self, load: Load) -> float:
        return 60.0 * load.examples * load.parameters  # about ten Newton steps

    def memory(self, load: Load) -> int:
        return 8 * (COPIES * load.recorded + 8 * load.parameters + 2 * load.examples)

    def speed(self, load: Load) -> float:
        return SPEED

    def residual(self, examples: int, norm_bound: float) -> float:
        """Return the norm of the mean objective's gradient that solving may leave."""
        return RESIDUAL * norm_bound / examples

    def norm_bound(self, conditions: Conditions) -> float:
        """Return the public norm bound, or raise where there is none."""
        bound = conditions.norm_bound
        needed = f"{self.name} needs rows with a public norm bound; train with scaling=Standardised()."
        require(bound is not None, needed)
        return float(bound)  # type: ignore[arg-type]
