"""How well a sensitive column of each person can be told by an attacker who knows everything else."""

from __future__ import annotations

from typing import Any

import numpy as np

from seedscope.analyses.reconstruction import (
    Candidates,
    Guessing,
    candidates_for,
    density_success,
    mechanism_success_upper,
    posterior_success,
    tilted_candidate_ratios,
)
from seedscope.auditing.records import base_weights
from seedscope.core import Kind, number_or_none, require
from seedscope.datasets import Dataset
from seedscope.mechanisms import Mechanism, NoisyObjective
from seedscope.storage import Ensemble

PEOPLE = {"density": 1000, "runs": 50}  # about whom it is asked, at most
RELEASES = 200  # of DP-SGD for each of them
MOST_OPERATIONS = 2e13  # of all releases: some minutes
KNOWN = "it is for objective perturbation, and for DP-SGD with Poisson() batches"


def told(
    ensemble: Ensemble, data: Dataset | None, column: str, candidates: int = 10, confidence: float = 0.95
) -> Guessing:
    """Return the best attacker's chance to tell a column of each person, beside guessing and the guarantee's ceiling.

    Where the released model's density is known (objective perturbation) the models of the ensemble serve; DP-SGD, of
    logistic regression or a small network, is trained anew, with another true value drawn for each release.

    Args:
        ensemble: of one privacy level.
        data: what it was trained on.
        column: see `candidates_for`.
        candidates: how many a number or a record has.
        confidence: of all people's intervals at once.
    """
    require(data is not None, "it needs the rows themselves; give audit(…, data=…).")
    assert data is not None
    guarantee = ensemble.guarantee
    require(guarantee.epsilon is not None, f"no ceiling is proved: {guarantee.reason}")
    require_followed(data, ensemble.mechanism)
    objective = ensemble.mechanism.noisy_objective(ensemble.description.conditions)
    known = objective is not None or ensemble.mechanism.noisy_sums(len(data.base)) is not None
    require(known, f"{KNOWN}; here is {ensemble.mechanism.name}.")
    most = PEOPLE["density"] if objective is not None else _affordable(ensemble, data, candidates)
    people = _asked(len(data.base), most, ensemble.description.grid.root_seed)
    asked = candidates_for(data, column, people, candidates, ensemble.description.grid.root_seed)
    if objective is None:
        success = _by_runs(ensemble, data, asked, confidence)
    else:
        success = _by_density(ensemble, data, asked, objective, confidence)
    ceiling = mechanism_success_upper(asked.chance, ensemble.mechanism, ensemble.description.conditions)
    return Guessing(column, people, asked.chance, *success[0], ceiling, success[1], success[2], confidence)


def _asked(examples: int, most: int, seed: int) -> np.ndarray:
    """Return about whom it is asked: everybody, or this many drawn at random."""
    if examples <= most:
        return np.arange(examples)
    return np.sort(np.random.default_rng(seed).choice(examples, most, replace=False))


Found = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], int, Kind]


def _by_density(
    ensemble: Ensemble, data: Dataset, asked: Candidates, objective: NoisyObjective, confidence: float
) -> Found:
    """Return success with its ends, the number of models and the kind, from the density of what is released."""
    weights = base_weights(ensemble)
    assert weights is not None  # every mechanism with a density records them
    rows, possible = map(_with_bias, _scaled(ensemble, data, asked))
    labels = data.base.labels
    ratios = tilted_candidate_ratios(
        rows, labels, weights, objective.penalties(rows.shape[1]), objective.law, objective.scale, asked.people,
        possible, asked.labels,
    )  # fmt: skip
    pure = ensemble.guarantee.delta == 0 and ensemble.guarantee.epsilon is not None
    times = 1 if ensemble.guarantee.relation == "replace_one" else 2
    largest = times * float(ensemble.guarantee.epsilon) if pure and ensemble.guarantee.epsilon is not None else None
    learned = bool(ensemble.description.conditions.learned)
    kind: Kind = "statistical" if pure and not learned else "estimate"
    return density_success(ratios, asked.prior, confidence, largest), len(weights), kind


def _by_runs(ensemble: Ensemble, data: Dataset, asked: Candidates, confidence: float) -> Found:
    """Return the same from runs of DP-SGD that are trained for it."""
    from seedscope.training.dpsgd import Suspects, informed_releases  # JAX

    rows, possible = _scaled(ensemble, data, asked)
    grid = ensemble.description.grid
    draw = np.random.default_rng([grid.root_seed, 1])
    truth = np.stack([draw.choice(asked.prior.shape[1], RELEASES, p=chances) for chances in asked.prior], axis=1)
    steps, network = _steps(ensemble, data)
    suspects = Suspects(asked.people, possible, asked.labels)
    logs = informed_releases(steps, network, rows, data.base.labels, suspects, truth, grid.root_seed, grid.init[0])
    kind: Kind = "estimate" if ensemble.description.conditions.learned else "statistical"
    return posterior_success(logs, asked.prior, confidence), RELEASES, kind


def _steps(ensemble: Ensemble, data: Dataset) -> tuple[Any, Any]:
    """Return the steps of DP-SGD and the network that they train."""
    from seedscope.models import model_named, network_of  # JAX

    mechanism: Any = ensemble.mechanism
    network = network_of(model_named(ensemble.description.model.name), data.base.features.shape[1:], data.classes)
    return mechanism.private_steps(), network


def _affordable(ensemble: Ensemble, data: Dataset, candidates: int) -> int:
    """Return about how many people it can be asked in a few minutes; raise where it is nobody."""
    from seedscope.training.dpsgd import operations  # JAX

    steps, network = _steps(ensemble, data)
    cost = RELEASES * operations(steps, network, data.base.features.shape[1:], len(data.base), candidates)
    large = f"the network is too large: {RELEASES} releases about one person take {cost:.1g} operations"
    require(cost <= MOST_OPERATIONS, f"{large}, more than {MOST_OPERATIONS:.0e}; ask of a smaller network.")
    return min(PEOPLE["runs"], int(MOST_OPERATIONS / cost))


def _scaled(ensemble: Ensemble, data: Dataset, asked: Candidates) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and candidates [person, candidate, ...] as training sees them."""
    fitted = ensemble.scaling.fit(data)
    people, count, *shape = asked.rows.shape
    possible = fitted.apply(asked.rows.reshape(-1, *shape)).reshape(people, count, *shape)
    return fitted.apply(np.asarray(data.base.features, float)), possible


def _with_bias(rows: np.ndarray) -> np.ndarray:
    """Return rows [..., feature] with a last column of ones."""
    return np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1)


def require_sensitive(data: Dataset, columns: tuple[str, ...], candidates: int) -> None:
    """Raise where a sensitive column cannot be asked about, before anything is trained."""
    for column in columns:
        candidates_for(data, column, np.zeros(1, int), candidates)


def require_followed(data: Dataset, mechanism: Mechanism) -> None:
    """Raise where what the mechanism releases has no known law with another record in a person's place."""
    if mechanism.noisy_sums(len(data.base)) is not None:
        reason = mechanism.cannot_record("privacy_losses")
        require(not reason, f"sensitive columns need what privacy losses need: {reason}", argument="sensitive")
    else:
        two = f"sensitive columns need two classes under {mechanism.name}, the data have {data.classes}."
        require(data.classes == 2, two, argument="sensitive")


def plain_told(guessing: Guessing) -> dict[str, Any]:
    """Return what can be told of a column, as plain values."""
    return {
        "column": guessing.column,
        "people": len(guessing.people),
        "releases": guessing.releases,
        "chance": float(guessing.chance.mean()),
        "mean": guessing.mean,
        "largest": number_or_none(guessing.largest),
        "ceiling": float(guessing.ceiling.max()),
    }
