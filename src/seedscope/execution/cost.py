"""What training costs here: seconds from a short measured run, bytes from the layout of what is recorded."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from seedscope.datasets import Dataset, Scaling
from seedscope.execution.estimate import bytes_per_model
from seedscope.execution.run import default_jobs, fill
from seedscope.mechanisms import Mechanism
from seedscope.planning import Grid, Records, make_plan
from seedscope.storage import MemoryStore

PATIENCE = 0.15  # seconds of training that make a speed believable
GROWTH = 4


@dataclass(frozen=True)
class Cost:
    """The cost of training models on this machine: an estimate of time, an upper bound of bytes before compression."""

    start_seconds: float
    models_per_second: float
    bytes_per_model: int
    processes: int

    def seconds(self, models: int) -> float:
        """Return how long this many models will take, the start included."""
        return self.start_seconds + models / self.models_per_second

    def bytes(self, models: int) -> int:
        """Return how much space this many models will take at most."""
        return models * self.bytes_per_model


def measure_cost(
    data: Dataset,
    mechanism: Mechanism,
    *,
    models: int,
    model: Any = None,
    records: Records | None = None,
    scaling: Scaling | None = None,
    jobs: int | None = None,
    memory: int | str | None = None,
) -> Cost:
    """Return what training `models` models of the base data set costs here, from runs that grow to about a second.

    Each size is trained twice and the second time counts, since the first one compiles; what the very first run took
    longer is the cost of starting. Measured in this process and taken times the processes that would share the work:
    starting them would take longer than the answer is worth. Nothing is kept.

    >>> from seedscope import OutputPerturbation, load
    >>> cost = measure_cost(load("breast-cancer"), OutputPerturbation(1.0), models=100, jobs=1)
    >>> cost.seconds(200) > cost.seconds(100) > 0
    True
    """
    whole = make_plan(data, mechanism, model, Grid(models), records, scaling, memory=memory)
    processes = jobs or default_jobs(whole, whole.shape.count(models, 1))

    def run(seeds: int, root_seed: int) -> float:
        start = time.perf_counter()
        grid = Grid(seeds, root_seed=root_seed)
        plan = make_plan(data, mechanism, model, grid, records, scaling, memory=memory)
        fill(MemoryStore(plan), plan, 1)  # no named axes: they would load as much as training does
        return time.perf_counter() - start

    seeds = min(models, 4)
    first, again = run(seeds, 0), run(seeds, 1)
    starting = max(0.0, first - again)
    while again < PATIENCE and seeds < models:
        seeds = min(models, GROWTH * seeds)
        run(seeds, 0)
        again = run(seeds, 1)
    return Cost(starting, processes * seeds / again, bytes_per_model(whole), processes)
