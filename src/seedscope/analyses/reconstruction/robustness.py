"""Reconstruction robustness: the chance that an attacker with a prior succeeds, from noise and rate.

An attacker who guesses from the prior alone is right with chance κ, whatever "right" means. With a model trained by
DP-SGD at hand the chance is at most sup P(E) over events with Q(E) ≤ κ, where P is a run with the record and Q one
without it (its output cannot depend on the record, so on average over the prior it is right with chance κ). For Poisson
batches the T-fold product of `P = (1−q)N(0, σ²) + qN(1, σ²)` against `Q = N(0, σ²)` bounds it, for any network.

The supremum is computed from the distribution of the privacy loss `ln P/Q` on a grid, convolved by FFT. In every cell of
the grid the mass is split between both ends so that P and Q keep their masses: that can only make P and Q easier to
tell apart, so that the result is an upper bound, and its error falls with the square of the cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from seedscope.errors import require_count, require_positive, require_probability

_CELLS = 40  # cells in one standard deviation of a step's loss
_MOST_CELLS = 2**23
_LOG_TAIL = 45.0  # what is beyond the grid has probability e^-45
_SLACK = 1e-9  # more than all rounding of the convolution


def reconstruction_success_upper(
    prior: ArrayLike, noise_multiplier: float, sampling_probability: float = 1.0, steps: int = 1
) -> np.ndarray:
    """Return the largest chance of a successful reconstruction, an upper bound with a slack of 1e-9.

    The answer to: "they would guess right once in a thousand times anyway; how often with the model?" Batches must be
    Poisson batches. For output perturbation use `noise_multiplier` = noise scale / replace-one sensitivity and the
    defaults otherwise.

    Args:
        prior: the chance κ of success without the model, any shape.
        noise_multiplier: noise standard deviation over the clipping norm.
        sampling_probability: the chance q of a record to be in a batch.
        steps: number of steps T.

    >>> reconstruction_success_upper([0.001, 0.1], noise_multiplier=1.0, sampling_probability=0.01, steps=1000).round(3)
    array([0.006, 0.25 ])
    >>> float(reconstruction_success_upper(0.1, noise_multiplier=2.0, steps=4).round(4))      # Φ(Φ⁻¹(κ) + √T/σ)
    0.3891

    Hayes, Mahloujifar & Balle 2023, "Bounding training data reconstruction in DP-SGD", Theorem 2 and Corollary 3;
    they sample what is computed here.
    """
    require_probability("prior", prior, closed=True)
    require_positive("noise_multiplier", noise_multiplier)
    require_probability("sampling_probability", sampling_probability, closed=True)
    require_count("steps", steps)
    kappa = np.asarray(prior, float)
    if sampling_probability == 0:
        return kappa[()]
    if sampling_probability == 1:
        upper = ndtr(ndtri(kappa) + np.sqrt(steps) / noise_multiplier)
    else:
        upper = _composed_success(kappa, _Step(noise_multiplier, sampling_probability), steps)
    return np.where(kappa == 0, 0.0, np.clip(upper + _SLACK, kappa, 1.0))[()]


@dataclass(frozen=True)
class _Step:
    """One step: its outputs x, with σ and q, and the privacy loss ln(1 − q + q·e^((2x−1)/2σ²)), which rises with x."""

    noise: float
    rate: float

    def loss(self, x: np.ndarray) -> np.ndarray:
        """Return the loss at outputs."""
        return np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + (2 * x - 1) / (2 * self.noise**2))

    def output(self, loss: np.ndarray) -> np.ndarray:
        """Return the outputs of losses above ln(1 − q), and −∞ for the others."""
        with np.errstate(divide="ignore", invalid="ignore"):
            above = np.log(np.expm1(loss) + self.rate) - np.log(self.rate)
        return np.where(loss > np.log1p(-self.rate), self.noise**2 * above + 0.5, -np.inf)

    def masses(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of the cells between outputs, under P and under Q, exact in both tails."""
        without, shifted = (_cells((edges - shift) / self.noise) for shift in (0.0, 1.0))
        return (1 - self.rate) * without + self.rate * shifted, without


def _composed_success(kappa: np.ndarray, step: _Step, steps: int) -> np.ndarray:
    """Return sup P(E) over Q(E) ≤ κ for the composition of so many steps."""
    width = _cell_width(step, steps)
    first, masses, lost = _loss_masses(step, width, _LOG_TAIL + np.log(steps))
    low, high = _range_of_sum(first, masses, width, steps)
    count = _fast_length(high - low + 1)
    circle = np.bincount((first + np.arange(len(masses))) % count, weights=masses, minlength=count)
    summed = np.fft.irfft(np.fft.rfft(circle) ** steps, count)
    descending = (low + np.arange(count))[::-1]
    p = np.maximum(summed[descending % count], 0.0)
    with np.errstate(over="ignore", under="ignore"):
        q = np.cumsum(p * np.exp(-descending * width))  # what lies at and above a loss, the most telling outputs first
    reached = np.cumsum(p) + steps * lost
    return np.interp(kappa, np.concatenate([[0.0], q]), np.concatenate([[steps * lost], reached]))


def _cell_width(step: _Step, steps: int) -> float:
    """Return the width of the grid's cells in units of loss."""
    x = np.linspace(-9 * step.noise, 1 + 9 * step.noise, 4001)
    weights, _ = step.masses(np.append(x, np.inf))
    losses = step.loss(x)
    mean = weights @ losses
    spread = float(np.sqrt(weights @ (losses - mean) ** 2))
    return max(spread / _CELLS, 20 * np.sqrt(steps) * spread / _MOST_CELLS, 1e-9)


def _loss_masses(step: _Step, width: float, log_tail: float) -> tuple[int, np.ndarray, float]:
    """Return the grid index of the least loss, P's masses on the grid from there on, and what is beyond it."""
    first = int(np.floor(np.log1p(-step.rate) / width))
    top = float(step.loss(np.asarray(1 + step.noise * np.sqrt(2 * log_tail))))
    losses = width * np.arange(first, int(np.ceil(top / width)) + 1)
    edges = step.output(losses)
    edges[0] = -np.inf
    p, q = step.masses(edges)
    # P-mass a at the lower end and p − a at the upper one keep q: a·e^(−lower) + (p − a)·e^(−upper) = q.
    with np.errstate(over="ignore", invalid="ignore"):
        at_lower = np.clip(np.nan_to_num((q * np.exp(losses[1:]) - p) / np.expm1(width)), 0.0, p)
    masses = np.append(at_lower, 0.0)
    masses[1:] += p - at_lower
    beyond = (1 - step.rate) * ndtr(-edges[-1] / step.noise) + step.rate * ndtr((1 - edges[-1]) / step.noise)
    return first, masses, float(beyond)


def _range_of_sum(first: int, masses: np.ndarray, width: float, steps: int) -> tuple[int, int]:
    """Return grid indices between which the sum of the steps' losses lies but for a probability of e^−45, by Chernoff."""
    losses = width * (first + np.arange(len(masses)))
    spread = float(np.sqrt(masses @ (losses - masses @ losses) ** 2 * steps))
    slopes = np.geomspace(0.1, 30.0, 40) / spread

    def tail(sign: float) -> float:
        return min((steps * _log_moment(sign * slope * losses, masses) + _LOG_TAIL) / slope for slope in slopes)

    return int(np.floor(-tail(-1.0) / width)), int(np.ceil(tail(1.0) / width))


def _log_moment(exponents: np.ndarray, masses: np.ndarray) -> float:
    """Return ln Σ mass·e^exponent."""
    top = exponents.max()
    return float(top + np.log(masses @ np.exp(exponents - top)))


def _cells(edges: np.ndarray) -> np.ndarray:
    """Return the standard normal's probabilities between edges, from the nearer tail."""
    lower, upper = edges[:-1], edges[1:]
    right = lower > 0
    return np.where(right, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))


def _fast_length(count: int) -> int:
    """Return the power of two from the count on."""
    return 1 << int(count - 1).bit_length()
