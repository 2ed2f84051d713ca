"""Do models group by seed or by data? Clusters, a map, trajectories of weights (IP2 §5.2, Fig. 1, 4, 9, App. D.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.intrinsic.weight_grid import checked_weights
from seedscope.core import SeedscopeError, require, require_count, unknown_name

Control = Literal["none", "binarised", "shuffled", "synthetic"]
Projection = Literal["umap", "principal components"]
SYNTHETIC_SPREAD = 0.1  # of the noise around seed-specific centres, IP2 App. D.1


@dataclass(frozen=True)
class Clusters:
    """What k-means clusters of models hold.

    Purity by seed: the share of models that have their cluster's most common seed; 1 when no cluster mixes seeds. The
    adjusted Rand index compares the clusters with the groups by seed: 1 when equal, 0 by chance. So by data set.
    """

    clusters: int
    purity_by_seed: float
    purity_by_dataset: float
    single_seed_share: float
    single_dataset_share: float
    adjusted_rand_by_seed: float
    adjusted_rand_by_dataset: float


@dataclass(frozen=True, eq=False)
class WeightMap:
    """Two-dimensional coordinates [seed, dataset, 2] of the models, which control they show, and how they were made."""

    coordinates: np.ndarray
    control: Control
    projection: Projection = "umap"


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Two or more weights of several seeds along training: values [seed, step, parameter]."""

    seeds: np.ndarray
    steps: np.ndarray
    parameters: np.ndarray
    values: np.ndarray


def cluster_models(
    weights: ArrayLike, *, clusters: int | None = None, restarts: int = 3, most_models: int = 4000, seed: int = 0
) -> Clusters:
    """Return how far k-means clusters of the weights coincide with seeds and with data sets.

    IP2 finds that with at least as many clusters as seeds no cluster holds two seeds, while each holds many data sets.

    Args:
        weights: [seed, dataset, parameter].
        clusters: default the number of seeds.
        restarts: of k-means, the best is taken.
        most_models: of a larger grid, only as many data sets are used, the first.
        seed: of k-means.

    >>> centres = np.random.default_rng(0).normal(size=(5, 1, 3))
    >>> found = cluster_models(centres + 1e-3 * np.random.default_rng(1).normal(size=(5, 8, 3)))
    >>> found.purity_by_seed, found.purity_by_dataset, found.single_seed_share
    (1.0, 0.125, 1.0)
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score
    from threadpoolctl import threadpool_limits

    array = checked_weights(weights, least_datasets=2)
    array = array[:, : max(2, most_models // len(array))]
    seeds, datasets, parameters = array.shape
    count = seeds if clusters is None else clusters
    require_count("clusters", count)
    require(count <= seeds * datasets, f"clusters must be at most the {seeds * datasets} models, got {count}.")
    with threadpool_limits(1):  # on these sizes its threads mostly wait for each other
        labels = KMeans(count, n_init=restarts, random_state=seed).fit_predict(array.reshape(-1, parameters))
    by_seed, by_dataset = np.repeat(np.arange(seeds), datasets), np.tile(np.arange(datasets), seeds)
    seed_purity, one_seed = _purity(labels, by_seed)
    dataset_purity, one_dataset = _purity(labels, by_dataset)
    rands = (float(adjusted_rand_score(truth, labels)) for truth in (by_seed, by_dataset))
    return Clusters(count, seed_purity, dataset_purity, one_seed, one_dataset, *rands)


def _purity(labels: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return the share of members of the commonest group of their cluster, and the share of one-group clusters."""
    table = np.zeros((labels.max() + 1, truth.max() + 1), int)
    np.add.at(table, (labels, truth), 1)
    table = table[table.sum(axis=1) > 0]
    return float(table.max(axis=1).sum() / labels.size), float(np.mean((table > 0).sum(axis=1) == 1))


def weight_map(
    weights: ArrayLike,
    *,
    control: Control = "none",
    projection: Projection = "umap",
    neighbours: int = 15,
    least_distance: float = 0.1,
    seed: int = 0,
) -> WeightMap:
    """Return a picture of the models in two dimensions; colour it by seed and by data set to see which groups them.

    Controls of IP2: "binarised" keeps only the weights' signs (Hamming distance), "shuffled" permutes each model's
    weights by itself, which must destroy the groups, "synthetic" draws noise around seed-specific centres, which must
    show them. For an early checkpoint give that checkpoint's weights. UMAP needs the `umap` extra; the first two
    principal components need nothing, keep distances in their plane, and show less of many groups.

    Args:
        weights: [seed, dataset, parameter].
        control: "none", "binarised", "shuffled" or "synthetic".
        projection: "umap" or "principal components".
        neighbours, least_distance: UMAP's `n_neighbors` and `min_dist`.
        seed: of UMAP and of the controls.

    >>> centres = np.random.default_rng(0).normal(size=(3, 1, 5))
    >>> found = weight_map(centres + np.zeros((3, 4, 5)), projection="principal components")
    >>> found.coordinates.shape, bool(np.ptp(found.coordinates, axis=1).max() < 1e-9)
    ((3, 4, 2), True)

    IP2 Fig. 4, Fig. 9 and App. D.1.
    """
    if projection not in get_args(Projection):
        raise unknown_name("projection", projection, get_args(Projection))
    if control not in get_args(Control):
        raise unknown_name("control", control, get_args(Control))
    array = checked_weights(weights)
    rows = controlled_weights(array, control, seed).reshape(-1, array.shape[2])
    if projection == "principal components":
        return WeightMap(_principal_components(rows).reshape(*array.shape[:2], 2), control, projection)
    metric = "hamming" if control == "binarised" else "euclidean"
    near = min(neighbours, len(rows) - 1)
    umap = _umap()(n_neighbors=near, min_dist=least_distance, metric=metric, random_state=seed, n_jobs=1)
    return WeightMap(np.asarray(umap.fit_transform(rows)).reshape(*array.shape[:2], 2), control)


def _principal_components(rows: np.ndarray) -> np.ndarray:
    """Return the coordinates [model, 2] along the two directions in which models differ most; 0 where there is one."""
    left, lengths, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    axes = (left * lengths)[:, :2]
    return np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))


def _umap() -> type[Any]:
    """Return the UMAP class, or say how to get it."""
    try:
        from umap import UMAP
    except ImportError:
        raise SeedscopeError(
            "the map of models needs the package umap-learn; install it with: pip install 'seedscope[umap]'."
        ) from None
    umap: type[Any] = UMAP
    return umap


def controlled_weights(weights: ArrayLike, control: Control, seed: int = 0) -> np.ndarray:
    """Return the weights [seed, dataset, parameter] as a control of the map changes them.

    >>> controlled_weights(np.array([[[-0.5, 2.0]]]), "binarised").tolist()
    [[[0.0, 1.0]]]
    """
    array, rng = np.asarray(weights, float), np.random.default_rng(seed)
    if control == "binarised":
        return (array > 0).astype(float)
    if control == "shuffled":
        return rng.permuted(array, axis=2)
    if control == "synthetic":
        centres = rng.standard_normal((array.shape[0], 1, array.shape[2]))
        return centres + SYNTHETIC_SPREAD * rng.standard_normal(array.shape)
    return array


def weight_trajectories(
    weights: ArrayLike,
    steps: Sequence[int],
    *,
    parameters: Sequence[int] | None = None,
    seeds: Sequence[int] | None = None,
) -> Trajectories:
    """Return how some weights of some seeds move along training, to draw one against the other.

    Args:
        weights: [seed, step, parameter], models of one data set.
        steps: the checkpoints.
        parameters: which weights; default the two that differ most between seeds at the end.
        seeds: which seeds; default the first five.

    >>> found = weight_trajectories(np.random.default_rng(0).normal(size=(6, 4, 3)), [1, 2, 3, 4])
    >>> found.values.shape
    (5, 4, 2)

    IP2 Fig. 1.
    """
    array = np.asarray(weights, float)
    shape = f"weights must have the axes [seed, step, parameter] with {len(steps)} steps, got the shape {array.shape}."
    require(array.ndim == 3 and array.shape[1] == len(steps), shape)
    spread = array[:, -1].std(axis=0)
    chosen = np.sort(np.argsort(-spread, kind="stable")[:2]) if parameters is None else np.asarray(parameters)
    some = np.arange(min(5, len(array))) if seeds is None else np.asarray(seeds)
    _require_index("parameters", chosen, array.shape[2])
    _require_index("seeds", some, array.shape[0])
    return Trajectories(some, np.asarray(steps), chosen, array[np.ix_(some, np.arange(len(steps)), chosen)])


def _require_index(name: str, index: np.ndarray, size: int) -> None:
    """Raise unless every index exists."""
    require((index >= 0) & (index < size), f"{name} must be between 0 and {size - 1}, got {index.tolist()}.")
