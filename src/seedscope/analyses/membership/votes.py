"""Membership in a bootstrap forest from what its trees vote about a row: a likelihood ratio without shadow forests.

Of T trees, those that err about a row are binomial: with the rate of trees of forests that learned from the row, or
with that of trees whose bag lacks it. Both rates are known from forests that an attacker grows, but of another
sample of rows than the target's, so they vary about what is known: beta laws of one concentration make the counts
beta-binomial. The concentration is the one under which the target's votes about everybody are the likeliest,
whoever was a member.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln

from seedscope.core import require, require_count, require_probability

CONCENTRATIONS = 2.0 ** np.arange(1, 12)
BELOW = 0.999  # errors with a row, of those without it, at most: nobody is remembered by being forgotten


def vote_log_ratios(
    votes: ArrayLike, with_row: ArrayLike, without_row: ArrayLike, trees: int, seen: int, share: float = 0.5
) -> np.ndarray:
    """Return how much likelier a target forest's votes are with each row than without it, as logarithms [row].

    Args:
        votes: [row], the target's share of trees (or mean probability) for each row's own label.
        with_row, without_row: the same of forests that learned from the row, and of trees that did not (estimates).
        trees: of the target.
        seen: trees behind `without_row`, by which rates of 0 and 1 are kept from certainty (Jeffreys' prior).
        share: of the rows that the target learned from, about.

    >>> vote_log_ratios([0.95, 0.5], [0.9, 0.9], [0.5, 0.5], trees=100, seen=500).round().tolist()
    [30.0, -24.0]
    """
    votes, inside, outside = (np.asarray(array, float) for array in (votes, with_row, without_row))
    require(votes.ndim == 1 and votes.shape == inside.shape == outside.shape, "votes must be one number for each row.")
    every = np.concatenate([votes, inside, outside])
    require((every >= 0) & (every <= 1), "votes must be shares from 0 to 1.")
    require_count("trees", trees)
    require_count("seen", seen)
    require_probability("share", share)
    errors = trees * (1 - votes)
    rate_without = _rate(outside, seen)
    rate_with = np.minimum(_rate(inside, seen), BELOW * rate_without)
    both = [
        (_log_chance(errors, trees, rate_with, s), _log_chance(errors, trees, rate_without, s)) for s in CONCENTRATIONS
    ]
    known = [np.logaddexp(np.log(share) + gain, np.log1p(-share) + other).sum() for gain, other in both]
    member, stranger = both[int(np.argmax(known))]
    ratios: np.ndarray = member - stranger
    return ratios


def _rate(votes: np.ndarray, seen: int) -> np.ndarray:
    """Return the rate of errors, kept from 0 and 1."""
    rate: np.ndarray = ((1 - votes) * seen + 0.5) / (seen + 1)
    return rate


def _log_chance(errors: np.ndarray, trees: int, rate: np.ndarray, concentration: float) -> np.ndarray:
    """Return the beta-binomial's logarithm of so many errors; what is the same for every rate is left out."""
    a, b = concentration * rate, concentration * (1 - rate)
    chance: np.ndarray = betaln(a + errors, b + trees - errors) - betaln(a, b)
    return chance
