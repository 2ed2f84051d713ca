"""What an analysis of everybody's privacy loss answers, sampled or exact."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from seedscope.core import Kind, Number, Relation, Shown, ranked_plot


@dataclass(frozen=True, eq=False)
class Sides:
    """A value for each person with both its sides: what the best attack surely reaches, and what none exceeds."""

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyLoss(Shown):
    """How well the best possible attack tells whether each person was in the data.

    Arrays have one entry per person. `advantage` is the attack's true- minus false-positive rate; `advantage_lower` and
    `advantage_upper` hold for all people at once, at `confidence`.
    """

    people: np.ndarray
    advantage: np.ndarray
    advantage_lower: np.ndarray
    advantage_upper: np.ndarray
    kind: Kind
    confidence: float
    relation: Relation | None
    attacker: str
    alarms: tuple[str, ...]

    false_alarm: ClassVar[float] = 0.0  # the largest probability of an alarm though all is right

    def summary(self) -> dict[str, Any]:
        """Return the largest and the median advantage, of how many people, against whom."""
        median = Number(float(np.median(self.advantage)), "estimate")
        shown = {"largest advantage": self.largest, "median": median, "people": len(self.people)}
        return shown | {"attacker": self.attacker or "sees what was released", "alarms": len(self.alarms)}

    def plot(self) -> Any:
        """Return a chart (Altair) of the best attack's advantage over everybody with both sides, the largest first."""
        top = float(max(self.advantage_upper.max(initial=0.0), 1e-3))
        return ranked_plot(
            self.advantage, self.advantage_lower, self.advantage_upper, largest=min(1.0, 1.05 * top),
            title="How well the best possible attack tells who was in the data",
            meaning="Advantage (0 guessing, 1 certain)",
        )  # fmt: skip

    @abstractmethod
    def alone(self, confidence: float | None = None) -> Sides:
        """Return the advantage with sides that hold for each person alone."""

    @abstractmethod
    def delta(self, epsilon: float, *, together: bool = False) -> Sides:
        """Return δ at ε ≥ 0: how much likelier than e^ε an event can be because of the person.

        Sides hold for each person alone, or with `together` for all people at once; so they do of what follows.
        """

    @abstractmethod
    def true_positive_rate(self, false_positive_rate: float, *, together: bool = False) -> Sides:
        """Return the best attack's true-positive rate at a false-positive rate."""

    @abstractmethod
    def epsilon(self, delta: float, *, together: bool = False) -> Sides:
        """Return ε at δ, infinite where this many runs cannot say it."""

    @cached_property
    def mu(self) -> Sides:
        """The Gaussian noise that has the same advantage, 2Φ⁻¹((1 + advantage)/2), in its sensitivities.

        Sides hold for all people at once.
        """
        return Sides(
            *(gaussian_ratio(distance) for distance in (self.advantage, self.advantage_lower, self.advantage_upper))
        )

    def mu_alone(self) -> Sides:
        """Return `mu` with sides that hold for each person alone."""
        alone = self.alone()
        return Sides(*(gaussian_ratio(advantage) for advantage in (alone.value, alone.lower, alone.upper)))

    @property
    def largest(self) -> Number:
        """The largest advantage of anybody; its sides hold for whoever that is."""
        most = float(self.advantage.max())
        lower, upper = float(self.advantage_lower.max()), float(self.advantage_upper.max())
        return Number(most, self.kind, lower, upper, self.sampling_confidence)

    def share_below(self, limit: float) -> Number:
        """Return the share of people whose advantage is below a limit; its sides hold for all at once."""
        shares = [
            float((advantages < limit).mean())
            for advantages in (self.advantage, self.advantage_upper, self.advantage_lower)
        ]
        return Number(shares[0], self.kind, shares[1], shares[2], self.sampling_confidence)

    @property
    def sampling_confidence(self) -> float | None:
        """The confidence of the sides; None where the losses are known exactly, not sampled."""
        return self.confidence if self.confidence < 1 else None


def gaussian_ratio(advantage: ArrayLike) -> np.ndarray:
    """Return the μ of Gaussian noise that an advantage belongs to.

    >>> gaussian_ratio([0.0, 0.3829]).round(3)
    array([0., 1.])
    """
    mu: np.ndarray = 2 * ndtri((1 + np.asarray(advantage, float)) / 2)
    return mu
