"""A minimiser as it may be published: solved to the last digits, then smoothed and put on a grid.

A theorem is about exact minimisers and real numbers. What is computed is within a public distance η of that: the
solver leaves a little of the gradient, and every operation rounds. Given the exact minimiser, two neighbouring data
sets' computed ones differ by at most 2η; put on a grid and with discrete Laplace noise for that difference, nothing of
it can be told apart but for a further, small ε (the argument of Iyengar et al. 2019, with pure noise). So pure ε stays
pure, and no digit of a weight says what noise was added to (Mironov 2012).
"""

from __future__ import annotations

import math

import numpy as np

from seedscope.core import require
from seedscope.training.convex import ConvexTrainer, Release, network_order
from seedscope.training.job import Job
from seedscope.training.system_draws import SystemDraws

RESIDUAL = 2.0**-41  # of R: what solving may leave of the gradient
DISTANCE = 2.0**-40  # of R/Λ: η, how far the computed weights may be from the theorem's
FINENESS = 64  # steps of the grid within η
LARGEST = 2.0**8  # of R/Λ: the norm of weights up to which rounding errors stay within η


def published_minimiser(job: Job, release: Release, draws: SystemDraws, epsilon: float) -> np.ndarray:
    """Return one minimiser to publish [weight]; its smoothing costs `epsilon` beyond the mechanism's own."""
    assert job.norm_bound is not None
    trainer = ConvexTrainer(job, release)
    problem = trainer.problem
    problem.tolerance = RESIDUAL * job.norm_bound  # instead of what an audit needs
    weights, left = release.release(problem, trainer.optimum, draws, np.arange(1))
    penalty = float(np.min(problem.penalty))
    require_exact(weights[0], float(left[0]), job.norm_bound, penalty)
    placed = smoothed(weights[0], DISTANCE * job.norm_bound / penalty, draws, epsilon)
    return network_order(placed, job.classes)


def require_exact(weights: np.ndarray, left: float, norm_bound: float, penalty: float) -> None:
    """Raise where the computed weights could be further from the exact ones than the smoothing covers."""
    size = float(np.linalg.norm(weights)) * penalty / norm_bound
    exact = left <= RESIDUAL * norm_bound and size <= LARGEST
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
