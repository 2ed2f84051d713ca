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
from seedscope.core import Kind, SeedscopeError, number_or_none, require
from seedscope.datasets import Dataset
from seedscope.mechanisms import NoisyObjective
from seedscope.storage import Ensemble
from seedscope.training import LinearSteps, Suspects, informed_releases

PEOPLE = {"density": 1000, "runs": 50}  # about whom it is asked, at most
RELEASES = 200  # of DP-SGD for each of them
KNOWN = "it is for objective perturbation, and for DP-SGD of logistic regression, of two classes"


def told(
    ensemble: Ensemble, data: Dataset | None, column: str, candidates: int = 10, confidence: float = 0.95
) -> Guessing:
    """Return the best attacker's chance to tell a column of each person, beside guessing and the guarantee's ceiling.

    Where the released model's density is known (objective perturbation) the models of the ensemble serve; DP-SGD of
    logistic regression is trained anew, with another true value drawn for each release.

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
    require(data.classes == 2, f"{KNOWN}; the data have {data.classes}.")
    objective = ensemble.mechanism.noisy_objective(ensemble.description.conditions)
    way = "runs" if objective is None else "density"
    people = _asked(len(data.base), PEOPLE[way], ensemble.description.grid.root_seed)
    asked = candidates_for(data, column, people, candidates, ensemble.description.grid.root_seed)
    found = _by_runs(ensemble, data, asked, confidence) if objective is None else None
    found = found or _by_density(ensemble, data, asked, objective, confidence)
    ceiling = mechanism_success_upper(asked.chance, ensemble.mechanism, ensemble.description.conditions)
    return Guessing(column, people, asked.chance, *found[0], ceiling, found[1], found[2], confidence)


def _asked(examples: int, most: int, seed: int) -> np.ndarray:
    """Return about whom it is asked: everybody, or this many drawn at random."""
    if examples <= most:
        return np.arange(examples)
    return np.sort(np.random.default_rng(seed).choice(examples, most, replace=False))


Found = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], int, Kind]


def _by_density(
    ensemble: Ensemble, data: Dataset, asked: Candidates, objective: NoisyObjective | None, confidence: float
) -> Found:
    """Return success with its ends, the number of models and the kind, from the density of what is released."""
    weights = base_weights(ensemble)
    assert objective is not None
    assert weights is not None  # every mechanism with a density records them
    rows, labels, possible = _scaled(ensemble, data, asked)
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
    rows, labels, possible = _scaled(ensemble, data, asked)
    seed = ensemble.description.grid.root_seed
    draw = np.random.default_rng([seed, 1])
    truth = np.stack([draw.choice(asked.prior.shape[1], RELEASES, p=one) for one in asked.prior], axis=1)
    suspects = Suspects(asked.people, possible, asked.labels.astype(float))
    likelihoods = informed_releases(rows, labels.astype(float), _linear_steps(ensemble), suspects, truth, seed)
    kind: Kind = "estimate" if ensemble.description.conditions.learned else "statistical"
    return posterior_success(likelihoods, asked.prior, confidence), RELEASES, kind


def _linear_steps(ensemble: Ensemble) -> LinearSteps:
    """Return the steps of DP-SGD on logistic regression, or raise what keeps the attack from them."""
    mechanism: Any = ensemble.mechanism
    sums = mechanism.noisy_sums(ensemble.description.data.examples)
    linear = sums is not None and ensemble.description.model.name.lower().startswith("logistic")
    require(linear, f"{KNOWN}; here is {mechanism.name} of {ensemble.description.model.name}.")
    simple = isinstance(mechanism.learning_rate, int | float) and mechanism.momentum is None
    poisson = sums.sampling.amplifies == "poisson" and not sums.divided_by_true_size
    require(not mechanism.limits_people, "its runs have everybody in every sum; leave out personal_budget.")
    require(simple and poisson, "it is for DP-SGD with Poisson() batches, the sum rule, a fixed step and no momentum.")
    scale = sums.noise_multiplier * sums.clipping_norm
    return LinearSteps(
        float(mechanism.learning_rate), sums.steps, sums.sampling_probability, mechanism.batch_size,
        sums.clipping_norm, scale, sums.clipping.smooth,
    )  # fmt: skip


def _scaled(ensemble: Ensemble, data: Dataset, asked: Candidates) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, labels and candidates as training sees them, with the bias's ones."""
    fitted = ensemble.scaling.fit(data)
    people, count, width = asked.rows.shape
    possible = _with_bias(fitted.apply(asked.rows.reshape(-1, width))).reshape(people, count, width + 1)
    return _with_bias(fitted.apply(np.asarray(data.base.features, float))), data.base.labels, possible


def _with_bias(rows: np.ndarray) -> np.ndarray:
    """Return rows with a last column of ones."""
    return np.column_stack([rows, np.ones(len(rows))])


def require_sensitive(data: Dataset, columns: tuple[str, ...], candidates: int) -> None:
    """Raise where a sensitive column cannot be asked about, before anything is trained."""
    for column in columns:
        candidates_for(data, column, np.zeros(1, int), candidates)
    if columns and data.classes != 2:
        raise SeedscopeError(f"sensitive columns need two classes, the data have {data.classes}.", argument="sensitive")


def plain_told(found: Guessing) -> dict[str, Any]:
    """Return what can be told of a column, as plain values."""
    return {
        "column": found.column,
        "people": len(found.people),
        "releases": found.releases,
        "chance": float(found.chance.mean()),
        "mean": found.mean,
        "largest": number_or_none(found.largest),
        "ceiling": float(found.ceiling.max()),
    }
