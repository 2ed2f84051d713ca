"""Linear stand-ins for models that are dear to train: the same seed's noise, one matrix product instead of a fit.

A tilted minimiser is nearly `w* − H⁻¹b/N`, w* the minimiser without a tilt, H the Hessian there and b the tilt. Such a
stand-in decides almost always as the model of the same seed does, and how often it decides 1 is known without drawing
anything: a linear score of spherical noise has a known law. So re-trainings need only tell how often the two differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, roots_genlaguerre

from seedscope.numerics import LogisticProblem
from seedscope.training.convex import OUTPUT_NOISE, TILT, NoisyMinimiser, Release, TiltedMinimiser, with_bias
from seedscope.training.job import Job
from seedscope.training.noise_laws import Noise

NODES = 200  # of the quadrature of a share
ROUNDING = 5e-5  # what the quadrature may be wrong by, in the lowest dimensions; far less in others


@dataclass(frozen=True, eq=False)
class LinearSurrogate:
    """Stand-ins for all seeds of a mechanism on the base data: `centre + spread @ b`, b the seed's noise.

    `rows` are the examples that are decided about, with their bias column.
    """

    centre: np.ndarray
    spread: np.ndarray  # [weight, noise]
    noise: Noise
    purpose: str
    root_seed: int
    rows: np.ndarray

    def at(self, examples: np.ndarray) -> LinearSurrogate:
        """Return the same stand-ins for some of the examples."""
        return replace(self, rows=self.rows[examples])

    def decisions(self, seeds: np.ndarray) -> np.ndarray:
        """Return what the stand-ins of these seeds decide [seed, example]."""
        drawn = self.noise.draw(self.root_seed, self.purpose, np.asarray(seeds), self.spread.shape[1])
        decided: np.ndarray = (self.centre + drawn @ self.spread.T) @ self.rows.T > 0
        return decided

    def shares(self) -> np.ndarray:
        """Return how often stand-ins decide 1 [example], over all seeds that there could be; within `ROUNDING`."""
        lengths = self.noise.scale * np.linalg.norm(self.rows @ self.spread, axis=1)
        margins = (self.rows @ self.centre) / np.maximum(lengths, 1e-300)
        return spherical_share(self.noise.law, np.clip(margins, -1e3, 1e3), self.spread.shape[1])


def spherical_share(law: str, margins: np.ndarray, dimension: int) -> np.ndarray:
    """Return the chance that one coordinate of noise of scale 1 is at most each margin.

    The coordinate of a vector of density ∝ exp(−‖b‖) in d dimensions is a normal one times √(2G), G of law
    Gamma((d + 1)/2): both have the characteristic function (1 + s²)^(−(d+1)/2).

    >>> spherical_share("gaussian", np.array([0.0, 1.96]), 5).round(3)
    array([0.5  , 0.975])
    >>> spherical_share("gamma", np.array([0.0, 1.0]), 1).round(3)  # in one dimension a Laplace variable
    array([0.5  , 0.816])
    """
    if law == "gaussian":
        normal: np.ndarray = ndtr(margins)
        return normal
    nodes, weights = roots_genlaguerre(NODES, (dimension - 1) / 2)
    kept = weights > 0
    weights = weights[kept] / weights[kept].sum()
    mixed: np.ndarray = ndtr(margins[..., None] / np.sqrt(2 * nodes[kept])) @ weights
    return mixed


def linear_surrogate(job: Job, release: Release) -> LinearSurrogate | None:
    """Return the stand-ins of a job's models on its probes; None where there are none (beyond two classes)."""
    if job.classes != 2 or job.probes is None:
        return None
    every, rows = with_bias(job.rows)[:-1], with_bias(job.probe_rows)
    if not isinstance(release, NoisyMinimiser | TiltedMinimiser):
        return None
    problem = LogisticProblem(every, job.labels[:-1], release.penalties(every.shape[1]))
    centre = problem.minimise(np.zeros(problem.width)).weights[0]
    if isinstance(release, NoisyMinimiser):
        noise = Noise("gaussian", release.scale)
        return LinearSurrogate(centre, np.eye(problem.width), noise, OUTPUT_NOISE, job.noise_seed, rows)
    spread = -np.linalg.inv(_hessian(problem, centre)) / problem.examples
    return LinearSurrogate(centre, spread, release.tilt, TILT, job.noise_seed, rows)


def _hessian(problem: LogisticProblem, weights: np.ndarray) -> np.ndarray:
    """Return the Hessian of the mean objective at these weights."""
    scores = 1 / (1 + np.exp(-problem.rows @ weights))
    curvature = (scores * (1 - scores))[:, None] / problem.examples
    hessian: np.ndarray = (problem.rows * curvature).T @ problem.rows + np.diag(problem.penalty)
    return hessian
