"""The replace-one order-2 Rényi divergence ε₂ of each mechanism: what `rdp_error_lower` needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting.sampled_gaussian import sampled_gaussian_rdp
from seedscope.core import require, require_positive

# A smoothly clipped gradient g/(GELU(‖g‖/C − 1) + 1) has norm at most this many C: 1.1152189, rounded up; BR has 1.115.
SMOOTH_CLIPPING_BOUND = 1.1153


def pure_epsilon_rdp(epsilon: ArrayLike) -> np.ndarray:
    """Return the largest ε₂ that a pure ε guarantee allows, ln(2 cosh ε − 1), for instance of objective perturbation.

    >>> pure_epsilon_rdp([0.0, 1.0, 1000.0]).round(4)
    array([0.000e+00, 7.353e-01, 1.000e+03])

    Attained by randomised response; BR §4 has the larger ε itself.
    """
    e = np.asarray(epsilon, float)
    require(e >= 0, f"epsilon must be at least 0, got {epsilon!r}.")
    with np.errstate(under="ignore"):
        large = e + np.log1p(np.exp(-2 * e) - np.exp(-e))
    divergence: np.ndarray = np.where(e > 1, large, np.log1p(4 * np.sinh(np.minimum(e, 1) / 2) ** 2))[()]
    return divergence


def gaussian_rdp(sensitivity: ArrayLike, noise_scale: ArrayLike) -> np.ndarray:
    """Return ε₂ = (Δ/σ)² of a vector of replace-one sensitivity Δ that is released with noise N(0, σ² I).

    Output perturbation of a regularised minimiser has Δ = 2R/(Nλ), R a public bound on the rows' norm with bias.

    >>> float(gaussian_rdp(2 * 17.2 / (12_665 * 0.01), 0.01).round())
    738.0
    """
    return sampled_gaussian_rdp(sensitivity, noise_scale, 1.0, 2)  # sensitivity is already that of replacing


def dpsgd_rdp(
    noise_multiplier: ArrayLike, sampling_probability: ArrayLike, steps: ArrayLike, smooth_clipping: bool = False
) -> np.ndarray:
    """Return ε₂ of replacing one record in a whole run of DP-SGD with Poisson batches, an upper bound.

    Args:
        noise_multiplier: noise standard deviation over the clipping norm; all arguments broadcast.
        sampling_probability: the chance q of each record to be in a batch.
        steps: number of steps, over which the divergences are added.
        smooth_clipping: gradients were clipped smoothly, so that their norms reach 1.1153 C.

    >>> float(dpsgd_rdp(1.0, 0.01, 1000).round(5))
    0.45755
    """
    require(np.asarray(steps) >= 1, f"steps must be at least 1, got {steps!r}.")
    require_positive("noise_multiplier", noise_multiplier)
    norm = SMOOTH_CLIPPING_BOUND if smooth_clipping else 1.0
    step = sampled_gaussian_rdp(norm, noise_multiplier, sampling_probability, 2, "replace_one")
    divergence: np.ndarray = np.asarray(steps, float) * step
    return divergence
