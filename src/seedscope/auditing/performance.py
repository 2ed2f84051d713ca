"""How good the decisions are at each level, what they are held against, and with which settings models were trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seedscope.auditing.facts import decided_without_privacy
from seedscope.auditing.levels import Level, scored
from seedscope.core import Number, SeedscopeError, number_or_none
from seedscope.datasets import Dataset
from seedscope.numerics import mean_interval

MOST_MODELS = 200  # whose ranking is looked at: more tell nothing new about a mean
SETTINGS = {
    "learning_rate": "learning rate",
    "batch_size": "batch size",
    "steps": "steps",
    "clipping_norm": "clipping norm",
    "noise_multiplier": "noise multiplier",
    "delta": "δ",
}


def performance(levels: Sequence[Level], data: Dataset | None) -> dict[str, Any]:
    """Return what no learning and no privacy achieve, and each level's recall, AUC and confusion."""
    _, _, labels = scored(levels[0].ensemble, "test")
    classes = levels[0].ensemble.description.data.classes
    majority = float(np.bincount(labels, minlength=len(classes)).max() / len(labels))
    return {
        "majority": number_or_none(Number(majority, "estimate", note="everybody gets the most frequent class")),
        "without_privacy": number_or_none(_without_privacy(levels[0], data)),
        "levels": [_at_level(level, len(classes)) for level in levels],
    }


def _without_privacy(level: Level, data: Dataset | None) -> Number | None:
    """Return the accuracy of logistic regression without privacy; None where the rows are not at hand."""
    right = None if data is None else decided_without_privacy(data, level.tested)
    if right is None:
        return None
    return Number(float(right.mean()), "estimate", note="logistic regression, one training")


def _at_level(level: Level, classes: int) -> dict[str, Any]:
    """Return a level's recall of each class, its AUC, and its confusion matrix averaged over re-trainings."""
    _, scores, labels = scored(level.ensemble, "test")
    decided = (scores > 0.5).astype(int) if scores.ndim == 2 else scores.argmax(-1)
    confusion = confusion_matrix(decided, labels, classes)
    recalls = [_mean_over_models((decided[:, labels == k] == k).mean(1), level.confidence) for k in range(classes)
               if (labels == k).any()]  # fmt: skip
    return {
        "recall": [number_or_none(recall) for recall in recalls],
        "auc": number_or_none(_mean_over_models(areas(scores[:MOST_MODELS], labels), level.confidence)),
        "confusion": confusion.round(2).tolist(),
    }


def confusion_matrix(decided: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Return how many people of each class [truth, decision] get each decision, on average over models.

    >>> confusion_matrix(np.array([[0, 1, 1], [0, 0, 1]]), np.array([0, 1, 1]), 2).tolist()
    [[1.0, 0.0], [0.5, 1.5]]
    """
    places = labels * classes + decided
    counts = np.bincount(places.ravel(), minlength=classes**2).reshape(classes, classes)
    matrix: np.ndarray = counts / len(decided)
    return matrix


def areas(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return each model's area under the curve; beyond two classes the mean of each class against the rest.

    >>> areas(np.array([[0.1, 0.4, 0.35, 0.8]]), np.array([0, 0, 1, 1])).tolist()
    [0.75]
    """
    if scores.ndim == 2:
        return _areas(scores, labels == 1)
    area: np.ndarray = np.mean([_areas(scores[..., k], labels == k) for k in np.unique(labels)], axis=0)
    return area


def _areas(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Return the chance that a positive has a higher score than a negative, ties halved, for each model."""
    from scipy.stats import rankdata

    ranks = rankdata(scores, axis=1)
    n, m = positive.sum(), (~positive).sum()
    area: np.ndarray = (ranks[:, positive].sum(1) - n * (n + 1) / 2) / (n * m)
    return area


def _mean_over_models(values: np.ndarray, confidence: float) -> Number:
    """Return a mean over re-trainings with its interval."""
    mean = float(values.mean())
    if len(values) < 2:
        return Number(mean, "estimate")
    low, high = (float(end) for end in mean_interval(values, confidence))
    return Number(mean, "estimate", max(0.0, low), min(1.0, high), confidence)


def settings(level: Level) -> dict[str, str]:
    """Return the settings that a level's models were trained with: those that were given and those that follow."""
    mechanism, description = level.ensemble.mechanism, level.ensemble.description
    said = {
        words: _text(getattr(mechanism, name))
        for name, words in SETTINGS.items()
        if isinstance(getattr(mechanism, name, None), int | float) and getattr(mechanism, name) != 0
    }
    bound = description.conditions.norm_bound
    return {
        "features": f"{int(np.prod(description.data.shape)):,}",
        **({} if bound is None else {"largest norm of a row": _text(bound)}),
        **_derived(level),
        **said,
    }


def _derived(level: Level) -> dict[str, str]:
    """Return the regularisation and noise that a mechanism's calibration chose."""
    mechanism, conditions = level.ensemble.mechanism, level.ensemble.description.conditions
    try:
        if hasattr(mechanism, "tilt"):
            tilt = mechanism.tilt(conditions)
            return {"l2": _text(tilt.penalty), "noise (tilt of the objective)": _text(tilt.scale)}
        if hasattr(mechanism, "penalty") and hasattr(mechanism, "noise"):
            return {
                "l2": _text(mechanism.penalty(conditions)),
                "noise (on the weights)": _text(mechanism.noise(conditions)),
            }
    except SeedscopeError:
        return {}
    return {}


def _text(number: float) -> str:
    """Return a setting as people write it."""
    return f"{number:,}" if isinstance(number, int) else f"{number:.4g}"
