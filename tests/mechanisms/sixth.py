"""A sixth mechanism, all of it in this file: the minimiser plus noise of density ∝ exp(−ε‖noise‖/Δ), a pure ε.

Chaudhuri & Monteleoni 2008, Algorithm 1: the noise has a uniform direction and a norm Gamma(width, Δ/ε).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from seedscope.accounting import pure_epsilon_rdp
from seedscope.core import Relation, require_positive
from seedscope.mechanisms import Conditions, Guarantee, MinimiserMechanism
from seedscope.training import Problem, Release, SystemDraws, gammas, normals


@dataclass(frozen=True)
class MinimiserWithGammaNoise(Release):
    """What is released: the minimiser plus noise of uniform direction and Gamma norm."""

    penalty: float
    scale: float

    def penalties(self, width: int) -> np.ndarray:
        return np.full(width, self.penalty)

    def release(
        self, problem: Problem, start: np.ndarray, root_seed: int | SystemDraws, seeds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        solution = problem.minimise(np.zeros(problem.width), start)
        directions = normals(root_seed, "pure output direction", seeds, problem.width)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        sizes = self.scale * gammas(root_seed, "pure output size", seeds, problem.width)
        return solution.weights + directions * sizes[:, None], np.repeat(solution.residual_norms, len(seeds))


@dataclass(frozen=True)
class PureOutputPerturbation(MinimiserMechanism):
    """The minimiser of mean log-loss + (l2/2)‖w‖² plus noise that makes it ε-private."""

    epsilon: float = 1.0
    l2: float = 0.01

    relation: ClassVar[Relation] = "replace_one"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("epsilon", self.epsilon)
        require_positive("l2", self.l2)

    def release(self, conditions: Conditions) -> Release:
        sensitivity = 2 * self.norm_bound(conditions) / (conditions.examples * self.l2)
        return MinimiserWithGammaNoise(self.l2, sensitivity / self.epsilon)

    def guarantee(self, conditions: Conditions) -> Guarantee:
        by = "noise of density ∝ exp(−ε‖noise‖/Δ) on the regularised minimiser"
        return Guarantee.proved(self.relation, self.epsilon, 0.0, conditions, by)

    def order_two(self, conditions: Conditions) -> float:
        return float(pure_epsilon_rdp(self.epsilon))

    def success_upper(self, prior: np.ndarray, conditions: Conditions) -> np.ndarray:
        upper: np.ndarray = np.minimum(np.exp(self.epsilon) * prior, 1 - np.exp(-self.epsilon) * (1 - prior))
        return upper

    def words(self) -> str:
        return "output perturbation with pure ε (Gamma noise on the regularised solution)"
