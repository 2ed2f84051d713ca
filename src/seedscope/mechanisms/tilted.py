"""What mechanisms share that release the minimiser of a randomly tilted objective: how much to regularise, and its law.

Everything is chosen from public numbers: how many rows and columns there are, the rows' largest norm, and ε (δ).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import ClassVar, TypeVar

import numpy as np

from seedscope.accounting import Risk, curvature_l2, pull_corners, smallest_scale
from seedscope.core import Relation, require
from seedscope.mechanisms.base import Recordable
from seedscope.mechanisms.guarantees import Conditions
from seedscope.mechanisms.minimisers import MinimiserMechanism
from seedscope.mechanisms.released import NoisyObjective
from seedscope.training import Blur, Noise, NoiseLaw, Release, TiltedMinimiser

LOGIT = 5.0  # how far the tilt alone may move a logit, typically: chosen on six tables (docs/mechanisms.md)
CURVATURE_SHARE = 0.1  # of ε that the determinant may cost at most where a person gives l2
BLUR_SHARE = 0.001  # of ε (and δ) that hides what the solver left
LEAST_EPSILON, LARGEST_EPSILON = 1e-6, 50.0  # between which a risk is sought
Tilted = TypeVar("Tilted", bound="TiltedMechanism")


@dataclass(frozen=True)
class Room:
    """The public numbers that a calibration knows: N rows of norm at most R, the free weights, classes, relation."""

    examples: int
    norm_bound: float
    width: int | None
    classes: int
    relation: Relation

    @property
    def dimension(self) -> int:
        """How many weights are free: those of a logit, for each class but one."""
        needed = "regularisation goes with the number of columns: give Conditions(width=), the bias counted."
        require(self.width is not None, needed)
        return (self.classes - 1) * int(self.width or 0)

    @property
    def pull(self) -> float:
        """How far one person can pull the tilt at most."""
        return self.norm_bound * max(length for _, length in pull_corners(self.relation, self.classes))

    @property
    def signal(self) -> float:
        """The largest pull of all rows together on weights of 0."""
        return self.examples * self.norm_bound * (0.5 if self.classes == 2 else sqrt(1 - 1 / self.classes))

    def l2(self, noise: Noise) -> float:
        """Return Λ, of the sum of losses, at which the tilt alone moves a logit by `LOGIT`, typically."""
        return self.norm_bound * noise.typical_norm(self.dimension) / LOGIT

    def l2_at_least(self, l2: float, epsilon: float) -> float:
        """Return N·l2, or more where the determinant would cost too large a share of ε."""
        least = float(curvature_l2(CURVATURE_SHARE * epsilon, self.norm_bound, self.classes))
        return max(self.examples * l2, least)


@dataclass(frozen=True)
class Tilt:
    """A calibrated tilt: its noise, and the regularisation Λ of the sum of losses."""

    noise: Noise
    l2: float


def calibrated(
    law: NoiseLaw, epsilon: float, l2: float | None, room: Room, private: Callable[[float, float], bool]
) -> Tilt:
    """Return the least noise with which (scale, Λ) is private; Λ goes with the noise unless l2 is given."""

    def choice(scale: float) -> Tilt:
        noise = Noise(law, scale)
        return Tilt(noise, room.l2(noise) if l2 is None else room.l2_at_least(l2, epsilon))

    def enough(scale: np.ndarray) -> np.ndarray:
        tilt = choice(float(scale))
        return np.asarray(private(tilt.noise.scale, tilt.l2))

    return choice(float(smallest_scale(enough, room.norm_bound)))


class TiltedMechanism(MinimiserMechanism):
    """Base of the mechanisms that release the minimiser of a randomly tilted objective."""

    epsilon: float
    multinomial: ClassVar[bool] = True

    @abstractmethod
    def tilt(self, conditions: Conditions) -> TiltedMinimiser:
        """Return the calibrated objective for this many rows of bounded norm."""

    def release(self, conditions: Conditions) -> Release:
        return self.tilt(conditions)

    def noisy_objective(self, conditions: Conditions) -> NoisyObjective | None:
        tilt, N = self.tilt(conditions), conditions.examples
        if tilt.scale == 0:
            return None
        return NoisyObjective(N * tilt.penalty, N * tilt.bias_penalty, tilt.tilt.law, tilt.scale)

    def cannot_record(self, what: Recordable) -> str:
        if what == "privacy_losses":
            return "privacy losses need noise, and epsilon is infinite." if self.epsilon == inf else ""
        return super().cannot_record(what)

    def room(self, conditions: Conditions) -> Room:
        """Return the public numbers of a calibration."""
        bound, width = self.norm_bound(conditions), conditions.width
        return Room(conditions.examples, bound, width, conditions.classes, self.relation)

    def mean_objective(self, tilt: Tilt, room: Room, blur: Callable[[float], Noise]) -> TiltedMinimiser:
        """Return what is trained: means for sums, and the blur that hides an inexact solution."""
        l2, residual = tilt.l2 / room.examples, self.residual(room.examples, room.norm_bound)
        return TiltedMinimiser(l2, l2, tilt.noise, Blur(blur(2 * residual / l2), residual))

    def require_useful(self, tilt: TiltedMinimiser, conditions: Conditions) -> None:
        """Raise where the noise outweighs whatever the rows can say, and say from which ε on it does not."""
        room = self.room(conditions)
        if tilt.tilt.typical_norm(room.dimension) <= room.signal:
            return
        rows = conditions.rows_per_person
        raise_useless(self.epsilon, room, rows, lambda epsilon: self._noise_at(epsilon, conditions) <= room.signal)

    def _noise_at(self, epsilon: float, conditions: Conditions) -> float:
        """Return the tilt's typical norm at another ε."""
        at_epsilon: TiltedMechanism = replace(self, epsilon=epsilon)  # type: ignore[type-var]
        return at_epsilon.tilt(conditions).tilt.typical_norm(self.room(conditions).dimension)


def largest_within(risk: Risk, at: Callable[[float], Tilted], conditions: Conditions) -> Tilted:
    """Return the mechanism at the largest ε, rounded down, at which every attack stays within a risk."""
    low, high = LEAST_EPSILON, LARGEST_EPSILON
    for _ in range(40):
        middle = sqrt(low * high)
        curve = at(middle).trade_off(conditions)
        low, high = (middle, high) if curve is not None and risk.met_by(curve) else (low, middle)
    return at(low)


def raise_useless(epsilon: float, room: Room, rows: int, useful: Callable[[float], bool]) -> None:
    """Raise that a row's ε is too small for a model, and name the least that is not: for all rows of a person too."""
    least = float(smallest_scale(lambda candidate: np.asarray(useful(float(candidate))), epsilon))
    unit = "" if rows == 1 else f" for each of a person's {rows} rows, {rows * least:.2g} for the person"
    require(
        least == inf,
        f"epsilon={epsilon:g} is too small for a model of {room.dimension} weights from {room.examples:,} "
        f"rows: the noise outweighs whatever they can say; the least useful epsilon is about {least:.2g}{unit}.",
        argument="epsilon",
    )
