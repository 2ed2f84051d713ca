"""Person by person: one row for everybody, with what each analysis says about them at each level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.analyses.multiplicity import Multiplicity
from seedscope.auditing.levels import Level
from seedscope.numerics import mean_ranks

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
ATTACKS = {"epsilon_lower": "epsilon_lower_together", "membership_advantage": "advantage"}
BEST_ATTACK = ("advantage", "advantage_lower", "advantage_upper")  # of the best possible attack, for all at once
LEFT = ("uncertainty_left", "uncertainty_left_lower", "uncertainty_left_upper")  # to any attacker
RECONSTRUCTION = ("reconstruction", *LEFT)  # the first of unbiased guesses
RANKED = {  # column: whether its largest value, or its smallest, has rank 1: the most exposed person's
    "disagreement": True,
    "membership_advantage": True,
    "epsilon_lower": True,
    "epsilon_estimate": True,
    "advantage": True,
    "reconstruction": False,
    "uncertainty_left": False,
}
TOLD = {  # ends of the columns about a sensitive column: what they are
    "": "success",
    "_lower": "success_lower",
    "_upper": "success_upper",
    "_chance": "chance",
    "_ceiling": "ceiling",
}
OF_PERSONS = (*ATTACKS, *BEST_ATTACK, "rank_advantage", "rank_membership", "rank_epsilon_lower")
SHOWN = 5000
EXTREMES = 200  # of each kind, shown whatever the rest


def columns(level: Level) -> dict[str, np.ndarray]:
    """Return one level's columns over the whole person axis; NaN where an analysis says nothing about a person."""
    size = level.ensemble.dataset.sizes["person"]
    names = (*DECISIONS, "in_models", *UPPER, *ATTACKS, *BEST_ATTACK, *RECONSTRUCTION)
    filled = {name: np.full(size, np.nan) for name in names}
    for people, decisions, inside in decided(level):
        for name, attribute in DECISIONS.items():
            filled[name][people] = getattr(decisions, attribute)
        # the unbiased estimate can be a little above what any truth can be
        filled["disagreement"][people] = np.minimum(decisions.disagreement, 2 - 2 / decisions.classes)
        filled["in_models"][people] = inside
    if level.membership is not None:
        for name, attribute in ATTACKS.items():
            filled[name][level.audited] = getattr(level.membership, attribute)
    if level.claimed_epsilon is not None:
        filled["epsilon_upper"][level.ensemble.texts("person_part") == "train"] = level.claimed_epsilon
    if level.per_instance is not None:
        filled["epsilon_estimate"][level.per_instance.people] = level.per_instance.epsilon
        filled["epsilon_statistical"][level.per_instance.people] = level.per_instance.own_statistical
    if level.intrinsic_people is not None and len(level.audited) == len(level.intrinsic_people.mu):
        filled["epsilon_estimate"][level.audited] = level.intrinsic_people.epsilon
    for name in BEST_ATTACK if level.privacy_loss is not None else ():
        filled[name][level.privacy_loss.people] = getattr(level.privacy_loss, name)  # type: ignore[union-attr]
    if level.reconstruction is not None:
        filled["reconstruction"][level.reconstruction.people] = level.reconstruction.error_lower
        for name, values in zip(LEFT, level.reconstruction.left or (), strict=False):
            filled[name][level.reconstruction.people] = values
    return filled | {rank_name(name): _ranks(filled[name], largest) for name, largest in RANKED.items()}


def decided(level: Level) -> list[tuple[np.ndarray, Multiplicity, bool]]:
    """Return who was scored, what models decide about them, and whether those learned from them; the last counts."""
    known = [
        (level.trained, level.trained_multiplicity, True),
        (level.tested, level.multiplicity, False),
        (level.audited, level.audited_multiplicity, not level.audited_apart),
    ]
    return [(people, decisions, inside) for people, decisions, inside in known if decisions is not None]


def told_columns(level: Level) -> dict[str, np.ndarray]:
    """Return how well each sensitive column of a person can be told; empty for people it was not asked about."""
    trained = np.flatnonzero(level.ensemble.texts("person_part") == "train")
    filled: dict[str, np.ndarray] = {}
    for guessing in level.told:
        for end, values in TOLD.items():
            column = np.full(level.ensemble.dataset.sizes["person"], np.nan)
            column[trained[guessing.people]] = getattr(guessing, values)
            filled[f"told_{guessing.column}{end}"] = column
    return filled


def own_unit_columns(level: Level) -> dict[str, np.ndarray]:
    """Return each feature's least error about a person in its own units; nothing where all people are alike."""
    units = None if level.reconstruction is None else level.reconstruction.own_units
    filled: dict[str, np.ndarray] = {}
    for name, errors in [] if units is None or not units.personal else zip(units.features, units.errors.T, strict=True):
        filled[f"off_by_{name}"] = np.full(level.ensemble.dataset.sizes["person"], np.nan)
        filled[f"off_by_{name}"][units.people] = errors  # type: ignore[union-attr]
    return filled


def rank_name(column: str) -> str:
    """Return the name of the column of a column's ranks."""
    return f"rank_{'membership' if column == 'membership_advantage' else column}"


def ranked(level: Level) -> dict[str, int]:
    """Return how many people each rank is among."""
    known = columns(level)
    return {rank_name(name).removeprefix("rank_"): int(np.isfinite(known[name]).sum()) for name in RANKED}


def individuals(levels: Sequence[Level]) -> pandas.DataFrame:
    """Return a tidy table: for every privacy level, a row for every input row in the original order."""
    import pandas

    return pandas.concat([_at_level(level) for level in levels], ignore_index=True)


def _at_level(level: Level) -> pandas.DataFrame:
    """Return everybody's row at one privacy level."""
    import pandas

    ensemble = level.ensemble
    classes = np.array(ensemble.description.data.classes)
    table: dict[str, Any] = {
        "id": ensemble.texts("person_id"),
        "part": ensemble.texts("person_part"),
        "label": classes[ensemble.dataset["person_label"].values],
    }
    for k, name in enumerate(ensemble.description.data.groups):
        table[f"group_{name}"] = ensemble.texts(f"group_{k}")
    kind = None if level.guarantee.epsilon is None else level.guarantee.epsilon.kind
    tighter = None if level.epsilon_tighter is None else level.epsilon_tighter.value
    claim = {"epsilon": level.claimed_epsilon, "epsilon_kind": kind, "delta": level.guarantee.delta}
    claim |= {"epsilon_tighter": tighter}
    table |= {"level": level.label, **claim}
    for name, values in columns(level).items():
        table[name] = _class_names(values, classes) if name == "predicted" else _for_all_rows(level, name, values)
    table |= told_columns(level) | own_unit_columns(level)
    return pandas.DataFrame(table).astype({"epsilon": float, "epsilon_tighter": float})


def _for_all_rows(level: Level, name: str, values: np.ndarray) -> np.ndarray:
    """Return a column in which what is about a person as a whole stands in every row of theirs."""
    if level.owners is None or name not in OF_PERSONS:
        return values
    _, owner = np.unique(level.owners, return_inverse=True)
    of_owner, known = np.full(owner.max() + 1, np.nan), np.isfinite(values)
    of_owner[owner[known]] = values[known]
    spread: np.ndarray = of_owner[owner]
    return spread


def shown_people(levels: Sequence[Level], limit: int = SHOWN) -> tuple[np.ndarray, str]:
    """Return who is on the page, and how they were chosen: everybody scored, or the extremes and a random rest."""
    audited = np.unique(np.concatenate([level.audited for level in levels]))
    everybody = np.unique(np.concatenate([people for level in levels for people, _, _ in decided(level)]))
    if len(everybody) <= limit:
        trained = "everybody trained on" if len(levels[0].trained) else "the people whose membership was attacked"
        return everybody, f"Everybody who was scored: the test part and {trained}."
    count = min(EXTREMES, limit // (6 * len(levels)))  # at least half of the page is left for the others
    kept = np.unique(np.concatenate([audited, *(_extremes(level, count) for level in levels)]))
    rest = np.random.default_rng(0).permutation(np.setdiff1d(everybody, kept))[: max(0, limit - len(kept))]
    words = (
        f"They are the {len(audited):,} people attacked, the {count} most and the {count} least arbitrary and the "
        f"{count} most exposed at each level, and {len(rest):,} others drawn at random."
    )
    return np.sort(np.concatenate([kept, rest])), words


def _extremes(level: Level, count: int) -> np.ndarray:
    """Return the people with the most and the least arbitrary decisions and the most exposed, this many of each."""
    order = level.tested[np.argsort(-level.multiplicity.disagreement, kind="stable")]
    exposed, loss = np.zeros(0, int), level.privacy_loss
    if loss is not None:
        scored = np.isin(loss.people, level.trained)
        exposed = loss.people[scored][np.argsort(-loss.advantage[scored], kind="stable")][:count]
    return np.concatenate([order[:count], order[len(order) - count :], exposed])


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
