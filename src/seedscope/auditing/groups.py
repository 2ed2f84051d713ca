"""What each group of people gets: arbitrariness, accuracy and exposure, with differences and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import stdtrit

from seedscope.auditing.levels import Level
from seedscope.core import Number, number_or_none
from seedscope.numerics import clopper_pearson, mean_interval

LEAST = 2  # people for whom an interval can be given


def group_comparisons(levels: Sequence[Level]) -> list[dict[str, Any]]:
    """Return each group attribute: its levels, their numbers of test people, and what they get at every level."""
    attributes = levels[0].ensemble.description.data.groups
    return [_attribute(levels, name, k) for k, name in enumerate(attributes)]


def _attribute(levels: Sequence[Level], name: str, k: int) -> dict[str, Any]:
    """Return the comparison by one attribute."""
    member = levels[0].ensemble.texts(f"group_{k}")
    names = np.unique(member).tolist()
    counts = [int((member[levels[0].tested] == group).sum()) for group in names]
    small = [f"{group} ({count})" for group, count in zip(names, counts, strict=True) if count < LEAST]
    note = f"Too few test people for an interval: {', '.join(small)}." if small else ""
    return {
        "name": name,
        "levels": names,
        "people": counts,
        "by_level": [_at_level(level, name, member, names) for level in levels],
        "note": note,
    }


def _at_level(level: Level, attribute: str, member: np.ndarray, names: list[str]) -> dict[str, Any]:
    """Return what the groups of one attribute get at one privacy level."""
    tested, audited = member[level.tested], member[level.audited]
    right = level.right
    means = {
        group.name: group.population or group.disagreement for group in level.multiplicity.groups[attribute].groups
    }
    advantage = np.zeros(0) if level.membership is None else level.membership.advantage
    c, best = level.confidence, level.privacy_loss
    people, exposure = (np.zeros(0, int), np.zeros(0)) if best is None else (best.people, best.advantage)
    trained = member[people]
    return {
        "mean_disagreement": [number_or_none(means.get(name)) for name in names],
        "accuracy": [number_or_none(group_accuracy(right[tested == name], c)) for name in names],
        "membership_advantage": [number_or_none(group_mean(advantage[audited == name], c)) for name in names],
        "p_value": number_or_none(level.multiplicity.groups[attribute].p_value),
        "difference": number_or_none(largest_difference(level.multiplicity.disagreement, tested, c)),
        "accuracy_difference": number_or_none(largest_difference(right, tested, c)),
        "membership_difference": number_or_none(largest_difference(advantage, audited, c)),
        "exposure": [number_or_none(group_mean(exposure[trained == name], c)) for name in names],
        "exposure_difference": number_or_none(largest_difference(exposure, trained, c)),
    }


def group_accuracy(right: np.ndarray, confidence: float) -> Number | None:
    """Return how often a single model decides rightly about such people; None for nobody.

    The interval is Clopper–Pearson's, over people like these: right for one model, and wider than needed for the mean
    over models. It is rounded outwards to whole people.

    Args:
        right: the share of models that decide rightly about each person.

    >>> print(group_accuracy(np.array([1, 0.9, 0.4, 1]), 0.95))
    0.825 [0.1941, 1] (statistical at 95 %)
    """
    if len(right) == 0:
        return None
    count = float(right.sum())
    low = clopper_pearson(np.floor(count + 1e-9), len(right), confidence)[0]
    high = clopper_pearson(np.ceil(count - 1e-9), len(right), confidence)[1]
    note = "of one person" if len(right) == 1 else ""
    return Number(count / len(right), "statistical", float(low), float(high), confidence, note)


def group_mean(values: np.ndarray, confidence: float) -> Number | None:
    """Return the mean of people's values with an interval over such people; None for nobody.

    >>> print(group_mean(np.array([True, True, False, True]), 0.95))
    0.75 [0, 1] (estimate at 95 %)
    """
    if len(values) == 0:
        return None
    mean = float(np.mean(values))
    if len(values) < LEAST:
        return Number(mean, "estimate", note="of one person")
    low, high = (float(end) for end in mean_interval(values, confidence))
    return Number(mean, "estimate", max(low, -1.0 if np.min(values) < 0 else 0.0), min(high, 1.0), confidence)


def largest_difference(values: np.ndarray, groups: np.ndarray, confidence: float) -> Number | None:
    """Return the largest difference of two groups' means; its interval holds for every pair of groups at once.

    Welch's, at a confidence that Bonferroni shares out over the pairs, over people like these; groups of one person
    have none and are left to the note. None where fewer than two groups have an interval.

    >>> print(largest_difference(np.array([0, 0.1, 0.9, 1]), np.array(["a", "a", "b", "b"]), 0.95))
    0.9 [0.5958, 1.204] (estimate at 95 %)
    """
    parts = {name: np.asarray(values, float)[groups == name] for name in np.unique(groups)}
    known = {name: part for name, part in parts.items() if len(part) >= LEAST}
    pairs = list(combinations(known, 2))
    if not pairs:
        return None
    high, low = max(pairs, key=lambda pair: abs(known[pair[0]].mean() - known[pair[1]].mean()))
    if known[high].mean() < known[low].mean():
        high, low = low, high
    gap = float(known[high].mean() - known[low].mean())
    margin = _welch_margin(known[high], known[low], 1 - (1 - confidence) / len(pairs))
    return Number(gap, "estimate", gap - margin, gap + margin, confidence, note=f"{high} against {low}")


def _welch_margin(first: np.ndarray, second: np.ndarray, confidence: float) -> float:
    """Return half the width of Welch's interval of a difference of means."""
    errors = [part.var(ddof=1) / len(part) for part in (first, second)]
    if sum(errors) == 0:
        return 0.0
    degrees = sum(errors) ** 2 / sum(e**2 / (len(p) - 1) for e, p in zip(errors, (first, second), strict=True))
    return float(stdtrit(degrees, (1 + confidence) / 2) * np.sqrt(sum(errors)))
