"""One privacy level of an audit: what each analysis finds in one ensemble, or the reason why it was left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from seedscope.analyses.intrinsic import IntrinsicPrivacy, intrinsic_privacy
from seedscope.analyses.membership.likelihood_ratio import LEAST_SEEDS, MembershipTests, likelihood_ratio_tests
from seedscope.analyses.multiplicity import Multiplicity, multiplicity
from seedscope.ensemble import Ensemble
from seedscope.errors import SeedscopeError, require
from seedscope.grid import BASE
from seedscope.number import Number
from seedscope.statistics import mean_interval

ARBITRARY = 0.5  # a disagreement from here on: two re-trainings decide differently at least one time in four


@dataclass(frozen=True)
class LeftOut:
    """An analysis that was not run, and why."""

    analysis: str
    reason: str


@dataclass(frozen=True, eq=False)
class Level:
    """What was found at one privacy level.

    `tested` are the places on the person axis of the test people, `audited` of the people whose membership was
    attacked. The arrays of `multiplicity` follow the former, of `membership` and `audited_multiplicity` the latter.
    """

    label: str
    ensemble: Ensemble
    tested: np.ndarray
    multiplicity: Multiplicity
    accuracies: np.ndarray
    audited: np.ndarray
    audited_multiplicity: Multiplicity | None
    membership: MembershipTests | None
    intrinsic: IntrinsicPrivacy | None
    left_out: tuple[LeftOut, ...]
    stores: tuple[str, ...]
    models: int
    confidence: float

    @property
    def guarantee(self) -> dict[str, Any]:
        """The mechanism's guarantee, as the ensemble describes it."""
        return self.ensemble.description["guarantee"]

    @property
    def proved_epsilon(self) -> float | None:
        """The proved ε, or None."""
        epsilon = self.guarantee["epsilon"]
        return None if epsilon is None else float(epsilon["value"])

    @property
    def accuracy(self) -> Number:
        """The mean test accuracy over re-trainings, with its interval."""
        low, high = mean_interval(self.accuracies, self.confidence)
        mean = float(self.accuracies.mean())
        return Number(mean, "estimate", max(0.0, float(low)), min(1.0, float(high)), self.confidence)

    @property
    def arbitrary_share(self) -> Number:
        """The share of test people whose decision is arbitrary; its interval holds for all of them at once."""
        found = self.multiplicity
        shares = [float((one >= ARBITRARY).mean()) for one in (found.disagreement, found.lower, found.upper)]
        return Number(shares[0], "statistical", shares[1], shares[2], self.confidence)

    @property
    def exceeds_proof(self) -> bool:
        """Whether an attack proved more than the guarantee allows: then the training has a bug."""
        if self.membership is None or self.proved_epsilon is None:
            return False
        return float(self.membership.set_epsilon_lower) > self.proved_epsilon


def examine(base: Ensemble, shadows: Ensemble | None = None, *, confidence: float = 0.95) -> Level:
    """Return what the analyses find in one ensemble; `shadows` holds the neighbours where they were trained apart."""
    require("scores" in base.dataset, "an audit needs recorded scores; train with Records(probes=…).")
    left_out: list[LeftOut] = []
    attacked = base if shadows is None else shadows
    tested, scores, labels = scored(base, "test")
    audited, membership = _membership(attacked, confidence, left_out)
    ensembles = [base] if shadows is None else [base, shadows]
    return Level(
        label=_label(base),
        ensemble=base,
        tested=tested,
        multiplicity=multiplicity(scores, labels, _groups(base, tested), confidence=confidence),
        accuracies=_accuracies(scores, labels),
        audited=audited,
        audited_multiplicity=_multiplicity_of_audited(attacked, membership, confidence),
        membership=membership,
        intrinsic=_intrinsic(attacked, left_out),
        left_out=tuple(left_out),
        stores=tuple(str(one.path) for one in ensembles if one.path),
        models=sum(
            one.dataset.sizes["seed"] * one.dataset.sizes["neighbour"] * len(one.dataset["init"]) for one in ensembles
        ),
        confidence=confidence,
    )


def scored(ensemble: Ensemble, part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the people of a part, the base models' scores [model, person(, class)] and the labels."""
    chosen = np.flatnonzero(ensemble.texts("example_part") == part)
    require(len(chosen), f"an audit needs scores on {part!r}; add it to Records(probes=…) and train again.")
    here = ensemble.dataset.isel(example=chosen, init=-1).sel(neighbour=BASE)
    return here["example_person"].values, _last_step(here["scores"]).values, here["example_label"].values


def _multiplicity_of_audited(
    ensemble: Ensemble, membership: MembershipTests | None, confidence: float
) -> Multiplicity | None:
    """Return the multiplicity of the people whose membership was attacked, by the models that have them."""
    if membership is None:
        return None
    scores = scored(ensemble, "neighbour")[1]
    return multiplicity(scores, confidence=confidence)


def _groups(ensemble: Ensemble, people: np.ndarray) -> dict[str, np.ndarray]:
    """Return each group attribute's value for these people."""
    names = ensemble.description["data"]["groups"]
    return {name: ensemble.texts(f"group_{k}")[people] for k, name in enumerate(names)}


def _accuracies(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return each model's accuracy."""
    predicted = scores > 0.5 if scores.ndim == 2 else scores.argmax(-1)
    return (predicted == labels).mean(1)


def _membership(
    ensemble: Ensemble, confidence: float, left_out: list[LeftOut]
) -> tuple[np.ndarray, MembershipTests | None]:
    """Return the people whose membership was attacked, and the attacks, from models with and without each."""
    seeds, neighbours = ensemble.dataset.sizes["seed"], ensemble.dataset.sizes["neighbour"] - 1
    part = ensemble.texts("example_part")
    nobody = np.zeros(0, int)
    if neighbours == 0 or not (part == "neighbour").any():
        left_out.append(LeftOut("membership", "no models without a person were trained; use --neighbours."))
        return nobody, None
    if seeds < LEAST_SEEDS:
        left_out.append(LeftOut("membership", f"{seeds} seeds are too few, {LEAST_SEEDS} are needed; use --models."))
        return nobody, None
    with_losses, without_losses = paired_losses(ensemble)
    delta = ensemble.description["guarantee"]["delta"]
    tests = likelihood_ratio_tests(with_losses, without_losses, confidence=confidence, delta=delta)
    return ensemble.dataset["example_person"].values[part == "neighbour"], tests


def paired_losses(ensemble: Ensemble) -> tuple[np.ndarray, np.ndarray]:
    """Return losses [seed, person] on each neighbour's row: of models with that row, and of models without it."""
    dataset = ensemble.dataset
    own = np.flatnonzero(ensemble.texts("example_part") == "neighbour")
    losses = _last_step(dataset["losses"].isel(init=-1)).isel(example=own).values  # [seed, neighbour, person]
    person = np.arange(len(own))
    return losses[:, 0], losses[:, person + 1, person]


def _intrinsic(ensemble: Ensemble, left_out: list[LeftOut]) -> IntrinsicPrivacy | None:
    """Return the intrinsic privacy of plain SGD, or None with the reason."""
    kind = ensemble.description["mechanism"]["type"]
    if kind != "SGD":
        left_out.append(LeftOut("intrinsic privacy", f"it is about plain SGD; {kind} adds noise of its own."))
        return None
    try:
        return intrinsic_privacy(ensemble)
    except SeedscopeError as error:
        left_out.append(LeftOut("intrinsic privacy", str(error)))
        return None


def _last_step(records: Any) -> Any:
    """Return the records at the last checkpoint."""
    return records.isel(step=-1) if "step" in records.dims else records


def _label(ensemble: Ensemble) -> str:
    """Return a level's name: its ε, or its mechanism where none is proved."""
    epsilon = ensemble.description["guarantee"]["epsilon"]
    return ensemble.description["mechanism"]["type"] if epsilon is None else f"ε = {epsilon['value']:g}"
