"""Fits of scikit-learn's that our own code carries out: many at a time, checked against one of the estimator's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from seedscope.core import SeedscopeError
from seedscope.integrations.seeding import seeded
from seedscope.integrations.training import EstimatorTraining, rows_of
from seedscope.storage import log_losses
from seedscope.training import Arrays, ChunkTrainer, Job, generator

SINGLE = "its steps on numbers of single precision are its own"


@dataclass(frozen=True, eq=False)
class Sample:
    """What one model is trained with: rows of the table in their order, and the generator of its random states."""

    rows: np.ndarray
    draw: np.random.Generator


@dataclass(frozen=True, eq=False)
class MovedTraining(EstimatorTraining):
    """Trains many models of an estimator without it."""

    quicker: ClassVar[int]  # about how many times, for the size of chunks
    needs_networks: ClassVar[bool] = False  # its steps are taken by JAX

    @classmethod
    def of(cls, training: EstimatorTraining) -> Self:
        """Return the training of the same models by our own code."""
        taken = {field.name: getattr(training, field.name) for field in fields(EstimatorTraining)}
        return cls(**taken | {"seconds": training.seconds / cls.quicker})

    @property
    def last(self) -> Any:
        """The estimator, or the last step of its pipeline."""
        return before_and_last(self.code)[1]

    @abstractmethod
    def foreign(self) -> str:
        """Return which setting, or what of the data, our own code does not have; empty for nothing."""

    @abstractmethod
    def coefficients(self, samples: Sequence[Sample]) -> np.ndarray:
        """Return all weights [model, weight] of models trained on these samples."""

    @abstractmethod
    def scored(self, samples: Sequence[Sample], probes: np.ndarray) -> np.ndarray:
        """Return scores [model, probe(, class)] by models trained on these samples."""

    @abstractmethod
    def coefficients_of(self, fitted: Any) -> np.ndarray:
        """Return the weights of the estimator itself once it is fitted, in the order of ours."""

    def reference(self) -> Any:
        """Return the estimator whose one fit is compared."""
        return self.code

    def trainer(self, job: Job) -> ChunkTrainer:
        """Return the function (seeds, neighbours) → records; what cannot be trained together is fitted one by one."""
        from threadpoolctl import threadpool_limits

        probes, labels = job.probe_rows[:, 0].astype(int), job.probe_labels.astype(int)

        def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
            places = [(int(seed), int(place)) for seed in seeds for place in neighbours]
            with threadpool_limits(1):
                answers = self._everybody(job, list(dict.fromkeys(places)), probes)
            scores = np.stack([answers[place] for place in places])
            scores = scores.reshape(len(seeds), len(neighbours), 1, *scores.shape[1:])
            losses = log_losses(scores, labels, len(self.classes))
            return {"scores": scores.astype(np.float32), "losses": losses.astype(np.float32)}

        return train

    def _everybody(self, job: Job, places: list[tuple[int, int]], probes: np.ndarray) -> dict[Any, np.ndarray]:
        """Return scores for each seed and data set; not numbers for what pads the last chunk."""
        samples = {place: self._sample(job, *place) for place in places if place[0] < self.seeds}
        usual = [place for place, sample in samples.items() if self._has_all_classes(sample)]
        try:
            scored = self.scored([samples[place] for place in usual], probes) if usual else np.zeros((0,))
            records = dict(zip(usual, scored, strict=True))
        except SeedscopeError:  # one that does not converge: the estimator itself says what it thinks of each
            records = {}
        return records | {place: self._or_nothing(job, *place, probes) for place in places if place not in records}

    def _has_all_classes(self, sample: Sample) -> bool:
        """Whether a sample has every class."""
        return len(np.unique(self.labels[sample.rows])) == len(self.classes)

    def _sample(self, job: Job, seed: int, neighbour: int) -> Sample:
        """Return what the model of one seed on one data set is trained with, as honest fits are."""
        rows = rows_of(job, neighbour)
        if self.resample == "bootstrap":
            rows = rows[generator(job.root_seed, "bootstrap", seed).integers(len(rows), size=len(rows))]
        return Sample(rows, generator(job.root_seed, f"own model {self.draw}", seed))


def before_and_last(estimator: Any) -> tuple[Any, Any]:
    """Return what comes before the last step of a pipeline, None for nothing, and the last step."""
    steps = getattr(estimator, "steps", None)
    if not steps:
        return None, estimator
    return (estimator[:-1] if len(steps) > 1 else None), steps[-1][1]


def in_single_precision(table: Any) -> bool:
    """Whether a table's numbers are single: what steps through them then rounds so, and may stop elsewhere."""
    from sklearn.utils import _safe_indexing

    some = table if hasattr(table, "dtype") else np.asarray(_safe_indexing(table, [0]))
    return bool(some.dtype == np.float32)


def apart(training: MovedTraining, rows: np.ndarray) -> tuple[float, float]:
    """Return how far our coefficients and scores are from those of the estimator itself, fitted once on these rows.

    Coefficients as a share of the largest; infinite where our own code fails.
    """
    from sklearn.utils import _safe_indexing

    def draw() -> np.random.Generator:
        return generator(0, "compared", 0)

    table, truth = _safe_indexing(training.table, rows), training.labels[rows]
    fitted = seeded(training.reference(), draw()).fit(table, truth)
    theirs = training.coefficients_of(fitted)
    try:
        ours = training.coefficients([Sample(rows, draw())])[0]
        scores = training.scored([Sample(rows, draw())], rows)[0]
    except SeedscopeError:
        return np.inf, np.inf
    honest = training.scores(rows, draw(), rows)
    distance = np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max())
    return float(np.nan_to_num(distance, nan=np.inf)), float(np.nan_to_num(np.abs(scores - honest).max(), nan=np.inf))
