"""Person by person: one row for everybody, with what each analysis says about them at each level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.audit.levels import Level
from seedscope.statistics import mean_ranks

if TYPE_CHECKING:
    import pandas

DECISIONS = {
    "predicted": "consensus",
    "agreement": "consensus_share",
    "disagreement": "disagreement",
    "disagreement_lower": "lower",
    "disagreement_upper": "upper",
}
ATTACKS = {"epsilon_lower": "epsilon_lower", "membership_advantage": "advantage"}
SHOWN = 5000
EXTREMES = 200  # of each kind, shown whatever the rest


def columns(level: Level) -> dict[str, np.ndarray]:
    """Return one level's columns over the whole person axis; NaN where an analysis says nothing about a person."""
    size = level.ensemble.dataset.sizes["person"]
    decided = [(level.tested, level.multiplicity), (level.audited, level.audited_multiplicity)]
    found = {name: np.full(size, np.nan) for name in (*DECISIONS, "epsilon_upper", *ATTACKS)}
    for people, one in decided:
        for name, attribute in DECISIONS.items() if one is not None else ():
            found[name][people] = getattr(one, attribute)
    if level.membership is not None:
        for name, attribute in ATTACKS.items():
            found[name][level.audited] = getattr(level.membership, attribute)
    if level.proved_epsilon is not None:
        found["epsilon_upper"][level.ensemble.texts("person_part") == "train"] = level.proved_epsilon
    found["rank_disagreement"] = _ranks(found["disagreement"])
    found["rank_membership"] = _ranks(found["membership_advantage"])
    return found


def individuals(levels: Sequence[Level]) -> pandas.DataFrame:
    """Return a table with a row for every input row, in the original order, and each level's columns side by side."""
    import pandas

    ensemble = levels[0].ensemble
    described = ensemble.description["data"]
    classes = np.array(described["classes"])
    table: dict[str, Any] = {
        "id": ensemble.texts("person_id"),
        "part": ensemble.texts("person_part"),
        "label": classes[ensemble.dataset["person_label"].values],
    }
    for k, name in enumerate(described["groups"]):
        table[f"group: {name}"] = ensemble.texts(f"group_{k}")
    for level in levels:
        for name, values in columns(level).items():
            shown = _class_names(values, classes) if name == "predicted" else values
            table[name if len(levels) == 1 else f"{name} ({level.label})"] = shown
    return pandas.DataFrame(table)


def shown_people(levels: Sequence[Level], limit: int = SHOWN) -> tuple[np.ndarray, str]:
    """Return who is on the page, and how they were chosen: everybody scored, or the extremes and a random rest."""
    level = levels[0]
    everybody = np.union1d(level.tested, level.audited)
    if len(everybody) <= limit:
        return everybody, "Everybody who was scored: the test part and the people whose membership was attacked"
    by_disagreement = level.tested[np.argsort(-level.multiplicity.disagreement, kind="stable")]
    kept = np.unique(np.concatenate([level.audited, by_disagreement[:EXTREMES], by_disagreement[-EXTREMES:]]))
    rest = np.random.default_rng(0).permutation(np.setdiff1d(everybody, kept))[: limit - len(kept)]
    words = f"The {len(level.audited):,} people audited, the {EXTREMES} most and least arbitrary, and a random rest"
    return np.sort(np.concatenate([kept, rest])), words


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 1, the largest value's, ties shared; NaN where there is no value."""
    known = np.isfinite(values)
    ranks = np.full(len(values), np.nan)
    ranks[known] = mean_ranks(-values[known])
    return ranks


def _class_names(values: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the names of class numbers, empty where there is none."""
    known = np.isfinite(values)
    names = np.full(len(values), "", dtype=object)
    names[known] = classes[values[known].astype(int)]
    return names
