"""The empirical sensitivity: how far one person's record moved the weights at most, in the models trained (IP2 §4.1).

A maximum over some people and some seeds underestimates the maximum over all. `sensitivity_growth` shows by how much it
still grows, `extrapolated_sensitivity` guesses where it would end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.intrinsic.distances import data_distances, pairwise_distances
from seedscope.analyses.intrinsic.growth import Growth, maximum_growth
from seedscope.analyses.intrinsic.weight_grid import blocks, checked_weights
from seedscope.core import Number, map_in_threads, require, require_count

LEAST_MAXIMA = 20  # people needed before a tail is fitted to them


@dataclass(frozen=True, eq=False)
class EmpiricalSensitivity:
    """Largest distances Δ_S: strictly between D and D_i, and over all pairs of data sets as in the papers.

    Arrays: per seed [seed]; per neighbour [neighbour], the largest over seeds; per weight [parameter].
    """

    strict: float
    all_pairs: float
    strict_by_seed: np.ndarray
    all_pairs_by_seed: np.ndarray
    strict_by_neighbour: np.ndarray
    strict_by_weight: np.ndarray
    all_pairs_by_weight: np.ndarray


def empirical_sensitivity(weights: ArrayLike) -> EmpiricalSensitivity:
    """Return the largest distances between models of one seed and neighbouring data, exact over all pairs.

    Pairs (D, D_i) differ in one position; pairs (D_i, D_j), which the papers use, differ in two, so that their maximum
    can be up to twice as large. Per weight it is the largest change of that weight alone.

    Args:
        weights: [seed, dataset, parameter], dataset 0 the base.

    >>> grid = np.array([[0.0], [1.0], [-2.0]]) * np.ones((3, 1, 1))
    >>> found = empirical_sensitivity(grid)
    >>> found.strict, found.all_pairs, found.strict_by_neighbour.tolist()
    (2.0, 3.0, [1.0, 2.0])
    """
    array = checked_weights(weights, least_datasets=2)
    seeds, datasets, parameters = array.shape
    strict = np.empty((seeds, datasets - 1))
    strict_by_weight, range_by_weight = np.zeros(parameters), np.zeros(parameters)
    for block in blocks(seeds, 16 * datasets * parameters):
        moved = array[block].astype(float)
        moved -= moved[:, :1]
        strict[block] = np.linalg.norm(moved[:, 1:], axis=-1)
        np.maximum(strict_by_weight, np.abs(moved).max(axis=(0, 1)), out=strict_by_weight)
        np.maximum(range_by_weight, np.ptp(moved, axis=1).max(axis=0), out=range_by_weight)
    all_pairs_by_seed = np.array(list(map_in_threads(lambda models: pairwise_distances(models).max(), list(array))))
    return EmpiricalSensitivity(
        strict=float(strict.max()),
        all_pairs=float(all_pairs_by_seed.max()),
        strict_by_seed=strict.max(axis=1),
        all_pairs_by_seed=all_pairs_by_seed,
        strict_by_neighbour=strict.max(axis=0),
        strict_by_weight=strict_by_weight,
        all_pairs_by_weight=range_by_weight,
    )


def sensitivity_growth(weights: ArrayLike, *, draws: int = 200, subset_seed: int = 0) -> dict[str, Growth]:
    """Return the largest Δ_S as a function of how many people are used, "strict" and over "all_pairs" (IP2 Fig. 6).

    People are drawn, each with all seeds, and not pairs: the pairs of one person share that person, so that a hundred
    of them say less than a hundred people. Strict is exact, all pairs averages random orders of the people.

    Args:
        weights: [seed, dataset, parameter], dataset 0 the base.
        draws, subset_seed: random orders of the people.

    >>> grid = np.array([[0.0], [1.0], [-2.0]]) * np.ones((3, 1, 1))
    >>> found = sensitivity_growth(grid)
    >>> found["strict"].used.tolist(), found["strict"].mean.tolist(), found["all_pairs"].mean[-1].item()
    ([1, 2], [1.5, 2.0], 3.0)
    """
    array = checked_weights(weights, least_datasets=2)
    largest = np.max(list(map_in_threads(pairwise_distances, list(array))), axis=0)
    rng, people = np.random.default_rng(subset_seed), len(largest) - 1
    orders = [np.append(0, 1 + rng.permutation(people)) for _ in range(draws)]
    strict = maximum_growth(largest[0, 1:])
    curves = np.array([_running_maximum(largest, order) for order in orders])[:, strict.used - 1]
    lower, upper = np.quantile(curves, (0.05, 0.95), axis=0)
    return {"strict": strict, "all_pairs": Growth(strict.used, curves.mean(axis=0), lower, upper)}


def _running_maximum(distances: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the largest distance between the base and the first 1, 2, … people of an order, [person]."""
    ordered = np.tril(distances[np.ix_(order, order)])
    running: np.ndarray = np.maximum.accumulate(ordered.max(axis=1))[1:]
    return running


def extrapolated_sensitivity(
    maxima: ArrayLike, people: int, *, confidence: float = 0.95, draws: int = 500, seed: int = 0
) -> Number:
    """Return a guess of the strict sensitivity over all `people`, from the maxima of some of them: an estimate.

    The people trained on were drawn uniformly, so their largest distances over seeds are a sample of all people's. A
    generalised Pareto tail is fitted above their median by probability-weighted moments (Hosking & Wallis 1987), its
    shape at most 0, since one record can only move the weights so far. Its 1 − 1/people quantile is returned, never
    below the largest seen. The interval resamples the people; it does not cover the chance that the tail bends further
    out, nor seeds that were not drawn.

    Args:
        maxima: [neighbour], each one's largest Δ_S over seeds; at least 20.
        people: rows of the training data.
        confidence, draws, seed: of the bootstrap interval.

    >>> found = extrapolated_sensitivity(np.linspace(0.01, 1, 100), people=10_000)
    >>> print(round(found.value, 1), found.kind)
    1.0 estimate
    """
    values = np.sort(np.asarray(maxima, float))
    require(values.ndim == 1, f"maxima must have one axis, [neighbour], got the shape {values.shape}.")
    require(
        values.size >= LEAST_MAXIMA,
        f"the extrapolation needs at least {LEAST_MAXIMA} neighbours, got {values.size}; train more neighbours.",
    )
    require_count("people", people, at_least=values.size)
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.choice(values, size=(draws, values.size)), axis=1)
    value = max(values[-1], float(_tail_quantile(values[None], people)[0]))
    tail = (1 - confidence) / 2
    lower, upper = np.quantile(np.maximum(_tail_quantile(drawn, people), drawn[:, -1]), (tail, 1 - tail))
    note = f"generalised Pareto tail of {values.size} neighbours, extrapolated to {people}"
    seen = float(values[-1])
    return Number(value, "estimate", min(max(float(lower), seen), value), max(float(upper), value), confidence, note)


def _tail_quantile(ordered: np.ndarray, people: int) -> np.ndarray:
    """Return the 1 − 1/people quantile of Pareto tails fitted above the medians of sorted samples [draw, value]."""
    n = ordered.shape[1]
    k = n // 2
    threshold = ordered[:, n - k - 1]
    shape, scale = _pareto_fit(ordered[:, n - k :] - threshold[:, None])
    log_ratio = np.log(people * k / n)
    bent = np.abs(shape) > 1e-9
    safe = np.where(bent, shape, 1.0)
    quantile: np.ndarray = threshold + scale * np.where(bent, np.expm1(safe * log_ratio) / safe, log_ratio)
    return quantile


def _pareto_fit(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return shape ξ ≤ 0 and scale of generalised Pareto fits to sorted samples [draw, value] ≥ 0."""
    n = ordered.shape[1]
    above = (n - np.arange(1, n + 1)) / (n - 1)  # unbiased weight of the i-th smallest for E[X(1 − F(X))]
    a0, a1 = ordered.mean(axis=1), (above * ordered).mean(axis=1)
    gap = a0 - 2 * a1
    ends = a0 > 2 * gap  # ξ = 2 − a0/gap is below 0; otherwise the tail is exponential with the mean a0
    safe = np.where(ends & (gap > 0), gap, 1.0)
    return np.where(ends & (gap > 0), 2 - a0 / safe, 0.0), np.where(ends & (gap > 0), 2 * a0 * a1 / safe, a0)


@dataclass(frozen=True)
class SampledSensitivity:
    """The largest Δ_S of some pairs drawn at random from all: its median, and the range that holds it in 90 % of draws.

    `all_pairs` is the largest of all, of which there are `possible`.
    """

    median: float
    lower: float
    upper: float
    all_pairs: float
    pairs: int
    possible: int


def sampled_sensitivity(weights: ArrayLike, pairs: int) -> SampledSensitivity:
    """Return what the largest Δ_S would be had only so many pairs of data sets been compared, drawn without return.

    The authors' code compares a quarter as many pairs as it trained models, so that Δ̂* in their tables depends on a
    draw. That all of k of n pairs are among the m nearest has the probability C(m, k)/C(n, k): nothing is simulated.

    Args:
        weights: [seed, dataset, parameter], dataset 0 the base.
        pairs: how many pairs (seed, D_i, D_j) are drawn.

    >>> grid = np.array([[0.0], [1.0], [-2.0]]) * np.ones((3, 1, 1))
    >>> found = sampled_sensitivity(grid, 1)  # distances 1, 2 and 3, each in a third of the pairs
    >>> found.lower, found.median, found.upper, found.possible
    (1.0, 2.0, 3.0, 9)
    """
    from scipy.special import gammaln

    require_count("pairs", pairs)
    distances = np.sort(data_distances(weights, strict=False), axis=None)
    possible = distances.size
    require(pairs <= possible, f"pairs must be at most the {possible} that there are, got {pairs}.")
    nearest = np.arange(pairs, possible + 1)
    below = np.exp(
        gammaln(nearest + 1) - gammaln(nearest - pairs + 1) - gammaln(possible + 1) + gammaln(possible - pairs + 1)
    )
    places = np.minimum(np.searchsorted(below, (0.05, 0.5, 0.95)), len(below) - 1)
    lower, median, upper = (float(distances[nearest[place] - 1]) for place in places)
    return SampledSensitivity(median, lower, upper, float(distances[-1]), pairs, possible)
