"""Rényi divergence of one step of DP-SGD: Gaussian noise on a Poisson-sampled sum."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from seedscope.accounting.quadrature import log_excess
from seedscope.core import RELATIONS, Relation, require, require_positive, require_probability, unknown_name

FractionalOrders = Literal["exact", "interpolate"]

_BLOCK = 2**16  # terms of the integer-order sum held at once: they stay in the processor's cache


def sampled_gaussian_rdp(
    sensitivity: ArrayLike,
    noise_scale: ArrayLike,
    sampling_probability: ArrayLike,
    order: ArrayLike,
    relation: Relation = "add_or_remove",
    fractional_orders: FractionalOrders = "exact",
) -> np.ndarray:
    """Return the Rényi divergence of one sampled Gaussian step, an upper bound that is tight to about 1e-10 relative.

    A batch holds each example with probability q, independently; the sum of vectors of norm at most s gets noise
    `N(0, σ² I)`. With `N(·)` of variance σ² the value is the order-α divergence of `(1−q)N(0) + qN(s)`

    * from `N(0)` for `"add_or_remove"`, which bounds the other direction too (Mironov et al. 2019, Theorem 5);
    * from `(1−q)N(0) + qN(−s)` for `"replace_one"`: the two vectors are opposite in the worst case, at every order
      (proof in docs/accounting.md).

    Integer orders of add-or-remove are a finite sum of positive terms in log space; all others are an integral by the
    trapezoidal rule to full accuracy. Where a divergence is so large that a closed-form upper bound agrees with it to
    1e-13, that bound is returned; so it is, not tight, for σ/s below 0.002 at orders very near 1. Rounding goes up: the
    result is never below the true value.

    Args:
        sensitivity: norm s ≥ 0 of one example's (clipped) vector, any shape; all arguments broadcast.
        noise_scale: standard deviation σ > 0 of the noise, in the units of `sensitivity`.
        sampling_probability: q in [0, 1].
        order: α > 1, integer or not.
        relation: which data sets are neighbours.
        fractional_orders: `"exact"`, or `"interpolate"` for the faster upper bound that is linear between integers in
            (α−1)·D_α (which is convex).

    >>> float(sampled_gaussian_rdp(1.0, 2.0, 1.0, 8))        # no sampling: α s² / 2σ²
    1.0
    >>> sampled_gaussian_rdp([[0.5], [1.0]], 1.0, 0.1, [2, 8]).round(5)      # sensitivities × orders
    array([[0.00284, 0.01373],
           [0.01704, 1.37836]])
    >>> float(sampled_gaussian_rdp(1.0, 1.0, 0.01, 2, relation="replace_one").round(8))
    0.00045755

    Mironov, Talwar & Zhang 2019, "Rényi differential privacy of the sampled Gaussian mechanism", §3.3.
    """
    _check(sensitivity, noise_scale, sampling_probability, order, relation, fractional_orders)
    with np.errstate(over="ignore", under="ignore"):
        c = (np.asarray(sensitivity, float) / np.asarray(noise_scale, float)) ** 2
    c, q, alpha = np.broadcast_arrays(c, np.asarray(sampling_probability, float), np.asarray(order, float))
    replace = relation == "replace_one"
    with np.errstate(over="ignore"):
        rdp = np.where(q > 0, (2 if replace else 0.5) * alpha * c, 0.0)  # q = 1: the Gaussian mechanism
        # α²c overflows only where the divergence does too, to within a factor
        inner = (c > 0) & (q > 0) & (q < 1) & np.isfinite(4 * alpha**2 * c)
    if inner.any():
        rdp[inner] = _inner_rdp(c[inner], q[inner], alpha[inner], replace, fractional_orders == "interpolate")
    return rdp[()]


def _check(
    sensitivity: ArrayLike, noise_scale: ArrayLike, q: ArrayLike, order: ArrayLike, relation: str, fractional: str
) -> None:
    """Raise unless all arguments of `sampled_gaussian_rdp` are in their ranges."""
    values = np.asarray(sensitivity, float)
    require(np.isfinite(values) & (values >= 0), f"sensitivity must be a finite number of at least 0, got {values}.")
    require_positive("noise_scale", noise_scale)
    require_probability("sampling_probability", q, closed=True)
    orders = np.asarray(order, float)
    require(np.isfinite(orders) & (orders > 1), f"order must be a finite number above 1, got {orders}.")
    if relation not in RELATIONS:
        raise unknown_name("relation", relation, RELATIONS)
    if fractional not in get_args(FractionalOrders):
        raise unknown_name("fractional_orders", fractional, get_args(FractionalOrders))


def _inner_rdp(c: np.ndarray, q: np.ndarray, alpha: np.ndarray, replace: bool, interpolate: bool) -> np.ndarray:
    """Return the divergence for flat arrays with 0 < q < 1 and c > 0, rounded up."""
    if interpolate:
        floor = np.floor(alpha)
        part = alpha - floor
        # (α−1)·D_α is convex in α, and 0 at α = 1
        log_a = (1 - part) * _log_moment(c, q, floor, replace) + part * _log_moment(c, q, floor + 1, replace)
    else:
        log_a = _log_moment(c, q, alpha, replace)
    rounding = 8 * np.finfo(float).eps * (alpha * (np.log(alpha) - np.log(q) + 2) + alpha / (alpha - 1))
    divergence: np.ndarray = log_a / (alpha - 1) * (1 + rounding)
    return divergence


def _log_moment(c: np.ndarray, q: np.ndarray, alpha: np.ndarray, replace: bool) -> np.ndarray:
    """Return log A = (α−1)·D_α from log(A − 1), which keeps the digits of a small divergence."""
    excess = np.full(c.shape, -np.inf)  # A = 1 at order 1
    summed = (alpha == np.floor(alpha)) & (alpha > 1) & (not replace)
    if summed.any():
        excess[summed] = _log_excess_at_integers(c[summed], q[summed], alpha[summed])
    integrated = (alpha > 1) & ~summed
    if integrated.any():
        excess[integrated] = log_excess(c[integrated], q[integrated], alpha[integrated], replace)
    log_moment: np.ndarray = np.logaddexp(0.0, excess)
    return log_moment


def _log_excess_at_integers(c: np.ndarray, q: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return log(A − 1) at integer orders, order by order and in blocks that stay in the cache."""
    result = np.empty(c.shape)
    by_order = np.argsort(alpha, kind="stable")
    orders, starts = np.unique(alpha[by_order], return_index=True)
    for order, members in zip(orders.astype(int), np.split(by_order, starts[1:]), strict=True):
        for block in np.array_split(members, max(1, members.size * order // _BLOCK)):
            result[block] = _log_excess_at(order, c[block], q[block])
    return result


def _log_excess_at(order: int, c: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return log Σ_{k=2}^α C(α, k)(1−q)^(α−k) q^k (e^(ck(k−1)/2) − 1): the binomial weights' own sum, 1, is out."""
    k = np.arange(2, order + 1)[:, None]
    log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    exponent = (k * (k - 1) / 2) * c
    terms = k * np.log(q) + (order - k) * np.log1p(-q)
    terms += log_binomial
    terms += exponent
    largest = terms.max(axis=0)
    terms -= largest
    with np.errstate(under="ignore"):
        total = -(np.exp(terms, out=terms) * np.expm1(-exponent)).sum(axis=0)
    with np.errstate(divide="ignore"):
        log_excess: np.ndarray = largest + np.log(total)
        return log_excess
