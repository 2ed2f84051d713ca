"""Trains models whose scaling is learned: every neighbouring data set is scaled by what its own rows say.

Otherwise an audit would not see what a learned scaling gives away: one outlier moves everybody's scaled rows. With a
scaling that has noise of its own, every model has its own scaling.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from seedscope.core import BASE
from seedscope.training.job import RAW, Arrays, ChunkTrainer, Job, Maps
from seedscope.training.streams import generator


def refitting_trainer(job: Job) -> ChunkTrainer:
    """Return the function that trains a job's chunks, neighbour by neighbour, each with its own scaling."""
    assert job.scaling is not None
    every_model = job.scaling.draws

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        if not every_model:
            return side_by_side([one_data_set(job, seeds, int(neighbour)) for neighbour in neighbours], axis=1)
        by_seed = [[one_data_set(job, seeds[k : k + 1], int(n)) for n in neighbours] for k in range(len(seeds))]
        return side_by_side([side_by_side(row, axis=1) for row in by_seed], axis=0)

    return train


def one_data_set(job: Job, seeds: np.ndarray, neighbour: int) -> Arrays:
    """Return the records [seed, 1, ...] of models on one neighbouring data set, scaled by its own rows."""
    own = scaled_anew(job, fitted(job, int(seeds[0]), neighbour))
    return own.mechanism.trainer(own)(seeds, np.array([neighbour]))


def fitted(job: Job, seed: int, neighbour: int) -> Maps:
    """Return the scaling fitted on a neighbouring data set's rows; its noise, if any, is the seed's."""
    assert job.scaling is not None
    draw = generator(job.noise_seed, "scaling", seed if job.scaling.draws else 0)
    return job.scaling.refit(
        neighbouring_rows(job, neighbour), lambda scale, count: np.round(scale * draw.standard_normal(count))
    )


def neighbouring_rows(job: Job, neighbour: int) -> np.ndarray:
    """Return the rows of a neighbouring data set before scaling: some replaced by the spare example, or taken out."""
    assert job.raw_rows is not None
    rows: np.ndarray = job.raw_rows[:-1]
    if neighbour == BASE:
        return rows
    gone = job.rows_of(neighbour)
    if job.relation == "add_or_remove":
        return np.delete(rows, gone, axis=0)
    rows = rows.copy()
    rows[gone] = job.raw_rows[-1]
    return rows


def scaled_anew(job: Job, scaling: Maps) -> Job:
    """Return the job with all its rows scaled like this."""
    arrays = {name: getattr(job, raw) for name, raw in RAW.items()}
    scaled: Any = {name: scaling.apply(raw).astype(job.rows.dtype) for name, raw in arrays.items() if raw is not None}
    return replace(job, scaling=None, **scaled)


def side_by_side(records: list[Arrays], axis: int) -> Arrays:
    """Return records joined along an axis."""
    return {name: np.concatenate([record[name] for record in records], axis) for name in records[0]}
