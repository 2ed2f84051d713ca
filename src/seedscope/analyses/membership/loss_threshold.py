"""The loss-threshold attack on membership, with the seed known or hidden.

The attack of Yeom et al. 2018 calls an example a member if its loss is below a threshold, the mean loss of training
examples. IP2 §8 asks what hiding the seed is worth: the threshold comes from the attacked model itself (seed known) or
from a model of another seed (seed hidden).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit

from seedscope.core import Number, require, require_probability
from seedscope.numerics import paired_t_test

LEAST_MODELS = 3


@dataclass(frozen=True, eq=False)
class SeedKnownOrHidden:
    """The loss-threshold attack on the same models with the seed known (*same*) and hidden (*different*).

    Arrays [model]: accuracies and epsilons `ln(accuracy/(1 − accuracy))`, which are estimates. `p_value` is of the
    one-sided paired t-test that the epsilon is larger with the seed known, or the accuracy if an epsilon is infinite.
    `loss_ratio` is the mean loss of non-members over that of members.
    """

    accuracy_same: np.ndarray
    accuracy_different: np.ndarray
    epsilon_same: np.ndarray
    epsilon_different: np.ndarray
    p_value: float
    loss_ratio: float

    @property
    def accuracy_gain(self) -> Number:
        """The mean accuracy that knowing the seed adds."""
        return Number(float(np.mean(self.accuracy_same - self.accuracy_different)), "estimate")

    @property
    def epsilon_gain(self) -> Number:
        """The mean epsilon that knowing the seed adds."""
        return Number(float(np.mean(self.epsilon_same - self.epsilon_different)), "estimate")


def loss_threshold_accuracy(member_losses: ArrayLike, nonmember_losses: ArrayLike, thresholds: ArrayLike) -> np.ndarray:
    """Return the balanced accuracy [model] of calling a member whatever has a loss of at most the threshold.

    Args:
        member_losses, nonmember_losses: [model, example].
        thresholds: [model].

    >>> loss_threshold_accuracy([[0.1, 0.3]], [[0.2, 0.9]], [0.2]).tolist()
    [0.5]

    Yeom et al. 2018, Adversary 2.
    """
    members, nonmembers = np.asarray(member_losses, float), np.asarray(nonmember_losses, float)
    limit = np.asarray(thresholds, float)[..., None]
    accuracy: np.ndarray = (np.mean(members <= limit, axis=-1) + np.mean(nonmembers > limit, axis=-1)) / 2
    return accuracy


def seed_known_or_hidden(
    member_losses: ArrayLike, nonmember_losses: ArrayLike, *, threshold_share: float = 0.5, seed: int = 0
) -> SeedKnownOrHidden:
    """Return what an attacker gains from knowing the seed.

    A random part of the members only sets thresholds, the same part in all models; the others are attacked, together
    with as many non-members. With the seed known a model's own threshold is used, else that of the next model.

    Args:
        member_losses: [model, example], losses of training examples; models of one data set and different seeds.
        nonmember_losses: [model, example], losses of examples that no model was trained on.
        threshold_share: of the members that only set the threshold.
        seed: of the choice of examples.

    >>> rng = np.random.default_rng(0)
    >>> level = rng.uniform(0.5, 1.5, size=(50, 1))
    >>> members, others = level * rng.exponential(size=(50, 400)), 1.5 * level * rng.exponential(size=(50, 400))
    >>> seed_known_or_hidden(members, others).p_value < 0.05
    True

    IP2 §8, Table 6.
    """
    members, nonmembers = _checked_losses(member_losses, nonmember_losses)
    require_probability("threshold_share", threshold_share)
    setting, attacked, outsiders = _split(members.shape[1], nonmembers.shape[1], threshold_share, seed)
    thresholds = members[:, setting].mean(axis=1)
    same, different = (
        loss_threshold_accuracy(members[:, attacked], nonmembers[:, outsiders], limits)
        for limits in (thresholds, np.roll(thresholds, -1))
    )
    epsilon_same, epsilon_different = logit(same), logit(different)
    finite = np.isfinite(epsilon_same).all() and np.isfinite(epsilon_different).all()
    _, p_value = paired_t_test(epsilon_same, epsilon_different) if finite else paired_t_test(same, different)
    ratio = float(nonmembers.mean() / members.mean())
    return SeedKnownOrHidden(same, different, epsilon_same, epsilon_different, float(p_value), ratio)


def seed_known_or_hidden_along_training(
    member_losses: Mapping[int, ArrayLike], nonmember_losses: Mapping[int, ArrayLike], **options: float
) -> dict[int, SeedKnownOrHidden]:
    """Return `seed_known_or_hidden` at every step T, from losses [model, example] by step (IP2 Table 6).

    >>> losses = np.random.default_rng(0).exponential(size=(5, 40))
    >>> sorted(seed_known_or_hidden_along_training({100: losses, 200: losses}, {100: losses, 200: losses}))
    [100, 200]
    """
    steps = (sorted(member_losses), sorted(nonmember_losses))
    require(steps[0] == steps[1], f"members and non-members need the same steps, got {steps[0]} and {steps[1]}.")
    return {
        step: seed_known_or_hidden(member_losses[step], nonmember_losses[step], **options)  # type: ignore[arg-type]
        for step in member_losses
    }


def _checked_losses(member_losses: ArrayLike, nonmember_losses: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return both loss arrays [model, example], finite, of the same models."""
    members, nonmembers = np.asarray(member_losses, float), np.asarray(nonmember_losses, float)
    require(
        members.ndim == 2 and nonmembers.ndim == 2 and len(members) == len(nonmembers),
        f"losses must be [model, example] of the same models, got the shapes {members.shape} and {nonmembers.shape}.",
    )
    require(
        len(members) >= LEAST_MODELS,
        f"the comparison needs models of at least {LEAST_MODELS} seeds, got {len(members)}; train more seeds.",
    )
    require(members.shape[1] >= 2 and nonmembers.shape[1] >= 1, "the attack needs two members and one non-member.")
    for losses in (members, nonmembers):
        bad = np.flatnonzero(~np.isfinite(losses).all(axis=1))
        require(bad.size == 0, f"losses of model {bad[:5].tolist()} are not finite: leave these diverged runs out.")
    return members, nonmembers


def _split(members: int, others: int, threshold_share: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return members that set thresholds, members attacked, and as many non-members."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(members)
    setting = min(members - 1, max(1, round(threshold_share * members)))
    size = min(members - setting, others)
    return order[:setting], order[setting : setting + size], rng.permutation(others)[:size]
