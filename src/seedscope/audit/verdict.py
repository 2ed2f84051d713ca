"""What the audit comes to, in plain words: release, change the noise, or talk to these people first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seedscope.audit.levels import Level
from seedscope.audit.words import guarantee_meaning
from seedscope.number import Number

Tone = Literal["release", "change", "talk"]
ACCURACY_PRICE = 0.02  # a stronger level is preferred while it costs no more accuracy than this
FEW, MANY = 0.02, 0.15  # shares of arbitrary decisions below which to release, above which to change the noise
WEAK_EPSILON = 8.0  # above it a guarantee rules out little
NOTABLE_ADVANTAGE = 0.1


@dataclass(frozen=True)
class KeyNumber:
    """One of the three numbers at the top of the report."""

    name: str
    number: Number
    meaning: str
    show: Literal["plain", "percent"] = "plain"


@dataclass(frozen=True)
class Verdict:
    """The advice, why, and the three numbers that matter."""

    tone: Tone
    headline: str
    sentences: tuple[str, ...]
    numbers: tuple[KeyNumber, ...]
    level: int


def preferred(levels: Sequence[Level]) -> Level:
    """Return the most private level that costs little accuracy; levels without a proof come last.

    A level at which an attack beats an upper bound goes before all: that must be seen.
    """
    broken = [level for level in levels if level.exceeds_proof]
    if broken:
        return broken[0]
    best = max(level.accuracies.mean() for level in levels)
    good = [level for level in levels if level.accuracies.mean() >= best - ACCURACY_PRICE]
    return min(good, key=lambda level: math.inf if level.proved_epsilon is None else level.proved_epsilon)


def verdict(levels: Sequence[Level]) -> Verdict:
    """Return the verdict on the level that is to be preferred."""
    level = preferred(levels)
    tone = _tone(level)
    numbers = (_privacy_number(level), _attack_number(level), _arbitrariness_number(level))
    shown = tuple(one for one in numbers if one)
    return Verdict(tone, _headline(tone, level), _sentences(level, levels), shown, list(levels).index(level))


def _tone(level: Level) -> Tone:
    """Return the advice for one level."""
    share = float(level.arbitrary_share)
    if level.exceeds_proof or share >= MANY or _is_exposed(level):
        return "change"
    return "release" if share < FEW and not _is_open(level) else "talk"


def _is_open(level: Level) -> bool:
    """Whether so few re-trainings leave open that many decisions are arbitrary."""
    return (level.arbitrary_share.upper or 0.0) >= MANY > float(level.arbitrary_share)


def _is_exposed(level: Level) -> bool:
    """Whether membership is badly protected: no meaningful proof, and an attack that works."""
    proof = level.proved_epsilon is not None and level.proved_epsilon <= WEAK_EPSILON
    attack = level.membership is not None and float(level.membership.set_advantage) >= NOTABLE_ADVANTAGE
    return attack and not proof


def _headline(tone: Tone, level: Level) -> str:
    """Return the advice in one line."""
    if level.exceeds_proof:
        return f"Stop, {level.label}: an attack beats what is guaranteed, so the training has a bug."
    count = round(float(level.arbitrary_share) * level.multiplicity.examples)
    if tone == "release":
        return f"{level.label} can be released: almost nobody's decision hangs on the seed."
    if tone == "talk" and float(level.arbitrary_share) < FEW:
        return (
            f"{level.label}: train more first, {level.multiplicity.models:,} re-trainings leave open who is concerned."
        )
    if tone == "talk":
        return f"{level.label}: look at {count:,} people first, whose decision hangs on the seed."
    if _is_exposed(level):
        return f"{level.label}: add noise, an attacker can tell who was in the training data."
    return f"{level.label}: change the noise or the data, {count:,} people get what is close to a coin toss."


def _sentences(level: Level, levels: Sequence[Level]) -> tuple[str, ...]:
    """Return the reasons, one sentence each."""
    said = list(level.sandwich.broken) if level.sandwich else []
    if len(levels) > 1 and not said:
        said.append(
            f"Of {len(levels)} levels, {level.label} is the most private that costs at most "
            f"{100 * ACCURACY_PRICE:g} points of accuracy (mean {100 * float(level.accuracy):.1f} %)."
        )
    share = level.arbitrary_share
    said.append(
        f"For {100 * share.value:.1f} % of the test people ({100 * (share.lower or 0):.1f} to "
        f"{100 * (share.upper or 0):.1f} %) two re-trainings decide differently at least one time in four."
    )
    said += [one for one in (_membership_sentence(level), _group_sentence(level)) if one]
    return tuple(said)


def _membership_sentence(level: Level) -> str:
    """Return what the attack achieved."""
    tests = level.membership
    if tests is None:
        return ""
    proved = float(tests.set_epsilon_lower)
    return (
        f"With {tests.held_out_seeds} held-out seeds the best attack proves that ε is at least {proved:.2f}; "
        f"so many seeds could prove {tests.ceiling:.2f} at most."
    )


def _group_sentence(level: Level) -> str:
    """Return the groups between which arbitrariness differs, if any."""
    found = level.multiplicity.groups
    limit = 0.05 / max(1, len(found))
    uneven = [name for name, one in found.items() if one.p_value is not None and float(one.p_value) < limit]
    return f"Arbitrary decisions are not spread evenly by {', '.join(uneven)}." if uneven else ""


def _privacy_number(level: Level) -> KeyNumber | None:
    """Return the privacy that is bought: the proved ε, or the intrinsic estimate."""
    epsilon = level.proved_epsilon
    if epsilon is not None:
        meaning = guarantee_meaning(epsilon, level.guarantee["delta"])
        return KeyNumber("Privacy guaranteed (ε)", Number(epsilon, "proved"), meaning)
    if level.intrinsic is None or level.intrinsic.epsilon_strict is None:
        return None
    meaning = "What the seed's own randomness would amount to as Gaussian noise; an estimate, never a guarantee."
    return KeyNumber("Intrinsic privacy (ε)", level.intrinsic.epsilon_strict, meaning)


def _attack_number(level: Level) -> KeyNumber | None:
    """Return the privacy that is left: what an attacker achieves."""
    if level.membership is None:
        return None
    meaning = (
        "How much more often an attacker says 'member' of members than of others, averaged over the people audited."
    )
    return KeyNumber("Attacker's advantage", level.membership.set_advantage, meaning)


def _arbitrariness_number(level: Level) -> KeyNumber:
    """Return the arbitrariness that is caused."""
    meaning = "The share of test people for whom two re-trainings decide differently at least one time in four."
    return KeyNumber("Arbitrary decisions", level.arbitrary_share, meaning, show="percent")
