"""Mechanisms side by side at the same proved risk: what each of them costs in accuracy and in arbitrary decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seedscope.accounting import Risk, TradeOff
from seedscope.analyses import multiplicity
from seedscope.analyses.privacy_loss import everybody
from seedscope.auditing.levels import ARBITRARY
from seedscope.core import (
    BASE,
    DELTA,
    RELATION_WORDS,
    Number,
    Relation,
    SeedscopeError,
    has_networks,
    last_step,
    networks_missing,
    require,
    require_count,
    require_type,
    unknown_name,
    varied_init,
)
from seedscope.datasets import Dataset, FittedScaling, default_scaling
from seedscope.execution import train
from seedscope.mechanisms import (
    DPSGD,
    Conditions,
    GaussianObjectivePerturbation,
    Mechanism,
    ObjectivePerturbation,
    OutputPerturbation,
    only_if,
)
from seedscope.numerics import mean_interval
from seedscope.planning import Grid, Records

if TYPE_CHECKING:
    from seedscope.storage import Ensemble

Done = Callable[[int, int], None]  # told how many models are trained, and of how many
CONFIDENCE = 0.95
NO_PRIVACY = "no privacy"
TITLES = {
    NO_PRIVACY: "no privacy (ε = ∞)",
    "gaussian-objective": "objective perturbation, Gaussian",
    "objective": "objective perturbation, pure ε",
    "output": "output perturbation",
    "dpsgd": "DP-SGD",
}
PRIVATE = tuple(TITLES)[1:]
LARGEST_EPSILON = 50.0
USUALLY_BEST: dict[Relation, str] = {
    "replace_one": "gaussian-objective",
    "add_or_remove": "dpsgd",
}  # docs/mechanisms.md


@dataclass(frozen=True)
class Contender:
    """One mechanism at the common risk: what is guaranteed, and what its models are worth.

    `curve` bounds every membership attack on anyone; `most_exposed` is what the best possible attack gains on
    the person of this data set who is most exposed (None where too few models tell). `accuracy` is the
    mean over re-trainings, its interval that of people like the test people; `disagreement` the test people's mean.
    """

    name: str
    mechanism: Mechanism
    epsilon: Number | None
    delta: float
    curve: TradeOff | None
    accuracy: Number
    disagreement: Number
    arbitrary_share: Number
    most_exposed: Number | None = None
    assumes: tuple[str, ...] = ()  # what would have to be public for its ε to be proved

    @property
    def title(self) -> str:
        """The name for people to read."""
        return TITLES[self.name]

    @property
    def advantage_upper(self) -> Number | None:
        """What no membership attack on anyone gains more than; None without a guarantee."""
        return None if self.curve is None else self.curve.advantage

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        numbers = ("epsilon", "advantage_upper", "most_exposed", "accuracy", "disagreement", "arbitrary_share")
        own: dict[str, Number | None] = {name: getattr(self, name) for name in numbers}
        plain = {name: None if number is None else number.as_dict() for name, number in own.items()}
        mechanism, curve = self.mechanism.describe(), None if self.curve is None else self.curve.as_dict()
        about = {"name": self.name, "title": self.title, "delta": self.delta}
        return about | plain | {"trade_off": curve, "mechanism": mechanism}


@dataclass(frozen=True)
class Comparison:
    """The contenders at one risk under one neighbour relation, the one without privacy first."""

    data: str
    relation: Relation
    risk: str
    models: int
    contenders: tuple[Contender, ...]
    left_out: Mapping[str, str]

    @property
    def recommended(self) -> Contender:
        """The most accurate private one; of those as accurate within their intervals, the least arbitrary."""
        private = [rival for rival in self.contenders if rival.name != NO_PRIVACY]
        best = max(private, key=lambda rival: rival.accuracy.value)
        near = [rival for rival in private if rival.accuracy.value >= (best.accuracy.lower or 0.0)]
        return min(near, key=lambda rival: rival.disagreement.value)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What follows, in words: the recommendation, what privacy costs, and what having looked costs."""
        best, free = self.recommended, self.contenders[0]
        private = len(self.contenders) - 1
        lost = 100 * (free.accuracy.value - best.accuracy.value)
        usual = USUALLY_BEST[self.relation]
        without = "" if usual in self.left_out else f": without other knowledge take {TITLES[usual]}"
        return (
            f"Best at {self.risk}: {best.title}, accuracy {100 * best.accuracy.value:.1f} %, "
            f"mean disagreement {best.disagreement.value:.3f}.",
            f"Privacy costs {lost:.1f} points of accuracy here.",
            kind_of_epsilon(best.assumes),
            f"The price of having looked: this table is not private. Who trains all {private} privately and releases "
            f"the best one spends {private} times the ε and δ on everybody (or trains each at 1/{private} of them). A "
            f"mechanism that is fixed before the data are looked at costs nothing more{without}.",
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "data": self.data, "relation": RELATION_WORDS[self.relation], "risk": self.risk, "models": self.models,
            "contenders": [rival.as_dict() for rival in self.contenders], "recommended": self.recommended.name,
            "sentences": list(self.sentences), "left_out": dict(self.left_out),
        }  # fmt: skip


def compare(
    data: Dataset,
    *,
    epsilon: float | None = None,
    delta: float = DELTA,
    advantage: float | None = None,
    true_positive_rate: float | None = None,
    false_positive_rate: float | None = None,
    relation: Relation = "add_or_remove",
    mechanisms: Iterable[str] = PRIVATE,
    models: int = 200,
    seed: int = 0,
    store: str | Path | None = None,
    jobs: int | None = None,
    progress: Callable[[str], Done | None] | None = None,
) -> Comparison:
    """Return mechanisms trained on the same data at the same proved risk, and beside them no privacy at all.

    Args:
        data: of two or more classes.
        epsilon, delta: the common guarantee; ε = 1 unless another risk is given, δ = 1e-6.
        advantage: instead, what no membership attack may exceed.
        true_positive_rate, false_positive_rate: instead, what no attack may reach at this rate of false alarms.
        relation: the neighbours of *every* guarantee; DP-SGD is compared where one is added or removed.
        mechanisms: names, of "gaussian-objective", "objective", "output", "dpsgd".
        models: re-trainings of each.
        seed: the root seed.
        store: a folder of the models; without one they are kept in memory.
        progress: called with each mechanism's name, gives what is told how many models are done.

    >>> import seedscope as ss
    >>> found = ss.compare(ss.load("breast-cancer"), epsilon=2, mechanisms=["gaussian-objective"], models=20, jobs=1)
    >>> found.recommended.name, found.contenders[0].epsilon is None
    ('gaussian-objective', True)
    """
    require_type("data", data, Dataset, "load(name) or read_table(file, target=…) give one")
    require_count("models", models, at_least=2)
    scaling = default_scaling(data).fit(data)
    conditions = Conditions.of(data, scaling)
    wanted = _wanted(mechanisms)
    left_out = _left_out(wanted, relation)
    risk = None if advantage is None and true_positive_rate is None and false_positive_rate is None else Risk(
        advantage, true_positive_rate, false_positive_rate
    )  # fmt: skip
    require(risk is None or epsilon is None, "compare takes either epsilon or another risk, not both.")
    aim = Aim(1.0 if epsilon is None else epsilon, delta, risk, relation)
    made = {name: aim.mechanism(name, conditions) for name in wanted if name not in left_out}
    left_out |= _refusals(made, conditions)  # before anything is trained
    chosen = {name: mechanism for name, mechanism in made.items() if name not in left_out}
    why = "; ".join(f"{TITLES[name]}: {reason}" for name, reason in left_out.items())
    require(len(chosen) > 0, f"no mechanism is left to compare: {why}.", argument="epsilon" if made else "relation")
    contenders = [
        _contender(name, data, scaling, mechanism, models, seed, store, jobs, progress(name) if progress else None)
        for name, mechanism in {NO_PRIVACY: ObjectivePerturbation(inf), **chosen}.items()
    ]
    return Comparison(data.name, relation, str(aim), models, tuple(contenders), left_out)


@dataclass(frozen=True)
class Aim:
    """The common risk: (ε, δ), or a limit of membership attacks at this δ."""

    epsilon: float
    delta: float
    risk: Risk | None
    relation: Relation

    def mechanism(self, name: str, conditions: Conditions) -> Mechanism:
        """Return the mechanism with the least noise that keeps the risk."""
        if self.risk is None:
            return self._at(name, self.epsilon, conditions)
        if name == "dpsgd":
            return DPSGD.public(conditions, delta=self.delta, risk=self.risk)
        return self._at(name, self._largest_epsilon(name, conditions), conditions)

    def _at(self, name: str, epsilon: float, conditions: Conditions) -> Mechanism:
        """Return the mechanism at an ε."""
        if name == "objective":
            return ObjectivePerturbation(epsilon, relation=self.relation)
        if name == "gaussian-objective":
            return GaussianObjectivePerturbation(epsilon, self.delta, relation=self.relation)
        if name == "output":
            return OutputPerturbation(epsilon, self.delta, relation=self.relation)
        return DPSGD.public(conditions, epsilon, self.delta)

    def _largest_epsilon(self, name: str, conditions: Conditions) -> float:
        """Return the largest ε, rounded down, at which the mechanism keeps the risk."""
        low, high = 1e-6, LARGEST_EPSILON
        for _ in range(40):
            middle = float(np.sqrt(low * high))
            curve = self._at(name, middle, conditions).trade_off(conditions)
            kept = self.risk is not None and curve is not None and self.risk.met_by(curve)
            low, high = (middle, high) if kept else (low, middle)
        return low

    def __str__(self) -> str:
        return f"ε = {self.epsilon:g}, δ = {self.delta:.2g}" if self.risk is None else str(self.risk)


def _wanted(mechanisms: Iterable[str]) -> list[str]:
    """Return the names, each once, or raise at one that is not known."""
    names = list(dict.fromkeys(mechanisms))
    for name in names:
        if name not in PRIVATE:
            raise unknown_name("mechanism", name, PRIVATE)
    return names


def _left_out(names: list[str], relation: Relation) -> dict[str, str]:
    """Return the mechanisms that cannot be compared, each with the reason."""
    if "dpsgd" not in names:
        return {}
    if relation == "replace_one":
        return {"dpsgd": "its noise is calibrated for adding and removing a person; compare with add_or_remove"}
    return {} if has_networks() else {"dpsgd": str(networks_missing("DP-SGD")).removesuffix(".")}


def _refusals(made: Mapping[str, Mechanism], conditions: Conditions) -> dict[str, str]:
    """Return the mechanisms that refuse such data, with their reason: too small an ε for one may do for another."""
    refused = {}
    for name, mechanism in made.items():
        try:
            mechanism.check(conditions)
        except SeedscopeError as error:
            refused[name] = str(error).removesuffix(".")
    return refused


def _contender(
    name: str, data: Dataset, scaling: FittedScaling, mechanism: Mechanism, models: int, seed: int,
    store: str | Path | None, jobs: int | None, progress: Done | None,
) -> Contender:  # fmt: skip
    """Return a mechanism with what its trained models are worth."""
    unknown = data.base.persons is not None and mechanism.cannot_lose_together(data.base.most_rows, data.classes)
    unknown = unknown or mechanism.cannot_record("privacy_losses")
    everyone: Literal["train"] | None = None if unknown or name == NO_PRIVACY else "train"
    ensemble = train(
        data, mechanism, grid=Grid(models, root_seed=seed), records=Records(probes=("test",), losses_of=everyone),
        jobs=jobs, store=None if store is None else Path(store) / name.replace(" ", "-"), progress=progress,
    )  # fmt: skip
    return contender(name, ensemble, data)


def most_exposed(ensemble: Ensemble, data: Dataset) -> Number | None:
    """Return what the best possible attack gains on the most exposed person, for all at once; None if not known."""
    try:
        losses = everybody(ensemble, data=data, confidence=CONFIDENCE)
    except SeedscopeError:
        return None
    value, lower, upper = (
        float(values.max()) for values in (losses.advantage, losses.advantage_lower, losses.advantage_upper)
    )
    return Number(value, losses.kind, lower, upper, None if losses.kind == "proved" else CONFIDENCE)


def contender(name: str, ensemble: Ensemble, data: Dataset) -> Contender:
    """Return what trained models of a mechanism are worth."""
    decided = multiplicity.multiplicity(ensemble, confidence=CONFIDENCE)
    guarantee, conditions = ensemble.guarantee, ensemble.description.conditions
    curve = None if guarantee.epsilon is None else ensemble.mechanism.trade_off(conditions)
    shares = [float((values >= ARBITRARY).mean()) for values in (decided.disagreement, decided.lower, decided.upper)]
    return Contender(
        name=name,
        mechanism=ensemble.mechanism,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        curve=curve,
        accuracy=_accuracy(ensemble),
        disagreement=decided.mean,
        arbitrary_share=Number(shares[0], "statistical", shares[1], shares[2], CONFIDENCE),
        most_exposed=None if guarantee.epsilon is None else most_exposed(ensemble, data),
        assumes=guarantee.assumes,
    )


def kind_of_epsilon(assumes: tuple[str, ...]) -> str:
    """Return a sentence on the kind of a table's ε.

    >>> kind_of_epsilon(())
    'Each ε is proved.'
    """
    return f"Each ε is an estimate: {only_if(assumes)}." if assumes else "Each ε is proved."


def _accuracy(ensemble: Ensemble) -> Number:
    """Return the mean accuracy over re-trainings; its interval is over the test people."""
    scores = last_step(varied_init(ensemble.scores.sel(neighbour=BASE))).values
    labels = ensemble.dataset.example_label.values
    decided = scores.argmax(-1) if scores.ndim == 3 else (scores > 0.5).astype(int)
    right = (decided == labels).mean(axis=0)
    low, high = mean_interval(right, CONFIDENCE)
    return Number(float(right.mean()), "estimate", max(0.0, float(low)), min(1.0, float(high)), CONFIDENCE)
