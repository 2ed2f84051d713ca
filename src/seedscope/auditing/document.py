"""An audit as plain values: the whole report, and the one with nothing that depends on the data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.analyses.per_instance import PerInstancePrivacy
from seedscope.auditing import people as people_module
from seedscope.auditing.advice import advice
from seedscope.auditing.groups import group_comparisons
from seedscope.auditing.judged import plain_facts, plain_verdict
from seedscope.auditing.level_document import level_document, public_alarm, public_level
from seedscope.auditing.levels import Level
from seedscope.auditing.performance import performance
from seedscope.auditing.pictures import pictures
from seedscope.auditing.relations import relations
from seedscope.auditing.words import ALARM_NOTICE, GLOSSARY, NO_OWN, NOT_OWN, NOTICE, PUBLIC_NOTICE, describe_model
from seedscope.core import RELATION_WORDS, plain_list, plain_values, printable
from seedscope.mechanisms import only_if
from seedscope.planning import Description

if TYPE_CHECKING:
    from seedscope.auditing.audit import Audit

FORMAT, VERSION = "seedscope-report", 1


def whole_document(audit: Audit) -> dict[str, Any]:
    """Return the whole report."""
    images = pictures(audit.levels, audit.data)
    return {
        "format": FORMAT,
        "version": VERSION,
        "public": False,
        "title": f"Audit of {description_of(audit).data.name}",
        "alarms": list(audit.alarms),
        "audited": _audited(audit),
        "verdict": plain_verdict(audit.verdict, audit.levels),
        "levels": [
            level_document(level) | {"measured": plain_facts(measured)}
            for level, measured in zip(audit.levels, audit.facts, strict=True)
        ],
        "performance": performance(audit.levels, audit.data),
        **({} if images is None else {"images": images}),
        "people": _people(audit),
        "groups": group_comparisons(audit.levels),
        "relations": relations(audit.levels[audit.verdict.level]) + [finding.as_dict() for finding in audit.findings],
        "left_out": [{"analysis": analysis.analysis, "reason": analysis.reason} for analysis in _left_out(audit)],
        "advice": [plain_values(asdict(piece)) for piece in advice(audit.levels, audit.verdict.level)],
        **({} if audit.reading is None else {"reading": audit.reading.describe()}),
        "provenance": _provenance(audit),
        "glossary": [{"term": term, "meaning": meaning} for term, meaning in GLOSSARY.items()],
        "notice": NOTICE,
        "for_everybody": _public_facts(audit),
    }


def public_document(audit: Audit) -> dict[str, Any]:
    """Return only what does not depend on the data: mechanism, model, the guarantees, and an alarm if there is one."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "public": True,
        "title": "Privacy of a trained model",
        **_public_facts(audit),
        "provenance": {"seedscope": description_of(audit).versions["seedscope"], "made": audit.made},
        "glossary": [{"term": term, "meaning": meaning} for term, meaning in GLOSSARY.items()],
        "notice": ALARM_NOTICE if audit.alarms else PUBLIC_NOTICE,
    }


def _public_facts(audit: Audit) -> dict[str, Any]:
    """Return what everybody may know of model and guarantees: the public page's facts, and the model card's."""
    description = description_of(audit)
    alarms = list(dict.fromkeys(public_alarm(level) for level in audit.levels if level.broken))
    return {
        **({"alarms": alarms} if alarms else {}),
        "audited": {
            "mechanism": description.mechanism.public_words(),
            "model": description.model.name,
            "relation": RELATION_WORDS[description.grid.relation],
        },
        "levels": [public_level(level) for level in audit.levels],
    }


def description_of(audit: Audit) -> Description:
    """Return the description of the first level's ensemble: data, model and grid are the same in all."""
    return audit.levels[0].ensemble.description


def _audited(audit: Audit) -> dict[str, Any]:
    """Return what was audited, in words and counts."""
    description = description_of(audit)
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
    level, people = audit.levels[0], description_of(audit).data.people
    loss = level.privacy_loss
    known = 0 if loss is None or loss.kind == "estimate" else len(loss.people)
    count = max(len(level.audited), known)
    if count >= people or level.attacked_elsewhere:
        return ""
    return f"{count:,} of {people:,} people were attacked; of the others only the guarantee speaks."


def _people(audit: Audit) -> dict[str, Any]:
    """Return the people on the page, column by column."""
    shown, selection = people_module.shown_people(audit.levels)
    ensemble = audit.levels[0].ensemble
    attributes = range(len(description_of(audit).data.groups))
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
    """Return the kind of the numbers in each of the people's columns."""
    statistical = {"kind": "statistical", "confidence": audit.confidence}
    bound = next((level.reconstruction for level in audit.levels if level.reconstruction), None)
    return {
        "agreement": {"kind": "estimate"},
        "disagreement": {**statistical, "note": _disagreement_note(audit)},
        "epsilon_upper": _upper_kind(audit),
        "epsilon_tighter": _upper_kind(audit),
        "epsilon_statistical": {**_statistical_kind(audit), "empty": NO_OWN},
        "epsilon_estimate": {"kind": "estimate"} | _estimate_note(audit),
        "epsilon_lower": {**statistical, "note": "for all people audited at once"},
        "membership_advantage": {"kind": "estimate"},
        "advantage": _advantage_kind(audit),
        "reconstruction": {"kind": "proved"} if bound is None else {"kind": bound.kind, "note": bound.note},
        "uncertainty_left": _left_kind(audit),
    }


def _disagreement_note(audit: Audit) -> str:
    """Return for whom the intervals hold together, and which models decided about training people."""
    trained = any(len(level.trained) for level in audit.levels)
    inside = "; of training people by models that have them, unless they were attacked" if trained else ""
    return f"for all people of a part at once{inside}"


def _estimate_note(audit: Audit) -> dict[str, str]:
    """Return what must be said of people's own ε, where it is from their gradients: caveats, and what is not theirs."""
    privacies = [level.per_instance for level in audit.levels if level.per_instance is not None]
    said = [note for privacy in privacies for note in privacy.caveats()]
    shared = [f"where it is {privacy.epsilon_everybody:.3g}, {NOT_OWN}" for privacy in privacies if _reaches(privacy)]
    notes = dict.fromkeys([*said, *shared])
    return {"note": "; ".join(notes)} if notes else {}


def _reaches(own: PerInstancePrivacy) -> bool:
    """Whether anybody's own estimate is only what everybody has."""
    return bool((own.epsilon >= own.epsilon_everybody).any())


def _statistical_kind(audit: Audit) -> dict[str, Any]:
    """Return the kind of people's own bounds: statistical only where nothing but training knew the rows."""
    baselines = [level.per_instance.epsilon_baseline for level in audit.levels if level.per_instance is not None]
    unproved = next((baseline.note for baseline in baselines if baseline.kind != "proved"), None)
    together = "for all people audited at once"
    if unproved is None:
        return {"kind": "statistical", "confidence": audit.confidence, "note": together}
    return {"kind": "estimate", "note": f"{together}; {unproved}"}


def _left_kind(audit: Audit) -> dict[str, Any]:
    """Return the kind of the shares of uncertainty left."""
    bound = next((level.reconstruction for level in audit.levels if level.reconstruction), None)
    note = "no attacker, biased or not, who starts from the population's spread"
    confidence = None if bound is None else bound.confidence
    return {"kind": "estimate", "note": note} | ({} if confidence is None else {"confidence": confidence})


def _upper_kind(audit: Audit) -> dict[str, Any]:
    """Return the kind of the guaranteed ε: proved only if it is at every level."""
    unproved = next((level.guarantee for level in audit.levels if level.guarantee.assumes), None)
    if unproved is None:
        return {"kind": "proved", "note": "the same for everybody trained on"}
    noted = "" if unproved.epsilon is None else unproved.epsilon.note
    return {"kind": "estimate", "note": noted or only_if(unproved.assumes)}


def _advantage_kind(audit: Audit) -> dict[str, Any]:
    """Return the kind of the best attack's advantages, and who the attacker is."""
    loss = next((level.privacy_loss for level in audit.levels if level.privacy_loss), None)
    if loss is None:
        return {"kind": "estimate"}
    sampled = loss.sampling_confidence
    confidence = {} if sampled is None else {"confidence": sampled}
    return {"kind": loss.kind, **confidence, "note": f"for all at once; the attacker {loss.attacker}"}


def _person_columns(level: Level, shown: np.ndarray) -> dict[str, Any]:
    """Return one level's columns of the people shown."""
    columns = {name: plain_list(values[shown]) for name, values in people_module.columns(level).items()}
    for name in ("predicted", "in_models"):
        columns[name] = [None if value is None else int(value) for value in columns[name]]
    return {**columns, "ranked": people_module.ranked(level)}


def _left_out(audit: Audit) -> list[Any]:
    """Return the analyses that were left out at any level, each reason once."""
    return list(dict.fromkeys(analysis for level in audit.levels for analysis in level.left_out))


def _place(store: str) -> str:
    """Return a store's name, without what its path tells about its owner's machine."""
    return printable("/".join([part for part in Path(store).parts if part not in ("..", "/")][-2:]))


def _provenance(audit: Audit) -> dict[str, Any]:
    """Return where the report came from and how to make it again."""
    description = description_of(audit)
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
