"""Stand-ins for models that are dear to train: the same seed's noise, a few matrix products instead of a fit.

A tilted minimiser is nearly `w* − H⁻¹b/N`, w* the minimiser without a tilt, H the Hessian there and b the tilt; and
more nearly with the next terms of the series, which are quadratic and cubic in b. Such a stand-in decides almost always
as the model of the same seed does, and how often it decides 1 is known: a linear score of spherical noise has a known
law, and how often the further terms turn a decision is found by drawing them very often. So re-trainings need only tell
how often model and stand-in differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import ndtr, roots_genlaguerre

from seedscope.numerics import LogisticProblem, three_valued_interval
from seedscope.training.convex import BLUR, OUTPUT_NOISE, TILT, NoisyMinimiser, Release, TiltedMinimiser, with_bias
from seedscope.training.job import Job
from seedscope.training.noise_laws import Noise

NODES = 200  # of the quadrature of a share
ROUNDING = 5e-5  # what the quadrature may be wrong by, in the lowest dimensions; far less in others
WIDEST, WIDEST_CUBIC = 64, 16  # weights up to which the quadratic and the cubic term are worth their tensors
MOST_DRAWS, WORK = 100_000, 4e9  # of noise by which the further terms' share is found; operations spent on them
DRAWS_A_MODEL = 40  # where the number of models is known
BLOCK = 4096  # draws worked on together
SHARE_RISK = 1e-4  # with which a share that was drawn may be wrong, over all people


@dataclass(frozen=True, eq=False)
class KnownShares:
    """How often stand-ins decide 1 about each person, estimated without bias, and how far off that may be.

    The truth is at most `below` under and `above` over it, for all at once but with probability `risk`; `variance` is
    the estimate's own, where it was drawn.
    """

    values: np.ndarray
    below: np.ndarray
    above: np.ndarray
    risk: float
    variance: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> KnownShares:
        """Return shares by quadrature."""
        error = np.full(len(values), ROUNDING)
        return cls(values, error, error, 0.0, np.zeros(len(values)))


class Surrogate(ABC):
    """Stand-ins for all seeds of a mechanism on the base data, about the examples of `rows`."""

    rows: np.ndarray

    @abstractmethod
    def decisions(self, seeds: np.ndarray) -> np.ndarray:
        """Return what the stand-ins of these seeds decide [seed, example]."""

    @property
    @abstractmethod
    def shares(self) -> KnownShares:
        """How often stand-ins decide 1 about each example, over all seeds that there could be."""

    def for_models(self, models: int) -> Self:
        """Return the same stand-ins, their shares known as well as that many models have a use for."""
        return self

    def at(self, examples: np.ndarray) -> Self:
        """Return the same stand-ins for some of the examples."""
        return replace(self, rows=self.rows[examples])  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Terms:
    """The further terms of the series around the minimiser w*, of the tilt's linear answer u.

    `w* + u + v + z` with v = −½ H⁻¹T[u, u] and z = −H⁻¹(T[u, v] + Q[u, u, u]/6), T and Q the third and fourth
    derivatives of the mean objective; and what the released model is blurred by, from the same seed.
    """

    quadratic: np.ndarray  # −½ H⁻¹T as [weight · weight, weight]
    cubic: np.ndarray | None  # −H⁻¹Q/6 as [weight · weight · weight, weight]
    blur: Noise | None

    def added(self, u: np.ndarray) -> np.ndarray:
        """Return u with the further terms [..., weight]."""
        v: np.ndarray = _outer(u, u) @ self.quadratic
        moved: np.ndarray = u + v
        if self.cubic is not None:
            moved += 2 * _outer(u, v) @ self.quadratic + _outer(_outer(u, u), u) @ self.cubic
        return moved


def _outer(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the products of all pairs of entries [row, pair]."""
    products: np.ndarray = first[:, :, None] * second[:, None, :]
    return products.reshape(len(first), -1)


@dataclass(frozen=True, eq=False)
class LinearSurrogate(Surrogate):
    """Stand-ins `centre + u`, u = spread @ b, b the seed's noise; with `terms` also those of higher order.

    `rows` are the examples that are decided about, with their bias column.
    """

    centre: np.ndarray
    spread: np.ndarray  # [weight, noise]
    noise: Noise
    purpose: str
    root_seed: int
    rows: np.ndarray
    terms: Terms | None = None
    most_draws: int = MOST_DRAWS

    def decisions(self, seeds: np.ndarray) -> np.ndarray:
        decided: np.ndarray = (self.centre + self._moved(np.asarray(seeds))[1]) @ self.rows.T > 0
        return decided

    def for_models(self, models: int) -> Self:
        return replace(self, most_draws=min(self.most_draws, max(BLOCK, DRAWS_A_MODEL * models)))

    @cached_property
    def shares(self) -> KnownShares:
        straight = self._straight_shares()
        return KnownShares.of(straight) if self.terms is None else self._bent_shares(straight)

    def _straight_shares(self) -> np.ndarray:
        """Return the known law's shares of the linear stand-ins."""
        lengths = self.noise.scale * np.linalg.norm(self.rows @ self.spread, axis=1)
        margins = (self.rows @ self.centre) / np.maximum(lengths, 1e-300)
        return spherical_share(self.noise.law, np.clip(margins, -1e3, 1e3), self.spread.shape[1])

    def _bent_shares(self, known: np.ndarray) -> KnownShares:
        """Return the shares with the further terms: the known ones, and how often they turn a decision, drawn."""
        ups, downs, draws = np.zeros(len(self.rows)), np.zeros(len(self.rows)), self.draws
        for start in range(0, draws, BLOCK):
            moved = self._moved(np.arange(start, min(start + BLOCK, draws)), "shares")
            straight, bent = ((self.centre + shift) @ self.rows.T > 0 for shift in moved)
            ups, downs = ups + (bent & ~straight).sum(axis=0), downs + (straight & ~bent).sum(axis=0)
        low, high = three_valued_interval(ups, downs, draws, 1 - SHARE_RISK / len(self.rows))
        turned = (ups - downs) / draws
        variance = ((ups + downs) / draws - turned**2) / (draws - 1)
        return KnownShares(known + turned, ROUNDING + turned - low, ROUNDING + high - turned, SHARE_RISK, variance)

    @property
    def draws(self) -> int:
        """How many draws of noise find the further terms' share."""
        weights, people = len(self.centre), len(self.rows)
        order = 3 if self.terms is None or self.terms.cubic is None else 4
        return int(min(self.most_draws, max(BLOCK, WORK / (weights**order + 2 * weights * people))))

    def _moved(self, seeds: np.ndarray, apart: str = "") -> tuple[np.ndarray, np.ndarray]:
        """Return u, and all that stand-ins are moved by [seed, weight]; `apart` names other random numbers."""
        width, suffix = self.spread.shape[1], f", {apart}" if apart else ""
        u = self.noise.draw(self.root_seed, self.purpose + suffix, seeds, width) @ self.spread.T
        if self.terms is None:
            return u, u
        moved = self.terms.added(u)
        if self.terms.blur is not None:
            moved += self.terms.blur.draw(self.root_seed, BLUR + suffix, seeds, width)
        return u, moved


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
    biased, rows = with_bias(job.rows)[:-1], with_bias(job.probe_rows)
    if not isinstance(release, NoisyMinimiser | TiltedMinimiser):
        return None
    problem = LogisticProblem(biased, job.labels[:-1], release.penalties(biased.shape[1]))
    centre = problem.minimise(np.zeros(problem.width)).weights[0]
    if isinstance(release, NoisyMinimiser):
        noise = Noise("gaussian", release.scale)
        return LinearSurrogate(centre, np.eye(problem.width), noise, OUTPUT_NOISE, job.noise_seed, rows)
    inverse = np.linalg.inv(_hessian(problem, centre))
    blur = None if release.blur is None else release.blur.noise
    terms = _terms(problem, centre, inverse, blur) if problem.width <= WIDEST else None
    return LinearSurrogate(centre, -inverse / problem.examples, release.tilt, TILT, job.noise_seed, rows, terms)


def _terms(problem: LogisticProblem, weights: np.ndarray, inverse: np.ndarray, blur: Noise | None) -> Terms:
    """Return the terms of the minimiser w* + u + v + z of the tilted objective, order by order.

    H(u + v + z) + ½ T[u + v, u + v] + Q[u, u, u]/6 + b/N = 0, up to the fourth order.
    """
    rows, scores = problem.rows, 1 / (1 + np.exp(-problem.rows @ weights))
    slope = scores * (1 - scores) / problem.examples
    pairs = _outer(rows, rows)
    quadratic = -0.5 * (pairs.T @ (rows * (slope * (1 - 2 * scores))[:, None])) @ inverse
    if problem.width > WIDEST_CUBIC:
        return Terms(quadratic, None, blur)
    fourth = slope * (1 - 6 * scores * (1 - scores))
    cubic = -(_outer(pairs, rows).T @ (rows * fourth[:, None])) @ inverse / 6
    return Terms(quadratic, cubic, blur)


def _hessian(problem: LogisticProblem, weights: np.ndarray) -> np.ndarray:
    """Return the Hessian of the mean objective at these weights."""
    scores = 1 / (1 + np.exp(-problem.rows @ weights))
    curvature = (scores * (1 - scores))[:, None] / problem.examples
    hessian: np.ndarray = (problem.rows * curvature).T @ problem.rows + np.diag(problem.penalty)
    return hessian
