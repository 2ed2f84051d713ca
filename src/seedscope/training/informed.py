"""Logistic regression by DP-SGD as an informed attacker sees it: how probable each candidate for a record makes a run.

The attacker knows all other rows and their batches and sees every noisy sum. Of a step `y = ξ + B g` is left: noise,
and the clipped gradient of the person's true record if it was drawn (B). A candidate of gradient g_k explains it by
`ln(1 − q + q·exp((⟨y, g_k⟩ − ‖g_k‖²/2)/σ²))` more than nobody would. Each person has runs of their own, with another
true record drawn for each; all people of a release share the others' batches. Weights start at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seedscope.core import one_blas_thread, require


@dataclass(frozen=True)
class LinearSteps:
    """The steps: their size, how many, the chance to be in a batch, what sums are divided by, clipping and noise."""

    learning_rate: float
    steps: int
    sampling_probability: float
    expected_size: float
    clipping_norm: float
    noise_scale: float
    smooth: bool = False

    def __post_init__(self) -> None:
        require(self.noise_scale > 0, "without noise every candidate is told from every other: noise must be above 0.")

    def clipped(self, slopes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the derivatives δ of gradients δ·x̃ after clipping, x̃ of these lengths."""
        norms = np.abs(slopes) * lengths / self.clipping_norm
        shrunk: np.ndarray = slopes / (1 + _gelu(norms - 1)) if self.smooth else slopes / np.maximum(norms, 1.0)
        return shrunk


@dataclass(frozen=True, eq=False)
class Suspects:
    """People's places among the rows, and their candidates' rows [person, candidate, weight] and labels."""

    people: np.ndarray
    rows: np.ndarray
    labels: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """The candidates' norms."""
        lengths: np.ndarray = np.linalg.norm(self.rows, axis=2)
        return lengths


def informed_releases(
    rows: np.ndarray, labels: np.ndarray, steps: LinearSteps, suspects: Suspects, truth: np.ndarray, seed: int
) -> np.ndarray:
    """Return ln p_k up to a constant for each release, [release, person, candidate].

    Args:
        rows, labels: all training rows, the bias's ones included, and 0 or 1.
        steps: of DP-SGD.
        suspects: whose record is guessed among which candidates.
        truth: which candidate each release was trained on, [release, person].
        seed: of batches and noise.
    """
    streams = np.random.SeedSequence(seed).spawn(len(truth))
    with one_blas_thread():
        runs = [_release(rows, labels, steps, suspects, *pair) for pair in zip(truth, streams, strict=True)]
    return np.stack(runs)


def _release(
    rows: np.ndarray,
    labels: np.ndarray,
    steps: LinearSteps,
    suspects: Suspects,
    truth: np.ndarray,
    stream: np.random.SeedSequence,
) -> np.ndarray:
    """Return one release's log-likelihoods [person, candidate]: everybody's own model, trained side by side."""
    draw, everyone = np.random.default_rng(stream), np.arange(len(suspects.people))
    norms, lengths = np.linalg.norm(rows, axis=1), suspects.lengths
    weights, logs = np.zeros((len(everyone), rows.shape[1])), np.zeros(suspects.labels.shape)
    for _ in range(steps.steps):
        drawn = draw.random(len(rows)) < steps.sampling_probability
        total = _others(rows, labels, norms, steps, suspects.people, drawn, weights)
        logits = np.einsum("pkd,pd->pk", suspects.rows, weights)
        slopes = steps.clipped(_sigmoid(logits) - suspects.labels, lengths)
        true = (slopes[everyone, truth] * drawn[suspects.people])[:, None] * suspects.rows[everyone, truth]
        seen = true + steps.noise_scale * draw.standard_normal(true.shape)
        products = slopes * np.einsum("pkd,pd->pk", suspects.rows, seen)
        exponents = (products - (slopes * lengths) ** 2 / 2) / steps.noise_scale**2
        logs += _log_mixture(exponents, steps.sampling_probability)
        weights -= steps.learning_rate * (total + seen) / steps.expected_size
    return logs


def _others(
    rows: np.ndarray,
    labels: np.ndarray,
    norms: np.ndarray,
    steps: LinearSteps,
    people: np.ndarray,
    drawn: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return for each person's model [person, weight] the sum of clipped gradients of the others in the batch."""
    batch = np.flatnonzero(drawn)
    slopes = steps.clipped(_sigmoid(weights @ rows[batch].T) - labels[batch], norms[batch])
    inside = np.flatnonzero(drawn[people])
    slopes[inside, np.searchsorted(batch, people[inside])] = 0.0
    total: np.ndarray = slopes @ rows[batch]
    return total


def _log_mixture(exponents: np.ndarray, rate: float) -> np.ndarray:
    """Return ln(1 − q + q·e^z)."""
    with np.errstate(divide="ignore"):
        mixed: np.ndarray = np.logaddexp(np.log1p(-rate), np.log(rate) + exponents)
        return mixed


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    """Return the probability of class 1."""
    scores: np.ndarray = (1 + np.tanh(logits / 2)) / 2
    return scores


def _gelu(x: np.ndarray) -> np.ndarray:
    """Return x·Φ(x)."""
    from scipy.special import ndtr

    product: np.ndarray = x * ndtr(x)
    return product
