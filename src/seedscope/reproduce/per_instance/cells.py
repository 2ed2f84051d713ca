"""Trains a cell and keeps what the figures show of it: gradient norms and correctness of points along the runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

import seedscope as ss
from seedscope.analyses.per_instance import (
    PerInstancePrivacy,
    Training,
    default_holder,
    expected_contributions,
    per_instance_privacy,
    run_epsilon,
    training_of,
)
from seedscope.core import BASE, model_progress
from seedscope.reproduce.comparison import Run
from seedscope.reproduce.per_instance.batches import StageBatches, stage_batches
from seedscope.reproduce.per_instance.settings import MODELS, ORDER, RUN_ORDERS, STAGES, STATES_PER_EPOCH, Cell, Sweep


@dataclass(frozen=True, eq=False)
class CellOutcome:
    """A cell's runs: clipped norms over C and correctness [run, state, point], some an epoch and after the last step.

    `contributions` [point, epoch] are those of Theorem 3.3 over the data-independent step's; `privacy` is of the whole
    run, `papers_divergences` [point, order] too, with the paper's Hölder constant; `run_epsilon` is of the
    first run alone, for the point of median ε, by its privacy-loss distribution; `batches` is for the mean rule.
    """

    cell: Cell
    data: str
    training: Training
    epochs: np.ndarray
    norms: np.ndarray
    correct: np.ndarray
    contributions: np.ndarray
    accuracy: float
    privacy: PerInstancePrivacy
    papers_divergences: np.ndarray
    run_epsilon: float
    batches: dict[str, StageBatches]

    def shares(self, stage: str, order: float = ORDER) -> np.ndarray:
        """Return the step divergences [run, point] at a stage, as fractions of the data-independent one."""
        return self._rdp(self.norms[:, self.place(stage)], order) / self.baseline(order)

    def baseline(self, order: float = ORDER) -> float:
        """Return the data-independent divergence of a step."""
        return float(self.training.step_baseline(order))

    def right(self, stage: str) -> np.ndarray:
        """Return whether each point [run, point] is classified correctly at a stage."""
        right: np.ndarray = self.correct[:, self.place(stage)] == 1
        return right

    def place(self, stage: str) -> int:
        """Return the recorded state of a stage: before training, half-way, after it."""
        return (0, len(self.epochs) // 2, len(self.epochs) - 1)[STAGES.index(stage)]

    def contributions_by_run(self) -> np.ndarray:
        """Return each run's own contributions [run, point, epoch] over the data-independent step's."""
        by_run = [contribution_shares(self.training, self.norms[run : run + 1], self.steps) for run in range(self.runs)]
        return np.stack(by_run)

    @property
    def steps(self) -> np.ndarray:
        """The steps before which norms were recorded."""
        return np.arange(len(self.epochs) - 1) * self.training.every

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.norms)

    def _rdp(self, norms: np.ndarray, order: float) -> np.ndarray:
        """Return step divergences of relative norms."""
        return ss.per_instance.step_rdp(
            norms, self.training.noise_multiplier, self.training.sampling_probability, order
        )


@dataclass(frozen=True, eq=False)
class Directions:
    """Contributions [person, epoch] of people in the training data: from runs with them, and from runs without."""

    data: str
    epochs: np.ndarray
    trained_with: np.ndarray
    trained_without: np.ndarray
    privacy: PerInstancePrivacy


def student_half_width(values: np.ndarray, confidence: float = 0.95) -> np.ndarray:
    """Return the half-widths of Student's intervals for means over the first axis; NaN where it has one entry.

    >>> float(student_half_width(np.array([0.0, 1.0])).round(3))        # two runs: 12.7 standard errors, not 1.96
    6.353
    """
    runs = len(values)
    if runs < 2:
        return np.full(values.shape[1:], np.nan)
    half: np.ndarray = stdtrit(runs - 1, (1 + confidence) / 2) * values.std(0, ddof=1) / np.sqrt(runs)
    return half


def study_cell(sweep: Sweep, cell: Cell, data: ss.Dataset, run: Run) -> CellOutcome:
    """Return a cell's outcome, after training what its store lacks."""
    ensemble = _trained(sweep, cell, data, run, ss.Grid(sweep.runs, init="fixed", checkpoints=2), "test")
    training = training_of(ensemble)
    recorded = ensemble.dataset.isel(init=0).sel(neighbour=BASE)
    norms = np.minimum(recorded["gradient_norms"].values / training.clipping_norm, 1.0).astype(float)
    states = recorded["norm_step"].values
    privacy = per_instance_privacy(ensemble, orders=RUN_ORDERS)
    median = int(np.argsort(privacy.epsilon)[len(privacy.epsilon) // 2])
    return CellOutcome(
        cell=cell,
        data=sweep.data,
        training=training,
        epochs=states * training.sampling_probability,
        norms=norms,
        correct=recorded["correct"].values,
        contributions=contribution_shares(training, norms, states[:-1]),
        accuracy=float(recorded["correct"].values[:, -1].mean(dtype=float)),
        privacy=privacy,
        run_epsilon=float(run_epsilon(ensemble, median)) if cell == sweep.main else np.nan,
        papers_divergences=per_instance_privacy(
            ensemble, orders=RUN_ORDERS, holder=default_holder(training.steps)
        ).by_steps,
        batches=stage_batches(sweep, cell, data, ensemble),
    )


def study_directions(sweep: Sweep, data: ss.Dataset, run: Run) -> Directions:
    """Return both directions for some training rows, from runs on the data and on the data without each of them."""
    grid = ss.Grid(sweep.runs, neighbours=sweep.people, init="fixed")
    ensemble = _trained(sweep, sweep.main, data, run, grid, "neighbours")
    training = training_of(ensemble)
    recorded = ensemble.dataset.isel(init=0)
    norms = np.minimum(recorded["gradient_norms"].values / training.clipping_norm, 1.0).astype(float)
    steps = recorded["norm_step"].values[:-1]
    without = np.stack([norms[:, 1 + person, :, person] for person in range(sweep.people)], axis=-1)
    return Directions(
        data=sweep.data,
        epochs=steps * training.sampling_probability,
        trained_with=contribution_shares(training, norms[:, 0], steps),
        trained_without=contribution_shares(training, without, steps),
        privacy=per_instance_privacy(ensemble, orders=RUN_ORDERS),
    )


def contribution_shares(training: Training, norms: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return contributions [point, step] over the data-independent step's, from norms [run, state, point] over C."""
    before_last = norms[:, : len(steps)]
    contributions = expected_contributions(
        np.moveaxis(before_last, 2, 0), training.noise_multiplier, training.sampling_probability, ORDER,
        default_holder(training.steps), steps_before_last=training.steps - 1 - steps,
    )  # fmt: skip
    shares: np.ndarray = contributions / training.step_baseline(ORDER)
    return shares


def _trained(sweep: Sweep, cell: Cell, data: ss.Dataset, run: Run, grid: ss.Grid, watched: Any) -> Any:
    """Return the ensemble of a cell, norms of the watched part recorded some times an epoch."""
    every = max(1, len(data.base) // (cell.batch_size * STATES_PER_EPOCH))
    name = f"{sweep.data}-{cell.name}" + ("-directions" if watched == "neighbours" else "")
    with model_progress(f"{sweep.data}: {cell.model}, ε {cell.epsilon:g}, batch {cell.batch_size}", run.quiet) as move:
        return ss.train(
            data,
            sweep.mechanism(cell, len(data.base)),
            model=MODELS[cell.model](),
            grid=grid,
            records=ss.Records(probes=("spare",), norms=ss.Norms(watched, every=every)),
            store=run.store(name),
            jobs=run.jobs,
            progress=move,
        )
