"""How often two re-trained models decide differently about a person: estimators from 0/1 or class decisions.

Predictions have models on the first axis and examples on the second. Only counts per example are formed, never an array
of models × models.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import require, require_count, require_probability


def decisions(scores: ArrayLike, threshold: float = 0.5) -> np.ndarray:
    """Return the decisions of models from their scores: `score > threshold`, or the class with the highest score.

    Args:
        scores: in [0, 1]; [model, example] for the probability of class 1 or [model, example, class].
        threshold: above it the decision is 1; only for two axes.

    >>> decisions([[0.2, 0.5, 0.7]])
    array([[False, False,  True]])

    AD Equation 1.
    """
    values = np.asarray(scores)
    require(values.ndim in (2, 3), f"scores must be [model, example] or [model, example, class], got {values.shape}.")
    require_scores(values)
    if values.ndim == 3:
        classes: np.ndarray = values.argmax(axis=2).astype(np.min_scalar_type(values.shape[2] - 1))
        return classes
    require_probability("threshold", threshold, closed=True)
    return values > threshold


def positive_counts(predictions: ArrayLike) -> np.ndarray:
    """Return how many models decide 1, per example.

    >>> positive_counts([[0, 1, 1], [0, 0, 1]])
    array([0, 1, 2])
    """
    values = _binary(predictions)
    counts = np.zeros(values.shape[1], np.int64)
    for start in range(0, len(values), 255):  # 255 ones fit in a byte, and adding bytes is fast
        counts += np.add.reduce(values[start : start + 255], axis=0, dtype=np.uint8)
    return counts


def disagreement(predictions: ArrayLike) -> np.ndarray:
    """Return the unbiased estimate of each example's disagreement, `4·m/(m−1)·p(1−p)`, p the share that decides 1.

    Disagreement is twice the probability that two independently re-trained models decide differently: 0 when all agree,
    1 for a coin toss. The estimate can exceed 1 by up to 1/(m−1); it is not clipped, so that means stay unbiased.

    Args:
        predictions: 0/1 or boolean, [model, example], at least two models.

    >>> disagreement([[1, 0, 1], [1, 1, 0], [1, 0, 0], [1, 1, 0]]).round(3)
    array([0.   , 1.333, 1.   ])

    AD Proposition 3.
    """
    values = np.asarray(predictions)
    return disagreement_from_counts(positive_counts(values), len(values))


def disagreement_from_counts(positives: ArrayLike, models: int) -> np.ndarray:
    """Return the unbiased disagreement from the number of positive decisions among `models`.

    >>> float(disagreement_from_counts(2500, 5000).round(6))
    1.0002
    """
    require_count("models", models, 2)
    s = np.asarray(positives, float)
    require((s >= 0) & (s <= models), f"positives must be between 0 and the number of models, {models}.")
    disagreement: np.ndarray = 4 * s * (models - s) / (models * (models - 1.0))
    return disagreement


def class_counts(predictions: ArrayLike, classes: int | None = None) -> np.ndarray:
    """Return how many models decide for each class, [class, example].

    Args:
        predictions: class numbers 0 … classes − 1, [model, example], at least two models.
        classes: how many there are; by default one more than the largest that occurs, at least two.

    >>> class_counts([[0, 2], [1, 2], [0, 2]])
    array([[2, 0],
           [1, 0],
           [0, 3]])
    """
    values = _models_by_examples(predictions)
    require(values.dtype.kind in "biu", f"predictions must be class numbers, got {values.dtype}; see `decisions`.")
    count = max(2, int(values.max(initial=0)) + 1) if classes is None else classes
    require_count("classes", count, 2)
    require(
        values.min(initial=0) >= 0 and values.max(initial=0) < count, f"predictions must be classes 0 … {count - 1}."
    )
    return np.stack([positive_counts(values == label) for label in range(count)])


def pairwise_disagreement(predictions: ArrayLike, classes: int | None = None) -> np.ndarray:
    """Return the unbiased probability that two models decide for different classes, per example.

    Half the `disagreement` where there are two classes.

    >>> pairwise_disagreement([[0, 2], [1, 2], [2, 2]])
    array([1., 0.])
    """
    counts = class_counts(predictions, classes)
    models = counts[:, 0].sum() if counts.shape[1] else len(np.asarray(predictions))
    disagreement: np.ndarray = 1 - (counts * (counts - 1)).sum(axis=0) / (models * (models - 1.0))
    return disagreement


def one_vs_rest_disagreement(predictions: ArrayLike, classes: int | None = None) -> np.ndarray:
    """Return the mean over classes of the disagreement of "this class or another": (4/K)·P(f ≠ f'), per example.

    The measure AD uses for ten classes. It cannot exceed 4(K−1)/K², so compare it only at the same K.

    >>> one_vs_rest_disagreement([[0, 2], [1, 2], [2, 2]]).round(4)
    array([1.3333, 0.    ])

    AD §5.1.
    """
    counts = class_counts(predictions, classes)
    disagreement: np.ndarray = disagreement_from_counts(counts, len(np.asarray(predictions))).mean(axis=0)
    return disagreement


def top_class_share(predictions: ArrayLike, classes: int | None = None) -> np.ndarray:
    """Return the share of models that decide for the most frequent class, per example.

    >>> top_class_share([[0, 2], [1, 2], [0, 2], [0, 1]])
    array([0.75, 0.75])
    """
    share: np.ndarray = class_counts(predictions, classes).max(axis=0) / len(np.asarray(predictions))
    return share


def ambiguity(predictions: ArrayLike, reference: ArrayLike) -> float:
    """Return the share of examples about which at least one model decides differently from the reference model.

    Args:
        predictions: decisions, [model, example].
        reference: decisions of the model that is or would be deployed, [example].

    >>> ambiguity([[0, 1, 1], [0, 0, 1]], reference=[0, 1, 1])
    0.3333333333333333

    Marx, Calmon & Ustun 2020, Definition 2.
    """
    values, base = _with_reference(predictions, reference)
    differs = np.zeros(values.shape[1], bool)
    for row in values:
        differs |= row != base
    return float(differs.mean())


def discrepancy(predictions: ArrayLike, reference: ArrayLike) -> float:
    """Return the largest share of decisions that exchanging the reference model for one of the models would change.

    >>> discrepancy([[0, 1, 1], [0, 0, 0]], reference=[0, 1, 1])
    0.6666666666666666

    Marx, Calmon & Ustun 2020, Definition 3.
    """
    values, base = _with_reference(predictions, reference)
    share: float = max(int(np.count_nonzero(row != base)) for row in values) / values.shape[1]
    return share


def top_disagreement(values: ArrayLike, shares: ArrayLike = (0.01, 0.05, 0.1, 0.25, 0.5)) -> np.ndarray:
    """Return the disagreement that the stated top shares of examples reach or exceed: a curve of the worst-off.

    Args:
        values: disagreement, the last axis along examples.
        shares: in [0, 1]; 0.05 is the 95th percentile.

    >>> top_disagreement([0.0, 0.1, 0.2, 0.9, 1.0], [0.0, 0.5]).tolist()
    [1.0, 0.2]
    """
    require_probability("shares", shares, closed=True)
    quantiles = np.quantile(np.asarray(values, float), 1 - np.asarray(shares, float), axis=-1)
    return np.moveaxis(quantiles, range(np.ndim(shares)), range(-np.ndim(shares), 0))


def require_scores(values: np.ndarray) -> None:
    """Raise unless all scores are probabilities."""
    low, high = values.min(initial=1.0), values.max(initial=0.0)
    require(low >= 0 and high <= 1, f"scores must be in [0, 1], got values from {low:g} to {high:g}.")


def _models_by_examples(predictions: ArrayLike) -> np.ndarray:
    """Return the predictions after checking their axes."""
    values = np.asarray(predictions)
    require(values.ndim == 2, f"predictions must be [model, example], got {values.ndim} axes.")
    require(len(values) >= 2, f"disagreement needs at least two models, got {len(values)}; train with more seeds.")
    return values


def _binary(predictions: ArrayLike) -> np.ndarray:
    """Return 0/1 predictions as bytes after checking them."""
    values = _models_by_examples(predictions)
    if values.dtype == bool:
        return values.view(np.uint8)
    low, high = values.min(initial=0), values.max(initial=0)
    whole = values.dtype.kind in "iu" or bool(np.all(values == np.floor(values)))
    require(
        low >= 0 and high <= 1 and whole,
        f"predictions must be 0 or 1, got values from {low} to {high}; use `decisions` for scores and "
        "`pairwise_disagreement` for more than two classes.",
    )
    return values.astype(np.uint8, copy=False)


def _with_reference(predictions: ArrayLike, reference: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and the reference's decisions after checking that they are about the same examples."""
    values, base = _models_by_examples(predictions), np.asarray(reference)
    require(
        base.shape == values.shape[1:] and base.size > 0,
        f"reference must hold one decision per example, {values.shape[1]}, got shape {base.shape}.",
    )
    return values, base
