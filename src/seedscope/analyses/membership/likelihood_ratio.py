"""Likelihood-ratio membership tests from a grid of models with and without each person (Carlini et al. 2022, LiRA).

A grid holds, for every neighbour *i*, models trained with `x_i` (the base) and without it (its neighbouring data set).
Half of the seeds fit a Gaussian to the confidence in `x_i` on either side and choose thresholds; the other half is
attacked, so nothing that is counted has been looked at before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import TradeOff
from seedscope.analyses.membership.lower_bound import CurveTest, curve_test, epsilon_lower, mu_lower
from seedscope.core import Number, require
from seedscope.numerics import clopper_pearson, mean_interval

LEAST_SEEDS = 8
SMALLEST_DEVIATION = 1e-6


@dataclass(frozen=True, eq=False)
class MembershipTests:
    """What an attacker who knows everything but one person's membership achieves, person by person.

    Arrays have one entry per person: `true_positive_rate` and `false_positive_rate` of the likelihood-ratio test at its
    even threshold, on held-out seeds, and `advantage`, their difference (estimates); `only_with` and `only_without`
    count the held-out seeds of which only the model with, or only that without the person is taken for one with them.
    `epsilon_lower` holds for each person alone with probability `confidence`, `epsilon_lower_together` for all of them
    at once; `set_epsilon_lower` for the person who looked most exposed on the other seeds, hence for the mechanism;
    `ceiling` is what this many held-out seeds can prove at most. `set_curve` holds that person's attack against the
    claimed curve, where one was given.

    The `roc` is a mean of people's own curves: each person has thresholds of their own, from the models without them of
    the other seeds, so that a false-positive rate is what every person is accused with; no attacker shares a threshold
    among people. What holds for each person's curve holds for the mean, since a guarantee's limit is concave.
    """

    confidence: float
    held_out_seeds: int
    true_positive_rate: np.ndarray
    false_positive_rate: np.ndarray
    epsilon_lower: np.ndarray
    epsilon_lower_together: np.ndarray
    set_epsilon_lower: Number
    set_advantage: Number
    ceiling: float
    roc_false_positive_rate: np.ndarray
    roc_true_positive_rate: np.ndarray
    only_with: np.ndarray
    only_without: np.ndarray
    set_mu_lower: Number | None = None  # as `set_epsilon_lower`, of Gaussian privacy
    set_curve: CurveTest | None = None
    perfect_exceeds: bool = False  # whether an attack that is never wrong would be beyond the claimed curve

    @property
    def advantage(self) -> np.ndarray:
        """True-positive minus false-positive rate of each person's test."""
        advantage: np.ndarray = self.true_positive_rate - self.false_positive_rate
        return advantage

    @property
    def advantage_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of each person's advantage, for all people and both ends at once with `confidence`.

        A seed's two models share their randomness, so most pairs agree: what counts is how often only one is accepted,
        P(only with) − P(only without), with Clopper–Pearson's exact bounds on both.
        """
        level = 1 - (1 - self.confidence) / (2 * max(1, len(self.only_with)))  # two-sided intervals of two counts each
        low_with, high_with = clopper_pearson(self.only_with, self.held_out_seeds, level)
        low_without, high_without = clopper_pearson(self.only_without, self.held_out_seeds, level)
        return low_with - high_without, high_with - low_without


def logit_confidence(losses: ArrayLike) -> np.ndarray:
    """Return ln(p/(1 − p)) of the true label's probability p = e^−loss: nearly Gaussian over seeds.

    >>> logit_confidence([np.log(2)]).round(6).tolist()
    [0.0]
    """
    loss = np.maximum(np.asarray(losses, float), 1e-12)
    logit: np.ndarray = -loss - np.log(-np.expm1(-loss))
    return logit


def likelihood_ratio_tests(
    with_losses: ArrayLike,
    without_losses: ArrayLike,
    *,
    confidence: float = 0.95,
    delta: float = 0.0,
    curve: TradeOff | None = None,
    owners: ArrayLike | None = None,
) -> MembershipTests:
    """Return the tests of each person's membership, by models with and without that person.

    Args:
        with_losses: [seed, person], losses on each person of models trained with them.
        without_losses: [seed, person], of models trained on the data without them; the same seeds.
        confidence: of each lower bound on ε.
        delta: of the (ε, δ) that is bounded.
        curve: a claimed trade-off curve, which is tested too.
        owners: where people have several rows, losses are [seed, row], and this is whose each row is: 0, 1, … Then a
            person's rows are weighed by how much they tell on the first half of the seeds, and tested together.
    """
    inside, outside = logit_confidence(with_losses), logit_confidence(without_losses)
    require(inside.shape == outside.shape, f"losses must be of one shape, got {inside.shape} and {outside.shape}.")
    seeds = len(inside)
    require(seeds >= LEAST_SEEDS, f"membership tests need at least {LEAST_SEEDS} seeds, got {seeds}; train more.")
    half = seeds // 2
    if owners is not None:
        weights = _weights(inside[:half], outside[:half], np.asarray(owners))
        inside, outside = inside @ weights, outside @ weights
    fit = _Gaussians.fit(inside[:half], outside[:half])
    seen = fit.ratio(inside[:half]), fit.ratio(outside[:half])
    fresh = fit.ratio(inside[half:]), fit.ratio(outside[half:])
    return _tested(seen, fresh, confidence, delta, curve)


def _weights(inside: np.ndarray, outside: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Return how much each row counts for its person [row, person], of length 1 for each person.

    Rows count as in Fisher's discriminant of independent rows: by the gap of their means over their variance. A person
    of one row has just that one.
    """
    variances = np.maximum(inside.var(0, ddof=1) + outside.var(0, ddof=1), SMALLEST_DEVIATION**2)
    told = (inside.mean(0) - outside.mean(0)) / variances
    alone = np.bincount(owners)[owners] == 1
    mine = owners[:, None] == np.arange(owners.max() + 1)
    weights = np.where(mine, np.where(alone, 1.0, told)[:, None], 0.0)
    lengths = np.linalg.norm(weights, axis=0)
    return np.where(lengths > 0, weights / np.where(lengths > 0, lengths, 1.0), mine)


@dataclass(frozen=True, eq=False)
class _Gaussians:
    """Each person's confidence with and without them, as Gaussians."""

    mean_in: np.ndarray
    mean_out: np.ndarray
    deviation_in: np.ndarray
    deviation_out: np.ndarray

    @classmethod
    def fit(cls, inside: np.ndarray, outside: np.ndarray) -> _Gaussians:
        """Return the Gaussians fitted to [seed, person]."""
        deviations = [np.maximum(values.std(0, ddof=1), SMALLEST_DEVIATION) for values in (inside, outside)]
        return cls(inside.mean(0), outside.mean(0), *deviations)

    def ratio(self, values: np.ndarray) -> np.ndarray:
        """Return the log-likelihood ratio of "was a member" at confidences [seed, person]."""
        member = -0.5 * ((values - self.mean_in) / self.deviation_in) ** 2 - np.log(self.deviation_in)
        outsider = -0.5 * ((values - self.mean_out) / self.deviation_out) ** 2 - np.log(self.deviation_out)
        log_ratio: np.ndarray = member - outsider
        return log_ratio


def _tested(
    seen: tuple[np.ndarray, np.ndarray], fresh: tuple[np.ndarray, np.ndarray], confidence: float, delta: float,
    curve: TradeOff | None,
) -> MembershipTests:  # fmt: skip
    """Return the tests from log-likelihood ratios (with, without) on the seeds that chose and on held-out seeds."""
    thresholds, exposure = _best_thresholds(*seen, confidence, delta)
    held_out = len(fresh[0])
    counts = [(ratios > thresholds).sum(0) for ratios in fresh]
    together = 1 - (1 - confidence) / max(1, len(thresholds))
    lower, lower_together = (
        np.asarray(epsilon_lower(counts[0], held_out, counts[1], held_out, level, delta), float)
        for level in (confidence, together)
    )
    shown = np.asarray(mu_lower(counts[0], held_out, counts[1], held_out, confidence), float)
    accepted = [ratios > 0 for ratios in fresh]
    false_positive, true_positive = _mean_curve(seen[1], *fresh)
    chosen = int(exposure.argmax())
    most = [int(count[chosen]) for count in counts]
    return MembershipTests(
        confidence=confidence,
        held_out_seeds=held_out,
        true_positive_rate=accepted[0].mean(0),
        false_positive_rate=accepted[1].mean(0),
        epsilon_lower=lower,
        epsilon_lower_together=lower_together,
        set_epsilon_lower=Number(float(lower[chosen]), "statistical", confidence=confidence),
        set_advantage=_mean_advantage(accepted[0], accepted[1], confidence),
        ceiling=float(epsilon_lower(held_out, held_out, 0, held_out, confidence, delta)),
        roc_false_positive_rate=false_positive,
        roc_true_positive_rate=true_positive,
        only_with=(accepted[0] & ~accepted[1]).sum(0),
        only_without=(accepted[1] & ~accepted[0]).sum(0),
        set_mu_lower=Number(float(shown[chosen]), "statistical", confidence=confidence),
        set_curve=None if curve is None else curve_test(most[0], held_out, most[1], held_out, curve, confidence),
        perfect_exceeds=curve is not None and curve_test(held_out, held_out, 0, held_out, curve, confidence).exceeded,
    )


def _best_thresholds(
    inside: np.ndarray, outside: np.ndarray, confidence: float, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return each person's threshold that would prove most on these seeds, and how much [person]."""
    candidates = np.sort(np.concatenate([inside, outside]), axis=0)
    candidates = (candidates[1:] + candidates[:-1]) / 2
    positives = [(ratios[None] > candidates[:, None]).sum(1) for ratios in (inside, outside)]  # [threshold, person]
    proved = np.asarray(epsilon_lower(positives[0], len(inside), positives[1], len(outside), confidence, delta), float)
    gap = (positives[0] - positives[1]) / len(inside)
    best = (proved + 1e-9 * gap).argmax(0)  # where nothing can be proved, the widest gap decides
    people = np.arange(candidates.shape[1])
    return candidates[best, people], proved[best, people] + 1e-9 * gap[best, people]


def _mean_advantage(accepted_in: np.ndarray, accepted_out: np.ndarray, confidence: float) -> Number:
    """Return the advantage averaged over people, with an interval over the held-out seeds."""
    by_seed = accepted_in.mean(1) - accepted_out.mean(1)
    low, high = mean_interval(by_seed, confidence)
    return Number(float(by_seed.mean()), "estimate", lower=float(low), upper=float(high), confidence=confidence)


def _mean_curve(calibrating: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the false- and true-positive rates of everybody's own thresholds on held-out seeds, means over people.

    calibrating: log-likelihood ratios [seed, person] of models without the person, of other seeds: their k-th largest
    is the person's threshold for a false-positive rate of about k/(seeds + 1).
    """
    thresholds = -np.sort(-calibrating, axis=0)
    rates = [np.array([(values > threshold).mean() for threshold in thresholds]) for values in (outside, inside)]
    false, true = (np.concatenate([[0.0], rate, [1.0]]) for rate in rates)
    return false, true
