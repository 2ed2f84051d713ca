"""Objective perturbation with a pure ε: the minimiser of a randomly tilted objective (Chaudhuri et al. 2011)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from seedscope.accounting import Risk, curvature_epsilon, pure_epsilon_rdp
from seedscope.core import Described, Relation, require, require_positive
from seedscope.mechanisms.base import require_epsilon
from seedscope.mechanisms.guarantees import Conditions, Guarantee
from seedscope.mechanisms.tilted import BLUR_SHARE, Room, TiltedMechanism, calibrated
from seedscope.training import Noise, TiltedMinimiser

CURVATURE = 0.25  # the largest second derivative of the logistic loss


class Calibration(Described, ABC):
    """Base of the ways to turn ε into penalties and a tilt."""

    own_l2: ClassVar[bool] = False  # whether the calibration has its own regularisation
    general: ClassVar[bool] = True  # whether it is for both relations and any number of classes
    unproved: ClassVar[str] = ""  # why its ε is not guaranteed; empty where it is
    by: ClassVar[str] = ""  # by what its ε is proved

    @abstractmethod
    def tilt(self, mechanism: ObjectivePerturbation, room: Room) -> TiltedMinimiser:
        """Return the calibrated objective for this many rows of bounded norm."""


@dataclass(frozen=True)
class OneFactor(Calibration):
    """The best calibration known to us: one determinant factor, and regularisation that goes with the noise.

    Neighbours' Hessians differ by one row each from a common one, so their determinants by one factor e^c, where the
    published proof counts two. What remains of ε is the tilt's: density ∝ exp(−‖b‖/scale), scale = pull/(ε − c).
    Regularisation is such that the tilt alone moves a logit by about 5: public numbers decide, no data are looked at.
    A thousandth of ε pays for hiding what the solver left.
    """

    by: ClassVar[str] = "objective perturbation with one determinant factor, solver included"

    def tilt(self, mechanism: ObjectivePerturbation, room: Room) -> TiltedMinimiser:
        if math.isinf(mechanism.epsilon):
            return without_tilt(mechanism.l2, room)
        aim, hidden = (1 - BLUR_SHARE) * mechanism.epsilon, BLUR_SHARE * mechanism.epsilon

        def private(scale: float, l2: float) -> bool:
            return room.pull / scale + float(curvature_epsilon(l2, room.norm_bound, room.classes)) <= aim

        chosen = calibrated("gamma", aim, mechanism.l2, room, private)
        return mechanism.mean_objective(chosen, room, lambda moved: Noise("gamma", moved / hidden))


@dataclass(frozen=True)
class Chaudhuri(Calibration):
    """The calibration of Chaudhuri, Monteleoni & Sarwate 2011 in its published form; ε is proved of exact minimisers.

    Two classes and replace-one only. It is kept to compare with papers that use it: `OneFactor` is better at every ε.
    """

    general: ClassVar[bool] = False
    by: ClassVar[str] = "objective perturbation (Chaudhuri et al. 2011), of exact minimisers"

    def tilt(self, mechanism: ObjectivePerturbation, room: Room) -> TiltedMinimiser:
        N, R, epsilon = room.examples, room.norm_bound, mechanism.epsilon
        if math.isinf(epsilon):
            return without_tilt(mechanism.l2, room)
        l2 = 1 / N if mechanism.l2 is None else mechanism.l2
        left, extra = epsilon - 2 * math.log1p(CURVATURE * R**2 / (N * l2)), 0.0
        if left <= 0:
            left, extra = epsilon / 2, CURVATURE * R**2 / (N * math.expm1(epsilon / 4)) - l2
        return TiltedMinimiser(l2 + extra, l2 + extra, Noise("gamma", 2 * R / left))


@dataclass(frozen=True)
class Diffprivlib062(Calibration):
    """The calibration of diffprivlib 0.6.2, with R where R² is needed: to repeat AD's Table 2; ε is *not* proved."""

    own_l2: ClassVar[bool] = True
    general: ClassVar[bool] = False
    unproved: ClassVar[str] = "this calibration has R where the proof needs R²: its ε is not guaranteed."

    def tilt(self, mechanism: ObjectivePerturbation, room: Room) -> TiltedMinimiser:
        """Return the objective that diffprivlib 0.6.2 minimises, divided by N."""
        N, R, epsilon = room.examples, room.norm_bound, mechanism.epsilon
        if math.isinf(epsilon):
            return TiltedMinimiser(1 / N, 0.0, Noise("gamma", 0.0))
        left, extra = epsilon - 2 * math.log1p(2 * CURVATURE * R), 0.0
        if left <= 0:
            left, extra = epsilon / 2, CURVATURE * R / math.expm1(epsilon / 4) - 0.5
        return TiltedMinimiser((1 + extra) / N, extra / N, Noise("gamma", 2 * R / left))


def without_tilt(l2: float | None, room: Room) -> TiltedMinimiser:
    """Return the objective without privacy; regularised by 1/N unless l2 is given."""
    penalty = 1 / room.examples if l2 is None else l2
    return TiltedMinimiser(penalty, penalty, Noise("gamma", 0.0))


@dataclass(frozen=True)
class ObjectivePerturbation(TiltedMechanism):
    """The minimiser of the regularised log-loss plus a random linear term, for logistic regression: a pure ε.

    `l2` is the smallest regularisation of the mean loss; None lets it go with the noise, which is best. The relation is
    the guarantee's: replacing a person, or adding and removing one where the number of rows N is public.

    >>> round(ObjectivePerturbation(1.0).tilt(Conditions(500, 2**0.5, width=31)).scale, 3)
    2.888
    """

    epsilon: float = 1.0
    l2: float | None = None
    calibration: Calibration = field(default=OneFactor())
    relation: Relation = "replace_one"  # type: ignore[misc]

    later: ClassVar[tuple[str, ...]] = ("relation",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_epsilon(self.epsilon)
        own = self.calibration
        if self.l2 is not None:
            require_positive("l2", self.l2)
            require(not own.own_l2, f"l2 must be left out with {own}, which has its own regularisation.")
        usual = own.general or self.relation == "replace_one"
        require(usual, f"relation must be 'replace_one' with {own}, got {self.relation!r}.")

    def check(self, conditions: Conditions) -> None:
        super().check(conditions)
        own = self.calibration
        two = own.general or conditions.classes == 2
        require(two, f"{own} is for two classes, the data have {conditions.classes}; use OneFactor().")
        if own.general:
            self.require_useful(self.tilt(conditions), conditions)

    @classmethod
    def calibrated(
        cls,
        *,
        advantage: float | None = None,
        true_positive_rate: float | None = None,
        false_positive_rate: float | None = None,
        l2: float | None = None,
    ) -> ObjectivePerturbation:
        """Return the mechanism with the largest ε that keeps every membership attack within a risk.

        >>> round(ObjectivePerturbation.calibrated(advantage=0.1).epsilon, 3)
        0.201
        """
        return cls(Risk(advantage, true_positive_rate, false_positive_rate).epsilon(), l2)

    def tilt(self, conditions: Conditions) -> TiltedMinimiser:
        """Return the calibrated objective for this many rows of bounded norm."""
        return self.calibration.tilt(self, self.room(conditions))

    def guarantee(self, conditions: Conditions) -> Guarantee:
        """Return the pure ε of a proved calibration; none for another."""
        reason = "without noise there is no guarantee." if math.isinf(self.epsilon) else self.calibration.unproved
        if reason:
            return Guarantee.none(self.relation, 0.0, reason)
        return Guarantee.proved(self.relation, self.epsilon, 0.0, conditions, self.calibration.by)

    def order_two(self, conditions: Conditions) -> float:
        self.require_guarantee(conditions)
        times = 1 if self.relation == "replace_one" else 2  # to replace is to remove and to add
        return float(pure_epsilon_rdp(times * self.epsilon))

    def success_upper(self, prior: np.ndarray, conditions: Conditions) -> np.ndarray:
        self.require_guarantee(conditions)
        with np.errstate(over="ignore"):
            upper: np.ndarray = np.minimum(np.exp(self.epsilon) * prior, 1 - np.exp(-self.epsilon) * (1 - prior))
            return upper

    def words(self) -> str:
        return "objective perturbation (a random tilt of the regularised objective)"
