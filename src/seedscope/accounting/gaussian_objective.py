"""Objective perturbation with Gaussian noise: the guarantee of releasing the minimiser of a randomly tilted objective.

Released is the minimiser w of `Σ_j loss_j(w) + (Λ/2)‖w‖² + b·w`, b ~ N(0, σ² I), with the logistic loss (softmax for K
classes) on rows of norm at most R. Two things tell neighbours apart (docs/mechanisms.md has the proofs):

* the determinant of the Hessian, by a factor of at most e^c, `c = ln(1 + R²/4Λ)`: `curvature_epsilon`;
* a person's pull on the tilt. The privacy loss is convex in the pull, so a pull at a corner of what is possible is the
  worst: none at all, or one of a few of full length, for each of which the loss is the Gaussian mechanism's.

So with ε' = ε − c, `δ(ε) ≤ Σ_corners δ_G(length/σ, ε')`, δ_G that of the Gaussian mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting.gaussian import gaussian_delta
from seedscope.core import (
    RELATIONS,
    Relation,
    require,
    require_count,
    require_positive,
    require_probability,
    unknown_name,
)

_BISECTIONS = 45  # halves of a factor of two: to the last digit
_LARGEST = 1e100
_ROUNDING = 1e-12  # relative: above the error of what it rounds up


def curvature_epsilon(l2: ArrayLike, norm_bound: ArrayLike, classes: int = 2) -> np.ndarray:
    """Return c: by how much one row can change the logarithm of the Hessian's determinant, at most.

    A row adds a matrix of rank K − 1 and trace at most R²(1 − 1/K) to a Hessian of at least Λ (of two classes with one
    weight vector: of rank 1 and at most R²/4), and the logarithm of a determinant is concave in its eigenvalues.

    Args:
        l2: the regularisation Λ > 0 of the *sum* of losses: N times that of the mean.
        norm_bound: the bound R > 0 on the rows' norm, the bias column included.
        classes: K; for more than two each class has its own weights.

    >>> float(curvature_epsilon(l2=10.0, norm_bound=2.0).round(4))
    0.0953
    """
    require_positive("l2", l2)
    require_positive("norm_bound", norm_bound)
    require_count("classes", classes, at_least=2)
    share = np.asarray(norm_bound, float) ** 2 / np.asarray(l2, float)
    rank, trace = (1, 0.25) if classes == 2 else (classes - 1, 1 - 1 / classes)
    changed: np.ndarray = rank * np.log1p(trace * share / rank) * (1 + _ROUNDING)
    return changed


def curvature_l2(epsilon: ArrayLike, norm_bound: ArrayLike, classes: int = 2) -> np.ndarray:
    """Return the least Λ at which a row changes the determinant's logarithm by at most this ε.

    >>> float(curvature_l2(epsilon=0.0953, norm_bound=2.0).round(2))
    10.0
    """
    require_positive("epsilon", epsilon)
    rank, trace = (1, 0.25) if classes == 2 else (classes - 1, 1 - 1 / classes)
    share = np.asarray(norm_bound, float) ** 2 * trace / rank
    least: np.ndarray = share / np.expm1(np.asarray(epsilon, float) / rank / (1 + _ROUNDING)) * (1 + _ROUNDING)
    return least


def pull_corners(relation: Relation, classes: int = 2) -> tuple[tuple[int, float], ...]:
    """Return (how many, their length in units of R) of the corners of a person's pull, without the corner 0.

    The pull of a row is (probabilities − its class) ⊗ row. Where one is replaced, two pulls are subtracted.

    >>> pull_corners("replace_one")
    ((1, 2.0), (2, 1.0))
    """
    if relation not in RELATIONS:
        raise unknown_name("relation", relation, RELATIONS)
    rivals, length = (1, 1.0) if classes == 2 else (classes - 1, sqrt(2))
    single = (rivals, length)
    return (single,) if relation == "add_or_remove" else ((rivals**2, 2 * length), (2 * rivals, length))


def gaussian_objective_delta(
    epsilon: ArrayLike,
    noise_scale: ArrayLike,
    l2: ArrayLike,
    norm_bound: ArrayLike,
    relation: Relation = "add_or_remove",
    classes: int = 2,
) -> np.ndarray:
    """Return δ(ε) of objective perturbation with Gaussian noise, a proved upper bound, rounded up.

    For two classes and add-or-remove it is tight: some data sets reach it.

    Args:
        epsilon: ε ≥ 0, any shape; all numbers broadcast.
        noise_scale: standard deviation σ > 0 of each coordinate of the tilt b of the *sum* of losses.
        l2: regularisation Λ > 0 of the sum of losses, of all weights, the bias's included.
        norm_bound: the bound R > 0 on the rows' norm, the bias column included.
        relation: which data sets are neighbours; adding or removing keeps Λ as it is.
        classes: K; for more than two each class has its own weights and its own part of the tilt.

    >>> gaussian_objective_delta([0.5, 1.0], noise_scale=4.0, l2=30.0, norm_bound=2**0.5).round(5)
    array([0.01754, 0.00046])

    Kifer, Smith & Thakurta 2012; Redberg, Koskela & Wang 2023; here without the factor 2 and the absolute value that
    losses need whose derivative changes its sign.
    """
    require_positive("noise_scale", noise_scale)
    wanted = np.asarray(epsilon, float)
    require(wanted >= 0, f"epsilon must be at least 0, got {epsilon!r}.")
    left = wanted - curvature_epsilon(l2, norm_bound, classes)
    ratio = np.asarray(norm_bound, float) / np.asarray(noise_scale, float)
    beyond: np.ndarray = sum(  # type: ignore[assignment]
        count * gaussian_delta(length * ratio, 1.0, np.maximum(left, 0.0))
        for count, length in pull_corners(relation, classes)
    )
    # Where the determinant alone costs more than ε: (1 − e^(ε'−m))₊ ≤ 1 − e^ε' + e^ε'(1 − e^(−m))₊ for ε' < 0.
    less = np.exp(np.minimum(left, 0.0))
    upper: np.ndarray = np.minimum(1 - less + less * beyond, 1.0)[()]
    return upper


def gaussian_objective_noise_scale(
    epsilon: ArrayLike,
    delta: ArrayLike,
    l2: ArrayLike,
    norm_bound: ArrayLike,
    relation: Relation = "add_or_remove",
    classes: int = 2,
) -> np.ndarray:
    """Return the least σ that makes objective perturbation (ε, δ)-private at this regularisation, rounded up.

    Arguments as in `gaussian_objective_delta`; Λ must be large enough for the determinant to cost less than ε.

    >>> float(gaussian_objective_noise_scale(1.0, 1e-5, l2=30.0, norm_bound=2**0.5).round(4))
    5.3566
    """
    require_probability("delta", delta)
    costs = curvature_epsilon(l2, norm_bound, classes)
    require(
        np.asarray(epsilon, float) > costs,
        f"l2 must be so large that the determinant's {np.max(costs):.3g} is below epsilon, got l2={l2!r}.",
    )
    bound = np.asarray(norm_bound, float)
    shape = np.broadcast_shapes(*map(np.shape, (epsilon, delta, costs, bound)))

    def private(scale: np.ndarray) -> np.ndarray:
        return gaussian_objective_delta(epsilon, scale, l2, bound, relation, classes) <= np.asarray(delta)

    return smallest_scale(private, np.broadcast_to(bound, shape))[()]


def smallest_scale(private: Callable[[np.ndarray], np.ndarray], start: ArrayLike) -> np.ndarray:
    """Return the smallest scale that is private, elementwise: by doubling from a start, then by halves, from above.

    >>> float(smallest_scale(lambda scale: scale >= 3.0, 1.0).round(6))
    3.0
    """
    upper = np.array(start, float)
    while not (enough := private(upper)).all():
        require(upper < _LARGEST, "no noise is enough: epsilon or delta is too small for floating-point numbers.")
        upper = np.where(enough, upper, 2 * upper)
    lower = upper / 2
    while (enough := private(lower) & (lower > 1 / _LARGEST)).any():
        upper, lower = np.where(enough, lower, upper), np.where(enough, lower / 2, lower)
    for _ in range(_BISECTIONS):
        middle = np.sqrt(lower * upper)
        enough = private(middle)
        lower, upper = np.where(enough, lower, middle), np.where(enough, middle, upper)
    return upper
