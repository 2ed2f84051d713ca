"""The options that say how models are trained privately, or not."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.core import DELTA, SeedscopeWarning, require, require_count, require_positive, unknown_name

if TYPE_CHECKING:
    from seedscope.datasets import Dataset, Scaling
    from seedscope.mechanisms import Conditions, Mechanism

MECHANISMS = ("sgd", "dpsgd", "output", "objective", "gaussian-objective")
DEFAULT = "gaussian-objective"  # the best of those for replacing a person, where the number of rows may be known


IMPUTATION_SHARE = 0.1  # of ε, for noisy values of empty cells
SCALING, IMPUTATION = "--private-scaling", "--impute private"
STEPPING = ("learning_rate", "batch_size", "steps", "epochs")


TAKES = {
    "sgd": STEPPING,
    "dpsgd": (
        *STEPPING,
        "epsilon",
        "delta",
        "clip",
        "noise_multiplier",
        "public_size",
        "smooth_clipping",
        "personal_budget",
        "l2",
    ),
    "output": ("epsilon", "delta", "l2", "noise_scale"),
    "objective": ("epsilon", "l2"),
    "gaussian-objective": ("epsilon", "delta", "l2"),
}


DPSGD_BATCH, DPSGD_STEPS, DPSGD_RATE, DPSGD_CLIP = 256, 150, 4.0, 0.5  # at most a quarter of the rows in a batch


Name = Annotated[str, typer.Option(help=f"One of {', '.join(MECHANISMS)}.")]


Epsilon = Annotated[float | None, typer.Option(help="Privacy level; default 1. Not for sgd.")]


LearningRate = Annotated[float | None, typer.Option(help="Learning rate of sgd (0.5) and dpsgd (by a public rule).")]


BatchSize = Annotated[
    int | None,
    typer.Option(help="Batch size of sgd (32), expected one of dpsgd (a quarter of the rows, at most 1,024)."),
]


Steps = Annotated[int | None, typer.Option(help="Steps of sgd (1000) and dpsgd (50 to 500, by a public rule).")]


Epochs = Annotated[float | None, typer.Option(help="Instead of --steps: passes over the data.")]


Delta = Annotated[float | None, typer.Option(help="δ of dpsgd, output and gaussian-objective; default 1e-6.")]


PublicSize = Annotated[
    int | None, typer.Option(help="With dpsgd: a number of rows known without the data, used in the place of N.")
]


PersonalBudget = Annotated[
    float | None, typer.Option(help="With dpsgd: an ε of everybody's own; whoever has spent it leaves the sum.")
]


PrivateScaling = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Scale by noisy means and deviations within --bounds, for this share of ε."),
]


ImputationShare = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help=f"With --impute private: its share of ε; default {IMPUTATION_SHARE}."),
]


Clip = Annotated[float | None, typer.Option(help="Norm to which dpsgd clips gradients; default about 0.5.")]


SmoothClipping = Annotated[
    bool,
    typer.Option(
        "--smooth-clipping",
        help="dpsgd clips smoothly: each person's own leakage is recorded, and there is no own ε by norms.",
    ),
]


NoiseMultiplier = Annotated[float | None, typer.Option(help="Noise of dpsgd over --clip, instead of --epsilon.")]


L2 = Annotated[
    float | None, typer.Option(help="Regularisation of output and objective perturbation, and of dpsgd (default none).")
]


@dataclass(frozen=True)
class MechanismOptions:
    """What a person said about a mechanism, None where they said nothing; `make` gives the mechanism."""

    learning_rate: float | None = None
    batch_size: int | None = None
    steps: int | None = None
    epochs: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    clip: float | None = None
    noise_multiplier: float | None = None
    l2: float | None = None
    noise_scale: float | None = None
    public_size: int | None = None
    smooth_clipping: bool | None = None
    personal_budget: float | None = None

    def make(self, name: str, examples: int, conditions: Conditions | None = None) -> Any:
        """Return the mechanism of that name for this many training rows; options that it lacks are refused.

        With a table's conditions DP-SGD's batch, steps, clip and rate are by its public rule unless one is given.
        """
        from seedscope import mechanisms  # start-up

        if name not in MECHANISMS:
            raise unknown_name("mechanism", name, MECHANISMS)
        self._refuse_foreign(name)
        if name == "objective":
            return mechanisms.ObjectivePerturbation(1.0 if self.epsilon is None else self.epsilon, self.l2)
        if name == "output":
            aim = 1.0 if self.epsilon is None and self.noise_scale is None else self.epsilon
            delta = DELTA if self.delta is None else self.delta
            return mechanisms.OutputPerturbation(aim, delta, self.l2, self.noise_scale)
        if name == "gaussian-objective":
            aim = 1.0 if self.epsilon is None else self.epsilon
            return mechanisms.GaussianObjectivePerturbation(aim, DELTA if self.delta is None else self.delta, self.l2)
        if name == "sgd":
            return self._sgd(examples)
        private = self._dpsgd(examples, conditions)
        return private.smooth() if self.smooth_clipping else private

    def _sgd(self, examples: int) -> Any:
        """Return plain SGD."""
        from seedscope import mechanisms  # start-up

        size = 32 if self.batch_size is None else self.batch_size
        rate = 0.5 if self.learning_rate is None else self.learning_rate
        return mechanisms.SGD(rate, size, self._steps(examples, size, default=1000))

    def _dpsgd(self, examples: int, conditions: Conditions | None) -> Any:
        """Return DP-SGD with the least noise that reaches ε, or the noise that was asked for."""
        from seedscope import mechanisms  # start-up

        exclusive = self.epsilon is None or self.noise_multiplier is None
        require(exclusive, "--epsilon and --noise-multiplier exclude each other: one gives the other.")
        require(self.epsilon is None or self.epsilon > 0, f"epsilon must be above 0, got {self.epsilon}.")
        nothing = "--epsilon inf is no privacy at all, which for dpsgd is --mechanism sgd; give a finite number."
        require(self.epsilon is None or self.epsilon < math.inf, nothing)
        examples = examples if self.public_size is None else self.public_size
        require_count("public_size", examples)
        by_hand = (self.batch_size, self.steps, self.epochs, self.learning_rate, self.clip, self.noise_multiplier)
        if conditions is not None and conditions.norm_bound is not None and by_hand == (None,) * 6:
            aim, delta = 1.0 if self.epsilon is None else self.epsilon, DELTA if self.delta is None else self.delta
            setting = replace(conditions, examples=examples)
            chosen = mechanisms.DPSGD.public(setting, aim, delta)
            return replace(chosen, public_size=self.public_size, personal_budget=self._budget, l2=self.l2 or 0.0)
        size = min(DPSGD_BATCH, max(1, examples // 4)) if self.batch_size is None else self.batch_size
        require_count("batch_size", size)
        steps = self._steps(examples, size, default=DPSGD_STEPS)
        rate = DPSGD_RATE if self.learning_rate is None else self.learning_rate
        clip = DPSGD_CLIP if self.clip is None else self.clip
        delta = DELTA if self.delta is None else self.delta
        given: dict[str, Any] = {
            "batch_size": size, "steps": steps, "learning_rate": rate, "clipping_norm": clip,
            "public_size": self.public_size, "personal_budget": self._budget, "l2": self.l2 or 0.0,
        }  # fmt: skip
        if self.noise_multiplier is not None:
            return mechanisms.DPSGD(noise_multiplier=self.noise_multiplier, delta=delta, **given)
        aim = 1.0 if self.epsilon is None else self.epsilon
        return mechanisms.DPSGD.calibrated(aim, delta, examples=examples, **given)

    @property
    def _budget(self) -> float:
        """What everybody may spend; infinite where nothing was said."""
        return math.inf if self.personal_budget is None else self.personal_budget

    def _steps(self, examples: int, batch_size: int, default: int) -> int:
        """Return the number of steps: as given, of this many epochs, or the default."""
        require(self.steps is None or self.epochs is None, "give either --steps or --epochs, not both.")
        if self.epochs is None:
            return default if self.steps is None else self.steps
        require_positive("epochs", self.epochs)
        require_count("batch_size", batch_size)
        return max(1, round(self.epochs * examples / batch_size))

    def _refuse_foreign(self, mechanism: str) -> None:
        """Raise if an option was given that the mechanism has no use for."""
        given = [name for name, value in vars(self).items() if value is not None]
        foreign = [f"--{name.replace('_', '-')}" for name in given if name not in TAKES[mechanism]]
        why = " (plain SGD has no proved guarantee to aim at)" if mechanism == "sgd" else ""
        require(not foreign, f"{', '.join(foreign)} is not an option of --mechanism {mechanism}{why}.")


@dataclass(frozen=True)
class Level:
    """A privacy level: the mechanism, and how rows are scaled for it (None: as usual)."""

    mechanism: Mechanism
    scaling: Scaling | None = None


def level(
    given: MechanismOptions,
    name: str,
    epsilon: float | None,
    data: Dataset,
    private_scaling: float | None = None,
    imputation_share: float | None = None,
) -> Level:
    """Return the mechanism with the ε that private preprocessing and a person's several rows leave of what is asked."""
    examples, rows = len(data.base), data.rows_per_person
    if epsilon is not None and math.isinf(epsilon) and name != "dpsgd":
        nothing = "at ε = inf no noise is added: there is no privacy, anybody may be recognised in the model."
        warnings.warn(nothing, SeedscopeWarning, stacklevel=2)
    shares = _shares(data, private_scaling, imputation_share)
    if not shares:
        return Level(_for_a_person(given, name, epsilon, given.delta, rows).make(name, examples, conditions_of(data)))
    require(epsilon is not None, f"{next(iter(shares))} takes a share of --epsilon; this mechanism has none.")
    assert epsilon is not None
    delta = (DELTA if given.delta is None else given.delta) / (len(shares) + (name != "objective"))
    own = None if name == "objective" else delta
    spent = epsilon * sum(shares.values())  # by preprocessing, whose parts are one for group privacy
    left = _for_a_person(given, name, epsilon - spent, own, rows)
    costs = {what: _of_a_row(epsilon * share, delta, rows, spent) for what, share in shares.items()}
    return Level(left.make(name, examples, conditions_of(data)), _private(data, costs))


def _shares(data: Dataset, private_scaling: float | None, imputation_share: float | None) -> dict[str, float]:
    """Return which share of ε private scaling and private imputation take, by what asks for it."""
    imputes = data.imputation is not None and data.imputation.draws
    require(imputes or imputation_share is None, "--imputation-share goes with --impute private.")
    imputation = (IMPUTATION_SHARE if imputation_share is None else imputation_share) if imputes else None
    asked = {SCALING: private_scaling, IMPUTATION: imputation}
    shares = {what: share for what, share in asked.items() if share is not None}
    for what, share in shares.items():
        option = what if what == SCALING else "--imputation-share"
        require(0 < share < 1, f"{option} must be a share of ε between 0 and 1, got {share}.")
    together = sum(shares.values())
    require(together < 1, f"--private-scaling and --impute private must leave some of ε, they take {together:g} of it.")
    ranges = "--private-scaling needs --bounds: moments are taken of columns that are cut to public ranges."
    require(private_scaling is None or data.ranges is not None, ranges)
    return shares


def conditions_of(data: Dataset) -> Conditions | None:
    """Return the public numbers of a table that a rule may choose by; None for images."""
    from seedscope.datasets import default_scaling  # start-up
    from seedscope.mechanisms import Conditions  # start-up

    return Conditions.of(data, default_scaling(data).fit(data)) if data.features.ndim == 2 else None


def _private(data: Dataset, costs: dict[str, tuple[float, float]]) -> Scaling:
    """Return the preprocessing whose private parts have this price for a row."""
    from seedscope.datasets import Bounded, Imputed, PrivateMoments, PrivateValues, with_imputation  # start-up

    lower, upper = zip(*(data.ranges or ()), strict=True)
    scaling: Scaling = Bounded(lower, upper)
    if SCALING in costs:
        epsilon, delta = costs[SCALING]
        scaling = PrivateMoments(lower, upper, epsilon=epsilon, delta=delta)
    if IMPUTATION not in costs:
        return with_imputation(scaling, data)
    epsilon, delta = costs[IMPUTATION]
    assert isinstance(data.imputation, PrivateValues)
    return Imputed(replace(data.imputation, epsilon=epsilon, delta=delta), scaling)


def _for_a_person(
    given: MechanismOptions, name: str, epsilon: float | None, delta: float | None, rows: int
) -> MechanismOptions:
    """Return the options at the ε and δ of a row that give a person of this many rows the ε and δ asked for."""
    if epsilon is None or rows == 1:
        return replace(given, epsilon=epsilon, delta=delta)
    of_a_row, share = _of_a_row(epsilon, DELTA if delta is None else delta, rows, epsilon)
    return replace(given, epsilon=of_a_row, delta=None if name == "objective" else share)


def _of_a_row(epsilon: float, delta: float, rows: int, together: float) -> tuple[float, float]:
    """Return the (ε, δ) of a row that is (ε, δ) of a person of this many rows, as a part of what costs ε together."""
    return epsilon / rows, delta * math.expm1(together / rows) / math.expm1(together)


def warn_of_size(mechanism: Mechanism, data: Dataset) -> None:
    """Warn where the number of rows is private, decides rate and noise, and so could show in the weights."""
    if mechanism.size_shows(len(data.base), math.prod(data.features.shape[1:])):
        warnings.warn(
            f"the number of training rows decides rate and noise, and counts as public; with this few rows for "
            f"{mechanism.last_step:,} steps give --public-size, a number that is known without the data.",
            SeedscopeWarning,
            stacklevel=2,
        )
