"""Output perturbation, exactly: how far each person moves the minimiser, in standard deviations of the noise.

The loss is then Gaussian with `μ_i = ‖θ_D − θ_{D_i}‖/σ`, and everything follows. Each `θ_{D_i}` is found by Newton from
`θ_D`, the person's own part taken out of the Hessian; the objective is strongly convex, so what its gradient still is
bounds how far the minimiser still is: `‖θ̂ − θ‖ ≤ ‖∇‖/λ`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, expit, ndtr, ndtri

from seedscope.accounting import gaussian_delta, gaussian_epsilon
from seedscope.analyses.privacy_loss.result import PrivacyLoss, Sides
from seedscope.core import (
    RELATIONS,
    Relation,
    map_in_threads,
    require,
    require_positive,
    require_probability,
    unknown_name,
)
from seedscope.numerics import LogisticProblem

ENOUGH = 1e-9  # the certified error of a minimiser, of the noise's standard deviation
ROUNDS = 30
BLOCK = 1 << 22  # logits worked on together


@dataclass(frozen=True, eq=False)
class ExactLoss(PrivacyLoss):
    """Everybody's privacy against Gaussian noise: `ratio` is each person's μ, `error` bounds how far it may be off."""

    ratio: np.ndarray
    error: np.ndarray

    @property
    def mu(self) -> Sides:
        """Each person's μ, with what solving leaves uncertain."""
        return Sides(self.ratio, np.maximum(self.ratio - self.error, 0.0), self.ratio + self.error)

    def alone(self, confidence: float | None = None) -> Sides:
        return Sides(self.advantage, self.advantage_lower, self.advantage_upper)

    def delta(self, epsilon: float) -> Sides:
        return self._sides(lambda mu: gaussian_delta(mu, 1.0, epsilon))

    def true_positive_rate(self, false_positive_rate: float) -> Sides:
        require_probability("false_positive_rate", false_positive_rate, closed=True)
        return self._sides(lambda mu: ndtr(ndtri(false_positive_rate) + mu))

    def epsilon(self, delta: float) -> Sides:
        return self._sides(lambda mu: gaussian_epsilon(mu, 1.0, delta))

    def _sides(self, of: Callable[[np.ndarray], np.ndarray]) -> Sides:
        """Return a rising function of μ with both its sides."""
        mu = self.mu
        return Sides(*(np.asarray(of(one)) for one in (mu.value, mu.lower, mu.upper)))


def output_perturbation(
    features: ArrayLike,
    labels: ArrayLike,
    l2: float,
    noise_scale: float,
    norm_bound: float | None = None,
    *,
    relation: Relation = "add_or_remove",
    spare: tuple[ArrayLike, float] | None = None,
    people: ArrayLike | None = None,
    attacker: str = "",
) -> ExactLoss:
    """Return everybody's privacy where the minimiser of mean log-loss + (l2/2)‖w‖² is released with Gaussian noise.

    Nothing is sampled, and no model is trained again from the start. Proved, for these data.

    Args:
        features, labels: [person, feature], a column of ones for the bias where there is one, and 0 or 1.
        l2, noise_scale: the regularisation λ and the noise's standard deviation σ.
        norm_bound: the public bound R on the rows' norms; rows beyond it are refused.
        relation: "add_or_remove" takes the person out (the divisor stays); "replace_one" puts `spare` in their place.
        spare: (row, label).
        people: who they are; default their numbers.

    >>> rows = np.array([[1.0, 1.0], [0.5, 1.0], [-1.0, 1.0], [-0.2, 1.0]])
    >>> output_perturbation(rows, [1, 1, 0, 0], l2=0.1, noise_scale=1.0).mu.value.round(2)
    array([0.4 , 0.42, 0.42, 0.48])
    """
    rows, y = np.asarray(features, float), np.asarray(labels, float)
    _check(rows, y, l2, noise_scale, norm_bound, relation, spare)
    other = None if spare is None or relation == "add_or_remove" else (np.asarray(spare[0], float), float(spare[1]))
    moved, left = _moves(rows, y, l2, other, ENOUGH * noise_scale)
    ratio, error = moved / noise_scale, left / noise_scale
    gain, low, high = (erf(np.maximum(one, 0.0) / np.sqrt(8)) for one in (ratio, ratio - error, ratio + error))
    who = np.arange(len(rows)) if people is None else np.asarray(people)
    return ExactLoss(who, gain, low, high, "proved", 1.0, relation, attacker, (), ratio, error)


def _check(
    rows: np.ndarray, y: np.ndarray, l2: float, noise: float, bound: float | None, relation: str, spare: object
) -> None:
    """Raise what is wrong with the arguments of `output_perturbation`."""
    require(rows.ndim == 2 and len(rows) == len(y), "features must be [person, feature], with a label for each person.")
    require((y == 0) | (y == 1), "labels must be 0 or 1.")
    require_positive("l2", l2)
    require_positive("noise_scale", noise)
    if relation not in RELATIONS:
        raise unknown_name("relation", relation, RELATIONS)
    require(relation == "add_or_remove" or spare is not None, "relation='replace_one' needs spare=(row, label).")
    if bound is not None:
        longest = float(np.linalg.norm(rows, axis=1).max())
        require(
            longest <= bound * (1 + 1e-9), f"norm_bound must be at least every row's norm, {longest:.6g}, got {bound}."
        )


def _moves(
    rows: np.ndarray, y: np.ndarray, l2: float, spare: tuple[np.ndarray, float] | None, enough: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each person moves the minimiser, and by how much that may be wrong."""
    problem = LogisticProblem(rows, y, np.full(rows.shape[1], l2))
    theta, left = _refined(problem, l2)
    parts = np.array_split(np.arange(len(rows)), max(1, -(-(len(rows) ** 2) // BLOCK)))
    found = map_in_threads(lambda part: _moves_of(part, rows, y, l2, theta, spare, enough), parts)
    moved, errors = (np.concatenate(one) for one in zip(*found, strict=True))
    return moved, errors + left


def _refined(problem: LogisticProblem, l2: float) -> tuple[np.ndarray, float]:
    """Return the minimiser to the last digits, and how far it may still be."""
    rows, y, N = problem.rows, problem.labels, problem.examples
    theta = problem.minimise(np.zeros(problem.width)).weights[0]
    for _ in range(3):
        s = expit(rows @ theta)
        gradient = (s - y) @ rows / N + l2 * theta
        hessian = (rows * (s * (1 - s))[:, None]).T @ rows / N + l2 * np.eye(len(theta))
        theta = theta - np.linalg.solve(hessian, gradient)
    gradient = (expit(rows @ theta) - y) @ rows / N + l2 * theta
    return theta, float(np.linalg.norm(gradient)) / l2


def _moves_of(
    part: np.ndarray,
    rows: np.ndarray,
    y: np.ndarray,
    l2: float,
    theta: np.ndarray,
    spare: tuple[np.ndarray, float] | None,
    enough: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the moves of some people, by Newton steps with each one's own Hessian at θ_D."""
    N = len(rows)
    scores = expit(rows @ theta)
    hessian = (rows * (scores * (1 - scores))[:, None]).T @ rows / N + l2 * np.eye(len(theta))
    solve = _own_hessians(np.linalg.inv(hessian), rows[part], (scores * (1 - scores))[part] / N)
    step, left = np.zeros((len(part), len(theta))), np.full(len(part), np.inf)
    for _ in range(ROUNDS):
        gradients = _gradients(theta + step, part, rows, y, l2, spare)
        left = np.linalg.norm(gradients, axis=1) / l2
        if np.all(left <= enough):
            break
        step -= solve(gradients)
    return np.linalg.norm(step, axis=1), left


def _own_hessians(inverse: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that multiplies [person, feature] by each person's own inverse Hessian: a rank of 1 less."""
    solved = rows @ inverse
    factor = weights / (1 - weights * np.einsum("ij,ij->i", solved, rows))

    def solve(gradients: np.ndarray) -> np.ndarray:
        along = np.einsum("ij,ij->i", solved, gradients)
        steps: np.ndarray = gradients @ inverse + solved * (factor * along)[:, None]
        return steps

    return solve


def _gradients(
    thetas: np.ndarray,
    part: np.ndarray,
    rows: np.ndarray,
    y: np.ndarray,
    l2: float,
    spare: tuple[np.ndarray, float] | None,
) -> np.ndarray:
    """Return the gradient [person, feature] of each person's own objective at their own point."""
    residuals = expit(thetas @ rows.T)
    residuals -= y
    residuals[np.arange(len(part)), part] = 0.0
    gradients: np.ndarray = residuals @ rows
    if spare is not None:
        gradients += (expit(thetas @ spare[0]) - spare[1])[:, None] * spare[0]
    gradients /= len(rows)
    gradients += l2 * thetas
    return gradients
