"""What can be done about arbitrary decisions, and what it costs: in privacy, people left undecided, and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from seedscope.analyses import multiplicity
from seedscope.auditing.comparison import kind_of_epsilon
from seedscope.auditing.levels import ARBITRARY, scored
from seedscope.auditing.released import CERTAIN, told_by_released
from seedscope.core import Number, SeedscopeError, require, require_count
from seedscope.datasets import Dataset, FittedScaling, Scaling, default_scaling
from seedscope.execution import train
from seedscope.mechanisms import Conditions, Mechanism
from seedscope.planning import Grid, Records
from seedscope.storage import Ensemble

CONFIDENCE = 0.95
MORE = (1.5, 2.0, 3.0, 5.0)  # times ε: what weaker privacy would do
RULE_WORDS: dict[multiplicity.Rule, str] = {
    "average": "average of {k} models", "consensus": "majority of {k} models",
    "unanimous": "abstain unless {k} models agree",
}  # fmt: skip
Progress = Callable[[str], Callable[[int, int], None] | None]  # told a level's name, gives what counts its models


@dataclass(frozen=True)
class Remedy:
    """A way to decide less arbitrarily, the privacy that it costs in all, and what it is worth.

    `spending` says how: "as it is", "composed" (each model at the given ε), "split" (all of them together at the given
    ε), "free" (post-processing of one released model) or "weaker" (one model at a larger ε).
    """

    title: str
    together: int
    spending: str
    epsilon: Number
    delta: float
    arbitrary_share: Number
    undecided: Number
    accuracy: Number | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        numbers = {name: getattr(self, name) for name in ("epsilon", "arbitrary_share", "undecided", "accuracy")}
        plain = {name: None if number is None else number.as_dict() for name, number in numbers.items()}
        names = ("title", "together", "spending", "delta")
        return {name: getattr(self, name) for name in names} | plain


@dataclass(frozen=True)
class PricedRemedies:
    """Remedies for one mechanism on one data set, decisions as they are first; `wanted` is the share to reach."""

    data: str
    mechanism: str
    models: int
    wanted: float
    remedies: tuple[Remedy, ...]
    left_out: Mapping[str, str]
    assumes: tuple[str, ...] = ()  # what would have to be public for the ε to be proved

    @property
    def enough(self) -> tuple[Remedy, ...]:
        """Those that come down to the wanted share, the cheapest first: by ε in all, then by people left undecided."""
        reached = [remedy for remedy in self.remedies if remedy.arbitrary_share.value <= self.wanted]
        return tuple(
            sorted(
                reached, key=lambda remedy: (round(remedy.epsilon.value, 6), remedy.undecided.value, remedy.together)
            )
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """What follows, in words."""
        now, share = self.remedies[0], _percent(self.remedies[0].arbitrary_share)
        said = [f"As it is, {share} of the decisions are arbitrary at ε = {now.epsilon.value:g}."]
        if not self.enough:
            tried = f"No remedy that was tried comes down to {100 * self.wanted:g} %."
            return (*said, tried, kind_of_epsilon(self.assumes), LOOKED)
        best = self.enough[0]
        further = best.epsilon.value > now.epsilon.value * (1 + 1e-9)
        extra = f"ε = {best.epsilon.value:.3g} in all" if further else "no further privacy"
        undecided = f", and leaves {_percent(best.undecided)} of the people undecided" if best.undecided.value else ""
        decided = next((remedy for remedy in self.enough if not remedy.undecided.value), None)
        if best.undecided.value:
            whole = (
                "none"
                if decided is None
                else f"{decided.title} ({decided.spending}), ε = {decided.epsilon.value:.3g} in all"
            )
            undecided += f"; cheapest of those that leave nobody undecided: {whole}"
        reach = f"Cheapest for {100 * self.wanted:g} %: {best.title} ({best.spending}), which costs {extra}{undecided}"
        end = best.arbitrary_share.upper
        open_end = "" if end is None or end <= self.wanted else f"; its interval reaches {100 * end:.1f} %"
        return (*said, f"{reach}{open_end}.", kind_of_epsilon(self.assumes), LOOKED)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "data": self.data, "mechanism": self.mechanism, "models": self.models, "wanted": self.wanted,
            "remedies": [remedy.as_dict() for remedy in self.remedies], "sentences": list(self.sentences),
            "cheapest": self.enough[0].title if self.enough else None, "left_out": dict(self.left_out),
        }  # fmt: skip


LOOKED = "The table itself is not private: choose by it on public or similar data, or count the look."


def price_remedies(
    data: Dataset,
    mechanism: Mechanism,
    *,
    wanted: float = 0.05,
    together: Sequence[int] = (3, 5),
    models: int = 600,
    scaling: Scaling | None = None,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> PricedRemedies:
    """Return what averaging, consensus, abstention and weaker privacy do about arbitrary decisions, and their price.

    Several models cost several times the privacy (composed), or each gets less of it (split); both are measured, over
    groups of models. Abstention by the released model alone is free, where the mechanism permits it.

    Args:
        data: with a test part.
        mechanism: with a guarantee; its level is the one that remedies start from. A person must be one row and the
            scaling spend nothing: otherwise the ε of the whole is not the mechanism's own, and is refused.
        wanted: the share of arbitrary decisions to come down to.
        together: k, how many models decide together.
        models: re-trainings at each level.
        scaling: default as for `train`.
        seed: the root seed.
        progress: called with each level's name, gives what is told how many models are done.

    >>> import seedscope as ss
    >>> mechanism = ss.OutputPerturbation(4.0, 1e-5)
    >>> found = ss.price_remedies(ss.load("breast-cancer"), mechanism, together=[2], models=20, jobs=1)
    >>> [one.title for one in found.remedies[:3]]
    ['as it is', 'abstain by the released model alone', 'weaker privacy, 1.5 ε']
    """
    require(0 <= wanted < 1, f"wanted must be a share of decisions in [0, 1), got {wanted}.", argument="wanted")
    require_count("models", models, at_least=2)
    for k in together:
        require(1 < k <= models // 2, f"together must be between 2 and half of the {models} models, got {k}.")
    fitted = (scaling or default_scaling(data)).fit(data)
    mechanism.require_alone(Conditions.of(data, fitted))
    bench = Bench(
        data, mechanism, fitted, partial(_scores, data, scaling, Grid(models, root_seed=seed), jobs, progress)
    )
    remedies, left_out = [*bench.alone(), *bench.weaker()], {}
    for k in together:
        remedies += bench.composed(k)
        try:
            remedies += bench.split(k)
        except SeedscopeError as error:
            require(error.argument == "epsilon", str(error))  # so little of ε is left that no model results
            left_out[f"ε split over {k}"] = str(error)
    assumes = mechanism.guarantee(bench.conditions).assumes
    return PricedRemedies(data.name, mechanism.words(), models, wanted, tuple(remedies), left_out, assumes)


@dataclass(frozen=True, eq=False)
class Bench:
    """Where remedies are tried: the data, the mechanism whose level they start from, and what trains at a level."""

    data: Dataset
    mechanism: Mechanism
    scaling: FittedScaling
    trained: Callable[[Mechanism, str], Ensemble]

    @property
    def conditions(self) -> Conditions:
        """What guarantees depend on."""
        return Conditions.of(self.data, self.scaling)

    @cached_property
    def price(self) -> tuple[float, float]:
        """The (ε, δ) of one model."""
        return self.mechanism.repeated(1, self.conditions)

    @cached_property
    def base(self) -> Ensemble:
        """The models at the level that remedies start from."""
        return self.trained(self.mechanism, "as it is")

    def alone(self) -> list[Remedy]:
        """Return one model as it is, and abstention by it alone where noise of a public scale is on its weights."""
        remedies = [self._single("as it is", "as it is", self.base, self.price)]
        told = told_by_released(self.base, self.data, CONFIDENCE)
        if told is None:
            return remedies
        decided = np.where(told.certain(CERTAIN), told.decided, multiplicity.ABSTAINED)
        return [*remedies, self._priced("abstain by the released model alone", 1, "free", self.price, decided)]

    def weaker(self) -> list[Remedy]:
        """Return one model at larger ε."""
        (epsilon, delta), remedies = self.price, []
        for times in MORE:
            level = self.mechanism.at_level(times * epsilon, delta, self.conditions)
            ensemble = self.trained(level, f"{times:g} times ε")
            remedies.append(self._single(f"weaker privacy, {times:g} ε", "weaker", ensemble, (times * epsilon, delta)))
        return remedies

    def composed(self, k: int) -> list[Remedy]:
        """Return the rules of k models, each at the given ε."""
        return self._by_rules(self.base, k, "composed", self.mechanism.repeated(k, self.conditions))

    def split(self, k: int) -> list[Remedy]:
        """Return the rules of k models that together cost the given ε."""
        level = self.mechanism.shared(k, self.conditions)
        return self._by_rules(self.trained(level, f"ε split over {k}"), k, "split", self.price)

    def _by_rules(self, ensemble: Ensemble, k: int, spending: str, price: tuple[float, float]) -> list[Remedy]:
        """Return what each rule of k models is worth, at this price in all."""
        scores = scored(ensemble, "test")[1]
        return [
            self._priced(words.format(k=k), k, spending, price, multiplicity.pooled_decisions(scores, k, rule))
            for rule, words in RULE_WORDS.items()
        ]

    def _single(self, title: str, spending: str, ensemble: Ensemble, price: tuple[float, float]) -> Remedy:
        """Return what decisions by one model are worth."""
        decided = multiplicity.pooled_decisions(scored(ensemble, "test")[1], 1, "average")
        return self._priced(title, 1, spending, price, decided)

    def _price(self, epsilon: float) -> Number:
        """Return an ε in all, of the kind that the mechanism's guarantee has here."""
        own = self.mechanism.require_alone(self.conditions).epsilon
        assert own is not None
        return Number(epsilon, own.kind, note=own.note)

    def _priced(self, title: str, k: int, spending: str, price: tuple[float, float], decided: np.ndarray) -> Remedy:
        """Return a remedy with its price and its worth."""
        worth = multiplicity.pooled_worth(decided, self.data.test.labels, ARBITRARY, CONFIDENCE)
        epsilon, delta = self._price(price[0]), price[1]
        return Remedy(title, k, spending, epsilon, delta, worth.arbitrary_share, worth.undecided, worth.accuracy)


def _scores(
    data: Dataset, scaling: Scaling | None, grid: Grid, jobs: int | None, progress: Progress | None,
    level: Mechanism, name: str,
) -> Ensemble:  # fmt: skip
    """Return models at a level, with scores on the test part."""
    shown = progress(name) if progress else None
    return train(data, level, grid=grid, records=Records(probes=("test",)), scaling=scaling, jobs=jobs, progress=shown)


def _percent(number: Number) -> str:
    """Return a share in percent."""
    return f"{100 * number.value:.1f} %"
