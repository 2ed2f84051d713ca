"""Forests with and without everybody, from the forests that are grown anyway.

A tree whose bag lacks a person was grown without them, and 37 % of the trees of a bootstrap forest are such. So the
trees of some hundred forests, which say how much decisions hang on the seed, also hold some dozen forests without each
person: trees without them, taken in their order, as many at a time as a forest has. No tree is used twice, so forests
are independent as refits are; the first half of the trees fits the attack and the other half is attacked.

It is exact but for one thing: a bag without the person is of as many draws as before, where a refit on one row fewer
draws one fewer, and a `class_weight="balanced"` is of all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedscope.integrations.own_data import OwnData
from seedscope.integrations.seeding import seeded
from seedscope.mechanisms import OwnModel
from seedscope.storage import Ensemble
from seedscope.training import generator

FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier", "BaggingClassifier")
LACKS = math.exp(-1)  # the share of bootstrap samples that lack a row
UNLUCKY = 4.0  # standard deviations by which the row that the fewest trees lack is below the mean
LEAST_FORESTS = 4  # without a person in each half of the trees


def is_bootstrap_forest(estimator: Any) -> bool:
    """Whether an estimator is a forest of scikit-learn's whose trees each lack some of the rows.

    >>> from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    >>> [is_bootstrap_forest(one) for one in (RandomForestClassifier(), ExtraTreesClassifier())]
    [True, False]
    """
    own = type(estimator).__module__.startswith("sklearn.ensemble") and type(estimator).__name__ in FORESTS
    if not own or not estimator.bootstrap or getattr(estimator, "warm_start", False):
        return False
    base = getattr(estimator, "estimator", None)
    return base is None or hasattr(base, "predict_proba")


def tells_of_everybody(estimator: Any, seeds: int) -> bool:
    """Whether forests of this many seeds surely have enough trees without each row, to be with and without everybody.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> [tells_of_everybody(RandomForestClassifier(trees), 30) for trees in (8, 100)]
    [False, True]
    """
    if not is_bootstrap_forest(estimator):
        return False
    trees = _size(estimator) * (seeds // 2)  # of each half
    fewest = trees * LACKS - UNLUCKY * math.sqrt(trees * LACKS * (1 - LACKS))
    return fewest >= LEAST_FORESTS * _size(estimator)


@dataclass(frozen=True, eq=False)
class Forests:
    """Scores [forest, row(, class)] of forests on all rows; and of pairs of forests with and without each row.

    `with_row` and `without_row` [pair, row(, class)] hold the pairs of the first half of the trees, then those of the
    other half; where the row is of the test part they are not numbers.
    """

    scores: np.ndarray
    with_row: np.ndarray
    without_row: np.ndarray


class _Without:
    """Forests without each row, filled tree by tree."""

    def __init__(self, rows: int, shape: tuple[int, ...], trees: int):
        self.trees, self._count = trees, np.zeros(rows, int)
        self._sum = np.zeros((rows, *shape))
        self._done: list[list[np.ndarray]] = [[] for _ in range(rows)]

    def add(self, scores: np.ndarray, lacks: np.ndarray) -> None:
        """Add a tree's scores to the forests of the rows that it lacks."""
        self._sum[lacks] += scores[lacks]
        self._count[lacks] += 1
        for row in np.flatnonzero(self._count == self.trees):
            self._done[row].append(self._sum[row] / self.trees)
            self._sum[row], self._count[row] = 0, 0

    def forests(self, rows: np.ndarray) -> np.ndarray:
        """Return as many forests without each of these rows as all of them have: [forest, row(, class)]."""
        count = min(len(self._done[row]) for row in rows)
        return np.stack([[self._done[row][k] for row in rows] for k in range(count)]) if count else np.zeros((0,))


def grow(
    estimator: Any,
    table: Any,
    labels: np.ndarray,
    data: OwnData,
    seeds: int,
    root_seed: int,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Forests:
    """Return the forests of this many seeds, as plain refits would give them, and from their trees all others."""
    from sklearn.utils import _safe_indexing

    rows = data.base.features[:, 0].astype(int)
    learned, truth, classes = _safe_indexing(table, rows), labels[rows], np.unique(labels)
    shape = () if len(classes) == 2 else (len(classes),)
    plain = np.asarray(learned) if hasattr(learned, "columns") else learned  # as the trees themselves were given it
    everybody = np.full((seeds, len(labels), *shape), np.nan)
    halves = [_Without(len(rows), shape, _size(estimator)) for _ in range(2)]
    for seed in range(seeds):
        forest = seeded(estimator, generator(root_seed, "own model 0", seed))
        forest.set_params(n_jobs=jobs or -1)
        forest.fit(learned, truth)
        everybody[seed] = _of_class(forest.predict_proba(table), forest, classes)
        half = halves[2 * seed // seeds]
        for tree, bag, columns in _trees(forest):
            lacks = np.bincount(bag, minlength=len(rows)) == 0
            scores = _of_class(tree.predict_proba(_safe_indexing(plain, columns, axis=1)), tree, _own(tree, classes))
            half.add(scores, lacks)
        if progress:
            progress(seed + 1, seeds)
    return _paired(everybody, [half.forests(np.arange(len(rows))) for half in halves], rows)


def _size(estimator: Any) -> int:
    """Return how many trees a forest has."""
    return int(estimator.n_estimators)


def _trees(forest: Any) -> Any:
    """Yield the trees with their bags and the columns they see."""
    features = getattr(forest, "estimators_features_", None)
    columns = [slice(None)] * len(forest.estimators_) if features is None else features
    return zip(forest.estimators_, forest.estimators_samples_, columns, strict=True)


def _own(tree: Any, classes: np.ndarray) -> np.ndarray:
    """Return the classes as a tree knows them: by their numbers, or as they are."""
    known = np.asarray(tree.classes_)
    return classes if np.isin(known, classes).all() and known.dtype == classes.dtype else np.arange(len(classes))


def _of_class(chances: np.ndarray, model: Any, classes: np.ndarray) -> np.ndarray:
    """Return scores [row] of the second class, or [row, class]; a class that a bag lacked gets 0."""
    whole = np.zeros((len(chances), len(classes)))
    whole[:, np.searchsorted(classes, model.classes_)] = chances
    return whole[:, 1] if len(classes) == 2 else whole


def _paired(everybody: np.ndarray, halves: list[np.ndarray], rows: np.ndarray) -> Forests:
    """Return forests with each row beside as many without it, the same number from each half of the trees."""
    seeds = len(everybody)
    half = (seeds + 1) // 2  # forests in the first half of the trees
    count = min(len(halves[0]), len(halves[1]), seeds - half)
    chosen = np.concatenate([np.arange(count), half + np.arange(count)])
    with_row = everybody[chosen]
    without = np.full_like(with_row, np.nan)
    if count:
        without[:, rows] = np.concatenate([half[:count] for half in halves])
    return Forests(everybody, with_row, without)


def as_ensembles(
    forests: Forests, data: OwnData, labels: np.ndarray, mechanism: OwnModel
) -> tuple[Ensemble, Ensemble] | Ensemble:
    """Return the forests as an ensemble on the base, and beside it one with and without everybody."""
    parts = (data.train, data.test)
    order = np.argsort(np.concatenate([part.rows for part in parts]))
    groups = {name: np.concatenate([part.groups[name] for part in parts])[order] for name in data.groups}
    ids = np.concatenate([part.ids.astype(str) for part in parts])[order]
    training = np.isin(np.arange(len(labels)), data.train.rows)
    given: dict[str, Any] = {"groups": groups, "ids": ids, "name": data.name, "mechanism": mechanism}
    given |= {"source": data.source, "features": data.width}
    base = Ensemble.from_scores(forests.scores, labels, training=training, **given)
    pairs = len(forests.with_row)
    if pairs < 2 * LEAST_FORESTS:
        return base
    return base, Ensemble.from_scores(forests.with_row, labels, without=forests.without_row, **given)
