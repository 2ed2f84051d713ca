"""What theory says about how far SGD can move: one example's effect (Wu et al. 2017) and the seed's (IP1 App. B)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import RELATIONS, Relation, require, require_positive, unknown_name


def sgd_sensitivity_bound(
    steps: ArrayLike,
    examples: ArrayLike,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    lipschitz: ArrayLike,
    *,
    smoothness: ArrayLike | None = None,
    convex: bool = True,
    relation: Relation = "replace_one",
) -> np.ndarray:
    """Return the proved bound on the distance of two models of one seed and neighbouring data: `2⌈T/(N//B)⌉Lη/B`.

    An example is in at most one batch of each epoch, and a step whose batch holds it moves the two runs apart by at
    most 2Lη/B; all other steps of a convex, β-smooth loss with η ≤ 2/β bring them no further apart. Epochs that were
    only begun count in full, since the example may have been drawn already. With one example removed (its weight 0,
    the divisor unchanged) the two gradients differ by L instead of 2L, and the bound halves.

    Args (all broadcast against each other):
        steps: T, batches drawn.
        examples: N, rows of the training data; each epoch has N//B batches, the incomplete last one is dropped.
        batch_size: B.
        learning_rate: η, constant.
        lipschitz: L, the largest gradient norm of one example's loss; see `logistic_lipschitz`.
        smoothness: β; if given, η ≤ 2/β is checked.
        convex: whether each example's loss is convex in the weights; without that there is no bound.
        relation: "replace_one" or "add_or_remove".

    >>> float(sgd_sensitivity_bound(1850, 10396, 32, 0.5, np.sqrt(2)).round(4))
    0.2652
    >>> sgd_sensitivity_bound([324, 325], 10396, 32, 0.5, np.sqrt(2)).round(4).tolist()
    [0.0442, 0.0884]

    Wu et al. 2017, Corollary 1; IP1 Eq. (1), IP2 Eq. (1), there with a fractional number of epochs, which is no bound.
    """
    _check_conditions(learning_rate, smoothness, convex, relation)
    epochs = epochs_begun(steps, examples, batch_size)
    for name, value in (("learning_rate", learning_rate), ("lipschitz", lipschitz)):
        require_positive(name, value)
    touched = 2 if relation == "replace_one" else 1
    bound: np.ndarray = (
        touched * epochs * np.asarray(lipschitz, float) * np.asarray(learning_rate, float) / np.asarray(batch_size)
    )
    return bound


def _check_conditions(learning_rate: ArrayLike, smoothness: ArrayLike | None, convex: bool, relation: str) -> None:
    """Raise with the condition of the bound that fails."""
    if relation not in RELATIONS:
        raise unknown_name("relation", relation, RELATIONS)
    require(convex, "the sensitivity bound needs a convex loss, and this model's is not convex; no bound is known.")
    if smoothness is not None:
        require_positive("smoothness", smoothness)
        require(
            np.asarray(learning_rate, float) <= 2 / np.asarray(smoothness, float),
            f"the sensitivity bound needs learning_rate ≤ 2/β = {2 / np.max(np.asarray(smoothness, float)):.4g}, "
            f"got {np.max(np.asarray(learning_rate, float)):.4g}; lower the learning rate.",
        )


def epochs_begun(steps: ArrayLike, examples: ArrayLike, batch_size: ArrayLike) -> np.ndarray:
    """Return ⌈T/(N//B)⌉: how often one example can have been drawn in T steps.

    >>> epochs_begun(1850, 10396, 32).item()
    6
    """
    for name, value in (("steps", steps), ("examples", examples), ("batch_size", batch_size)):
        _require_whole(name, value)
    t, n, b = (np.asarray(value, np.int64) for value in (steps, examples, batch_size))
    require(b <= n, f"batch_size must be at most the number of examples {n}, got {b}.")
    return -(-t // (n // b))


def _require_whole(name: str, value: ArrayLike) -> None:
    """Raise unless every value is a whole number of at least 1."""
    array = np.asarray(value, float)
    require((array >= 1) & (array == np.floor(array)), f"{name} must be a whole number of at least 1, got {value!r}.")


def logistic_lipschitz(norm_bound: ArrayLike, *, classes: int = 2, bias: bool = True) -> np.ndarray:
    """Return L of logistic regression on rows of norm at most R: `√(R² + 1)` with a bias, times √2 for many classes.

    One example's gradient is (s − y)·x̃ with |s − y| ≤ 1; with a softmax it is (p − e_y)⊗x̃ with ‖p − e_y‖ ≤ √2.

    >>> float(logistic_lipschitz(1.0)) == float(np.sqrt(2))
    True
    """
    lipschitz: np.ndarray = np.sqrt(_row_norm_square(norm_bound, bias) * (1 if classes == 2 else 2))
    return lipschitz


def logistic_smoothness(norm_bound: ArrayLike, *, classes: int = 2, bias: bool = True) -> np.ndarray:
    """Return β of logistic regression on rows of norm at most R: `(R² + 1)/4` with a bias, /2 for many classes.

    The curvature of the logistic loss is at most 1/4, that of the softmax loss at most 1/2 in every direction.

    >>> float(logistic_smoothness(1.0))
    0.5
    """
    return _row_norm_square(norm_bound, bias) / (4 if classes == 2 else 2)


def _row_norm_square(norm_bound: ArrayLike, bias: bool) -> np.ndarray:
    """Return the largest squared norm of a row, with the bias column."""
    require_positive("norm_bound", norm_bound)
    return np.asarray(norm_bound, float) ** 2 + bool(bias)


@dataclass(frozen=True)
class VariabilityBound:
    """How far two seeds can move the weights apart: the bound Δ̂_V is itself random, since batches may coincide.

    `chebyshev` is the largest probability that Δ̂_V is as near to the sensitivity bound as to its own mean (Claim 2).
    """

    maximum: float
    mean: float
    variance: float
    sensitivity: float
    chebyshev: float


def sgd_variability_bound(
    steps: int, examples: int, batch_size: int, learning_rate: float, lipschitz: float
) -> VariabilityBound:
    """Return the bound on the distance of two models of one data set and two seeds, its mean and its variance.

    Each step adds at most 2Lη for the share of the batch in which the two runs differ: at most `2TLη` in all, `2TLη(1 −
    B/N)` on average. For B = 1 and k whole epochs these are 2kLNη and 2kLη(N − 1), the variance is (2Lη)²k, and Claim 2
    reads P(|Δ̂_V − E| ≥ kLη(N − 2)) ≤ 4/(k(N − 2)²). The variance here is exact for any B: it counts the examples
    that two independent shuffles put into the same batch.

    Args:
        steps, examples, batch_size, learning_rate, lipschitz: T, N, B, η, L as in `sgd_sensitivity_bound`.

    >>> bound = sgd_variability_bound(steps=200, examples=100, batch_size=1, learning_rate=0.5, lipschitz=1.0)
    >>> bound.maximum, bound.mean, round(bound.variance, 9), bound.chebyshev == 4 / (2 * 98**2)
    (200.0, 198.0, 2.0, True)

    IP1 App. B, Eqs. (3), (6), (7) and Claim 2.
    """
    sensitivity = float(sgd_sensitivity_bound(steps, examples, batch_size, learning_rate, lipschitz))
    step = 2 * lipschitz * learning_rate
    whole, rest = divmod(steps, examples // batch_size)
    overlap = whole * _overlap_variance(examples // batch_size, batch_size, examples)
    overlap += _overlap_variance(rest, batch_size, examples)
    mean, variance = step * steps * (1 - batch_size / examples), (step / batch_size) ** 2 * overlap
    half_way = (mean - sensitivity) / 2
    chebyshev = min(1.0, variance / half_way**2) if half_way > 0 else 1.0
    return VariabilityBound(step * steps, mean, variance, sensitivity, chebyshev)


def _overlap_variance(batches: int, batch_size: int, examples: int) -> float:
    """Return the variance of how many examples two independent shuffles put into the same of the first batches."""
    m, b, n = batches, batch_size, examples
    if m == 0 or n == 1:
        return 0.0
    same_batch = m * b * (b - 1) * b * (b - 1) / (n * (n - 1))  # ordered pairs × their chance to stay in one batch
    other_batch = m * b * (m - 1) * b * b * b / (n * (n - 1))
    mean = m * b * b / n
    return max(0.0, mean + same_batch + other_batch - mean**2)
