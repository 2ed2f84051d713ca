"""Each finding comes with what would keep its rule: a level already trained, more evidence, another training."""

from __future__ import annotations

import numpy as np
import pytest

from seedscope.auditing.levels import _by_majority
from seedscope.auditing.policy import Policy, Rule
from seedscope.auditing.verdict import Case, Verdict, judge
from seedscope.auditing.ways_out import times_the_evidence
from seedscope.core import Number

SURE = 0.95


def measured(value: float, lower: float, upper: float, note: str = "") -> Number:
    """Return a number that was measured, with its interval."""
    return Number(value, "statistical", lower, upper, SURE, note)


def level(label: str, accuracy: float, **facts: Number) -> Case:
    """Return a level with an accuracy and an attack that shows nothing, and what else is known of it."""
    known = {"advantage": measured(0.01, 0.0, 0.02), "retrainings": Number(1000.0, "proved")}
    return Case(label, {**known, "accuracy": measured(accuracy, accuracy, accuracy), **facts})


def judged(rule: Rule, *levels: Case) -> Verdict:
    """Return the verdict under one rule."""
    return judge(levels, Policy("test", (rule,)))


def ways(rule: Rule, *levels: Case) -> str:
    """Return what would keep the only rule at the preferred level."""
    (found,) = judged(rule, *levels).ways_out
    return " ".join(found)


def test_a_rule_that_is_kept_needs_nothing() -> None:
    assert ways(Rule("arbitrary", at_most=0.5), level("a", 0.9, arbitrary=measured(0.1, 0.05, 0.2))) == ""


def test_another_level_that_keeps_the_rule_is_named_with_what_it_gains_and_costs() -> None:
    first = Rule("arbitrary", at_most=0.15)
    second = Rule("accuracy", at_least=0.8)
    noisy = level("ε = 1", 0.91, arbitrary=measured(0.206, 0.19, 0.23))
    calm = level("ε = 2", 0.7, arbitrary=measured(0.066, 0.05, 0.08))
    verdict = judge((noisy, calm), Policy("test", (first, second, Rule("epsilon", at_most=1, needed=False))))
    place = verdict.level
    other = (noisy, calm)[1 - place].label
    helps = verdict.ways_out[0 if place == 0 else 1]
    assert helps[0].startswith(f"{other} keeps it: ")
    assert ("6.6 % instead of 20.6 %, with accuracy 70.0 % instead of 91.0 %" in helps[0]) == (place == 0)


@pytest.mark.parametrize(
    ("rule", "known", "words"),
    [
        (
            Rule("arbitrary", at_most=0.15),
            {"arbitrary": measured(0.12, 0.1, 0.18)},
            "About 4,000 re-trainings, now 1,000",
        ),
        (
            Rule("advantage", at_most=0.1),
            {"advantage": measured(0.06, 0.0, 0.14, "our attack on 40 people")},
            "About 4 times as many models with and without each person would decide it.",
        ),
        (
            Rule("above_majority", at_least=0.05),
            {"above_majority": measured(0.15, 0.0, 0.3)},
            "2.3 times as many test people",
        ),
        (Rule("unseen", at_most=0.1), {"unseen": measured(0.45, 0.0, 0.45)}, "Attack 29 people drawn at random"),
        (Rule("arbitrary", at_most=0.15), {"arbitrary": measured(0.149999, 0.1, 0.2)}, "too near the limit"),
        (
            Rule("arbitrary", at_most=0.15),
            {"arbitrary": measured(0.44, 0.4, 0.47)},
            "seedscope remedies prices averaging",
        ),
        (Rule("epsilon", at_most=1), {"epsilon": Number(2.0, "proved")}, "Train at a smaller ε."),
    ],
)
def test_without_such_a_level_it_is_evidence_or_a_change(rule: Rule, known: dict[str, Number], words: str) -> None:
    assert words in ways(rule, level("a", 0.9, **known))


def test_as_many_people_as_are_asked_for_do_keep_the_rule() -> None:
    people = 29
    assert 1 - 0.05 ** (1 / people) <= 0.1 < 1 - 0.05 ** (1 / (people - 1))


@pytest.mark.parametrize("limit", [0.02, 0.05, 0.15, 0.3])
def test_that_much_evidence_brings_the_interval_to_the_limit(limit: float) -> None:
    number = measured(0.1, 0.1 - 0.2, 0.1 + 0.4)
    times = times_the_evidence(number, limit)
    assert times is not None
    half = (0.4 if limit > 0.1 else 0.2) / times**0.5
    assert half == pytest.approx(min(abs(limit - 0.1), 0.4 if limit > 0.1 else 0.2))


def test_no_evidence_decides_a_value_that_is_the_limit() -> None:
    assert times_the_evidence(measured(0.1, 0.0, 0.2), 0.1) is None


def test_a_majority_is_worth_mentioning_where_it_helps_and_has_its_price() -> None:
    rule, many = Rule("arbitrary", at_most=0.15), measured(0.44, 0.4, 0.47)
    known = {"arbitrary": many, "epsilon": Number(2.0, "proved"), "arbitrary_together": measured(0.2, 0.1, 0.3)}
    said = "A majority of 5 models: 20.0 % instead of 44.0 %, for at most 5 times the ε and the δ."
    assert said in ways(rule, level("a", 0.9, **known))
    assert "majority" not in ways(rule, level("a", 0.9, **known | {"arbitrary_together": many}))


def test_the_majority_of_many_models_is_counted_from_the_models_of_the_audit() -> None:
    chances = np.array([0.5, 0.8, 0.99])
    scores = (np.random.default_rng(0).random((4000, 3)) < chances).astype(float)
    share = _by_majority(scores, np.array([1, 1, 1]), SURE)
    assert share is not None
    alone = 4 * chances * (1 - chances) >= 0.5  # two of three
    assert (round(share.value * 3), int(alone.sum())) == (1, 2)
    assert _by_majority(scores[:20], np.array([1, 1, 1]), SURE) is None
