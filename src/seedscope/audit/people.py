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
UPPER = ("epsilon_upper", "epsilon_statistical", "epsilon_estimate")  # proved for anybody; each person's own
ATTACKS = {"epsilon_lower": "epsilon_lower", "membership_advantage": "advantage"}
RANKED = {  # column: whether its largest value, or its smallest, has rank 1: the most exposed person's
    "disagreement": True,
    "membership_advantage": True,
    "epsilon_lower": True,
    "epsilon_estimate": True,
    "reconstruction": False,
}
SHOWN = 5000
EXTREMES = 200  # of each kind, shown whatever the rest


def columns(level: Level) -> dict[str, np.ndarray]:
    """Return one level's columns over the whole person axis; NaN where an analysis says nothing about a person."""
    size = level.ensemble.dataset.sizes["person"]
    found = {name: np.full(size, np.nan) for name in (*DECISIONS, *UPPER, *ATTACKS, "reconstruction")}
    for people, one in [(level.tested, level.multiplicity), (level.audited, level.audited_multiplicity)]:
        for name, attribute in DECISIONS.items() if one is not None else ():
            found[name][people] = getattr(one, attribute)
    if level.membership is not None:
        for name, attribute in ATTACKS.items():
            found[name][level.audited] = getattr(level.membership, attribute)
    if level.proved_epsilon is not None:
        found["epsilon_upper"][level.ensemble.texts("person_part") == "train"] = level.proved_epsilon
    if level.per_instance is not None:
        found["epsilon_estimate"][level.per_instance.people] = level.per_instance.epsilon
        found["epsilon_statistical"][level.per_instance.people] = level.per_instance.epsilon_statistical
    if level.reconstruction is not None:
        found["reconstruction"][level.reconstruction.people] = level.reconstruction.error_lower
    return found | {rank_name(name): _ranks(found[name], largest) for name, largest in RANKED.items()}


def rank_name(column: str) -> str:
    """Return the name of the column of a column's ranks."""
    return f"rank_{'membership' if column == 'membership_advantage' else column}"


def ranked(level: Level) -> dict[str, int]:
    """Return among how many people each rank is."""
    found = columns(level)
    return {rank_name(name).removeprefix("rank_"): int(np.isfinite(found[name]).sum()) for name in RANKED}


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
    audited = np.unique(np.concatenate([level.audited for level in levels]))
    everybody = np.union1d(levels[0].tested, audited)
    if len(everybody) <= limit:
        return everybody, "Everybody who was scored: the test part and the people whose membership was attacked."
    count = min(EXTREMES, limit // (4 * len(levels)))  # at least half of the page is left for the others
    kept = np.unique(np.concatenate([audited, *(_extremes(level, count) for level in levels)]))
    rest = np.random.default_rng(0).permutation(np.setdiff1d(everybody, kept))[: max(0, limit - len(kept))]
    words = (
        f"They are the {len(audited):,} people audited, the {count} most and the {count} least arbitrary at each "
        f"level, and {len(rest):,} others drawn at random."
    )
    return np.sort(np.concatenate([kept, rest])), words


def _extremes(level: Level, count: int) -> np.ndarray:
    """Return so many test people whose decisions are the most, and as many whose are the least arbitrary."""
    order = level.tested[np.argsort(-level.multiplicity.disagreement, kind="stable")]
    return np.concatenate([order[:count], order[len(order) - count :]])


def _ranks(values: np.ndarray, largest_first: bool = True) -> np.ndarray:
    """Return ranks from 1, the largest (or smallest) value's, ties shared; NaN without a value, or if all are equal."""
    known = np.isfinite(values)
    ranks = np.full(len(values), np.nan)
    if not known.any() or np.ptp(values[known]) == 0:
        return ranks
    ranks[known] = mean_ranks(-values[known] if largest_first else values[known])
    return ranks


def _class_names(values: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the names of class numbers, empty where there is none."""
    known = np.isfinite(values)
    names = np.full(len(values), "", dtype=object)
    names[known] = classes[values[known].astype(int)]
    return names
