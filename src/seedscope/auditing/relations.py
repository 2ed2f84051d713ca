"""How what was found about people hangs together: rank correlations with intervals, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from seedscope.auditing.levels import Level
from seedscope.auditing.people import columns
from seedscope.core import Number, number_or_none
from seedscope.numerics import spearman

LEAST = 5  # people


@dataclass(frozen=True)
class Question:
    """Two columns of people, and what their correlation answers."""

    asked: str
    first: str
    second: str
    yes: str
    opposite: str


QUESTIONS = (
    Question(
        "Are the most exposed also the most arbitrary?",
        "advantage",
        "disagreement",
        "Yes: on whom the best attack does better also gets more arbitrary decisions.",
        "Rather the opposite: on whom the best attack does better gets steadier decisions.",
    ),
    Question(
        "Are the least private also the most arbitrary?",
        "membership_advantage",
        "disagreement",
        "Yes: who is easier to recognise as a member also gets more arbitrary decisions.",
        "Rather the opposite: who is easier to recognise gets steadier decisions.",
    ),
    Question(
        "Are those with the largest ε of their own also the most arbitrary?",
        "epsilon_estimate",
        "disagreement",
        "Yes: whose gradients stand out also gets more arbitrary decisions.",
        "Rather the opposite: whose gradients stand out gets steadier decisions.",
    ),
    Question(
        "Do the attack and the accounting point at the same people?",
        "membership_advantage",
        "epsilon_estimate",
        "Yes: whom the attack recognises is also whom the accounting protects least.",
        "Rather the opposite: the attack recognises people whom the accounting protects well.",
    ),
)


@dataclass(frozen=True)
class Finding:
    """A question about an audit's models that was answered while they were trained, with its number if it has one."""

    asked: str
    answer: str
    number: Number | None

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return {"question": self.asked, "answer": self.answer, "number": number_or_none(self.number)}


def relations(level: Level) -> list[dict[str, Any]]:
    """Return the questions that the people of a level can answer, with Spearman's correlation and its interval."""
    known = columns(level)
    answers = [
        _answer(question, known[question.first], known[question.second], level.confidence) for question in QUESTIONS
    ]
    return [answer for answer in answers if answer is not None]


def _answer(question: Question, first: np.ndarray, second: np.ndarray, confidence: float) -> dict[str, Any] | None:
    """Return the answer to one question; None where too few people have both numbers, or all have the same."""
    both = np.isfinite(first) & np.isfinite(second)
    x, y = first[both], second[both]
    if len(x) < LEAST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    value, lower, upper = spearman(x, y, confidence)
    unclear = lower <= 0 <= upper
    said = (
        "No clear relation among the people audited." if unclear else question.yes if value > 0 else question.opposite
    )
    note = f"Spearman's rank correlation over {len(x):,} people"
    number = Number(value, "estimate", lower, upper, confidence, note)
    return {"question": question.asked, "answer": said, "number": number_or_none(number)}
