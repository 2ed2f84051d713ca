"""Output perturbation: the regularised minimiser plus Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from seedscope.accounting import (
    Risk,
    TradeOff,
    gaussian_epsilon,
    gaussian_noise_scale,
    gaussian_rdp,
    pull_corners,
    reconstruction_success_upper,
    trade_off,
)
from seedscope.core import Relation, require, require_positive, require_probability
from seedscope.mechanisms.base import Recordable, require_epsilon, require_not_negative
from seedscope.mechanisms.guarantees import Conditions, Guarantee
from seedscope.mechanisms.minimisers import MinimiserMechanism
from seedscope.mechanisms.released import NoisyMinimum, NoisyRegression
from seedscope.mechanisms.tilted import Room, raise_useless
from seedscope.training import NoisyMinimiser, Release, minimiser

if TYPE_CHECKING:
    from seedscope.datasets import Dataset, FittedScaling


DEFAULT_L2 = 0.01  # where the noise is given
BALANCE = 1.0  # how large a logit is taken to be where noise and shrinkage are balanced: chosen on six tables


@dataclass(frozen=True)
class OutputPerturbation(MinimiserMechanism):
    """The minimiser of mean log-loss + (l2/2)‖w‖² plus Gaussian noise, for logistic regression.

    Give `epsilon` (and `delta`; default 1/N²) to have the noise calibrated, or `noise_scale` to set it. `l2=None` lets
    public numbers choose the regularisation (0.01 where the noise is given). The relation is the guarantee's: replacing
    a person, or adding and removing one where the number of rows N is public.
    """

    epsilon: float | None = None
    delta: float | None = None
    l2: float | None = None
    noise_scale: float | None = None
    relation: Relation = "replace_one"  # type: ignore[misc]

    later: ClassVar[tuple[str, ...]] = ("relation",)
    regression_released: ClassVar[bool] = True
    multinomial: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of_both = (self.epsilon is None) != (self.noise_scale is None)
        require(one_of_both, "OutputPerturbation takes either epsilon or noise_scale, not both and not neither.")
        if self.l2 is not None:
            require_positive("l2", self.l2)
        if self.epsilon is not None:
            require_epsilon(self.epsilon)
        if self.noise_scale is not None:
            require_not_negative("noise_scale", self.noise_scale)
        if self.delta is not None:
            require_probability("delta", self.delta)

    @classmethod
    def calibrated(
        cls,
        *,
        delta: float,
        advantage: float | None = None,
        true_positive_rate: float | None = None,
        false_positive_rate: float | None = None,
        l2: float | None = None,
    ) -> OutputPerturbation:
        """Return the mechanism with the least noise that keeps every membership attack within a risk.

        >>> round(OutputPerturbation.calibrated(advantage=0.1, delta=1e-5).epsilon, 3)
        0.932
        """
        mu = Risk(advantage, true_positive_rate, false_positive_rate).mu()
        return cls(float(gaussian_epsilon(mu, 1.0, delta)), delta, l2)

    def check(self, conditions: Conditions) -> None:
        """Raise where the mechanism cannot do the data, or the noise outweighs whatever the rows can say."""
        super().check(conditions)
        if self.epsilon is None or conditions.width is None:
            return
        room = Room(
            conditions.examples, self.norm_bound(conditions), conditions.width, conditions.classes, self.relation
        )

        def useful(epsilon: float) -> bool:
            """Whether the noise, as a tilt of the sum of losses, is shorter than all rows can pull together."""
            at_epsilon = replace(self, epsilon=epsilon)
            stretched = room.examples * at_epsilon.penalty(conditions) * at_epsilon.noise(conditions)
            return stretched * math.sqrt(room.dimension) <= room.signal

        if not useful(self.epsilon):
            raise_useless(self.epsilon, room, conditions.rows_per_person, useful)

    def penalty(self, conditions: Conditions) -> float:
        """Return the regularisation: the given one, or where what it shrinks and what noise adds are balanced.

        The noise has scale u·pull/Nλ, u that of the Gaussian mechanism for (ε, δ); on rows of norm R whose loss bends
        by at most ¼ it costs (R²/8)·(u·pull/Nλ)², and shrinking weights of norm B/R costs λB²/2R².
        """
        if self.l2 is not None or self.epsilon is None:
            return DEFAULT_L2 if self.l2 is None else self.l2
        if math.isinf(self.epsilon):
            return 1 / conditions.examples
        N, R = conditions.examples, self.norm_bound(conditions)
        noise = float(
            gaussian_noise_scale(self._pull(conditions, self.relation), self.epsilon, self._delta(conditions))
        )
        return float((noise * R**2 / (BALANCE * N)) ** (2 / 3) / 2 ** (1 / 3))

    def sensitivity(self, conditions: Conditions) -> float:
        """Return the sensitivity pull/Nλ of the minimiser, with what solving may leave: 2R/Nλ where one is replaced."""
        return self._moved(conditions, self.relation)

    def noise(self, conditions: Conditions) -> float:
        """Return the noise's standard deviation."""
        if self.noise_scale is not None:
            return self.noise_scale
        assert self.epsilon is not None  # one of the two is given: see __post_init__
        if math.isinf(self.epsilon):
            return 0.0
        return float(gaussian_noise_scale(self.sensitivity(conditions), self.epsilon, self._delta(conditions)))

    def weight_noise(self, conditions: Conditions) -> float | None:
        return self.noise(conditions) or None

    def release(self, conditions: Conditions) -> Release:
        noise = self.noise(conditions)
        residual = self.residual(conditions.examples, self.norm_bound(conditions)) if noise else math.inf
        return NoisyMinimiser(self.penalty(conditions), noise, residual)

    def regression(self, data: Dataset, scaling: FittedScaling) -> NoisyRegression:
        """Return the weights before noise on the data's training rows scaled like this, and the noise."""
        conditions = Conditions.of(data, scaling)
        require(data.classes == 2, f"OutputPerturbation is for two classes, {data.name} has {data.classes}.")
        l2 = self.penalty(conditions)
        weights = minimiser(scaling.apply(data.base.unfilled), data.base.labels, l2)
        return NoisyRegression(weights, l2, self.noise(conditions))

    def noisy_minimum(self, conditions: Conditions) -> NoisyMinimum:
        return NoisyMinimum(self.penalty(conditions), self.noise(conditions))

    def guarantee(self, conditions: Conditions) -> Guarantee:
        """Return the (ε, δ) of the Gaussian mechanism, by the analytic form."""
        delta, noise = self._delta(conditions), self.noise(conditions)
        if noise == 0:
            return Guarantee.none(self.relation, delta, "without noise there is no guarantee.")
        epsilon = self.epsilon or float(gaussian_epsilon(self.sensitivity(conditions), noise, delta))
        by = "Gaussian noise on the regularised minimiser, solver included"
        return Guarantee.proved(self.relation, epsilon, delta, conditions, by)

    def trade_off(self, conditions: Conditions) -> TradeOff | None:
        """Return the curve of Gaussian noise, which is tighter than that of (ε, δ)."""
        guarantee = self.guarantee(conditions)
        if guarantee.epsilon is None or not conditions.alone:
            return super().trade_off(conditions)
        return trade_off(mu=self.sensitivity(conditions) / self.noise(conditions), kind=guarantee.epsilon.kind)

    def repeated(self, times: int, conditions: Conditions) -> tuple[float, float]:
        """Return the (ε, δ) of this many models: Gaussian ratios compose by their squares, exactly."""
        self.require_alone(conditions)
        delta, ratio = self._delta(conditions), self.sensitivity(conditions) / self.noise(conditions)
        return float(gaussian_epsilon(math.sqrt(times) * ratio, 1.0, delta)), delta

    def shared(self, times: int, conditions: Conditions) -> OutputPerturbation:
        """Return the mechanism with √times the noise."""
        self.require_alone(conditions)
        delta, ratio = self._delta(conditions), self.sensitivity(conditions) / self.noise(conditions)
        return replace(self, epsilon=float(gaussian_epsilon(ratio / math.sqrt(times), 1.0, delta)), noise_scale=None)

    def order_two(self, conditions: Conditions) -> float:
        self.require_guarantee(conditions)
        return float(gaussian_rdp(self._moved(conditions, "replace_one"), self.noise(conditions)))

    def success_upper(self, prior: np.ndarray, conditions: Conditions) -> np.ndarray:
        self.require_guarantee(conditions)
        return reconstruction_success_upper(prior, self.noise(conditions) / self.sensitivity(conditions))

    def cannot_record(self, what: Recordable) -> str:
        if what == "privacy_losses":
            return "privacy losses of OutputPerturbation are not sampled: privacy_loss.everybody(…, data=…) is exact."
        return super().cannot_record(what)

    def words(self) -> str:
        return "output perturbation (Gaussian noise on the regularised solution)"

    @property
    def delta_follows_size(self) -> bool:
        return self.delta is None

    @property
    def epsilon_follows_size(self) -> bool:
        """Whether the noise is given: then the number of rows, on which the sensitivity hangs, decides ε."""
        return self.noise_scale is not None

    def _delta(self, conditions: Conditions) -> float:
        """Return δ: the given one, or 1/N²."""
        return conditions.examples**-2 if self.delta is None else self.delta

    def _moved(self, conditions: Conditions, relation: Relation) -> float:
        """Return how far one person can move the minimiser at most, what solving may leave included."""
        N, R = conditions.examples, self.norm_bound(conditions)
        left = 2 * N * self.residual(N, R)
        return (self._pull(conditions, relation) + left) / (N * self.penalty(conditions))

    def _pull(self, conditions: Conditions, relation: Relation) -> float:
        """Return how far one person can pull the sum of the losses' gradients at most."""
        longest = max(length for _, length in pull_corners(relation, conditions.classes))
        return self.norm_bound(conditions) * longest
