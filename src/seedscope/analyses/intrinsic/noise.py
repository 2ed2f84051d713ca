"""What the seed's noise looks like: Gaussian, Laplace, heavy-tailed, correlated? (IP2 §6)"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.intrinsic.normality import (
    HenzeZirkler,
    HenzeZirklerSubsets,
    WeightTests,
    henze_zirkler,
    henze_zirkler_subsets,
    shapiro_wilk,
)
from seedscope.analyses.intrinsic.weight_grid import blocks
from seedscope.core import map_in_threads, require, require_count, require_probability

ENOUGH_SEEDS = 800  # what IP2's power study found sufficient to reject in 50 dimensions
SEEDS_PER_WEIGHT = 4  # below this Henze–Zirkler on all weights has little power, and random subsets are tested


@dataclass(frozen=True)
class TailIndex:
    """The tail index α of a stable law (2 is Gaussian, 1 is Cauchy), beside its value on Gaussian samples.

    Gaussian samples of the same number, dimension and covariance give `gaussian_mean` ± `gaussian_deviation`.
    """

    alpha: float
    gaussian_mean: float
    gaussian_deviation: float


@dataclass(frozen=True, eq=False)
class Correlations:
    """Correlations between weights over seeds: the upper triangle, and what chance alone would show.

    `mean_by_chance` is the mean absolute correlation expected of independent weights.
    """

    values: np.ndarray
    mean_absolute: float
    largest_absolute: float
    mean_by_chance: float


@dataclass(frozen=True, eq=False)
class NoiseDistribution:
    """The tests of one data set's weights over seeds. `constant_weights` are weights that no seed moves, left out."""

    normality: HenzeZirkler | HenzeZirklerSubsets
    normality_by_weight: WeightTests
    laplace_by_weight: WeightTests
    tail_index: TailIndex
    correlations: Correlations
    constant_weights: np.ndarray
    seeds: int
    enough_seeds: bool

    @property
    def gaussian_is_plausible(self) -> bool:
        """Whether neither the joint test nor any single weight rejects a Gaussian at the level asked for."""
        level = self.normality_by_weight.level
        return self.normality.p_value > level and not self.normality_by_weight.rejected.any()


@dataclass(frozen=True, eq=False)
class Histogram:
    """The histogram of one weight over seeds: its index, bin edges, counts, and its Shapiro–Wilk p-value."""

    parameter: int
    edges: np.ndarray
    counts: np.ndarray
    p_value: float


def noise_distribution(samples: ArrayLike, *, level: float = 0.05, seed: int = 0) -> NoiseDistribution:
    """Return all tests of the distribution that the seed gives to one data set's weights.

    All weights are tested together by Henze–Zirkler where there are four times as many seeds, otherwise random subsets
    are. With fewer than 800 seeds a wrong shape often goes unnoticed; `enough_seeds` says so.

    Args:
        samples: [seed, parameter], the weights of models of one data set.
        level: of each family of tests.
        seed: of the simulations.

    >>> found = noise_distribution(np.random.default_rng(1).normal(size=(100, 3)))
    >>> found.gaussian_is_plausible, found.enough_seeds
    (True, False)

    IP2 §6.
    """
    array = np.asarray(samples, float)
    require(array.ndim == 2, f"samples must have the axes [seed, parameter], got the shape {array.shape}.")
    require(np.isfinite(array), "samples must be finite; leave out diverged runs first.")
    constant = np.ptp(array, axis=0) == 0
    require(not constant.all(), "no weight varies over the seeds, so there is no noise to describe.")
    moving = array[:, ~constant]
    n, d = moving.shape
    joint = henze_zirkler if n >= SEEDS_PER_WEIGHT * d else henze_zirkler_subsets
    return NoiseDistribution(
        normality=joint(moving),
        normality_by_weight=shapiro_wilk(moving, level=level),
        laplace_by_weight=laplace_anderson_darling(moving, level=level, seed=seed),
        tail_index=tail_index(moving, seed=seed),
        correlations=correlations(moving),
        constant_weights=np.flatnonzero(constant),
        seeds=n,
        enough_seeds=n >= ENOUGH_SEEDS,
    )


def laplace_anderson_darling(
    samples: ArrayLike, *, level: float = 0.05, draws: int | None = None, seed: int = 0
) -> WeightTests:
    """Return the Anderson–Darling test of every weight against a Laplace law, p-values by simulation.

    Location and scale are fitted, by the median and the mean absolute deviation from it; the statistic does not depend
    on them, so Laplace samples of the same size have its null distribution.

    Args:
        samples: [sample, dimension].
        level: of all tests together, by Bonferroni.
        draws: simulated samples; default enough for the corrected level, at least 9,999.
        seed: of the simulation.

    >>> rng = np.random.default_rng(0)
    >>> laplace_anderson_darling(np.column_stack([rng.laplace(size=300), rng.normal(size=300)])).rejected.tolist()
    [False, True]

    IP2 §6.2, with the scale as it should be: mean|x − location|.
    """
    array = np.asarray(samples, float)
    require(array.ndim == 2, f"samples must have the axes [sample, dimension], got the shape {array.shape}.")
    require(np.ptp(array, axis=0) > 0, "a constant weight has no distribution to test; leave it out.")
    require_probability("level", level)
    n, d = array.shape
    count = max(9_999, int(np.ceil(4 * d / level))) if draws is None else draws
    require_count("draws", count, at_least=999)
    null = null_laplace_statistics(n, count, seed)
    statistics = _laplace_statistic(array.T)
    p_values = (1 + count - np.searchsorted(null, statistics)) / (count + 1)
    return WeightTests(statistics, p_values, p_values <= level / d, level)


@lru_cache(maxsize=16)
def null_laplace_statistics(n: int, draws: int, seed: int = 0) -> np.ndarray:
    """Return the sorted Anderson–Darling statistics of simulated Laplace samples of size n.

    >>> null_laplace_statistics(20, 999).shape
    (999,)
    """
    sizes = [block.stop - block.start for block in blocks(draws, 512 * n)]
    streams = np.random.default_rng([seed, n]).spawn(len(sizes))

    def simulated(batch: tuple[np.random.Generator, int]) -> np.ndarray:
        stream, size = batch
        return _laplace_statistic(stream.laplace(size=(size, n)))

    statistics = np.sort(np.concatenate(list(map_in_threads(simulated, list(zip(streams, sizes, strict=True))))))
    statistics.flags.writeable = False
    return statistics


def _laplace_statistic(rows: np.ndarray) -> np.ndarray:
    """Return the Anderson–Darling statistic of each row against the Laplace law fitted to it."""
    n = rows.shape[1]
    z = np.sort(rows, axis=1)
    z -= np.median(z, axis=1, keepdims=True)
    z /= np.abs(z).mean(axis=1, keepdims=True)
    tail = np.exp(-np.abs(z)) / 2  # the probability beyond z on its own side
    log_tail, log_rest = -np.abs(z) - np.log(2), np.log1p(-tail)
    log_below, log_above = np.where(z < 0, log_tail, log_rest), np.where(z < 0, log_rest, log_tail)
    weights = (2 * np.arange(1, n + 1) - 1) / n
    statistic: np.ndarray = -n - (log_below + log_above[:, ::-1]) @ weights
    return statistic


def tail_index(samples: ArrayLike, *, gaussian_samples: int = 20, seed: int = 0) -> TailIndex:
    """Return the tail index α of the noise vectors, as if they followed a symmetric stable law.

    Sums of K1 stable vectors are K1^(1/α) times as long. K1 is the largest divisor of the number of vectors K not above
    √K; where that is 1, vectors are dropped from the end until it is not. The estimator is not exactly 2 on Gaussians,
    so its values on Gaussian samples of the same shape are returned beside it.

    Args:
        samples: [sample, dimension], at least 4.
        gaussian_samples: how many Gaussian samples to compare with.
        seed: of these.

    >>> rng = np.random.default_rng(0)
    >>> found = tail_index(rng.normal(size=(800, 5)))
    >>> round(found.alpha, 1), round(found.gaussian_mean, 1)
    (2.0, 2.0)

    Mohammadi et al. 2015, Corollary 2.4; IP2 §6.3.
    """
    array = np.asarray(samples, float)
    require(array.ndim == 2, f"samples must have the axes [sample, dimension], got the shape {array.shape}.")
    require(len(array) >= 4, f"the tail index needs at least 4 samples, got {len(array)}; train more seeds.")
    deviations = array - array.mean(axis=0)
    require(np.any(deviations != 0, axis=1), "a sample equal to the mean has no length to take the logarithm of.")
    rng, n = np.random.default_rng(seed), len(array)
    # Random mixtures of the deviations are Gaussian with exactly their covariance.
    gaussians = (rng.standard_normal((n, n)) @ deviations / np.sqrt(n) for _ in range(gaussian_samples))
    alphas = np.array([_alpha(rows - rows.mean(axis=0)) for rows in gaussians])
    return TailIndex(_alpha(deviations), float(alphas.mean()), float(alphas.std(ddof=1)))


def _alpha(vectors: np.ndarray) -> float:
    """Return the tail index of centred vectors [K, dimension]."""
    length = block_length(len(vectors))
    kept = vectors[: len(vectors) // length * length] if len(vectors) % length else vectors
    sums = kept.reshape(-1, length, kept.shape[1]).sum(axis=1)
    inverse = (_mean_log_norm(sums) - _mean_log_norm(kept)) / np.log(length)
    return float(1 / inverse)


def block_length(count: int) -> int:
    """Return K1: the largest divisor of K not above √K, for the largest K ≤ count for which it exceeds 1.

    >>> block_length(800), block_length(7)
    (25, 2)
    """
    for total in range(count, 3, -1):
        divisor = next(k for k in range(int(np.sqrt(total)), 0, -1) if total % k == 0)
        if divisor > 1:
            return divisor
    return 1


def _mean_log_norm(rows: np.ndarray) -> float:
    """Return the mean logarithm of the rows' lengths."""
    return float(np.log(np.linalg.norm(rows, axis=1)).mean())


def correlations(samples: ArrayLike) -> Correlations:
    """Return the correlations of all pairs of weights over seeds.

    The papers treat the weights as independent. Where they correlate, only the smallest eigenvalue of the covariance is
    a conservative variability.

    Args:
        samples: [sample, dimension], at least 2 weights for a pair; at most 10,000 weights.

    >>> found = correlations(np.random.default_rng(0).normal(size=(1000, 20)))
    >>> bool(abs(found.mean_absolute - found.mean_by_chance) < 0.005)
    True
    """
    array = np.asarray(samples, float)
    require(array.ndim == 2, f"samples must have the axes [sample, dimension], got the shape {array.shape}.")
    n, d = array.shape
    require(d <= 10_000, f"correlations are for at most 10,000 weights, got {d}; choose some of them.")
    require(np.ptp(array, axis=0) > 0, "a constant weight has no correlation; leave it out.")
    values = np.corrcoef(array, rowvar=False)[np.triu_indices(d, 1)] if d > 1 else np.zeros(0)
    sizes = np.abs(values)
    mean, largest = (float(sizes.mean()), float(sizes.max())) if d > 1 else (0.0, 0.0)
    return Correlations(values, mean, largest, float(np.sqrt(2 / (np.pi * n))))


def least_gaussian_weights(samples: ArrayLike, *, count: int = 4, bins: int = 40) -> tuple[Histogram, ...]:
    """Return the histograms of the weights with the smallest Shapiro–Wilk p-values, the least Gaussian first.

    Args:
        samples: [seed, parameter].
        count: how many weights.
        bins: of each histogram.

    >>> rng = np.random.default_rng(0)
    >>> two_modes = rng.normal(size=300) + 6 * rng.integers(2, size=300)
    >>> least_gaussian_weights(np.column_stack([rng.normal(size=300), two_modes]), count=1)[0].parameter
    1

    IP2 Fig. 5.
    """
    array = np.asarray(samples, float)
    moving = np.flatnonzero(np.ptp(array, axis=0) > 0)
    tests = shapiro_wilk(array[:, moving])
    order = np.lexsort((tests.statistics, tests.p_values))[:count]
    rejected = []
    for place in order:
        counts, edges = np.histogram(array[:, moving[place]], bins=bins)
        rejected.append(Histogram(int(moving[place]), edges, counts, float(tests.p_values[place])))
    return tuple(rejected)
