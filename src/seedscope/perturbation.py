"""Trains a chunk of models by the convex mechanisms: output and objective perturbation of logistic regression.

They run on the same grid of seeds × neighbours as gradient training, so that every analysis sees one kind of ensemble.
"""

from __future__ import annotations

import numpy as np

from seedscope.grid import BASE
from seedscope.mechanisms import ObjectivePerturbation, OutputPerturbation, Relation, Setting
from seedscope.solvers import LogisticProblem
from seedscope.streams import gammas, normals


def with_bias(features: np.ndarray) -> np.ndarray:
    """Return the rows with a last column of ones."""
    rows = np.asarray(features, float).reshape(len(features), -1)
    return np.column_stack([rows, np.ones(len(rows))])


class ConvexTrainer:
    """The problem on the base data, solved once, from which every neighbour's problem starts."""

    def __init__(
        self,
        mechanism: OutputPerturbation | ObjectivePerturbation,
        setting: Setting,
        relation: Relation,
        rows: np.ndarray,
        labels: np.ndarray,
    ):
        """rows [N+1, feature] and labels [N+1] have the spare example last."""
        self.mechanism, self.setting, self.relation = mechanism, setting, relation
        every = with_bias(rows)
        self.spare, self.spare_label = every[-1], float(labels[-1])
        self.problem = LogisticProblem(every[:-1], labels[:-1], self._penalty(every.shape[1]))
        self.optimum = self.problem.minimise(np.zeros(every.shape[1])).weights[0]

    def train(self, root_seed: int, seeds: np.ndarray, neighbours: np.ndarray) -> dict[str, np.ndarray]:
        """Return the released weights [seed, neighbour, weight] and what solving them left of the gradient."""
        released = [self._release(self._problem(int(one)), root_seed, seeds) for one in neighbours]
        weights, norms = zip(*released, strict=True)
        return {"weights": np.stack(weights, 1), "gradient_norms": np.stack(norms, 1)}

    def _penalty(self, width: int) -> np.ndarray:
        """Return the quadratic penalty of each weight, the bias last."""
        if isinstance(self.mechanism, OutputPerturbation):
            return np.full(width, self.mechanism.l2)
        tilt = self.mechanism.tilt(self.setting)
        return np.append(np.full(width - 1, tilt.penalty), tilt.bias_penalty)

    def _problem(self, neighbour: int) -> LogisticProblem:
        """Return a neighbouring data set's problem: one row replaced, or by a row of zeros taken out."""
        if neighbour == BASE:
            return self.problem
        if self.relation == "add_or_remove":
            return self.problem.with_row(neighbour, np.zeros_like(self.spare), 0.0)
        return self.problem.with_row(neighbour, self.spare, self.spare_label)

    def _release(self, problem: LogisticProblem, root_seed: int, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each seed's released weights on one data set and the norms of the gradients left."""
        if isinstance(self.mechanism, OutputPerturbation):
            solution = problem.minimise(np.zeros(problem.width), self.optimum)
            noise = self.mechanism.noise(self.setting, self._shortfall(problem, solution.gradient_norms[0]))
            weights = solution.weights + noise * normals(root_seed, "output noise", seeds, problem.width)
            return weights, np.repeat(solution.gradient_norms, len(seeds))
        scale = self.mechanism.tilt(self.setting).scale
        solution = problem.minimise(self._tilts(scale, root_seed, seeds, problem), self.optimum)
        return solution.weights, solution.gradient_norms

    def _shortfall(self, problem: LogisticProblem, gradient_norm: float) -> float:
        """Return what an inexact minimiser adds to the sensitivity: 2τ/λ above the tolerance, else nothing."""
        return 0.0 if gradient_norm <= problem.tolerance else 2 * gradient_norm / problem.penalty.min()

    def _tilts(self, scale: float, root_seed: int, seeds: np.ndarray, problem: LogisticProblem) -> np.ndarray:
        """Return each seed's tilt b/N: uniform direction, Gamma norm."""
        directions = normals(root_seed, "tilt direction", seeds, problem.width)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        sizes = gammas(root_seed, "tilt size", seeds, problem.width)
        return directions * (scale * sizes / problem.examples)[:, None]


def linear_scores(weights: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Return scores and losses [..., example] of logistic models, weights [..., weight] with the bias last."""
    logits = weights @ with_bias(rows).T
    with np.errstate(over="ignore"):
        scores = 1 / (1 + np.exp(-logits))
    losses = np.logaddexp(0, np.where(np.asarray(labels) == 1, -logits, logits))
    return {"scores": scores.astype(np.float32), "losses": losses.astype(np.float32)}
