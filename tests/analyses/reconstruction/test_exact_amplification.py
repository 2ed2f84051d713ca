"""The exact factor κ: against the information of a sampled step by brute force in two dimensions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import seedscope as ss
from seedscope.core import SeedscopeError

rc = ss.reconstruction
SETTINGS = [(q, noise) for q in (0.001, 0.01, 0.1, 0.5, 0.9) for noise in (0.4, 1.0, 2.5, 10.0)]


@cache
def legendre() -> tuple[np.ndarray, np.ndarray]:
    """Return the places and weights of the quadrature, which take longer than a setting."""
    places, weights = np.polynomial.legendre.leggauss(400)
    return places, weights


def brute_force(q: float, noise: float, shift: float) -> float:
    """Return the largest eigenvalue of a step's information over that of the steps that hold the record: by quadrature.

    y in the plane is N(0, σ²) or, with chance q, N(z, σ²), z = (shift, 0): information about z itself.
    """
    points, weights = legendre()
    low, high = -12 * noise, shift + 12 * noise
    x, wx = (low + high) / 2 + (high - low) / 2 * points, (high - low) / 2 * weights
    y, wy = 12 * noise * points, 12 * noise * weights

    def density(at: float) -> np.ndarray:
        square = (x[:, None] - at) ** 2 + y[None, :] ** 2
        found: np.ndarray = np.exp(-square / (2 * noise**2)) / (2 * np.pi * noise**2)
        return found

    held, whole = q * density(shift), q * density(shift) + (1 - q) * density(0.0)
    scores = np.stack(
        [np.broadcast_to((x[:, None] - shift) / noise**2, held.shape), np.broadcast_to(y / noise**2, held.shape)]
    )
    kernel = np.divide(held**2, whole, out=np.zeros_like(whole), where=whole > 0) * wx[:, None] * wy
    information = (scores * kernel).reshape(2, -1) @ scores.reshape(2, -1).T
    return float(np.linalg.eigvalsh(information)[-1] / (q / noise**2))


@pytest.mark.parametrize(("q", "noise"), SETTINGS)
def test_factor_is_the_information_of_a_sampled_step_and_never_below_it(q: float, noise: float) -> None:
    true = brute_force(q, noise, rc.SMOOTH_CLIPPING_BOUND)
    kappa = float(rc.amplification_exact(q, noise))
    assert kappa >= true * (1 - 1e-10)
    assert kappa == pytest.approx(true, rel=1e-8)


def test_no_smaller_shift_reveals_more() -> None:
    """The factor grows with the record's norm, also where the information along the shift alone falls (q > 2/3)."""
    norms = np.linspace(0, rc.SMOOTH_CLIPPING_BOUND, 60)
    for q, noise in [(0.01, 0.3), (0.3, 1.0), (0.8, 0.5), (0.99, 0.2)]:
        assert np.all(np.diff(rc.amplification_exact(q, noise, norm=norms)) >= -1e-12)


def test_known_values_and_limits() -> None:
    np.testing.assert_allclose(
        rc.amplification_exact(0.01, [0.5, 1.0, 2.0, 5.0]), [0.371, 0.0625, 0.0175, 0.0110], atol=5e-4
    )
    assert rc.amplification_exact(0.004, 1.0) == pytest.approx(0.0281, abs=5e-5)
    assert rc.amplification_exact(0.3, 1.0, norm=0.0) == pytest.approx(0.3)  # who never pulls is hidden by the rate
    assert rc.amplification_exact(0.01, 1e-3) == 1  # no noise: the batch is seen
    assert rc.amplification_exact([0.0, 1.0], 1.0).tolist() == [0.0, 1.0]
    assert rc.amplification_exact(0.01, 2.0, subset=True) == rc.amplification_exact(0.01, 1.0)


def test_factor_is_below_every_other_proved_one() -> None:
    noises, rates = np.array([0.5, 1.0, 3.0, 20.0])[:, None], np.array([0.002, 0.05, 0.4])
    exact = rc.amplification_exact(rates, noises)
    assert np.all(exact <= rc.amplification_proved(noises, rates))
    assert np.all(exact >= rates)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1.5, 1.0, 1.0), "sampling_probability must be in"),
        ((0.1, 0.0, 1.0), "noise_multiplier must be"),
        ((0.1, 1.0, 1.2), "norm must be between 0 and 1.1153"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: tuple[float, float, float], words: str) -> None:
    with pytest.raises(SeedscopeError, match=words):
        rc.amplification_exact(arguments[0], arguments[1], norm=arguments[2])
