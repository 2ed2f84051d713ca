"""Trains until it is known well enough whose decision depends on the seed, and stops there.

A grid grows by whole chunks of seeds. After each growth every test example's anytime-valid interval is looked at; its
confidence holds however often one looks, so training may stop at the first look at which all are narrow enough. At a
last number of seeds, known beforehand, the narrower exact interval is used. Each of the two may fail with half of the
probability that the confidence leaves: together they keep it, and never much more is trained than a fixed plan needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.analyses.multiplicity import (
    SURROGATE_RISK,
    StandIns,
    combined_error,
    decisions,
    half_risk,
    interval_error,
    models_needed_anytime,
    models_needed_exact,
    models_needed_surrogate,
)
from seedscope.core import BASE, Number, last_step, private_folder, require, require_count, shown_progress, varied_init
from seedscope.datasets import Dataset, Scaling
from seedscope.execution.dispatch import on_cluster
from seedscope.execution.run import Announce, Progress, default_jobs, require_workers, train
from seedscope.execution.stand_ins import counted, on_test
from seedscope.mechanisms import Mechanism
from seedscope.planning import ChunkShape, Grid, Plan, Records, make_plan
from seedscope.storage import Ensemble, note_looks, open_store, stored_chunk_shape
from seedscope.training import Surrogate

LOOKS = 20  # before the first moment at which training can stop, a grid is this many chunks of cheap models
GROWTH = 0.05  # between looks a grid grows at least by this share


@dataclass(frozen=True)
class Goal:
    """The error to reach, and the numbers of seeds that matter: the first look, the last, and the exact interval's.

    A limit below `latest` does not use up the exact interval, so that a later run may go on.
    """

    error: float
    confidence: float
    earliest: int
    limit: int
    latest: int

    def largest_error(self, counts: np.ndarray, seeds: int, stand_ins: StandIns | None = None) -> float:
        """Return the largest error of a disagreement, from the counts of decisions of this many seeds."""
        if stand_ins is not None:
            return float(combined_error(counts[0], stand_ins, self.confidence, counts.size, self.latest).max())
        anytime = seeds < self.latest
        return float(interval_error(counts, seeds, half_risk(self.confidence), counts.size, anytime).max())


@dataclass(frozen=True, eq=False)
class TrainedUntil:
    """An ensemble that was trained until all errors were small enough, or until the largest number of seeds.

    `error` is the largest error of an estimated disagreement, of all test examples (and classes) at once. `stand_ins`
    are the cheap models whose votes are known, with which fewer seeds are needed; None where there are none.
    """

    ensemble: Ensemble
    seeds: int
    error: Number
    reached: bool
    stand_ins: StandIns | None = None


def train_until(
    data: Dataset,
    mechanism: Mechanism,
    *,
    error: float,
    confidence: float = 0.95,
    maximum: int | None = None,
    model: Any = None,
    grid: Grid | None = None,
    records: Records | None = None,
    scaling: Scaling | None = None,
    store: str | Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    memory: int | str | None = None,
    verify: bool = False,
    strict: bool = False,
    progress: Progress | bool | None = None,
    announce: Announce | None = None,
    surrogate: bool = True,
) -> TrainedUntil:
    """Return an ensemble with as many seeds as it takes to know each test example's disagreement to within `error`.

    For any number of classes; beyond two, each class against the rest. Beyond the first moment at which it could stop,
    it trains at most 5 % more models or one chunk for each process.

    Args:
        error: the largest error allowed, for all test examples at once.
        confidence: with which all errors are as small as stated, however often one looks.
        maximum: of seeds; where it is too small for the error, `reached` is False.
        grid: its `seeds` are ignored; `init` must not be "both", as a seed's two models are not independent.
        store: as for `train`; models that are there already count.
        jobs, cluster, memory: as for `train`.
        verify: as for `train`, before the first models are trained.
        strict: as for `train`.
        progress: True for a bar, or a function that is called with models done and models expected.
        announce: is called once, before training, with what is left to do until the first look.
        surrogate: use stand-ins with the same noise, whose votes are known, where the mechanism has them.

    >>> import seedscope as ss
    >>> found = train_until(ss.load("breast-cancer"), ss.ObjectivePerturbation(8.0), error=0.5)
    >>> found.reached, found.seeds < 100
    (True, True)
    """
    require_workers(jobs, cluster)
    grid, records = grid or Grid(), records or Records()
    plan = make_plan(data, mechanism, model, replace(grid, seeds=2), records, scaling, memory=memory)
    cheap = plan.mechanism.surrogate(plan.job) if surrogate else None
    goal = _checked_goal(error, confidence, maximum, watched(data), grid, records, cheap is not None)
    plan = make_plan(data, mechanism, model, replace(grid, seeds=goal.limit), records, scaling, memory=memory)
    trainer = partial(train, data, mechanism, model=model, records=records, scaling=scaling, strict=strict)

    def growing(place: Path, progress: Progress | None) -> TrainedUntil:
        processes = jobs or default_jobs(plan, plan.shape.count(goal.limit, len(plan.neighbours)))
        step = processes * chunk_seeds(place, plan, goal)
        note_looks(place, goal.latest)
        first: dict[str, Any] = {"verify": verify, "announce": announce}  # asked for once, before the first models

        def extend(seeds: int, expected: int) -> Ensemble:
            shown, once = _towards(progress, seeds, expected), dict(first)
            first.clear()
            return trainer(grid=replace(grid, seeds=seeds), store=place, jobs=processes, progress=shown, **once)

        found = _grow(extend, step, goal, cheap)
        return replace(found, ensemble=replace(found.ensemble, dataset=_looked_at(found.ensemble, goal)))

    with on_cluster(cluster), shown_progress(progress) as move:
        if store is not None:
            return growing(Path(store), move)
        with private_folder() as folder:
            found = growing(folder / "store", move)
            return replace(found, ensemble=Ensemble(found.ensemble.dataset.load()))


def seeds_needed(error: float, confidence: float, examples: int, surrogate: bool = False) -> tuple[int, int]:
    """Return after how many seeds `train_until` stops at the earliest and at the latest; `surrogate`: with stand-ins.

    >>> seeds_needed(0.05, 0.95, examples=143)
    (995, 5776)
    """
    own = 1 - (1 - SURROGATE_RISK) * (1 - confidence) if surrogate else confidence
    most = models_needed_exact(error, half_risk(own), examples)
    earliest = models_needed_anytime(error, half_risk(own), examples)
    if surrogate:
        earliest = min(earliest, models_needed_surrogate(error, confidence, examples))
    return min(most, earliest), most


def watched(data: Dataset) -> int:
    """Return how many intervals must be narrow: one for each test example, times the classes beyond two."""
    return len(data.test) * (1 if data.classes == 2 else data.classes)


def _checked_goal(
    error: float,
    confidence: float,
    maximum: int | None,
    examples: int,
    grid: Grid,
    records: Records,
    surrogate: bool = False,
) -> Goal:
    """Return the goal after checking that it can be aimed at."""
    require(len(grid.inits) == 1, "train_until needs independent models: use init 'fixed' or 'varied', not 'both'.")
    require("test" in records.probes, "train_until needs scores on the test part: add 'test' to the probes.")
    if maximum is not None:
        require_count("maximum", maximum, at_least=2)
    earliest, latest = seeds_needed(error, confidence, examples, surrogate)
    limit = latest if maximum is None else min(maximum, latest)
    return Goal(error, confidence, min(earliest, limit), limit, latest)


def _grow(
    extend: Callable[[int, int], Ensemble], step: int, goal: Goal, surrogate: Surrogate | None = None
) -> TrainedUntil:
    """Return the ensemble after the first look at which every error is small enough, or at the limit."""
    counts, known, expected = np.zeros((1, 1), np.int64), 0, goal.limit
    stand_ins: StandIns | None = None
    on_test_part: Surrogate | None = None  # its shares are worked out once
    seeds = min(goal.limit, -(-goal.earliest // step) * step)  # whole chunks: a part of one would be trained twice
    while True:
        ensemble = extend(seeds, expected)
        counts = counts + decision_counts(ensemble, known)
        if surrogate is not None:
            on_test_part = on_test_part or on_test(surrogate, ensemble)
            more = counted(ensemble, on_test_part, known)
            stand_ins = more if stand_ins is None else stand_ins + more
        known, largest = seeds, goal.largest_error(counts, seeds, stand_ins)
        if largest <= goal.error or seeds >= goal.limit:
            note = "largest error of all test examples"
            reached = Number(largest, "statistical", confidence=goal.confidence, note=note)
            return TrainedUntil(ensemble, seeds, reached, largest <= goal.error, stand_ins)
        expected = min(goal.limit, int(seeds * (largest / goal.error) ** 2) + 1)  # errors shrink with the square root
        grown = seeds + max(step, int(GROWTH * seeds))
        seeds = min(goal.limit, -(-grown // step) * step)


def decision_counts(ensemble: Ensemble, first: int = 0) -> np.ndarray:
    """Return how many of the base's models, from seed `first` on, decide for class 1 or each class [class, example]."""
    scores = ensemble.on("test")["scores"].sel(neighbour=BASE).isel(seed=slice(first, None))
    values = last_step(varied_init(scores)).values
    decided = decisions(values)
    if values.ndim == 2:
        positives: np.ndarray = decided.sum(axis=0)[None]
        return positives
    return np.stack([(decided == label).sum(axis=0) for label in range(values.shape[2])])


def _looked_at(ensemble: Ensemble, goal: Goal) -> Any:
    """Return the ensemble's records with the note that their number was found by looking."""
    return ensemble.dataset.assign_attrs(latest=goal.latest)


def chunk_seeds(place: Path, plan: Plan, goal: Goal) -> int:
    """Return how many seeds a chunk of the store has; a new store is made with chunks small enough to look often."""
    shape = stored_chunk_shape(place)
    if shape is None:
        shape = ChunkShape(min(plan.shape.seeds, max(1, goal.earliest // LOOKS)), plan.shape.neighbours)
        first = replace(plan.grid, seeds=goal.earliest)
        open_store(place, replace(plan, grid=first, shape=shape))
    return shape.seeds


def _towards(progress: Progress | None, seeds: int, expected: int) -> Progress | None:
    """Return the progress of a growth as a part of what is expected altogether."""
    if progress is None:
        return None
    return lambda done, total: progress(done, max(total, total // seeds * expected))
