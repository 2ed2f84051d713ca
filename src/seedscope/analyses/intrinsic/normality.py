"""Tests of normality of the seed's noise: Henze–Zirkler for all weights at once, Shapiro–Wilk for each (IP2 §6).

The usual code of the Henze–Zirkler test fails above about 55 dimensions: its statistic is 1 plus a sum that is lost in
rounding, its log-normal p-value divides zero by zero. Here that sum is kept on its own scale, in logs, and the p-value
comes from simulation: the statistic does not change under affine maps, so standard normals of the same size have its
null distribution exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from seedscope.analyses.intrinsic.weight_grid import blocks
from seedscope.core import SeedscopeError, map_in_threads, require, require_count, unknown_name

LEAST_DRAWS = 999
SUBSET_SIZE = 55  # the largest dimension in which IP2's software worked
BLOCK_ROWS = 200
LARGEST_LOG = 1e300
SIMULATION_COPIES = 16  # batches small enough to stay in the cache are the fastest


@dataclass(frozen=True)
class HenzeZirkler:
    """The Henze–Zirkler statistic with its p-value by simulation; the log-normal p-value only to compare.

    `log_excess` is the statistic minus 1 as sign(x)·ln(1 + |x|), x in units of (1 + 2β²)^(−d/2): it keeps its digits in
    any dimension, where `statistic` itself rounds to 1.
    """

    statistic: float
    log_excess: float
    p_value: float
    p_value_log_normal: float
    samples: int
    dimension: int


@dataclass(frozen=True)
class HenzeZirklerSubsets:
    """Henze–Zirkler tests of random subsets of the weights.

    `p_value` is the smallest simulated one times the number of subsets (Bonferroni), at most 1. `p_value_smallest` is
    the smallest log-normal one without correction, as IP2 reports it.
    """

    tests: tuple[HenzeZirkler, ...]
    p_value: float
    p_value_smallest: float


@dataclass(frozen=True, eq=False)
class WeightTests:
    """One test per weight: statistics, p-values and whether it is rejected by Bonferroni's rule, [parameter] each."""

    statistics: np.ndarray
    p_values: np.ndarray
    rejected: np.ndarray
    level: float

    @property
    def rejected_share(self) -> float:
        """The share of weights for which the hypothesis is rejected."""
        return float(self.rejected.mean())


def henze_zirkler(samples: ArrayLike, *, draws: int = LEAST_DRAWS, seed: int = 0) -> HenzeZirkler:
    """Return the Henze–Zirkler test of multivariate normality, valid in any dimension below the number of samples.

    A small p-value says that the seed's noise is not Gaussian, so that an intrinsic epsilon is not to be believed. Null
    distributions are simulated once per size and kept.

    Args:
        samples: [sample, dimension], e.g. the weights of one data set's models, one row per seed.
        draws: simulated normal samples, at least 999; the smallest possible p-value is 1/(draws + 1).
        seed: of the simulation.

    >>> rng = np.random.default_rng(0)
    >>> henze_zirkler(rng.normal(size=(100, 3))).p_value > 0.05
    True
    >>> henze_zirkler(rng.laplace(size=(100, 3))).p_value < 0.05
    True

    Henze & Zirkler 1990; IP2 §6.1 and App. C.
    """
    array = _checked_samples(samples)
    require_count("draws", draws, at_least=LEAST_DRAWS)
    n, d = array.shape
    null = null_log_excess(n, d, draws, seed)
    with np.errstate(over="ignore"):  # equal samples in a very high dimension: infinitely far from Gaussian
        sign, log_size = (float(part) for part in _excess(array))
        statistic = 1 + sign * np.exp(log_size - d / 2 * np.log1p(2 * _bandwidth(n, d)))
    density = float(_signed_log(np.array(sign), np.array(log_size)))
    p_value = (1 + _at_least(null, density)) / (draws + 1)
    return HenzeZirkler(float(statistic), density, p_value, _log_normal_p(sign, log_size, n, d), n, d)


def _checked_samples(samples: ArrayLike) -> np.ndarray:
    """Return the samples as float64, [sample, dimension], finite and more than dimensions."""
    array = np.asarray(samples, float)
    require(array.ndim == 2, f"samples must have the axes [sample, dimension], got the shape {array.shape}.")
    require(np.isfinite(array), "samples must be finite; leave out diverged runs first.")
    n, d = array.shape
    require(
        n > d + 1,
        f"a test of all weights at once needs more samples than weights plus one, got {n} samples of {d} weights; "
        "train more seeds or test random subsets of the weights with henze_zirkler_subsets.",
    )
    return array


def _bandwidth(n: int, d: int) -> float:
    """Return β², the squared smoothing parameter of the test."""
    bandwidth: float = 0.5 * ((2 * d + 1) * n / 4) ** (2 / (d + 4))
    return bandwidth


def _excess(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sign and log size of (statistic − 1)·(1 + 2β²)^(d/2) of samples [..., sample, dimension].

    The three terms of the statistic, without the pairs of a sample with itself, which make up the 1, each in logs.
    """
    n, d = array.shape[-2:]
    b2 = _bandwidth(n, d)
    whitened = _whitened(array)
    squares = np.einsum("...ij,...ij->...i", whitened, whitened)
    unit = d / 2 * np.log1p(2 * b2)
    typical = unit - b2 * d  # the squared distance of two samples is about 2d
    pairs = _log_pair_sum(whitened * np.sqrt(b2), unit / 2 - b2 / 2 * squares, typical) - np.log(n)
    singles = _log_sum(-b2 / (2 * (1 + b2)) * squares) - d / 2 * np.log1p(b2) + unit + np.log(2)
    top = np.maximum(np.maximum(pairs, singles), np.log(n))
    size = np.exp(pairs - top) - np.exp(singles - top) + np.exp(np.log(n) - top)
    return np.sign(size), top + np.log(np.abs(size))


def _whitened(array: np.ndarray) -> np.ndarray:
    """Return the samples with mean 0 and covariance 1."""
    deviations = array - array.mean(axis=-2, keepdims=True)
    deviations /= np.maximum(deviations.std(axis=-2, keepdims=True), np.finfo(float).tiny)
    covariance = deviations.swapaxes(-1, -2) @ deviations / array.shape[-2]
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise SeedscopeError(
            "the weights are constant or linearly dependent over the samples, so their joint law has no density; "
            "leave out the dependent weights."
        ) from None
    return np.linalg.solve(factor, deviations.swapaxes(-1, -2)).swapaxes(-1, -2)


def _log_pair_sum(rows: np.ndarray, half: np.ndarray, shift: float) -> np.ndarray:
    """Return the log of Σ_{j≠k} exp(rows_j·rows_k + half_j + half_k), in blocks of the upper triangle.

    The shift, the size of a typical exponent, keeps the sum within the range of floating point.
    """
    total = np.zeros(rows.shape[:-2])
    half = half - shift / 2
    for start in range(0, rows.shape[-2], BLOCK_ROWS):
        block_rows = slice(start, start + BLOCK_ROWS)
        block = rows[..., block_rows, :] @ rows[..., start:, :].swapaxes(-1, -2)
        block += half[..., None, start:]
        block += half[..., block_rows, None]
        size = np.arange(block.shape[-2])
        block[..., size, size] = -np.inf
        np.exp(block, out=block)
        total += 2 * block.sum(axis=(-1, -2)) - block[..., : len(size)].sum(axis=(-1, -2))
    return np.minimum(np.log(total) + shift, LARGEST_LOG)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """Return the log of the sum of exponentials over the last axis."""
    top = logs.max(axis=-1)
    log_sum: np.ndarray = top + np.log(np.exp(logs - top[..., None]).sum(axis=-1))
    return log_sum


def _signed_log(sign: np.ndarray, log_size: np.ndarray) -> np.ndarray:
    """Return sign(x)·ln(1 + |x|), which orders numbers of any size."""
    signed_log: np.ndarray = sign * np.logaddexp(0.0, log_size)
    return signed_log


def _at_least(ordered: np.ndarray, value: float) -> int:
    """Return how many of the sorted numbers are at least the value."""
    return int(ordered.size - np.searchsorted(ordered, value))


@lru_cache(maxsize=64)
def null_log_excess(n: int, d: int, draws: int = LEAST_DRAWS, seed: int = 0) -> np.ndarray:
    """Return the sorted `log_excess` of simulated standard normal samples [n, d].

    >>> null_log_excess(20, 2).shape
    (999,)
    """
    sizes = [block.stop - block.start for block in blocks(draws, SIMULATION_COPIES * 8 * n * (n + d))]
    streams = np.random.default_rng([seed, n, d]).spawn(len(sizes))

    def simulated(batch: tuple[np.random.Generator, int]) -> np.ndarray:
        stream, size = batch
        return _signed_log(*_excess(stream.standard_normal((size, n, d))))

    statistics = np.sort(np.concatenate(list(map_in_threads(simulated, list(zip(streams, sizes, strict=True))))))
    statistics.flags.writeable = False
    return statistics


def _log_normal_p(sign: float, log_size: float, n: int, d: int) -> float:
    """Return the p-value of the log-normal approximation, all its tiny numbers kept as logs."""
    b2 = _bandwidth(n, d)
    a, w = 1 + 2 * b2, (1 + b2) * (1 + 3 * b2)
    log_mean_gap = -d / 2 * np.log(a) + np.log1p(d * b2 / a + d * (d + 2) * b2**2 / (2 * a**2))  # ln(1 − μ)
    log_terms = [
        -d / 2 * np.log1p(4 * b2),
        -d * np.log(a) + np.log1p(2 * d * b2**2 / a**2 + 3 * d * (d + 2) * b2**4 / (4 * a**4)),
        -d / 2 * np.log(w) + np.log1p(3 * d * b2**2 / (2 * w) + d * (d + 2) * b2**4 / (2 * w**2)),
    ]
    first = log_terms[0]
    log_variance = first + np.log(2 + 2 * np.exp(log_terms[1] - first) - 4 * np.exp(log_terms[2] - first))
    mean = -np.expm1(log_mean_gap)
    log_spread = 0.5 * _log_log1p(log_variance - 2 * np.log(mean))
    statistic = _log1p_over(sign, log_size - d / 2 * np.log(a), log_spread)
    z = statistic - _log1p_over(-1.0, log_mean_gap, log_spread) + np.exp(log_spread) / 2
    return float(ndtr(-z))


def _log_log1p(log_x: float) -> float:
    """Return ln ln(1 + x) from ln x, for x of any size."""
    return float(log_x) if log_x < -30 else float(np.log(np.log1p(np.exp(log_x))))


def _log1p_over(sign: float, log_size: float, log_scale: float) -> float:
    """Return ln(1 + x)/scale for x = sign·exp(log_size), both possibly far below rounding."""
    if log_size < -30:
        return sign * float(np.exp(log_size - log_scale))
    return float(np.log1p(sign * np.exp(log_size)) / np.exp(log_scale))


def henze_zirkler_subsets(
    samples: ArrayLike, *, subsets: int | None = None, size: int = SUBSET_SIZE, draws: int | None = None, seed: int = 0
) -> HenzeZirklerSubsets:
    """Return Henze–Zirkler tests of random subsets of the weights, for more weights than one test can take.

    All marginals of a Gaussian are Gaussian, so one rejected subset rejects the whole. IP2 takes the smallest of
    2(d//55 + 1) log-normal p-values as it is; here the smallest simulated one is corrected for the number of subsets.

    Args:
        samples: [sample, dimension].
        subsets: how many; default 2(d//size + 1) as in IP2.
        size: weights in a subset, or all where there are fewer.
        draws: as in `henze_zirkler`; default enough for a corrected p-value of 1/40.
        seed: of the choice of subsets.

    >>> found = henze_zirkler_subsets(np.random.default_rng(0).normal(size=(60, 30)), size=5)
    >>> len(found.tests), found.tests[0].dimension
    (14, 5)

    IP2 App. C.1.
    """
    array = np.asarray(samples, float)
    require(array.ndim == 2, f"samples must have the axes [sample, dimension], got the shape {array.shape}.")
    d = array.shape[1]
    count = 2 * (d // size + 1) if subsets is None else subsets
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(d, size=min(size, d), replace=False) for _ in range(count)]
    simulated = max(LEAST_DRAWS, 40 * count - 1) if draws is None else draws
    tests = tuple(henze_zirkler(array[:, columns], draws=simulated) for columns in chosen)
    p_value = min(1.0, count * min(test.p_value for test in tests))
    return HenzeZirklerSubsets(tests, p_value, min(test.p_value_log_normal for test in tests))


PowerSample = Literal["normal_full", "normal_diagonal", "laplace", "uniform"]


def henze_zirkler_power(
    samples: Sequence[int],
    dimensions: Sequence[int],
    *,
    distribution: PowerSample = "laplace",
    repetitions: int = 10,
    seed: int = 0,
) -> np.ndarray:
    """Return simulated p-values [samples, dimension, repetition] of the test: how many seeds can reject a wrong shape?

    Normal data should give uniform p-values, Laplace data small ones where there are seeds enough (IP2: 800). Sizes at
    which the test cannot be done (samples ≤ dimension + 1) are NaN.

    Args:
        samples: numbers of seeds.
        dimensions: numbers of weights.
        distribution: "normal_full" (covariance inverse-Wishart), "normal_diagonal", "laplace", or "uniform", which IP2
            did not try though initial points are: in 50 dimensions p stays near .04 however many the seeds.
        repetitions: data sets per size.

    >>> henze_zirkler_power([30], [2, 40], repetitions=2).shape
    (1, 2, 2)

    IP2 App. C.2, Fig. 7.
    """
    power = np.full((len(samples), len(dimensions), repetitions), np.nan)
    for i, n in enumerate(samples):
        for j, d in enumerate(dimensions):
            rng = np.random.default_rng([seed, n, d])
            for k in range(repetitions if n > d + 1 else 0):
                power[i, j, k] = henze_zirkler(_power_sample(rng, n, d, distribution)).p_value
    return power


def _power_sample(rng: np.random.Generator, n: int, d: int, distribution: str) -> np.ndarray:
    """Return one sample [n, d] of the power study."""
    if distribution == "laplace":
        return rng.laplace(size=(n, d))
    if distribution == "uniform":
        return rng.uniform(-1, 1, size=(n, d))
    if distribution not in get_args(PowerSample):
        raise unknown_name("distribution", distribution, get_args(PowerSample))
    rows = rng.standard_normal((n, d))
    if distribution == "normal_diagonal":
        return rows * np.sqrt(1 / rng.gamma(2.0, size=d))
    wishart_root = rng.standard_normal((d, d + 2))
    return np.linalg.solve(np.linalg.cholesky(wishart_root @ wishart_root.T).T, rows.T).T  # covariance: its inverse


def shapiro_wilk(samples: ArrayLike, *, level: float = 0.05) -> WeightTests:
    """Return the Shapiro–Wilk test of normality of every weight, with Bonferroni's correction.

    A weight that is not Gaussian by itself rules out a Gaussian for all of them.

    Args:
        samples: [sample, dimension], at least 3 samples; no constant weight.
        level: of all tests together.

    >>> rng = np.random.default_rng(0)
    >>> shapiro_wilk(np.column_stack([rng.normal(size=200), rng.exponential(size=200)])).rejected.tolist()
    [False, True]

    IP1 Fig. 6, IP2 App. C.3.
    """
    from scipy.stats import shapiro

    array = np.asarray(samples, float)
    require(array.ndim == 2, f"samples must have the axes [sample, dimension], got the shape {array.shape}.")
    require(len(array) >= 3, f"Shapiro–Wilk needs at least 3 samples, got {len(array)}; train more seeds.")
    require(np.ptp(array, axis=0) > 0, "a constant weight has no distribution to test; leave it out.")
    tests = [shapiro(column) for column in array.T]
    statistics, p_values = np.array([(test.statistic, test.pvalue) for test in tests]).T
    return WeightTests(statistics, p_values, p_values <= level / len(p_values), level)
