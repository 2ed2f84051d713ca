"""Intervals and tests that the analyses share, in NumPy and `scipy.special`, vectorised.

Intervals are returned as a pair (lower, upper) of arrays. Those that hold with at least their confidence for any number
of samples (Clopper–Pearson, Hoeffding, the confidence sequence) say *exact*; the others are approximate and say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv, betaln, logsumexp, ndtri, stdtr, stdtrit, xlog1py, xlogy

from seedscope.core import require, require_count, require_probability, unknown_name

Side = Literal["both", "lower", "upper"]
Interval = tuple[np.ndarray, np.ndarray]
PERMUTED_TOGETHER = 1 << 15  # values whose groups' means are worked out at once: they stay in the processor's cache


def clopper_pearson(successes: ArrayLike, trials: ArrayLike, confidence: ArrayLike, side: Side = "both") -> Interval:
    """Return the exact interval of a proportion: it holds the truth with at least `confidence`, whatever the truth.

    Args:
        successes: counts 0 … trials, any shape; all arguments broadcast.
        trials: number of independent trials, at least 1.
        confidence: in (0, 1).
        side: `"lower"` and `"upper"` spend the whole error on one end; the other end is then 0 or 1.

    >>> lower, upper = clopper_pearson([0, 5, 10], 10, 0.95)
    >>> lower.round(3), upper.round(3)
    (array([0.   , 0.187, 0.692]), array([0.308, 0.813, 1.   ]))

    Clopper & Pearson 1934.
    """
    s, n = _checked_counts(successes, trials)
    require_probability("confidence", confidence)
    if side not in get_args(Side):
        raise unknown_name("side", side, get_args(Side))
    tail = (1 - np.asarray(confidence, float)) / (2 if side == "both" else 1)
    s, n, tail = np.broadcast_arrays(s, n, tail)
    lower, upper = np.zeros(s.shape), np.ones(s.shape)
    if side != "upper":
        lower = np.where(s > 0, betaincinv(np.maximum(s, 1), n - s + 1, tail), 0.0)
    if side != "lower":
        upper = np.where(s < n, betainccinv(s + 1, np.maximum(n - s, 1), tail), 1.0)
    return lower[()], upper[()]


def confidence_sequence(successes: ArrayLike, trials: ArrayLike, confidence: ArrayLike) -> Interval:
    """Return the interval of a proportion that may be looked at after every trial and still be exact.

    The probability that the truth is *ever* outside, over all numbers of trials, is at most 1 − confidence, so one may
    stop as soon as the interval is small enough. It is `{p : B(½+S, ½+n−S)/(B(½, ½) p^S (1−p)^(n−S)) < 1/(1−c)}`, from
    Ville's inequality for a Beta(½, ½) mixture of likelihood ratios.

    >>> lower, upper = confidence_sequence(50, 100, 0.95)
    >>> float(lower.round(3)), float(upper.round(3))
    (0.338, 0.662)

    Robbins 1970; Howard et al. 2021.
    """
    s, n = _checked_counts(successes, trials)
    require_probability("confidence", confidence)
    s, n, level = np.broadcast_arrays(s, n, np.asarray(confidence, float))
    limit = -np.log1p(-level) - betaln(s + 0.5, n - s + 0.5) + betaln(0.5, 0.5)

    def outside(p: np.ndarray) -> np.ndarray:
        refuted: np.ndarray = -xlogy(s, p) - xlog1py(n - s, -p) >= limit
        return refuted

    share = s / n
    return _outer_end(outside, np.zeros(s.shape), share), _outer_end(outside, np.ones(s.shape), share)


def hoeffding_margin(trials: ArrayLike, confidence: ArrayLike, span: float = 1.0) -> np.ndarray:
    """Return t such that a mean of `trials` values within a range of length `span` is within t of its expectation.

    Exact and two-sided: the probability is at least `confidence`.

    >>> float(hoeffding_margin(5000, 0.95).round(4))
    0.0192

    Hoeffding 1963, Theorem 2.
    """
    require_probability("confidence", confidence)
    n = np.asarray(trials, float)
    require(n >= 1, f"trials must be at least 1, got {trials!r}.")
    margin: np.ndarray = span * np.sqrt(np.log(2 / (1 - np.asarray(confidence, float))) / (2 * n))
    return margin


def pair_mean_margin(samples: ArrayLike, confidence: ArrayLike, span: float) -> np.ndarray:
    """Return the exact margin of a mean over all *pairs* of independent samples (a U-statistic of order two).

    A mean over pairs concentrates like a mean over `samples // 2` independent pairs.

    >>> float(pair_mean_margin(5000, 0.95, span=2.0).round(4))
    0.0543

    Hoeffding 1963, Equation 5.7.
    """
    return hoeffding_margin(np.asarray(samples) // 2, confidence, span)


def mean_interval(values: ArrayLike, confidence: float) -> Interval:
    """Return Student's interval of the mean over the first axis; approximate unless the values are normal.

    >>> lower, upper = mean_interval([1.0, 2.0, 3.0], 0.95)
    >>> float(lower.round(3)), float(upper.round(3))
    (-0.484, 4.484)
    """
    require_probability("confidence", confidence)
    x = np.asarray(values, float)
    require(len(x) >= 2, f"an interval of a mean needs at least two values, got {len(x)}.")
    margin = stdtrit(len(x) - 1, (1 + confidence) / 2) * x.std(axis=0, ddof=1) / np.sqrt(len(x))
    return x.mean(axis=0) - margin, x.mean(axis=0) + margin


def bootstrap_interval(
    values: ArrayLike,
    confidence: float,
    seed: int | np.random.Generator = 0,
    statistic: Callable[[np.ndarray], Any] | None = None,
    draws: int = 999,
) -> Interval:
    """Return the percentile bootstrap interval of a statistic of the first axis; approximate.

    Args:
        values: samples along the first axis, any further axes.
        confidence: in (0, 1).
        seed: of the resampling.
        statistic: takes an array like `values` and reduces its first axis; by default the mean.
        draws: number of resamples.

    >>> lower, upper = bootstrap_interval(np.arange(100.0), 0.95)
    >>> bool(lower < 49.5 < upper)
    True

    Efron 1979.
    """
    require_probability("confidence", confidence)
    require_count("draws", draws)
    x = np.asarray(values)
    require(x.ndim >= 1 and len(x) >= 2, "a bootstrap needs at least two values.")
    reduce = statistic or (lambda sample: sample.mean(axis=0))
    draw = np.random.default_rng(seed)
    results = np.stack([reduce(x[draw.integers(len(x), size=len(x))]) for _ in range(draws)])
    lower, upper = np.quantile(results, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return lower, upper


def paired_t_test(first: ArrayLike, second: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return t and the one-sided p-value of "the mean of `first` is above that of `second`", paired on the first axis.

    Where all differences are equal t is infinite with their sign (p = 0 or 1), or 0 with p = ½ if they are all zero.

    >>> t, p = paired_t_test([2.0, 3.0, 5.0], [1.0, 1.5, 4.0])
    >>> float(t.round(2)), float(p.round(4))
    (7.0, 0.0099)
    """
    difference = np.asarray(first, float) - np.asarray(second, float)
    require(difference.ndim >= 1 and len(difference) >= 2, "a paired test needs at least two pairs.")
    mean, spread = difference.mean(axis=0), difference.std(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, mean / (spread / np.sqrt(len(difference))))
    return t[()], stdtr(len(difference) - 1, -t)


def empirical_bernstein(values: ArrayLike, confidence: ArrayLike, span: float = 1.0, anytime: bool = False) -> Interval:
    """Return the exact interval of a mean from independent values in [0, span], narrow where they vary little.

    It holds with at least `confidence` whatever the distribution, also one that drifts around the same mean, and with
    `anytime=True` for all numbers of values at once: one may look after each and stop when one likes.

    Args:
        values: in the order in which they were drawn along the first axis; further axes are further means.
        confidence: in (0, 1), for each mean; broadcasts against the further axes.
        span: the largest value that is possible.
        anytime: tune for looking again and again instead of for this number of values.

    >>> lower, upper = empirical_bernstein(np.tile([0.28, 0.32], 1000), 0.95)
    >>> float(lower.round(3)), float(upper.round(3))
    (0.296, 0.304)

    Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting", Theorem 2.
    """
    require_probability("confidence", confidence)
    x = np.asarray(values, float) / span
    require(x.ndim >= 1 and len(x) >= 1, "an interval of a mean needs at least one value.")
    require((x >= 0) & (x <= 1 + 1e-12), f"values must be between 0 and the span {span:g}.")
    log_risk = np.log(2 / (1 - np.asarray(confidence, float)))
    count = np.arange(1, len(x) + 1).reshape(-1, *[1] * (x.ndim - 1))
    means = (0.5 + np.cumsum(x, axis=0)) / (count + 1)
    before = np.concatenate([np.full((1, *x.shape[1:]), 0.5), means[:-1]])  # what was known before each value
    variances = (0.25 + np.cumsum((x - means) ** 2, axis=0)) / (count + 1)
    known = np.concatenate([np.full((1, *x.shape[1:]), 0.25), variances[:-1]])
    horizon = count * np.log1p(count) if anytime else len(x)
    bets = np.minimum(np.sqrt(2 * log_risk / (known * horizon)), 0.5)
    total = bets.sum(axis=0)
    centre = (bets * x).sum(axis=0) / total
    margin = (log_risk + ((x - before) ** 2 * (-np.log1p(-bets) - bets)).sum(axis=0)) / total
    return span * np.maximum(centre - margin, 0.0), span * np.minimum(centre + margin, 1.0)


def permutation_test_of_groups(
    values: ArrayLike, codes: ArrayLike, seed: int | np.random.Generator = 0, draws: int = 999
) -> float:
    """Return the p-value of "all groups have the same mean", by a studentised permutation test.

    The statistic is Welch's: the variation between group means in units of each group's own spread, for every
    permutation anew. So p is exact where the groups have the same distribution, and keeps its level in large groups
    that have the same mean but not the same spread (without the units a third of such tests would reject at 5 %).

    Args:
        values: one number per example.
        codes: the example's group, 0 … groups − 1.
        seed: of the permutations.
        draws: number of permutations; the smallest possible p is 1/(draws + 1).

    >>> permutation_test_of_groups([0, 0, 0, 1, 9, 9, 9, 8], [0, 0, 0, 0, 1, 1, 1, 1]) < 0.05
    True

    Pauly, Brunner & Konietschke 2015; Chung & Romano 2013.
    """
    x, group = np.asarray(values, float), np.asarray(codes)
    require(x.ndim == 1 and x.shape == group.shape, f"one group per value is needed, got {group.shape} for {x.shape}.")
    require_count("draws", draws)
    centred, draw = x - x.mean(), np.random.default_rng(seed)
    observed = _welch(centred, group[None])[0] * (1 - 1e-9)  # the same partition drawn again must count as as large
    together = max(1, PERMUTED_TOGETHER // max(1, len(group)))
    blocks = [min(together, draws - start) for start in range(0, draws, together)]
    drawn = (np.stack([draw.permutation(group) for _ in range(size)]) for size in blocks)
    as_large = sum(int((_welch(centred, codes) >= observed).sum()) for codes in drawn)
    return (1 + as_large) / (1 + draws)


def _welch(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return how far groups' means are apart for each row of codes, in units of their own spread, or of a tiny one."""
    rows, groups = len(codes), int(codes.max()) + 1
    bins = codes + groups * np.arange(rows)[:, None]

    def summed(values: np.ndarray) -> np.ndarray:
        return np.bincount(bins.ravel(), values.ravel(), rows * groups).reshape(rows, groups)

    sizes = np.bincount(codes[0], minlength=groups)  # the same in every permutation
    means = summed(np.broadcast_to(x, codes.shape)) / np.maximum(sizes, 1)
    spread = x.var()
    inner = summed((x - means.ravel()[bins]) ** 2) / np.maximum(sizes - 1, 1)
    inner = np.maximum(np.where(sizes > 1, inner, spread), 1e-9 * spread)  # a group of one has no spread of its own
    weights = sizes / inner if spread > 0 else np.broadcast_to(sizes.astype(float), means.shape)
    centre = (weights * means).sum(axis=1) / weights.sum(axis=1)
    apart: np.ndarray = (weights * (means - centre[:, None]) ** 2).sum(axis=1)
    return apart


def spearman(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return Spearman's rank correlation of two vectors and its approximate interval (value, lower, upper).

    Ties get their mean rank. The interval is Fisher's with Bonett & Wright's (2000) variance `(1 + r²/2)/(n − 3)`; it
    is slightly wide: for normal pairs it covers about 91 % where 90 % is asked.

    >>> value, lower, upper = spearman([1, 2, 3, 4, 5], [1, 2, 3, 5, 4])
    >>> round(value, 3), lower < value < upper
    (0.9, True)
    """
    require_probability("confidence", confidence)
    x, y = mean_ranks(first), mean_ranks(second)
    require(x.ndim == 1 and x.shape == y.shape, f"two vectors of one length are needed, got {x.shape} and {y.shape}.")
    require(len(x) >= 4, f"a rank correlation with interval needs at least 4 pairs, got {len(x)}.")
    require(np.ptp(x) > 0 and np.ptp(y) > 0, "a rank correlation needs values that differ in both vectors.")
    r = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    margin = ndtri((1 + confidence) / 2) * np.sqrt((1 + r**2 / 2) / (len(x) - 3))
    centre = np.arctanh(np.clip(r, -1 + 1e-15, 1 - 1e-15))
    return r, float(np.tanh(centre - margin)), float(np.tanh(centre + margin))


def mean_ranks(values: ArrayLike) -> np.ndarray:
    """Return the ranks 1 … n along the last axis, ties sharing their mean rank.

    >>> mean_ranks([10.0, 30.0, 10.0, 20.0])
    array([1.5, 4. , 1.5, 3. ])
    """
    x = np.asarray(values)
    order = np.argsort(x, axis=-1)
    ordered = np.take_along_axis(x, order, axis=-1)
    place = np.broadcast_to(np.arange(x.shape[-1]), x.shape)
    differs = ordered[..., 1:] != ordered[..., :-1]
    edge = np.ones((*x.shape[:-1], 1), bool)
    starts, ends = np.concatenate([edge, differs], axis=-1), np.concatenate([differs, edge], axis=-1)
    first = np.maximum.accumulate(np.where(starts, place, 0), axis=-1)
    last = np.minimum.accumulate(np.where(ends, place, x.shape[-1])[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(x.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    return ranks


def log_mean_exp(log_values: ArrayLike, axis: int | None = None) -> np.ndarray:
    """Return the log of the mean of exp(log_values), without overflow.

    >>> float(log_mean_exp([1000.0, 1000.0]))
    1000.0
    """
    values = np.asarray(log_values, float)
    count = values.size if axis is None else values.shape[axis]
    log_mean: np.ndarray = logsumexp(values, axis=axis) - np.log(count)
    return log_mean


def _checked_counts(successes: ArrayLike, trials: ArrayLike) -> Interval:
    """Return successes and trials as broadcast floats after checking them."""
    s, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    require(n >= 1, f"trials must be at least 1, got {trials!r}.")
    require((s >= 0) & (s <= n), "successes must be between 0 and the number of trials.")
    return s, n


def _outer_end(outside: Callable[[np.ndarray], np.ndarray], end: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return the end of an interval between `end` (0 or 1) and a point inside, by bisection, rounded outwards."""
    outer, within = np.where(outside(end), end, inner), np.where(outside(end), inner, end)
    for _ in range(60):
        middle = (outer + within) / 2
        out = outside(middle)
        outer, within = np.where(out, middle, outer), np.where(out, within, middle)
    return np.where(outside(end), outer, end)[()]
