"""What a mechanism is: frozen data that answers every question the other rooms have about it.

    relation, sampling              the neighbour relation of its guarantee; how batches are drawn, None for minimisers
    check(conditions)               raises where it cannot train on such data or with such a model
    guarantee(conditions)           a proved (ε, δ), or the reason why there is none
    last_iterate(conditions)        the (ε, δ) of the last weights alone, None where they are not another question
    trade_off(conditions)           what any membership attack can achieve at most, None where nothing is proved
    order_two(conditions)           the replace-one order-2 divergence that bounds reconstruction
    repeated, shared (times, …)     the (ε, δ) of several models, and the mechanism of which several cost what one did
    success_upper(prior, conditions)   the best chance of an attacker who without the model has the prior's
    trainer(job)                    the function that trains a chunk
    published(job, draws, epsilon)  the weights of the one model to publish
    work, memory, speed             what training one model costs
    cannot_record(name)             why something cannot be recorded while it trains, empty where it can
    cannot_lose_together(rows, …)   why the privacy loss of a person with several rows is not known, empty where it is
    told_besides(rows)              what the attacker of that loss is told besides, so that it can be known
    noisy_sums, plain_steps, regression, noisy_minimum, noisy_objective   what it releases, for analyses about it
    weight_noise(conditions)        the public noise on each weight, by which whoever holds a model may abstain
    delta_follows_size              whether δ is taken from the number of rows, so that it would tell it
    epsilon_follows_size            whether ε can follow from noise and the number of rows
    size_shows(rows, features)      whether the number of rows decides how it trains, and could be told from weights
    surrogate(job)                  cheap stand-ins with the same noise, for fewer re-trainings
    surrogate_afterwards            whether they are quickly worked out again for models that were trained before
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
    Relation,
    SeedscopeError,
    from_description,
    require,
)
from seedscope.mechanisms.guarantees import Conditions, Guarantee
from seedscope.mechanisms.released import NoisyMinimum, NoisyObjective, NoisyRegression, NoisySums, PlainSteps

if TYPE_CHECKING:
    from seedscope.datasets import Dataset, FittedScaling
    from seedscope.training import ChunkTrainer, Job, Sampling, Surrogate, SystemDraws


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
    has_surrogate: ClassVar[bool] = False  # whether stand-ins of logistic regressions of two classes are there
    surrogate_afterwards: ClassVar[bool] = False  # stand-ins take a moment, also where models are there already
    takes_masks: ClassVar[bool] = False  # whether it trains networks that leave out units at random
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

    def size_shows(self, rows: int, features: int) -> bool:
        """Whether a private number of rows decides how it trains, and is so small that weights could tell it."""
        return False

    @abstractmethod
    def guarantee(self, conditions: Conditions) -> Guarantee:
        """Return the proved (ε, δ) under the mechanism's relation, or the reason why there is none."""

    def last_iterate(self, conditions: Conditions) -> Guarantee | None:
        """Return what is proved if only the last weights are ever seen, no step before; None where nobody asks."""
        return None

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

    @property
    def delta_follows_size(self) -> bool:
        """Whether δ is taken from the number of rows, so that it would tell it."""
        return False

    @property
    def epsilon_follows_size(self) -> bool:
        """Whether ε can follow from noise and the number of rows, so that it would tell it."""
        return False

    def cannot_lose_together(self, rows: int, classes: int) -> str:
        """Return why the losses of people with up to this many rows each are not known; empty where they are."""
        return f"privacy losses of {self.name} are about single rows, and people have up to {rows} here."

    def told_besides(self, rows: int) -> str:
        """Return what the attacker of the losses is told of people with up to this many rows; empty for nothing."""
        return ""

    def trade_off(self, conditions: Conditions) -> TradeOff | None:
        """Return the curve that bounds every membership attack, of the guarantee's kind; None where none is proved."""
        guarantee = self.guarantee(conditions)
        if guarantee.epsilon is None:
            return None
        return trade_off(epsilon=guarantee.epsilon.value, delta=guarantee.delta, kind=guarantee.epsilon.kind)

    def at_level(self, epsilon: float, delta: float, conditions: Conditions) -> Mechanism:
        """Return the same mechanism at another guarantee, everything else by the same public rules."""
        self.require_alone(conditions)
        names = {field.name for field in fields(self)}  # type: ignore[arg-type]
        require("epsilon" in names, f"{self.name} has no epsilon that could be another.")
        changed = {"epsilon": epsilon} | ({"delta": delta} if "delta" in names else {})
        return replace(self, **changed)  # type: ignore[type-var]

    def repeated(self, times: int, conditions: Conditions) -> tuple[float, float]:
        """Return the (ε, δ) of this many models, all published: by default their sums (basic composition)."""
        guarantee = self.guarantee(conditions)
        require(guarantee.epsilon is not None, f"{self.name} has no guarantee to compose: {guarantee.reason}")
        return times * float(guarantee.epsilon or 0), times * guarantee.delta

    def shared(self, times: int, conditions: Conditions) -> Mechanism:
        """Return the mechanism of which this many models together have the guarantee that one of these has."""
        guarantee = self.require_alone(conditions)
        return self.at_level(float(guarantee.epsilon or 0) / times, guarantee.delta / times, conditions)

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
        guarantee = self.guarantee(conditions)
        require(guarantee.epsilon is not None, f"{self.name} has no guarantee to price another by: {guarantee.reason}")
        why = (
            "levels of ε are priced for one row per person and a scaling that spends nothing, got "
            f"{conditions.rows_per_person} rows per person and ε = {conditions.spent[0]:g} spent on scaling; keep one "
            "row of each person and declare public bounds."
        )
        require(conditions.alone, why)
        return guarantee

    def require_guarantee(self, conditions: Conditions) -> Guarantee:
        """Return the guarantee, or raise where none is proved: then no reconstruction is bounded."""
        guarantee = self.guarantee(conditions)
        if guarantee.epsilon is None:
            raise self._unbounded(conditions)
        rows = (
            "bounds on reconstruction are for one row and a scaling without noise; here are persons or private scaling."
        )
        require(conditions.alone, rows)
        return guarantee

    def _unbounded(self, conditions: Conditions) -> SeedscopeError:
        """Return the error that nothing bounds reconstruction."""
        return SeedscopeError(f"{self.name} bounds no reconstruction: {self.guarantee(conditions).reason}")


def mechanism_from(description: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism that a description describes.

    >>> from seedscope import DPSGD
    >>> mechanism_from(DPSGD(steps=5).describe()) == DPSGD(steps=5)
    True
    """
    mechanism: Mechanism = from_description(dict(description))
    require(isinstance(mechanism, Mechanism), f"{description.get('type')} is not a mechanism.")
    return mechanism


def require_epsilon(epsilon: float) -> None:
    """Raise unless ε is above 0; infinity means no noise."""
    require(epsilon > 0, f"epsilon must be above 0, got {epsilon}.")


def require_not_negative(name: str, value: float) -> None:
    """Raise unless a value is finite and not negative."""
    require(0 <= value < math.inf, f"{name} must be a finite number of at least 0, got {value}.")
