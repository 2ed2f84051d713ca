"""Objective perturbation with a Gaussian tilt: (ε, δ), with less noise than a pure ε needs (docs/mechanisms.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr

from seedscope.accounting import (
    Risk,
    TradeOff,
    curvature_epsilon,
    gaussian_noise_scale,
    gaussian_objective_delta,
    gaussian_rdp,
    pull_corners,
    trade_off,
)
from seedscope.core import DELTA, Relation, require_positive, require_probability
from seedscope.mechanisms.base import require_epsilon
from seedscope.mechanisms.guarantees import Conditions, Guarantee
from seedscope.mechanisms.objective import without_tilt
from seedscope.mechanisms.tilted import BLUR_SHARE, Room, Tilt, TiltedMechanism, calibrated, largest_within
from seedscope.training import Noise, TiltedMinimiser

EPSILONS = np.geomspace(1e-3, 50, 400)  # at which a curve is looked at


@dataclass(frozen=True)
class GaussianObjectivePerturbation(TiltedMechanism):
    """The minimiser of the regularised log-loss plus b·w, b Gaussian, for logistic regression: (ε, δ).

    `delta` defaults to 1/N². `l2` is the smallest regularisation of the mean loss; None lets it go with the noise. The
    relation is the guarantee's: replacing a person, or adding and removing one where the number of rows N is public.

    >>> round(GaussianObjectivePerturbation(1.0, 1e-5).tilt(Conditions(500, 2**0.5, width=31)).scale, 3)
    10.848
    """

    epsilon: float = 1.0
    delta: float | None = None
    l2: float | None = None
    relation: Relation = "replace_one"  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        require_epsilon(self.epsilon)
        if self.delta is not None:
            require_probability("delta", self.delta)
        if self.l2 is not None:
            require_positive("l2", self.l2)

    @classmethod
    def calibrated(
        cls,
        conditions: Conditions,
        *,
        delta: float = DELTA,
        advantage: float | None = None,
        true_positive_rate: float | None = None,
        false_positive_rate: float | None = None,
        l2: float | None = None,
        relation: Relation = "replace_one",
    ) -> GaussianObjectivePerturbation:
        """Return the mechanism with the largest ε, rounded down, that keeps every membership attack within a risk.

        >>> found = GaussianObjectivePerturbation.calibrated(Conditions(500, 2**0.5, width=31), advantage=0.1)
        >>> 0.09 < float(found.trade_off(Conditions(500, 2**0.5, width=31)).advantage) <= 0.1
        True
        """
        risk = Risk(advantage, true_positive_rate, false_positive_rate)
        return largest_within(risk, lambda epsilon: cls(epsilon, delta, l2, relation), conditions)

    def check(self, conditions: Conditions) -> None:
        super().check(conditions)
        self.require_useful(self.tilt(conditions), conditions)

    @property
    def delta_follows_size(self) -> bool:
        return self.delta is None

    def delta_for(self, conditions: Conditions) -> float:
        """Return δ: the given one, or 1/N²."""
        return conditions.examples**-2 if self.delta is None else self.delta

    def tilt(self, conditions: Conditions) -> TiltedMinimiser:
        """Return the calibrated objective for this many rows of bounded norm."""
        room, delta = self.room(conditions), self.delta_for(conditions)
        if math.isinf(self.epsilon):
            return without_tilt(self.l2, room)
        hidden, rest = BLUR_SHARE * self.epsilon, BLUR_SHARE * delta
        chosen = _least_tilt(self.epsilon - hidden, delta - rest, self.l2, room)
        return self.mean_objective(chosen, room, lambda moved: _gaussian(moved, hidden, rest))

    def delta_at(self, epsilon: np.ndarray, conditions: Conditions) -> np.ndarray:
        """Return the whole curve δ(ε) of what is released, a proved upper bound; the solver's part included.

        >>> mechanism, setting = GaussianObjectivePerturbation(1.0, 1e-5), Conditions(500, 2**0.5, width=31)
        >>> mechanism.delta_at(np.array([0.5, 1.0]), setting).round(6)
        array([4.654e-03, 1.000e-05])
        """
        delta, tilt = self.delta_for(conditions), self.tilt(conditions)
        left = np.asarray(epsilon) - BLUR_SHARE * self.epsilon
        l2, R = conditions.examples * tilt.penalty, self.norm_bound(conditions)
        density = gaussian_objective_delta(np.maximum(left, 0), tilt.scale, l2, R, self.relation, conditions.classes)
        return np.where(left >= 0, np.minimum(density + BLUR_SHARE * delta, 1.0), 1.0)

    def guarantee(self, conditions: Conditions) -> Guarantee:
        """Return the (ε, δ) to which noise and regularisation are calibrated."""
        delta = self.delta_for(conditions)
        if math.isinf(self.epsilon):
            return Guarantee.none(self.relation, delta, "without noise there is no guarantee.")
        by = "objective perturbation with a Gaussian tilt, solver included"
        return Guarantee.proved(self.relation, self.epsilon, delta, conditions, by)

    def trade_off(self, conditions: Conditions) -> TradeOff | None:
        """Return the curve of all (ε, δ(ε)) together, which is tighter than that of the one ε."""
        guarantee = self.guarantee(conditions)
        if guarantee.epsilon is None or not conditions.alone:
            return super().trade_off(conditions)
        return trade_off(epsilon=EPSILONS, delta=self.delta_at(EPSILONS, conditions), kind=guarantee.epsilon.kind)

    def order_two(self, conditions: Conditions) -> float:
        """Return the replace-one divergence: `ln E e^L ≤ c + ln(1 + Σ_corners E(e^ℓ − 1)₊)`, plus the blur's."""
        self.require_guarantee(conditions)
        tilt, R, classes = self.tilt(conditions), self.norm_bound(conditions), conditions.classes
        determinant = float(curvature_epsilon(conditions.examples * tilt.penalty, R, classes))
        pulls = [(count, length * R / tilt.scale) for count, length in pull_corners("replace_one", classes)]
        with np.errstate(over="ignore"):
            beyond = sum(n * float(np.exp(mu**2) * ndtr(1.5 * mu) - ndtr(mu / 2)) for n, mu in pulls)
        return determinant + math.log1p(beyond) + self._blur_divergence(tilt)

    def success_upper(self, prior: np.ndarray, conditions: Conditions) -> np.ndarray:
        """Return min over ε of e^ε·prior + δ(ε), and of the same for the complement."""
        self.require_guarantee(conditions)
        epsilon = EPSILONS.reshape(-1, *[1] * np.ndim(prior))
        delta = self.delta_at(epsilon, conditions)
        more, less = np.exp(epsilon) * prior + delta, 1 - np.exp(-epsilon) * (1 - prior - delta)
        upper: np.ndarray = np.clip(np.minimum(more, less).min(axis=0), prior, 1.0)
        return upper

    def words(self) -> str:
        return "objective perturbation (a random Gaussian tilt of the regularised objective)"

    def _blur_divergence(self, tilt: TiltedMinimiser) -> float:
        """Return the order-2 divergence of what hides the solver's residual."""
        if tilt.blur is None:
            return 0.0
        return float(gaussian_rdp(2 * tilt.blur.residual / tilt.penalty, tilt.blur.noise.scale))


@cache
def _least_tilt(epsilon: float, delta: float, l2: float | None, room: Room) -> Tilt:
    """Return the least Gaussian tilt that is (ε, δ)-private, with its regularisation."""

    def private(scale: float, penalty: float) -> bool:
        reached = gaussian_objective_delta(epsilon, scale, penalty, room.norm_bound, room.relation, room.classes)
        return bool(reached <= delta)

    return calibrated("gaussian", epsilon, l2, room, private)


def _gaussian(sensitivity: float, epsilon: float, delta: float) -> Noise:
    """Return the Gaussian mechanism's noise."""
    return Noise("gaussian", float(gaussian_noise_scale(sensitivity, epsilon, delta)))
