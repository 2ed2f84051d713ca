"""How much of a step's Fisher information is left when batches are drawn at random: the factor κ.

The information of a whole run about a record is at most κ times the sum, over the steps whose batch holds it, of
`‖∂g̃/∂z‖²/(σC)²`, averaged over runs. Four factors, each with its name:

    none       κ = 1, proved: convexity of Fisher information (BR Theorem 4, first form)
    exact      the smallest proved one (`exact_amplification`)
    proved     a looser proved form, closest to BR's own, below
    estimate   BR's q/(q + (1−q)e^(−ε)), which is proved for pure ε only, while Gaussian noise has none

The amplified form. Let p₁ be the step's density given that the batch holds z and p₀ given that it does not. Outside
of E = {p₀ < e^(−ε') p₁} the mixture's information is at most q/(q + (1−q)e^(−ε')) times E_B[I]. On E it is at most
E_B[I]·√(3·P₁(E)): Cauchy–Schwarz, since the score of a Gaussian has fourth moment 3·I² and conditioning cannot
raise it. And P₁(E) ≤ δ/(1 − e^(ε−ε')) for every (ε, δ) of the Gaussian mechanism between p₁ and p₀, ε < ε'.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import SMOOTH_CLIPPING_BOUND, classical_gaussian_epsilon, gaussian_delta, gaussian_epsilon
from seedscope.analyses.reconstruction.exact_amplification import amplification_exact
from seedscope.core import Number, require, require_positive, require_probability, unknown_name

Sampling = Literal["poisson", "subset"]
_PUBLISHED_BOUND = 1.115


def amplification_factors(
    noise_multiplier: float, sampling_probability: float, delta: float = 1e-5, sampling: Sampling = "poisson"
) -> dict[str, Number]:
    """Return the four factors κ by name, each with its kind.

    >>> {name: str(kappa) for name, kappa in amplification_factors(5.0, 0.01).items()}
    {'none': '1 (proved)', 'exact': '0.011 (proved)', 'proved': '0.03182 (proved)', 'estimate': '0.02237 (estimate)'}
    """
    exact = float(amplification_exact(sampling_probability, noise_multiplier, subset=sampling == "subset"))
    proved = float(amplification_proved(noise_multiplier, sampling_probability, sampling))
    estimate = float(amplification_estimate(noise_multiplier, sampling_probability, delta, sampling))
    return {
        "none": Number(1.0, "proved"),
        "exact": Number(exact, "proved"),
        "proved": Number(proved, "proved"),
        "estimate": Number(estimate, "estimate"),
    }


def amplification_proved(
    noise_multiplier: ArrayLike, sampling_probability: ArrayLike, sampling: Sampling = "poisson"
) -> np.ndarray:
    """Return the proved factor κ ≤ 1, minimised over ε', ε and δ.

    Args:
        noise_multiplier: noise standard deviation over the clipping norm C, of smoothly clipped gradients; broadcasts.
        sampling_probability: the chance q of a record to be in a batch.
        sampling: "poisson", or "subset" for a fresh uniform subset of fixed size each step. Shuffled epochs have none.

    >>> amplification_proved([1.0, 5.0, 20.0], 0.01).round(3)
    array([0.43 , 0.032, 0.014])

    BR Theorem 4, second form, extended from pure ε to the Gaussian mechanism.
    """
    noise, q = np.broadcast_arrays(*_checked(noise_multiplier, sampling_probability, sampling))
    shift = _shift(sampling) * SMOOTH_CLIPPING_BOUND
    factors = [
        _least_factor(shift / noise_multiple, rate)
        for noise_multiple, rate in zip(noise.ravel(), q.ravel(), strict=True)
    ]
    return np.reshape(factors, noise.shape)[()]


def amplification_estimate(
    noise_multiplier: ArrayLike,
    sampling_probability: ArrayLike,
    delta: ArrayLike,
    sampling: Sampling = "poisson",
    classical: bool = False,
) -> np.ndarray:
    """Return BR's factor q/(q + (1−q)e^(−ε)), an estimate: it ignores that ε fails with probability δ.

    Args:
        noise_multiplier: as in `amplification_proved`; all numbers broadcast.
        sampling_probability: q.
        delta: at which ε is taken.
        sampling: "poisson" or "subset".
        classical: the paper's own `2·1.115·√(2 ln(1.25/δ))/σ` instead of the exact ε of the Gaussian mechanism.

    >>> float(amplification_estimate(5.0, 0.01, 1e-5, "subset", classical=True).round(4))
    0.0806

    BR Theorem 4 and Algorithm 1.
    """
    noise, q = _checked(noise_multiplier, sampling_probability, sampling)
    norm = _PUBLISHED_BOUND if classical else SMOOTH_CLIPPING_BOUND
    epsilon_of = classical_gaussian_epsilon if classical else gaussian_epsilon
    return _share(q, epsilon_of(_shift(sampling) * norm, noise, delta))


def _least_factor(ratio: float, q: float) -> float:
    """Return the least κ over grids of ε and ε' − ε, refined once; every point of a grid is a proved factor."""
    if q in (0.0, 1.0):
        return 1.0
    log_top = np.log(gaussian_epsilon(ratio, 1.0, 1e-40) + 1e-12)
    epsilons, gaps = np.linspace(log_top - 12, log_top, 240), np.linspace(-9, 4, 120)
    best = 1.0
    for _ in range(2):
        factors = _factor(ratio, q, np.exp(epsilons)[:, None], np.exp(gaps))
        i, j = (int(place) for place in np.unravel_index(factors.argmin(), factors.shape))
        best = min(best, float(factors[i, j]))
        epsilons, gaps = _around(epsilons, i), _around(gaps, j)
    return best


def _factor(ratio: float, q: float, epsilon: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Return q/(q + (1−q)e^(−ε')) + √(3δ/(1 − e^(ε−ε'))), ε' = ε + gap."""
    factor: np.ndarray = _share(q, epsilon + gap) + np.sqrt(3 * gaussian_delta(ratio, 1.0, epsilon) / -np.expm1(-gap))
    return factor


def _share(q: ArrayLike, epsilon: np.ndarray) -> np.ndarray:
    """Return q/(q + (1−q)e^(−ε)), rounded up."""
    with np.errstate(under="ignore"):
        return np.where(np.asarray(q) == 0, 1.0, q / (q + (1 - np.asarray(q)) * np.exp(-epsilon)) * (1 + 1e-14))[()]


def _around(grid: np.ndarray, index: int) -> np.ndarray:
    """Return a finer grid between the neighbours of a grid point."""
    return np.linspace(grid[max(0, index - 1)], grid[min(len(grid) - 1, index + 1)], len(grid))


def _shift(sampling: Sampling) -> int:
    """Return how many gradients differ between a batch with the record and one without."""
    return 1 if sampling == "poisson" else 2


def _checked(noise: ArrayLike, q: ArrayLike, sampling: str) -> tuple[np.ndarray, np.ndarray]:
    """Return noise and rate as arrays after checking them."""
    if sampling not in get_args(Sampling):
        raise unknown_name("sampling", sampling, get_args(Sampling))
    require_positive("noise_multiplier", noise)
    require_probability("sampling_probability", q, closed=True)
    require(np.size(noise) > 0 and np.size(q) > 0, "noise_multiplier and sampling_probability must not be empty.")
    return np.asarray(noise, float), np.asarray(q, float)
