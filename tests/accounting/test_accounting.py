"""The accounting against slow, obvious versions in many digits, limit cases and properties."""

from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedscope import accounting
from seedscope.accounting import (
    classical_gaussian_epsilon,
    classical_gaussian_noise_scale,
    dpsgd_epsilon,
    dpsgd_noise_multiplier,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_scale,
    quadrature,
    rdp_to_epsilon,
    sampled_gaussian_rdp,
)
from seedscope.core import Relation
from seedscope.core.errors import SeedscopeError

RATIOS = [1e-9, 1e-4, 0.1, 0.99, 1.01, 4.0, 50.0, 1e5]
DELTAS = [1e-300, 1e-30, 1e-9, 1e-3, 0.4]


@pytest.fixture(autouse=True)
def many_digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


def slow_gaussian_delta(ratio: float, epsilon: float) -> Any:
    """Balle & Wang's Theorem 8 as printed, in 60 digits."""
    ratio, epsilon = mp.mpf(ratio), mp.mpf(epsilon)
    return mp.ncdf(ratio / 2 - epsilon / ratio) - mp.exp(epsilon) * mp.ncdf(-ratio / 2 - epsilon / ratio)


def slow_sum_rdp(noise: float, q: float, order: int) -> Any:
    """The binomial sum of Mironov et al. 2019 at an integer order, in 60 digits."""
    noise, q = mp.mpf(noise), mp.mpf(q)
    terms = (
        mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(mp.mpf(k * k - k) / (2 * noise**2))
        for k in range(order + 1)
    )
    return mp.log(mp.fsum(terms)) / (order - 1)


def slow_integral_rdp(noise: float, q: float, order: float, replace: bool, step: float) -> Any:
    """∫ P^α Q^(1−α) by a plain sum over a fine grid, in 60 digits."""
    noise, q, order = mp.mpf(noise), mp.mpf(q), mp.mpf(order)

    def density(z: Any, mean: int) -> Any:
        return (1 - q) * mp.npdf(z, 0, noise) + q * mp.npdf(z, mean, noise)

    def integrand(z: Any) -> Any:
        q_density = density(z, -1) if replace else mp.npdf(z, 0, noise)
        return density(z, 1) ** order * q_density ** (1 - order)

    start, end = -2 - 13 * noise, 2 * order + 1 + 13 * noise
    points = range(int((end - start) / step))
    return mp.log(step * mp.fsum(integrand(start + step * i) for i in points)) / (order - 1)


# --- the Gaussian mechanism -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_epsilon_is_the_smallest_that_keeps_delta(ratio: float, delta: float) -> None:
    epsilon = float(gaussian_epsilon(ratio, 1.0, delta))
    assert slow_gaussian_delta(ratio, epsilon) <= delta
    if epsilon > 0:
        assert slow_gaussian_delta(ratio, epsilon * (1 - mp.mpf(10) ** -10)) > delta


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_noise_scale_is_the_inverse_of_epsilon(ratio: float, delta: float) -> None:
    epsilon = gaussian_epsilon(ratio, 1.0, delta)
    if epsilon > 0:
        scale = gaussian_noise_scale(3.0, epsilon, delta)
        assert scale == pytest.approx(3.0 / ratio, rel=1e-10)
        assert gaussian_epsilon(3.0, scale, delta) <= epsilon * (1 + 1e-11)


@pytest.mark.parametrize("ratio", [1e-9, 1e-3, 1.0, 7.0])
@pytest.mark.parametrize("multiple", [0.0, 0.1, 1.0, 20.0])
def test_gaussian_delta_has_all_digits_and_is_not_below_the_truth(ratio: float, multiple: float) -> None:
    exact = slow_gaussian_delta(ratio, ratio * multiple)
    assert exact <= gaussian_delta(ratio, 1.0, ratio * multiple) <= exact * (1 + 1e-11)


def test_published_intrinsic_epsilons() -> None:
    assert classical_gaussian_epsilon(0.252, 0.085, 9.25e-9) == pytest.approx(18.14, abs=0.005)
    assert gaussian_epsilon(0.252, 0.085, 9.25e-9) == pytest.approx(20.51, abs=0.005)


def test_classical_is_above_the_exact_value_below_8_and_below_it_above_11() -> None:
    ratio = np.linspace(0.01, 4, 400)
    classical, exact = classical_gaussian_epsilon(ratio, 1.0, 1e-8), gaussian_epsilon(ratio, 1.0, 1e-8)
    assert np.all(classical[classical < 8] > exact[classical < 8])
    assert np.all(classical[classical > 11] < exact[classical > 11])


def test_classical_scale_inverts_classical_epsilon() -> None:
    scale = classical_gaussian_noise_scale(0.7, [0.1, 0.9], 1e-6)
    np.testing.assert_allclose(classical_gaussian_epsilon(0.7, scale, 1e-6), [0.1, 0.9], rtol=1e-14)


def test_gaussian_limits_and_broadcasting() -> None:
    assert gaussian_epsilon(0.0, 1.0, 1e-9) == 0
    assert gaussian_epsilon(1e200, 1e-200, 1e-9) == np.inf
    assert gaussian_delta(0.0, 1.0, 1.0) == 0
    assert gaussian_noise_scale(0.0, 1.0, 1e-5) == 0
    assert gaussian_epsilon(np.ones((3, 1)), np.ones(4), 1e-5).shape == (3, 4)
    assert gaussian_noise_scale(1.0, [1.0, 2.0], [[1e-5], [1e-6]]).shape == (2, 2)


@given(st.floats(1e-3, 50), st.floats(1.001, 5), st.floats(1e-12, 0.3))
def test_gaussian_epsilon_grows_with_the_ratio_and_falls_with_delta(ratio: float, factor: float, delta: float) -> None:
    base = gaussian_epsilon(ratio, 1.0, delta) * (1 - 1e-12)  # but for the last digit
    assert gaussian_epsilon(ratio * factor, 1.0, delta) >= base
    assert gaussian_epsilon(ratio, 1.0, delta * factor / 5) >= base or delta * factor / 5 > delta


# --- one sampled step -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.05, 0.5, 1.0, 8.0, 1e3])
@pytest.mark.parametrize("q", [1e-9, 1e-3, 0.1, 0.9])
def test_integer_orders_equal_the_sum_in_many_digits_and_are_never_below(noise: float, q: float) -> None:
    orders = [2, 3, 9, 32, 200, 512]
    ours = sampled_gaussian_rdp(1.0, noise, q, orders)
    for value, order in zip(ours, orders, strict=True):
        exact = slow_sum_rdp(noise, q, order)
        assert exact <= value <= exact * (1 + 1e-9)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("noise", [0.5, 1.0, 5.0])
@pytest.mark.parametrize("q", [1e-4, 0.2, 0.99])
def test_other_orders_and_replace_one_equal_the_integral_and_are_never_below(
    noise: float, q: float, replace: bool
) -> None:
    step = mp.mpf(min(noise**2 / 8, noise / 5))
    for order in (1.1, 2.0, 3.7):
        exact = slow_integral_rdp(noise, q, order, replace, step)
        value = sampled_gaussian_rdp(1.0, noise, q, order, "replace_one" if replace else "add_or_remove")
        assert exact <= value <= exact * (1 + 1e-9)


def test_quadrature_and_sum_are_one_function_of_the_order() -> None:
    for noise, q in ((0.7, 0.01), (2.0, 0.3)):
        integers = sampled_gaussian_rdp(1.0, noise, q, [3, 10, 60])
        nearby = sampled_gaussian_rdp(1.0, noise, q, np.array([3, 10, 60]) + 1e-9)
        np.testing.assert_allclose(nearby, integers, rtol=1e-6)


def test_published_replace_one_value() -> None:
    assert sampled_gaussian_rdp(1.0, 1.0, 0.01, 2, "replace_one") == pytest.approx(4.5755e-4, rel=2e-5)


@pytest.mark.parametrize(("relation", "factor"), [("add_or_remove", 0.5), ("replace_one", 2.0)])
def test_sampling_everything_is_the_gaussian_mechanism(relation: Relation, factor: float) -> None:
    order = np.array([1.5, 2, 7.5, 64])
    exact = factor * order * (0.3 / 1.7) ** 2
    np.testing.assert_allclose(sampled_gaussian_rdp(0.3, 1.7, 1.0, order, relation), exact, rtol=1e-14)
    nearly = sampled_gaussian_rdp(0.3, 1.7, 1 - 1e-12, order, relation)
    np.testing.assert_allclose(nearly, exact, rtol=1e-9)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_nothing_sampled_or_no_sensitivity_is_perfect_privacy(relation: Relation) -> None:
    assert sampled_gaussian_rdp(1.0, 1.0, 0.0, [2, 2.5], relation).tolist() == [0, 0]
    assert sampled_gaussian_rdp(0.0, 1.0, 0.5, [2, 2.5], relation).tolist() == [0, 0]


def test_small_sampling_probability_is_quadratic() -> None:
    q = np.array([1e-20, 1e-60, 1e-120])
    expected = q**2 * 2.5 / 2 * np.expm1(1 / 1.5**2)  # α/2 · χ² of the two Gaussians
    np.testing.assert_allclose(sampled_gaussian_rdp(1.0, 1.5, q, 2.5), expected, rtol=1e-10)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize(("q", "order"), [(0.01, 1.3), (0.01, 2.5), (0.9, 6.5)])
def test_closed_form_and_integral_agree_where_one_replaces_the_other(
    relation: Relation, q: float, order: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratio = np.linspace(1, 30, 300)
    chosen = sampled_gaussian_rdp(ratio, 1.0, q, order, relation)
    monkeypatch.setattr(quadrature, "_upper_is_tight", lambda c, *_: np.zeros(c.shape, bool))
    np.testing.assert_allclose(chosen, sampled_gaussian_rdp(ratio, 1.0, q, order, relation), rtol=1e-12)


def test_interpolation_is_an_upper_bound_and_exact_at_integers() -> None:
    orders = np.array([1.2, 2.0, 2.5, 6.9, 31.0])
    for relation in ("add_or_remove", "replace_one"):
        exact = sampled_gaussian_rdp(1.0, 1.3, 0.05, orders, relation)
        bound = sampled_gaussian_rdp(1.0, 1.3, 0.05, orders, relation, fractional_orders="interpolate")
        assert np.all(bound >= exact * (1 - 1e-12))
        np.testing.assert_allclose(bound[[1, 4]], exact[[1, 4]], rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 3), st.floats(0.3, 20), st.floats(1e-6, 0.999), st.floats(1.05, 60), st.floats(1.01, 1.5))
def test_divergence_grows_with_sensitivity_probability_and_order(
    s: float, noise: float, q: float, order: float, factor: float
) -> None:
    for relation in ("add_or_remove", "replace_one"):
        base = sampled_gaussian_rdp(s, noise, q, order, relation) * (1 - 1e-9)
        assert sampled_gaussian_rdp(s * factor, noise, q, order, relation) >= base
        assert sampled_gaussian_rdp(s, noise, min(q * factor, 1), order, relation) >= base
        assert sampled_gaussian_rdp(s, noise, q, order * factor, relation) >= base


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 3), st.floats(0.3, 20), st.floats(1e-5, 0.999), st.floats(1.05, 60))
def test_replace_one_is_between_add_or_remove_and_the_unsampled_mechanism(
    s: float, noise: float, q: float, order: float
) -> None:
    replace = sampled_gaussian_rdp(s, noise, q, order, "replace_one")
    assert sampled_gaussian_rdp(s, noise, q, order) <= replace * (1 + 1e-9)
    assert replace <= 2 * order * (s / noise) ** 2 * (1 + 1e-9)


def test_opposite_vectors_are_the_worst_replacement() -> None:
    # the claim behind replace_one, on a two-dimensional grid: shifts u, v of norm at most 1 at any angle
    x, y = np.meshgrid(np.linspace(-9, 10, 400), np.linspace(-9, 9, 400), indexing="ij")
    q, order = 0.3, 3.4

    def mixture(shift: np.ndarray) -> np.ndarray:
        distance = (x - shift[0]) ** 2 + (y - shift[1]) ** 2
        density: np.ndarray = (1 - q) * np.exp(-(x**2 + y**2) / 2) + q * np.exp(-distance / 2)
        return density

    area = (19 / 399) * (18 / 399) / (2 * np.pi)
    worst = sampled_gaussian_rdp(1.0, 1.0, q, order, "replace_one")
    for length in (0.5, 1.0):
        for angle in (0.0, 1.0, 2.0, np.pi):
            v = length * np.array([np.cos(angle), np.sin(angle)])
            moment = area * np.sum(mixture(np.array([1.0, 0.0])) ** order * mixture(v) ** (1 - order))
            value = np.log(moment) / (order - 1)
            assert value <= worst * (1 + 1e-6)
    assert value == pytest.approx(float(worst), rel=1e-6)  # the last one is the opposite vector


def test_everything_broadcasts() -> None:
    shape = sampled_gaussian_rdp(np.ones((5, 1, 1)), np.ones((4, 1)), 0.1, [2, 2.5, 3]).shape
    assert shape == (5, 4, 3)
    assert sampled_gaussian_rdp([], 1.0, 0.1, 2).shape == (0,)


# --- a whole run ----------------------------------------------------------------------------------------------------


def test_conversion_is_the_formula_minimised_over_orders() -> None:
    orders, rdp, delta = np.array([1.5, 3.0, 20.0]), np.array([0.1, 0.3, 2.0]), 1e-4
    by_hand = min(
        r + np.log((a - 1) / a) - (np.log(delta) + np.log(a)) / (a - 1) for a, r in zip(orders, rdp, strict=True)
    )
    assert rdp_to_epsilon(rdp, orders, delta) == pytest.approx(by_hand, rel=1e-14)


def test_conversion_is_never_below_the_exact_gaussian() -> None:
    orders = np.array(accounting.DEFAULT_ORDERS)
    ratio = np.array([0.05, 0.3, 1.0, 3.0])
    bound = rdp_to_epsilon(ratio[:, None] ** 2 * orders / 2, orders, 1e-6)
    exact = gaussian_epsilon(ratio, 1.0, 1e-6)
    assert np.all(bound >= exact)
    assert np.all(bound[1:] <= 1.25 * exact[1:])


def test_tiny_divergence_gives_epsilon_zero_and_infinite_orders_are_ignored() -> None:
    assert rdp_to_epsilon([1e-12, np.inf], [2.0, 3.0], 1e-5) == 0
    assert rdp_to_epsilon([1.0, np.inf], [2.0, 3.0], 1e-5) == rdp_to_epsilon([1.0], [2.0], 1e-5)


def test_dpsgd_epsilon_broadcasts_and_falls_with_noise() -> None:
    epsilon = dpsgd_epsilon([[0.8], [1.0], [3.0]], 0.01, [100, 1000], 1e-5)
    assert epsilon.shape == (3, 2)
    assert np.all(np.diff(epsilon, axis=0) < 0)
    assert np.all(np.diff(epsilon, axis=1) > 0)


def test_unsampled_run_is_near_the_exact_composition() -> None:
    exact = gaussian_epsilon(np.sqrt(30), 20.0, 1e-5)  # thirty Gaussian steps are one with √30 times the ratio
    assert exact <= dpsgd_epsilon(20.0, 1.0, 30, 1e-5) <= 1.2 * exact


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 100.0])
def test_calibrated_noise_reaches_epsilon_and_slightly_less_does_not(epsilon: float, relation: Relation) -> None:
    noise = dpsgd_noise_multiplier(epsilon, 1e-5, 0.02, 300, relation=relation)
    assert dpsgd_epsilon(noise, 0.02, 300, 1e-5, relation=relation) <= epsilon
    assert dpsgd_epsilon(noise * (1 - 2e-6), 0.02, 300, 1e-5, relation=relation) > epsilon


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sampled_gaussian_rdp(1, 1, 1.5, 2), "sampling_probability must be in"),
        (lambda: sampled_gaussian_rdp(1, 0, 0.5, 2), "noise_scale must be"),
        (lambda: sampled_gaussian_rdp(-1, 1, 0.5, 2), "sensitivity must be"),
        (lambda: sampled_gaussian_rdp(np.nan, 1, 0.5, 2), "sensitivity must be"),
        (lambda: sampled_gaussian_rdp(1, 1, 0.5, 1), "order must be"),
        (lambda: sampled_gaussian_rdp(1, 1, 0.5, 2, "replace"), "replace_one"),  # type: ignore[arg-type]
        (lambda: sampled_gaussian_rdp(1, 1, 0.5, 2, fractional_orders="interp"), "interpolate"),  # type: ignore[arg-type]
        (lambda: gaussian_epsilon(1, 1, 1.5), "delta must be in"),
        (lambda: gaussian_epsilon(1, -1, 0.5), "noise_scale must be"),
        (lambda: gaussian_noise_scale(1, 0, 0.5), "epsilon must be"),
        (lambda: gaussian_delta(1, 1, -1), "epsilon must be"),
        (lambda: rdp_to_epsilon([1.0], [2.0, 3.0], 1e-5), "one value per order"),
        (lambda: rdp_to_epsilon([1.0], [1.0], 1e-5), "orders must be"),
        (lambda: rdp_to_epsilon([np.nan], [2.0], 1e-5), "rdp must be"),
        (lambda: dpsgd_epsilon(1.0, 0.1, 0, 1e-5), "steps must be"),
        (lambda: dpsgd_noise_multiplier(1.0, 1e-5, 0.0, 10), "sampling_probability must be"),
        (lambda: dpsgd_noise_multiplier(1e-4, 1e-5, 0.5, 10**30, orders=[2.0]), "no noise multiplier"),
    ],
)
def test_a_mistake_is_named(call: Callable[..., Any], words: str) -> None:
    with pytest.raises(SeedscopeError, match=words):
        call()
