"""How arbitrary is a decision, told from the one released model alone: it costs no privacy and needs no re-training.

Output perturbation releases w + σξ with a public σ. A person's linear score over σ‖x̃‖ is then a standard normal around
the margin without noise, and that margin alone decides how arbitrary the decision is. So whoever holds the released
model has an exact interval for each person's own arbitrariness, and may abstain by it: post-processing is free. Of more
than two classes each pair's difference of scores is such a normal, and what all pairs allow bounds the arbitrariness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri, ndtr, ndtri

from seedscope.analyses.multiplicity.scores import class_chances, output_perturbation_disagreement
from seedscope.core import require, require_count, require_positive, require_probability


@dataclass(frozen=True, eq=False)
class ReleasedDisagreement:
    """What a released model says about its own decisions, one entry for each person.

    `decided` is its decision, `disagreement` an estimate of twice the chance that another run would decide otherwise
    than a further one, and `lower`, `upper` hold the true value with at least `confidence` over the noise that was
    drawn: for each person, or for all of them at once if that was asked for.
    """

    decided: np.ndarray
    disagreement: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    confidence: float

    def certain(self, level: float = 0.75) -> np.ndarray:
        """Return whose decision the model may take: two runs are shown to decide alike at least with chance `level`.

        On the others it abstains. A level of 0.75 is a disagreement of at most 0.5.
        """
        require(0.5 <= level <= 1, f"level of self-consistency must be in [0.5, 1], got {level}.")
        certain: np.ndarray = 1 - self.upper / 2 >= level
        return certain


def released_model_disagreement(
    scores: ArrayLike,
    norms: ArrayLike,
    noise_scale: float,
    confidence: float = 0.95,
    *,
    examples: int = 1,
    weights: int | None = None,
    classes: int = 2,
) -> ReleasedDisagreement:
    """Return how arbitrary a released model's decisions are, from that model alone: privacy-free abstention.

    For linear models that were released by output perturbation. Nothing but the released weights and the public noise
    scale enters, so it costs no privacy, and whoever holds the model can do it.

    Args:
        scores: *linear* scores w̃·x̃ of the released model, any shape; beyond two classes [..., class].
        norms: ‖x̃‖ > 0, the norm of the scaled row with its bias column of ones.
        noise_scale: σ > 0, the standard deviation of the noise on each weight.
        confidence: in (0, 1), over the noise.
        examples: how many people the statement is about at once; 1: it holds for each person.
        weights: the number of weights of the model, bias included; with it the statement holds at once for everybody
            who may ever ask, where that is the narrower one.
        classes: how many the model tells apart. Beyond two the interval is wider than it could be, never too narrow.

    >>> found = released_model_disagreement([0.1, 6.0], 1.0, 1.0)
    >>> found.upper.round(3), found.certain()
    (array([1., 0.]), array([False,  True]))
    >>> released_model_disagreement([[0.1, 0.0, -1.0], [8.0, 0.0, -1.0]], 1.0, 1.0, classes=3).certain()
    array([False,  True])

    AD §7.2 asks whether this can be known without a further cost of privacy; the closed form is AD Proposition 2.
    """
    require_probability("confidence", confidence)
    require_count("classes", classes, at_least=2)
    linear, lengths = np.asarray(scores, float), np.asarray(norms, float)
    if classes > 2:
        return _of_several_classes(linear, lengths, noise_scale, confidence, examples, weights, classes)
    estimate = output_perturbation_disagreement(linear, lengths, noise_scale)
    margin, reach = np.abs(linear) / (lengths * noise_scale), margin_error(confidence, examples, weights)
    lower, upper = (_disagreement(distance) for distance in (margin + reach, np.maximum(margin - reach, 0.0)))
    return ReleasedDisagreement(linear > 0, estimate, lower, upper, confidence)


def _of_several_classes(
    scores: np.ndarray, norms: np.ndarray, noise_scale: float, confidence: float, examples: int, weights: int | None,
    classes: int,
) -> ReleasedDisagreement:  # fmt: skip
    """Return the same for scores [..., class]: every pair's margin is known to within one reach.

    q, the chance that another run leaves the decided class, is at most the sum of the chances that one of the others
    beats it, and at least the largest of them. Given q two runs differ least where all that is left goes to one class,
    2q(1 − q), and most where it is shared evenly, 1 − (1 − q)² − q²/(K − 1).
    """
    rule = f"scores must be [..., class] of {classes} classes, got shape {scores.shape}."
    require(scores.ndim >= 1 and scores.shape[-1] == classes, rule)
    chances = class_chances(scores, norms, noise_scale)
    decided = scores.argmax(-1)
    lead = np.take_along_axis(scores, decided[..., None], -1) - scores
    margins = lead / (np.sqrt(2) * noise_scale * norms[..., None])  # of a pair: unit noise
    others = np.arange(classes) != decided[..., None]
    reach = margin_error(confidence, examples, weights, classes)
    most = np.minimum(np.where(others, ndtr(reach - margins), 0.0).sum(-1), 1.0)
    least = np.where(others, ndtr(-reach - margins), 0.0).max(-1)
    even = np.minimum(most, 1 - 1 / classes)
    upper = 2 * (1 - (1 - even) ** 2 - even**2 / (classes - 1))
    lower = 4 * np.minimum(least * (1 - least), most * (1 - most))
    return ReleasedDisagreement(decided, 2 * (1 - np.square(chances).sum(-1)), lower, upper, confidence)


def margin_error(confidence: float, examples: int = 1, weights: int | None = None, classes: int = 2) -> float:
    """Return how far a released margin, in units of its noise, is from the true one, for this many people at once.

    |ξ·x̂| for one direction is half-normal, and for all directions together at most ‖ξ‖, which is chi-distributed. The
    differences of a person's K scores are directions of K − 1 dimensions, all weights' together of a share 1 − 1/K.

    >>> round(margin_error(0.95), 2), round(margin_error(0.95, 16_281), 2), round(margin_error(0.95, 16_281, 6), 2)
    (1.96, 4.67, 3.55)
    >>> round(margin_error(0.95, classes=3), 2), round(margin_error(0.95, 16_281, 18, classes=3), 2)
    (2.39, 4.59)
    """
    require_count("examples", examples)
    risk, pairs = 1 - confidence, classes * (classes - 1) // 2
    ways = [float(-ndtri(risk / (2 * examples * pairs)))]
    if classes > 2:
        ways.append(float(np.sqrt(chdtri(classes - 1, risk / examples))))
    if weights is not None:
        require_positive("weights", weights)
        free = weights if classes == 2 else weights * (classes - 1) / classes
        ways.append(float(np.sqrt(chdtri(free, risk))))
    return min(ways)


def _disagreement(margin: np.ndarray) -> np.ndarray:
    """Return the disagreement 4Φ(t)Φ(−t) at a margin."""
    disagreement: np.ndarray = 4 * ndtr(margin) * ndtr(-margin)
    return disagreement
