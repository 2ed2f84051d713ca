"""The page's own words: what each number is called, how it is printed and what it means for a person."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Show = Literal["plain", "percent", "points", "count"]


@dataclass(frozen=True)
class Quantity:
    """A column of numbers: its name in the report, its title, how it is printed, and a sentence of meaning."""

    name: str
    title: str
    meaning: str
    show: Show = "plain"


PERSON = (
    Quantity(
        "disagreement",
        "Disagreement",
        "Twice the chance that two re-trainings decide differently about this person: 0 is settled, 1 a coin toss.",
    ),
    Quantity(
        "agreement", "Agreement", "The share of re-trained models that decide as most of them do.", show="percent"
    ),
    Quantity(
        "advantage",
        "Exposure",
        "How far the best possible attack beats guessing whether this person was in the training data: computed, so "
        "that no attack does better and one does as well; 0 is guessing, 1 certainty.",
    ),
    Quantity(
        "membership_advantage",
        "Membership advantage",
        "How much better than guessing an attack tells whether this person was in the training data: 0 is guessing.",
    ),
    Quantity(
        "epsilon_lower",
        "ε shown by attack",
        "This person's ε is at least this: the attack shows it, for all people attacked at once.",
    ),
    Quantity(
        "epsilon_estimate",
        "Own ε",
        "This person's ε as their own gradients suggest (DP-SGD), or the seed's noise along the direction that shows "
        "them best (plain SGD).",
    ),
    Quantity(
        "epsilon_statistical",
        "Own ε at most",
        "This person's ε is at most this, with the stated confidence over the runs drawn; empty where that is only "
        "what everybody has by the tighter accountant.",
    ),
    Quantity(
        "epsilon_upper",
        "ε guaranteed",
        "Anybody's ε is at most this, whatever the data: proved, or an estimate, as epsilon_kind says. With it goes "
        "the guarantee's δ: beyond ε a privacy loss is rare, not impossible.",
    ),
    Quantity(
        "reconstruction",
        "Reconstruction error",
        "An unbiased guess of this person's features, each in standard deviations, has at least this mean squared "
        "error.",
    ),
    Quantity(
        "uncertainty_left",
        "Uncertainty left",
        "This share of what is unknown about the person's features is left to any attacker, biased or not.",
        show="percent",
    ),
)

LEVEL = (
    Quantity(
        "accuracy", "Accuracy", "The share of test people decided rightly, on average over re-trainings.", "percent"
    ),
    Quantity("mean_disagreement", "Mean disagreement", "Disagreement, averaged over people."),
    Quantity(
        "arbitrary_share",
        "Arbitrary decisions",
        "The share of people with a disagreement of ½ or more: two re-trainings differ with probability ¼ or more.",
        "percent",
    ),
    Quantity(
        "attack_advantage",
        "Attack advantage",
        "True-positive minus false-positive rate of our attack, averaged over the people attacked: 0 is guessing, 1 "
        "certainty.",
    ),
    Quantity("epsilon_lower", "ε shown by attack", "The ε of the person who looked most exposed is at least this."),
)

INTRINSIC = {
    "epsilon_most_exposed": "Intrinsic ε of the most exposed person",
    "epsilon_median_person": "Intrinsic ε of the median person",
    "epsilon_lower_projection": "ε shown by the attack along that direction",
    "mu_lower_projection": "μ shown by the attack along that direction",
    "sensitivity_bound": "Reach of one person, proved",
    "sensitivity_strict": "Reach of one person, seen",
    "variability_flat": "Spread over seeds, all weights",
    "variability_eigen": "Spread over seeds, smallest direction",
    "epsilon_strict": "Intrinsic ε, one number for all as in the papers",
}

TONES = {
    "release": ("✓", "Ready to release"),
    "talk": ("!", "Look first"),
    "change": ("△", "Change first"),
    "stop": ("✕", "Stop"),
}
STATUSES = {
    "passed": "kept",
    "look": "look first",
    "open": "not shown",
    "failed": "broken",
}

KINDS = {
    "proved": "holds by a theorem whose conditions were checked",
    "statistical": "holds with the stated confidence over the models that were trained",
    "estimate": "a best guess without a guarantee",
}


def shown(value: float | None, show: Show = "plain") -> str:
    """Return a number as the page prints it: three significant digits, or a percentage with one decimal.

    >>> [shown(one) for one in (0.12345, 12345.6, 1.5e-7, 0, None)]
    ['0.123', '12,346', '1.5e-7', '0', '–']
    >>> [shown(0.1234, "percent"), shown(0.1234, "points"), shown(1234.0, "count")]
    ['12.3 %', '12.3 points', '1,234']
    """
    if value is None or not math.isfinite(value):
        return "–"
    if show == "percent":
        return f"{100 * value:.1f} %"
    if show == "points":
        return f"{100 * value:.1f} points"
    if show == "count":
        return f"{value:,.0f}"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 1e-3:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.2g}".split("e") if abs(value) < 1e-4 else (f"{value:.2g}", "")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def shown_confidence(confidence: float) -> str:
    """Return a confidence as a percentage with as few digits as it needs.

    >>> shown_confidence(0.95)
    '95 %'
    """
    return f"{100 * confidence:g} %"
