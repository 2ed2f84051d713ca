"""A report dictionary as an audit makes it, drawn from a simple law: margins of people, noise that grows as ε falls."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

CONFIDENCE = 0.95
GROUPS = {"sex": ["female", "male"], "age": ["under 30", "30 to 59", "60 and over"]}
HOSTILE = (
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=2</script>",
    "<img src=x onerror='window.hacked=3'>",
    "\"'`>${window.hacked=4}{{7*7}}",
    "line\u2028separator\u2029paragraph\x00null",
    "🧪👩🏽‍⚕️ שלום \u202eright to left",
    "<!--<script>",
    "long " + "w" * 10_000,
)


def sample_report(
    people: int = 300, epsilons: tuple[float | None, ...] = (0.5, 1.0, 2.0), audited: int | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return a complete report; an ε of None is plain SGD; `audited` people have membership numbers (default: half)."""
    rng = np.random.default_rng(seed)
    audited = people // 2 if audited is None else audited
    margins = rng.normal(scale=2.2, size=people)
    groups = [rng.integers(0, len(names), people) for names in GROUPS.values()]
    margins *= np.where(groups[0] == 0, 0.55, 1.0)  # one group is closer to the boundary
    labels = (margins + rng.logistic(scale=0.5, size=people) > 0).astype(int)
    columns = [_people_at_level(rng, margins, epsilon, audited) for epsilon in epsilons]
    levels = [_level(epsilon, column, labels) for epsilon, column in zip(epsilons, columns, strict=True)]
    return {
        "format": "seedscope-report", "version": 1, "public": False,
        "title": "Audit of patients",
        "audited": _audited(people), "verdict": _verdict(levels), "levels": levels,
        "people": {
            "total": people + 40_000, "shown": people,
            "selection": "The audited people, the 500 most arbitrary decisions and a random rest.",
            "kinds": _kinds(),
            "id": [f"P-{number:05d}" for number in range(people)],
            "part": ["train" if number < audited else "test" for number in range(people)],
            "label": labels.tolist(), "groups": [column.tolist() for column in groups], "levels": columns,
        },
        "groups": [
            _group(name, names, column, columns)
            for (name, names), column in zip(GROUPS.items(), groups, strict=True)
        ],
        "relations": [
            {
                "question": "Are the least private also the most arbitrary?",
                "answer": "Somewhat: whose membership is easier to see, also tends to get more arbitrary decisions.",
                "number": _number(0.31, "statistical", 0.18, 0.43),
            }
        ],
        "left_out": [{"analysis": "per-instance ε", "reason": "needs gradient norms, which only DP-SGD records."}],
        "provenance": _provenance(), "glossary": _glossary(),
        "notice": "This page holds results about single people that depend on other people's data. Keep it as safe as "
        "the data itself; share a public page instead.",
    }  # fmt: skip


def with_both_sides(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report with everybody's exposure from both sides, and an attack that shows nothing beside it."""
    report = copy.deepcopy(report)
    for level, columns in zip(report["levels"], report["people"]["levels"], strict=True):
        known = [None if one is None else min(max(one, 0.02), 0.98) for one in columns["membership_advantage"]]
        columns["advantage"] = known
        columns["advantage_lower"] = [None if one is None else one - 0.02 for one in known]
        columns["advantage_upper"] = [None if one is None else one + 0.02 for one in known]
        columns["epsilon_lower"] = [None if one is None else 0.0 for one in columns["epsilon_lower"]]
        columns["epsilon_estimate"] = [None] * len(known)
        level["trade_off"] = {"advantage": _number(0.9, "proved")}
    return report


def hostile_report(people: int = 60) -> dict[str, Any]:
    """Return a report in which every text that a user could have chosen is hostile."""
    report = sample_report(people)
    texts = [HOSTILE[number % len(HOSTILE)] for number in range(people)]
    report["title"] = HOSTILE[1]
    report["audited"] |= {"data": HOSTILE[0], "source": HOSTILE[7], "classes": [HOSTILE[1], HOSTILE[4]]}
    report["people"]["id"] = [f"{number}{text}" for number, text in enumerate(texts)]
    for group, name in zip(report["groups"], (HOSTILE[2], HOSTILE[5]), strict=True):
        group["name"], group["note"] = name, HOSTILE[3]
        group["levels"] = [HOSTILE[number] for number in range(len(group["levels"]))]
    for level, text in zip(report["levels"], (HOSTILE[0], HOSTILE[4], HOSTILE[7]), strict=True):
        level["label"] = text
        level["guarantee"]["reason"] = HOSTILE[1]
    report["verdict"] |= {"headline": HOSTILE[1], "sentences": list(HOSTILE)}
    report["verdict"]["numbers"][0] |= {"name": HOSTILE[0], "meaning": HOSTILE[6]}
    report["provenance"] |= {"command": f"seedscope audit '{HOSTILE[1]}.csv'", "stores": list(HOSTILE)}
    report["provenance"]["versions"] = {HOSTILE[0]: HOSTILE[1]}
    report["glossary"] = [{"term": text, "meaning": text} for text in HOSTILE]
    report["left_out"] = [{"analysis": text, "reason": text} for text in HOSTILE]
    report["notice"] = HOSTILE[1]
    return report


def sample_individuals(report: dict[str, Any]) -> pd.DataFrame:
    """Return the table of everyone that an audit writes beside the report."""
    people, last = report["people"], len(report["levels"]) - 1
    frame = pd.DataFrame({"id": people["id"], "part": people["part"]})
    frame["disagreement"] = people["levels"][last]["disagreement"]
    return frame


def changed(report: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of the report with the value at a path like 'levels.0.delta' replaced."""
    copied = copy.deepcopy(report)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = copied
    for part in parents:
        place = place[part]
    place[last] = value
    return copied


def _number(
    value: float | None, kind: str = "estimate", lower: float | None = None, upper: float | None = None, note: str = ""
) -> dict[str, Any]:
    """Return a number as `Number.as_dict` does."""
    confidence = CONFIDENCE if kind == "statistical" or lower is not None else None
    fields = {"value": value, "kind": kind, "lower": lower, "upper": upper, "confidence": confidence, "note": note}
    return {name: one for name, one in fields.items() if name in ("value", "kind") or one not in (None, "")}


def _people_at_level(
    rng: np.random.Generator, margins: np.ndarray, epsilon: float | None, audited: int
) -> dict[str, Any]:
    """Return the columns of one privacy level from 500 simulated re-trainings."""
    models, people = 500, len(margins)
    noise = 0.15 if epsilon is None else 0.9 / epsilon
    share = rng.binomial(models, ndtr(margins / noise)) / models
    disagreement = 4 * models / (models - 1) * share * (1 - share)
    spread = 2.5 * np.abs(1 - 2 * share) / np.sqrt(models) + 4 / models
    exposure = np.tanh((epsilon or 4) / 2) * rng.beta(2, 5, people) * (0.5 + disagreement / 2)
    has_membership = np.arange(people) < audited
    advantage = np.where(has_membership, exposure + rng.normal(scale=0.02, size=people), np.nan)
    own = np.where(has_membership & (epsilon is not None), (epsilon or 0.0) * np.tanh(0.3 + 3 * exposure), np.nan)
    return {
        "predicted": (share > 0.5).astype(int).tolist(),
        "agreement": np.maximum(share, 1 - share).tolist(),
        "disagreement": disagreement.tolist(),
        "disagreement_lower": np.maximum(disagreement - spread, 0).tolist(),
        "disagreement_upper": np.minimum(disagreement + spread, 1).tolist(),
        "epsilon_upper": _nulls(np.where(has_membership, epsilon or np.nan, np.nan)),
        "epsilon_statistical": _nulls(np.minimum(1.4 * own, epsilon or np.inf)),
        "epsilon_estimate": _nulls(own),
        "epsilon_lower": _nulls(np.maximum(2 * np.arctanh(np.clip(advantage - 0.15, -0.9, 0.9)), 0)),
        "membership_advantage": _nulls(advantage),
        "reconstruction": _nulls(
            np.where(has_membership, 0.4 / (epsilon or 8) * rng.uniform(0.6, 1.4, people), np.nan)
        ),
        "rank_disagreement": _ranks(disagreement),
        "rank_membership": _ranks(advantage),
        "rank_epsilon_estimate": _ranks(own),
        "ranked": {"disagreement": people, "membership": audited},
    }


def _nulls(values: np.ndarray) -> list[float | None]:
    """Return the values with NaN as None."""
    return [None if np.isnan(value) else float(value) for value in values]


def _ranks(values: np.ndarray) -> list[int | None]:
    """Return 1 for the largest, None where there is no value."""
    order = np.argsort(-values, kind="stable")
    ranks: list[int | None] = [None] * len(values)
    for rank, person in enumerate(person for person in order if not np.isnan(values[person])):
        ranks[person] = rank + 1
    return ranks


def _level(epsilon: float | None, columns: dict[str, Any], labels: np.ndarray) -> dict[str, Any]:
    """Return one privacy level's numbers from its people."""
    disagreement = np.array(columns["disagreement"])
    accuracy = float(
        np.mean(
            np.where(np.array(columns["predicted"]) == labels, columns["agreement"], 1 - np.array(columns["agreement"]))
        )
    )
    rates = np.geomspace(1e-3, 1, 60)
    power = 0.35 * np.tanh((epsilon or 4) / 2)
    guarantee = {
        "epsilon": None if epsilon is None else _number(epsilon, "proved"), "delta": 0.0,
        "relation": "one person replaced by another",
        "reason": "Plain SGD adds no noise." if epsilon is None else "Objective perturbation, public preprocessing.",
        "meaning": "Nothing is proved." if epsilon is None else
        f"Whoever sees the model raises the odds of a person being in the data by at most {np.exp(epsilon):.3g} times.",
    }  # fmt: skip
    mean = float(disagreement.mean())
    limits = np.minimum(np.exp(epsilon or 9) * rates, 1 - np.exp(-(epsilon or 9)) * (1 - rates))
    found = np.minimum(rates ** (1 - power), rates + 0.7 * (limits - rates))
    roc: dict[str, Any] = {"false_positive_rate": rates.tolist(), "true_positive_rate": found.tolist()}
    if epsilon is not None:
        roc["true_positive_limit"] = limits.tolist()
    return {
        "label": "SGD" if epsilon is None else f"ε = {epsilon:g}", "epsilon": epsilon, "delta": 0.0,
        "guarantee": guarantee,
        "accuracy": _number(accuracy, "estimate", accuracy - 0.01, accuracy + 0.01),
        "accuracy_smallest": max(accuracy - 0.06, 0), "accuracy_largest": min(accuracy + 0.04, 1),
        "mean_disagreement": _number(mean, "statistical", max(mean - 0.04, 0), mean + 0.04),
        "arbitrary_share": _number(float(np.mean(disagreement >= 0.5))),
        "attack_advantage": _number(power, "statistical", power - 0.05, power + 0.05),
        "epsilon_lower": _number(0.21 * (epsilon or 9), "statistical"),
        "epsilon_lower_ceiling": 2.57,
        "sandwich": None if epsilon is None else {
            "holds": True, "could_fail": True, "sentence": "The attack proves nothing above the guarantee.",
            "relation": "one person replaced by another", "largest_statistical": _number(epsilon, "statistical"),
            "largest_estimate": _number(0.9 * epsilon),
        },
        "intrinsic": {"intrinsic ε": _number(7.4, note="assumes Gaussian weights")} if epsilon is None else None,
        "roc": roc,
    }  # fmt: skip


def _group(name: str, names: list[str], column: np.ndarray, levels: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one attribute's comparison at every privacy level."""
    by_level = []
    for columns in levels:
        values = [np.array(columns["disagreement"])[column == index] for index in range(len(names))]
        means = [float(part.mean()) if part.size else None for part in values]
        known = [mean for mean in means if mean is not None]
        by_level.append(
            {
                "mean_disagreement": [_group_mean(mean) for mean in means],
                "accuracy": [None if mean is None else _number(0.9 - mean / 5) for mean in means],
                "p_value": _number(0.003),
                "difference": _number(max(known) - min(known), "estimate", 0.01, 0.2),
            }
        )
    counts = np.bincount(column, minlength=len(names)).tolist()
    return {"name": name, "levels": names, "people": counts, "by_level": by_level, "note": "People of the test part."}


def _group_mean(mean: float | None) -> dict[str, Any] | None:
    """Return a group's mean with its interval, None for a group of nobody."""
    return None if mean is None else _number(mean, "statistical", max(mean - 0.05, 0), mean + 0.05)


def _audited(people: int) -> dict[str, Any]:
    """Return what was audited."""
    return {
        "data": "patients", "source": "patients.csv", "fingerprint": "9f2c41d0a7", "train_rows": 30_000,
        "test_rows": 10_000 + people, "features": 14, "classes": ["healthy", "ill"],
        "mechanism": "objective perturbation", "model": "logistic regression",
        "relation": "one person replaced by another", "models": 4500, "seeds": 500, "neighbours": 20,
    }  # fmt: skip


def _verdict(levels: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a verdict on the first level."""
    first = levels[0]
    return {
        "tone": "change",
        "headline": f"At {first['label']} the noise decides for too many: choose a weaker level or another mechanism",
        "sentences": [
            "The model keeps its promise: no attack we tried comes near the proved limit.",
            "But many decisions would be different had the noise been drawn again. Women get them more often than men.",
        ],
        "numbers": [
            {
                "name": "Privacy guaranteed, ε", "number": first["guarantee"]["epsilon"] or _number(None, note="none"),
                "meaning": "The proved limit on what the model can tell about any one person.",
            },
            {
                "name": "Arbitrary decisions", "number": first["arbitrary_share"], "show": "percent",
                "meaning": "The share of people for whom two re-trainings differ with probability 1/4 or more.",
            },
            {
                "name": "Attack advantage", "number": first["attack_advantage"],
                "meaning": "How much better than guessing the attack tells members from others; 1 is certainty.",
            },
        ],
    }  # fmt: skip


def _kinds() -> dict[str, Any]:
    """Return the kinds of the people's columns."""
    statistical = {"kind": "statistical", "confidence": CONFIDENCE}
    return {
        "agreement": {"kind": "estimate"},
        "disagreement": {**statistical, "note": "for all people shown at once"},
        "epsilon_upper": {"kind": "proved"},
        "epsilon_statistical": statistical,
        "epsilon_estimate": {"kind": "estimate"},
        "epsilon_lower": statistical,
        "membership_advantage": {"kind": "estimate"},
        "reconstruction": {"kind": "proved"},
    }


def _provenance() -> dict[str, Any]:
    """Return how the report was made."""
    return {
        "command": "seedscope audit patients.csv --target outcome --group sex --group age --mechanism objective "
        "--epsilon 0.5 --epsilon 1 --epsilon 2 --seed 7",
        "seedscope": "0.1.0", "versions": {"python": "3.11.2", "jax": "0.10.0", "numpy": "2.3.4"}, "root_seed": 7,
        "data_fingerprint": "9f2c41d0a7", "made": "2026-11-16T00:40:00+00:00",
        "stores": ["stores/epsilon-0.5", "stores/epsilon-1", "stores/epsilon-2"],
    }  # fmt: skip


def _glossary() -> list[dict[str, str]]:
    """Return a few words explained."""
    return [
        {"term": "ε (epsilon)", "meaning": "How much a model may tell about one person; smaller is more private."},
        {
            "term": "Disagreement",
            "meaning": "Twice the chance that two re-trainings decide differently: 0 never, 1 a coin toss.",
        },
        {"term": "Membership attack", "meaning": "Telling from the model whether a person was in its training data."},
        {"term": "Reconstruction bound", "meaning": "The least mean squared error of guessing a person's features."},
    ]


PUBLIC = ("format", "version", "title", "glossary")
PUBLIC_PARTS = {"audited": ("mechanism", "model", "relation"), "provenance": ("seedscope", "versions", "made")}
PUBLIC_LEVEL = ("label", "epsilon", "delta", "guarantee")
PUBLIC_NOTICE = (
    "It has only facts that do not depend on the data: the mechanism, what is proved about it, what that means."
)


def public_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return only what does not depend on the data: mechanism, proved guarantees, what they mean.

    What may be public is listed, everything else is left out; the root seed too, since it gives the noise away.
    """
    kept = {name: report[name] for name in PUBLIC}
    parts = {part: {name: report[part][name] for name in names} for part, names in PUBLIC_PARTS.items()}
    levels = [{name: level[name] for name in PUBLIC_LEVEL} for level in report["levels"]]
    return {**kept, "public": True, **parts, "levels": levels, "notice": PUBLIC_NOTICE}
