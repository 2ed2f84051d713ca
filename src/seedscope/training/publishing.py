"""A minimiser as it may be published: solved to the last digits, then smoothed and put on a grid.

A theorem is about exact minimisers and real numbers. What is computed is within a public distance η of that: the
solver leaves a little of the gradient, and every operation rounds. Both are bounded for the very weights that are
published: the objective is strongly convex, so weights with a gradient of norm g are within g/Λ of the minimiser, and g
is computed once more with a bound on its own rounding. Given the exact minimiser, two neighbouring data sets' computed
ones differ by at most 2η; put on a grid and with discrete Laplace noise for that difference, nothing of
it can be told apart but for a further, small ε (the argument of Iyengar et al. 2019, with pure noise). So pure ε stays
pure, and no digit of a weight says what noise was added to (Mironov 2012).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from seedscope.core import require
from seedscope.numerics import LogisticProblem, Solution
from seedscope.training.convex import ConvexTrainer, Problem, Release, network_order
from seedscope.training.job import Job
from seedscope.training.system_draws import SystemDraws

RESIDUAL = 2.0**-41  # of R: what solving may leave of the gradient as it is computed
DISTANCE = 2.0**-36  # of R/Λ: η, how far the computed weights may be from the theorem's
FINENESS = 64  # steps of the grid within η
LARGEST = 2.0**6  # of R/Λ: the norm of weights up to which errors of the noise (2⁻⁴⁴ of it) stay within η/4
BLOCK = 512  # rows whose pulls are added up one by one, before blocks are added up pairwise
UNIT = 2.0**-52  # twice the error of one operation


def published_minimiser(job: Job, release: Release, draws: SystemDraws, epsilon: float) -> np.ndarray:
    """Return one minimiser to publish [weight]; its smoothing costs `epsilon` beyond the mechanism's own."""
    assert job.norm_bound is not None
    trainer = ConvexTrainer(job, release)
    problem: Any = Verified(trainer.problem, job.norm_bound)
    weights, left = release.release(problem, trainer.optimum, draws, np.arange(1))
    penalty = float(np.min(problem.penalty))
    require_exact(weights[0], float(left[0]), job.norm_bound, penalty)
    placed = smoothed(weights[0], DISTANCE * job.norm_bound / penalty, draws, epsilon)
    return network_order(placed, job.classes)


class Verified:
    """A problem whose solutions say how large their exact gradient is at most, rounding included."""

    def __init__(self, problem: Problem, norm_bound: float):
        self.problem, self.norm_bound = problem, norm_bound
        problem.tolerance = RESIDUAL * norm_bound  # instead of what an audit needs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def minimise(self, tilts: np.ndarray, start: np.ndarray | None = None) -> Solution:
        """Return the solutions with an upper bound on the norm of the mean objective's gradient there."""
        solution, tilts = self.problem.minimise(tilts, start), np.atleast_2d(tilts)
        norms = [self.gradient_upper(*pair) for pair in zip(solution.weights, tilts, strict=True)]
        return Solution(solution.weights, np.array(norms))

    def gradient_upper(self, weights: np.ndarray, tilt: np.ndarray) -> float:
        """Return an upper bound on the gradient's norm: as computed, plus what computing it can have rounded."""
        problem, shape = self.problem, (-1, self.problem.rows.shape[1])
        logits = problem.rows @ weights.reshape(shape).T  # [row, class]
        pulls = residuals(problem, logits)
        summed = blockwise_sum(pulls, problem.rows) / problem.examples
        penalised = problem.penalty * weights
        computed = float(np.linalg.norm(summed.ravel() + penalised + tilt))
        norms = float(np.linalg.norm(penalised)) + float(np.linalg.norm(tilt))
        return computed + self._rounding(weights, norms, len(summed))

    def _rounding(self, weights: np.ndarray, others: float, classes: int) -> float:
        """Return a bound on what rounding changed: logits (a probability bends by ½ at most), sums, and the rest."""
        longest, width = self.norm_bound, self.problem.rows.shape[1]
        logits = width * longest * float(np.linalg.norm(weights))
        sums = BLOCK + math.log2(self.problem.examples) + 16
        return float(UNIT * (longest * math.sqrt(2 * classes) * (logits + sums) + 4 * others))


def residuals(problem: Problem, logits: np.ndarray) -> np.ndarray:
    """Return probabilities less targets [row, class]; of two classes there is one column."""
    if isinstance(problem, LogisticProblem):
        with np.errstate(over="ignore"):
            binary: np.ndarray = 1 / (1 + np.exp(-logits)) - problem.labels[:, None]
        return binary
    chances = np.exp(logits - logits.max(1, keepdims=True))
    pulls: np.ndarray = chances / chances.sum(1, keepdims=True) - problem.targets
    return pulls


def blockwise_sum(pulls: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the sum over rows of pull · row [class, weight]: in blocks, whose sums NumPy adds up pairwise."""
    places = range(0, len(rows), BLOCK)
    blocks = np.stack([pulls[first : first + BLOCK].T @ rows[first : first + BLOCK] for first in places], axis=-1)
    total: np.ndarray = np.ascontiguousarray(blocks).sum(axis=-1)
    return total


def require_exact(weights: np.ndarray, left: float, norm_bound: float, penalty: float) -> None:
    """Raise where the computed weights could be further from the exact ones than the smoothing covers."""
    size = float(np.linalg.norm(weights)) * penalty / norm_bound
    exact = left <= DISTANCE * norm_bound / 2 and size <= LARGEST
    require(exact, "the minimiser could not be solved to the digits that its proof needs; use a larger l2.")


def smoothed(weights: np.ndarray, distance: float, draws: SystemDraws, epsilon: float) -> np.ndarray:
    """Return weights on a grid plus discrete Laplace noise that hides a difference of 2·distance at the price ε.

    Rounding to the grid moves each weight by half a step at most, so two data sets' integers differ by no more than
    2√d·distance/step + d in the sum of absolute values.
    """
    step = 2.0 ** math.floor(math.log2(distance / FINENESS))
    reach = 2 * math.sqrt(len(weights)) * distance / step + len(weights)
    noise = draws.discrete_laplace(math.ceil(reach / epsilon), len(weights))
    placed: np.ndarray = (np.round(weights / step) + noise) * step
    return placed
