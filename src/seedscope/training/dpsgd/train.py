"""Trains a chunk of models by DP-SGD: clipped per-example gradients plus noise, many models side by side."""

from __future__ import annotations

import jax
import numpy as np

from seedscope.core import Relation
from seedscope.models import Network, network_of
from seedscope.training import Arrays, ChunkTrainer, Job
from seedscope.training.dpsgd.batches import Parts, draw_batches
from seedscope.training.dpsgd.block import Lossy, train_block
from seedscope.training.dpsgd.noise import noise_keys
from seedscope.training.dpsgd.norms import People, in_blocks, rounded_up
from seedscope.training.dpsgd.parts import LEAST_ROWS, batch_parts
from seedscope.training.dpsgd.path_sums import NORM_MARGIN, SUMS, path_tables, summed_up
from seedscope.training.dpsgd.per_example import has_one_unit
from seedscope.training.dpsgd.person_losses import Persons, grouped
from seedscope.training.dpsgd.personal_budgets import Budget, budget_of
from seedscope.training.dpsgd.steps import PrivateSteps
from seedscope.training.dpsgd.sums import Dials, PrivateJob
from seedscope.training.dpsgd.unit_losses import sparse_rows
from seedscope.training.gradient import starting_points

PEOPLE_AT_ONCE = 2048  # whose path sums under logistic regression are added up together
NUMBERS_AT_ONCE = 1 << 16  # people × models whose privacy losses under logistic regression are worked on together
RECORDED = ("gradient_norms", "correct", SUMS)


def train_dpsgd(
    private: PrivateSteps,
    network: Network,
    relation: Relation,
    root_seed: int,
    seeds: np.ndarray,
    neighbours: np.ndarray,
    inits: tuple[str, ...],
    checkpoints: tuple[int, ...],
    rows: np.ndarray,
    labels: np.ndarray,
    probes: tuple[np.ndarray, np.ndarray] | None,
    scores_at_checkpoints: bool = False,
    people: People | None = None,
    traced: np.ndarray | None = None,
    noise_seed: int | None = None,
    owners: np.ndarray | None = None,
    lossy: np.ndarray | None = None,
    path_orders: tuple[float, ...] = (),
    private_columns: tuple[int, ...] | None = None,
) -> dict[str, np.ndarray]:
    """Return the records of the models seeds × neighbours × inits, arrays [seed, neighbour, init, ...].

    rows [N+1, ...] and labels [N+1] have the spare example last. With `people`, their gradient norms before clipping
    and whether they are classified correctly are recorded [..., state, person] before steps 0, k, 2k, … and after the
    last. With `traced`, indices of rows, the traces of their Fisher information up to each checkpoint [...,
    checkpoint, row], about the `private_columns`, default all. With `noise_seed`, noise has that root instead. With
    `owners` [N+1] neighbours are persons. With `lossy`, indices of rows, privacy losses of the whole run [..., row]:
    theirs, or of their owners with all their rows. With `path_orders` people's norms are not kept, but the sums of
    their step divergences [..., order, person].
    """
    examples, models = len(rows) - 1, len(neighbours) * len(inits)
    parts = batch_parts(network, private, rows.shape[1:], len(seeds), models, examples)
    batches = draw_batches(private, root_seed, seeds, examples, parts)
    every = people.every if people else 1
    plain, numbers = private.at_one()
    dials = Dials(*numbers)
    job = PrivateJob(
        network, plain, relation, parts, batches.room, scores_at_checkpoints, every, traced is not None,
        private_columns, lossy is not None and np.array_equal(lossy, np.arange(examples)),
    )  # fmt: skip
    parameters = starting_points(network.init, root_seed, np.asarray(seeds, np.int32), len(neighbours), inits)
    segments = np.stack([(0, *checkpoints[:-1]), checkpoints], axis=1).astype(np.int32)
    lacking = np.repeat(neighbours, len(inits)).astype(np.int32)
    records = train_block(
        job, dials, parameters, rows, labels, batches.drawn, batches.sizes,
        noise_keys(root_seed if noise_seed is None else noise_seed, seeds), lacking, segments, probes,
        in_blocks(people, _width(network, people, parts, path_orders)), traced, owners,
        _lossy(network, lossy, owners, rows, labels, parts, models * len(seeds)),
        _path_tables(private, examples, path_orders), _budget(network, private, rows, labels, parts),
    )  # fmt: skip
    shape = (len(seeds), len(neighbours), len(inits))
    kept = {name: np.asarray(values).reshape(*shape, *values.shape[2:]) for name, values in records.items()}
    if people is None:
        return kept
    kept |= {name: kept[name][..., : len(people.rows)] for name in RECORDED if name in kept}
    return kept | ({SUMS: summed_up(kept[SUMS], private.steps)} if path_orders else {})


def dpsgd_trainer(job: Job, private: PrivateSteps) -> ChunkTrainer:
    """Return the function that trains a job's chunks by clipped gradients plus noise."""
    network = network_of(job.model, job.rows.shape[1:], job.classes)
    people = None
    if job.watched_rows is not None and job.watched_labels is not None:
        people = People(job.watched_rows, job.watched_labels, job.norms_every)

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        records = train_dpsgd(
            private, network, job.relation, job.root_seed, seeds, job.lacking(neighbours), job.inits, job.checkpoints,
            job.rows, job.labels, job.probes, job.scores_at_checkpoints, people, job.traced, job.noise_seed, job.owners,
            job.lossy, job.path_orders, job.private_columns,
        )  # fmt: skip
        if people is None or job.path_orders:
            return records
        norms = rounded_up(records["gradient_norms"] * np.float32(1 + NORM_MARGIN), job.norms_precision)
        return records | {"gradient_norms": norms, "correct": records["correct"].astype(np.float16)}

    return train


def _path_tables(private: PrivateSteps, examples: int, orders: tuple[float, ...]) -> np.ndarray | None:
    """Return the divergences of steps that path sums look up; None where none are recorded."""
    if not orders:
        return None
    return path_tables(private.noise_multiplier, private.batch_size / private.sampling_size(examples), orders)


def _width(network: Network, people: People | None, parts: Parts, path_orders: tuple[float, ...]) -> int:
    """Return how many people are looked at together: all of them where their path sums under one unit are added up."""
    unit = bool(path_orders) and has_one_unit(jax.eval_shape(network.init, jax.random.key(0)))
    return min(len(people.rows), PEOPLE_AT_ONCE) if people is not None and unit else parts.first


def _budget(
    network: Network, private: PrivateSteps, rows: np.ndarray, labels: np.ndarray, parts: Parts
) -> Budget | None:
    """Return what everybody may spend, and their rows in blocks; None where people have no budget."""
    if private.budget is None:
        return None
    people = People(rows[:-1], labels[:-1], 1)
    blocks = in_blocks(people, _width(network, people, parts, (private.budget[0],)))
    rate = private.batch_size / private.sampling_size(len(rows) - 1)
    return budget_of(*private.budget, private.noise_multiplier, rate, private.steps, blocks)


def _lossy(
    network: Network, places: np.ndarray | None, owners: np.ndarray | None, rows: np.ndarray, labels: np.ndarray,
    parts: Parts, models: int,
) -> Lossy | Persons | None:  # fmt: skip
    """Return the people whose privacy losses are recorded, in blocks that stay in the cache."""
    if places is None:
        return None
    unit = has_one_unit(jax.eval_shape(network.init, jax.random.key(0)))
    together = max(LEAST_ROWS, NUMBERS_AT_ONCE // models) if unit else parts.first
    if owners is not None:
        return grouped(owners[:-1], places, rows, labels, together)
    people = in_blocks(People(rows[places], labels[places], 1), min(len(places), together))
    assert people is not None  # as there are places
    blocks, own_labels = people
    sparse = sparse_rows(blocks.reshape(*own_labels.shape, -1)) if unit else None
    return Lossy(places.astype(np.int32), (blocks if sparse is None else sparse, own_labels))
