"""The predictive multiplicity of an ensemble in one frozen result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.multiplicity.disagreement import (
    ambiguity,
    class_counts,
    decisions,
    disagreement_from_counts,
    discrepancy,
    positive_counts,
    top_disagreement,
)
from seedscope.analyses.multiplicity.groups import GroupComparison, compare_groups, mean_disagreement, paired_shares
from seedscope.analyses.multiplicity.intervals import disagreement_error, disagreement_interval, interval_after_looks
from seedscope.analyses.multiplicity.performance import accuracies
from seedscope.analyses.multiplicity.remedies import Abstention, abstention
from seedscope.analyses.multiplicity.scores import viable_prediction_range
from seedscope.analyses.multiplicity.surrogates import StandIns, combined_interval
from seedscope.core import BASE, Number, Shown, last_step, ranked_plot, require, require_probability, unknown_name

TOP_SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)
LEVELS = (0.75, 0.9, 0.99)


@dataclass(frozen=True, eq=False, repr=False)
class Multiplicity(Shown):
    """What the randomness of training decides.

    Arrays have one entry per example. `disagreement` is the unbiased estimate (one-vs-rest mean beyond two classes),
    and with probability `confidence` *all* true values are between `lower` and `upper` at once. `error_bound` is the
    paper's bound on all their errors, known before training. `ambiguity` and `discrepancy` compare with the reference,
    by default the consensus. What needs labels, groups or scores is None or empty where they were not given.
    `stand_ins` says what cheap models with known votes were worth, where there were such.
    """

    models: int
    examples: int
    classes: int
    confidence: float
    disagreement: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    consensus: np.ndarray
    consensus_share: np.ndarray
    mean: Number
    error_bound: Number
    top: Mapping[float, Number]
    ambiguity: Number
    discrepancy: Number
    viable_range: np.ndarray | None
    accuracy: Number | None
    groups: Mapping[str, GroupComparison]
    abstentions: tuple[Abstention, ...]
    stand_ins: str = ""

    def summary(self) -> dict[str, Any]:
        """Return the mean, how many people's decision hangs on chance, and from how many models that is known."""
        arbitrary = int((self.disagreement >= 0.5).sum())
        return {
            "mean disagreement": self.mean,
            "arbitrary decisions": f"{arbitrary:,} of {self.examples:,}",
            "ambiguity": self.ambiguity,
            "models": self.models,
        }

    def plot(self) -> Any:
        """Return a chart (Altair) of everybody's disagreement with its interval, the most arbitrary first."""
        largest = 1.0 if self.classes == 2 else float(self.upper.max())
        return ranked_plot(
            self.disagreement, self.lower, self.upper, largest=largest,
            title=f"Whose decision hangs on chance: {self.models:,} re-trainings",
            meaning="Disagreement (0 settled, 1 a coin toss)",
        )  # fmt: skip


def multiplicity(
    source: Any,
    labels: ArrayLike | None = None,
    groups: Mapping[str, ArrayLike] | None = None,
    *,
    confidence: float = 0.95,
    threshold: float = 0.5,
    reference: ArrayLike | None = None,
    levels: Sequence[float] = LEVELS,
    init: str | None = None,
    seed: int = 0,
    latest: int | None = None,
    stand_ins: StandIns | None = None,
) -> Multiplicity:
    """Return the predictive multiplicity of re-trained models: whose decision is a coin toss, and how sure is that?

    Args:
        source: an ensemble with recorded scores (its base data set, last step and test part are used); or scores, a
            float array in [0, 1], [model, example] or [model, example, class]; or decisions, whole numbers or
            booleans, [model, example].
        labels: the truth, [example]; taken from an ensemble by default.
        groups: for each attribute the group of each example.
        confidence: of all intervals.
        threshold: above it a score decides 1.
        reference: decisions of the model to compare with, [example]; by default the consensus.
        levels: self-consistency levels for which abstaining is evaluated.
        init: of an ensemble, "varied" or "fixed"; default "varied" where it was trained.
        seed: of the permutation tests between groups.
        latest: where models were trained until enough was known, their largest number: intervals then hold however
            often was looked. By default their number was fixed beforehand; an ensemble knows which it was.
        stand_ins: known votes of cheap models with the same noise, with which the intervals are narrower.

    >>> found = multiplicity(np.array([[0.1, 0.4], [0.2, 0.6], [0.1, 0.7], [0.3, 0.2]]))
    >>> found.disagreement.round(3), float(found.ambiguity)
    (array([0.   , 1.333]), 0.5)

    AD, in particular Propositions 3 and 5.
    """
    require_probability("confidence", confidence)
    if hasattr(source, "dataset"):
        latest = getattr(source, "latest", None) if latest is None else latest
        source, recorded = _from_ensemble(source, init)
        labels = recorded if labels is None else labels
    array = np.asarray(source)
    rule = "source must be an ensemble, or scores or decisions of numbers, [model, example]"
    require(array.dtype.kind in "fiub", f"{rule}; got {type(source).__name__}.", "source")
    predictions = decisions(array, threshold) if array.dtype.kind == "f" else array
    truth = None if labels is None else _checked_labels(labels, predictions)
    counts, classes = _counts(predictions, array.shape[2] if array.ndim == 3 else None)
    return _assembled(
        array, predictions, counts, classes, truth, groups or {}, confidence, reference, levels, seed, latest, stand_ins
    )


def _assembled(
    array: np.ndarray,
    predictions: np.ndarray,
    counts: np.ndarray,
    classes: int,
    labels: np.ndarray | None,
    groups: Mapping[str, ArrayLike],
    confidence: float,
    reference: ArrayLike | None,
    levels: Sequence[float],
    seed: int,
    latest: int | None,
    stand_ins: StandIns | None,
) -> Multiplicity:
    """Return the result from checked decisions and their counts, [class or 1, example]."""
    models, examples = predictions.shape
    good = stand_ins is not None and stand_ins.useful
    values = stand_ins.disagreement if stand_ins and good else disagreement_from_counts(counts, models).mean(axis=0)
    looked = latest is not None
    lower, upper = _intervals(counts, models, confidence, latest, stand_ins)
    winner, share = _consensus(counts, models)
    base = winner if reference is None else np.asarray(reference)
    span = 2.0 if classes == 2 else 4 / classes  # of the one-vs-rest mean
    return Multiplicity(
        models=models,
        examples=examples,
        classes=classes,
        confidence=confidence,
        disagreement=values,
        stand_ins="" if stand_ins is None else stand_ins.words(),
        lower=lower.mean(axis=0),
        upper=upper.mean(axis=0),
        consensus=winner,
        consensus_share=share,
        mean=mean_disagreement(values, models, confidence, span=span, pairs=paired_shares(predictions), anytime=looked),
        error_bound=_error_bound(models, confidence, counts.size),
        top={share: Number(float(top_disagreement(values, share)), "estimate") for share in TOP_SHARES},
        ambiguity=Number(ambiguity(predictions, base), "estimate"),
        discrepancy=Number(discrepancy(predictions, base), "estimate"),
        viable_range=viable_prediction_range(array) if array.dtype.kind == "f" else None,
        accuracy=None if labels is None else _accuracy(predictions, labels),
        groups={
            name: compare_groups(values, groups, name, models, confidence, seed, span, predictions, looked)
            for name in groups
        },
        abstentions=() if labels is None else _abstentions(values, classes, winner, labels, levels, confidence),
    )


def _intervals(
    counts: np.ndarray, models: int, confidence: float, latest: int | None, stand_ins: StandIns | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the intervals of all disagreements at once, for a fixed number of models or one found by looking."""
    if stand_ins is not None:
        return combined_interval(counts, stand_ins, confidence, counts.size, latest)
    if latest is None:
        return disagreement_interval(counts, models, confidence, counts.size)
    return interval_after_looks(counts, models, confidence, counts.size, latest)


def _from_ensemble(ensemble: Any, init: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return scores [model, example (, class)] and labels of an ensemble's base data, last step, test part."""
    data = ensemble.dataset
    require("scores" in data, "this ensemble has no recorded scores; train it with scores recorded.")
    inits = [str(name) for name in data["init"].values]
    chosen = init or ("varied" if "varied" in inits else inits[0])
    if chosen not in inits:
        raise unknown_name("init", chosen, inits)
    scores = last_step(data["scores"].isel(init=inits.index(chosen)).sel(neighbour=BASE))
    test = np.flatnonzero(data["example_part"].values == "test")
    require(test.size > 0, "this ensemble has no scores of test examples.")
    scores = scores.isel(example=test).transpose("seed", "example", ...)
    return np.asarray(scores.values), np.asarray(data["example_label"].values)[test]


def _checked_labels(labels: ArrayLike, predictions: np.ndarray) -> np.ndarray:
    """Return the labels after checking that there is one per example and more than one class."""
    truth = np.asarray(labels)
    require(
        truth.shape == predictions.shape[1:],
        f"labels must hold one per example, {predictions.shape[1:]}, got shape {truth.shape}.",
    )
    seen = np.unique(truth)
    require(
        seen.size >= 2,
        f"labels must hold at least two classes, got only {seen.tolist()}; choose a test part with both (stratified).",
    )
    return truth


def _counts(predictions: np.ndarray, classes: int | None) -> tuple[np.ndarray, int]:
    """Return the counts [1, example] of positive decisions, or [class, example] beyond two classes; and the classes."""
    if classes is None and (predictions.dtype == bool or predictions.max(initial=0) <= 1):
        return positive_counts(predictions)[None], 2
    counts = class_counts(predictions, classes)
    return (counts[1:], 2) if len(counts) == 2 else (counts, len(counts))


def _consensus(counts: np.ndarray, models: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the class most models decide for, and their share; ties go to the lower class."""
    full = np.concatenate([models - counts, counts]) if len(counts) == 1 else counts
    return full.argmax(axis=0), full.max(axis=0) / models


def _error_bound(models: int, confidence: float, examples: int) -> Number:
    """Return the paper's bound on the error of all estimates at once."""
    bound = float(disagreement_error(models, confidence, examples))
    return Number(bound, "statistical", confidence=confidence, note="largest error of all examples at once")


def _accuracy(predictions: np.ndarray, labels: np.ndarray) -> Number:
    """Return the mean accuracy of a model, with the range that 95 % of the models are in."""
    by_model = accuracies(predictions, labels)
    lower, upper = np.quantile(by_model, [0.025, 0.975])
    return Number(
        float(by_model.mean()), "estimate", float(lower), float(upper), note="the interval holds 95 % of models"
    )


def _abstentions(
    values: np.ndarray,
    classes: int,
    winner: np.ndarray,
    labels: np.ndarray,
    levels: Sequence[float],
    confidence: float,
) -> tuple[Abstention, ...]:
    """Return what abstaining does at each level; self-consistency is 1 − P(f ≠ f'), whatever the number of classes."""
    pairwise_doubled = values * classes / 2  # the one-vs-rest mean is (4/K)·P(f ≠ f')
    return tuple(abstention(pairwise_doubled, winner, labels, level, confidence) for level in levels)
