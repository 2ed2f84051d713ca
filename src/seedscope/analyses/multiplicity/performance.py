"""How good each model is, and whether disagreement remains among the good ones (AD Figure 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.multiplicity.disagreement import (
    disagreement_from_counts,
    positive_counts,
    require_scores,
    top_disagreement,
)
from seedscope.core import require, require_probability
from seedscope.numerics import mean_ranks

_BLOCK = 2**20  # scores ranked at once


@dataclass(frozen=True, eq=False)
class ConditionedDisagreement:
    """Disagreement among the models that reach an accuracy: one entry per threshold on all three axes.

    `disagreement` is NaN where fewer than two models reach the threshold. Selecting models by accuracy on private data
    is itself not private: this is for study, not for release.
    """

    thresholds: np.ndarray
    models: np.ndarray
    disagreement: np.ndarray


def accuracies(predictions: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Return each model's share of correct decisions.

    >>> accuracies([[0, 1, 1], [0, 0, 0]], [0, 1, 1]).round(3)
    array([1.   , 0.333])
    """
    values, truth = _with_labels(predictions, labels)
    return np.array([np.count_nonzero(row == truth) for row in values]) / max(1, truth.size)


def areas_under_curve(scores: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Return each model's area under the ROC curve: the chance that a positive example scores above a negative one.

    Args:
        scores: [model, example], in [0, 1]; ties count one half.
        labels: 0 or 1, [example]; both must occur.

    >>> areas_under_curve([[0.1, 0.4, 0.35, 0.8]], [0, 0, 1, 1])
    array([0.75])
    """
    values, truth = _with_labels(scores, labels)
    require_scores(values)
    positive = _two_classes(truth)
    ones, zeros = positive.sum(), (~positive).sum()
    blocks = np.array_split(values, max(1, values.size // _BLOCK))
    ranks = np.concatenate([mean_ranks(block)[:, positive].sum(axis=1) for block in blocks])
    areas: np.ndarray = (ranks - ones * (ones + 1) / 2) / (ones * zeros)
    return areas


def f1_scores(predictions: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Return each model's harmonic mean of precision and recall for class 1.

    >>> f1_scores([[0, 1, 1, 0]], [0, 1, 0, 1])
    array([0.5])
    """
    values, truth = _with_labels(predictions, labels)
    positive = _two_classes(truth)
    hits = np.array([np.count_nonzero(row[positive]) for row in values])
    decided = np.array([np.count_nonzero(row) for row in values])
    f1: np.ndarray = 2 * hits / (decided + positive.sum())
    return f1


def accuracy_conditioned_disagreement(
    predictions: ArrayLike, labels: ArrayLike, thresholds: ArrayLike, share: float = 0.05
) -> ConditionedDisagreement:
    """Return the disagreement that the top `share` of examples reach among models of at least each accuracy.

    If it stays high among accurate models, better accuracy will not remove the arbitrariness: the randomness itself
    causes it.

    Args:
        predictions: 0/1, [model, example].
        labels: 0/1, [example].
        thresholds: accuracies, one axis.
        share: the top share of examples; 0.05 is the 95th percentile.

    >>> found = accuracy_conditioned_disagreement([[0, 1], [0, 1], [1, 0]], [0, 1], [0.0, 0.9])
    >>> found.models, found.disagreement.round(3)
    (array([3, 2]), array([1.333, 0.   ]))

    AD Figure 4.
    """
    values, truth = _with_labels(predictions, labels)
    limits = np.atleast_1d(np.asarray(thresholds, float))
    require_probability("thresholds", limits, closed=True)
    require_probability("share", share, closed=True)
    accuracy = accuracies(values, truth)
    kept = np.array([np.count_nonzero(accuracy >= limit) for limit in limits])
    top = np.full(limits.shape, np.nan)
    counts, models, best_first = np.zeros(values.shape[1], np.int64), 0, np.argsort(-accuracy, kind="stable")
    for place in np.argsort(kept, kind="stable"):  # each model is counted once, when its threshold lets it in
        counts = counts + _counts(values[best_first[models : kept[place]]])
        models = kept[place]
        if models >= 2:
            top[place] = top_disagreement(disagreement_from_counts(counts, int(models)), share)
    return ConditionedDisagreement(limits, kept, top)


def _counts(rows: np.ndarray) -> np.ndarray:
    """Return the positive counts of any number of rows, also of none or one."""
    return positive_counts(rows) if len(rows) >= 2 else rows.astype(np.int64).sum(axis=0)


def _with_labels(values: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return values and labels after checking that they are about the same examples."""
    array, truth = np.asarray(values), np.asarray(labels)
    require(array.ndim == 2, f"predictions or scores must be [model, example], got {array.ndim} axes.")
    require(
        truth.shape == array.shape[1:], f"labels must hold one per example, {array.shape[1]}, got shape {truth.shape}."
    )
    return array, truth


def _two_classes(labels: np.ndarray) -> np.ndarray:
    """Return which labels are 1, after checking that both 0 and 1 occur and nothing else."""
    present = np.unique(labels)
    require(
        present.size == 2 and np.array_equal(present, [0, 1]),
        f"labels must hold both 0 and 1, got {present.tolist()[:5]}; a test part with one class has no such score.",
    )
    return labels.astype(bool)
