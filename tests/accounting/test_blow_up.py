"""Reconstruction robustness: the largest chance of a right guess, against the Neyman–Pearson test done slowly."""

import math

import numpy as np
import pytest
import scipy.stats

import seedscope as ss
from seedscope.analyses import reconstruction as rc

PRIORS = np.array([1e-6, 1e-3, 0.1, 0.5, 0.9])


@pytest.mark.parametrize(("q", "noise"), [(0.01, 1.0), (0.3, 0.3), (0.7, 4.0)])
def test_one_step_is_the_neyman_pearson_test(q: float, noise: float) -> None:
    power = (1 - q) * PRIORS + q * scipy.stats.norm.sf(scipy.stats.norm.isf(PRIORS) - 1 / noise)
    found = rc.reconstruction_success_upper(PRIORS, noise, q)
    assert np.all(found >= power)
    np.testing.assert_allclose(found, power, rtol=2e-4, atol=2e-9)


@pytest.mark.parametrize("steps", [1, 30])
def test_sampling_everybody_is_the_gaussian_mechanism(steps: int) -> None:
    power = scipy.stats.norm.cdf(scipy.stats.norm.ppf(PRIORS) + math.sqrt(steps) / 6)
    np.testing.assert_allclose(rc.reconstruction_success_upper(PRIORS, 6.0, 1.0, steps), power, rtol=1e-9, atol=2e-9)
    nearly = rc.reconstruction_success_upper(PRIORS, 6.0, 1 - 1e-9, steps)
    np.testing.assert_allclose(nearly, power, rtol=1e-3, atol=2e-9)
    assert np.all(nearly >= power * (1 - 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "noise", "steps", "prior"), [(0.2, 1.0, 20, 0.1), (0.05, 0.6, 50, 0.01), (0.5, 3.0, 10, 0.5)]
)
def test_composition_agrees_with_sampled_likelihood_ratios(q: float, noise: float, steps: int, prior: float) -> None:
    """As Hayes et al. do it: the threshold from runs without the record, the power from runs with it."""
    draws, draw = 200_000, np.random.default_rng(0)
    without = noise * draw.normal(size=(draws, steps))
    with_it = without + (draw.random((draws, steps)) < q)

    def loss(x: np.ndarray) -> np.ndarray:
        total: np.ndarray = np.log1p(q * np.expm1((2 * x - 1) / (2 * noise**2))).sum(axis=1)
        return total

    threshold = np.quantile(loss(without), 1 - prior)
    sampled = (loss(with_it) > threshold).mean()
    assert rc.reconstruction_success_upper(prior, noise, q, steps) == pytest.approx(sampled, abs=0.01)


@pytest.mark.parametrize(("q", "noise"), [(0.1, 0.7), (0.5, 2.0)])
def test_two_steps_equal_the_likelihood_ratio_test_on_a_fine_grid(q: float, noise: float) -> None:
    """The slow twin: all pairs of outputs, sorted by likelihood ratio, taken until the prior is used up."""
    edges = np.linspace(-9 * noise, 1 + 9 * noise, 1201)
    without = np.diff(scipy.stats.norm.cdf(edges / noise))
    with_it = (1 - q) * without + q * np.diff(scipy.stats.norm.cdf((edges - 1) / noise))
    p, base = np.multiply.outer(with_it, with_it).ravel(), np.multiply.outer(without, without).ravel()
    order = np.argsort(-p / np.maximum(base, 1e-300))
    spent, reached = np.cumsum(base[order]), np.cumsum(p[order])
    power = np.interp(PRIORS, np.append(0.0, spent), np.append(0.0, reached))
    np.testing.assert_allclose(rc.reconstruction_success_upper(PRIORS, noise, q, 2), power, rtol=2e-3)


def test_success_is_below_what_renyi_divergence_allows_and_above_the_prior() -> None:
    q, noise, steps = 0.01, 1.0, 1000
    orders = np.arange(2, 40)
    rdp = steps * ss.accounting.sampled_gaussian_rdp(1.0, noise, q, orders)
    renyi = np.exp((np.minimum(rdp, 500) + np.log(PRIORS)[:, None]) * (orders - 1) / orders).min(axis=1)
    found = rc.reconstruction_success_upper(PRIORS, noise, q, steps)
    assert np.all(found > PRIORS)
    assert np.all(found <= np.minimum(renyi, 1) + 1e-8)


def test_certainty_and_impossibility_stay_and_more_training_reveals_more() -> None:
    assert rc.reconstruction_success_upper([0.0, 1.0], 1.0, 0.1, 10).tolist() == [0.0, 1.0]
    assert rc.reconstruction_success_upper(0.2, 1.0, 0.0, 10) == 0.2
    curve = [float(rc.reconstruction_success_upper(0.01, 1.0, 0.05, steps)) for steps in (1, 10, 100, 1000)]
    assert np.all(np.diff(curve) > 0)
