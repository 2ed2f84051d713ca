"""One step of DP-SGD as one person sees it: the Rényi divergence of their own gradient, and an (epsilon, delta)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from seedscope.accounting import gaussian_epsilon, sampled_gaussian_rdp
from seedscope.core import require, require_positive, require_probability

SAFE = 1e-12  # relative; above the rounding of the evaluations here, so that results are on the safe side


def clipped(norms: ArrayLike, clipping_norm: float) -> np.ndarray:
    """Return the sensitivities: gradient norms after clipping, as float64.

    >>> clipped([0.2, 3.0], clipping_norm=1.0).tolist()
    [0.2, 1.0]
    """
    require_positive("clipping_norm", clipping_norm)
    values = np.asarray(norms, float)
    require(values >= 0, "gradient norms must be at least 0 and not NaN.")
    shortened: np.ndarray = np.minimum(values, clipping_norm)
    return shortened


def step_rdp(
    sensitivities: ArrayLike, noise_scale: ArrayLike, sampling_probability: ArrayLike, order: ArrayLike
) -> np.ndarray:
    """Return the Rényi divergence of one step, sum rule, for a clipped gradient of norm s; it holds in both directions.

    All arguments broadcast; the noise's standard deviation is in the units of the sensitivities. Rounded up.

    >>> step_rdp([0.1, 1.0], noise_scale=1.0, sampling_probability=0.01, order=8).round(7).tolist()
    [4e-06, 0.0008936]

    GLA Theorem 3.2; fractional orders by integration.
    """
    return sampled_gaussian_rdp(sensitivities, noise_scale, sampling_probability, order)


def step_share(
    sensitivities: ArrayLike,
    clipping_norm: float,
    noise_multiplier: ArrayLike,
    sampling_probability: ArrayLike,
    order: ArrayLike,
) -> np.ndarray:
    """Return a step's divergence as a fraction of the data-independent one, which is 1 at the clipping norm.

    >>> step_share([0.1, 1.0, 2.0], 1.0, 1.0, 0.01, order=8).round(5).tolist()
    [0.0045, 1.0, 1.0]

    GLA Figures 1–3.
    """
    s = clipped(sensitivities, clipping_norm) / clipping_norm
    baseline = sampled_gaussian_rdp(1.0, noise_multiplier, sampling_probability, order)
    require(baseline > 0, "a share needs a data-independent divergence above 0, so sampling_probability above 0.")
    share: np.ndarray = sampled_gaussian_rdp(s, noise_multiplier, sampling_probability, order) / baseline
    return share


def step_epsilon(
    sensitivities: ArrayLike,
    noise_scale: float,
    sampling_probability: float,
    delta: float,
    holder: float = 1e4,
) -> np.ndarray:
    """Return ε' with P(trained with x*) ≤ e^ε' P(without) + δ for one step of any update rule.

    An estimate, of one direction.

    `a = q·(E e^(p·ε_G(s)))^(1/p)` and `ε' = ln(a^(p/(p−1))·(δ/2)^(−1/(p−1)) + 1 − q)`, with ε_G(s) the exact epsilon of
    the Gaussian mechanism with sensitivity s at `δ/2q`. The expectation is over the batches that x* is added to.

    Args:
        sensitivities: how far adding x* to a batch moves the update, the last axis over sampled batches; for the sum
            rule the norm of its clipped gradient, a single number. In the units of the noise.
        noise_scale: standard deviation of the noise on the update.
        sampling_probability: q in (0, 1].
        delta: of the result, in (0, 1).
        holder: the Hölder constant p > 1; larger is nearer to the worst batch.

    >>> float(step_epsilon(1.0, 1.0, 1.0, 1e-5).round(3)), float(step_epsilon([0.0, 0.1], 1.0, 0.01, 1e-5).round(4))
    (4.538, 0.0025)

    GLA Corollary 3.1, with the analytic Gaussian epsilon in place of the classical one.
    """
    q, p = sampling_probability, holder
    _check_step(q, delta, p)
    s = np.atleast_1d(np.asarray(sensitivities, float))
    epsilons = _gaussian_epsilon(s, noise_scale, delta / (2 * q))
    log_a = np.log(q) + (logsumexp(p * epsilons, axis=-1) - np.log(s.shape[-1])) / p
    log_first = (p * log_a - np.log(delta / 2)) / (p - 1)
    return _log_mixture(log_first, q)


def step_epsilon_worst(
    clipping_norm: float, noise_scale: float, sampling_probability: float, delta: float
) -> np.ndarray:
    """Return the data-independent counterpart of `step_epsilon`: ln(q·e^ε_G(C) + 1 − q), ε_G at δ/q (GLA B.1)."""
    _check_step(sampling_probability, delta, 2.0)
    largest = _gaussian_epsilon(np.asarray(clipping_norm, float), noise_scale, delta / sampling_probability)
    return _log_mixture(np.log(sampling_probability) + largest, sampling_probability)


def _check_step(q: float, delta: float, holder: float) -> None:
    """Raise unless the arguments of a step's epsilon are in their ranges."""
    require_probability("sampling_probability", q, closed=True)
    require(q > 0, "sampling_probability must be above 0.")
    require_probability("delta", delta)
    require(1 < holder < np.inf, f"holder must be a finite number above 1, got {holder}.")


def _gaussian_epsilon(s: np.ndarray, noise_scale: float, delta: float) -> np.ndarray:
    """Return the exact Gaussian epsilon; at a delta of 1 or more nothing needs hiding."""
    return np.zeros(s.shape) if delta >= 1 else np.asarray(gaussian_epsilon(s, noise_scale, delta))


def _log_mixture(log_first: np.ndarray, q: float) -> np.ndarray:
    """Return max(0, ln(e^log_first + 1 − q)), rounded up."""
    with np.errstate(divide="ignore"):
        epsilon = np.logaddexp(log_first, np.log1p(-q))
    upper: np.ndarray = np.maximum(epsilon + SAFE * (1 + np.abs(log_first)), 0.0)[()]
    return upper
