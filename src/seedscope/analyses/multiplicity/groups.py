"""Is the arbitrariness shared evenly? Mean disagreement by group, with intervals and a test of difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import Number, require, require_count, unknown_name
from seedscope.numerics import empirical_bernstein, mean_interval, pair_mean_margin, permutation_test_of_groups

FEW_PAIRS = 50  # of models: below, Hoeffding's margin is the smaller one, whatever the values


@dataclass(frozen=True)
class GroupDisagreement:
    """One group's mean disagreement.

    `disagreement` is about exactly these people: its interval is exact over re-trainings, for all groups of the
    comparison at once. `population` has the same value with the (approximate) interval of the mean over the people
    that such examples are drawn from, as in the paper's figures; None for a group of one.
    """

    name: str
    examples: int
    disagreement: Number
    population: Number | None


@dataclass(frozen=True)
class GroupComparison:
    """All groups of one attribute, and the p-value of "all groups have the same mean disagreement"."""

    attribute: str
    groups: tuple[GroupDisagreement, ...]
    p_value: Number | None

    def __getitem__(self, name: str) -> GroupDisagreement:
        for group in self.groups:
            if group.name == name:
                return group
        raise unknown_name("group", name, (group.name for group in self.groups))


def mean_disagreement(
    values: ArrayLike,
    models: int,
    confidence: float,
    comparisons: int = 1,
    span: float = 2.0,
    pairs: ArrayLike | None = None,
    anytime: bool = False,
) -> Number:
    """Return the mean disagreement of these examples with its exact interval over re-trainings.

    The mean over all pairs of models is a U-statistic of values between 0 and `span`, whatever the examples have in
    common. With `pairs` the interval adapts to how little pairs of models vary, and is several times narrower.

    Args:
        values: unbiased disagreement per example.
        models: how many models it was estimated from.
        confidence: in (0, 1).
        comparisons: how many such means must hold at once.
        span: the disagreement of two models that differ everywhere: 2, or 4/K for the one-vs-rest mean of K classes.
        pairs: the share of these examples on which the models of each disjoint pair differ, see `paired_shares`.
        anytime: the number of models was not fixed beforehand; needs `pairs`.

    >>> print(mean_disagreement([0.2, 0.4], models=5000, confidence=0.95))
    0.3 [0.2457, 0.3543] (statistical at 95 %)

    Hoeffding 1963, Equation 5.7; with `pairs` an empirical Bernstein interval (Waudby-Smith & Ramdas 2024).
    """
    require_count("models", models, 2)
    array = np.asarray(values, float)
    require(array.size > 0, "a mean disagreement needs at least one example.")
    require(pairs is not None or not anytime, "an anytime interval of a mean needs the pairs of models.")
    mean, level = float(array.mean()), 1 - (1 - confidence) / comparisons
    if pairs is not None and (anytime or len(np.asarray(pairs)) >= FEW_PAIRS):
        low, high = (float(end) for end in empirical_bernstein(span * np.asarray(pairs, float), level, span, anytime))
        return Number(mean, "statistical", min(low, mean), min(max(high, mean), 1.0), confidence)
    margin = float(pair_mean_margin(models, level, span))
    return Number(mean, "statistical", max(0.0, mean - margin), min(1.0, mean + margin), confidence)


def paired_shares(predictions: ArrayLike, members: ArrayLike | None = None) -> np.ndarray:
    """Return the share of examples on which the models of each disjoint pair differ [pair]: independent values.

    Args:
        predictions: decisions, [model, example]; the first and second model are a pair, and so on.
        members: which examples count; by default all.

    >>> paired_shares([[0, 1], [0, 0], [1, 1], [1, 1], [0, 0]])
    array([0.5, 0. ])
    """
    decided = np.asarray(predictions)
    decided = decided if members is None else decided[:, np.asarray(members)]
    pairs = len(decided) // 2
    shares: np.ndarray = (decided[0 : 2 * pairs : 2] != decided[1 : 2 * pairs : 2]).mean(axis=1)
    return shares


def compare_groups(
    values: ArrayLike,
    groups: Mapping[str, ArrayLike],
    attribute: str,
    models: int,
    confidence: float = 0.95,
    seed: int = 0,
    span: float = 2.0,
    predictions: ArrayLike | None = None,
    anytime: bool = False,
) -> GroupComparison:
    """Return the mean disagreement of each group of an attribute, and a permutation test of their difference.

    Args:
        values: unbiased disagreement per example.
        groups: for each attribute the group of each example.
        attribute: the one to compare by.
        models: how many models the disagreement was estimated from.
        confidence: of the intervals, for all groups together.
        seed: of the permutations.
        span, anytime: as for `mean_disagreement`.
        predictions: the models' decisions [model, example]; with them the intervals are several times narrower.

    >>> found = compare_groups([0.0, 0.1, 0.9, 1.0], {"sex": ["m", "m", "f", "f"]}, "sex", models=5000)
    >>> [(group.name, group.examples, round(float(group.disagreement), 2)) for group in found.groups]
    [('f', 2, 0.95), ('m', 2, 0.05)]

    AD Figure 5b.
    """
    if attribute not in groups:
        raise unknown_name("group attribute", attribute, groups)
    array, members = np.asarray(values, float), np.asarray(groups[attribute])
    require(
        members.shape == array.shape,
        f"group attribute {attribute!r} must have one value per example, {array.size}, got shape {members.shape}.",
    )
    names, codes = np.unique(members.astype(str), return_inverse=True)

    def mean_of(inside: np.ndarray) -> Number:
        pairs = None if predictions is None else paired_shares(predictions, inside)
        return mean_disagreement(array[inside], models, confidence, len(names), span, pairs, anytime)

    parts = [(str(name), codes == code) for code, name in enumerate(names)]
    found = tuple(_one_group(name, array[inside], mean_of(inside), confidence) for name, inside in parts)
    return GroupComparison(attribute, found, _difference(array, codes, len(names), seed))


def _one_group(name: str, values: np.ndarray, mean: Number, confidence: float) -> GroupDisagreement:
    """Return one group's numbers."""
    if len(values) < 2:
        return GroupDisagreement(name, len(values), mean, None)
    lower, upper = mean_interval(values, confidence)
    everywhere = Number(mean.value, "estimate", max(0.0, float(lower)), min(1.0, float(upper)), confidence)
    return GroupDisagreement(name, len(values), mean, everywhere)


def _difference(values: np.ndarray, codes: np.ndarray, groups: int, seed: int) -> Number | None:
    """Return the permutation test's p-value, or None for a single group."""
    if groups < 2:
        return None
    p_value = permutation_test_of_groups(values, codes, np.random.default_rng(seed))
    return Number(p_value, "estimate", note="p-value of a studentised permutation test of equal group means")
