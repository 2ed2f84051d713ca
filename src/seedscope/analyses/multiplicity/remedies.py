"""What to do about it: decide by consensus of several models, and abstain where they do not agree.

Both use several models. If each was trained with (ε, δ), releasing a consensus of m of them, or a rule that abstains by
their disagreement, costs up to (mε, mδ).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import Number, require, require_count
from seedscope.numerics import clopper_pearson


@dataclass(frozen=True)
class Abstention:
    """What abstaining below a level of self-consistency costs and buys.

    `accuracy` is the consensus' on the examples that are decided (None if there are none), `accuracy_of_all` its
    accuracy without abstaining; their exact intervals are over the people that such examples are drawn from.
    """

    level: float
    abstained: Number
    accuracy: Number | None
    accuracy_of_all: Number


def consensus(positives: ArrayLike, models: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the decision of the majority of models and the share of models behind it; a tie is decided 0.

    >>> decision, share = consensus([0, 5, 9], models=10)
    >>> decision, share
    (array([False, False,  True]), array([1. , 0.5, 0.9]))
    """
    require_count("models", models)
    s = np.asarray(positives)
    require((s >= 0) & (s <= models), f"positives must be between 0 and the number of models, {models}.")
    return 2 * s > models, np.maximum(s, models - s) / models


def self_consistency(disagreement: ArrayLike) -> np.ndarray:
    """Return the probability that two re-trained models decide alike, 1 − disagreement/2: 1 is sure, ½ a coin toss.

    >>> self_consistency([0.0, 1.0])
    array([1. , 0.5])

    Cooper et al. 2024, "Arbitrariness and social prediction", Definition 2.
    """
    return 1 - np.asarray(disagreement, float) / 2


def abstention(
    disagreement: ArrayLike, decided: ArrayLike, labels: ArrayLike, level: float, confidence: float = 0.95
) -> Abstention:
    """Return the share of examples left to a human below a self-consistency `level`, and the accuracy of the others.

    Args:
        disagreement: per example; give the upper ends of intervals to decide only where self-consistency is proved.
        decided: the decision that would be taken, such as the consensus, [example].
        labels: the truth, [example].
        level: between 0.5 (always decide) and 1 (only where all models agree).
        confidence: of the intervals.

    >>> found = abstention([0.0, 0.1, 1.0, 0.9], [1, 0, 1, 0], [1, 0, 0, 0], level=0.75)
    >>> float(found.abstained), float(found.accuracy), float(found.accuracy_of_all)
    (0.5, 1.0, 0.75)
    """
    require(0.5 <= level <= 1, f"level of self-consistency must be in [0.5, 1], got {level}.")
    values, correct = np.asarray(disagreement, float), np.asarray(decided) == np.asarray(labels)
    require(
        values.ndim == 1 and correct.shape == values.shape and values.size > 0,
        f"disagreement, decisions and labels must be about the same examples, got {values.shape} and {correct.shape}.",
    )
    keep = self_consistency(np.minimum(values, 1.0)) >= level  # the unbiased estimate may exceed 1
    accuracy = _share(correct[keep], confidence) if keep.any() else None
    return Abstention(level, _share(~keep, confidence), accuracy, _share(correct, confidence))


def _share(flags: np.ndarray, confidence: float) -> Number:
    """Return the share of true flags with its exact interval."""
    lower, upper = clopper_pearson(np.count_nonzero(flags), flags.size, confidence)
    return Number(float(flags.mean()), "statistical", float(lower), float(upper), confidence)
