"""One privacy level of an audit: what each analysis finds in one ensemble, or the reason why it was left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from seedscope.accounting import TradeOff
from seedscope.analyses.intrinsic import (
    IntrinsicPrivacy,
    PersonalPrivacy,
    intrinsic_privacy,
    intrinsic_privacy_of_people,
)
from seedscope.analyses.membership import LEAST_SEEDS, MembershipTests, likelihood_ratio_tests
from seedscope.analyses.multiplicity import (
    GroupDisagreement,
    Multiplicity,
    multiplicity,
    pooled_decisions,
    pooled_worth,
)
from seedscope.analyses.per_instance import PerInstancePrivacy, epsilon_true_positive_rate, per_instance_privacy
from seedscope.analyses.privacy_loss import LEAST_RUNS, PrivacyLoss, claimed_curve, everybody, everybody_redrawn
from seedscope.analyses.reconstruction import Guessing
from seedscope.auditing.quantities import TOGETHER
from seedscope.auditing.records import Reconstruction, person_places, reconstruction
from seedscope.auditing.released import certain_share
from seedscope.auditing.sandwich import Sandwich, make_sandwich
from seedscope.auditing.sensitive import told
from seedscope.auditing.words import LAST, TIGHTER
from seedscope.core import BASE, Number, Relation, SeedscopeError, last_step, require, varied_init
from seedscope.datasets import Dataset
from seedscope.execution import stand_ins_of
from seedscope.mechanisms import Guarantee
from seedscope.numerics import mean_interval
from seedscope.storage import Ensemble

Found = TypeVar("Found")
LEAST_MAJORITIES = 20  # of which a share is counted
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
    `accuracies` has one entry for each model, `right` for each test person: the share of models that decide rightly.
    `drawn` of the people audited were drawn at random, the others chosen by name.
    `audited_multiplicity` is by models without each of them if `audited_apart`, else by models that have them; so is
    `trained_multiplicity`, of the people in `trained`: all that were trained on, where they were scored.
    `per_instance`, `privacy_loss` (the best possible attack on each) and `reconstruction` name their own people;
    `intrinsic_people` is about the people audited. `certain` is the share of test people whom a released model
    could certify by itself, where it can. `owners` says whose each place on the person axis is, where people have
    several rows and the data were given. `epsilon_last` is the ε of the last weights alone, where a smaller one is
    proved.
    """

    label: str
    ensemble: Ensemble
    tested: np.ndarray
    multiplicity: Multiplicity
    accuracies: np.ndarray
    right: np.ndarray
    audited: np.ndarray
    drawn: int
    audited_multiplicity: Multiplicity | None
    membership: MembershipTests | None
    intrinsic: IntrinsicPrivacy | None
    per_instance: PerInstancePrivacy | None
    reconstruction: Reconstruction | None
    attack_relation: Relation
    left_out: tuple[LeftOut, ...]
    stores: tuple[str, ...]
    models: int
    confidence: float
    privacy_loss: PrivacyLoss | None = None
    told: tuple[Guessing, ...] = ()
    trained: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    trained_multiplicity: Multiplicity | None = None
    audited_apart: bool = False
    intrinsic_people: PersonalPrivacy | None = None
    certain: Number | None = None
    owners: np.ndarray | None = None
    epsilon_last: Number | None = None
    arbitrary_together: Number | None = None

    @property
    def guarantee(self) -> Guarantee:
        """The mechanism's guarantee, as the ensemble describes it."""
        return self.ensemble.guarantee

    @property
    def claimed_epsilon(self) -> float | None:
        """The guarantee's ε, be it proved or an estimate, or None."""
        epsilon = self.guarantee.epsilon
        return None if epsilon is None else epsilon.value

    @property
    def attacked_elsewhere(self) -> bool:
        """Whether the models without people were trained elsewhere, so that nobody knows who else was trained on."""
        return "losses_without" in self.ensemble.dataset

    @property
    def retrainings(self) -> int:
        """How many models were trained on the data as they are."""
        return self.multiplicity.models

    @property
    def accuracy(self) -> Number:
        """The mean test accuracy over re-trainings, with its interval."""
        low, high = mean_interval(self.accuracies, self.confidence)
        mean = float(self.accuracies.mean())
        return Number(mean, "estimate", max(0.0, float(low)), min(1.0, float(high)), self.confidence)

    @property
    def arbitrary_share(self) -> Number:
        """The share of test people whose decision is arbitrary; its interval holds for all of them at once."""
        decided = self.multiplicity
        shares = [
            float((values >= ARBITRARY).mean()) for values in (decided.disagreement, decided.lower, decided.upper)
        ]
        return Number(shares[0], "statistical", shares[1], shares[2], self.confidence)

    @property
    def contestable_epsilon(self) -> float | None:
        """The guarantee's ε that the attack can be held against: only where both are about the same relation."""
        same = self.attack_relation == self.guarantee.relation
        return self.claimed_epsilon if same else None

    @cached_property
    def sandwich(self) -> Sandwich | None:
        """What the attack proves against what is proved or accounted from above; None where nobody was attacked."""
        if self.membership is None:
            return None
        words = self.attack_relation.replace("_", "-")
        return make_sandwich(
            self.membership, self.contestable_epsilon, self.per_instance, self.audited, words, self.guarantee.assumes
        )

    @cached_property
    def trade_off(self) -> TradeOff | None:
        """What any membership attack can achieve at most by the guarantee; None where nothing is proved."""
        if self.guarantee.epsilon is None:
            return None
        return self.ensemble.mechanism.trade_off(self.ensemble.description.conditions)

    @cached_property
    def epsilon_tighter(self) -> Number | None:
        """The guarantee's ε by its privacy-loss distribution, of the same kind; None where that is not tighter."""
        curve, epsilon = self.trade_off, self.guarantee.epsilon
        if curve is None or epsilon is None or not self._adds_noise_to_sums:
            return None
        value = float(curve.epsilon(self.guarantee.delta))
        return Number(value, epsilon.kind, note=TIGHTER) if value < epsilon.value * (1 - 1e-9) else None

    @property
    def _adds_noise_to_sums(self) -> bool:
        """Whether the level was trained by noisy sums of gradients, whose losses compose over steps."""
        return self.ensemble.mechanism.noisy_sums(self.ensemble.description.data.examples) is not None

    @property
    def broken(self) -> tuple[str, ...]:
        """What contradicts the guarantee, by the tried attack or by everybody's loss."""
        tried = () if self.sandwich is None else tuple(self.sandwich.broken)
        return tried if self.privacy_loss is None else (*tried, *self.privacy_loss.alarms)

    @property
    def false_alarm(self) -> float:
        """The largest probability that a right training looks broken."""
        tried = 0.0 if self.sandwich is None else self.sandwich.false_alarm
        return tried + (0.0 if self.privacy_loss is None else self.privacy_loss.false_alarm)

    def true_positive_limit(self, false_positive_rate: np.ndarray) -> np.ndarray | None:
        """Return the largest true-positive rates that the guarantee permits; None where nothing is proved."""
        if self.contestable_epsilon is None:
            return None
        if self.trade_off is not None:
            return self.trade_off.true_positive_rate(false_positive_rate)
        return epsilon_true_positive_rate(self.contestable_epsilon, self.guarantee.delta, false_positive_rate)


def examine(
    base: Ensemble,
    shadows: Ensemble | None = None,
    *,
    label: str = "",
    data: Dataset | None = None,
    confidence: float = 0.95,
    sensitive: Sequence[str] = (),
    candidates: int = 10,
) -> Level:
    """Return what the analyses find in one ensemble; `shadows` holds the neighbours where they were trained apart."""
    require("scores" in base.dataset, "an audit needs recorded scores; train with Records(probes=…).")
    left_out: list[LeftOut] = []
    attacked = base if shadows is None else shadows
    tested, scores, labels = scored(base, "test")
    right = _right(scores, labels)
    audited, membership = _membership(attacked, confidence, left_out)
    trained = base.dataset["example_person"].values[base.texts("example_part") == "train"]
    intrinsic = _intrinsic(attacked, left_out)
    ensembles = [base] if shadows is None else [base, shadows]
    return Level(
        label=label or level_labels([base])[0],
        ensemble=base,
        tested=tested,
        multiplicity=doubled_chance(
            multiplicity(
                scores,
                labels,
                _groups(base, tested),
                confidence=confidence,
                latest=base.latest,
                stand_ins=None if data is None else stand_ins_of(base, data),
            )
        ),
        accuracies=right.mean(1),
        right=right.mean(0),
        audited=audited,
        drawn=0
        if "losses_without" in attacked.dataset
        else max(0, len(audited) - len(attacked.description.grid.people)),
        audited_multiplicity=_multiplicity_of_audited(attacked, membership, confidence),
        audited_apart=attacked.dataset.sizes["neighbour"] > 1,
        arbitrary_together=_by_majority(scores, labels, confidence),
        trained=trained,
        trained_multiplicity=_multiplicity_of_trained(base, confidence),
        membership=membership,
        intrinsic=intrinsic,
        intrinsic_people=None
        if intrinsic is None
        else _tried(
            "intrinsic privacy of each person",
            left_out,
            lambda: intrinsic_privacy_of_people(attacked, confidence=confidence),
        ),
        per_instance=_tried(
            "ε of each person", left_out, lambda: per_instance_privacy(_at_hand(attacked), confidence=confidence)
        ),
        privacy_loss=_tried(
            "the best possible attack on everybody",
            left_out,
            lambda: _best_attacks(base, attacked, data, confidence),
        ),
        reconstruction=_tried("reconstruction", left_out, lambda: reconstruction(base, data)),
        told=_told(base, data, sensitive, candidates, confidence, left_out),
        certain=None if data is None else certain_share(base, data, confidence),
        owners=_owners(base, data),
        epsilon_last=_epsilon_last(base, left_out),
        attack_relation=attacked.relation,
        left_out=tuple(left_out),
        stores=tuple(str(ensemble.path) for ensemble in ensembles if ensemble.path),
        models=sum(
            ensemble.dataset.sizes["seed"] * ensemble.dataset.sizes["neighbour"] * len(ensemble.dataset["init"])
            for ensemble in ensembles
        ),
        confidence=confidence,
    )


def _owners(ensemble: Ensemble, data: Dataset | None) -> np.ndarray | None:
    """Return whose each place on the person axis is; None where every row is a person, or nobody knows."""
    if data is None or data.base.persons is None:
        return None
    size, places = ensemble.dataset.sizes["person"], person_places(data)
    owners = np.arange(size)
    owners[places] = size + data.base.persons
    return owners


def _epsilon_last(ensemble: Ensemble, left_out: list[LeftOut]) -> Number | None:
    """Return the ε of the last weights alone, if no step before is ever seen; None where no smaller one is proved."""
    last, every = ensemble.mechanism.last_iterate(ensemble.description.conditions), ensemble.guarantee.epsilon
    if last is None or every is None:
        return None
    if last.epsilon is not None and last.epsilon.value < every.value:
        return replace(last.epsilon, note="; ".join(filter(None, [LAST, last.epsilon.note])))
    reason = last.reason if last.epsilon is None else "steps fade too slowly to hide more than that of all steps does."
    left_out.append(LeftOut("ε of the last weights alone", reason))
    return None


def _told(
    ensemble: Ensemble,
    data: Dataset | None,
    columns: Sequence[str],
    candidates: int,
    confidence: float,
    left_out: list[LeftOut],
) -> tuple[Guessing, ...]:
    """Return how well each sensitive column can be told."""
    guessed = (
        _tried(f"telling {column}", left_out, partial(told, ensemble, data, column, candidates, confidence))
        for column in columns
    )
    return tuple(guessing for guessing in guessed if guessing is not None)


def _best_attacks(base: Ensemble, attacked: Ensemble, data: Dataset | None, confidence: float) -> PrivacyLoss:
    """Return the best possible attack on everybody; from too few runs an estimate, for those whose norms are known."""
    few = base.dataset.sizes["seed"] < LEAST_RUNS and "privacy_losses" in base.dataset
    if few and "gradient_norms" in attacked.dataset:
        return everybody_redrawn(attacked, confidence=confidence)
    return everybody(base, data=data, confidence=confidence)


def scored(ensemble: Ensemble, part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the people of a part, the base models' scores [model, person(, class)] and the labels."""
    chosen = np.flatnonzero(ensemble.texts("example_part") == part)
    require(len(chosen), f"an audit needs scores on {part!r}; add it to Records(probes=…) and train again.")
    chosen_scores = varied_init(ensemble.dataset).isel(example=chosen).sel(neighbour=BASE)
    return (
        chosen_scores["example_person"].values,
        last_step(chosen_scores["scores"]).values,
        chosen_scores["example_label"].values,
    )


def _multiplicity_of_audited(
    ensemble: Ensemble, membership: MembershipTests | None, confidence: float
) -> Multiplicity | None:
    """Return the multiplicity of the people whose membership was attacked: by models without them, where there are."""
    if membership is None:
        return None
    apart = ensemble.dataset.sizes["neighbour"] > 1
    scores = (_scores_apart(ensemble) if apart else scored(ensemble, "neighbour")[1])[:, _first_rows(ensemble)]
    return doubled_chance(multiplicity(scores, confidence=confidence, latest=ensemble.latest))


def _scores_apart(ensemble: Ensemble) -> np.ndarray:
    """Return the scores [seed, row(, class)] of each neighbour's rows by the models without that person."""
    own = np.flatnonzero(ensemble.texts("example_part") == "neighbour")
    scores = last_step(varied_init(ensemble.dataset["scores"])).isel(example=own)
    by_data_set = scores.transpose("seed", "neighbour", "example", ...).values
    values: np.ndarray = by_data_set[:, owners_of_rows(ensemble) + 1, np.arange(len(own))]
    return values


def _multiplicity_of_trained(ensemble: Ensemble, confidence: float) -> Multiplicity | None:
    """Return the multiplicity of everybody trained on, by models that have them; None where they were not scored."""
    if not (ensemble.texts("example_part") == "train").any():
        return None
    scores = scored(ensemble, "train")[1]
    return doubled_chance(multiplicity(scores, confidence=confidence, latest=ensemble.latest))


def doubled_chance(decided: Multiplicity) -> Multiplicity:
    """Return the multiplicity with disagreement as twice the chance that two re-trainings differ, for any classes.

    Beyond two classes the one-vs-rest mean is (4/K)·P(f ≠ f'), so that "1 is a coin toss" would not hold.
    """
    factor = decided.classes / 2
    if factor == 1:
        return decided
    groups = {
        name: replace(attribute, groups=tuple(_scaled_group(group, factor) for group in attribute.groups))
        for name, attribute in decided.groups.items()
    }
    scaled = {name: factor * getattr(decided, name) for name in ("disagreement", "lower", "upper")}
    return replace(decided, mean=_scaled(decided.mean, factor), groups=groups, **scaled)


def _scaled_group(group: GroupDisagreement, factor: float) -> GroupDisagreement:
    """Return a group's numbers times a factor."""
    population = None if group.population is None else _scaled(group.population, factor)
    return replace(group, disagreement=_scaled(group.disagreement, factor), population=population)


def _scaled(number: Number, factor: float) -> Number:
    """Return a number and its interval times a factor."""
    lower, upper = (None if end is None else factor * end for end in (number.lower, number.upper))
    return replace(number, value=factor * number.value, lower=lower, upper=upper)


def _groups(ensemble: Ensemble, people: np.ndarray) -> dict[str, np.ndarray]:
    """Return each group attribute's value for these people."""
    names = ensemble.description.data.groups
    return {name: ensemble.texts(f"group_{k}")[people] for k, name in enumerate(names)}


def _by_majority(scores: np.ndarray, labels: np.ndarray, confidence: float) -> Number | None:
    """Return the share of arbitrary decisions where a majority of models decides; None without some majorities."""
    if len(scores) < LEAST_MAJORITIES * TOGETHER:
        return None
    return pooled_worth(pooled_decisions(scores, TOGETHER, "consensus"), labels, ARBITRARY, confidence).arbitrary_share


def _right(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return whether each model decides rightly about each person, [model, person]."""
    predicted = scores > 0.5 if scores.ndim == 2 else scores.argmax(-1)
    right: np.ndarray = predicted == labels
    return right


def _membership(
    ensemble: Ensemble, confidence: float, left_out: list[LeftOut]
) -> tuple[np.ndarray, MembershipTests | None]:
    """Return the people whose membership was attacked, and the attacks, from models with and without each."""
    seeds = ensemble.dataset.sizes["seed"]
    apart = ensemble.dataset.sizes["neighbour"] > 1 or "losses_without" in ensemble.dataset
    part = ensemble.texts("example_part")
    nobody = np.zeros(0, int)
    if not apart or not (part == "neighbour").any():
        left_out.append(LeftOut("membership", "no models without a person were trained; train with neighbours."))
        return nobody, None
    if seeds < LEAST_SEEDS:
        few = f"{seeds} re-trainings with and without each person are too few, {LEAST_SEEDS} are needed"
        left_out.append(LeftOut("membership", f"{few}; train more neighbour models."))
        return nobody, None
    with_losses, without_losses = paired_losses(ensemble)
    delta, owners = ensemble.guarantee.delta, owners_of_rows(ensemble)
    tests = likelihood_ratio_tests(
        with_losses, without_losses, confidence=confidence, delta=delta, curve=claimed_curve(ensemble), owners=owners
    )
    return ensemble.dataset["example_person"].values[part == "neighbour"][_first_rows(ensemble)], tests


def owners_of_rows(ensemble: Ensemble) -> np.ndarray:
    """Return which neighbour each of the attacked rows is of: where people have several, all of theirs are attacked."""
    own = ensemble.texts("example_part") == "neighbour"
    known = "example_neighbour" in ensemble.dataset
    owners: np.ndarray = ensemble.dataset["example_neighbour"].values[own] if known else np.arange(own.sum())
    return owners


def _first_rows(ensemble: Ensemble) -> np.ndarray:
    """Return the places of the attacked rows that stand for their people."""
    return np.unique(owners_of_rows(ensemble), return_index=True)[1]


def paired_losses(ensemble: Ensemble) -> tuple[np.ndarray, np.ndarray]:
    """Return losses [seed, row] on each neighbour's rows: of models with that person, and of models without."""
    dataset = ensemble.dataset
    own = np.flatnonzero(ensemble.texts("example_part") == "neighbour")
    if "losses_without" in dataset:  # models without each person were not kept on a grid of their own
        paired = varied_init(dataset).isel(example=own)
        return paired["losses"].isel(neighbour=0).values, paired["losses_without"].values
    losses = last_step(varied_init(dataset["losses"])).isel(example=own).values  # [seed, neighbour, row]
    return losses[:, 0], losses[:, owners_of_rows(ensemble) + 1, np.arange(len(own))]


def _intrinsic(ensemble: Ensemble, left_out: list[LeftOut]) -> IntrinsicPrivacy | None:
    """Return the intrinsic privacy of plain SGD, or None with the reason."""
    mechanism = ensemble.mechanism
    if mechanism.adds_noise:
        left_out.append(LeftOut("intrinsic privacy", f"it is about plain SGD; {mechanism.name} adds noise of its own."))
        return None
    if not mechanism.records_weights:
        left_out.append(
            LeftOut("intrinsic privacy", f"it is about plain SGD's weights; of {mechanism.name} none are known.")
        )
        return None
    return _tried("intrinsic privacy", left_out, lambda: intrinsic_privacy(ensemble))


def _tried(analysis: str, left_out: list[LeftOut], run: Callable[[], Found]) -> Found | None:
    """Return what an analysis finds, or None with the reason that it gives for refusing."""
    try:
        return run()
    except SeedscopeError as error:
        left_out.append(LeftOut(analysis, str(error)))
        return None


def _at_hand(ensemble: Ensemble) -> Ensemble:
    """Return the ensemble with its gradient norms in memory: they are gone through person by person."""
    if "gradient_norms" not in ensemble.dataset:
        return ensemble
    return replace(ensemble, dataset=ensemble.dataset.assign(gradient_norms=ensemble.dataset["gradient_norms"].load()))


def level_labels(ensembles: Sequence[Ensemble]) -> list[str]:
    """Return the levels' names: each its ε, with as many digits as tell them apart, or its mechanism without one."""
    epsilons = [ensemble.guarantee.epsilon for ensemble in ensembles]
    known = {float(epsilon) for epsilon in epsilons if epsilon is not None}
    digits = next(n for n in range(4, 18) if len({f"{epsilon:.{n}g}" for epsilon in known}) == len(known))
    return [
        _without_epsilon(ensemble) if epsilon is None else f"ε = {epsilon.value:.{digits}g}"
        for ensemble, epsilon in zip(ensembles, epsilons, strict=True)
    ]


def _without_epsilon(ensemble: Ensemble) -> str:
    """Return the name of a level without an ε: what was asked to be private without limit says that it is not."""
    asked = getattr(ensemble.mechanism, "epsilon", None)
    return "no privacy (ε = ∞)" if asked == float("inf") else ensemble.mechanism.name
