"""Output perturbation, exactly: how far each person moves the minimiser, in standard deviations of the noise.

The loss is then Gaussian with `μ_i = ‖θ_D − θ_{D_i}‖/σ`, and everything follows; `refits` finds each `θ_{D_i}`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, ndtr, ndtri

from seedscope.accounting import gaussian_delta, gaussian_epsilon
from seedscope.analyses.privacy_loss.refits import Refits
from seedscope.analyses.privacy_loss.result import PrivacyLoss, Sides
from seedscope.analyses.privacy_loss.softmax_refits import SoftmaxRefits
from seedscope.core import (
    RELATIONS,
    Relation,
    require,
    require_count,
    require_positive,
    require_probability,
    unknown_name,
)

ENOUGH = 1e-8  # the certified error of a minimiser, of the noise's standard deviation


@dataclass(frozen=True, eq=False, repr=False)
class ExactLoss(PrivacyLoss):
    """Everybody's privacy against Gaussian noise: `ratio` is each person's μ, `error` bounds how far it may be off.

    What holds for each person alone holds for all at once: nothing is sampled.
    """

    ratio: np.ndarray
    error: np.ndarray

    @property
    def mu(self) -> Sides:
        """Each person's μ, with what solving leaves uncertain."""
        return Sides(self.ratio, np.maximum(self.ratio - self.error, 0.0), self.ratio + self.error)

    def mu_alone(self) -> Sides:
        return self.mu

    def alone(self, confidence: float | None = None) -> Sides:
        return Sides(self.advantage, self.advantage_lower, self.advantage_upper)

    def delta(self, epsilon: float, *, together: bool = False) -> Sides:
        return self._sides(lambda mu: gaussian_delta(mu, 1.0, epsilon))

    def true_positive_rate(self, false_positive_rate: float, *, together: bool = False) -> Sides:
        require_probability("false_positive_rate", false_positive_rate, closed=True)
        return self._sides(lambda mu: ndtr(ndtri(false_positive_rate) + mu))

    def epsilon(self, delta: float, *, together: bool = False) -> Sides:
        return self._sides(lambda mu: gaussian_epsilon(mu, 1.0, delta))

    def _sides(self, of: Callable[[np.ndarray], np.ndarray]) -> Sides:
        """Return a rising function of μ with both its sides."""
        mu = self.mu
        return Sides(*(np.asarray(of(ratio)) for ratio in (mu.value, mu.lower, mu.upper)))


def output_perturbation(
    features: ArrayLike,
    labels: ArrayLike,
    l2: float,
    noise_scale: float,
    norm_bound: float | None = None,
    *,
    relation: Relation = "add_or_remove",
    spare: tuple[ArrayLike, float] | None = None,
    classes: int = 2,
    people: ArrayLike | None = None,
    owners: ArrayLike | None = None,
    attacker: str = "",
) -> ExactLoss:
    """Return everybody's privacy where the minimiser of mean log-loss + (l2/2)‖w‖² is released with Gaussian noise.

    Nothing is sampled, and no model is trained again from the start. Proved, for these data. For more than two classes
    weights add up to 0 over the classes, and so does the noise.

    Args:
        features, labels: [person, feature], a column of ones for the bias where there is one, and 0 … classes − 1.
        l2, noise_scale: the regularisation λ and the noise's standard deviation σ.
        norm_bound: the public bound R on the rows' norms; rows beyond it are refused.
        relation: "add_or_remove" takes the person out (the divisor stays); "replace_one" puts `spare` in their place.
        spare: (row, label).
        people: who they are; default their numbers.
        owners: whose each row is, where people have several: then all rows of a person go, and people are in the order
            of their first rows.

    >>> rows = np.array([[1.0, 1.0], [0.5, 1.0], [-1.0, 1.0], [-0.2, 1.0]])
    >>> output_perturbation(rows, [1, 1, 0, 0], l2=0.1, noise_scale=1.0).mu.value.round(2)
    array([0.4 , 0.42, 0.42, 0.48])
    """
    rows, y = np.asarray(features, float), np.asarray(labels, float)
    _check(rows, y, l2, noise_scale, norm_bound, relation, spare, classes)
    other = None if spare is None or relation == "add_or_remove" else (np.asarray(spare[0], float), float(spare[1]))
    refits = Refits.of(rows, y, l2, other) if classes == 2 else SoftmaxRefits.of(rows, y, classes, l2, other)
    if owners is None:
        moved, left = refits.moves(ENOUGH * noise_scale)
    else:
        moved, left = refits.moves_together(rows_of_each(np.asarray(owners)))
    ratio, error = moved / noise_scale, left / noise_scale
    gain, low, high = (erf(np.maximum(size, 0.0) / np.sqrt(8)) for size in (ratio, ratio - error, ratio + error))
    who = np.arange(len(moved)) if people is None else np.asarray(people)
    return ExactLoss(who, gain, low, high, "proved", 1.0, relation, attacker, (), ratio, error)


def rows_of_each(owners: np.ndarray) -> list[np.ndarray]:
    """Return everybody's rows, people in the order of their first.

    >>> [one.tolist() for one in rows_of_each(np.array([5, 2, 5]))]
    [[0, 2], [1]]
    """
    order = np.argsort(owners, kind="stable")
    every = np.split(order, np.flatnonzero(np.diff(owners[order])) + 1)
    return sorted(every, key=lambda rows: int(rows[0]))


def _check(
    rows: np.ndarray, y: np.ndarray, l2: float, noise: float, bound: float | None, relation: str, spare: object,
    classes: int,
) -> None:  # fmt: skip
    """Raise what is wrong with the arguments of `output_perturbation`."""
    require(rows.ndim == 2 and len(rows) == len(y), "features must be [person, feature], with a label for each person.")
    require_count("classes", classes, at_least=2)
    require(np.isin(y, np.arange(classes)), f"labels must be {'0 or 1' if classes == 2 else f'0 … {classes - 1}'}.")
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
