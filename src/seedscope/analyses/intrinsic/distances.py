"""Distances between the weights of models that differ in the data, in the seed, or in both (IP1 §4, IP2 §5).

Names: `Δ_S` same seed, neighbouring data; `Δ_V` same data, other seed; `Δ_S+V` both differ. *Strict* pairs are the base
against a neighbour, which differ in one position; pairs of two neighbours, which the papers use, differ in two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.intrinsic.weight_grid import blocks, checked_weights
from seedscope.core import map_in_threads, require

# Below this share of ‖x‖² + ‖y‖² the Gram form of ‖x − y‖² has lost six digits and is computed from the difference.
CANCELLATION = 1e-6


@dataclass(frozen=True, eq=False)
class Distances:
    """A distribution of distances: exact extremes and moments of all pairs, and a random sample of them to draw.

    `values` holds every pair's distance where there are at most as many as were to be kept, in ascending order.
    """

    values: np.ndarray
    pairs: int
    minimum: float
    mean: float
    standard_deviation: float
    maximum: float


@dataclass(frozen=True, eq=False)
class SeedAndDataDistances:
    """The effect of the data, of the seed and of both, at one checkpoint and one kind of initialisation."""

    data_strict: Distances
    data_all_pairs: Distances
    seed: Distances
    both_strict: Distances
    both_all_pairs: Distances | None

    @property
    def seed_exceeds_data(self) -> float:
        """The share of (seed pair, strict data pair) comparisons, of the values kept, in which the seed moves more."""
        below = np.searchsorted(self.data_strict.values, self.seed.values)
        return float(below.mean() / len(self.data_strict.values))


def pairwise_distances(left: ArrayLike, right: ArrayLike | None = None) -> np.ndarray:
    """Return the Euclidean distances [i, j] between rows of `left` and rows of `right` (default: of `left`).

    One matrix product: `‖x − y‖² = ‖x‖² + ‖y‖² − 2 x·y` in float64 after moving the origin to the mean of the rows.
    Pairs so near each other that digits cancel are recomputed from the difference: equal rows are exactly 0 apart.

    >>> pairwise_distances([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]]).tolist()
    [[0.0, 5.0, 0.0], [5.0, 0.0, 5.0], [0.0, 5.0, 0.0]]
    """
    x = np.asarray(left, float)
    y = x if right is None else np.asarray(right, float)
    origin = x.mean(axis=0)
    x, y = x - origin, y - origin
    x_squares, y_squares = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
    scale = x_squares[:, None] + y_squares[None, :]
    squares = x @ y.T
    squares *= -2
    squares += scale
    scale *= CANCELLATION
    _recompute(squares, np.flatnonzero(squares <= scale), x, y)
    distances: np.ndarray = np.sqrt(squares, out=squares)
    return distances


def _recompute(squares: np.ndarray, pairs: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Replace the squared distances at these flat positions by those of the differences."""
    for block in blocks(len(pairs), 8 * x.shape[1]):
        rows, columns = np.divmod(pairs[block], squares.shape[1])
        difference = x[rows] - y[columns]
        squares[rows, columns] = np.einsum("ij,ij->i", difference, difference)


def seed_and_data_distances(
    weights: ArrayLike, *, keep: int = 100_000, all_pairs_of_both: bool = True, seed: int = 0
) -> SeedAndDataDistances:
    """Return the distributions of Δ_S (strict and all pairs), Δ_V and Δ_S+V of one grid of models.

    Does the seed move a model more than any person's record does? IP1 Fig. 1, IP2 Fig. 2 and 3 show these; call it per
    initialisation and checkpoint. Extremes and moments are exact over all pairs; `keep` bounds the values kept to draw.

    Args:
        weights: [seed, dataset, parameter], dataset 0 the base.
        keep: how many distances of each kind to keep at most.
        all_pairs_of_both: also Δ_S+V over all pairs of data sets, whose number grows with the grid's square.
        seed: of the random choice of the values kept.

    >>> grid = np.random.default_rng(0).normal(size=(5, 1, 3)) + np.zeros((5, 4, 1))
    >>> found = seed_and_data_distances(grid)
    >>> found.data_all_pairs.maximum, found.seed.pairs, found.seed_exceeds_data
    (0.0, 40, 1.0)
    """
    array = checked_weights(weights, least_datasets=2)
    rng = np.random.default_rng(seed)
    return SeedAndDataDistances(
        data_strict=_data_strict_summary(array, keep, rng),
        data_all_pairs=_data_all_pairs_summary(array, keep, rng),
        seed=seed_distances(array, keep=keep, seed=seed),
        both_strict=_both_strict(array, keep, rng),
        both_all_pairs=_both_all_pairs(array, keep, rng) if all_pairs_of_both else None,
    )


def seed_distances(weights: ArrayLike, *, keep: int = 100_000, seed: int = 0) -> Distances:
    """Return the distribution of Δ_V: the same data, two seeds.

    Args:
        weights: [seed, dataset, parameter].
        keep: how many distances to keep at most.
        seed: of the random choice of the values kept.

    >>> seed_distances(np.array([0.0, 1.0, 3.0]).reshape(3, 1, 1)).values.tolist()
    [1.0, 2.0, 3.0]
    """
    array = checked_weights(weights)
    seeds, datasets, _ = array.shape
    above = np.triu_indices(seeds, 1)
    collected = _Collector(datasets * len(above[0]), keep, np.random.default_rng(seed))
    for distances in map_in_threads(lambda dataset: pairwise_distances(array[:, dataset])[above], range(datasets)):
        collected.add(distances)
    return collected.distances()


def data_distances(weights: ArrayLike, *, strict: bool = True) -> np.ndarray:
    """Return every Δ_S, as [seed, pair]: the same seed, neighbouring data.

    Strict pairs are (D, D_i) in the order of the data sets; all pairs are (D_i, D_j), i < j, in row-major order.

    >>> grid = np.array([[0.0], [1.0], [5.0]]) * np.ones((3, 1, 1))
    >>> data_distances(grid)[0].tolist(), data_distances(grid, strict=False)[0].tolist()
    ([1.0, 5.0], [1.0, 5.0, 4.0])
    """
    array = checked_weights(weights, least_datasets=2)
    return _data_strict(array) if strict else _data_all_pairs(array)


def _data_strict(array: np.ndarray) -> np.ndarray:
    """Return ‖A(r; D) − A(r; D_i)‖ as [seed, neighbour]."""
    seeds, datasets, parameters = array.shape
    result = np.empty((seeds, datasets - 1))
    for block in blocks(seeds, 8 * datasets * parameters):
        part = array[block].astype(float)
        result[block] = np.linalg.norm(part[:, 1:] - part[:, :1], axis=-1)
    return result


def _data_all_pairs(array: np.ndarray) -> np.ndarray:
    """Return ‖A(r; D_i) − A(r; D_j)‖ for i < j as [seed, pair]."""
    above = np.triu_indices(array.shape[1], 1)
    return np.stack(list(map_in_threads(lambda models: pairwise_distances(models)[above], list(array))))


def _data_strict_summary(array: np.ndarray, keep: int, rng: np.random.Generator) -> Distances:
    """Return the distribution of ‖A(r; D) − A(r; D_i)‖."""
    collected = _Collector(array.shape[0] * (array.shape[1] - 1), keep, rng)
    collected.add(_data_strict(array))
    return collected.distances()


def _data_all_pairs_summary(array: np.ndarray, keep: int, rng: np.random.Generator) -> Distances:
    """Return the distribution of ‖A(r; D_i) − A(r; D_j)‖, i < j."""
    above = np.triu_indices(array.shape[1], 1)
    collected = _Collector(len(array) * len(above[0]), keep, rng)
    for distances in map_in_threads(lambda models: pairwise_distances(models)[above], list(array)):
        collected.add(distances)
    return collected.distances()


def _both_strict(array: np.ndarray, keep: int, rng: np.random.Generator) -> Distances:
    """Return the distribution of ‖A(r; D) − A(r'; D_i)‖, r ≠ r'."""
    seeds, datasets, _ = array.shape
    collected = _Collector(seeds * (seeds - 1) * (datasets - 1), keep, rng)
    other = ~np.eye(seeds, dtype=bool)
    pairs = map_in_threads(lambda dataset: pairwise_distances(array[:, 0], array[:, dataset]), range(1, datasets))
    for distances in pairs:
        collected.add(distances[other])
    return collected.distances()


def _both_all_pairs(array: np.ndarray, keep: int, rng: np.random.Generator) -> Distances:
    """Return the distribution of ‖A(r; D_i) − A(r'; D_j)‖, r < r', i ≠ j."""
    seeds, datasets, parameters = array.shape
    collected = _Collector(seeds * (seeds - 1) // 2 * datasets * (datasets - 1), keep, rng)
    rows, columns = np.nonzero(~np.eye(datasets, dtype=bool))

    def found(task: tuple[int, slice]) -> np.ndarray:
        seed, block = task
        later = array[seed + 1 :][block]
        distances = pairwise_distances(array[seed], later.reshape(-1, parameters))
        return distances.reshape(datasets, len(later), datasets)[rows, :, columns]

    bytes_each = 8 * datasets * (parameters + datasets)
    tasks = [(seed, block) for seed in range(seeds - 1) for block in blocks(seeds - 1 - seed, bytes_each)]
    for values in map_in_threads(found, tasks):
        collected.add(values)
    return collected.distances()


class _Collector:
    """Moments, extremes and a random sample of values that arrive in blocks, their total number known beforehand."""

    def __init__(self, total: int, keep: int, rng: np.random.Generator) -> None:
        require(keep >= 1, f"keep must be at least 1, got {keep}.")
        self.total, self.seen = total, 0
        self.chosen = np.arange(total) if total <= keep else np.sort(rng.integers(total, size=keep))
        self.kept: list[np.ndarray] = []
        self.minimum, self.maximum = np.inf, -np.inf
        self.mean, self.squares = 0.0, 0.0

    def add(self, values: np.ndarray) -> None:
        """Take in the next block of values."""
        flat = values.ravel()
        first, last = np.searchsorted(self.chosen, (self.seen, self.seen + flat.size))
        self.kept.append(flat[self.chosen[first:last] - self.seen])
        self.minimum, self.maximum = min(self.minimum, flat.min()), max(self.maximum, flat.max())
        self._add_moments(flat)

    def _add_moments(self, flat: np.ndarray) -> None:
        """Merge the block's mean and sum of squared deviations (Chan et al. 1979)."""
        mean, squares = flat.mean(), flat.size * flat.var()
        total = self.seen + flat.size
        self.squares += squares + (mean - self.mean) ** 2 * self.seen * flat.size / total
        self.mean += (mean - self.mean) * flat.size / total
        self.seen = total

    def distances(self) -> Distances:
        """Return the distribution of everything taken in."""
        return Distances(
            values=np.sort(np.concatenate(self.kept)),
            pairs=self.total,
            minimum=float(self.minimum),
            mean=float(self.mean),
            standard_deviation=float(np.sqrt(self.squares / self.seen)),
            maximum=float(self.maximum),
        )
