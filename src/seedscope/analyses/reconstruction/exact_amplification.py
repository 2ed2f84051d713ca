"""The factor κ of random batches, exactly: a one-dimensional integral, without an ε and without a δ.

Reveal a step's other members of the batch; that can only add information (Fisher information is convex). What is left
of the step is `y ~ (1−q)N(g₀, σ²) + qN(g, σ²)`: g the record's clipped gradient, and g₀ = 0 (Poisson), or the gradient
of the record that would have taken its place (a subset of fixed size). With t = (y − g)/σ, s = ‖g − g₀‖/σ and the
chance that the batch held the record, given what is seen,

    w(t) = q/(q + (1−q)e^(−st − s²/2)),

the score is w·tᵀJ/σ, J = ∂g/∂z, and the step's information `q·Jᵀ E[w t tᵀ] J/σ²`, t ~ N(0, 1). Across g − g₀ the matrix
E[w t tᵀ] is B(s) = E w, along it A(s) = E t²w; q·JᵀJ/σ² is what the steps that hold the record sum up to without
amplification. So **κ(s) = max(A(s), B(s))**, reached by a Jacobian in the one or the other direction.

κ grows with s, so that its largest value is at the largest shift. With u = w(1−w), Stein's identity gives
B' = 2s·E[u(1−w)] ≥ 0,  A − B = s²·E[u(1−2w)]  and  A' = 2s·E[u(1−w)(1+t²) − u·w]. Where A ≥ B the second says
E[u(1−w)] ≥ E[u·w], and then A' ≥ 2s·E[u(1−w)t²] ≥ 0: the larger of the two never falls.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import SMOOTH_CLIPPING_BOUND
from seedscope.core import require, require_positive, require_probability

_REACH = 13.0  # standard deviations; what lies beyond weighs less than 1e-35
_FAR = 60.0  # a shift from which on κ counts as 1: a batch with the record is told from one without
_UP = 1 + 1e-12  # more than what the trapezoidal rule and its rounding miss


def amplification_exact(
    sampling_probability: ArrayLike,
    noise_multiplier: ArrayLike,
    subset: bool = False,
    norm: ArrayLike = SMOOTH_CLIPPING_BOUND,
) -> np.ndarray:
    """Return the exact factor κ: how much of the information of a run's steps is left when batches are drawn at random.

    No κ for all records of clipped gradients is smaller; rounded up. *Proved*.

    Args:
        sampling_probability: the chance q of a record to be in a batch; all numbers broadcast.
        noise_multiplier: noise standard deviation over the clipping norm C, of smoothly clipped gradients.
        subset: batches are fresh uniform subsets of fixed size instead of Poisson batches. Shuffled epochs have no κ.
        norm: the record's largest clipped gradient norm over C; by default the largest that any record can have. A
            record's own recorded norm gives its own, smaller κ.

    >>> amplification_exact(0.01, [0.5, 1.0, 2.0, 5.0]).round(4)
    array([0.3712, 0.0625, 0.0175, 0.011 ])
    >>> float(amplification_exact(0.01, 1.0, norm=0.2).round(4))           # a record whose gradients are small
    0.0108

    Sharpens BR Theorem 4; proof in the module and in docs/reconstruction.md.
    """
    require_probability("sampling_probability", sampling_probability, closed=True)
    require_positive("noise_multiplier", noise_multiplier)
    lengths = np.asarray(norm, float)
    within = np.isfinite(lengths) & (lengths >= 0) & (lengths <= SMOOTH_CLIPPING_BOUND)
    require(within, f"norm must be between 0 and {SMOOTH_CLIPPING_BOUND}, in units of the clipping norm, got {norm!r}.")
    shifts = (lengths + subset * SMOOTH_CLIPPING_BOUND) / np.asarray(noise_multiplier, float)
    q, s = np.broadcast_arrays(np.asarray(sampling_probability, float), shifts)
    factors = [_factor(*pair) for pair in zip(q.ravel().tolist(), s.ravel().tolist(), strict=True)]
    return np.reshape(factors, q.shape)[()]


def _factor(q: float, s: float) -> float:
    """Return κ(s) by the trapezoidal rule, whose error falls like e^(−2π²/(s·step)): the nearest pole is π/s away."""
    if q in (0.0, 1.0) or s >= _FAR:
        return 1.0 if q else 0.0
    step = min(0.2, 0.4 / s) if s else 0.2
    t = np.arange(-_REACH, _REACH + step, step)
    with np.errstate(over="ignore"):
        chances = q / (q + (1 - q) * np.exp(-s * t - s * s / 2))
    weights = np.exp(-t * t / 2) * step / np.sqrt(2 * np.pi)
    return min(1.0, _UP * float(max(weights @ chances, weights @ (t * t * chances))))
