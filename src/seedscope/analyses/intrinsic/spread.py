"""How far the seed moves the weights: three standard deviations, each taken over seeds on one data set.

*flat* (IP1 Alg. 2) pools all weights, *smallest* (IP2 Alg. 1) is that of the steadiest weight, *eigen* that of the
steadiest direction, √λ_min of the covariance. Always eigen ≤ smallest ≤ flat ≤ largest, and when weights correlate only
eigen is conservative. Sums of squares are divided by the number of seeds, as in the papers: it errs towards less noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.intrinsic.growth import Growth, default_counts
from seedscope.analyses.intrinsic.weight_grid import LEAST_SEEDS, blocks, checked_weights
from seedscope.core import map_in_threads, require


@dataclass(frozen=True, eq=False)
class Variability:
    """Standard deviations over seeds: of every weight [dataset, parameter], and what is made of them [dataset].

    `eigen` is None where there are not more seeds than parameters: the smallest eigenvalue of such a covariance is 0
    whatever the truth.
    """

    by_weight: np.ndarray
    flat: np.ndarray
    smallest: np.ndarray
    largest: np.ndarray
    eigen: np.ndarray | None


@dataclass(frozen=True, eq=False)
class ResampledVariability:
    """The minima over data sets (maximum for `largest`) that other choices of seeds would have given, [draw] each."""

    flat: np.ndarray
    smallest: np.ndarray
    largest: np.ndarray
    eigen: np.ndarray | None


def variability(weights: ArrayLike) -> Variability:
    """Return the standard deviations of the weights over seeds, for each data set.

    Args:
        weights: [seed, dataset, parameter].

    >>> draws = np.random.default_rng(0).normal(scale=[0.1, 0.2], size=(4000, 1, 2))
    >>> found = variability(draws)
    >>> found.smallest.round(2).item(), found.largest.round(2).item(), (found.eigen <= found.smallest).item()
    (0.1, 0.2, True)
    """
    array = checked_weights(weights)
    seeds, datasets, parameters = array.shape
    by_weight = np.empty((datasets, parameters))
    for block in blocks(datasets, 16 * seeds * parameters):
        by_weight[block] = array[:, block].astype(float).std(axis=0)
    return Variability(
        by_weight=by_weight,
        flat=np.sqrt(np.mean(by_weight**2, axis=1)),
        smallest=by_weight.min(axis=1),
        largest=by_weight.max(axis=1),
        eigen=_eigen(array)[0] if seeds > parameters else None,
    )


def _eigen(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return √λ_min of each data set's covariance, [dataset], and its direction, [dataset, parameter]."""
    smallest = map_in_threads(_smallest_direction, list(array.swapaxes(0, 1)))
    values, directions = zip(*smallest, strict=True)
    return np.array(values), np.array(directions)


def _smallest_direction(rows: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the least standard deviation along any direction of the rows, and that direction."""
    deviations = rows.astype(float)
    deviations -= deviations.mean(axis=0)
    _, directions = np.linalg.eigh(deviations.T @ deviations)
    # The deviation along the direction is exact to rounding where the eigenvalue itself is lost in the largest one's.
    return float(np.sqrt(np.mean((deviations @ directions[:, 0]) ** 2))), directions[:, 0]


def resampled_variability(weights: ArrayLike, shares: ArrayLike) -> ResampledVariability:
    """Return the variabilities under other weightings of the seeds, e.g. bootstrap samples or subsets.

    For `eigen` the data set and the direction of the smallest variance are kept: to first order that is what resampling
    does, while a bootstrap sample's own covariance, with a third of the seeds missing, would be nearly singular.

    Args:
        weights: [seed, dataset, parameter].
        shares: [draw, seed], each row the seeds' weights, with sum 1; see `bootstrap_shares`.

    >>> grid = np.random.default_rng(0).normal(size=(50, 1, 2))
    >>> everyone = np.full((1, 50), 1 / 50)
    >>> bool(np.isclose(resampled_variability(grid, everyone).flat[0], variability(grid).flat[0]))
    True
    """
    array, p = checked_weights(weights), np.asarray(shares, float)
    require(
        p.ndim == 2 and p.shape[1] == len(array),
        f"shares must have the axes [draw, seed] with {len(array)} seeds, got the shape {p.shape}.",
    )
    seeds, datasets, parameters = array.shape
    flat, smallest, largest = np.full(len(p), np.inf), np.full(len(p), np.inf), np.zeros(len(p))
    for block in blocks(datasets, 24 * (len(p) + seeds) * parameters):
        variances = _variances(array[:, block], p)
        np.minimum(flat, variances.mean(axis=2).min(axis=1), out=flat)
        np.minimum(smallest, variances.min(axis=(1, 2)), out=smallest)
        np.maximum(largest, variances.max(axis=(1, 2)), out=largest)
    eigen = _resampled_eigen(array, p) if seeds > parameters else None
    return ResampledVariability(np.sqrt(flat), np.sqrt(smallest), np.sqrt(largest), eigen)


def _variances(array: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the weighted variances over seeds, [draw, dataset, parameter], as two matrix products."""
    deviations = array.astype(float)
    deviations -= deviations.mean(axis=0)
    flat = deviations.reshape(len(array), -1)
    variances = shares @ flat**2 - (shares @ flat) ** 2
    by_share: np.ndarray = np.maximum(variances, 0.0).reshape(len(shares), *array.shape[1:])
    return by_share


def _resampled_eigen(array: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the resampled standard deviation along the direction that is steadiest in all seeds."""
    values, directions = _eigen(array)
    steadiest = int(values.argmin())
    along = array[:, steadiest].astype(float) @ directions[steadiest]
    deviations: np.ndarray = np.sqrt(_variances(along[:, None, None], shares)[:, 0, 0])
    return deviations


def bootstrap_shares(seeds: int, draws: int, seed: int = 0) -> np.ndarray:
    """Return [draw, seed] weights of bootstrap samples of the seeds.

    >>> bootstrap_shares(4, 2).sum(axis=1).tolist()
    [1.0, 1.0]
    """
    rng = np.random.default_rng(seed)
    return rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws) / seeds


def subset_shares(seeds: int, used: int, draws: int, subset_seed: int = 0) -> np.ndarray:
    """Return [draw, seed] weights of random subsets of `used` seeds.

    >>> subset_shares(4, 2, 1).round(1).sum().item()
    1.0
    """
    rng = np.random.default_rng([subset_seed, used])
    order = rng.random((draws, seeds)).argsort(axis=1)
    return (order < used) / used


def variability_growth(
    weights: ArrayLike, used: ArrayLike | None = None, *, draws: int = 50, subset_seed: int = 0
) -> dict[str, Growth]:
    """Return the `flat` and `smallest` variability as functions of the number of seeds used.

    Each count averages random subsets of the seeds. The papers find that about 40 suffice (IP1 Fig. 7, IP2 Fig. 11).

    Args:
        weights: [seed, dataset, parameter].
        used: numbers of seeds; default about 12 between 3 and all.
        draws: subsets per count.

    >>> grid = np.random.default_rng(0).normal(size=(30, 1, 2))
    >>> curve = variability_growth(grid, used=[10, 30])["flat"]
    >>> bool(np.isclose(curve.mean[-1], variability(grid).flat[0]))
    True
    """
    array = checked_weights(weights)
    counts = default_counts(len(array), least=LEAST_SEEDS, points=12) if used is None else np.asarray(used, int)
    require((counts >= 2) & (counts <= len(array)), f"used must be between 2 and the {len(array)} seeds, got {used!r}.")
    shares = np.concatenate([subset_shares(len(array), int(count), draws, subset_seed) for count in counts])
    resampled = resampled_variability(array, shares)
    return {
        name: _growth(counts, getattr(resampled, name).reshape(len(counts), draws)) for name in ("flat", "smallest")
    }


def _growth(counts: np.ndarray, values: np.ndarray) -> Growth:
    """Return the growth curve of values [count, draw]."""
    lower, upper = np.quantile(values, (0.05, 0.95), axis=1)
    return Growth(counts, values.mean(axis=1), lower, upper)
