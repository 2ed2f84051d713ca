"""Trains one grid of the papers and computes everything that their tables and figures show of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import seedscope as ss
from seedscope.analyses.intrinsic import (
    AugmentedUtility,
    Clusters,
    Growth,
    HiddenLayer,
    IntrinsicPrivacy,
    SampledSensitivity,
    SeedAndDataDistances,
    Symmetry,
    Trajectories,
    augmented_utility,
    checkpoint_weights,
    checkpoints,
    cluster_models,
    distances_along_training,
    empirical_sensitivity,
    intrinsic_privacy,
    linear_accuracy,
    pairwise_epsilon,
    sampled_sensitivity,
    sensitivity_bound_of,
    sensitivity_growth,
    variability,
    variability_growth,
    weight_trajectories,
    without_symmetry,
)
from seedscope.core import model_progress
from seedscope.reproduce.comparison import Run
from seedscope.reproduce.intrinsic.settings import Setting, Size
from seedscope.training.gradient import score_block

CHECKPOINTS = 10
KEPT = 5000  # distances of each kind that are kept to draw
SCORED = 25  # models whose accuracy on the test part is averaged
BOUND_POINTS = 200  # of the theoretical bound's stairs in Figure 2
NUMBERS_AT_ONCE = 1 << 25  # of all layers of the models that are scored together
UTILITIES = ((1.0, "bound"), (1.0, "empirical"), (0.5, "bound"), (0.5, "empirical"))
SHARED, OWN = "one noise vector", "a vector for each model"
PERTURBED = {"small": 100, "paper": 500}  # models to which noise is added
MAPPED = Size(12, 12)  # seeds and data sets of the maps of models


@dataclass(frozen=True)
class Steadiness:
    """Whether weights that the seed moves little are moved little by a record too (IP2 §7).

    The rank correlation over weights, and how far a record moves the steadiest weight as a share of the most moved one.
    """

    rank_correlation: float
    steadiest_share: float


@dataclass(frozen=True, eq=False)
class GridOutcome:
    """What the papers show of one grid: numbers with varied initialisation, distances with both.

    `accuracy` [model] is of models of the base data set; `bounds` has the proved sensitivity bound by step where there
    is one; `utilities` are by (ε, sensitivity, noise); `distances` and `spread`, the pooled one of the base's models,
    by (init, step). `pairwise` [pair] has the ε of single pairs, `steadiness` what steady weights are moved by,
    `mapped` [seed, data set, weight] some models at the end, `mapped_early` at the first checkpoint. `drawn_pairs` and
    `spread_median` are Δ_S and σ as the authors' code has them: over pairs drawn at random, the median of data sets.
    """

    setting: Setting
    size: Size
    privacy: IntrinsicPrivacy
    distances: Mapping[tuple[str, int], SeedAndDataDistances]
    bounds: Mapping[int, float]
    accuracy: np.ndarray
    clusters: Clusters
    sensitivity_growth: Mapping[str, Growth]
    variability_growth: Mapping[str, Growth]
    utilities: Mapping[tuple[float, str, str], AugmentedUtility]
    drawn_pairs: SampledSensitivity
    spread: Mapping[tuple[str, int], float]
    spread_median: float
    pairwise: np.ndarray
    steadiness: Steadiness
    trajectories: Trajectories
    mapped: np.ndarray
    mapped_early: np.ndarray
    symmetry: Symmetry | None

    def at_the_end(self, init: str) -> SeedAndDataDistances:
        """Return the distances between final weights."""
        return self.distances[init, self.setting.steps]


def study_grid(setting: Setting, data: ss.Dataset, run: Run, size: Size | None = None) -> GridOutcome:
    """Train a grid (by default of the run's scale) and return what the papers show of it."""
    size = size or setting.size(run.scale)
    return analysed(setting, data, size, trained(setting, data, size, run), PERTURBED[run.scale])


def trained(setting: Setting, data: ss.Dataset, size: Size, run: Run) -> ss.Ensemble:
    """Return the grid's models: weights at checkpoints, no scores, which would be many times larger."""
    grid = ss.Grid(size.seeds, size.datasets - 1, init="both", checkpoints=CHECKPOINTS)
    with model_progress(setting.name, run.quiet) as progress:
        return ss.train(
            data,
            setting.mechanism,
            model=setting.network,
            grid=grid,
            records=ss.Records(probes=()),
            store=run.store(setting.name),
            jobs=run.jobs,
            progress=progress,
        )


def analysed(
    setting: Setting, data: ss.Dataset, size: Size, ensemble: ss.Ensemble, perturbed: int = 500
) -> GridOutcome:
    """Return everything that the papers show of a trained grid; noise is added to `perturbed` of its models."""
    privacy = intrinsic_privacy(ensemble)
    weights = checkpoint_weights(ensemble)  # varied initialisation, final: [seed, data set, parameter]
    return GridOutcome(
        setting=setting,
        size=size,
        privacy=privacy,
        distances=distances_along_training(ensemble, keep=KEPT),
        bounds=bounds_along_training(ensemble, setting.steps),
        accuracy=accuracies(setting.network, data, weights[:SCORED, 0]),
        clusters=cluster_models(weights),
        sensitivity_growth=sensitivity_growth(weights),
        variability_growth=variability_growth(weights),
        utilities=utilities(setting, data, weights, privacy, perturbed) if setting.model == "logistic" else {},
        drawn_pairs=sampled_sensitivity(weights, max(1, size.models // 4)),
        spread=spread_along_training(ensemble),
        spread_median=float(np.median(variability(weights).flat)),
        pairwise=pairwise_epsilon(weights, privacy.variability_flat.value, privacy.delta).ravel(),
        steadiness=steadiness(weights),
        trajectories=trajectories(ensemble),
        mapped=weights[: MAPPED.seeds, : MAPPED.datasets],
        mapped_early=early_weights(ensemble)[: MAPPED.seeds, : MAPPED.datasets],
        symmetry=without_symmetry(weights, hidden_layer(setting, data)) if setting.model == "mlp" else None,
    )


def hidden_layer(setting: Setting, data: ss.Dataset) -> HiddenLayer:
    """Return the shape of a setting's hidden layer."""
    return HiddenLayer(prod(data.features.shape[1:]), setting.hidden, 1 if data.classes == 2 else data.classes)


def spread_along_training(ensemble: ss.Ensemble) -> dict[tuple[str, int], float]:
    """Return IP1's spread over seeds of the base's models by (init, step)."""
    every = checkpoints(ensemble)
    return {(init, step): float(variability(weights[:, :1]).flat[0]) for init, step, weights in every}


def steadiness(weights: np.ndarray) -> Steadiness:
    """Return whether steady weights have a small sensitivity of their own."""
    from scipy.stats import spearmanr

    moved, spread = empirical_sensitivity(weights).strict_by_weight, variability(weights[:, :1]).by_weight[0]
    steadiest = moved[spread.argmin()] / moved.max()
    return Steadiness(float(spearmanr(spread, moved).statistic), float(steadiest))


def trajectories(ensemble: ss.Ensemble) -> Trajectories:
    """Return the two weights that differ most between seeds along training, from one initial point (IP2 Figure 1)."""
    every = [(step, weights[:, 0]) for init, step, weights in checkpoints(ensemble) if init == "fixed"]
    return weight_trajectories(np.stack([weights for _, weights in every], axis=1), [step for step, _ in every])


def early_weights(ensemble: ss.Ensemble) -> np.ndarray:
    """Return the weights [seed, data set, weight] at the first checkpoint."""
    return checkpoint_weights(ensemble, step=int(ensemble.dataset["step"].values[0]))


def bounds_along_training(ensemble: ss.Ensemble, steps: int) -> dict[int, float]:
    """Return the proved sensitivity bound by step; nothing where it is refused."""
    asked = np.unique(np.linspace(1, steps, BOUND_POINTS).astype(int)).tolist()
    bounds = {step: sensitivity_bound_of(ensemble.description, step) for step in asked}
    return {step: bound.value for step, bound in bounds.items() if isinstance(bound, ss.Number)}


def accuracies(model: Any, data: ss.Dataset, weights: np.ndarray) -> np.ndarray:
    """Return the accuracy on the test part [model] of models given by their weights [model, parameter]."""
    network = ss.models.network_of(model, data.features.shape[1:], data.classes)
    rows, labels = scaled_test_rows(data).astype(np.float32), data.test_labels
    size = max(1, NUMBERS_AT_ONCE // (16 * len(weights) * prod(rows.shape[1:])))
    right = np.zeros(len(weights))
    for start in range(0, len(rows), size):
        some = slice(start, start + size)
        probes = (rows[some], labels[some].astype(np.float32))
        scores = np.asarray(score_block(network, weights[None], probes)["scores"])[0]
        predicted = scores > 0.5 if scores.ndim == 2 else scores.argmax(-1)
        right += (predicted == labels[some]).sum(1)
    return right / len(rows)


def scaled_test_rows(data: ss.Dataset) -> np.ndarray:
    """Return the test part's features, scaled as for training."""
    return ss.datasets.default_scaling(data).fit(data).apply(data.test_features)


def utilities(
    setting: Setting, data: ss.Dataset, weights: np.ndarray, privacy: IntrinsicPrivacy, models: int
) -> dict[tuple[float, str, str], AugmentedUtility]:
    """Return the accuracies without, with all and with less noise, for models drawn at random from the grid.

    The bound is the papers' own, with a fraction of an epoch, so that the noise is theirs.
    """
    every = weights.reshape(-1, weights.shape[-1])
    chosen = every[np.random.default_rng(0).permutation(len(every))[:models]]
    accuracy = linear_accuracy(scaled_test_rows(data), data.test_labels)
    sensitivities = {"empirical": privacy.sensitivity_all_pairs.value}
    if privacy.sensitivity_bound is not None:
        sensitivities["bound"] = setting.published_bound(len(data.base))
    base = weights[:, 0]
    enough = len(base) > base.shape[1]  # else the covariance says nothing of most directions
    covariance = np.cov(base, rowvar=False) if enough else None
    shared = np.random.RandomState(0).normal(size=weights.shape[-1])  # the papers' code: one vector for all models
    return {
        (epsilon, name, noise): augmented_utility(
            chosen,
            accuracy,
            sensitivity=sensitivities[name],
            noise_intrinsic=privacy.variability_flat.value,
            epsilon=epsilon,
            delta=privacy.delta,
            formula="classical",  # as in the papers' tables
            normal=shared if noise == SHARED else None,
            covariance=covariance,
        )
        for epsilon, name in UTILITIES
        if name in sensitivities
        for noise in (SHARED, OWN)
    }
