"""Trains a chunk of models whose release is a minimiser: of logistic regression, on the grid of seeds × neighbours.

A `Release` says what is minimised and what is released of it; the trainer solves the base data's problem once and
starts every neighbour's from there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from seedscope.core import BASE, require
from seedscope.numerics import (
    LogisticProblem,
    SoftmaxProblem,
    Solution,
    Spare,
    person_log_ratios,
    softmax_log_ratios,
    softmax_person_log_ratios,
    tilted_log_ratios,
)
from seedscope.training.job import Arrays, ChunkTrainer, Job
from seedscope.training.noise_laws import Noise
from seedscope.training.streams import normals
from seedscope.training.system_draws import SystemDraws

Problem = LogisticProblem | SoftmaxProblem
TILT, OUTPUT_NOISE, BLUR = "tilt", "output noise", "blur"  # the streams that a seed's noise is drawn from


class Release(ABC):
    """What is minimised, and what is released of the minimiser."""

    @abstractmethod
    def penalties(self, width: int) -> np.ndarray:
        """Return the quadratic penalty of each weight, the bias last."""

    @abstractmethod
    def release(
        self, problem: Problem, start: np.ndarray, root_seed: int | SystemDraws, seeds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return each seed's released weights on one data set, and the norm of the gradient that solving left."""

    def log_ratios(
        self, problem: Problem, weights: np.ndarray, spare: Spare | None, root_seed: int, seeds: np.ndarray,
        owners: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Return how much likelier each row makes weights [seed, ..., weight], as logarithms [seed, ..., row].

        With `owners`, whose each row is: how much likelier all rows of its owner make them.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class NoisyMinimiser(Release):
    """The minimiser plus Gaussian noise; solving may leave a gradient of the mean objective of norm `residual`."""

    penalty: float
    scale: float
    residual: float = math.inf

    def penalties(self, width: int) -> np.ndarray:
        return np.full(width, self.penalty)

    def release(
        self, problem: Problem, start: np.ndarray, root_seed: int | SystemDraws, seeds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        solution = _solved(problem.minimise(np.zeros(problem.width), start), self.residual)
        noise = problem.spread(normals(root_seed, OUTPUT_NOISE, seeds, problem.dimension))
        weights = solution.weights + self.scale * noise
        return weights, np.repeat(solution.residual_norms, len(seeds))


@dataclass(frozen=True)
class Blur:
    """Noise on a solution that hides what solving left of the gradient, of norm at most `residual`.

    A guarantee is about exact minimisers, which no solver finds. Nobody can tell an exact from an inexact one that is
    at most residual/penalty away from it, if noise of that size is added (Iyengar et al. 2019).
    """

    noise: Noise
    residual: float


@dataclass(frozen=True)
class TiltedMinimiser(Release):
    """The minimiser of the mean objective plus b·w/N, b a random tilt; blurred where solving is part of the proof."""

    penalty: float
    bias_penalty: float
    tilt: Noise
    blur: Blur | None = None

    @property
    def scale(self) -> float:
        """The scale of the tilt."""
        return self.tilt.scale

    def penalties(self, width: int) -> np.ndarray:
        return np.append(np.full(width - 1, self.penalty), self.bias_penalty)

    def release(
        self, problem: Problem, start: np.ndarray, root_seed: int | SystemDraws, seeds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        tilts = problem.spread(self.tilt.draw(root_seed, TILT, seeds, problem.dimension))
        solution = problem.minimise(tilts / problem.examples, start)
        if self.blur is None:
            return solution.weights, solution.residual_norms
        solution = _solved(solution, self.blur.residual)
        blur = problem.spread(self.blur.noise.draw(root_seed, BLUR, seeds, problem.dimension))
        return solution.weights + blur, solution.residual_norms

    def log_ratios(
        self, problem: Problem, weights: np.ndarray, spare: Spare | None, root_seed: int, seeds: np.ndarray,
        owners: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Return the ratios of the minimisers before they are blurred: who sees those sees more."""
        if self.blur is not None:
            blurs = problem.spread(self.blur.noise.draw(root_seed, BLUR, seeds, problem.dimension))
            weights = weights - blurs.reshape(len(seeds), *[1] * (weights.ndim - 2), problem.width)
        flat = weights.reshape(-1, problem.width)
        return self._log_ratios(problem, flat, spare, owners).reshape(*weights.shape[:-1], problem.examples)

    def _log_ratios(
        self, problem: Problem, weights: np.ndarray, spare: Spare | None, owners: np.ndarray | None
    ) -> np.ndarray:
        """Return the ratios [model, row] at minimisers [model, weight], without the row or all rows of its owner."""
        penalties = problem.examples * self.penalties(problem.rows.shape[1])
        law, scale, rows = self.tilt.law, self.tilt.scale, problem.rows
        if isinstance(problem, LogisticProblem):
            if owners is None:
                return tilted_log_ratios(rows, problem.labels, penalties, weights, law, scale, spare)
            return person_log_ratios(rows, problem.labels, penalties, weights, law, scale, spare, owners)
        labels, classes = problem.targets.argmax(1), problem.classes
        if owners is None:
            return softmax_log_ratios(rows, labels, classes, penalties, weights, law, scale, spare)
        return softmax_person_log_ratios(rows, labels, classes, penalties, weights, law, scale, spare, owners)


def _solved(solution: Solution, residual: float) -> Solution:
    """Return the solution, or raise where solving left more of the gradient than the guarantee counts with."""
    left = float(solution.residual_norms.max())
    require(
        left <= residual,
        f"the solver left a gradient of norm {left:.2g}, and the guarantee counts with at most {residual:.2g}; "
        "use a larger l2.",
    )
    return solution


class ConvexTrainer:
    """The problem on the base data, solved once, from which every neighbour's problem starts."""

    def __init__(self, job: Job, release: Release):
        biased = with_bias(job.rows)
        self.job, self.release = job, release
        self.spare, self.spare_label = biased[-1], float(job.labels[-1])
        self.problem = make_problem(biased[:-1], job.labels[:-1], release.penalties(biased.shape[1]), job.classes)
        self.optimum = self.problem.minimise(np.zeros(self.problem.width)).weights[0]

    def train(self, seeds: np.ndarray, neighbours: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the released weights [seed, neighbour, weight] and what solving them left of the gradient."""
        root_seed = self.job.noise_seed
        released = [self.release.release(self._problem(int(n)), self.optimum, root_seed, seeds) for n in neighbours]
        weights, norms = zip(*released, strict=True)
        return np.stack(weights, 1), np.stack(norms, 1)

    def log_ratios(self, seeds: np.ndarray, weights: np.ndarray, people: np.ndarray) -> np.ndarray:
        """Return people's privacy losses [seed, neighbour, person] at released weights, with and without each."""
        spare = (self.spare, self.spare_label) if self.job.relation == "replace_one" else None
        owners = None if self.job.owners is None else self.job.owners[:-1]
        ratios = self.release.log_ratios(self.problem, weights, spare, self.job.noise_seed, seeds, owners)
        return ratios[..., people]

    def _problem(self, neighbour: int) -> Problem:
        """Return a neighbouring data set's problem: one row replaced, or by a row of zeros taken out."""
        if neighbour == BASE:
            return self.problem
        removed = self.job.relation == "add_or_remove"
        row, label = (np.zeros_like(self.spare), 0.0) if removed else (self.spare, self.spare_label)
        problem = self.problem
        for place in self.job.rows_of(neighbour):
            problem = problem.with_row(int(place), row, label)
        return problem


def convex_trainer(job: Job, release: Release) -> ChunkTrainer:
    """Return the function that trains a job's chunks of minimisers."""
    trainer = ConvexTrainer(job, release)

    def train(seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        released, residuals = trainer.train(seeds, neighbours)
        weights = released[:, :, None]  # [seed, neighbour, init, weight]
        kept: Arrays = {
            "weights": network_order(weights[:, :, :, None], job.classes).astype(np.float32),
            "residual_norms": residuals[:, :, None],
        }
        if job.lossy is not None:
            kept["privacy_losses"] = trainer.log_ratios(seeds, released, job.lossy)[:, :, None].astype(np.float32)
        if job.probes is not None:
            probed = weights[:, :, :, None] if job.scores_at_checkpoints else weights
            kept |= linear_scores(probed, *job.probes, job.classes)
        return kept

    return train


def make_problem(rows: np.ndarray, labels: np.ndarray, penalties: np.ndarray, classes: int) -> Problem:
    """Return the problem: one weight vector for two classes, one for each of more."""
    if classes == 2:
        return LogisticProblem(rows, labels, penalties)
    return SoftmaxProblem(rows, labels, penalties, classes)


def network_order(weights: np.ndarray, classes: int) -> np.ndarray:
    """Return weights [..., class · weight] in the order of a network's: those of all classes first, then all biases."""
    if classes == 2:
        return weights
    by_class = weights.reshape(*weights.shape[:-1], classes, -1)
    return np.concatenate([by_class[..., :-1].reshape(*weights.shape[:-1], -1), by_class[..., -1]], axis=-1)


def minimiser(rows: np.ndarray, labels: np.ndarray, penalty: float) -> np.ndarray:
    """Return the minimiser of the mean log-loss plus (penalty/2)‖w‖², the bias last."""
    biased = with_bias(rows)
    problem = LogisticProblem(biased, labels, np.full(biased.shape[1], penalty))
    weights: np.ndarray = problem.minimise(np.zeros(biased.shape[1])).weights[0]
    return weights


def with_bias(features: np.ndarray) -> np.ndarray:
    """Return the rows with a last column of ones."""
    rows = np.asarray(features, float).reshape(len(features), -1)
    return np.column_stack([rows, np.ones(len(rows))])


def linear_scores(weights: np.ndarray, rows: np.ndarray, labels: np.ndarray, classes: int = 2) -> dict[str, np.ndarray]:
    """Return scores and losses [..., example] of logistic models, weights [..., weight] with the bias last.

    For more than two classes weights are [..., class · weight] and scores [..., example, class].
    """
    if classes > 2:
        return _softmax_scores(weights, with_bias(rows), np.asarray(labels, int), classes)
    logits = weights @ with_bias(rows).T
    with np.errstate(over="ignore"):
        scores = 1 / (1 + np.exp(-logits))
    losses = np.logaddexp(0, np.where(np.asarray(labels) == 1, -logits, logits))
    return {"scores": scores.astype(np.float32), "losses": losses.astype(np.float32)}


def _softmax_scores(weights: np.ndarray, rows: np.ndarray, labels: np.ndarray, classes: int) -> dict[str, np.ndarray]:
    """Return probabilities [..., example, class] and losses [..., example]."""
    by_class = weights.reshape(*weights.shape[:-1], classes, -1)
    logits = np.moveaxis(by_class @ rows.T, -1, -2)
    logs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    losses = -np.take_along_axis(logs, np.broadcast_to(labels[:, None], (*logs.shape[:-1], 1)), axis=-1)[..., 0]
    return {"scores": np.exp(logs).astype(np.float32), "losses": losses.astype(np.float32)}
