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
from seedscope.audit.levels import ARBITRARY, Level, examine
from seedscope.audit.verdict import Verdict, preferred, verdict
from seedscope.audit.words import GLOSSARY, NOTICE, RELATIONS, describe_mechanism, describe_model
from seedscope.ensemble import Ensemble
from seedscope.errors import require
from seedscope.number import Number
from seedscope.statistics import spearman

if TYPE_CHECKING:
    import pandas

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


def audit(*ensembles: Ensemble | tuple[Ensemble, Ensemble], confidence: float = 0.95, command: str = "") -> Audit:
    """Return the audit of one ensemble, or of several privacy levels of the same data.

    Runs every analysis that the records permit and says why it left another out. Nothing is trained.

    Args:
        ensembles: one for each privacy level, with scores on the test part, and with neighbours for membership; or a
            pair: many seeds on the base, and fewer seeds with neighbours.
        confidence: of all intervals.
        command: how to run it again, for the report.
    """
    pairs = [one if isinstance(one, tuple) else (one, None) for one in ensembles]
    require(len(pairs) > 0, "an audit needs at least one ensemble.")
    prints = {one.description["data"]["fingerprint"] for pair in pairs for one in pair if one is not None}
    require(len(prints) == 1, "the ensembles of one audit must be of the same data, these are of different data.")
    levels = tuple(examine(base, shadows, confidence=confidence) for base, shadows in pairs)
    labels = [level.label for level in levels]
    require(len(set(labels)) == len(labels), f"each privacy level must be there once, got {', '.join(labels)}.")
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Audit(levels, confidence, command, made)


def _whole(audit: Audit) -> dict[str, Any]:
    """Return the whole report."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "public": False,
        "title": f"Audit of {_description(audit)['data']['name']}",
        "audited": _audited(audit),
        "verdict": _verdict(audit.verdict),
        "levels": [_level(level) for level in audit.levels],
        "people": _people(audit),
        "groups": _groups(audit),
        "relations": _relations(audit),
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
                "guarantee": one.guarantee,
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
        {"name": one.name, "number": _number(one.number), "meaning": one.meaning, "show": one.show}
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
        "guarantee": level.guarantee,
        "accuracy": _number(level.accuracy),
        "accuracy_smallest": float(level.accuracies.min()),
        "accuracy_largest": float(level.accuracies.max()),
        "mean_disagreement": _number(level.multiplicity.mean),
        "arbitrary_share": _number(level.arbitrary_share),
        "attack_advantage": None if tests is None else _number(tests.set_advantage),
        "epsilon_lower": None if tests is None else _number(tests.set_epsilon_lower),
        "epsilon_lower_ceiling": None if tests is None else tests.ceiling,
        "intrinsic": None if intrinsic is None else _intrinsic(intrinsic),
        "roc": None if tests is None else {
            "false_positive_rate": _plain(tests.roc_false_positive_rate),
            "true_positive_rate": _plain(tests.roc_true_positive_rate),
        },
    }  # fmt: skip


def _intrinsic(found: Any) -> dict[str, Any]:
    """Return the intrinsic analysis' numbers."""
    names = ("sensitivity_bound", "sensitivity_strict", "variability_flat", "variability_eigen", "epsilon_strict")
    return {name: _number(one) for name in names if (one := getattr(found, name)) is not None}


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
        "kinds": _kinds(audit.confidence),
        "id": ensemble.texts("person_id")[shown].tolist(),
        "part": ensemble.texts("person_part")[shown].tolist(),
        "label": ensemble.dataset["person_label"].values[shown].tolist(),
        "groups": [codes[shown].tolist() for codes in groups],
        "levels": [_person_columns(level, shown) for level in audit.levels],
    }


def _kinds(confidence: float) -> dict[str, Any]:
    """Return of which kind the numbers in each of the people's columns are."""
    statistical = {"kind": "statistical", "confidence": confidence}
    return {
        "agreement": {"kind": "estimate"},
        "disagreement": {**statistical, "note": "for all people of a part at once"},
        "epsilon_upper": {"kind": "proved"},
        "epsilon_lower": {**statistical, "note": "for each person alone"},
        "membership_advantage": {"kind": "estimate"},
        "reconstruction": {"kind": "proved"},
    }


def _person_columns(level: Level, shown: np.ndarray) -> dict[str, list[Any]]:
    """Return one level's columns of the people shown."""
    columns = {name: _plain(values[shown]) for name, values in people_module.columns(level).items()}
    columns["predicted"] = [None if one is None else int(one) for one in columns["predicted"]]
    return columns | {"reconstruction": [None] * len(shown)}


def _groups(audit: Audit) -> list[dict[str, Any]]:
    """Return each group attribute: its levels, their numbers of test people, and what they get at every level."""
    found = []
    for k, name in enumerate(_description(audit)["data"]["groups"]):
        first = audit.levels[0].multiplicity.groups[name]
        names = np.unique(audit.levels[0].ensemble.texts(f"group_{k}")).tolist()
        counts = {one.name: one.examples for one in first.groups}
        small = [one for one in names if counts.get(one, 0) < 2]
        note = f"Fewer than two test people, so no interval over people: {', '.join(small)}." if small else ""
        found.append({
            "name": name,
            "levels": names,
            "people": [counts.get(one, 0) for one in names],
            "by_level": [_group_level(level, name, names) for level in audit.levels],
            "note": note,
        })  # fmt: skip
    return found


def _group_level(level: Level, name: str, names: list[str]) -> dict[str, Any]:
    """Return what the groups of one attribute get at one privacy level."""
    comparison = level.multiplicity.groups[name]
    means = {one.name: one.population or one.disagreement for one in comparison.groups}
    k = level.ensemble.description["data"]["groups"].index(name)
    group = level.ensemble.texts(f"group_{k}")[level.tested]
    label = level.ensemble.dataset["person_label"].values[level.tested]
    right = level.multiplicity.consensus == label
    values = [float(one) for one in means.values()]
    return {
        "mean_disagreement": [_number(means.get(one)) for one in names],
        "accuracy": [_number(_share(right[group == one])) for one in names],
        "p_value": _number(comparison.p_value),
        "difference": _number(Number(max(values) - min(values), "estimate")) if len(values) > 1 else None,
    }


def _share(flags: np.ndarray) -> Number | None:
    """Return the share of true flags, None for nobody."""
    return None if len(flags) == 0 else Number(float(flags.mean()), "estimate")


def _relations(audit: Audit) -> list[dict[str, Any]]:
    """Return whether the least private are also the most arbitrary, among the people whose membership was attacked."""
    level = preferred(audit.levels)
    if level.membership is None or level.audited_multiplicity is None or len(level.audited) < 5:
        return []
    disagreement, advantage = level.audited_multiplicity.disagreement, level.membership.advantage
    if np.ptp(disagreement) == 0 or np.ptp(advantage) == 0:
        return []
    value, lower, upper = spearman(disagreement, advantage, audit.confidence)
    clear = "no" if lower <= 0 <= upper else "yes" if value > 0 else "rather the opposite"
    answer = {
        "no": "No clear relation among the people audited.",
        "yes": "Yes: who is easier to recognise as a member also gets more arbitrary decisions.",
        "rather the opposite": "Rather the opposite: who is easier to recognise gets steadier decisions.",
    }[clear]
    number = Number(value, "estimate", lower, upper, audit.confidence, note="Spearman's rank correlation")
    question = "Are the least private also the most arbitrary?"
    return [{"question": question, "answer": answer, "number": _number(number)}]


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


def _number(number: Number | None) -> dict[str, Any] | None:
    """Return a number as plain values; a value that is not finite becomes null."""
    if number is None:
        return None
    values = number.as_dict() | {"value": number.value}
    return {name: _finite(one) for name, one in values.items()}


def _plain(values: np.ndarray) -> list[Any]:
    """Return an array as a list of rounded numbers, None where it is not finite."""
    return [_finite(float(f"{one:.6g}")) for one in np.asarray(values, float)]


def _finite(value: Any) -> Any:
    """Return the value, or None for a float that is not finite."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


__all__ = ["ARBITRARY", "Audit", "audit"]
