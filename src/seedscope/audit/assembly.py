"""Puts the levels of an audit together: verdict, people, groups, trade-off, provenance."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.audit import people as people_module
from seedscope.audit.groups import group_comparisons
from seedscope.audit.levels import ARBITRARY, Level, examine
from seedscope.audit.plain import number_or_none, plain_list
from seedscope.audit.relations import relations
from seedscope.audit.verdict import Verdict, preferred, verdict
from seedscope.audit.words import (
    GLOSSARY,
    NOTICE,
    RELATIONS,
    describe_mechanism,
    describe_model,
    guarantee_meaning,
)
from seedscope.datasets.dataset import Dataset
from seedscope.ensemble import Ensemble
from seedscope.errors import require
from seedscope.number import Number

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

    @cached_property
    def verdict(self) -> Verdict:
        """Release, change the noise, or talk to these people first; why; and the three numbers that matter."""
        return verdict(self.levels)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What must not be overlooked: upper bounds that an attack beats, so that the training must have a bug."""
        found = [(level.label, level.sandwich.broken) for level in self.levels if level.sandwich]
        return tuple(f"{label}: {sentence}" for label, broken in found for sentence in broken)

    @cached_property
    def individuals(self) -> pandas.DataFrame:
        """One row for every input row, in the original order."""
        return people_module.individuals(self.levels)

    def as_dict(self, public: bool = False) -> dict[str, Any]:
        """Return everything that the page shows, as plain values; `public` keeps what does not depend on the data."""
        return _public(self) if public else _whole(self)

    def save(self, folder: str | Path, public: bool = False) -> list[Path]:
        """Write report.html, report.json and individuals.csv (a public report has no individuals); return the paths."""
        from seedscope.report import write_report

        return write_report(Path(folder), self.as_dict(public), None if public else self.individuals)

    def charts(self) -> Mapping[str, Any]:
        """Return the report's charts (Altair), by name, for a notebook."""
        from seedscope.report import charts

        return charts(self.as_dict())

    def _repr_html_(self) -> str:
        """The verdict, for a notebook."""
        from html import escape

        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(one.name)}</th><td>{escape(str(one.number))}</td>"
            f"<td>{escape(one.meaning)}</td></tr>"
            for one in self.verdict.numbers
        )
        return f"<h3>{escape(self.verdict.headline)}</h3><table>{rows}</table>"


def audit(
    *ensembles: Stored | tuple[Stored, Stored],
    data: Dataset | None = None,
    confidence: float = 0.95,
    command: str = "",
) -> Audit:
    """Return the audit of one ensemble, or of several privacy levels of the same data.

    Runs every analysis that the records permit and says why it left another out. Nothing is trained.

    Args:
        ensembles: one for each privacy level, with scores on the test part, and with neighbours for membership; or a
            pair: many seeds on the base, and fewer seeds with neighbours. A folder's name opens what is stored there.
        data: what they were trained on, for the bounds on reconstruction; the rest needs no rows.
        confidence: of all intervals.
        command: how to run it again, for the report.
    """
    pairs = [_pair(one) for one in ensembles]
    require(len(pairs) > 0, "an audit needs at least one ensemble.")
    prints = {one.description["data"]["fingerprint"] for pair in pairs for one in pair if one is not None}
    require(len(prints) == 1, "the ensembles of one audit must be of the same data, these are of different data.")
    require(
        data is None or data.fingerprint in prints, "data must be what the ensembles were trained on; they were not."
    )
    levels = tuple(examine(base, shadows, data=data, confidence=confidence) for base, shadows in pairs)
    labels = [level.label for level in levels]
    require(len(set(labels)) == len(labels), f"each privacy level must be there once, got {', '.join(labels)}.")
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Audit(levels, confidence, command, made)


def _pair(given: Stored | tuple[Stored, Stored]) -> tuple[Ensemble, Ensemble | None]:
    """Return the ensemble on the base and, where they are apart, that with neighbours."""
    return (_opened(given[0]), _opened(given[1])) if isinstance(given, tuple) else (_opened(given), None)


def _opened(ensemble: Stored) -> Ensemble:
    """Return the ensemble, opened if it is a folder's name."""
    return Ensemble.open(ensemble) if isinstance(ensemble, str | Path) else ensemble


def _whole(audit: Audit) -> dict[str, Any]:
    """Return the whole report."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "public": False,
        "title": f"Audit of {_description(audit)['data']['name']}",
        "alarms": list(audit.alarms),
        "audited": _audited(audit),
        "verdict": _verdict(audit.verdict),
        "levels": [_level(level) for level in audit.levels],
        "people": _people(audit),
        "groups": group_comparisons(audit.levels),
        "relations": relations(preferred(audit.levels)),
        "left_out": [{"analysis": one.analysis, "reason": one.reason} for one in _left_out(audit)],
        "provenance": _provenance(audit),
        "glossary": [{"term": term, "meaning": meaning} for term, meaning in GLOSSARY.items()],
        "notice": NOTICE,
    }


def _public(audit: Audit) -> dict[str, Any]:
    """Return only what does not depend on the data: mechanism, model, and the proved guarantees."""
    description = _description(audit)
    return {
        "format": FORMAT,
        "version": VERSION,
        "public": True,
        "title": "Privacy of a trained model",
        "audited": {
            "mechanism": describe_mechanism(description["mechanism"]),
            "model": describe_model(description["model"]),
            "relation": RELATIONS[description["grid"]["relation"]],
        },
        "levels": [
            {
                "label": one.label,
                "epsilon": one.proved_epsilon,
                "delta": one.guarantee["delta"],
                "guarantee": _guarantee(one),
            }
            for one in audit.levels
        ],
        "provenance": {"seedscope": description["versions"]["seedscope"], "made": audit.made},
        "glossary": [{"term": term, "meaning": meaning} for term, meaning in GLOSSARY.items()],
        "notice": "This page has only facts that do not depend on anybody's data.",
    }


def _description(audit: Audit) -> dict[str, Any]:
    """Return the description of the first level's ensemble: data, model and grid are the same in all."""
    return audit.levels[0].ensemble.description


def _audited(audit: Audit) -> dict[str, Any]:
    """Return what was audited, in words and counts."""
    description = _description(audit)
    data = description["data"]
    return {
        "data": data["name"],
        "source": data["source"],
        "fingerprint": data["fingerprint"],
        "train_rows": data["examples"],
        "test_rows": data["test_examples"],
        "features": int(np.prod(data["shape"])),
        "classes": data["classes"],
        "mechanism": describe_mechanism(description["mechanism"]),
        "model": describe_model(description["model"]),
        "relation": RELATIONS[description["grid"]["relation"]],
        "models": sum(level.models for level in audit.levels),
        "seeds": audit.levels[0].multiplicity.models,
        "neighbours": len(audit.levels[0].audited),
    }


def _verdict(found: Verdict) -> dict[str, Any]:
    """Return the verdict as plain values."""
    numbers = [
        {"name": one.name, "number": number_or_none(one.number), "meaning": one.meaning, "show": one.show}
        for one in found.numbers
    ]
    return {
        "tone": found.tone,
        "headline": found.headline,
        "sentences": list(found.sentences),
        "numbers": numbers,
        "level": found.level,
    }


def _level(level: Level) -> dict[str, Any]:
    """Return one level's numbers as plain values."""
    tests, intrinsic = level.membership, level.intrinsic
    return {
        "label": level.label,
        "epsilon": level.proved_epsilon,
        "delta": level.guarantee["delta"],
        "guarantee": _guarantee(level),
        "accuracy": number_or_none(level.accuracy),
        "accuracy_smallest": float(level.accuracies.min()),
        "accuracy_largest": float(level.accuracies.max()),
        "mean_disagreement": number_or_none(level.multiplicity.mean),
        "arbitrary_share": number_or_none(level.arbitrary_share),
        "attack_advantage": None if tests is None else number_or_none(tests.set_advantage),
        "epsilon_lower": None if tests is None else number_or_none(tests.set_epsilon_lower),
        "epsilon_lower_ceiling": None if tests is None else tests.ceiling,
        "intrinsic": None if intrinsic is None else _intrinsic(intrinsic),
        "sandwich": _sandwich(level),
        "roc": _roc(level),
    }


def _guarantee(level: Level) -> dict[str, Any]:
    """Return the guarantee with what it means for a person."""
    words = {
        "relation": RELATIONS[level.guarantee["relation"]],
        "meaning": guarantee_meaning(level.proved_epsilon, level.guarantee["delta"]),
    }
    return level.guarantee | words


def _sandwich(level: Level) -> dict[str, Any] | None:
    """Return both sides of privacy: what the attack proves, and each kind of upper bound."""
    found, own = level.sandwich, level.per_instance
    if found is None:
        return None
    return {
        "holds": found.holds,
        "could_fail": found.could_fail,
        "sentence": found.sentence,
        "relation": RELATIONS[level.attack_relation],
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


def _intrinsic(found: Any) -> dict[str, Any]:
    """Return the intrinsic analysis' numbers."""
    names = ("sensitivity_bound", "sensitivity_strict", "variability_flat", "variability_eigen", "epsilon_strict")
    return {name: number_or_none(one) for name in names if (one := getattr(found, name)) is not None}


def _people(audit: Audit) -> dict[str, Any]:
    """Return the people on the page, column by column."""
    shown, selection = people_module.shown_people(audit.levels)
    ensemble = audit.levels[0].ensemble
    attributes = range(len(_description(audit)["data"]["groups"]))
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
        "disagreement": {**statistical, "note": "for all people of a part at once"},
        "epsilon_upper": {"kind": "proved", "note": "the same for everybody trained on"},
        "epsilon_statistical": {**statistical, "note": "for all people audited at once"},
        "epsilon_estimate": {"kind": "estimate"},
        "epsilon_lower": {**statistical, "note": "for each person alone"},
        "membership_advantage": {"kind": "estimate"},
        "reconstruction": {"kind": "proved"} if found is None else {"kind": found.kind, "note": found.note},
    }


def _person_columns(level: Level, shown: np.ndarray) -> dict[str, Any]:
    """Return one level's columns of the people shown."""
    columns = {name: plain_list(values[shown]) for name, values in people_module.columns(level).items()}
    columns["predicted"] = [None if one is None else int(one) for one in columns["predicted"]]
    return {**columns, "ranked": people_module.ranked(level)}


def _left_out(audit: Audit) -> list[Any]:
    """Return the analyses that were left out at any level, each reason once."""
    return list(dict.fromkeys(one for level in audit.levels for one in level.left_out))


def _provenance(audit: Audit) -> dict[str, Any]:
    """Return where the report came from and how to make it again."""
    description = _description(audit)
    return {
        "command": audit.command,
        "seedscope": description["versions"]["seedscope"],
        "versions": description["versions"],
        "root_seed": description["grid"]["root_seed"],
        "data_fingerprint": description["data"]["fingerprint"],
        "made": audit.made,
        "stores": [store for level in audit.levels for store in level.stores],
    }


__all__ = ["ARBITRARY", "Audit", "audit"]
