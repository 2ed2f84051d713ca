"""DP-SGD: clipped gradients plus Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from seedscope.accounting import (
    Risk,
    TradeOff,
    dpsgd_epsilon,
    dpsgd_noise_for_risk,
    dpsgd_noise_multiplier,
    dpsgd_rdp,
    gaussian_noise_scale,
    last_iterate_epsilon,
    personal_budget,
    reconstruction_success_upper,
    smallest_noise,
    trade_off,
)
from seedscope.core import (
    DELTA,
    Relation,
    SeedscopeError,
    require,
    require_count,
    require_positive,
    require_probability,
)
from seedscope.mechanisms.base import Load, Recordable, require_not_negative
from seedscope.mechanisms.guarantees import SIZE_SEEN, Conditions, Guarantee
from seedscope.mechanisms.released import NoisySums
from seedscope.mechanisms.steps import StepMechanism, require_batch
from seedscope.training import (
    NOISE_STREAM,
    SUBSET_ROWS,
    ChunkTrainer,
    Clipping,
    FlatClipping,
    Job,
    Momentum,
    Poisson,
    Sampling,
    Schedule,
    SmoothClipping,
    Surrogate,
    SystemDraws,
    require_learning_rate,
)

if TYPE_CHECKING:
    from seedscope.training.dpsgd import PrivateSteps

LARGEST_BATCH, FEWEST_STEPS, MOST_STEPS = 1024, 50, 500
LOGIT, CLIP, STEP = 5.0, 0.35, 8.0  # how far noise may move a logit; C over R; the step size times R² at most
SIZE_SHOWS = 100  # times steps × features above the rows squared: one row more or less then moves weights visibly
NEARLY = 0.9  # of the longest step that contracts
NORMS_SPEED = 1e10  # floating-point operations per second of one core with per-example gradients, from the benchmarks


@dataclass(frozen=True)
class DPSGD(StepMechanism):
    """Stochastic gradient descent on clipped per-example gradients plus Gaussian noise.

    A step sums the gradients of a batch, each shortened to `clipping_norm` C in the way that `clipping` says, and adds
    noise of standard deviation `noise_multiplier · C`. With `rule="sum"` the result is divided by the *expected* batch
    size: that is the private mechanism. With `rule="mean"` the sum is divided by the true batch size (the noise still
    by the expected one), which the accounting of the sum does not cover. `learning_rate` is a number or a schedule,
    `momentum` what is carried on. Rows are drawn with the chance `batch_size` over `public_size`, a number that is
    known without the data; None: over the number of rows, which then counts as public. With a finite `personal_budget`
    a person's gradient leaves the sum as soon as what it has cost them would exceed that ε (at `delta`): then it is
    everybody's guarantee, however long training goes on. With `l2` steps also shrink all weights, as the penalty
    (l2/2)‖w‖² would; for logistic regression the last weights alone may then have a smaller ε: `last_iterate`.
    """

    learning_rate: float | Schedule = 0.5
    batch_size: int = 128
    steps: int = 1000
    noise_multiplier: float = 1.0
    clipping_norm: float = 1.0
    delta: float = DELTA
    sampling: Sampling = field(default=Poisson())
    momentum: Momentum | None = None
    rule: Literal["sum", "mean"] = "sum"
    clipping: Clipping = field(default=FlatClipping())
    public_size: int | None = None
    personal_budget: float = math.inf
    l2: float = 0.0

    later: ClassVar[tuple[str, ...]] = ("personal_budget", "l2")
    relation: ClassVar[Relation] = "add_or_remove"
    publishes_exactly: ClassVar[bool] = True
    has_surrogate: ClassVar[bool] = True
    noise_stream: ClassVar[int | None] = NOISE_STREAM

    def __post_init__(self) -> None:
        super().__post_init__()
        require_learning_rate("learning_rate", self.learning_rate)
        require_count("batch_size", self.batch_size)
        require_count("steps", self.steps)
        require_not_negative("noise_multiplier", self.noise_multiplier)
        quiet = self.noise_multiplier == 0
        require(
            0 < self.clipping_norm < math.inf or (self.clipping_norm == math.inf and quiet),
            f"clipping_norm must be a finite number above 0 (or infinite without noise), got {self.clipping_norm}.",
        )
        require_probability("delta", self.delta)
        require_not_negative("l2", self.l2)
        require(self.personal_budget > 0, f"personal_budget must be above 0, got {self.personal_budget}.")
        if self.public_size is not None:
            require_count("public_size", self.public_size)
            require_batch(self.batch_size, self.public_size)

    @classmethod
    def calibrated(
        cls,
        epsilon: float | None = None,
        delta: float = DELTA,
        *,
        examples: int,
        batch_size: int = 128,
        steps: int = 1000,
        advantage: float | None = None,
        true_positive_rate: float | None = None,
        false_positive_rate: float | None = None,
        **options: Any,
    ) -> DPSGD:
        """Return the mechanism with the least noise that makes the steps on `examples` rows (epsilon, delta)-private.

        Instead of epsilon a risk can be given: the `advantage` of the best membership attack, or its
        `true_positive_rate` at a `false_positive_rate`.

        >>> round(DPSGD.calibrated(2.0, 1e-5, examples=12_800, steps=1000).noise_multiplier, 3)
        1.022
        >>> round(DPSGD.calibrated(advantage=0.3, examples=600, steps=100, batch_size=150).noise_multiplier, 2)
        3.27
        """
        require_batch(batch_size, examples)
        rate, rates = batch_size / examples, (true_positive_rate, false_positive_rate)
        risky = advantage is not None or rates != (None, None)
        require((epsilon is None) == risky, "calibrated takes either epsilon or a risk, not both and not neither.")
        if epsilon is None:
            noise = dpsgd_noise_for_risk(Risk(advantage, *rates), rate, steps)
        else:
            noise = dpsgd_noise_multiplier(epsilon, delta, rate, steps)
        noise *= options.get("clipping", FlatClipping()).largest_norm
        return cls(batch_size=batch_size, steps=steps, noise_multiplier=noise, delta=delta, **options)

    @classmethod
    def public(
        cls, conditions: Conditions, epsilon: float | None = None, delta: float = DELTA, *, risk: Risk | None = None
    ) -> DPSGD:
        """Return the mechanism for logistic regression whose batch, steps, clipping and step size are by a public rule.

        Steps are as long and as many as regularisation of objective perturbation would let weights go: step size times
        steps is 5·Nμ/(R·C·√weights), where μ is what (ε, δ) allows one Gaussian release. No data are looked at.

        >>> mechanism = DPSGD.public(Conditions(500, 2**0.5, width=31), 1.0, 1e-5)
        >>> mechanism.batch_size, mechanism.steps, round(mechanism.learning_rate, 2)
        (125, 85, 2.02)
        """
        rule = public_steps(conditions, _budget(epsilon, delta, risk))
        if risk is None:
            return cls.calibrated(epsilon, delta, examples=conditions.examples, **rule)
        return cls.calibrated(
            delta=delta, examples=conditions.examples, advantage=risk.advantage,
            true_positive_rate=risk.true_positive_rate, false_positive_rate=risk.false_positive_rate, **rule,
        )  # fmt: skip

    @classmethod
    def for_last_weights(
        cls, conditions: Conditions, epsilon: float, delta: float = DELTA, *, l2: float = 0.01, steps: int = 100
    ) -> DPSGD:
        """Return steps on all rows with the least noise that makes the last weights alone (ε, δ)-private.

        Nobody may ever see a step before: what `guarantee` says, of all steps, is a larger ε. Steps are nine tenths as
        long as the longest that bring models nearer to each other.

        >>> setting = Conditions(500, 2**0.5, width=31)
        >>> chosen = DPSGD.for_last_weights(setting, 1.0, 1e-5)
        >>> [round(float(asked(setting).epsilon), 2) for asked in (chosen.guarantee, chosen.last_iterate)]
        [1.54, 1.0]
        """
        require_positive("epsilon", epsilon)
        R = conditions.norm_bound
        require_positive("l2", l2)
        require(R is not None, "steps that contract need rows with a public norm bound; train with Standardised().")
        rate = NEARLY * 2 / (float(R or 0) ** 2 / 4 + 2 * l2)
        whole = cls(rate, conditions.examples, steps, clipping_norm=CLIP * float(R or 0), delta=delta, l2=l2)
        reason = whole._not_contracting(conditions)
        require(not reason, f"for_last_weights has nothing to aim at: {reason}")
        contraction = whole.contraction(conditions)

        def private(noise: float) -> bool:
            return last_iterate_epsilon(noise, 1.0, steps, contraction, delta) <= epsilon

        return replace(whole, noise_multiplier=smallest_noise(private, f"epsilon={epsilon:g} at delta={delta:g}"))

    def check(self, conditions: Conditions) -> None:
        """Raise where a batch is larger than the data, unless that is nobody's business, or noise is all there is."""
        if self.public_size is None:
            super().check(conditions)
        self._require_useful(conditions)
        if self.limits_people:
            require(not self._unproved(), f"personal_budget needs a proved guarantee: {self._unproved()}")
            require(not self.clipping.smooth, "personal_budget reads norms as flatly clipped; use FlatClipping().")
            rows = conditions.rows_per_person
            require(rows == 1, f"personal_budget is of single rows, and people have up to {rows} here.")
            self.budget(conditions.examples)

    def _require_useful(self, conditions: Conditions) -> None:
        """Raise where the steps' noise in any one direction outweighs all that rows pulling together could do.

        Steps of B clipped gradients each move a weight by at most B·C·steps, and noise moves it by σ·C·√steps.
        """
        most = self.batch_size * math.sqrt(self.steps)
        if self.noise_multiplier <= most:
            return
        rate = self.sampling_probability(conditions.examples)
        least = float(dpsgd_epsilon(most / self.clipping.largest_norm, rate, self.steps, self.delta))
        steps = f"{self.steps:,} steps of {self.batch_size:,} rows"
        raise SeedscopeError(
            f"noise_multiplier={self.noise_multiplier:.4g} outweighs whatever {steps} can say; at most "
            f"{most:.4g} can be of use, and the least useful epsilon is about {least:.2g}."
        )

    def smooth(self) -> DPSGD:
        """Return the same steps with smooth clipping and as much more noise as keeps the guarantee.

        >>> plain = DPSGD.calibrated(2.0, 1e-5, examples=1000, batch_size=100, steps=50)
        >>> round(plain.smooth().noise_multiplier / plain.noise_multiplier, 4)
        1.1153
        """
        times = SmoothClipping.largest_norm / self.clipping.largest_norm
        return replace(self, clipping=SmoothClipping(), noise_multiplier=self.noise_multiplier * times)

    @property
    def last_step(self) -> int:
        return self.steps

    @property
    def noise_scale(self) -> float:
        """The standard deviation of the noise on the sum."""
        return self.noise_multiplier * self.clipping_norm if self.noise_multiplier else 0.0

    def budget(self, examples: int) -> tuple[float, float]:
        """Return the Rényi order, and the divergence at it, that a person may spend."""
        rate = self.sampling_probability(examples)
        return personal_budget(self.personal_budget, self.delta, self.noise_multiplier, rate)

    @property
    def noise_over_norm(self) -> float:
        """The noise's standard deviation over the largest norm of a clipped gradient: what the accounting counts."""
        return self.noise_multiplier / self.clipping.largest_norm

    def sampling_probability(self, examples: int) -> float:
        """Return the chance of each of this many examples to be in a batch."""
        if self.public_size is not None:
            return self.batch_size / self.public_size
        require_batch(self.batch_size, examples)
        return self.batch_size / examples

    def private_steps(self, examples: int = 0) -> PrivateSteps:
        """Return what the steps are made of: all but δ, which training does not know; a budget needs the examples."""
        from seedscope.training.dpsgd import PrivateSteps  # JAX

        budget = self.budget(examples) if self.limits_people else None

        return PrivateSteps(
            self.learning_rate, self.batch_size, self.steps, self.noise_multiplier, self.clipping_norm, self.sampling,
            self.momentum, self.rule, self.clipping, self.public_size, self.l2, budget,
        )  # fmt: skip

    @property
    def limits_people(self) -> bool:
        """Whether people have a budget of their own."""
        return self.personal_budget < math.inf

    def trainer(self, job: Job) -> ChunkTrainer:
        from seedscope.training.dpsgd import dpsgd_trainer  # JAX

        return dpsgd_trainer(job, self.private_steps(job.examples))

    def published(self, job: Job, draws: SystemDraws, epsilon: float) -> np.ndarray:
        """Return the weights after steps whose noise is exactly what was accounted."""
        from seedscope.training.dpsgd import published_steps  # JAX

        without = "a model with personal_budget cannot be published yet: leave it out, or publish without a filter."
        require(not self.limits_people, without)
        return published_steps(job, self.private_steps(job.examples), draws)

    def surrogate(self, job: Job) -> Surrogate | None:
        """Return stand-ins of the steps; None with budgets, as nobody knows beforehand who leaves the sum when."""
        if self.limits_people:
            return None
        from seedscope.training.dpsgd import steps_surrogate  # JAX

        return steps_surrogate(job, self.private_steps())

    def noisy_sums(self, examples: int) -> NoisySums:
        return NoisySums(
            self.noise_multiplier, self.clipping_norm, self.sampling_probability(examples), self.steps, self.delta,
            self.sampling, self.clipping, self.rule == "mean",
        )  # fmt: skip

    def guarantee(self, conditions: Conditions) -> Guarantee:
        """Return the (ε, δ) of Poisson batches and the sum rule by Rényi accounting; otherwise why there is none."""
        rate = self.sampling_probability(conditions.examples)
        reason = self._unproved()
        if reason:
            return Guarantee.none(self.relation, self.delta, reason)
        epsilon = float(dpsgd_epsilon(self.noise_over_norm, rate, self.steps, self.delta))
        by = "Rényi divergences of the sampled Gaussian mechanism, added over the steps"
        if self.personal_budget < epsilon:
            epsilon, by = self.personal_budget, f"{by} for each person, who is left out before they exceed a budget"
        by += "; the number of rows counts as public" if self.public_size is None else ""
        if self.size_shows(conditions.examples, (conditions.width or 1) - 1):
            by += SIZE_SEEN
        return Guarantee.proved(self.relation, epsilon, self.delta, conditions, by)

    @property
    def epsilon_follows_size(self) -> bool:
        """Whether the number of rows decides the rate, and with the noise ε."""
        return self.public_size is None

    def last_iterate(self, conditions: Conditions) -> Guarantee | None:
        """Return the (ε, δ) of the last weights alone, if no step before them is ever seen (docs/mechanisms.md).

        None without `l2`: nothing fades then. With it, steps that do not contract have a reason in the place of an ε.

        >>> mechanism = DPSGD(1.0, 400, 2000, noise_multiplier=16.0, clipping_norm=0.5, delta=1e-5, l2=0.05)
        >>> setting = Conditions(400, 2**0.5, width=31)
        >>> [round(float(asked(setting).epsilon), 2) for asked in (mechanism.guarantee, mechanism.last_iterate)]
        [16.27, 1.51]
        """
        if self.l2 == 0:
            return None
        reason = self._unproved() or self._not_contracting(conditions)
        if reason:
            return Guarantee.none(self.relation, self.delta, reason)
        rate, contraction = self.sampling_probability(conditions.examples), self.contraction(conditions)
        epsilon = last_iterate_epsilon(self.noise_over_norm, rate, self.steps, contraction, self.delta)
        by = f"steps that bring any two models nearer by the factor {contraction:.4g}, of the last weights alone"
        return Guarantee.proved(self.relation, epsilon, self.delta, conditions, by)

    def contraction(self, conditions: Conditions) -> float:
        """Return the factor by which a step without noise brings two logistic regressions nearer, whatever the batch.

        A clipped gradient is r·x with r a number that rises with the logit, by ¼ of it at most, so its derivative is
        between 0 and R²/4; at most all N rows are in a batch, which is divided by its expected size.
        """
        assert isinstance(self.learning_rate, float)  # see _not_contracting
        bend = conditions.examples / self.batch_size * float(conditions.norm_bound or 0) ** 2 / 4
        rate = self.learning_rate
        return max(1 - rate * self.l2, rate * (self.l2 + bend) - 1)

    def size_shows(self, rows: int, features: int) -> bool:
        """Whether the number of rows, which decides rate and noise, is so small that it could be told from weights."""
        return self.public_size is None and SIZE_SHOWS * self.steps * features > rows**2

    def trade_off(self, conditions: Conditions) -> TradeOff | None:
        """Return the curve of the composed privacy loss, which is tighter than that of (ε, δ)."""
        guarantee = self.guarantee(conditions)
        if guarantee.epsilon is None or not conditions.alone:
            return super().trade_off(conditions)
        return trade_off(
            epsilon=guarantee.epsilon.value,
            delta=guarantee.delta,
            noise_multiplier=self.noise_over_norm,
            sampling_probability=self.sampling_probability(conditions.examples),
            steps=self.steps,
            kind=guarantee.epsilon.kind,
        )

    def at_level(self, epsilon: float, delta: float, conditions: Conditions) -> DPSGD:
        """Return the same steps with the least noise for another guarantee."""
        self.require_alone(conditions)
        return self._with_noise_for(epsilon, delta, self.steps, conditions)

    def repeated(self, times: int, conditions: Conditions) -> tuple[float, float]:
        """Return the (ε, δ) of this many runs: their steps are composed as those of one run are."""
        self.require_alone(conditions)
        rate = self.sampling_probability(conditions.examples)
        return float(dpsgd_epsilon(self.noise_over_norm, rate, times * self.steps, self.delta)), self.delta

    def shared(self, times: int, conditions: Conditions) -> DPSGD:
        """Return the same steps with noise for that many times as many of them."""
        epsilon = float(self.require_alone(conditions).epsilon or 0)
        return self._with_noise_for(epsilon, self.delta, times * self.steps, conditions)

    def _with_noise_for(self, epsilon: float, delta: float, steps: int, conditions: Conditions) -> DPSGD:
        """Return the mechanism with noise that makes this many steps (ε, δ)-private."""
        rate = self.sampling_probability(conditions.examples)
        noise = dpsgd_noise_multiplier(epsilon, delta, rate, steps) * self.clipping.largest_norm
        return replace(self, noise_multiplier=noise, delta=delta)

    def order_two(self, conditions: Conditions) -> float:
        self.require_guarantee(conditions)
        rate = self.sampling_probability(conditions.examples)
        return float(dpsgd_rdp(self.noise_over_norm, rate, self.steps))

    def success_upper(self, prior: np.ndarray, conditions: Conditions) -> np.ndarray:
        """Return what the steps allow, or what the (ε, δ) of people's own budget allows, whichever is less."""
        guarantee = self.require_guarantee(conditions)
        rate = self.sampling_probability(conditions.examples)
        upper = reconstruction_success_upper(prior, self.noise_over_norm, rate, self.steps)
        if not self.limits_people:
            return upper
        epsilon, delta = float(guarantee.epsilon or 0), guarantee.delta
        with np.errstate(over="ignore"):
            more, less = np.exp(epsilon) * prior + delta, 1 - np.exp(-epsilon) * (1 - prior - delta)
        limited: np.ndarray = np.minimum(upper, np.minimum(more, less))
        return limited

    def cannot_record(self, what: Recordable) -> str:
        if what == "gradient_norms":
            return ""
        if what == "path_sums":
            return self._no_sums()
        if what == "privacy_losses":
            return self._no_losses()
        if not self.clipping.smooth:
            return "fisher_traces need clipping=SmoothClipping(): flat clipping is not differentiable."
        if self.noise_multiplier == 0:
            return "fisher_traces need noise_multiplier above 0, got 0: without noise the information is infinite."
        return "" if self.rule == "sum" else "fisher_traces need rule='sum': the mean's divisor depends on the batch."

    def cannot_lose_together(self, rows: int, classes: int) -> str:
        return ""

    def told_besides(self, rows: int) -> str:
        return "" if rows <= SUBSET_ROWS else f"which batches hold a person's rows beyond the first {SUBSET_ROWS}"

    def speed(self, load: Load) -> float:
        return NORMS_SPEED

    def words(self) -> str:
        clip = f"{self.clipping_norm:g}"
        return f"DP-SGD, {self.steps:,} steps of {self.batch_size} rows on average, gradients clipped to {clip}"

    def _no_losses(self) -> str:
        """Return why privacy losses cannot be recorded, empty where they can."""
        if self.limits_people:
            return "privacy losses are not known where people leave the sum; leave out personal_budget."
        if self.noise_multiplier == 0:
            return "privacy losses need noise_multiplier above 0, got 0: without noise every loss is infinite."
        if self.sampling != Poisson():
            return f"privacy losses are known for Poisson() batches only, and these are {self.sampling}."
        return "" if self.rule == "sum" else "privacy losses need rule='sum': the mean's divisor depends on the batch."

    def _no_sums(self) -> str:
        """Return why sums of step divergences cannot be recorded, empty where they can."""
        if self.clipping.smooth:
            return "path sums read norms as flatly clipped, the mechanism clips smoothly."
        return self._unproved() and f"path sums need steps whose divergence is known: {self._unproved()}"

    def _not_contracting(self, conditions: Conditions) -> str:
        """Return why nothing more is proved of the last weights than of all, empty where it is."""
        plain = self.momentum is None and isinstance(self.learning_rate, float) and not self.clipping.smooth
        if not plain:
            return "the last weights alone have a proof for plain steps at one rate, flatly clipped."
        if self.limits_people or self.public_size is not None:
            return "the last weights alone have no proof with a personal budget or a public size."
        if not conditions.convex or conditions.classes != 2 or conditions.norm_bound is None:
            return "the last weights alone have a proof for logistic regression of two classes on rows of bounded norm."
        if self.contraction(conditions) < 1:
            return ""
        bend = conditions.examples / self.batch_size * conditions.norm_bound**2 / 4
        most = 2 / (bend + self.l2)
        return f"steps bring models nearer up to a learning rate of {most:.4g}, it is {self.learning_rate:.4g}."

    def public_words(self) -> str:
        return f"DP-SGD with {type(self.sampling).__name__} batches, gradients clipped to {self.clipping_norm:g}"

    def _unproved(self) -> str:
        """Return why no guarantee is proved, empty where one is."""
        if self.noise_multiplier == 0:
            return "without noise there is no guarantee."
        if self.sampling != Poisson():
            return f"the accounting needs Poisson() batches, and these are {self.sampling}."
        if self.rule == "mean":
            return (
                "dividing by the true batch size makes one person's influence larger than the sum's accounting allows."
            )
        return ""


def public_steps(conditions: Conditions, mu: float) -> dict[str, Any]:
    """Return batch size, steps, learning rate and clipping norm from public numbers alone.

    Noise of a whole run moves weights as far as step size × steps × C√p/(Nμ), whatever the number of steps is; so their
    product is chosen as regularisation is for objective perturbation: that the noise moves a logit by about 5.
    """
    N, R = conditions.examples, conditions.norm_bound
    require(
        R is not None, "DPSGD's public rule needs rows with a public norm bound; train with scaling=Standardised()."
    )
    require(conditions.width is not None, "DPSGD's public rule needs to know how many columns there are.")
    weights, R = (conditions.classes - 1) * int(conditions.width or 0), float(R or 0.0)
    length = LOGIT * N * mu / (CLIP * R**2 * math.sqrt(weights))
    steps = int(min(max(length / 2, FEWEST_STEPS), MOST_STEPS))
    rate = min(length / steps, STEP / R**2)
    return {
        "batch_size": max(1, min(N // 4, LARGEST_BATCH)), "steps": steps, "learning_rate": rate,
        "clipping_norm": CLIP * R,
    }  # fmt: skip


def _budget(epsilon: float | None, delta: float, risk: Risk | None) -> float:
    """Return the μ that a Gaussian mechanism of the same guarantee has."""
    require((epsilon is None) == (risk is not None), "give either epsilon or a risk, not both and not neither.")
    return risk.mu() if risk is not None else 1 / float(gaussian_noise_scale(1.0, epsilon or 0.0, delta))
