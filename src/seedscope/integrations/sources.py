"""How much of the disagreement is the seed's, and how much the sample's.

Models that share a bootstrap sample and differ in the seed tell what the seed does; models that differ in both what
both do. The variance of a decision is the mean variance over seeds for one sample plus the variance over samples of its
mean, so the first share is the seed's and the rest the sample's (Cooper et al. 2024 have the sample's alone).
"""

from __future__ import annotations

import numpy as np

from seedscope.core import Number, require
from seedscope.numerics import mean_interval

BLOCKS = 20  # of models, from which the share's interval is made


def decisions(scores: np.ndarray) -> np.ndarray:
    """Return decisions [model, example] of scores."""
    decided: np.ndarray = (scores > 0.5).astype(int) if scores.ndim == 2 else scores.argmax(-1)
    return decided


def seed_share(first: np.ndarray, second: np.ndarray, confidence: float = 0.95) -> Number:
    """Return the seed's share of the disagreement, with an interval over samples (jackknife, clipped to [0, 1]).

    Args:
        first, second: scores [sample, example(, class)] of two models with the same sample and different seeds.

    >>> draw = np.random.default_rng(0)
    >>> sample, seed = draw.random((2000, 1)), draw.random((2, 2000, 1))
    >>> share = seed_share(*(sample + seed > 1).astype(float))  # both matter alike
    >>> abs(float(share) - 0.667) < 0.1  # P(differ | one sample) / P(differ)
    True
    """
    one, other = decisions(first), decisions(second)
    require(one.shape == other.shape and len(one) >= 4, "seed_share needs four samples with two models each.")
    blocks = np.array_split(np.arange(len(one)), min(BLOCKS, len(one)))
    whole = _share(one, other)
    left = np.array([_share(np.delete(one, block, 0), np.delete(other, block, 0)) for block in blocks])
    pseudo = len(blocks) * whole - (len(blocks) - 1) * left
    low, high = (float(np.clip(end, 0, 1)) for end in mean_interval(pseudo, confidence))
    return Number(float(np.clip(whole, 0, 1)), "estimate", low, high, confidence, note="the rest is the sample's")


def _share(one: np.ndarray, other: np.ndarray) -> float:
    """Return P(differ | same sample) / P(differ | two samples), averaged over people; 0 where nothing differs."""
    within = float((one != other).mean())
    return within / between if (between := _between(one, other)) > 0 else 0.0


def _between(one: np.ndarray, other: np.ndarray) -> float:
    """Return how often a model of one sample and a model of another decide differently."""
    samples, classes = len(one), int(max(one.max(), other.max())) + 1
    both = np.concatenate([one, other])
    counts = np.stack([(both == k).sum(0) for k in range(classes)])  # [class, example]
    differ = (len(both) ** 2 - (counts**2).sum(0)) / 2  # pairs of models
    same_sample = (one != other).sum(0)
    pairs = len(both) * (len(both) - 1) / 2 - samples
    return float(((differ - same_sample) / pairs).mean())
