"""The mean of values −1, 0 and 1, of which most are 0: an exact interval from how often each occurred."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, xlog1py

from seedscope.core import require, require_probability
from seedscope.numerics.statistics import Interval

BETS = np.array([0.08, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.88, 0.94, 0.985])  # of what may be staked, good for few ±1
HALVINGS = 50


def three_valued_interval(ups: ArrayLike, downs: ArrayLike, trials: ArrayLike, confidence: ArrayLike) -> Interval:
    """Return the exact interval of P(+1) − P(−1), which may be looked at after every trial.

    A mean is refuted when somebody who bets against it has grown rich: their wealth would be a martingale, were it the
    true one (Ville's inequality). It is averaged over several stakes, and depends on the counts alone.

    Args:
        ups, downs: how often +1 and −1 occurred, any shape; all arguments broadcast.
        trials: how many independent values there were.
        confidence: in (0, 1).

    >>> lower, upper = three_valued_interval([0, 12], [0, 3], 1000, 0.95)
    >>> lower.round(3), upper.round(3)
    (array([-0.005, -0.003]), array([0.005, 0.024]))

    Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting", Section 4.
    """
    up, down, count, level = np.broadcast_arrays(
        np.asarray(ups, float), np.asarray(downs, float), np.asarray(trials, float), np.asarray(confidence, float)
    )
    shape = up.shape
    require_probability("confidence", confidence)
    require(count >= 1, f"trials must be at least 1, got {trials!r}.")
    require((up >= 0) & (down >= 0) & (up + down <= count), "ups and downs must be counts of at most all trials.")
    few, back = np.unique(
        np.stack([up.ravel(), down.ravel(), count.ravel(), level.ravel()]), axis=1, return_inverse=True
    )
    up, down, count, level = few  # most people share their counts with many others
    ends = -_upper_end(down, up, count, level), _upper_end(up, down, count, level)
    lower, upper = (end[back.ravel()].reshape(shape)[()] for end in ends)
    return lower, upper


def mean_refuted(mean: float, ups: int, downs: int, trials: int, confidence: float) -> bool:
    """Return whether the interval ends below this mean: one look at the wealth in place of the search for the end.

    >>> mean_refuted(0.01, 0, 0, 1000, 0.95), mean_refuted(0.001, 0, 0, 1000, 0.95)
    (True, False)
    """
    counts = np.array(ups, float), np.array(downs, float), np.array(trials, float)
    return bool(_log_wealth(np.array(mean, float), *counts) >= np.log(2 / (1 - confidence)))


def _upper_end(up: np.ndarray, down: np.ndarray, count: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the largest mean that is not refuted from below, by bisection, rounded outwards."""
    rich = np.log(2 / (1 - level))
    inside, outside = (up - down) / count, np.ones(up.shape)
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        refuted = _log_wealth(middle, up, down, count) >= rich
        inside, outside = np.where(refuted, inside, middle), np.where(refuted, middle, outside)
    return outside


def _log_wealth(mean: np.ndarray, up: np.ndarray, down: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the log of what betting on values below this mean has made of 1, on average over the stakes."""
    stakes = BETS.reshape(-1, *[1] * up.ndim)
    stake = stakes / np.maximum(1 - mean, 1e-300)
    grown = xlog1py(up, -stakes) + xlog1py(down, stake * (1 + mean)) + xlog1py(count - up - down, stake * mean)
    wealth: np.ndarray = logsumexp(grown, axis=0) - np.log(len(BETS))
    return wealth
