"""What would keep a rule that is not kept: a level already trained, how much more evidence, or another training.

`advice` compares whole levels; this is about one finding at a time, with what its remedy would gain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from seedscope.auditing.policy import Check
from seedscope.auditing.quantities import TOGETHER
from seedscope.core import Number

Facts = Mapping[str, Number | None]
MOST_TIMES = 1000  # as much evidence: beyond that an interval will not decide

# What narrows the interval of a quantity; an attack's has its own.
EVIDENCE = {
    "arbitrary": "re-trainings",
    "above_majority": "test people",
    "balanced_accuracy": "test people",
    "accuracy": "test people",
    "advantage": "re-trainings",
    "mean_advantage": "people attacked",
}
# What else can be done where no level that was trained keeps the rule.
CHANGES = {
    "advantage": "Add noise: a smaller ε limits every attack.",
    "proved_advantage": "Add noise: a smaller ε limits every attack.",
    "epsilon": "Train at a smaller ε.",
    "delta_people": "Train at a smaller δ.",
    "repeated": "Say whose each row is (person): then a person's rows are left out together.",
    "arbitrary": "seedscope remedies prices averaging, consensus and abstention.",
    "above_majority": "Train at a larger ε, on more people, or on features that say more.",
    "accuracy_cost": "seedscope compare trains other mechanisms at the same ε, of which one may cost less.",
}


def ways_out(levels: Sequence[tuple[str, Facts, Sequence[Check]]], chosen: int) -> tuple[tuple[str, ...], ...]:
    """Return for every rule of the chosen level what would keep it, in sentences; nothing for a rule that is kept.

    Args:
        levels: each level's name, what is known of it, and the rules held against it, in the same order at every level.
        chosen: the level whose findings are meant.
    """
    return tuple(
        () if check.status == "passed" else _of_one(levels, chosen, rule)
        for rule, check in enumerate(levels[chosen][2])
    )


def _of_one(levels: Sequence[tuple[str, Facts, Sequence[Check]]], chosen: int, rule: int) -> tuple[str, ...]:
    """Return what would keep one rule: another level, more evidence, a change."""
    check, facts = levels[chosen][2][rule], levels[chosen][1]
    elsewhere = _another_level(levels, chosen, rule)
    said = [elsewhere, *_more_evidence(check, facts), _together(check, facts)]
    if not elsewhere:
        said.append(CHANGES.get(check.rule.quantity, ""))
    return tuple(sentence for sentence in said if sentence)


def _another_level(levels: Sequence[tuple[str, Facts, Sequence[Check]]], chosen: int, rule: int) -> str:
    """Return the most accurate other level that keeps the rule, what that gains and what it costs; else nothing."""
    now = levels[chosen][2][rule]
    keeping = [
        (label, facts, checks[rule])
        for place, (label, facts, checks) in enumerate(levels)
        if place != chosen and checks[rule].status == "passed" and checks[rule].number is not None
    ]
    if not keeping or now.number is None:
        return ""
    label, facts, kept = max(keeping, key=lambda level: _accuracy(level[1]))
    assert kept.number is not None
    shown = now.quantity.shown
    gain = f"{label} keeps it: {shown(kept.number.value)} instead of {shown(now.number.value)}"
    before, after = (f"{100 * _accuracy(measured):.1f} %" for measured in (levels[chosen][1], facts))
    return (
        f"{gain}, at the same accuracy." if before == after else f"{gain}, with accuracy {after} instead of {before}."
    )


def _together(check: Check, facts: Facts) -> str:
    """Return how much less arbitrary a majority's decisions are, and what that costs in privacy."""
    pooled, epsilon = facts.get("arbitrary_together"), facts.get("epsilon")
    if check.rule.quantity != "arbitrary" or check.number is None or pooled is None:
        return ""
    if pooled.value >= check.number.value:
        return ""
    shown = check.quantity.shown
    price = "" if epsilon is None else f", for at most {TOGETHER} times the ε and the δ"
    return f"A majority of {TOGETHER} models: {shown(pooled.value)} instead of {shown(check.number.value)}{price}."


def _accuracy(facts: Facts) -> float:
    """Return a level's accuracy, below everything where it is not known."""
    number = facts.get("accuracy")
    return -1.0 if number is None else number.value


def _more_evidence(check: Check, facts: Facts) -> list[str]:
    """Return how much more evidence would decide a rule that is not shown to be kept."""
    if check.status != "open":
        return []
    if check.rule.quantity == "unseen":
        return [f"Attack {_people_to_attack(check.rule.limit):,} people drawn at random, if none of them is worse off."]
    number = check.number
    times = None if number is None else times_the_evidence(number, check.rule.limit)
    what = _evidence_of(check)
    if times is None or not what:
        return []
    if times > MOST_TIMES:
        return [f"It is too near the limit for more {what} to decide it."]
    count = facts.get("retrainings") if what == "re-trainings" else None
    if count is not None:
        return [f"About {_rounded_up(times * count.value):,} re-trainings, now {count.value:,.0f}, would decide it."]
    return [f"About {_rounded_up(10 * times) / 10:g} times as many {what} would decide it."]


def _evidence_of(check: Check) -> str:
    """Return what narrows the number's interval: an attack's are models, with and without each person."""
    number = check.number
    if number is not None and check.rule.quantity == "advantage":
        if number.kind != "statistical":
            return ""
        if number.note.startswith("our attack"):
            return "models with and without each person"
    return EVIDENCE.get(check.rule.quantity, "")


def times_the_evidence(number: Number, limit: float) -> float | None:
    """Return about how many times the evidence takes an interval's end across a limit; None where none would.

    Ends come nearer to the value with the square root of the evidence.

    >>> round(times_the_evidence(Number(0.06, "statistical", 0.0, 0.14, 0.95), 0.1), 3)
    4.0
    """
    if number.value == limit:
        return None
    end = number.upper if number.value < limit else number.lower
    if end is None or end == number.value:
        return None
    return max(1.0, ((end - number.value) / (limit - number.value)) ** 2)


def _people_to_attack(limit: float, confidence: float = 0.95) -> int:
    """Return how many people drawn at random leave at most this share open, if none of them is worse off."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-limit)) if 0 < limit < 1 else 1


def _rounded_up(number: float) -> int:
    """Return a number rounded up to two digits: what is said is no more exact than that."""
    step = 10 ** max(0, math.floor(math.log10(number)) - 1) if number > 1 else 1
    return math.ceil(number / step) * step
