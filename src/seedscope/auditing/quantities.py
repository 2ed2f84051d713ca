"""What rules can be about: the quantities of one privacy level, their titles and meanings, and how they are printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seedscope.core import Number

TOGETHER = 5  # models whose majority is compared with a single one
Show = Literal["plain", "percent", "points", "count"]


@dataclass(frozen=True)
class Quantity:
    """A quantity of a level: its title, a sentence that says what it is, and how it is printed."""

    title: str
    meaning: str
    show: Show = "plain"

    def shown(self, value: float) -> str:
        """Return a value of this quantity as text.

        >>> QUANTITIES["arbitrary"].shown(0.123), QUANTITIES["advantage"].shown(0.25)
        ('12.3 %', '0.25')
        """
        if self.show in ("percent", "points"):
            return f"{100 * value:.1f} {'%' if self.show == 'percent' else 'points'}"
        return f"{value:,.0f}" if self.show == "count" else f"{value:.3g}"

    def sentence(self, number: Number) -> str:
        """Return a number of this quantity as a sentence, with its interval and its kind."""
        ends = [self.shown(end) for end in (number.lower, number.upper) if end is not None]
        between = f", between {ends[0]} and {ends[1]}" if len(ends) == 2 and ends[0] != ends[1] else ""
        kind = number.kind if number.confidence is None else f"{number.kind} at {100 * number.confidence:g} %"
        note = f"; {number.note}" if number.note else ""
        return f"{self.title}: {self.shown(number.value)}{between} ({kind}{note})."


QUANTITIES = {
    "epsilon": Quantity("ε", "The ε of the guarantee; a proof only where its kind says so."),
    "delta_people": Quantity("δ times people", "The guarantee's δ times the number of people trained on."),
    "proved_advantage": Quantity(
        "Advantage allowed by the proof", "The largest membership advantage that the guarantee allows, for anybody."
    ),
    "advantage": Quantity(
        "Most exposed person's advantage",
        "How much better than guessing somebody tells whether the most exposed person was in the training data; its "
        "bounds hold for everybody attacked, or everybody, at once.",
    ),
    "mean_advantage": Quantity("Mean advantage", "Our attack's advantage, averaged over the people attacked."),
    "epsilon_shown": Quantity("ε shown by attack", "The ε that our attack shows for whoever looked most exposed."),
    "unseen": Quantity(
        "People who may be worse off",
        "The largest share of people who may be more exposed than everybody who was attacked.",
        "percent",
    ),
    "repeated": Quantity(
        "Rows there more than once",
        "The share of training rows of which another is an exact copy, where nobody said whose rows they are.",
        "percent",
    ),
    "arbitrary": Quantity(
        "Arbitrary decisions",
        "The share of test people for whom two re-trainings decide differently at least one time in four.",
        "percent",
    ),
    "arbitrary_people": Quantity("People with arbitrary decisions", "As many test people they are.", "count"),
    "arbitrary_together": Quantity(
        f"Arbitrary decisions of {TOGETHER} models",
        f"The same share where the majority of {TOGETHER} models decides, which costs at most {TOGETHER} times the ε.",
        "percent",
    ),
    "coin_tosses": Quantity(
        "People close to a coin toss", "Test people about whom fewer than 60 % of the re-trainings agree.", "count"
    ),
    "retrainings": Quantity("Re-trainings", "Models trained on the same data with other seeds.", "count"),
    "accuracy": Quantity("Accuracy", "How often a single model decides rightly about people like these.", "percent"),
    "balanced_accuracy": Quantity(
        "Balanced accuracy", "Accuracy in each class, averaged over classes: each class counts the same.", "percent"
    ),
    "above_majority": Quantity(
        "Above always deciding for one class",
        "Balanced accuracy minus that of a model which always decides for the same class.",
        "points",
    ),
    "accuracy_cost": Quantity(
        "Accuracy lost to privacy",
        "Accuracy without privacy minus accuracy: logistic regression on the same rows, or the best level.",
        "points",
    ),
}
