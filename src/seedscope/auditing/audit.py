"""Puts the levels of an audit together: verdict, people, groups, trade-off, provenance."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.accounting import plain_meanings
from seedscope.auditing import people as people_module
from seedscope.auditing.advice import advice
from seedscope.auditing.groups import group_comparisons
from seedscope.auditing.intrinsic_people import plain_numbers
from seedscope.auditing.judged import plain_facts, plain_verdict, verdict_on
from seedscope.auditing.levels import ARBITRARY, Level, examine, level_labels
from seedscope.auditing.performance import performance, settings
from seedscope.auditing.policy import Policy, read_policy
from seedscope.auditing.relations import Finding, relations
from seedscope.auditing.sensitive import plain_told, require_sensitive
from seedscope.auditing.verdict import Verdict
from seedscope.auditing.words import GLOSSARY, NOTICE, PUBLIC_ALARM, describe_model, guarantee_meaning
from seedscope.core import (
    RELATION_WORDS,
    Number,
    number_or_none,
    plain_list,
    plain_values,
    printable,
    require,
    require_path,
    require_probability,
    require_type,
)
from seedscope.datasets import Dataset, Reading
from seedscope.mechanisms import NOT_COVERED, only_if
from seedscope.planning import Description
from seedscope.report import charts, render_summary, write_report
from seedscope.storage import Ensemble

if TYPE_CHECKING:
    import pandas

Stored = Ensemble | str | Path
FORMAT, VERSION = "seedscope-report", 1


@dataclass(frozen=True, eq=False)
class Audit:
    """What many re-trainings say about a model and about each person: levels, verdict, people."""

    levels: tuple[Level, ...]
    confidence: float = 0.95
    command: str = ""
    made: str = ""
    reading: Reading | None = None
    policy: Policy | None = None
    data: Dataset | None = None
    findings: tuple[Finding, ...] = ()
    configuration: str = ""

    @cached_property
    def verdict(self) -> Verdict:
        """Release, look first, change or stop under the policy; why; and the numbers that matter."""
        return verdict_on(self.levels, self.policy, self.data)

    @cached_property
    def facts(self) -> tuple[dict[str, Number | None], ...]:
        """What a policy can be about, for each level."""
        return tuple(dict(one) for one in self.verdict.all_facts)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What must not be overlooked: upper bounds that an attack beats, so that the training must have a bug."""
        return tuple(f"{level.label}: {sentence}" for level in self.levels for sentence in level.broken)

    @cached_property
    def individuals(self) -> pandas.DataFrame:
        """For every privacy level, one row for every input row in the original order."""
        return people_module.individuals(self.levels)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return everybody's numbers, tidy: one row for each person and privacy level (a copy of `individuals`)."""
        return self.individuals.copy()

    def as_dict(self, public: bool = False) -> dict[str, Any]:
        """Return everything that the page shows, as plain values; `public` keeps what does not depend on the data."""
        return _public(self) if public else _whole(self)

    def save(self, folder: str | Path, public: bool = False, parquet: bool = False) -> list[Path]:
        """Write report.html, report.json, individuals.csv and its dictionary.csv; return the paths.

        A public report has no individuals. `parquet` writes them as individuals.parquet too (extra `parquet`).
        """
        require_path("folder", folder)
        return write_report(Path(folder), self.as_dict(public), None if public else self.individuals, parquet)

    def __repr__(self) -> str:
        levels = ", ".join(level.label for level in self.levels)
        return f"Audit({_description(self).data.name!r}, {levels}: {self.verdict.headline})"

    def charts(self) -> Mapping[str, Any]:
        """Return the report's charts (Altair), by name, for a notebook."""
        return charts(self.as_dict())

    def _repr_html_(self) -> str:
        """The verdict, for a notebook."""
        return render_summary(self.as_dict())


def audit(
    *ensembles: Stored | tuple[Stored, Stored],
    data: Dataset | None = None,
    confidence: float = 0.95,
    command: str = "",
    policy: Policy | str | Path | None = None,
    fail_if: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    candidates: int = 10,
) -> Audit:
    """Return the audit of one ensemble, or of several privacy levels of the same data.

    Runs every analysis that the records permit and says why it left another out. Nothing is trained.

    Args:
        ensembles: one for each privacy level, with scores on the test part, and with neighbours for membership; or a
            pair: many seeds on the base, and fewer seeds with neighbours. A folder's name opens what is stored there.
        data: what they were trained on, for the bounds on reconstruction; the rest needs no rows.
        confidence: of all intervals.
        command: how to run it again, for the report.
        policy: the rules of the verdict, or the name of their TOML file; default Seedscope's own, which then decide no
            exit code.
        fail_if: conditions that must not hold, like "advantage>0.1".
        sensitive: columns of which it is asked how well they can be told by one who knows the rest; "record" for all
            features at once. For objective perturbation and DP-SGD of logistic regression; the latter is trained anew.
        candidates: among how many values a sensitive number or record is guessed; a category has its levels.
    """
    rules = policy if isinstance(policy, Policy) else read_policy(policy)
    rules = (rules if policy is None else rules.enforced()).with_conditions(fail_if)
    require_probability("confidence", confidence)
    pairs = [_pair(one) for one in ensembles]
    require(len(pairs) > 0, "an audit needs at least one ensemble.")
    prints = {one.description.data.fingerprint for pair in pairs for one in pair if one is not None}
    require(len(prints) == 1, "the ensembles of one audit must be of the same data, these are of different data.")
    if data is not None:
        require_type("data", data, Dataset, "give the data set that the ensembles were trained on")
    same = data is None or bool(prints & {data.fingerprint, data.former_fingerprint})
    require(same, "data must be what the ensembles were trained on; they were not.")
    require(not sensitive or data is not None, "sensitive columns need the rows themselves; give data=….")
    if data is not None:
        require_sensitive(data, tuple(sensitive), candidates)
    labels = level_labels([base for base, _ in pairs])
    levels = tuple(
        examine(
            base, shadows, label=label, data=data, confidence=confidence, sensitive=sensitive, candidates=candidates
        )
        for label, (base, shadows) in zip(labels, pairs, strict=True)
    )
    require(len(set(labels)) == len(labels), f"each privacy level must be there once, got {', '.join(labels)}.")
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Audit(levels, confidence, command, made, None if data is None else data.reading, rules, data)


def _pair(given: Stored | tuple[Stored, Stored]) -> tuple[Ensemble, Ensemble | None]:
    """Return the ensemble on the base and, where they are apart, that with neighbours."""
    return (_opened(given[0]), _opened(given[1])) if isinstance(given, tuple) else (_opened(given), None)


def _opened(ensemble: Stored) -> Ensemble:
    """Return the ensemble, opened if it is a folder's name."""
    found = Ensemble.open(ensemble) if isinstance(ensemble, str | Path) else ensemble
    return found if found.mechanism.records_weights else found.whole_seeds()


def _whole(audit: Audit) -> dict[str, Any]:
    """Return the whole report."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "public": False,
        "title": f"Audit of {_description(audit).data.name}",
        "alarms": list(audit.alarms),
        "audited": _audited(audit),
        "verdict": plain_verdict(audit.verdict, audit.levels),
        "levels": [
            _level(level) | {"measured": plain_facts(found)}
            for level, found in zip(audit.levels, audit.facts, strict=True)
        ],
        "performance": performance(audit.levels, audit.data),
        "people": _people(audit),
        "groups": group_comparisons(audit.levels),
        "relations": relations(audit.levels[audit.verdict.level]) + [one.as_dict() for one in audit.findings],
        "left_out": [{"analysis": one.analysis, "reason": one.reason} for one in _left_out(audit)],
        "advice": [plain_values(asdict(one)) for one in advice(audit.levels, audit.verdict.level)],
        **({} if audit.reading is None else {"reading": audit.reading.describe()}),
        "provenance": _provenance(audit),
        "glossary": [{"term": term, "meaning": meaning} for term, meaning in GLOSSARY.items()],
        "notice": NOTICE,
    }


def _public(audit: Audit) -> dict[str, Any]:
    """Return only what does not depend on the data: mechanism, model, the guarantees, and an alarm if there is one."""
    description = _description(audit)
    return {
        "format": FORMAT,
        "version": VERSION,
        "public": True,
        "title": "Privacy of a trained model",
        **({"alarms": [PUBLIC_ALARM]} if audit.alarms else {}),
        "audited": {
            "mechanism": description.mechanism.public_words(),
            "model": description.model.name,
            "relation": RELATION_WORDS[description.grid.relation],
        },
        "levels": [_public_level(one) for one in audit.levels],
        "provenance": {"seedscope": description.versions["seedscope"], "made": audit.made},
        "glossary": [{"term": term, "meaning": meaning} for term, meaning in GLOSSARY.items()],
        "notice": "This page has only facts that do not depend on anybody's data.",
    }


def _public_level(level: Level) -> dict[str, Any]:
    """Return a level's guarantee in round numbers, which tell nothing of how many rows there were; none if beaten."""
    beaten = bool(level.broken)
    epsilon, delta = level.guarantee.epsilon, rounded_up(level.guarantee.delta, digits=0)
    number = None if epsilon is None or beaten else replace(epsilon, value=rounded_up(epsilon.value, digits=3))
    reason = PUBLIC_ALARM if beaten else level.guarantee.reason
    shown = replace(level.guarantee, epsilon=number, delta=delta, reason=reason)
    value = None if number is None else number.value
    label = level.ensemble.mechanism.name if value is None else f"ε = {value:g}"
    words = {
        "relation": RELATION_WORDS[shown.relation],
        "meaning": guarantee_meaning(value, delta),
        "not_covered": list(NOT_COVERED),
    }
    return {"label": label, "epsilon": value, "delta": delta, "guarantee": shown.describe() | words}


def rounded_up(number: float, digits: int) -> float:
    """Return a number of this many digits that is not below; without any digit, a power of ten.

    >>> rounded_up(0.99987, 3), rounded_up(5.5e-6, 0), rounded_up(1e-5, 0), rounded_up(1.0, 3)
    (1.0, 1e-05, 1e-05, 1.0)
    """
    if not 0 < number < math.inf:
        return number
    if digits == 0:
        power = float(f"1e{math.floor(math.log10(number))}")
        return power if power >= number else float(f"1e{math.floor(math.log10(number)) + 1}")
    places = digits - 1 - math.floor(math.log10(number))
    nearest = round(number, places)
    return nearest if nearest >= number else round(nearest + 10.0**-places, places)


def _description(audit: Audit) -> Description:
    """Return the description of the first level's ensemble: data, model and grid are the same in all."""
    return audit.levels[0].ensemble.description


def _audited(audit: Audit) -> dict[str, Any]:
    """Return what was audited, in words and counts."""
    description = _description(audit)
    data = description.data
    return {
        "data": data.name,
        "source": data.source,
        "fingerprint": data.fingerprint,
        "train_rows": data.examples,
        "test_rows": data.test_examples,
        "features": int(np.prod(data.shape)),
        "classes": list(data.classes),
        "mechanism": description.mechanism.words(),
        "model": describe_model(description.model),
        "relation": RELATION_WORDS[description.grid.relation],
        "models": sum(level.models for level in audit.levels),
        "seeds": audit.levels[0].multiplicity.models,
        "neighbours": len(audit.levels[0].audited),
        "attacked": _attacked(audit),
    }


def _attacked(audit: Audit) -> str:
    """Return how many of the people trained on were attacked, where that is not everybody; else nothing."""
    level, people = audit.levels[0], _description(audit).data.examples
    loss = level.privacy_loss
    known = 0 if loss is None or loss.kind == "estimate" else len(loss.people)
    count = max(len(level.audited), known)
    if count >= people or level.attacked_elsewhere:
        return ""
    return f"{count:,} of {people:,} people were attacked; of the others only the guarantee speaks."


def _level(level: Level) -> dict[str, Any]:
    """Return one level's numbers as plain values."""
    tests, intrinsic = level.membership, level.intrinsic
    return {
        "label": level.label,
        "epsilon": level.claimed_epsilon,
        "delta": level.guarantee.delta,
        "guarantee": _guarantee(level),
        "accuracy": number_or_none(level.accuracy),
        "accuracy_smallest": float(level.accuracies.min()),
        "accuracy_largest": float(level.accuracies.max()),
        "mean_disagreement": number_or_none(level.multiplicity.mean),
        "arbitrary_share": number_or_none(level.arbitrary_share),
        "certain_share": None if level.certain is None else number_or_none(level.certain),
        "attack_advantage": None if tests is None else number_or_none(tests.set_advantage),
        "epsilon_lower": None if tests is None else number_or_none(tests.set_epsilon_lower),
        "mu_lower": None if tests is None else number_or_none(tests.set_mu_lower),
        "epsilon_lower_ceiling": None if tests is None else tests.ceiling,
        "curve_test": _curve_test(level),
        "intrinsic": None if intrinsic is None else _intrinsic(level),
        "sandwich": _sandwich(level),
        "everybody": _everybody(level),
        "reconstruction": None if level.reconstruction is None else level.reconstruction.as_dict(),
        "told": [plain_told(one) for one in level.told],
        "trade_off": _trade_off(level),
        "settings": settings(level),
        "meanings": _meanings(level),
        "roc": _roc(level),
    }


def _guarantee(level: Level) -> dict[str, Any]:
    """Return the guarantee with what it means for a person."""
    words = {
        "relation": RELATION_WORDS[level.guarantee.relation],
        "meaning": guarantee_meaning(level.claimed_epsilon, level.guarantee.delta),
        "not_covered": list(NOT_COVERED),
    }
    return level.guarantee.describe() | words


def _everybody(level: Level) -> dict[str, Any] | None:
    """Return the best possible attack on everybody who was trained on, in a few numbers."""
    found = level.privacy_loss
    if found is None:
        return None
    test = getattr(found, "self_test", None)
    return {
        "people": len(found.people),
        "largest": number_or_none(found.largest),
        "median": number_or_none(Number(float(np.median(found.advantage)), "estimate")),
        "attacker": found.attacker,
        "self_test": None if test is None else test.sentence,
    }


def _meanings(level: Level) -> list[str]:
    """Return what the guarantee bounds, in plain sentences; none where nothing is guaranteed."""
    if level.trade_off is None or level.claimed_epsilon is None:
        return []
    rates = level.trade_off.as_dict()["true_positive_rates"]
    return list(plain_meanings(level.claimed_epsilon, float(level.trade_off.advantage), rates))


def _trade_off(level: Level) -> dict[str, Any] | None:
    """Return the guarantee's curve: what any membership attack can achieve at most."""
    return None if level.trade_off is None else level.trade_off.as_dict()


def _curve_test(level: Level) -> dict[str, Any] | None:
    """Return the attack on the most exposed person against the guarantee's curve; None without either."""
    found = None if level.membership is None else level.membership.set_curve
    if found is None:
        return None
    return {**plain_values(asdict(found)), "exceeded": found.exceeded}


def _sandwich(level: Level) -> dict[str, Any] | None:
    """Return both sides of privacy: what the attack proves, and each kind of upper bound."""
    found, own = level.sandwich, level.per_instance
    if found is None:
        return None
    return {
        "holds": found.holds,
        "could_fail": found.could_fail,
        "sentence": found.sentence,
        "relation": RELATION_WORDS[level.attack_relation],
        "largest_statistical": None
        if own is None
        else _largest(own.epsilon_statistical, "statistical", own.confidence),
        "largest_estimate": None if own is None else _largest(own.epsilon, "estimate", None),
    }


def _largest(values: np.ndarray, kind: Any, confidence: float | None) -> dict[str, Any] | None:
    """Return the largest of people's values as a number of that kind; None where nobody has one."""
    known = values[np.isfinite(values)]
    return number_or_none(Number(float(known.max()), kind, confidence=confidence)) if len(known) else None


def _roc(level: Level) -> dict[str, Any] | None:
    """Return the attack's curve, with the guarantee's limit where there is one."""
    tests = level.membership
    if tests is None:
        return None
    curve = {
        "false_positive_rate": plain_list(tests.roc_false_positive_rate),
        "true_positive_rate": plain_list(tests.roc_true_positive_rate),
    }
    limit = level.true_positive_limit(tests.roc_false_positive_rate)
    return curve if limit is None else curve | {"true_positive_limit": plain_list(limit)}


def _intrinsic(level: Level) -> dict[str, Any]:
    """Return the intrinsic analysis' numbers: of the people first, then one for all as in the papers."""
    names = ("sensitivity_bound", "sensitivity_strict", "variability_flat", "variability_eigen", "epsilon_strict")
    for_all = {name: getattr(level.intrinsic, name) for name in names}
    return {name: number_or_none(one) for name, one in (plain_numbers(level) | for_all).items() if one is not None}


def _people(audit: Audit) -> dict[str, Any]:
    """Return the people on the page, column by column."""
    shown, selection = people_module.shown_people(audit.levels)
    ensemble = audit.levels[0].ensemble
    attributes = range(len(_description(audit).data.groups))
    groups = [np.unique(ensemble.texts(f"group_{k}"), return_inverse=True)[1] for k in attributes]
    return {
        "total": int(ensemble.dataset.sizes["person"]),
        "shown": len(shown),
        "selection": selection,
        "kinds": _kinds(audit),
        "id": ensemble.texts("person_id")[shown].tolist(),
        "part": ensemble.texts("person_part")[shown].tolist(),
        "label": ensemble.dataset["person_label"].values[shown].tolist(),
        "groups": [codes[shown].tolist() for codes in groups],
        "levels": [_person_columns(level, shown) for level in audit.levels],
    }


def _kinds(audit: Audit) -> dict[str, Any]:
    """Return of which kind the numbers in each of the people's columns are."""
    statistical = {"kind": "statistical", "confidence": audit.confidence}
    found = next((level.reconstruction for level in audit.levels if level.reconstruction), None)
    return {
        "agreement": {"kind": "estimate"},
        "disagreement": {**statistical, "note": _disagreement_note(audit)},
        "epsilon_upper": _upper_kind(audit),
        "epsilon_statistical": {**statistical, "note": "for all people audited at once"},
        "epsilon_estimate": {"kind": "estimate"},
        "epsilon_lower": {**statistical, "note": "for all people audited at once"},
        "membership_advantage": {"kind": "estimate"},
        "advantage": _advantage_kind(audit),
        "reconstruction": {"kind": "proved"} if found is None else {"kind": found.kind, "note": found.note},
        "uncertainty_left": _left_kind(audit),
    }


def _disagreement_note(audit: Audit) -> str:
    """Return for whom the intervals hold together, and which models decided about training people."""
    trained = any(len(level.trained) for level in audit.levels)
    inside = "; of training people by models that have them, unless they were attacked" if trained else ""
    return f"for all people of a part at once{inside}"


def _left_kind(audit: Audit) -> dict[str, Any]:
    """Return of which kind the shares of uncertainty left are."""
    found = next((level.reconstruction for level in audit.levels if level.reconstruction), None)
    note = "no attacker, biased or not, who starts from the population's spread"
    confidence = None if found is None else found.confidence
    return {"kind": "estimate", "note": note} | ({} if confidence is None else {"confidence": confidence})


def _upper_kind(audit: Audit) -> dict[str, Any]:
    """Return of which kind the guaranteed ε is: proved only if it is at every level."""
    unproved = next((one.guarantee for one in audit.levels if one.guarantee.assumes), None)
    if unproved is None:
        return {"kind": "proved", "note": "the same for everybody trained on"}
    noted = "" if unproved.epsilon is None else unproved.epsilon.note
    return {"kind": "estimate", "note": noted or only_if(unproved.assumes)}


def _advantage_kind(audit: Audit) -> dict[str, Any]:
    """Return of which kind the best attack's advantages are, and who the attacker is."""
    found = next((level.privacy_loss for level in audit.levels if level.privacy_loss), None)
    if found is None:
        return {"kind": "estimate"}
    sampled = found.sampling_confidence
    confidence = {} if sampled is None else {"confidence": sampled}
    return {"kind": found.kind, **confidence, "note": f"for all at once; the attacker {found.attacker}"}


def _person_columns(level: Level, shown: np.ndarray) -> dict[str, Any]:
    """Return one level's columns of the people shown."""
    columns = {name: plain_list(values[shown]) for name, values in people_module.columns(level).items()}
    for name in ("predicted", "in_models"):
        columns[name] = [None if one is None else int(one) for one in columns[name]]
    return {**columns, "ranked": people_module.ranked(level)}


def _left_out(audit: Audit) -> list[Any]:
    """Return the analyses that were left out at any level, each reason once."""
    return list(dict.fromkeys(one for level in audit.levels for one in level.left_out))


def _place(store: str) -> str:
    """Return a store's name, without what its path tells about its owner's machine."""
    return printable("/".join([one for one in Path(store).parts if one not in ("..", "/")][-2:]))


def _provenance(audit: Audit) -> dict[str, Any]:
    """Return where the report came from and how to make it again."""
    description = _description(audit)
    return {
        "command": audit.command,
        **({"configuration": audit.configuration} if audit.configuration else {}),
        "seedscope": description.versions["seedscope"],
        "versions": dict(description.versions),
        "root_seed": description.grid.root_seed,
        "data_fingerprint": description.data.fingerprint,
        "made": audit.made,
        "stores": [_place(store) for level in audit.levels for store in level.stores],
    }


__all__ = ["ARBITRARY", "Audit", "audit"]
