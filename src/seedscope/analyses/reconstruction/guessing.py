"""How often the best attacker guesses right among a few candidates for a person's record, who knows everything else.

With chances π_k of the candidates and p_k the law of what is released if the record is the k-th, whoever guesses the
most probable one given the release w is right with probability `∫ max_k π_k p_k(w) dw`, and nobody is right more often
(Balle, Cherubin & Hayes 2022; Hayes, Mahloujifar & Balle 2023). It is a mean over models that were trained anyway, with
the true record: `E max_k π_k p_k(w)/p_true(w)`. The ceiling is reconstruction robustness: what the guarantee allows an
attacker who without the model is right with chance max_k π_k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logsumexp

from seedscope.core import Kind, Number, one_blas_thread, require, require_positive, require_probability
from seedscope.numerics import betting_interval, nonnegative_mean_interval


@dataclass(frozen=True, eq=False)
class Guessing:
    """The best attacker's chance to guess right, [person], beside the chance without the model and the ceiling.

    Intervals hold for all people at once. Averaged over the candidates' chances: as if the person's value were drawn
    from the prior. `people` are places among the rows that models are trained on.
    """

    column: str
    people: np.ndarray
    chance: np.ndarray
    success: np.ndarray
    success_lower: np.ndarray
    success_upper: np.ndarray
    ceiling: np.ndarray
    releases: int
    kind: Kind
    confidence: float

    @property
    def largest(self) -> Number:
        """The chance to guess right about the person of whom most can be told, beyond guessing."""
        return self._number(int(np.argmax(self.success - self.chance)))

    @property
    def mean(self) -> float:
        """The chance to guess right, averaged over people."""
        return float(self.success.mean())

    @property
    def beats_ceiling(self) -> np.ndarray:
        """The people about whom the attack is surely right more often than the guarantee allows: then it is broken."""
        beaten: np.ndarray = self.people[self.success_lower > self.ceiling * (1 + 1e-9)]
        return beaten

    def _number(self, place: int) -> Number:
        """Return one person's chance."""
        ends = (float(self.success_lower[place]), float(self.success_upper[place]))
        return Number(float(self.success[place]), self.kind, *ends, self.confidence)


def tilted_candidate_ratios(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    penalties: ArrayLike,
    law: Literal["gamma", "gaussian"],
    scale: float,
    people: Sequence[int] | np.ndarray,
    candidates: np.ndarray,
    candidate_labels: np.ndarray,
) -> np.ndarray:
    """Return ln p_k(w) − ln p_true(w) [model, person, candidate] under objective perturbation.

    Args:
        features, labels: all training rows as they were trained on, the bias's ones included, and 0 or 1.
        weights: [model, weight], released by training on them.
        penalties: of the *sum* of losses, a number or one for each weight.
        law, scale: of the tilt.
        people: whose record is guessed, as places among the rows.
        candidates: [person, candidate, weight], scaled, the bias's ones included.
        candidate_labels: [person, candidate].

    >>> rows, y, zero = np.array([[1.0, 1.0], [-1.0, 1.0]]), np.array([1, 0]), np.zeros((1, 2))
    >>> tilted_candidate_ratios(rows, y, zero, 1.0, "gaussian", 2.0, [0], rows[None], y[None])[0, 0, 0].round(6)
    np.float64(0.0)
    """
    rows, y, released = (
        np.asarray(features, float),
        np.asarray(labels, float),
        np.atleast_2d(np.asarray(weights, float)),
    )
    require_positive("scale", scale)
    require(law in ("gamma", "gaussian"), f"law must be 'gamma' or 'gaussian', got {law!r}.")
    penalty = np.broadcast_to(np.asarray(penalties, float), rows.shape[1])
    asked = _Asked(np.asarray(people, int), np.asarray(candidates, float), np.asarray(candidate_labels, float))
    with one_blas_thread():
        return np.stack([_of_model(rows, y, w, penalty, law == "gaussian", scale, asked) for w in released])


@dataclass(frozen=True, eq=False)
class _Asked:
    """Whose record is guessed among which candidates."""

    people: np.ndarray
    rows: np.ndarray
    labels: np.ndarray


def _of_model(
    rows: np.ndarray,
    labels: np.ndarray,
    w: np.ndarray,
    penalty: np.ndarray,
    gaussian: bool,
    scale: float,
    asked: _Asked,
) -> np.ndarray:
    """Return one model's log-ratios [person, candidate]."""
    scores = expit(rows @ w)
    residuals, curvatures = scores - labels, scores * (1 - scores)
    tilt = -(residuals @ rows + penalty * w)
    inverse = np.linalg.inv((rows * curvatures[:, None]).T @ rows + np.diag(penalty))
    own, candidate_scores = rows[asked.people], expit(asked.rows @ w)
    moved = (
        tilt
        + (residuals[asked.people, None] * own)[:, None]
        - (candidate_scores - asked.labels)[:, :, None] * asked.rows
    )
    before, after = np.linalg.norm(tilt), np.linalg.norm(moved, axis=2)
    by_density = (before**2 - after**2) / (2 * scale**2) if gaussian else (before - after) / scale
    bend, bends = curvatures[asked.people, None], candidate_scores * (1 - candidate_scores)
    pulled = own @ inverse
    quadratic = np.einsum("ij,ij->i", pulled, own)[:, None]
    mixed = np.einsum("ij,ikj->ik", pulled, asked.rows)
    own_quadratics = np.einsum("ikj,ikj->ik", asked.rows @ inverse, asked.rows)
    ratios: np.ndarray = by_density + np.log(
        (1 - bend * quadratic) * (1 + bends * own_quadratics) + bend * bends * mixed**2
    )
    return ratios


def density_success(
    ratios: ArrayLike, prior: ArrayLike, confidence: float = 0.95, largest_loss: float | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best attacker's chance to guess right [person] with its ends, from models with the true records.

    Args:
        ratios: ln p_k(w) − ln p_true(w), [model, person, candidate].
        prior: chances of the candidates, [person, candidate].
        confidence: of all people's intervals at once.
        largest_loss: what no ratio exceeds, by a pure ε: then the intervals hold exactly (*statistical*). Otherwise
            they are those of a skewed mean (*estimate*).
    """
    logs, chances = np.asarray(ratios, float), np.asarray(prior, float)
    require_probability("confidence", confidence)
    require(logs.ndim == 3 and logs.shape[1:] == chances.shape, "ratios must be [model, person, candidate], as prior.")
    require(chances.shape[1] >= 2, f"a guess needs at least two candidates, got {chances.shape[1]}.")
    with np.errstate(divide="ignore"):
        values = np.exp((logs + np.log(chances)).max(axis=2))
    least, people = chances.max(axis=1), chances.shape[0]
    if largest_loss is None:
        lower, upper = nonnegative_mean_interval(values, 1 - (1 - confidence) / people)
    else:
        top = float(np.exp(largest_loss) * least.max())
        lower, upper = betting_interval(np.minimum(values, top), confidence, together=people, largest=top)
    success = np.clip(values.mean(axis=0), least, 1.0)  # nobody does worse than guessing
    return success, np.maximum(lower, least), np.clip(upper, least, 1.0)


def posterior_success(
    likelihoods: ArrayLike, prior: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the same from releases whose true record was drawn from the prior: the mean of the largest posterior.

    Args:
        likelihoods: ln p_k(w) up to a constant for each release, [release, person, candidate].
        prior: [person, candidate].
        confidence: of all people's intervals at once; they hold exactly (*statistical*).

    >>> posterior_success(np.zeros((50, 1, 2)), [[0.5, 0.5]])[0]
    array([0.5])
    """
    logs, chances = np.asarray(likelihoods, float), np.asarray(prior, float)
    require_probability("confidence", confidence)
    require(chances.ndim == 2 and chances.shape[1] >= 2, "a guess needs at least two candidates.")
    with np.errstate(divide="ignore"):
        joint = logs + np.log(chances)
    largest = np.exp(joint.max(axis=2) - logsumexp(joint, axis=2))
    lower, upper = betting_interval(largest, confidence, together=chances.shape[0])
    least = chances.max(axis=1)
    return largest.mean(axis=0), np.maximum(lower, least), np.maximum(upper, least)
