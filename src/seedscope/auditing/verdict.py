"""What the audit comes to under a policy: release, look first, change, or stop; why; and what is not covered.

A level is judged by its worst-off person and by what is shown, never by a mean over people: without a proof or an
attack nothing is released. `judge` needs only the facts of each level, so that a stored report can be judged again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from seedscope.auditing.policy import Check, Policy, read_policy
from seedscope.auditing.quantities import QUANTITIES, Show
from seedscope.auditing.ways_out import ways_out
from seedscope.core import Number

Tone = Literal["release", "talk", "change", "stop"]
Words = Callable[[Mapping[str, Number | None]], str]  # what a headline says, from what is known
SEVERITY: tuple[Tone, ...] = ("release", "talk", "change", "stop")
PASSED, BROKEN, BUG = 0, 1, 3  # exit codes; 2 is a mistake in the command
MEASURED = (
    "advantage",
    "unseen",
    "repeated",
    "epsilon",
    "arbitrary",
    "coin_tosses",
    "accuracy",
    "above_majority",
    "accuracy_cost",
)


@dataclass(frozen=True)
class Case:
    """What is known of one level: its name, its quantities, and the upper bounds that an attack beats."""

    label: str
    facts: Mapping[str, Number | None]
    alarms: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeyNumber:
    """One of the three numbers at the top of the report."""

    name: str
    number: Number
    meaning: str
    show: Show = "plain"


@dataclass(frozen=True)
class Outcome:
    """What a policy says of one level."""

    label: str
    tone: Tone
    checks: tuple[Check, ...]

    @property
    def broken(self) -> tuple[Check, ...]:
        """The rules that are not kept, the clearly broken ones first."""
        order = {"failed": 0, "open": 1, "look": 2}
        return tuple(
            sorted((check for check in self.checks if check.status != "passed"), key=lambda check: order[check.status])
        )


@dataclass(frozen=True)
class Verdict:
    """The advice on the level that is to be preferred, why, the numbers that matter, and each level's outcome."""

    tone: Tone
    headline: str
    sentences: tuple[str, ...]
    numbers: tuple[KeyNumber, ...]
    level: int
    policy: Policy
    outcomes: tuple[Outcome, ...]
    all_facts: tuple[Mapping[str, Number | None], ...]

    @property
    def facts(self) -> Mapping[str, Number | None]:
        """What is known of the preferred level."""
        return self.all_facts[self.level]

    @property
    def outcome(self) -> Outcome:
        """What the policy says of the preferred level."""
        return self.outcomes[self.level]

    @property
    def checks(self) -> tuple[Check, ...]:
        """The preferred level's rules held against its numbers."""
        return self.outcome.checks

    @property
    def ways_out(self) -> tuple[tuple[str, ...], ...]:
        """For every rule of the preferred level, what would keep it; nothing where it is kept."""
        levels = [
            (outcome.label, facts, outcome.checks) for outcome, facts in zip(self.outcomes, self.all_facts, strict=True)
        ]
        return ways_out(levels, self.level)

    @property
    def exit_code(self) -> int:
        """3: an attack beats what is guaranteed; 1: a rule that was asked for is not kept; 0 otherwise."""
        if self.tone == "stop":
            return BUG
        return BROKEN if any(check.rule.enforced and check.status != "passed" for check in self.checks) else PASSED


def judge(cases: Sequence[Case], policy: Policy | None = None) -> Verdict:
    """Return the verdict on the level that is to be preferred.

    Args:
        cases: what is known of each level.
        policy: the rules; default Seedscope's own.
    """
    rules = policy or read_policy()
    outcomes = tuple(_outcome(case, rules) for case in cases)
    index = preferred(cases, outcomes)
    case, outcome = cases[index], outcomes[index]
    sentences = (*case.alarms, *_chosen(cases, outcomes, index), *_reasons(outcome))
    known = tuple(judged.facts for judged in cases)
    return Verdict(outcome.tone, _headline(case, outcome), sentences, _numbers(case), index, rules, outcomes, known)


def _outcome(case: Case, policy: Policy) -> Outcome:
    """Return what the policy says of a level."""
    checks = policy.check(case.facts)
    statuses = {check.status for check in checks}
    if case.alarms:
        tone: Tone = "stop"
    elif "failed" in statuses:
        tone = "change"
    else:
        known = case.facts.get("advantage") is not None  # a proof or an attack, whatever the policy asks
        tone = "release" if statuses <= {"passed"} and known else "talk"
    return Outcome(case.label, tone, checks)


def preferred(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> int:
    """Return the level to prefer: the most private that keeps to the policy, or else what breaks the fewest rules.

    A level at which an attack beats an upper bound goes before all: that must be seen.
    """

    def order(index: int) -> tuple[float, ...]:
        outcome, facts = outcomes[index], cases[index].facts
        if outcome.tone == "stop":
            return (-1.0,)
        epsilon, accuracy = facts.get("epsilon"), facts.get("accuracy")
        private = math.inf if epsilon is None else epsilon.value
        if outcome.tone == "release":
            return (0.0, private)
        broken = sum(check.status == "failed" for check in outcome.checks)
        useful = 0.0 if accuracy is None else -round(accuracy.value, 3)
        return (float(SEVERITY.index(outcome.tone)), broken, len(outcome.broken), useful, private)

    return min(range(len(cases)), key=order)


def _chosen(cases: Sequence[Case], outcomes: Sequence[Outcome], index: int) -> list[str]:
    """Return why this level and no other."""
    outcome = outcomes[index]
    if len(cases) == 1 or outcome.tone == "stop":
        return []
    if outcome.tone == "release":
        return [f"Of {len(cases)} levels, {outcome.label} is the most private that keeps to the policy."]
    count = len(outcome.broken)
    fewest = f"{outcome.label} leaves the fewest rules unkept, {count}" if count else f"{outcome.label} comes nearest"
    return [f"None of {len(cases)} levels keeps to the policy; {fewest}."]


def _reasons(outcome: Outcome) -> list[str]:
    """Return the rules that are not kept, or the numbers that keep to them."""
    return [
        check.sentence
        for check in outcome.broken or outcome.checks
        if check.number is not None or check.status == "open"
    ]


def _headline(case: Case, outcome: Outcome) -> str:
    """Return the advice in one line."""
    if outcome.tone == "stop":
        return f"Stop, {case.label}: {_beaten(case.facts)}"
    if outcome.tone == "release":
        return f"{case.label} can be released: it keeps to every rule of the policy."
    if case.facts.get("advantage") is None and outcome.tone == "talk":
        return f"{case.label}: nothing is known about who can be recognised; prove it, or attack it, first."
    first = outcome.broken[0]
    words = {"failed": FAILED, "open": OPEN, "look": LOOK}[first.status].get(first.rule.quantity)
    return f"{case.label}: {words(case.facts) if words else f'not yet. {first.sentence}'}"


def _beaten(facts: Mapping[str, Number | None]) -> str:
    """Return what an attack beats: a proof, so that the training has a bug, or an ε that rests on what was learned."""
    epsilon = facts.get("epsilon")
    if epsilon is None or epsilon.kind == "proved":
        return "an attack beats what is guaranteed, so the training has a bug."
    return "an attack beats the ε that is claimed: what was learned from the rows gives people away, or there is a bug."


def _count(facts: Mapping[str, Number | None], name: str) -> int:
    """Return how many people a quantity counts."""
    number = facts.get(name)
    return 0 if number is None else round(number.value)


def _arbitrary(facts: Mapping[str, Number | None]) -> str:
    """Return what to do about many arbitrary decisions; a coin toss is said only of those who are near one."""
    tosses = _count(facts, "coin_tosses")
    if tosses:
        return f"change the noise or the data, {tosses:,} people get what is close to a coin toss."
    return f"change the noise or the data, re-trainings often decide differently about {_concerned(facts)}."


def _remedy(facts: Mapping[str, Number | None]) -> str:
    """Return what hides the most exposed person: noise, unless it is the features that tell of them, with certainty."""
    number = facts.get("advantage")
    certain = number is not None and number.kind == "proved" and number.lower == 1
    return "declare the levels of categories" if certain else "add noise"


def _concerned(facts: Mapping[str, Number | None]) -> str:
    """Return of how many people decisions are arbitrary; older reports know their share only."""
    share = facts.get("arbitrary")
    if facts.get("arbitrary_people") is None and share is not None:
        return f"{100 * share.value:.1f} % of the people"
    return f"{_count(facts, 'arbitrary_people'):,} people"


FAILED: dict[str, Words] = {
    "advantage": lambda facts: f"{_remedy(facts)}, an attacker can tell who was in the training data.",
    "epsilon": lambda facts: "add noise, what is proved rules out little.",
    "arbitrary": _arbitrary,
    "above_majority": lambda facts: "of no use, it does no better than always deciding for the same class.",
    "accuracy_cost": lambda facts: (
        f"privacy costs {100 * (facts['accuracy_cost'] or Number(0, 'estimate')).value:.1f} points of accuracy; find "
        "more data, or another mechanism."
    ),
}
OPEN: dict[str, Words] = {
    "advantage": lambda facts: "not yet, nobody has shown that nobody can be recognised; train more, or add noise.",
    "unseen": lambda facts: (
        "say first how many people were trained on (declare 'people' in a policy), those attacked may be a few of them."
        if facts.get("unseen") is None
        else "attack more people first, those who were attacked say too little about the others."
    ),
    "arbitrary": lambda facts: (
        f"train more first, {_count(facts, 'retrainings'):,} re-trainings leave open who is concerned."
    ),
    "above_majority": lambda facts: "test it on more people first, these are too few to say that it is of use.",
}
LOOK: dict[str, Words] = {
    "repeated": lambda facts: (
        "look first whether rows that are there twice are one person's; if so, say whose (person)."
    ),
    "arbitrary": lambda facts: f"look at {_concerned(facts)} first, whose decision hangs on the seed.",
    "accuracy_cost": lambda facts: "look first whether its accuracy will do, privacy takes its share.",
}


def _numbers(case: Case) -> tuple[KeyNumber, ...]:
    """Return the numbers for the top of the report: the attacker's advantage and the arbitrariness caused."""
    chosen = [(name, case.facts.get(name)) for name in ("advantage", "arbitrary")]
    return tuple(
        KeyNumber(QUANTITIES[name].title, number, QUANTITIES[name].meaning, QUANTITIES[name].show)
        for name, number in chosen
        if number is not None
    )
