"""Where the seed's noise comes from: the initial point that training has not yet forgotten, or the order of batches.

Neither paper looks: the noise of logistic regression is mostly what is left of the *initial point*, which is uniform
and has no tails, while δ lives in the tails. The true law, a known uniform one through a linear map plus a
Gaussian, gives the exact ε of one direction, which a Gaussian of the same size only guesses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.intrinsic.normality import shapiro_wilk
from seedscope.core import require, require_positive, require_probability

CELLS = 16  # of a density's grid in one deviation of the Gaussian part, at least
FEWEST, MOST = 1 << 14, 1 << 22  # points of that grid
REACH = 12.0  # deviations of Gaussian noise that the grid covers on each side
LARGEST_EPSILON = 30.0  # beyond it a density's rounding would decide


@dataclass(frozen=True, eq=False)
class NoiseOrigin:
    """What of the seed's noise is the initial point's; deviations are pooled over weights.

    `correlation` (of final with initial) and `excess_kurtosis` are the median weight's.
    `final = offset + map · initial + residual` is fitted by least squares; `map` is [parameter, parameter]. Shares of
    weights are those that Shapiro–Wilk rejects as Gaussian at 5 % for all together (Bonferroni).
    """

    deviation_varied: float
    deviation_fixed: float
    share_of_initial_point: float
    correlation: float
    excess_kurtosis: float
    rejected_share: float
    map: np.ndarray
    residual_covariance: np.ndarray
    residual_deviation: float
    residual_rejected_share: float


def noise_origin(initial: ArrayLike, final_varied: ArrayLike, final_fixed: ArrayLike) -> NoiseOrigin:
    """Return how much of the spread over seeds is the initial point's, and how much the order of batches makes.

    Args:
        initial: [seed, parameter], the initial points; weights that begin at one value for all are fine.
        final_varied: [seed, parameter], the weights that came of them.
        final_fixed: [seed, parameter], the weights of models that all began at one point.

    >>> rng = np.random.default_rng(0)
    >>> start, order = rng.uniform(-1, 1, size=(300, 2)), 0.1 * rng.normal(size=(2, 300, 2))
    >>> found = noise_origin(start, start + order[0], order[1])
    >>> round(found.share_of_initial_point, 2), round(found.residual_deviation, 1)
    (0.97, 0.1)
    """
    first, varied = _weights("initial", initial), _weights("final_varied", final_varied)
    fixed = _weights("final_fixed", final_fixed)
    require(first.shape == varied.shape, f"initial and final_varied must match, got {first.shape} and {varied.shape}.")
    moving = np.ptp(first, axis=0) > 0
    enough = len(first) > moving.sum() + 3
    require(enough, f"a linear map of {moving.sum()} initial weights needs more seeds than that, got {len(first)}.")
    starts, ends = first - first.mean(axis=0), varied - varied.mean(axis=0)
    fitted, *_ = np.linalg.lstsq(starts[:, moving], ends, rcond=None)
    linear = np.zeros((varied.shape[1], first.shape[1]))
    linear[:, moving] = fitted.T
    residual = ends - starts @ linear.T
    freedom = len(first) - 1 - int(moving.sum())
    covariance = residual.T @ residual / freedom
    return NoiseOrigin(
        deviation_varied=_pooled(varied),
        deviation_fixed=_pooled(fixed),
        share_of_initial_point=1 - (_pooled(fixed) / _pooled(varied)) ** 2,
        correlation=float(np.median([np.corrcoef(first[:, j], varied[:, j])[0, 1] for j in np.flatnonzero(moving)])),
        excess_kurtosis=float(np.median((ends**4).mean(axis=0) / (ends**2).mean(axis=0) ** 2 - 3)),
        rejected_share=shapiro_wilk(varied).rejected_share,
        map=linear,
        residual_covariance=covariance,
        residual_deviation=float(np.sqrt(np.trace(covariance) / len(covariance))),
        residual_rejected_share=shapiro_wilk(residual).rejected_share,
    )


def _weights(name: str, values: ArrayLike) -> np.ndarray:
    """Return weights as float64, [seed, parameter], finite."""
    array = np.asarray(values, float)
    require(array.ndim == 2, f"{name} must have the axes [seed, parameter], got the shape {array.shape}.")
    require(np.isfinite(array), f"{name} must be finite; leave out diverged runs first.")
    return array


def _pooled(rows: np.ndarray) -> float:
    """Return the standard deviation over seeds, pooled over weights."""
    return float(np.sqrt(rows.var(axis=0).mean()))


def uniform_and_gaussian_epsilon(shift: float, half_widths: ArrayLike, noise_scale: float, delta: float) -> float:
    """Return the exact ε at δ of a number that gets uniform and Gaussian noise and that a person shifts.

    The law of one direction of convex SGD's weights: Σ_j U(−h_j, h_j), the initial point through a linear map, plus
    N(0, σ²). Its density comes from the product of the characteristic functions by one FFT; then the smallest ε with
    `∫(p(x) − e^ε p(x − shift))₊ dx ≤ δ`, both ways alike because the law is symmetric.

    Args:
        shift: of the person.
        half_widths: [term] of the uniform parts; none leaves the Gaussian mechanism.
        noise_scale: of the Gaussian part, above 0.
        delta: in (0, 1); below 1e-11 rounding decides, and it is refused. An ε above 30 is infinite, for that reason.

    >>> round(uniform_and_gaussian_epsilon(1.0, [], 1.0, 1e-5), 2)  # the Gaussian mechanism
    4.38
    >>> uniform_and_gaussian_epsilon(1.0, [50.0], 1.0, 0.05)  # among a hundred, one step is not seen
    0.0
    """
    require_positive("noise_scale", noise_scale)
    require_probability("delta", delta)
    require(delta >= 1e-11, f"delta must be at least 1e-11 here, got {delta:g}: rounding decides below.")
    widths = np.abs(np.asarray(half_widths, float).ravel())
    move = abs(float(shift))
    with_person, without = _densities(move, widths, noise_scale)

    def excess(epsilon: float) -> float:
        return float(np.maximum(0.0, with_person - np.exp(epsilon) * without).sum())

    low, high = 0.0, LARGEST_EPSILON
    if excess(low) <= delta:
        return 0.0
    if excess(high) > delta:
        return float("inf")
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return high


def epsilon_by_true_law(shifts: ArrayLike, origin: NoiseOrigin, half_widths: ArrayLike, delta: float) -> np.ndarray:
    """Return each person's ε at δ by the noise's true law along one direction: a *lower* side of their ε.

    The direction is the one that would show them best were the noise Gaussian. What other directions and combinations
    of them show in addition is not counted: noise without tails can be told by single weights that are too large.

    Args:
        shifts: [person, parameter], what each person's record moves the weights by in the mean over seeds.
        origin: where the noise comes from, of the same training.
        half_widths: [parameter] of the uniform initial law, 0 for weights that begin at one value.
        delta: as in `uniform_and_gaussian_epsilon`.

    >>> rng = np.random.default_rng(0)
    >>> start, order = rng.uniform(-1, 1, size=(300, 2)), 0.1 * rng.normal(size=(2, 300, 2))
    >>> found = noise_origin(start, start + order[0], order[1])
    >>> epsilon_by_true_law([[0.0, 0.0], [0.5, 0.0]], found, [1, 1], 1e-5).tolist()  # uniform noise has no tails
    [0.0, inf]
    """
    moved, widths = np.atleast_2d(np.asarray(shifts, float)), np.asarray(half_widths, float)
    covariance = (origin.map * (widths**2 / 3)) @ origin.map.T + origin.residual_covariance
    directions = np.linalg.solve(covariance, moved.T).T
    return np.array(
        [
            uniform_and_gaussian_epsilon(
                along @ shift,
                np.abs(along @ origin.map) * widths,
                float(np.sqrt(along @ origin.residual_covariance @ along)),
                delta,
            )
            if shift.any()
            else 0.0
            for along, shift in zip(directions, moved, strict=True)
        ]
    )


def _densities(shift: float, widths: np.ndarray, noise_scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of a fine grid's cells, with and without the shift."""
    reach = 2 * (widths.sum() + REACH * noise_scale + shift)
    needed = CELLS * reach / noise_scale
    require(
        needed <= MOST,
        f"the uniform part must be at most some {MOST // (4 * CELLS):,} deviations of the Gaussian part wide, got "
        f"{widths.sum() / noise_scale:,.0f}.",
    )
    points = max(FEWEST, 1 << int(np.ceil(np.log2(needed))))
    frequencies = 2 * np.pi * np.fft.rfftfreq(points, reach / points)
    transformed = np.exp(-((noise_scale * frequencies) ** 2) / 2) * np.prod(
        np.sinc(np.outer(frequencies, widths) / np.pi), axis=1
    )
    centred = transformed * np.exp(-0.5j * frequencies * reach)
    laws = (np.fft.irfft(centred * np.exp(-1j * frequencies * move), points) for move in (shift / 2, -shift / 2))
    first, second = (np.maximum(0.0, law) for law in laws)
    return first / first.sum(), second / second.sum()
