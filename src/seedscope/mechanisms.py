"""What is randomised when a model is trained, and which guarantee that is proved to give.

A mechanism is frozen data. It says its neighbour `relation`, its batch `sampling` and, for given data, its
`guarantee`: a proved (ε, δ) or the reason why there is none. How it trains is in `training` (gradient steps) and
`perturbation` (minimisers); nothing here trains.

    SGD                            shuffled epochs; random order and initial weights, no proved guarantee
    DPSGD                          clipped gradients plus Gaussian noise
    OutputPerturbation             the regularised minimiser plus Gaussian noise
    ObjectivePerturbation          the minimiser of a randomly tilted objective (Chaudhuri et al. 2011)
    AugmentedOutputPerturbation    SGD plus only the noise that its own randomness lacks (IP1 Alg. 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seedscope.errors import require, require_count, require_positive, require_probability
from seedscope.number import Number
from seedscope.optimizers import Momentum, Schedule, require_learning_rate

if TYPE_CHECKING:
    from seedscope.scaling import FittedScaling

Relation = Literal["replace_one", "add_or_remove"]
RELATIONS: tuple[Relation, ...] = ("replace_one", "add_or_remove")
Rule = Literal["sum", "mean"]
RULES: tuple[Rule, ...] = ("sum", "mean")
CURVATURE = 0.25  # the largest second derivative of the logistic loss


@dataclass(frozen=True)
class Setting:
    """What a guarantee depends on: the number of training rows and the public bound on their norm, bias included."""

    examples: int
    norm_bound: float | None
    scaling_learned: bool = False

    @classmethod
    def of(cls, examples: int, scaling: FittedScaling) -> Setting:
        """Return the setting of so many scaled rows, to which training adds a bias column of ones."""
        bound = scaling.norm_bound
        return cls(examples, None if bound is None else math.hypot(bound, 1), scaling.learned)


@dataclass(frozen=True)
class Guarantee:
    """A proved (ε, δ) under one neighbour relation, or the reason why there is none."""

    relation: Relation
    epsilon: Number | None
    delta: float
    reason: str

    def describe(self) -> dict[str, Any]:
        """Return what is written down beside the trained models."""
        epsilon = None if self.epsilon is None else self.epsilon.as_dict()
        return {"relation": self.relation, "epsilon": epsilon, "delta": self.delta, "reason": self.reason}


@dataclass(frozen=True)
class Poisson:
    """Each example enters each batch independently, with the same probability."""


@dataclass(frozen=True)
class WithoutReplacement:
    """Each batch is a fresh uniform subset of fixed size."""


@dataclass(frozen=True)
class Shuffled:
    """Each epoch visits the examples in a random order, in consecutive batches; an incomplete last batch is dropped."""


Sampling = Poisson | WithoutReplacement | Shuffled


@dataclass(frozen=True)
class FlatClipping:
    """A gradient longer than the clipping norm C is shortened to C."""

    largest_norm: ClassVar[float] = 1.0  # of a clipped gradient, in units of C


@dataclass(frozen=True)
class SmoothClipping:
    """A gradient g becomes g/(GELU(‖g‖/C − 1) + 1): differentiable, and hardly longer than C (BR §6.2).

    Fisher information about an example needs it: flat clipping has a kink.
    """

    largest_norm: ClassVar[float] = 1.1153  # 1.11524…; BR has 1.115


Clipping = FlatClipping | SmoothClipping


@dataclass(frozen=True)
class SGD:
    """Plain stochastic gradient descent with a fixed learning rate (METHODS of IP1 and IP2)."""

    learning_rate: float = 0.5
    batch_size: int = 32
    steps: int = 1000
    sampling: Shuffled = field(default=Shuffled())

    relation: Relation = field(default="replace_one", init=False)

    def __post_init__(self) -> None:
        require_positive("learning_rate", self.learning_rate)
        require_count("batch_size", self.batch_size)
        require_count("steps", self.steps)
        require(isinstance(self.sampling, Shuffled), f"sampling of SGD must be Shuffled(), got {self.sampling!r}.")

    def guarantee(self, setting: Setting) -> Guarantee:
        """Return that none is proved: the seed's randomness is measured, not guaranteed."""
        reason = "SGD adds no noise on purpose: what its random order and initial weights hide is only estimated."
        return Guarantee(self.relation, None, 0.0, reason)


@dataclass(frozen=True)
class DPSGD:
    """Stochastic gradient descent on clipped per-example gradients plus Gaussian noise.

    A step sums the gradients of a batch, each shortened to `clipping_norm` C in the way that `clipping` says, and adds
    noise of standard deviation `noise_multiplier · C`. With `rule="sum"` the result is divided by the *expected* batch
    size: that is the private mechanism. With `rule="mean"` the sum is divided by the true batch size (the noise still
    by the expected one), which the accounting of the sum does not cover. `learning_rate` is a number or a schedule,
    `momentum` what is carried on.
    """

    learning_rate: float | Schedule = 0.5
    batch_size: int = 128
    steps: int = 1000
    noise_multiplier: float = 1.0
    clipping_norm: float = 1.0
    delta: float = 1e-5
    sampling: Sampling = field(default=Poisson())
    momentum: Momentum | None = None
    rule: Rule = "sum"
    clipping: Clipping = field(default=FlatClipping())

    relation: Relation = field(default="add_or_remove", init=False)

    def __post_init__(self) -> None:
        require_learning_rate(self.learning_rate)
        require_count("batch_size", self.batch_size)
        require_count("steps", self.steps)
        quiet = self.noise_multiplier == 0
        require(quiet or 0 < self.noise_multiplier < math.inf, _at_least_0("noise_multiplier", self.noise_multiplier))
        require(
            0 < self.clipping_norm < math.inf or (self.clipping_norm == math.inf and quiet),
            f"clipping_norm must be a finite number above 0 (or infinite without noise), got {self.clipping_norm}.",
        )
        require_probability("delta", self.delta)
        require(self.rule in RULES, f"rule must be one of {RULES}, got {self.rule!r}.")
        known = isinstance(self.clipping, Clipping)
        require(known, f"clipping must be FlatClipping() or SmoothClipping(), got {self.clipping!r}.")

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, *, examples: int, batch_size: int = 128, steps: int = 1000, **options: Any
    ) -> DPSGD:
        """Return the mechanism with the least noise that makes the steps on `examples` rows (epsilon, delta)-private.

        >>> round(DPSGD.calibrated(2.0, 1e-5, examples=12_800, steps=1000).noise_multiplier, 3)
        1.022
        """
        from seedscope.accounting import dpsgd_noise_multiplier

        _require_batch(batch_size, examples)
        noise = dpsgd_noise_multiplier(epsilon, delta, batch_size / examples, steps)
        noise *= options.get("clipping", FlatClipping()).largest_norm
        return cls(batch_size=batch_size, steps=steps, noise_multiplier=noise, delta=delta, **options)

    @property
    def noise_scale(self) -> float:
        """The standard deviation of the noise on the sum."""
        return self.noise_multiplier * self.clipping_norm if self.noise_multiplier else 0.0

    def sampling_probability(self, examples: int) -> float:
        """Return the chance of each of so many examples to be in a batch."""
        _require_batch(self.batch_size, examples)
        return self.batch_size / examples

    def guarantee(self, setting: Setting) -> Guarantee:
        """Return the (ε, δ) of Poisson batches and the sum rule by Rényi accounting; otherwise why there is none."""
        from seedscope.accounting import dpsgd_epsilon

        rate = self.sampling_probability(setting.examples)
        reason = self._unproved()
        if reason:
            return Guarantee(self.relation, None, self.delta, reason)
        noise = self.noise_multiplier / self.clipping.largest_norm
        epsilon = float(dpsgd_epsilon(noise, rate, self.steps, self.delta))
        by = "Rényi divergences of the sampled Gaussian mechanism, added over the steps"
        return _proved(self.relation, epsilon, self.delta, setting, by)

    def _unproved(self) -> str:
        """Return why no guarantee is proved, empty where one is."""
        if self.noise_multiplier == 0:
            return "without noise there is no guarantee."
        if not isinstance(self.sampling, Poisson):
            return f"the accounting needs Poisson() batches, and these are {self.sampling}."
        if self.rule == "mean":
            return (
                "dividing by the true batch size makes one person's influence larger than the sum's accounting allows."
            )
        return ""


@dataclass(frozen=True)
class OutputPerturbation:
    """The minimiser of mean log-loss + (l2/2)‖w‖² plus Gaussian noise, for binary logistic regression.

    Give `epsilon` (and `delta`; default 1/N²) to have the noise calibrated, or `noise_scale` to set it.
    """

    epsilon: float | None = None
    delta: float | None = None
    l2: float = 0.01
    noise_scale: float | None = None

    relation: Relation = field(default="replace_one", init=False)
    sampling: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        require_positive("l2", self.l2)
        one = (self.epsilon is None) != (self.noise_scale is None)
        require(one, "OutputPerturbation takes either epsilon or noise_scale, not both and not neither.")
        if self.epsilon is not None:
            _require_epsilon(self.epsilon)
        if self.noise_scale is not None:
            good = 0 <= self.noise_scale < math.inf
            require(good, f"noise_scale must be a finite number of at least 0, got {self.noise_scale}.")
        if self.delta is not None:
            require_probability("delta", self.delta)

    def sensitivity(self, setting: Setting) -> float:
        """Return the replace-one sensitivity 2R/(Nλ) of the exact minimiser."""
        return 2 * _bound(self, setting) / (setting.examples * self.l2)

    def noise(self, setting: Setting, shortfall: float = 0.0) -> float:
        """Return the noise's standard deviation; `shortfall` is what an inexact solution adds to the sensitivity."""
        from seedscope.accounting import gaussian_noise_scale

        if self.noise_scale is not None:
            return self.noise_scale
        assert self.epsilon is not None  # one of the two is given: see __post_init__
        if math.isinf(self.epsilon):
            return 0.0
        return float(gaussian_noise_scale(self.sensitivity(setting) + shortfall, self.epsilon, self._delta(setting)))

    def guarantee(self, setting: Setting, shortfall: float = 0.0) -> Guarantee:
        """Return the (ε, δ) of the Gaussian mechanism, by the analytic form."""
        from seedscope.accounting import gaussian_epsilon

        delta, noise = self._delta(setting), self.noise(setting, shortfall)
        if noise == 0:
            return Guarantee(self.relation, None, delta, "without noise there is no guarantee.")
        epsilon = self.epsilon or float(gaussian_epsilon(self.sensitivity(setting) + shortfall, noise, delta))
        return _proved(self.relation, epsilon, delta, setting, "Gaussian noise on the regularised minimiser")

    def _delta(self, setting: Setting) -> float:
        """Return δ: the given one, or 1/N²."""
        return setting.examples**-2 if self.delta is None else self.delta


@dataclass(frozen=True)
class Chaudhuri:
    """The calibration of Chaudhuri, Monteleoni & Sarwate 2011 in its published, safe form; ε is proved."""


@dataclass(frozen=True)
class Diffprivlib062:
    """The calibration of diffprivlib 0.6.2, with R where R² is needed: to repeat AD's Table 2; ε is *not* proved."""


@dataclass(frozen=True)
class Tilt:
    """A calibrated objective: penalties on the weights and on the bias (of the mean loss), and the tilt's scale.

    The tilt's direction is uniform and its norm Gamma(weights + bias, `scale`); it enters the mean loss divided by N.
    """

    penalty: float
    bias_penalty: float
    scale: float


@dataclass(frozen=True)
class ObjectivePerturbation:
    """The minimiser of the regularised mean log-loss plus a random linear term, for binary logistic regression.

    `l2` is the smallest regularisation; None means 1/N. Where ε is too small for it, the calibration adds more.
    """

    epsilon: float = 1.0
    l2: float | None = None
    calibration: Chaudhuri | Diffprivlib062 = field(default=Chaudhuri())

    relation: Relation = field(default="replace_one", init=False)
    sampling: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        _require_epsilon(self.epsilon)
        if self.l2 is not None:
            require_positive("l2", self.l2)
            own = isinstance(self.calibration, Diffprivlib062)
            require(not own, "l2 must be left out with Diffprivlib062(), which has its own regularisation.")

    def tilt(self, setting: Setting) -> Tilt:
        """Return the calibrated objective for so many rows of bounded norm."""
        if isinstance(self.calibration, Diffprivlib062):
            return self._diffprivlib_tilt(setting)
        N, R = setting.examples, _bound(self, setting)
        l2 = 1 / N if self.l2 is None else self.l2
        if math.isinf(self.epsilon):
            return Tilt(l2, l2, 0.0)
        left, extra = self.epsilon - 2 * math.log1p(CURVATURE * R**2 / (N * l2)), 0.0
        if left <= 0:
            left, extra = self.epsilon / 2, CURVATURE * R**2 / (N * math.expm1(self.epsilon / 4)) - l2
        return Tilt(l2 + extra, l2 + extra, 2 * R / left)

    def guarantee(self, setting: Setting) -> Guarantee:
        """Return the pure ε of the published calibration; none for another."""
        if isinstance(self.calibration, Diffprivlib062):
            reason = "this calibration has R where the proof needs R²: its ε is not guaranteed."
            return Guarantee(self.relation, None, 0.0, reason)
        if math.isinf(self.epsilon):
            return Guarantee(self.relation, None, 0.0, "without noise there is no guarantee.")
        return _proved(self.relation, self.epsilon, 0.0, setting, "objective perturbation (Chaudhuri et al. 2011)")

    def _diffprivlib_tilt(self, setting: Setting) -> Tilt:
        """Return the objective that diffprivlib 0.6.2 minimises, divided by N."""
        N, R = setting.examples, _bound(self, setting)
        if math.isinf(self.epsilon):
            return Tilt(1 / N, 0.0, 0.0)
        left, extra = self.epsilon - 2 * math.log1p(2 * CURVATURE * R), 0.0
        if left <= 0:
            left, extra = self.epsilon / 2, CURVATURE * R / math.expm1(self.epsilon / 4) - 0.5
        return Tilt((1 + extra) / N, extra / N, 2 * R / left)


@dataclass(frozen=True)
class AugmentedOutputPerturbation:
    """SGD whose released weights get only the noise that the seed's own randomness lacks (IP1 Alg. 1).

    `sensitivity` and `intrinsic_noise` are measured by the intrinsic analysis, so the privacy is an estimate. The
    target noise is the Gaussian mechanism's for (epsilon, delta): analytic, or the papers' classical one.
    """

    sgd: SGD
    epsilon: float
    delta: float
    sensitivity: float
    intrinsic_noise: float
    classical: bool = False

    def __post_init__(self) -> None:
        require(isinstance(self.sgd, SGD), f"sgd must be the SGD whose weights are released, got {self.sgd!r}.")
        for name in ("epsilon", "sensitivity"):
            require_positive(name, getattr(self, name))
        require_probability("delta", self.delta)
        good = 0 <= self.intrinsic_noise < math.inf
        require(good, f"intrinsic_noise must be a finite number of at least 0, got {self.intrinsic_noise}.")

    @property
    def relation(self) -> Relation:
        """The neighbour relation of the SGD beneath."""
        return self.sgd.relation

    @property
    def sampling(self) -> Shuffled:
        """The sampling of the SGD beneath."""
        return self.sgd.sampling

    def target_noise(self) -> float:
        """Return the noise that (epsilon, delta) needs without any help of the seed."""
        from seedscope import accounting

        scale = accounting.classical_gaussian_noise_scale if self.classical else accounting.gaussian_noise_scale
        return float(scale(self.sensitivity, self.epsilon, self.delta))

    def added_noise(self) -> float:
        """Return the noise that is added: √max(0, target² − intrinsic²)."""
        return math.sqrt(max(0.0, self.target_noise() ** 2 - self.intrinsic_noise**2))

    def guarantee(self, setting: Setting) -> Guarantee:
        """Return that none is proved: sensitivity and intrinsic noise are estimates."""
        reason = f"it aims at ε = {self.epsilon:g}, from an estimated sensitivity and an estimated intrinsic noise."
        return Guarantee(self.relation, None, self.delta, reason)


Mechanism = SGD | DPSGD | OutputPerturbation | ObjectivePerturbation | AugmentedOutputPerturbation
CONVEX = (OutputPerturbation, ObjectivePerturbation)


def describe(mechanism: Any) -> dict[str, Any]:
    """Return the mechanism as a dictionary of plain values, its class under "type"; its options likewise."""
    nested = {
        name: describe(one) if hasattr(one, "__dataclass_fields__") else one for name, one in vars(mechanism).items()
    }
    return {"type": type(mechanism).__name__, **nested}


def _at_least_0(name: str, value: float) -> str:
    """Return the complaint about a value that must be finite and not negative."""
    return f"{name} must be a finite number of at least 0, got {value}."


def _require_batch(batch_size: int, examples: int) -> None:
    """Raise where a batch is larger than the data."""
    require(batch_size <= examples, f"batch_size must be at most the {examples} training rows, got {batch_size}.")


def _require_epsilon(epsilon: float) -> None:
    """Raise unless ε is above 0; infinity means no noise."""
    require(epsilon > 0, f"epsilon must be above 0, got {epsilon}.")


def _bound(mechanism: object, setting: Setting) -> float:
    """Return the public norm bound, or raise where there is none."""
    bound = setting.norm_bound
    name = type(mechanism).__name__
    require(bound is not None, f"{name} needs rows with a public norm bound; train with scaling=Standardised().")
    return float(bound)  # type: ignore[arg-type]


def _proved(relation: Relation, epsilon: float, delta: float, setting: Setting, by: str) -> Guarantee:
    """Return a proved guarantee, with the condition that learned scaling puts on it."""
    given = (
        ", given public preprocessing (here it was learned from the training part)" if setting.scaling_learned else ""
    )
    return Guarantee(relation, Number(epsilon, "proved"), delta, f"{by}{given}.")
