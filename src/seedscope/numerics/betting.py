"""Confidence intervals of the means of bounded values, by betting: as narrow as the values' spread allows.

Against each candidate m for the mean a gambler bets on the values one after another, a share λ_t of the capital on
"above m" that may depend on the values before only. If m is the mean, the capital does not grow on average, so by
Markov's inequality it exceeds 1/ρ with probability at most ρ. What would have made the gambler so rich is no mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import require, require_probability

BOLDNESS = 0.75  # no bet risks more than this share of the capital
PRIOR_MEAN, PRIOR_VARIANCE = 0.1, 0.05  # of values in [0, 1] before any is seen; any choice is valid
TOGETHER = 16  # factors that are multiplied before their logarithm is taken
SEARCHES = 7  # evaluations of the capital; each end is on its safe side after any number of them
BLOCK = 1 << 16  # numbers worked on together, to stay in the cache
HORIZON, GROWTH = 64, 4  # numbers of runs for which a gambler bets who does not know when it ends: 64, 256, …


def betting_interval(
    values: ArrayLike, confidence: float, *, together: ArrayLike = 1, largest: float = 1.0, anytime: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return (lower, upper) bounds of the means of independent values in [0, largest]; exact for any number of them.

    Args:
        values: [run, ...], runs independent.
        confidence: of each interval, or of all `together` intervals at once.
        together: among how many intervals the error is shared out; a number for each where shares are not even.
        largest: what no value exceeds.
        anytime: the number of runs was not fixed before the first was seen; then intervals are wider.

    >>> draws = np.random.default_rng(0).beta(1, 9, size=1000)
    >>> lower, upper = betting_interval(draws, 0.95)
    >>> float(lower.round(3)), float(upper.round(3))
    (0.092, 0.108)

    Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting". Bets are for a fixed number
    of runs; with `anytime` capital is spread over bets for several numbers, so that no number has to be known.
    """
    x = _checked(values, confidence)
    inside = bool(x.size == 0 or (x.min() >= 0 and x.max() <= largest * (1 + 1e-12)))
    require(inside, f"values must be in [0, {largest:g}] and not NaN.")
    flat, shape = np.minimum(x.reshape(len(x), -1) / largest, 1.0), x.shape[1:]
    goals = _goals(together, confidence, flat.shape[1])
    ends = np.empty((2, flat.shape[1]))
    for block in _blocks(*flat.shape):
        part, goal = flat[:, block], goals[block]
        ends[0, block] = _lower(part, goal, anytime)
        ends[1, block] = 1 - _lower(1 - part, goal, anytime, 1 - PRIOR_MEAN)
    lower, upper = (largest * one.reshape(shape) for one in ends)
    return lower[()], upper[()]


def betting_lower(
    values: ArrayLike, confidence: float, *, together: ArrayLike = 1, anytime: bool = False
) -> np.ndarray:
    """Return the lower ends of two-sided intervals for means of at most 1 of values from 0 on, however large.

    Whoever bets on "above" loses by small values only, so that no largest value has to be known.

    Args:
        values: [run, column], runs independent; each run's may be another quantity of the same mean, if which one is
            decided by the runs before.
        confidence, together, anytime: as for `betting_interval`.

    >>> draws = np.random.default_rng(0).exponential(0.1, size=(1000, 1))
    >>> betting_lower(draws, 0.95).round(3)
    array([0.094])
    """
    x = _checked(values, confidence)
    require(x.ndim == 2 and not np.isnan(x).any() and x.min(initial=0.0) >= 0, "values must be from 0 on, not NaN.")
    goals, ends = _goals(together, confidence, x.shape[1]), np.empty(x.shape[1])
    for block in _blocks(*x.shape):
        ends[block] = _lower(x[:, block], goals[block], anytime)
    return ends


def _checked(values: ArrayLike, confidence: float) -> np.ndarray:
    """Return the values as an array that has runs."""
    require_probability("confidence", confidence)
    x = np.asarray(values, float)
    require(x.ndim > 0 and len(x) > 0, "values must have at least one run.")
    return x


def _goals(together: ArrayLike, confidence: float, columns: int) -> np.ndarray:
    """Return the logarithm [column] of the capital that refutes a mean: half of a column's error is for each side."""
    return np.broadcast_to(np.log(2 * np.asarray(together, float) / (1 - confidence)).ravel(), (columns,))


def _blocks(runs: int, columns: int) -> list[slice]:
    """Return blocks of columns that stay in the cache."""
    width = max(1, BLOCK // runs)
    return [slice(start, start + width) for start in range(0, columns, width)]


def _lower(x: np.ndarray, goal: np.ndarray, anytime: bool, prior: float = PRIOR_MEAN) -> np.ndarray:
    """Return the smallest means [column] against which betting on "above" earns less than e^goal, rounded down."""
    bets = _bets(x, goal, prior)
    shares = _horizons(len(x)) if anytime else {len(x): 1.0}

    def beyond(mean: np.ndarray) -> np.ndarray:
        earned = [
            np.log(share) + _log_capital(x, bets * np.sqrt(len(x) / runs), mean) for runs, share in shares.items()
        ]
        rich: np.ndarray = np.logaddexp.reduce(earned) - goal
        return rich

    low, high = np.zeros(x.shape[1]), np.ones(x.shape[1])
    at_low, at_high = beyond(low), np.full(x.shape[1], -np.inf)
    guess = np.maximum(x.mean(0) - np.sqrt(2 * goal * x.var(0) / len(x)), 0.0)
    for k in range(SEARCHES):
        value = beyond(guess)
        rich = value >= 0
        # the end that stays has its value halved, so that the other moves too (the Illinois rule)
        low, at_low = np.where(rich, guess, low), np.where(rich, value, at_low if k == 0 else at_low / 2)
        high, at_high = np.where(rich, high, guess), np.where(rich, at_high / 2, value)
        with np.errstate(invalid="ignore", divide="ignore"):
            guess = low + (high - low) * at_low / (at_low - at_high)
        guess = np.where(np.isfinite(at_high) & (guess > low) & (guess < high), guess, (low + 2 * x.mean(0)) / 3)
    return low


def _horizons(runs: int) -> dict[int, float]:
    """Return the numbers of runs that bets are for, those near to `runs` only, and each one's share of the capital.

    Shares are those of an endless row, so they do not depend on when it ended; what far bets earned is left out.
    """
    found, k = {}, 0
    while HORIZON * GROWTH**k < runs * GROWTH**1.5:
        found[HORIZON * GROWTH**k] = 1 / ((k + 1) * (k + 2))
        k += 1
    return {number: share for number, share in found.items() if number > runs / GROWTH**2} or {HORIZON: 0.5}


def _bets(x: np.ndarray, goal: np.ndarray, prior: float) -> np.ndarray:
    """Return the shares λ_t [run, column], from the values before t."""
    runs = np.arange(1, len(x) + 1)[:, None]
    means = (prior + np.cumsum(x, axis=0)) / (runs + 1)
    squares = PRIOR_VARIANCE + np.cumsum((x - means) ** 2, axis=0)
    variances = np.concatenate([np.full((1, x.shape[1]), PRIOR_VARIANCE), (squares / (runs + 1))[:-1]])
    bets: np.ndarray = np.sqrt(2 * goal / (len(x) * np.maximum(variances, 1e-12)))
    return bets


def _log_capital(x: np.ndarray, bets: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the logarithm of what betting against the means [column] earned; it falls as the mean rises."""
    with np.errstate(divide="ignore"):
        factors = 1 + np.minimum(bets, BOLDNESS / mean) * (x - mean)
    parts = np.multiply.reduceat(factors, np.arange(0, len(x), TOGETHER), axis=0)
    logs: np.ndarray = np.log(parts).sum(axis=0)
    return logs
