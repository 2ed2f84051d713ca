"""What is known of one privacy level for a policy to judge: each quantity as a number with its kind, or None."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from seedscope.analyses.per_instance import epsilon_advantage
from seedscope.auditing.groups import group_accuracy
from seedscope.auditing.levels import ARBITRARY, Level
from seedscope.auditing.records import person_places
from seedscope.core import Kind, Number, SeedscopeError, require
from seedscope.datasets import Dataset
from seedscope.mechanisms import Guarantee
from seedscope.numerics import mean_interval

Facts = dict[str, Number | None]
DECLARED = "δ as declared, times people"
COIN_TOSS = 0.6  # an agreement below which a decision is close to a coin toss
MOST_CELLS = 3_000_000  # of the rows that logistic regression without privacy is fitted on


class Guaranteed(Protocol):
    """Whatever has a guarantee, and may have a whole trade-off curve."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee."""


def facts(
    level: Level,
    levels: Sequence[Level],
    plain: np.ndarray | float | None = None,
    repeated: Number | None = None,
    alone: int = 0,
    people: float | None = None,
) -> Facts:
    """Return what is known of a level.

    Args:
        level: of which.
        levels: all levels of the audit: the most accurate is what privacy's price is at least compared with.
        plain: without privacy, whether each test person is decided rightly; or the accuracy that somebody declares.
        repeated: the share of training rows that are there more than once.
        alone: how many people are given away by the features alone.
        people: how many were trained on, where somebody declares it.
    """
    share, decided = level.arbitrary_share, level.multiplicity
    return {
        **_privacy(level, repeated, alone, people),
        "arbitrary": share,
        "arbitrary_people": Number(float((decided.disagreement >= ARBITRARY).sum()), "estimate"),
        "arbitrary_together": level.arbitrary_together,
        "coin_tosses": Number(float((decided.consensus_share < COIN_TOSS).sum()), "estimate"),
        "retrainings": Number(float(decided.models), "proved"),
        "accuracy": group_accuracy(level.right, level.confidence),
        **_balanced(level),
        "accuracy_cost": _cost(level, levels, plain),
    }


def _privacy(level: Level, repeated: Number | None, alone: int, declared: float | None) -> Facts:
    """Return what is proved, what the attack achieved, and about whom nothing is known."""
    tests, epsilon = level.membership, level.guarantee.epsilon
    people = level.ensemble.description.data.people
    return {
        "epsilon": epsilon,
        "delta_people": None if epsilon is None else Number(level.guarantee.delta * people, "estimate", note=DECLARED),
        "proved_advantage": proved_advantage(level),
        "advantage": _told_by_features(alone) or advantage(level, declared),
        "mean_advantage": None if tests is None else tests.set_advantage,
        "epsilon_shown": None if tests is None else tests.set_epsilon_lower,
        "unseen": unseen(level, declared),
        "repeated": repeated,
    }


def _told_by_features(alone: int) -> Number | None:
    """Return the advantage over whoever is the only one with a level of a category: the features have it by them."""
    whose = "1 person is the only one" if alone == 1 else f"{alone:,} people are each the only one"
    note = f"{whose} with a level of a category, and levels are learned: the model's features tell that they are there"
    return Number(1.0, "proved", 1.0, 1.0, note=note) if alone else None


def repeated_rows(data: Dataset | None) -> Number | None:
    """Return the share of training rows that have an exact copy, label included; None without the rows.

    Leaving out one of two copies changes little, so that an attack on rows finds nobody who is there twice. Where it is
    known whose each row is, a neighbour lacks all of a person's, and copies of others' rows are no such matter.
    """
    if data is None:
        return None
    if data.base.persons is not None:
        return Number(0.0, "proved", note="it is known whose each row is")
    rows = zip(data.base.features + 0.0, data.base.labels.tolist(), strict=True)  # −0 becomes 0
    counts = Counter((features.tobytes(), label) for features, label in rows)
    share = sum(count for count in counts.values() if count > 1) / len(data.base)
    return Number(share, "proved", note=f"of {len(data.base):,} training rows")


def proved_advantage(level: Guaranteed) -> Number | None:
    """Return the largest advantage that the guarantee allows, of the guarantee's kind; None without one."""
    epsilon = level.guarantee.epsilon
    if epsilon is None:
        return None
    curve = getattr(level, "trade_off", None)  # tighter than (ε, δ), where the mechanism has one
    value = float(epsilon_advantage(epsilon.value, level.guarantee.delta)) if curve is None else float(curve.advantage)
    return Number(value, epsilon.kind)


def advantage(level: Level, declared: float | None = None) -> Number | None:
    """Return the most exposed person's advantage with the best bounds there are; None where nothing is known.

    From above: what is proved, or the privacy loss of everybody, or our attack on those attacked. From below: what was
    shown of anybody. Only what is proved counts as a proof: an ε that presumes public scaling bounds nothing here.
    Where nobody declares how many people models from elsewhere were trained on, an attack bounds only those attacked,
    and a proof is what bounds the others.
    """
    seen, proof = _seen(level), proved_advantage(level)
    upper = [proof.value] if proof is not None and proof.kind == "proved" else []
    if seen is None:
        return Number(upper[0], "proved", 0.0, upper[0], note="by the proof alone") if upper else None
    value, low, high, note, kind = seen
    if upper and (upper[0] < high or (level.attacked_elsewhere and not declared)):
        high, note = upper[0], f"{note}, and by the proof"
    value, low = min(value, high), min(low, high)
    return Number(value, kind, low, high, level.confidence if kind == "statistical" else None, note)


def _seen(level: Level) -> tuple[float, float, float, str, Kind] | None:
    """Return the largest advantage that was seen, its bounds for all people at once, of whom it is, and its kind."""
    loss = _loss(level)
    if loss is not None:
        ends = (float(np.max(values)) for values in (loss.advantage, loss.advantage_lower, loss.advantage_upper))
        return *ends, f"any attack on each of {len(loss.people):,} people by one who {loss.attacker}", loss.kind
    if level.membership is None:
        return None
    lower, upper = level.membership.advantage_bounds
    people = f"our attack on {len(lower):,} people"
    largest = float(max(level.membership.advantage.max(), 0))
    return largest, float(max(lower.max(), 0)), float(upper.max()), people, "statistical"


def _loss(level: Level) -> Any:
    """Return everybody's privacy loss where it bounds something: no estimate, and not if its self-test fails."""
    loss: Any = getattr(level, "privacy_loss", None)
    if loss is None or loss.kind == "estimate":
        return None
    tested = getattr(loss, "self_test", None)
    return loss if tested is None or tested.holds else None


def unseen(level: Level, declared: float | None = None) -> Number | None:
    """Return the largest share of people who may be more exposed than everybody whom the bounds are about.

    Nobody, where a proof or the privacy loss of everybody has the bound. After an attack on n people drawn at random,
    1 − (1 − confidence)^(1/n): were more of all people worse off, one of them would have been among the n. Of people
    who were chosen by name nothing follows for others. How many people models from elsewhere were trained on is known
    only if it is declared.
    """
    bound, proof, loss = advantage(level, declared), proved_advantage(level), _loss(level)
    if bound is None:
        return None
    trained_on = level.ensemble.description.data.people
    by_proof = proof is not None and proof.kind == "proved" and bound.upper is not None and proof.value <= bound.upper
    count, drawn = (len(level.audited), level.drawn) if loss is None else (len(loss.people), 0)
    if level.attacked_elsewhere and not by_proof:
        fewer = f"people, which the policy declares, must be at least the {count:,} who were attacked"
        require(not declared or declared >= count, f"{fewer}, got {declared or 0:g}.", "policy")
        note = f"{count:,} people attacked, of {declared:,.0f} declared" if declared else ""
        share = max(0.0, 1 - count / declared) if declared else 0.0
        return Number(share, "estimate", 0.0, share, note=note) if declared else None
    if by_proof or count >= trained_on:
        return Number(0.0, "proved" if by_proof else "statistical", confidence=None if by_proof else level.confidence)
    share = 1 - (1 - level.confidence) ** (1 / drawn) if drawn else 1 - count / trained_on
    note = f"{count:,} of {trained_on:,} people attacked"
    return Number(share, "statistical", 0.0, share, level.confidence, note)


def _balanced(level: Level) -> Facts:
    """Return the accuracy with every class counting the same, and how far that is above deciding for one class."""
    labels = level.ensemble.dataset["person_label"].values[level.tested]
    classes = np.unique(labels)
    confidence_each = 1 - (1 - level.confidence) / len(classes)
    recalls = [group_accuracy(level.right[labels == label], confidence_each) for label in classes]
    ends = [np.mean([getattr(recall, end) for recall in recalls]) for end in ("value", "lower", "upper")]
    value, low, high = (float(end) for end in ends)
    chance = 1 / len(level.ensemble.description.data.classes)
    return {
        "balanced_accuracy": Number(value, "statistical", low, high, level.confidence),
        "above_majority": Number(value - chance, "statistical", low - chance, high - chance, level.confidence),
    }


def _cost(level: Level, levels: Sequence[Level], plain: np.ndarray | float | None) -> Number | None:
    """Return how much accuracy privacy costs; None where nothing without privacy is known."""
    if plain is None:
        return None
    if isinstance(plain, float | int):
        return Number(float(plain) - float(level.right.mean()), "estimate", note="of what was declared")
    best = max(levels, key=lambda other: float(other.right.mean()))
    reference = plain if plain.mean() >= best.right.mean() else best.right
    lost = reference - level.right
    low, high = (float(end) for end in mean_interval(lost, level.confidence))
    whose = "logistic regression" if reference is plain else best.label
    note = f"of {100 * reference.mean():.1f} % by {whose}"
    return Number(float(lost.mean()), "estimate", low, high, level.confidence, note)


def decided_without_privacy(data: Dataset | None, people: np.ndarray) -> np.ndarray | None:
    """Return whether logistic regression without privacy decides rightly about each test person; None without data.

    scikit-learn's own defaults on standardised features: what whoever cares for no privacy would try first. Of very
    large data a part is used.
    """
    if data is None:
        return None
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    features, labels = data.base.features, data.base.labels
    flat = features.reshape(len(features), -1)
    rows = np.random.default_rng(0).permutation(len(flat))[: max(1000, MOST_CELLS // flat.shape[1])]
    scaler = StandardScaler().fit(flat[rows])
    try:
        model = LogisticRegression(max_iter=300).fit(scaler.transform(flat[rows]), labels[rows])
    except ValueError as error:
        raise SeedscopeError(f"logistic regression without privacy cannot be fitted: {error}.") from error
    test = data.test.features.reshape(len(data.test.labels), -1)
    right = model.predict(scaler.transform(test)) == data.test.labels
    place = {person: k for k, person in enumerate(person_places(data, data.test).tolist())}
    return np.array([right[place[person]] for person in people.tolist()], float)
