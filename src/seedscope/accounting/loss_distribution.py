"""The distribution of the privacy loss of DP-SGD, composed by FFT: what an attack on a whole run can achieve, exactly.

For Poisson batches the T-fold product of `P = (1−q)N(0, σ²) + qN(1, σ²)` (with a person) against `Q = N(0, σ²)`
(without) is the worst case of any network on any data, in both directions (Zhu, Dong & Wang 2022). The loss `ln P/Q` is
put on a grid and convolved by FFT. In every cell of the grid the mass is split between both ends so that P and Q keep
their masses: that can only make P and Q easier to tell apart, so the result is an upper bound, and its error falls with
the square of the cell's width (Doroshenko et al. 2022, "Connect the dots").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from seedscope.core import require_count, require_positive, require_probability

_CELLS = 200  # cells in one standard deviation of a step's loss
_MOST_CELLS = 2**21
_LOG_TAIL = 45.0  # what is beyond the grid has probability e^-45
SLACK = 1e-9  # more than all rounding of the convolution of up to `_ROUNDED` steps; beyond, it grows with them
_ROUNDED = 100_000
_MOST_STEPS = 10**12
NEGLIGIBLE = 1e-6  # a total variation below which no grid of losses is needed
_LONGEST = 2**23  # of the grid of a whole run's losses


@dataclass(frozen=True, eq=False)
class Rates:
    """The best attack's corners: false-positive rates, rising, and the true-positive rates reached there, from above.

    Between two corners an attack tosses a coin, so the curve is straight there.
    """

    false_positive: np.ndarray
    true_positive: np.ndarray

    def at(self, false_positive_rate: np.ndarray) -> np.ndarray:
        """Return the true-positive rates at false-positive rates."""
        rates: np.ndarray = np.interp(false_positive_rate, self.false_positive, self.true_positive)
        return rates


NOTHING = Rates(np.array([0.0, 1.0]), np.array([1.0, 1.0]))  # any attack may succeed, as far as is known


def total_variation(noise_multiplier: float, sampling_probability: float, steps: int) -> float:
    """Return the most that this many sampled Gaussian steps can gain any attack: T·q·(2Φ(1/2σ) − 1), at most 1.

    A mixture's distance is q times that of its parts, and distances of steps add up. It says more than a grid of losses
    where rows are so many that each is hardly ever drawn.

    >>> f"{total_variation(1.0, 1e-9, 1000):.4g}", total_variation(1.0, 0.5, 1000)
    ('3.829e-07', 1.0)
    """
    return float(min(1.0, steps * sampling_probability * (2 * ndtr(0.5 / noise_multiplier) - 1)))


@lru_cache(maxsize=8)
def sampled_gaussian_rates(noise_multiplier: float, sampling_probability: float, steps: int) -> Rates:
    """Return the corners of the best attack on this many sampled Gaussian steps, 0 < q < 1, with a slack of 1e-9.

    Of more than 100,000 steps the slack is larger (`slack`); a grid too long for memory says nothing (`NOTHING`).

    >>> rates = sampled_gaussian_rates(1.0, 0.01, 1000)
    >>> float(rates.at(0.01).round(4)), float((rates.true_positive - rates.false_positive).max().round(4))
    (0.0291, 0.161)
    """
    require_positive("noise_multiplier", noise_multiplier)
    require_probability("sampling_probability", sampling_probability)
    require_count("steps", steps)
    if steps > _MOST_STEPS:
        return NOTHING
    false, true = _composed(_Step(noise_multiplier, sampling_probability), steps)
    return Rates(np.append(false, 1.0), np.append(np.minimum(true + slack(steps), 1.0), 1.0))


def varying_rates(noise_multipliers: np.ndarray, counts: np.ndarray, sampling_probability: float) -> Rates:
    """Return the corners of the best attack on steps of several noises, each as often as it counts, 0 < q < 1.

    In units of a person's own norm s at a step the noise is σ/s; steps of one noise are composed together, then all.

    >>> same = varying_rates(np.array([1.0, 1.0]), np.array([400, 600]), 0.01)
    >>> float(same.at(0.01).round(4))
    0.0291
    """
    require_probability("sampling_probability", sampling_probability)
    steps = [_Step(float(noise), sampling_probability) for noise in noise_multipliers]
    total = int(counts.sum())
    width = max(_cell_width(step, total) for step in steps)
    grids = [_loss_masses(step, width, _LOG_TAIL + np.log(total)) for step in steps]
    ranges = [_range_of_sum(masses, int(n)) for (masses, _), n in zip(grids, counts, strict=True)]
    low, high = (sum(ends) for ends in zip(*ranges, strict=True))
    count = 1 << (high - low).bit_length()
    if count > _LONGEST:
        return NOTHING
    waves = np.ones(count // 2 + 1, complex)
    for (masses, _), n in zip(grids, counts, strict=True):
        waves *= np.fft.rfft(np.bincount(np.arange(len(masses)) % count, weights=masses, minlength=count)) ** n
    p = np.maximum(np.fft.irfft(waves, count), 0.0)
    descending = (low + np.arange(count))[::-1]
    p = p[descending % count]
    with np.errstate(over="ignore", under="ignore"):
        q = np.cumsum(p * np.exp(-(total * steps[0].least_loss + width * descending)))
    lost = sum(int(n) * beyond for (_, beyond), n in zip(grids, counts, strict=True)) + slack(total)
    false, true = np.concatenate([[0.0], np.minimum(q, 1.0)]), np.concatenate([[0.0], np.cumsum(p)]) + lost
    return Rates(np.append(false, 1.0), np.append(np.minimum(true, 1.0), 1.0))


def slack(steps: int) -> float:
    """Return more than all rounding of a convolution: a coefficient's relative error grows with its power.

    >>> slack(1000), slack(10**9)
    (1e-09, 1e-05)
    """
    return SLACK * max(1.0, steps / _ROUNDED)


@dataclass(frozen=True)
class _Step:
    """One step: its outputs x, with σ and q, and the privacy loss ln(1 − q + q·e^((2x−1)/2σ²)), which rises with x."""

    noise: float
    rate: float

    @property
    def least_loss(self) -> float:
        """The loss far to the left, ln(1 − q)."""
        return float(np.log1p(-self.rate))

    def loss(self, x: np.ndarray) -> np.ndarray:
        """Return the loss at outputs."""
        loss: np.ndarray = np.logaddexp(self.least_loss, np.log(self.rate) + (2 * x - 1) / (2 * self.noise**2))
        return loss

    def output(self, loss: np.ndarray) -> np.ndarray:
        """Return the outputs of losses above ln(1 − q), and −∞ for the others."""
        with np.errstate(divide="ignore", invalid="ignore"):
            above = np.log(np.expm1(loss) + self.rate) - np.log(self.rate)
        return np.where(loss > self.least_loss, self.noise**2 * above + 0.5, -np.inf)

    def masses(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of the cells between outputs, under P and under Q, exact in both tails."""
        without, shifted = (_cells((edges - shift) / self.noise) for shift in (0.0, 1.0))
        return (1 - self.rate) * without + self.rate * shifted, without


def _composed(step: _Step, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rising Q(E) and sup P(E) for the composition of this many steps, the most telling outputs first."""
    width = _cell_width(step, steps)
    masses, lost = _loss_masses(step, width, _LOG_TAIL + np.log(steps))
    low, high = _range_of_sum(masses, steps)
    count = 1 << (high - low).bit_length()
    if count > _LONGEST:
        return NOTHING.false_positive[:1], NOTHING.true_positive[:1]
    circle = np.bincount(np.arange(len(masses)) % count, weights=masses, minlength=count)
    summed = np.fft.irfft(np.fft.rfft(circle) ** steps, count)
    descending = (low + np.arange(count))[::-1]
    p = np.maximum(summed[descending % count], 0.0)
    with np.errstate(over="ignore", under="ignore"):
        ratio = np.exp(-(steps * step.least_loss + width * descending))
        q = np.cumsum(p * ratio)
    return np.concatenate([[0.0], np.minimum(q, 1.0)]), np.concatenate([[0.0], np.cumsum(p)]) + steps * lost


def _cell_width(step: _Step, steps: int) -> float:
    """Return the width of the grid's cells in units of loss."""
    x = np.linspace(-9 * step.noise, 1 + 9 * step.noise, 4001)
    weights, _ = step.masses(np.append(x, np.inf))
    losses = step.loss(x)
    spread = float(np.sqrt(weights @ (losses - weights @ losses) ** 2))
    longest: float = max(_top(step, _LOG_TAIL + np.log(steps)) - step.least_loss, 20 * np.sqrt(steps) * spread)
    return max(spread / _CELLS, longest / _MOST_CELLS)


def _top(step: _Step, log_tail: float) -> float:
    """Return the loss that an output exceeds with a probability of e^−log_tail at most."""
    return float(step.loss(np.asarray(1 + step.noise * np.sqrt(2 * log_tail))))


def _loss_masses(step: _Step, width: float, log_tail: float) -> tuple[np.ndarray, float]:
    """Return P's masses on the grid of losses, which begins at the least one, and what is beyond its end."""
    top = _top(step, log_tail)
    losses = step.least_loss + width * np.arange(int(np.ceil((top - step.least_loss) / width)) + 1)
    edges = step.output(losses)
    p, q = step.masses(edges)
    # P-mass a at the lower end and p − a at the upper one keep q: a·e^(−lower) + (p − a)·e^(−upper) = q.
    with np.errstate(over="ignore", invalid="ignore"):
        at_lower = np.clip(np.nan_to_num((q * np.exp(losses[1:]) - p) / np.expm1(width)), 0.0, p)
    masses = np.append(at_lower, 0.0)
    masses[1:] += p - at_lower
    beyond = (1 - step.rate) * ndtr(-edges[-1] / step.noise) + step.rate * ndtr((1 - edges[-1]) / step.noise)
    return masses, float(beyond)


def _range_of_sum(masses: np.ndarray, steps: int) -> tuple[int, int]:
    """Return grid indices between which the sum of losses lies but for a probability of e^−45, by Chernoff.

    Any slope gives a bound, so the search for the best one need not be exact. A few steps with long tails have their
    best slope far below one over the spread.
    """
    places = np.flatnonzero(masses)
    log_masses, mean = np.log(masses[places]), float(masses[places] @ places)
    spread = float(np.sqrt(masses[places] @ (places - mean) ** 2 * steps))
    ends = np.log(min(0.1, spread / len(masses)) / spread), np.log(30.0 / spread)

    def tail(sign: int) -> float:
        def bound(log_slope: float) -> float:
            slope = float(np.exp(log_slope))
            return (steps * _log_sum(sign * slope * places + log_masses) + _LOG_TAIL) / slope

        least: float = minimize_scalar(bound, bounds=ends, method="bounded", options={"maxiter": 10}).fun
        return least

    return int(np.floor(-tail(-1))), int(np.ceil(tail(1)))


def _log_sum(terms: np.ndarray) -> float:
    """Return ln Σ e^term."""
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum()))


def _cells(edges: np.ndarray) -> np.ndarray:
    """Return the standard normal's probabilities between edges, from the nearer tail."""
    lower, upper = edges[:-1], edges[1:]
    right = lower > 0
    masses: np.ndarray = np.where(right, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
    return masses
