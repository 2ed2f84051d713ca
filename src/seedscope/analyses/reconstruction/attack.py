"""The informed adversary against a linear model: everything but one record is known, and the record is solved for.

At the minimiser of the regularised log-loss the gradient vanishes, so what all other records and the penalty leave of
it is minus the unknown record's own part, −r z̃, and z̃ has a 1 in the bias column: dividing by that entry gives z̃,
exactly. Noise on the weights spoils it. With `v = Σ_j r_j x̃_j + Nλw`, which is 0 at the minimiser, the guess is
`ẑ = (v − r_z z̃)/(v_0 − r_z)` and misses by `(v − v_0 z̃)/(v_0 − r_z)`: the errors of all records in many trials are a
few matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.analyses.reconstruction.regression import Regression
from seedscope.core import SeedscopeError, require, require_count

_BLOCK_VALUES = 1 << 21  # trials × records worked on together
_HUGE = 3e38  # nearly the largest float32


@dataclass(frozen=True, eq=False)
class AttackErrors:
    """Squared errors per private coordinate of the attack on every record, over trials, [record].

    The guess is a ratio whose denominator can be near 0: its expectation is infinite and `mean` is only what these
    trials gave. `median` is stable, and so is `clipped`: the mean after each trial's error is cut at the error of the
    worst point of the box of possible records. (An attacker who moves the guess into the box does at least as well.)
    """

    mean: np.ndarray
    median: np.ndarray
    clipped: np.ndarray
    trials: int


def attack_errors(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    l2: ArrayLike,
    noise_scale: float,
    trials: int,
    seed: int | np.random.Generator = 0,
    private: ArrayLike | None = None,
    box: tuple[ArrayLike, ArrayLike] | None = None,
) -> AttackErrors:
    """Return how well the informed adversary reconstructs each record, over trials with fresh noise on the weights.

    The label of the record is known to the adversary. Products are in float32, of differences from the minimiser, which
    keeps about five digits of every error at any noise.

    Args:
        features: all training records, [record, feature]; images are flattened.
        labels: 0 or 1.
        weights: the minimiser without noise, its last entry the bias: without one the attack does not exist.
        l2: the regularisation λ of the mean loss, bias included; a number, or one per weight.
        noise_scale: standard deviation of the noise on the weights; 0 gives the exact record.
        trials: how often noise is drawn; the same noise serves all records.
        seed: of the noise.
        private: the columns that are reconstructed and whose errors count; default all.
        box: least and largest possible value of each private column; default the least and largest that occur.

    >>> features, labels = np.array([[0.1], [0.3], [0.2], [0.9]]), [0, 0, 1, 1]
    >>> weights = [0.65342416, -0.17400583]                            # the minimiser
    >>> attack_errors(features, labels, weights, 0.1, 0.0, trials=1).mean.round(6)
    array([0., 0., 0., 0.])

    Balle, Cherubin & Hayes 2022, "Reconstructing training data with informed adversaries", §III, with the label given.
    """
    regression, bias = _with_bias(features, labels, weights, l2, private)
    require(0 <= noise_scale < np.inf, f"noise_scale must be a finite number of at least 0, got {noise_scale}.")
    require_count("trials", trials)
    noise = noise_scale * np.random.default_rng(seed).standard_normal((trials, len(regression.weights)), np.float32)
    farthest = _farthest(regression, box)
    blocks = [_block_errors(errors, farthest[where]) for where, errors in _errors(regression, bias, noise)]
    mean, median, clipped = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return AttackErrors(mean, median, clipped, trials)


def attack_reconstructions(
    features: ArrayLike, labels: ArrayLike, released: ArrayLike, l2: ArrayLike, records: ArrayLike
) -> np.ndarray:
    """Return the informed adversary's guesses of some records from one released model, [record, feature].

    Args:
        features: all training records; the guess of a record does not use its own.
        labels: 0 or 1, all of them known.
        released: the released weights, the last one the bias.
        l2: the regularisation.
        records: which ones to reconstruct.

    Balle, Cherubin & Hayes 2022, §III.
    """
    regression, bias = _with_bias(features, labels, released, l2, None)
    chosen = np.atleast_1d(np.asarray(records))
    residuals = regression.residuals()
    left = residuals @ regression.rows + len(regression.rows) * regression.penalty * regression.weights
    of_others = left - residuals[chosen, None] * regression.rows[chosen]
    with np.errstate(divide="ignore", invalid="ignore"):
        guesses: np.ndarray = (of_others / of_others[:, [bias]])[:, regression.private]
        return guesses


def _with_bias(
    features: ArrayLike, labels: ArrayLike, weights: ArrayLike, l2: ArrayLike, private: ArrayLike | None
) -> tuple[Regression, int]:
    """Return the regression and the place of its bias: the last weight, or a column of ones among the features."""
    regression = Regression.of(features, labels, weights, l2, private)
    ones = np.flatnonzero((regression.rows == 1).all(axis=0))
    if len(ones) == 0:
        raise SeedscopeError(
            "the attack needs a bias column: it divides by the bias entry of the gradient; give weights with the bias "
            f"as last entry ({regression.rows.shape[1] + 1} in all), or features with a column of ones."
        )
    return regression, int(ones[-1])


def _errors(regression: Regression, bias: int, noise: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield blocks of records with their squared errors [trial, record] per private coordinate."""
    rows, residuals = regression.rows.astype(np.float32), regression.residuals()
    bends, scores = regression.curvatures().astype(np.float32), regression.scores().astype(np.float32)
    size = max(1, _BLOCK_VALUES // len(noise))
    blocks = [slice(start, start + size) for start in range(0, len(rows), size)]

    def moved(where: slice) -> np.ndarray:
        """Return r(w + noise) − r(w) [trial, record], to float32's relative accuracy: s(1−s)E/(1+sE), E = e^δ − 1."""
        grown = np.expm1(np.minimum(noise @ rows[where].T, np.float32(80)))
        bottom = scores[where] * grown
        bottom += 1
        grown *= bends[where]
        grown /= bottom
        return grown

    v = len(rows) * (noise * regression.penalty + regression.gradient())
    v = v.astype(np.float32)
    for where in blocks:
        v += moved(where) @ rows[where]
    known, at_bias = v[:, regression.private], v[:, bias, None]
    own = np.einsum("tj,tj->t", known, known)[:, None]
    for where in blocks:
        z = rows[where][:, regression.private]
        missed = known @ z.T
        missed *= -2 * at_bias
        missed += own
        missed += at_bias**2 * np.einsum("ij,ij->i", z, z)
        bottom = at_bias - moved(where) - residuals[where].astype(np.float32)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            missed /= bottom**2 * len(regression.private)
        yield where, np.clip(np.nan_to_num(missed, nan=_HUGE, posinf=_HUGE), 0, _HUGE)


def _block_errors(errors: np.ndarray, farthest: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, median and clipped mean over trials of errors [trial, record]."""
    by_record = np.ascontiguousarray(errors.T)
    mean, clipped = (
        by_record.mean(axis=1, dtype=float),
        np.minimum(by_record, farthest[:, None]).mean(axis=1, dtype=float),
    )
    return mean, np.median(by_record, axis=1, overwrite_input=True).astype(float), clipped


def _farthest(regression: Regression, box: tuple[ArrayLike, ArrayLike] | None) -> np.ndarray:
    """Return each record's squared distance per coordinate from the farthest corner of the box."""
    z = regression.rows[:, regression.private]
    low, high = (z.min(axis=0), z.max(axis=0)) if box is None else (np.asarray(end, float) for end in box)
    require(np.all(z >= low) and np.all(z <= high), "box must contain every record; give wider ends.")
    farthest: np.ndarray = (np.maximum(z - low, high - z) ** 2).mean(axis=1).astype(np.float32)
    return farthest
