"""Augmented output perturbation: the noise that SGD brings itself need not be added (IP1 Alg. 1, Tables 4, 5 and 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import classical_gaussian_noise_scale, gaussian_noise_scale
from seedscope.analyses.intrinsic.weight_grid import blocks
from seedscope.core import Number, map_in_threads, require, require_positive, require_probability, unknown_name
from seedscope.numerics import paired_t_test

Accuracy = Callable[[np.ndarray], np.ndarray]  # weights [model, parameter] → accuracy [model]
Formula = Literal["analytic", "classical"]
NOISE_SCALES = {"analytic": gaussian_noise_scale, "classical": classical_gaussian_noise_scale}


@dataclass(frozen=True, eq=False)
class AugmentedUtility:
    """Accuracies [model] of the same models without noise, with all of it (SGD_d) and with what SGD lacks (SGD_r).

    `share_of_gap` is how much of the accuracy that the full noise costs is won back; None where it costs none. The
    p-values are of one-sided paired t-tests over models, SGD_r above SGD_d and noiseless above SGD_d: ½ where all are
    equal. `share_of_gap_by_model` is the mean of the models' own shares, 0 where one has no gap, as the papers' code
    has it. `anisotropic` are the accuracies with `anisotropic_noise`, where a covariance was given.
    """

    epsilon: float
    noise_target: float
    noise_augmented: float
    noiseless: np.ndarray
    deterministic: np.ndarray
    augmented: np.ndarray
    gain: Number
    share_of_gap: Number | None
    p_value_gain: float
    p_value_cost: float
    share_of_gap_by_model: Number | None = None
    anisotropic: np.ndarray | None = None


def augmented_noise_scale(noise_target: ArrayLike, noise_intrinsic: ArrayLike) -> np.ndarray:
    """Return `√max(0, σ_target² − σ_i²)`: the noise to add where SGD brings σ_i of its own.

    That the sum is as private as σ_target rests on SGD's noise being Gaussian, isotropic and independent of the data:
    an estimate, no proof.

    >>> float(augmented_noise_scale(5.0, 3.0)), float(augmented_noise_scale(1.0, 3.0))
    (4.0, 0.0)

    IP1 Eq. (2) and Algorithm 1.
    """
    target, own = np.asarray(noise_target, float), np.asarray(noise_intrinsic, float)
    require((target >= 0) & (own >= 0), "noise scales must be at least 0.")
    noise_scale: np.ndarray = np.sqrt(np.maximum((target - own) * (target + own), 0.0))
    return noise_scale


def anisotropic_noise(noise_target: float, covariance: ArrayLike) -> np.ndarray:
    """Return a root A [parameter, parameter] of `(σ_target² I − Σ)₊`: noise A·z lacks only what SGD has *there*.

    The pooled deviation of all weights credits every direction with the mean one's noise. Along a direction in which
    the seed hardly moves the weights, such as a bias that begins at 0, that is credit for noise which is not there.

    Args:
        noise_target: σ_target.
        covariance: Σ, [parameter, parameter], of the weights over seeds.

    >>> anisotropic_noise(5.0, np.diag([9.0, 0.0, 100.0])).round(6).tolist()
    [[4.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 0.0]]
    """
    matrix = np.asarray(covariance, float)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    require(square, f"covariance must have the axes [parameter, parameter], got the shape {matrix.shape}.")
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    root: np.ndarray = (vectors * np.sqrt(np.maximum(0.0, noise_target**2 - values))) @ vectors.T
    return root


def augmented_utility(
    weights: ArrayLike,
    accuracy: Accuracy,
    *,
    sensitivity: float,
    noise_intrinsic: float,
    epsilon: float,
    delta: float,
    formula: Formula = "analytic",
    normal: ArrayLike | None = None,
    covariance: ArrayLike | None = None,
    seed: int = 0,
) -> AugmentedUtility:
    """Return what accuracy is saved by adding only the noise that SGD lacks.

    Every model gets one normal draw, scaled to each noise level, so that the differences are due to the level alone.

    Args:
        weights: [model, parameter]; the papers take 500 models.
        accuracy: a function from weights [model, parameter] to accuracies [model]; see `linear_accuracy`.
        sensitivity: Δ, the theoretical bound or an empirical one.
        noise_intrinsic: σ_i, the variability of SGD with varied initialisation.
        epsilon, delta: the privacy aimed at.
        formula: "analytic", or "classical" for the papers' tables (proved for epsilon below 1 only).
        normal: the standard normal draws, [model, parameter], or [parameter] as in the papers' code, which adds one
            vector to all models; by default drawn for each.
        covariance: of the weights over seeds, for noise that is credited direction by direction (`anisotropic_noise`).
        seed: of the normal draws.

    >>> features, labels = np.array([[1.0], [-1.0]]), np.array([1, 0])
    >>> models = np.tile([2.0, 0.0], (200, 1))
    >>> found = augmented_utility(models, linear_accuracy(features, labels), sensitivity=1.0, noise_intrinsic=3.0,
    ...                           epsilon=1.0, delta=1e-5)
    >>> round(found.noise_target, 2), round(found.noise_augmented, 2), found.noiseless.mean().item()
    (3.73, 2.22, 1.0)

    IP1 §4, Tables 4 and 7.
    """
    array = np.asarray(weights, float)
    require(array.ndim == 2, f"weights must have the axes [model, parameter], got the shape {array.shape}.")
    require(len(array) >= 3, f"the comparison needs at least 3 models, got {len(array)}; train more seeds.")
    require_positive("epsilon", epsilon)
    require_probability("delta", delta)
    if formula not in NOISE_SCALES:
        raise unknown_name("formula", formula, NOISE_SCALES)
    target = float(NOISE_SCALES[formula](sensitivity, epsilon, delta))
    added = float(augmented_noise_scale(target, noise_intrinsic))
    draws = np.random.default_rng(seed).standard_normal(array.shape) if normal is None else np.asarray(normal, float)
    fitting = draws.shape in (array.shape, array.shape[1:])
    require(fitting, f"normal must have the shape {array.shape} or {array.shape[1:]}, got {draws.shape}.")
    noiseless, full, less = (np.asarray(accuracy(array + scale * draws), float) for scale in (0.0, target, added))
    root = None if covariance is None else anisotropic_noise(target, covariance)
    return AugmentedUtility(
        epsilon=float(epsilon),
        noise_target=target,
        noise_augmented=added,
        noiseless=noiseless,
        deterministic=full,
        augmented=less,
        gain=Number(float(np.mean(less - full)), "estimate"),
        share_of_gap=_share_of_gap(noiseless, full, less),
        p_value_gain=float(paired_t_test(less, full)[1]),
        p_value_cost=float(paired_t_test(noiseless, full)[1]),
        share_of_gap_by_model=_share_by_model(noiseless, full, less),
        anisotropic=None if root is None else np.asarray(accuracy(array + draws @ root.T), float),
    )


def _share_of_gap(noiseless: np.ndarray, full: np.ndarray, less: np.ndarray) -> Number | None:
    """Return (SGD_r − SGD_d)/(noiseless − SGD_d) of the means, or None where noise costs nothing."""
    gap = float(np.mean(noiseless - full))
    return Number(float(np.mean(less - full)) / gap, "estimate") if gap > 0 else None


def _share_by_model(noiseless: np.ndarray, full: np.ndarray, less: np.ndarray) -> Number:
    """Return the mean over models of their own shares of the gap; a share that is not finite counts as 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (less - full) / (noiseless - full)
    return Number(float(np.where(np.isfinite(shares), shares, 0.0).mean()), "estimate")


def linear_accuracy(features: ArrayLike, labels: ArrayLike, *, classes: int = 2, bias: bool = True) -> Accuracy:
    """Return the function from weights [model, parameter] of linear models to their accuracies [model].

    Args:
        features: [example, column], scaled as in training, without a bias column.
        labels: [example], 0 … classes − 1.
        classes: two have one score per example (class 1 where it is above 0), more have one score per class.
        bias: whether the parameters, [score, column] row by row, are followed by one bias per score.

    >>> accuracy = linear_accuracy([[1.0], [-2.0]], [1, 0])
    >>> accuracy(np.array([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 0.5]
    """
    rows, truth = np.asarray(features, float), np.asarray(labels)
    require(rows.ndim == 2 and len(rows) == len(truth), "features must be [example, column], with one label per row.")
    outputs = 1 if classes == 2 else classes
    parameters = outputs * (rows.shape[1] + bool(bias))

    def of_block(weights: np.ndarray) -> np.ndarray:
        slopes = weights[:, : outputs * rows.shape[1]].reshape(len(weights) * outputs, -1)
        scores = (slopes @ rows.T).reshape(len(weights), outputs, -1)
        if bias:
            scores += weights[:, -outputs:, None]
        predicted = scores[:, 0] > 0 if classes == 2 else scores.argmax(axis=1)
        accuracies: np.ndarray = np.mean(predicted == truth, axis=1)
        return accuracies

    def accuracy(weights: np.ndarray) -> np.ndarray:
        width = weights.shape[1]
        require(width == parameters, f"weights of this model must have {parameters} parameters, got {width}.")
        parts = [weights[block] for block in blocks(len(weights), 16 * outputs * len(rows))]
        return np.concatenate(list(map_in_threads(of_block, parts)))

    return accuracy
