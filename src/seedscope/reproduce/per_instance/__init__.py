"""GLA, *Gradients Look Alike: Sensitivity is Often Overestimated in DP-SGD*: Figures 1–5 and the trends of 6–35.

settings    what the paper trained, and how much of it
cells       trains runs of one kind and keeps what the figures show of them
batches     sampled batches, for the mean rule
tables      numbers and trends, ours beside the paper's
figures     its figures
sampled_losses  the best possible attack on the same people beside GLA's composition
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import seedscope as ss
from seedscope.core import unknown_name
from seedscope.reproduce.comparison import Comparison, Run, Study
from seedscope.reproduce.per_instance.cells import study_cell, study_directions
from seedscope.reproduce.per_instance.figures import charts
from seedscope.reproduce.per_instance.sampled_losses import loss_rows, study_losses
from seedscope.reproduce.per_instance.settings import SWEEPS, Sweep
from seedscope.reproduce.per_instance.tables import rows_of

DATA = ("mnist", "cifar10-small")


def run(scale: str, data: list[str] | None, out: Path, jobs: int | None, quiet: bool) -> Study:
    """Return GLA's figures, ours beside theirs.

    Args:
        scale: "small" (2,500 digits; 500 images with a narrow ResNet; two runs: minutes) or "paper" (all of MNIST
            with LeNet-5: hours; cifar10-small with ResNet-20, 200 epochs: weeks on two cores), kept in `out` and
            resumed.
        data: only these of "mnist" and "cifar10-small".
        out: the folder of the models.
        jobs: processes that train; default one for each core.
        quiet: show no progress.
    """
    for name in data or ():
        if name not in DATA:
            raise unknown_name("data set of this study", name, DATA)
    comparisons: list[Comparison] = []
    drawn: dict[str, Any] = {}
    seconds = {}
    for name in data or DATA:
        start = time.perf_counter()
        rows, pictures = study_data(SWEEPS[name, scale], Run(scale, out, jobs, quiet))
        comparisons += rows
        drawn |= pictures
        seconds[name] = time.perf_counter() - start
    return Study("per-instance", scale, tuple(comparisons), drawn, seconds)


def study_data(sweep: Sweep, run: Run) -> tuple[list[Comparison], dict[str, Any]]:
    """Return the comparisons and the charts of one data set."""
    data = sweep.load()
    work: list[Callable[[Run], Any]] = [partial(study_cell, sweep, cell, data) for cell in sweep.cells]
    if sweep.people:
        work.insert(0, partial(study_directions, sweep, data))  # the longest first: the work ends evenly
    work.append(partial(study_losses, sweep, data))
    results = side_by_side(work, run) if run.scale == "small" else [part(run) for part in work]
    directions, losses = results.pop(0) if sweep.people else None, results.pop()
    outcomes = dict(zip(sweep.cells, results, strict=True))
    return [*rows_of(sweep, outcomes, directions), *loss_rows(losses)], charts(sweep, outcomes, directions)


def side_by_side(work: Sequence[Callable[[Run], Any]], run: Run) -> list[Any]:
    """Return what each part of the work gives; a small part is for one process, and several parts run at once."""
    run_alone = partial(call_with, replace(run, jobs=1))
    return list(ss.in_workers(run_alone, work, run.jobs, in_order=True))


def call_with(run: Run, part: Callable[[Run], Any]) -> Any:
    """Return what a part of the work gives."""
    return part(run)


__all__ = ["run"]
