"""What the seed hides of each person: how far their record shifts what is released, beside the seed's own noise.

IP1 and IP2 give one number for all, the largest distance over the pooled spread. An attacker who looks at one person
takes the direction that shows *them* best: with Gaussian noise of covariance Σ and a shift m the best attack's power is
μ = √(mᵀΣ⁻¹m), and the projection onto Σ⁻¹m is that attack. It is then held against seeds that it was not fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtrit

from seedscope.accounting import gaussian_epsilon
from seedscope.core import require, require_probability

BLOCKS = 20  # of seeds, left out one after the other for the interval
SPARE_SEEDS = 3  # more than values plus this many, or the inverse covariance has no mean


@dataclass(frozen=True, eq=False)
class PersonalPrivacy:
    """Each person's exposure through what the seed's noise leaves visible; arrays [person], an *estimate* each.

    `mu` is the shift that their record makes in deviations of the noise along it, `epsilon` the Gaussian mechanism's at
    `delta`, `advantage` the best attack's true- minus false-positive rate; all suppose Gaussian noise. The sides of
    `mu` are a jackknife over seeds at `confidence`, for each person alone. Without any such condition:
    `true_positives` and `false_positives` of the attack on `held_out` seeds with and without the person. `looked_at`
    says which functions of the model the attacker sees.
    """

    mu: np.ndarray
    mu_lower: np.ndarray
    mu_upper: np.ndarray
    delta: float
    confidence: float
    true_positives: np.ndarray
    false_positives: np.ndarray
    held_out: int
    looked_at: str = "all weights"

    @property
    def epsilon(self) -> np.ndarray:
        """The ε of each person at `delta`."""
        return gaussian_epsilon(self.mu, 1.0, self.delta)

    @property
    def epsilon_lower(self) -> np.ndarray:
        """The ε of the interval's lower side."""
        return gaussian_epsilon(self.mu_lower, 1.0, self.delta)

    @property
    def epsilon_upper(self) -> np.ndarray:
        """The ε of the interval's upper side."""
        return gaussian_epsilon(self.mu_upper, 1.0, self.delta)

    @property
    def advantage(self) -> np.ndarray:
        """The best attack's true- minus false-positive rate, 2Φ(μ/2) − 1."""
        advantage: np.ndarray = 2 * ndtr(self.mu / 2) - 1
        return advantage


def personal_privacy(values: ArrayLike, *, delta: float, confidence: float = 0.95) -> PersonalPrivacy:
    """Return how well the seed hides each person, from what the same seeds give with and without them.

    `μ² = mᵀΣ⁻¹m − tr(Σ⁻¹C)/n`: m is the mean shift over seeds and C the covariance of the shifts, whose part in the
    square is taken off; Σ⁻¹ is the inverse of the seeds' covariance without its bias (Wishart).

    Args:
        values: [seed, dataset, value], dataset 0 the base and every other one without one person: weights, or a few
            functions of them such as logits where there are more weights than seeds.
        delta: of ε.
        confidence: of the interval, for each person alone.

    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(400, 1, 2))
    >>> shifts = np.array([[0, 0], [1, 0], [0, 0.2]])
    >>> found = personal_privacy(noise + shifts, delta=1e-5)
    >>> found.mu.round(1).tolist(), bool((found.mu_lower <= found.mu).all())
    ([1.0, 0.2], True)
    """
    array = _checked(values)
    require_probability("delta", delta)
    require_probability("confidence", confidence)
    squares = _squares(array)
    blocks = np.array_split(np.arange(len(array)), min(BLOCKS, len(array)))
    without = np.stack([_squares(np.delete(array, block, axis=0)) for block in blocks])
    count = len(blocks)
    deviation = np.sqrt((count - 1) / count * ((without - without.mean(0)) ** 2).sum(0))
    width = stdtrit(count - 1, (1 + confidence) / 2) * deviation
    hits, false_alarms, held_out = _attacked(array)
    mu, lower, upper = (np.sqrt(np.maximum(0.0, square)) for square in (squares, squares - width, squares + width))
    return PersonalPrivacy(mu, lower, upper, delta, confidence, hits, false_alarms, held_out)


def joined(people: Sequence[PersonalPrivacy]) -> PersonalPrivacy:
    """Return several people's privacy, each found by functions of their own, as one result."""
    arrays = ("mu", "mu_lower", "mu_upper", "true_positives", "false_positives")
    every: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in people]) for name in arrays}
    return replace(people[0], **every)


def _checked(values: ArrayLike) -> np.ndarray:
    """Return the values as float64, with seeds enough for a covariance that can be inverted."""
    array = np.asarray(values, float)
    require(array.ndim == 3, f"values must have the axes [seed, dataset, value], got the shape {array.shape}.")
    require(array.shape[1] >= 2, "values must have the base and at least one data set without a person.")
    require(np.isfinite(array), "values must be finite; leave out diverged runs first.")
    seeds, size = len(array), array.shape[2]
    least = least_seeds(size)
    require(
        seeds >= least,
        f"{size} values a model need at least {least} seeds, got {seeds}; train more seeds, or look at fewer functions "
        "of the weights, such as logits.",
    )
    require(array[:, 0].std(axis=0) > 0, "a value that no seed moves has no noise to hide a person; leave it out.")
    return array


def least_seeds(values: int) -> int:
    """Return how many seeds `personal_privacy` needs for this many values a model.

    >>> least_seeds(51)
    58
    """
    enough = values + SPARE_SEEDS + 1
    return enough + -(-enough // (BLOCKS - 1))  # one block is left out for the interval


def _squares(array: np.ndarray) -> np.ndarray:
    """Return each person's μ² without the part that chance adds to a square; it can be below 0."""
    shifts = array[:, 1:] - array[:, :1]
    mean, seeds = shifts.mean(axis=0), len(array)
    inverse = _inverse_covariance(array[:, 0])
    square = np.einsum("ki,ij,kj->k", mean, inverse, mean)
    around = shifts - mean
    chance = np.einsum("ski,ski->k", around @ inverse, around) / (seeds * (seeds - 1))
    squares: np.ndarray = square - chance
    return squares


def _inverse_covariance(rows: np.ndarray) -> np.ndarray:
    """Return the inverse of the covariance of the rows, unbiased for Gaussian ones."""
    freedom, size = len(rows) - 1, rows.shape[1]
    around = rows - rows.mean(axis=0)
    covariance = around.T @ around / freedom
    inverse: np.ndarray = np.linalg.inv(covariance) * max(1, freedom - size - 1) / freedom  # inverse Wishart's mean
    return inverse


def _attacked(array: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the hits and false alarms, on every second seed, of attacks that were fitted on the others."""
    fitted, held = array[::2], array[1::2]
    means = fitted.mean(axis=0)
    around = fitted[:, 0] - means[0]
    ridge = around.var() * array.shape[2] / len(fitted)  # half of the seeds may be too few to invert without
    covariance = around.T @ around / len(fitted) + ridge * np.eye(array.shape[2])
    directions = np.linalg.solve(covariance, (means[0] - means[1:]).T).T  # towards "was in the data"
    threshold = np.einsum("ki,ki->k", directions, (means[0] + means[1:]) / 2)
    hits = (held[:, 0] @ directions.T > threshold).sum(axis=0)
    false_alarms = (np.einsum("ski,ki->sk", held[:, 1:], directions) > threshold).sum(axis=0)
    return hits, false_alarms, len(held)
