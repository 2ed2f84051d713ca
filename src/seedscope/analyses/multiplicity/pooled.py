"""Decisions by several models together: their average, their majority, or only what all of them agree on.

Such a rule is itself drawn at random, k models at a time. So its own arbitrariness is measured over groups of k models,
and what it costs in privacy is k models' price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import Number, require, require_count
from seedscope.numerics import clopper_pearson

Rule = Literal["average", "consensus", "unanimous"]
RULES: tuple[Rule, ...] = get_args(Rule)
ABSTAINED = -1  # instead of a class


def pooled_decisions(scores: ArrayLike, together: int, rule: Rule) -> np.ndarray:
    """Return the decisions [group, example] of groups of `together` models; −1 where a group abstains.

    Args:
        scores: [model, example] of class 1, or [model, example, class]; models that fill no group are left out.
        together: k, how many models decide together.
        rule: "average" of the scores, "consensus" of the majority, or "unanimous": abstain unless all agree.

    >>> scores = np.array([[0.9, 0.4], [0.8, 0.6], [0.2, 0.1], [0.2, 0.7], [0.3, 0.9], [0.4, 0.8]])
    >>> [pooled_decisions(scores, 3, rule).tolist() for rule in RULES]
    [[[1, 0], [0, 1]], [[1, 0], [0, 1]], [[-1, -1], [0, 1]]]
    """
    require_count("together", together)
    require(rule in RULES, f"rule must be one of {', '.join(RULES)}, got {rule!r}.")
    grouped = _grouped(np.asarray(scores), together)
    if rule == "average":
        return np.asarray(grouped.mean(axis=1).argmax(-1))
    votes = _votes(grouped)
    winners = votes.argmax(-1)
    return winners if rule == "consensus" else np.where(votes.max(-1) == together, winners, ABSTAINED)


def _grouped(scores: np.ndarray, together: int) -> np.ndarray:
    """Return the scores as [group, model, example, class]."""
    chances = np.stack([1 - scores, scores], axis=-1) if scores.ndim == 2 else scores
    groups = len(chances) // together
    enough = f"pooled decisions need at least two groups of {together} models, got {len(chances)} models."
    require(groups >= 2, enough)
    return chances[: groups * together].reshape(groups, together, *chances.shape[1:])


def _votes(grouped: np.ndarray) -> np.ndarray:
    """Return how many models of each group decide each class [group, example, class]."""
    classes = np.arange(grouped.shape[-1])
    votes: np.ndarray = (grouped.argmax(-1)[..., None] == classes).sum(axis=1)
    return votes


@dataclass(frozen=True, eq=False)
class Pooled:
    """What a rule of several models is worth.

    `opposed` [example] is twice the chance that two draws of the rule decide about a person, and differently: without
    abstention the disagreement. `arbitrary_share` are the people for whom that is `level` or more, `undecided` the mean
    share of people that a draw abstains on, `accuracy` that of the decisions that are taken.
    """

    opposed: np.ndarray
    arbitrary_share: Number
    undecided: Number
    accuracy: Number | None


def pooled_worth(decided: np.ndarray, labels: ArrayLike, level: float = 0.5, confidence: float = 0.95) -> Pooled:
    """Return what decisions [group, example] of a rule are worth.

    >>> found = pooled_worth(np.array([[1, -1, 0], [1, -1, 1], [1, -1, 0], [1, -1, 1]]), [1, 0, 0])
    >>> found.opposed.round(2), round(float(found.arbitrary_share), 3), round(float(found.undecided), 3)
    (array([0.  , 0.  , 1.33]), 0.333, 0.333)
    """
    counts, groups = _counts(decided), len(decided)
    opposed = 2 * (counts.sum(-1) ** 2 - (counts**2).sum(-1)) / (groups * (groups - 1))
    right, taken = decided == np.asarray(labels), decided != ABSTAINED
    ends = _opposed_ends(counts, groups, confidence)
    lower, upper = (None, None) if ends is None else (float((end >= level).mean()) for end in ends)
    share = Number(float((opposed >= level).mean()), "estimate" if ends is None else "statistical", lower, upper,
                   None if ends is None else confidence)  # fmt: skip
    accuracy = Number(float(right.sum() / taken.sum()), "estimate") if taken.any() else None
    return Pooled(opposed, share, Number(float(1 - taken.mean()), "estimate"), accuracy)


def _counts(decided: np.ndarray) -> np.ndarray:
    """Return how many groups decide each class [example, class]; abstentions are none."""
    classes = np.arange(max(2, int(decided.max()) + 1))
    counts: np.ndarray = (decided[..., None] == classes).sum(axis=0)
    return counts


def _opposed_ends(counts: np.ndarray, groups: int, confidence: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the ends of 4·p₀·p₁ for all examples at once; None beyond two classes.

    p₀ + p₁ ≤ 1, so where the upper ends add up to more the product is at most that of the rest with either.
    """
    if counts.shape[1] != 2:
        return None
    low, high = clopper_pearson(counts, groups, 1 - (1 - confidence) / counts.size)
    largest = np.where(high.sum(-1) <= 1, high.prod(-1), _largest_product(low, high))
    return 4 * low.prod(-1), 4 * largest


def _largest_product(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the largest p(1 − p) for p between max(low₀, 1 − high₁) and min(high₀, 1 − low₁)."""
    first, last = np.maximum(low[:, 0], 1 - high[:, 1]), np.minimum(high[:, 0], 1 - low[:, 1])
    nearest = np.clip(0.5, np.minimum(first, last), last)
    product: np.ndarray = nearest * (1 - nearest)
    return product
