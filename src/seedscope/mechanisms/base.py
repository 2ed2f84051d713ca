"""What a mechanism is: frozen data that answers every question the other rooms have about it.

    relation, sampling              the neighbour relation of its guarantee; how batches are drawn, None for minimisers
    check(conditions)               raises where it cannot train on such data or with such a model
    guarantee(conditions)           a proved (ε, δ), or the reason why there is none
    trade_off(conditions)           what any membership attack can achieve at most, None where nothing is proved
    order_two(conditions)           the replace-one order-2 divergence that bounds reconstruction
    repeated, shared (times, …)     the (ε, δ) of several models, and the mechanism of which several cost what one did
    success_upper(prior, conditions)   the best chance of an attacker who without the model has the prior's
    trainer(job)                    the function that trains a chunk
    published(job, draws, epsilon)  the weights of the one model to publish
    work, memory, speed             what training one model costs
    cannot_record(name)             why something cannot be recorded while it trains, empty where it can
    noisy_sums, plain_steps, regression, noisy_minimum, noisy_objective   what it releases, for analyses about it
    weight_noise(conditions)        the public noise on each weight, by which whoever holds a model may abstain
    surrogate(job)                  cheap stand-ins with the same noise, for fewer re-trainings
    words()                         itself, for people to read
    describe()                      itself as plain values; `from_description` reads them back

A new mechanism is one file: a frozen dataclass derived from `StepMechanism` (gradient steps on a network) or
`MinimiserMechanism` (minimisers of logistic regression), or from `Mechanism` itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from seedscope.accounting import TradeOff, trade_off
from seedscope.core import (
    BASE,
    RELATIONS,
    Described,
    Kind,
    Number,
    Relation,
    SeedscopeError,
    from_description,
    require,
)
from seedscope.datasets import MOST_ROWS

if TYPE_CHECKING:
    from seedscope.datasets import Dataset, FittedScaling
    from seedscope.training import ChunkTrainer, Clipping, Job, NoiseLaw, Sampling, Surrogate, SystemDraws


@dataclass(frozen=True)
class Conditions:
    """What a guarantee depends on: the number of training rows and the public bound on their norm, bias included.

    And what a mechanism may need besides: the classes, whether examples are rows of a table, whether the model's loss
    is convex, and the model in words. What of the preprocessing was learned from those rows (the scaling; anything
    else, in words) turns *proved* into *estimate*; `spent` is the (ε, δ) that private preprocessing has cost already,
    `rows_per_person` how many rows one person has at most. `Guarantee.proved` accounts for all of these.
    """

    examples: int
    norm_bound: float | None
    scaling_learned: bool = False
    classes: int = 2
    is_table: bool = True
    convex: bool = True
    model: str = "Logistic()"
    width: int | None = None  # of a row with its bias; calibrations that go with the number of weights need it
    also_learned: tuple[str, ...] = ()
    spent: tuple[float, float] = (0.0, 0.0)
    rows_per_person: int = 1
    by_person: bool = False  # whether it is known whose each row is

    @classmethod
    def of(cls, data: Dataset, scaling: FittedScaling, convex: bool = True, model: str = "Logistic()") -> Conditions:
        """Return the conditions of a data set's scaled rows, to which training adds a bias column of ones."""
        bound = None if scaling.norm_bound is None else math.hypot(scaling.norm_bound, 1)
        width = math.prod(data.features.shape[1:]) + 1
        return cls(
            len(data.base), bound, scaling.learned, data.classes, data.features.ndim == 2, convex, model, width,
            data.learned, scaling.spent, data.rows_per_person, data.base.persons is not None,
        )  # fmt: skip

    @property
    def alone(self) -> bool:
        """Whether the mechanism's own proof is all there is: nothing was spent before, and a person is a row."""
        return self.spent == (0.0, 0.0) and self.rows_per_person == 1

    @property
    def learned(self) -> tuple[str, ...]:
        """What of the preprocessing was learned from the training rows, in words; empty where all of it is public."""
        return (("the scaling",) if self.scaling_learned else ()) + self.also_learned


NOT_COVERED = (
    "The people of a test part: no ε is about them, and what is measured on them tells something of them.",
    "The choice of a level or a setting by results on private data: every such look costs privacy beyond this ε.",
    "Other models trained on the same people, an audit's among them: what they cost adds up.",
    "What a model says of people because it is true of many: that needs nobody's own row.",
)


@dataclass(frozen=True)
class Guarantee:
    """An (ε, δ) under one neighbour relation for one unit, or the reason why there is none.

    The ε is *proved* for the whole pipeline, or an *estimate* where it would be proved only if something that was
    learned from the rows were public; `assumes` says what.
    """

    relation: Relation
    epsilon: Number | None
    delta: float
    reason: str
    assumes: tuple[str, ...] = ()
    unit: Literal["row", "person"] = "row"

    @classmethod
    def proved(cls, relation: Relation, epsilon: float, delta: float, conditions: Conditions, by: str) -> Guarantee:
        """Return what a mechanism's proved (ε, δ) comes to for the whole pipeline.

        A person of several rows has group privacy, private preprocessing is added (basic composition), and what was
        learned from the rows makes the number an estimate.

        >>> found = Guarantee.proved("replace_one", 1.0, 0.0, Conditions(100, 1.0, scaling_learned=True), "noise")
        >>> found.epsilon.kind, found.reason
        ('estimate', 'noise; proved only if the scaling were public, and here it was learned from the training rows.')
        """
        rows, learned = conditions.rows_per_person, conditions.learned
        (whole, rest), before = group_privacy(epsilon, delta, rows), group_privacy(*conditions.spent, rows)
        if rest + before[1] >= 1:
            return cls.none(relation, 0.0, f"{by}; for all rows of a person that leaves δ at 1: nothing.")
        kind: Kind = "estimate" if learned else "proved"
        number = Number(whole + before[0], kind, note=only_if(learned) if learned else "")
        unit: Literal["row", "person"] = "person" if conditions.by_person or rows > 1 else "row"
        reason = "; ".join([by, *_conditions_in_words(conditions)]) + "."
        return cls(relation, number, rest + before[1], reason, learned, unit)

    @classmethod
    def none(cls, relation: Relation, delta: float, reason: str) -> Guarantee:
        """Return that nothing is proved, and why."""
        return cls(relation, None, delta, reason)

    @property
    def is_proved(self) -> bool:
        """Whether there is an ε, and it is proved for what is trained here."""
        return self.epsilon is not None and self.epsilon.kind == "proved"

    def describe(self) -> dict[str, Any]:
        """Return what is written down beside the trained models."""
        epsilon = None if self.epsilon is None else self.epsilon.as_dict()
        written = {"relation": self.relation, "epsilon": epsilon, "delta": self.delta, "reason": self.reason}
        further = {"assumes": list(self.assumes)} if self.assumes else {}
        return written | further | ({"unit": self.unit} if self.unit != "row" else {})

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Guarantee:
        """Return the guarantee that was written down."""
        epsilon = description["epsilon"]
        number = None if epsilon is None else Number.from_dict(epsilon)
        assumes, unit = tuple(description.get("assumes", ())), description.get("unit", "row")
        return cls(description["relation"], number, description["delta"], description["reason"], assumes, unit)

    def assuming(self, learned: tuple[str, ...]) -> Guarantee:
        """Return the guarantee as an estimate, for preprocessing that was learned; as it is where that is known."""
        if self.epsilon is None or not learned or set(learned) <= set(self.assumes):
            return self
        estimate = replace(self.epsilon, kind="estimate", note=only_if(learned))
        return replace(self, epsilon=estimate, assumes=learned, reason=f"{self.reason[:-1]}; {only_if(learned)}.")


def group_privacy(epsilon: float, delta: float, rows: int) -> tuple[float, float]:
    """Return the (ε, δ) of a person with this many rows, from that of one row (Vadhan 2017, Lemma 2.2).

    >>> group_privacy(0.5, 0.0, 2)
    (1.0, 0.0)
    """
    if rows == 1:
        return epsilon, delta
    growth = math.expm1(min(rows * epsilon, 700)) / math.expm1(min(epsilon, 700)) if epsilon else rows
    return rows * epsilon, min(1.0, delta * growth)


def only_if(learned: tuple[str, ...]) -> str:
    """Return in words that something would have to be public.

    >>> only_if(("the scaling", "the category levels"))
    'proved only if the scaling and the category levels were public, and here they were learned from the training rows'
    """
    here = "it was" if len(learned) == 1 and not learned[0].endswith("s") else "they were"
    return f"proved only if {' and '.join(learned)} were public, and here {here} learned from the training rows"


def _conditions_in_words(conditions: Conditions) -> list[str]:
    """Return what the pipeline adds to a mechanism's own proof, a phrase each."""
    said = []
    if conditions.rows_per_person > 1:
        learned = MOST_ROWS in conditions.also_learned  # then the number itself would tell of somebody
        said.append(
            f"group privacy for a person of {'several' if learned else f'at most {conditions.rows_per_person}'} rows"
        )
    if conditions.spent != (0.0, 0.0):
        epsilon, delta = group_privacy(*conditions.spent, conditions.rows_per_person)
        said.append(f"ε = {epsilon:.4g} and δ = {delta:.2g} of it went into private scaling")
    return [*said, only_if(conditions.learned)] if conditions.learned else said


@dataclass(frozen=True, eq=False)
class NoisyRegression:
    """A regularised minimiser, the bias last, that is released with Gaussian noise."""

    weights: np.ndarray
    l2: float
    noise_scale: float


@dataclass(frozen=True)
class NoisyMinimum:
    """What a minimiser that is released with Gaussian noise was regularised by, and the noise's standard deviation."""

    l2: float
    noise_scale: float


@dataclass(frozen=True)
class NoisySums:
    """The noisy sums of clipped gradients that a run releases step by step: what accounting for a person needs."""

    noise_multiplier: float
    clipping_norm: float
    sampling_probability: float
    steps: int
    delta: float
    sampling: Sampling
    clipping: Clipping
    divided_by_true_size: bool


@dataclass(frozen=True)
class NoisyObjective:
    """The minimiser w of Σ losses + ½ Σ penalty·w² + b·w that is released, b a random tilt: *sums*, not means.

    So w has the density p(b(w))·det H(w), `b(w) = −(Σ gradients of the losses + penalties·w)`, H the Hessian of the sum
    with its penalties. For more than two classes weights and tilts are [class, width] whose sum over the classes is 0,
    and the density is on that subspace.
    """

    penalty: float
    bias_penalty: float
    law: NoiseLaw
    scale: float

    def penalties(self, width: int) -> np.ndarray:
        """Return the penalty of each weight of a logit, the bias last."""
        return np.append(np.full(width - 1, self.penalty), self.bias_penalty)

    def log_density(self, tilts: np.ndarray) -> np.ndarray:
        """Return ln p(b) of tilts [..., weight], up to a constant.

        >>> float(NoisyObjective(1.0, 1.0, "gaussian", 2.0).log_density(np.array([0.0, 4.0])))
        -2.0
        """
        norms = np.linalg.norm(tilts, axis=-1) / self.scale
        density: np.ndarray = -(norms**2) / 2 if self.law == "gaussian" else -norms
        return density


@dataclass(frozen=True)
class PlainSteps:
    """Gradient steps of a fixed size on shuffled batches, and nothing else."""

    learning_rate: float
    batch_size: int


@dataclass(frozen=True)
class Load:
    """What training one model of a plan deals with; `forward` gives the operations and bytes of looking at one row."""

    examples: int
    parameters: int
    recorded: int  # numbers that are recorded of a model
    datasets: int  # neighbouring data sets that share a seed's batches
    forward: Callable[[], tuple[float, float]]
    looks: int = 0  # at people whose gradient norms are recorded
    traced: bool = False


Recordable = Literal["gradient_norms", "path_sums", "fisher_traces", "privacy_losses"]
COPIES = 3  # of records: where they are computed, as the worker's arrays, and on their way to the driver


class Mechanism(Described, ABC):
    """Base of the mechanisms; the module says what it answers."""

    relation: ClassVar[Relation]
    shares_work: ClassVar[Literal["neighbours", "seeds"]]  # between which models of a chunk work is shared
    takes_network: ClassVar[bool]  # trains any network; otherwise only logistic regression, without loading JAX
    has_initial_point: ClassVar[bool]  # so that fixed and varied initial points are different models
    precision: ClassVar[type]  # of the rows that training works on
    adds_noise: ClassVar[bool] = True  # on purpose, so that the seed's own randomness is not all there is
    publishes_exactly: ClassVar[bool] = False  # whether a published model is what the proof is about, to the last bit
    smooths: ClassVar[bool] = False  # whether publishing costs a further, small ε
    noise_stream: ClassVar[int | None] = None  # which noise a seed draws, where that has ever changed
    regression_released: ClassVar[bool] = False  # with Gaussian noise, so that everybody's loss is known exactly
    model_records: ClassVar[Mapping[str, str]] = {}  # further records, one number for each model: name → type
    records_weights: ClassVar[bool] = True  # a user's own model has none that we could name

    def __post_init__(self) -> None:
        kind: Any = type(self)
        require(kind.__dataclass_params__.frozen, f"{self.name} must be a frozen dataclass: @dataclass(frozen=True).")
        said = getattr(self, "relation", None)
        require(said in RELATIONS, f"{self.name} must say its relation, one of {RELATIONS}, got {said!r}.")
        super().__post_init__()

    @property
    @abstractmethod
    def sampling(self) -> Sampling | None:
        """How batches are drawn; None where there are none."""

    @property
    def limits_people(self) -> bool:
        """Whether everybody has a budget of their own, and what they have spent is recorded."""
        return False

    @property
    def last_step(self) -> int:
        """The number of steps; 0 for a minimiser."""
        return 0

    @property
    def batch_size(self) -> int:
        """The expected number of rows in a batch; 0 where there are none."""
        return 0

    @property
    def name(self) -> str:
        """The name of the class, for errors and labels."""
        return type(self).__name__

    @abstractmethod
    def check(self, conditions: Conditions) -> None:
        """Raise where the mechanism cannot train on such data or with such a model."""

    @abstractmethod
    def guarantee(self, conditions: Conditions) -> Guarantee:
        """Return the proved (ε, δ) under the mechanism's relation, or the reason why there is none."""

    @abstractmethod
    def trainer(self, job: Job) -> ChunkTrainer:
        """Return the function (seeds, neighbours) → records by name.

        They are `weights` [seed, neighbour, init, step, parameter], and where rows are probed `scores` and `losses`
        [seed, neighbour, init(, step), example(, class)] *of these weights*: of the model that is released, noise
        included. Noise is drawn from `job.noise_seed`. Further records are those in `model_records`.
        """

    def published(self, job: Job, draws: SystemDraws, epsilon: float) -> np.ndarray:
        """Return the weights [weight] of the one model to publish, with random numbers that are kept nowhere.

        Where the mechanism publishes exactly, its guarantee holds for these very numbers at the further price ε.
        """
        seeded = replace(job, root_seed=int(draws.words(1)[0] >> np.uint64(33)), noise_key=draws.bits(32).hex())
        trained = self.trainer(seeded)(np.arange(1), np.array([BASE]))["weights"]
        weights: np.ndarray = trained[0, 0, -1, -1].astype(float)
        return weights

    @abstractmethod
    def words(self) -> str:
        """Return the mechanism in words."""

    def public_words(self) -> str:
        """Return the mechanism in words that tell nothing of how many rows there are."""
        return self.words()

    @abstractmethod
    def work(self, load: Load) -> float:
        """Return roughly how many floating-point operations training one model takes."""

    @abstractmethod
    def memory(self, load: Load) -> int:
        """Return roughly how many bytes a model takes while it is trained."""

    @abstractmethod
    def speed(self, load: Load) -> float:
        """Return roughly how many floating-point operations per second one core reaches."""

    def cargo(self) -> Any:
        """Return what workers need besides arrays; None for the library's own mechanisms."""
        return None

    def cannot_record(self, what: Recordable) -> str:
        """Return why something cannot be recorded while models are trained; empty where it can."""
        if what == "privacy_losses":
            return (
                f"privacy losses need noise whose density is known; {self.name} has none: what it releases has no "
                "density that could be compared with and without a person."
            )
        return f"{what} are recorded for DPSGD only, the mechanism is {self.name}."

    def trade_off(self, conditions: Conditions) -> TradeOff | None:
        """Return the curve that bounds every membership attack, of the guarantee's kind; None where none is proved."""
        found = self.guarantee(conditions)
        if found.epsilon is None:
            return None
        return trade_off(epsilon=found.epsilon.value, delta=found.delta, kind=found.epsilon.kind)

    def at_level(self, epsilon: float, delta: float, conditions: Conditions) -> Mechanism:
        """Return the same mechanism at another guarantee, everything else by the same public rules."""
        self.require_alone(conditions)
        names = {field.name for field in fields(self)}  # type: ignore[arg-type]
        require("epsilon" in names, f"{self.name} has no epsilon that could be another.")
        changed = {"epsilon": epsilon} | ({"delta": delta} if "delta" in names else {})
        return replace(self, **changed)  # type: ignore[type-var]

    def repeated(self, times: int, conditions: Conditions) -> tuple[float, float]:
        """Return the (ε, δ) of this many models, all published: by default their sums (basic composition)."""
        found = self.guarantee(conditions)
        require(found.epsilon is not None, f"{self.name} has no guarantee to compose: {found.reason}")
        return times * float(found.epsilon or 0), times * found.delta

    def shared(self, times: int, conditions: Conditions) -> Mechanism:
        """Return the mechanism of which this many models together have the guarantee that one of these has."""
        found = self.require_alone(conditions)
        return self.at_level(float(found.epsilon or 0) / times, found.delta / times, conditions)

    def order_two(self, conditions: Conditions) -> float:
        """Return the order-2 Rényi divergence of replacing one record; an error where none is proved."""
        raise self._unbounded(conditions)

    def success_upper(self, prior: np.ndarray, conditions: Conditions) -> np.ndarray:
        """Return the largest chance of a reconstruction that succeeds with chance `prior` without the model."""
        raise self._unbounded(conditions)

    def noisy_sums(self, examples: int) -> NoisySums | None:
        """Return the noisy sums that a run on this many rows releases; None where it releases something else."""
        return None

    def plain_steps(self) -> PlainSteps | None:
        """Return the steps of plain SGD, whose sensitivity is bounded; None where training is something else."""
        return None

    def regression(self, data: Dataset, scaling: FittedScaling) -> NoisyRegression | None:
        """Return what is released before its noise, fitted on the data; None where there is no such thing."""
        return None

    def noisy_minimum(self, conditions: Conditions) -> NoisyMinimum | None:
        """Return regularisation and noise of a minimiser that is released with noise; None where something else is."""
        return None

    def noisy_objective(self, conditions: Conditions) -> NoisyObjective | None:
        """Return the randomly tilted objective whose minimiser is released; None where something else is."""
        return None

    def weight_noise(self, conditions: Conditions) -> float | None:
        """Return the public standard deviation of Gaussian noise on each weight; None where noise goes elsewhere."""
        return None

    def surrogate(self, job: Job) -> Surrogate | None:
        """Return cheap models with the same noise, whose votes on the job's probes are known; None without such."""
        return None

    def require_alone(self, conditions: Conditions) -> Guarantee:
        """Return the guarantee, or raise where it is not the mechanism's own ε: then no level follows from another."""
        found = self.guarantee(conditions)
        require(found.epsilon is not None, f"{self.name} has no guarantee to price another by: {found.reason}")
        why = (
            "levels of ε are priced for one row per person and a scaling that spends nothing, got "
            f"{conditions.rows_per_person} rows per person and ε = {conditions.spent[0]:g} spent on scaling; keep one "
            "row of each person and declare public bounds."
        )
        require(conditions.alone, why)
        return found

    def require_guarantee(self, conditions: Conditions) -> Guarantee:
        """Return the guarantee, or raise where none is proved: then no reconstruction is bounded."""
        found = self.guarantee(conditions)
        if found.epsilon is None:
            raise self._unbounded(conditions)
        rows = (
            "bounds on reconstruction are for one row and a scaling without noise; here are persons or private scaling."
        )
        require(conditions.alone, rows)
        return found

    def _unbounded(self, conditions: Conditions) -> SeedscopeError:
        """Return the error that nothing bounds reconstruction."""
        return SeedscopeError(f"{self.name} bounds no reconstruction: {self.guarantee(conditions).reason}")


def mechanism_from(description: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism that a description describes.

    >>> from seedscope import DPSGD
    >>> mechanism_from(DPSGD(steps=5).describe()) == DPSGD(steps=5)
    True
    """
    found: Mechanism = from_description(dict(description))
    require(isinstance(found, Mechanism), f"{description.get('type')} is not a mechanism.")
    return found


def require_epsilon(epsilon: float) -> None:
    """Raise unless ε is above 0; infinity means no noise."""
    require(epsilon > 0, f"epsilon must be above 0, got {epsilon}.")


def require_not_negative(name: str, value: float) -> None:
    """Raise unless a value is finite and not negative."""
    require(0 <= value < math.inf, f"{name} must be a finite number of at least 0, got {value}.")
