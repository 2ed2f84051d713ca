"""Multiplicity of scores: viable prediction range, Rashomon capacity, and output perturbation in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, log_ndtr, ndtr, rel_entr

from seedscope.analyses.multiplicity.disagreement import require_scores
from seedscope.core import require, require_positive

_BLOCK = 2**22  # score values of one block of examples
_REACH, _STEP = 8.0, 0.4  # of the trapezoidal rule, which for normal densities is exact to many digits


def viable_prediction_range(scores: ArrayLike) -> np.ndarray:
    """Return the largest minus the smallest score that any model gives an example (and class).

    Args:
        scores: in [0, 1], [model, example] or [model, example, class], at least two models.

    >>> viable_prediction_range([[0.1, 0.5], [0.9, 0.5]])
    array([0.8, 0. ])

    Watson-Daniels, Parkes & Ustun 2023; AD Equation 22.
    """
    low, high = _score_ends(np.asarray(scores))
    width: np.ndarray = high - low
    return width


def rashomon_capacity(scores: ArrayLike, tolerance: float = 1e-4, iterations: int = 10_000) -> np.ndarray:
    """Return how many classes the models spread an example over, between 1 (all alike) and the number of classes.

    It is 2 to the capacity, in bits, of the channel from the choice of a model to its predicted class: the largest
    mutual information over all weights on the models. With two classes only the two extreme models matter and the
    capacity has a closed form; otherwise the Blahut–Arimoto iteration runs until its lower and upper bounds are within
    `tolerance` bits and the lower is returned.

    Args:
        scores: [model, example] for the probability of class 1, or [model, example, class] with rows that sum to 1.

    >>> rashomon_capacity([[0.0, 0.3, 0.2], [1.0, 0.3, 0.8]]).round(3)
    array([2.   , 1.   , 1.213])

    Hsu & Calmon 2022, "Rashomon capacity", Definition 2; Silverman 1955 for the closed form.
    """
    values = np.asarray(scores)
    low, high = _score_ends(values)
    if values.ndim == 2:
        return 2 ** _binary_capacity(low.astype(float), high.astype(float))
    require(np.abs(values.sum(axis=2) - 1) < 1e-3, "scores of all classes must sum to 1 for each model and example.")
    require_positive("tolerance", tolerance)
    size = max(1, _BLOCK // (values.shape[0] * values.shape[2]))
    blocks = np.array_split(values, max(1, -(-values.shape[1] // size)), axis=1)
    return 2 ** np.concatenate([_capacity(block.astype(float), tolerance, iterations) for block in blocks])


def output_perturbation_disagreement(scores: ArrayLike, norms: ArrayLike, noise_scale: ArrayLike) -> np.ndarray:
    """Return the disagreement of output perturbation in closed form: no re-training at all.

    Noise `N(0, σ² I)` on the weights w of a linear model moves an example's linear score w·x̃ by `N(0, σ²‖x̃‖²)`, so it
    is decided 1 with probability `p = Φ(w·x̃/(‖x̃‖σ))`, and the disagreement is 4p(1−p).

    Args:
        scores: *linear* scores w·x̃ of the model without noise (not probabilities), any shape; all arguments broadcast.
        norms: ‖x̃‖ > 0, the norm of the example with its bias column.
        noise_scale: σ > 0.

    >>> output_perturbation_disagreement([0.0, 1.0, 10.0], 1.0, 1.0).round(4)
    array([1.    , 0.5339, 0.    ])

    AD Proposition 2.
    """
    require_positive("norms", norms)
    require_positive("noise_scale", noise_scale)
    linear = np.asarray(scores, float)
    require(np.isfinite(linear), "scores must be finite linear scores.")
    margin = linear / (np.asarray(norms, float) * np.asarray(noise_scale, float))
    disagreement: np.ndarray = 4 * ndtr(margin) * ndtr(-margin)
    return disagreement


def class_chances(scores: ArrayLike, norms: ArrayLike, noise_scale: float) -> np.ndarray:
    """Return how often output perturbation decides each class [..., class]: by quadrature, no re-training at all.

    Noise on the weights moves the classes' scores w_k·x̃ independently by `N(0, σ²‖x̃‖²)` (but for what all of them have
    in common, which decides nothing), so class k wins with chance `∫ φ(u − a_k) Π_{l≠k} Φ(u − a_l) du`, a = w·x̃/σ‖x̃‖.

    Args:
        scores: *linear* scores of the model without noise, [..., class].
        norms: ‖x̃‖ > 0, the norm of the example with its bias column, [...].
        noise_scale: σ > 0.

    >>> class_chances([[0.0, 0.0, 0.0], [2.0, 0.0, -30.0]], 1.0, 1.0).round(3).tolist()
    [[0.333, 0.333, 0.333], [0.921, 0.079, 0.0]]
    """
    require_positive("norms", norms)
    require_positive("noise_scale", noise_scale)
    linear = np.asarray(scores, float)
    require(np.isfinite(linear), "scores must be finite linear scores.")
    places = linear / (np.asarray(norms, float)[..., None] * noise_scale)
    behind = np.maximum(places - places.max(-1, keepdims=True), -1e6)
    chances = np.zeros_like(behind)
    for u in np.arange(-_REACH, _REACH + _STEP / 2, _STEP):
        logs = log_ndtr(u - behind)
        chances += np.exp(logs.sum(-1, keepdims=True) - logs - (u - behind) ** 2 / 2)
    normed: np.ndarray = chances / chances.sum(-1, keepdims=True)
    return normed


def _score_ends(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest score over models, after checking the scores."""
    require(values.ndim in (2, 3), f"scores must be [model, example] or [model, example, class], got {values.shape}.")
    require(len(values) >= 2, f"multiplicity needs at least two models, got {len(values)}; train with more seeds.")
    low, high = values.min(axis=0), values.max(axis=0)
    require_scores(low)
    require_scores(high)
    return low, high


def _binary_capacity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the capacity in bits of two models with scores a ≤ b (Silverman's formula)."""
    gap = np.where(b > a, b - a, 1.0)
    entropy_a, entropy_b = ((entr(p) + entr(1 - p)) / np.log(2) for p in (a, b))
    capacity = (a * entropy_b - b * entropy_a) / gap + np.logaddexp2(0.0, (entropy_a - entropy_b) / gap)
    # for nearly equal scores the formula cancels; there the capacity is gap²/(8 ln 2 · s(1−s)) to first order
    middle = (a + b) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        nearly = (b - a) ** 2 / (8 * np.log(2) * middle * (1 - middle))
    close = b - a < 1e-4 * np.minimum(middle, 1 - middle)
    return np.clip(np.where(close | (b <= a), np.where(b > a, nearly, 0.0), capacity), 0.0, 1.0)


def _capacity(p: np.ndarray, tolerance: float, iterations: int) -> np.ndarray:
    """Return the capacity in bits per example of [model, example, class] rows, by Blahut–Arimoto."""
    capacity = np.zeros(p.shape[1])
    active = np.arange(p.shape[1])
    weights = np.full(p.shape[:2], 1 / len(p))
    for _ in range(iterations):
        mixture = np.einsum("mn,mnk->nk", weights, p)
        distance = rel_entr(p, mixture).sum(axis=2)  # how far each model is from the mixture, in nats
        capacity[active] = lower = (weights * distance).sum(axis=0) / np.log(2)
        keep = distance.max(axis=0) / np.log(2) - lower > tolerance
        if not keep.any():
            return np.maximum(capacity, 0.0)
        active, p = active[keep], p[:, keep]
        weights = weights[:, keep] * np.exp(distance[:, keep] - distance[:, keep].max(axis=0))
        weights /= weights.sum(axis=0)
    require(False, f"Rashomon capacity did not reach tolerance {tolerance:g} in {iterations} iterations; allow more.")
    return capacity
