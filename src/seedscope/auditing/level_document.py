"""One privacy level of a report as plain values: the whole of it, and what does not depend on the data."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from seedscope.accounting import plain_meanings, trade_off
from seedscope.analyses.per_instance import PerInstancePrivacy
from seedscope.auditing.intrinsic_people import plain_numbers
from seedscope.auditing.levels import Level
from seedscope.auditing.performance import settings
from seedscope.auditing.sensitive import plain_told
from seedscope.auditing.words import NOT_OWN, PUBLIC_ALARM, PUBLIC_DELTA, PUBLIC_LEAK, PUBLIC_SIZE, guarantee_meaning
from seedscope.core import RELATION_WORDS, Number, number_or_none, plain_list, plain_values, rounded_up
from seedscope.mechanisms import NOT_COVERED, SIZE_SEEN

CALIBRATED = 1e-5  # as near below the ε that was asked for calibrated noise comes, as a share of it


def level_document(level: Level) -> dict[str, Any]:
    """Return one level's numbers as plain values."""
    tests, intrinsic = level.membership, level.intrinsic
    return {
        "label": level.label,
        "epsilon": level.claimed_epsilon,
        "delta": level.guarantee.delta,
        "guarantee": _guarantee(level),
        "epsilon_tighter": number_or_none(level.epsilon_tighter),
        "epsilon_last": number_or_none(level.epsilon_last),
        "accuracy": number_or_none(level.accuracy),
        "accuracy_smallest": float(level.accuracies.min()),
        "accuracy_largest": float(level.accuracies.max()),
        "mean_disagreement": number_or_none(level.multiplicity.mean),
        "arbitrary_share": number_or_none(level.arbitrary_share),
        "certain_share": None if level.certain is None else number_or_none(level.certain),
        "attack_advantage": None if tests is None else number_or_none(tests.set_advantage),
        "epsilon_lower": None if tests is None else number_or_none(tests.set_epsilon_lower),
        "mu_lower": None if tests is None else number_or_none(tests.set_mu_lower),
        "epsilon_lower_ceiling": None if tests is None else tests.ceiling,
        "curve_test": _curve_test(level),
        "intrinsic": None if intrinsic is None else _intrinsic(level),
        "sandwich": _sandwich(level),
        "everybody": _everybody(level),
        "reconstruction": None if level.reconstruction is None else level.reconstruction.as_dict(),
        "told": [plain_told(guessing) for guessing in level.told],
        "trade_off": _trade_off(level),
        "settings": settings(level),
        "meanings": _meanings(level),
        "roc": _roc(level),
    }


def _guarantee(level: Level) -> dict[str, Any]:
    """Return the guarantee with what it means for a person."""
    words = {
        "relation": RELATION_WORDS[level.guarantee.relation],
        "meaning": guarantee_meaning(level.claimed_epsilon, level.guarantee.delta),
        "not_covered": list(NOT_COVERED),
    }
    return level.guarantee.describe() | words


def _everybody(level: Level) -> dict[str, Any] | None:
    """Return the best possible attack on everybody who was trained on, in a few numbers."""
    loss = level.privacy_loss
    if loss is None:
        return None
    test = getattr(loss, "self_test", None)
    return {
        "people": len(loss.people),
        "largest": number_or_none(loss.largest),
        "median": number_or_none(Number(float(np.median(loss.advantage)), "estimate")),
        "attacker": loss.attacker,
        "self_test": None if test is None else test.sentence,
    }


def _meanings(level: Level) -> list[str]:
    """Return what the guarantee bounds, in plain sentences; none where nothing is guaranteed."""
    if level.trade_off is None or level.claimed_epsilon is None:
        return []
    rates = level.trade_off.as_dict()["true_positive_rates"]
    return list(plain_meanings(level.claimed_epsilon, float(level.trade_off.advantage), rates))


def _trade_off(level: Level) -> dict[str, Any] | None:
    """Return the guarantee's curve: what any membership attack can achieve at most."""
    return None if level.trade_off is None else level.trade_off.as_dict()


def _curve_test(level: Level) -> dict[str, Any] | None:
    """Return the attack on the most exposed person against the guarantee's curve; None without either."""
    curve = None if level.membership is None else level.membership.set_curve
    if curve is None:
        return None
    return {**plain_values(asdict(curve)), "exceeded": curve.exceeded}


def _sandwich(level: Level) -> dict[str, Any] | None:
    """Return both sides of privacy: what the attack proves, and each kind of upper bound."""
    sandwich, own = level.sandwich, level.per_instance
    if sandwich is None:
        return None
    return {
        "holds": sandwich.holds,
        "could_fail": sandwich.could_fail,
        "sentence": sandwich.sentence,
        "relation": RELATION_WORDS[level.attack_relation],
        "largest_statistical": None if own is None else number_or_none(_largest_statistical(own)),
        "largest_estimate": None if own is None else number_or_none(_largest_estimate(own)),
    }


def _largest_statistical(own: PerInstancePrivacy) -> Number | None:
    """Return the largest of people's statistical bounds; None where nobody has one."""
    known = own.epsilon_statistical[np.isfinite(own.epsilon_statistical)]
    if not len(known):
        return None
    largest = float(known.max())
    note = "; ".join(filter(None, [_not_own(largest, own), own.epsilon_baseline.note]))
    if own.epsilon_baseline.kind != "proved":  # it would hold over the runs drawn, were preprocessing public
        return Number(largest, "estimate", note=note)
    return Number(largest, "statistical", confidence=own.confidence, note=note)


def _largest_estimate(own: PerInstancePrivacy) -> Number:
    """Return the largest of people's estimates, with what must be said of them."""
    largest = float(own.epsilon.max())
    return Number(largest, "estimate", note="; ".join(filter(None, [_not_own(largest, own), *own.caveats()])))


def _not_own(epsilon: float, own: PerInstancePrivacy) -> str:
    """Return the words for an ε that is no person's own but everybody's."""
    return "" if epsilon < own.epsilon_everybody else NOT_OWN


def _roc(level: Level) -> dict[str, Any] | None:
    """Return the attack's curve, with the guarantee's limit where there is one."""
    tests = level.membership
    if tests is None:
        return None
    curve = {
        "false_positive_rate": plain_list(tests.roc_false_positive_rate),
        "true_positive_rate": plain_list(tests.roc_true_positive_rate),
    }
    limit = level.true_positive_limit(tests.roc_false_positive_rate)
    return curve if limit is None else curve | {"true_positive_limit": plain_list(limit)}


def _intrinsic(level: Level) -> dict[str, Any]:
    """Return the intrinsic analysis' numbers: of the people first, then one for all as in the papers."""
    names = ("sensitivity_bound", "sensitivity_strict", "variability_flat", "variability_eigen", "epsilon_strict")
    for_all = {name: getattr(level.intrinsic, name) for name in names}
    return {
        name: number_or_none(number) for name, number in (plain_numbers(level) | for_all).items() if number is not None
    }


def public_level(level: Level) -> dict[str, Any]:
    """Return a level's guarantee in round numbers, which tell nothing of how many rows there were; none if beaten.

    With it goes the curve of these numbers: the mechanism's own tells the size.
    """
    untold = _untold(level)
    epsilon, delta = level.guarantee.epsilon, 0.0 if untold else rounded_up(level.guarantee.delta, digits=0)
    number = None if epsilon is None or untold else replace(epsilon, value=rounded_up(epsilon.value, digits=3))
    reason = untold or level.guarantee.reason.replace(SIZE_SEEN, "")  # whether it shows depends on how many there are
    unit = "row" if number is None else level.guarantee.unit
    shown = replace(level.guarantee, epsilon=number, delta=delta, reason=reason, unit=unit)
    value = None if number is None else number.value
    label = level.ensemble.mechanism.name if value is None else f"ε = {value:g}"
    words = {
        "relation": RELATION_WORDS[shown.relation],
        "meaning": untold or guarantee_meaning(value, delta),
        "not_covered": list(NOT_COVERED),
    }
    told = {"label": label, "epsilon": value, "delta": delta, "guarantee": shown.describe() | words}
    if number is None or value is None:
        return told
    curve = trade_off(epsilon=value, delta=delta, kind=number.kind)
    described = curve.as_dict()
    meanings = plain_meanings(value, float(curve.advantage), described["true_positive_rates"])
    return told | {"trade_off": described, "meanings": list(meanings)}


def public_alarm(level: Level) -> str:
    """Return what everybody is told where an attack beat this level's claim."""
    return PUBLIC_LEAK if level.guarantee.assumes else PUBLIC_ALARM


def _untold(level: Level) -> str:
    """Return why no ε is claimed for everybody to read; empty where one can be."""
    if level.broken:
        return public_alarm(level)
    if level.ensemble.mechanism.delta_follows_size:
        return PUBLIC_DELTA
    return PUBLIC_SIZE if _epsilon_tells_size(level) else ""


def _epsilon_tells_size(level: Level) -> bool:
    """Whether ε was worked out from noise and the number of rows: one that was asked for is a round number."""
    epsilon = level.guarantee.epsilon
    if not level.ensemble.mechanism.epsilon_follows_size:
        return False
    if level.ensemble.mechanism.limits_people:  # whether a budget or the steps decide hangs on the size
        return True
    if epsilon is None:  # of a person with several rows there is one or none, as the size will have it
        return level.guarantee.delta == 0 and level.ensemble.description.conditions.rows_per_person > 1
    return rounded_up(epsilon.value, digits=3) > epsilon.value * (1 + CALIBRATED)
