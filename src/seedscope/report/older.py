"""What reports of earlier versions promised and must not promise any more: mended whenever one is read.

They called an ε proved though scaling was learned from the same rows, and had sentences that were found to be wrong.
What everybody may know was not kept apart in them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from seedscope.core import rounded_up
from seedscope.mechanisms import SIZE_SEEN

LEARNED = "learned from the training part"  # in the reason of a guarantee that was called proved all the same
CONDITION = "proved only if the scaling were public, and here it was learned from the training rows"
WRONG_WORDS = ("costs at most 2 points of accuracy", "best attack proves that")  # of a verdict before policies
WRONG_TERMS = ("ε (epsilon)", "δ (delta)", "reconstruction error")  # whose meaning was wrong before there were policies
ALARMED = "An attack beat what should have been guaranteed."
NOTICE = (
    "Made by an earlier version: an ε that rests on learned scaling is shown as an estimate. Audit again for a verdict."
)


def without_old_promises(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report without what earlier versions promised wrongly; one of today is returned as it is."""
    claims = [level["guarantee"] for level in report["levels"]]
    if not any(_overstated(claim) for claim in claims):
        return report
    mended = copy.deepcopy(report)
    for level in mended["levels"]:
        _mend_guarantee(level["guarantee"])
    for number in mended.get("verdict", {}).get("numbers", []):
        if number["name"] == "Privacy guaranteed (ε)":
            number |= {"name": "Privacy claimed (ε)", "meaning": f"{CONDITION[0].upper()}{CONDITION[1:]}."}
            number["number"]["kind"] = "estimate"
    verdict = mended.get("verdict", {})
    if "sentences" in verdict:
        verdict["sentences"] = [
            sentence for sentence in verdict["sentences"] if not any(words in sentence for words in WRONG_WORDS)
        ]
    mended["glossary"] = [entry for entry in mended["glossary"] if entry["term"] not in WRONG_TERMS]
    mended["notice"] = f"{mended['notice']} {NOTICE}"
    return mended


def without_the_data(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what everybody may know of a whole report that has not kept it apart: names, and round numbers.

    A δ that was taken from the number of rows cannot be told from one that was chosen: a power of ten hides either.
    """
    audited = report["audited"]
    alarmed = bool(report.get("alarms"))
    return {
        **({"alarms": [ALARMED]} if alarmed else {}),
        "audited": {
            "mechanism": re.split(r"[,(]", audited["mechanism"])[0].strip(),
            "model": audited["model"].split(",")[0],
            "relation": audited["relation"],
        },
        "levels": [_round_level(level) for level in report["levels"]],
    }


def _round_level(level: Mapping[str, Any]) -> dict[str, Any]:
    """Return a level's guarantee in round numbers, with nothing that its number of rows decides."""
    guarantee, epsilon = level["guarantee"], level["guarantee"]["epsilon"]
    number = None if epsilon is None else epsilon | {"value": rounded_up(epsilon["value"], digits=3)}
    kept = {name: guarantee[name] for name in ("relation", "unit", "assumes") if name in guarantee}
    delta = rounded_up(guarantee["delta"], digits=0)
    shown = {**kept, "epsilon": number, "delta": delta, "reason": guarantee["reason"].replace(SIZE_SEEN, "")}
    value = None if number is None else number["value"]
    return {"label": level["label"], "epsilon": value, "delta": delta, "guarantee": shown}


def _overstated(guarantee: dict[str, Any]) -> bool:
    """Whether a guarantee is called proved though its own reason says that scaling was learned."""
    epsilon = guarantee["epsilon"]
    return epsilon is not None and epsilon["kind"] == "proved" and LEARNED in guarantee["reason"]


def _mend_guarantee(guarantee: dict[str, Any]) -> None:
    """Make a guarantee what it was: an estimate of what would be proved."""
    if _overstated(guarantee):
        guarantee["epsilon"] |= {"kind": "estimate", "note": CONDITION}
        guarantee["meaning"] = f"{CONDITION[0].upper()}{CONDITION[1:]}."
