"""Trade-off curves: their slow twins, their limits, and from a risk back to noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from seedscope import DPSGD, Conditions, ObjectivePerturbation, OutputPerturbation, SeedscopeError, accounting
from seedscope.accounting import (
    DEFAULT_ORDERS,
    Risk,
    TradeOff,
    dpsgd_noise_for_risk,
    path_epsilon,
    pld_epsilon,
    rdp_to_epsilon,
    sampled_gaussian_rdp,
    trade_off,
)

RATES = np.array([0.0, 1e-4, 1e-3, 0.01, 0.1, 0.3, 0.7, 0.99, 1.0])
CURVES: dict[str, TradeOff] = {
    "pure": trade_off(epsilon=1.0),
    "approximate": trade_off(epsilon=1.0, delta=1e-3),
    "several": trade_off(epsilon=[0.2, 1.0, 3.0], delta=[0.1, 1e-2, 1e-6]),
    "gaussian": trade_off(mu=0.8),
    "renyi": trade_off(rdp=np.array([2.0, 4.0, 8.0]) * 0.1, orders=[2.0, 4.0, 8.0]),
    "dpsgd": trade_off(noise_multiplier=2.0, sampling_probability=0.2, steps=40),
}


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_a_curve_rises_from_at_least_guessing_to_one(curve: TradeOff) -> None:
    rates = curve.true_positive_rate(RATES)
    assert np.all(np.diff(rates) >= -1e-12)
    assert np.all(rates >= RATES - 1e-12)
    assert rates[-1] == 1
    np.testing.assert_allclose(curve.false_negative_rate(RATES), 1 - rates)


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_advantage_is_at_least_the_largest_gap_and_mu_at_least_every_shift(curve: TradeOff) -> None:
    rates = np.concatenate([np.geomspace(1e-6, 0.1, 400), np.linspace(0.1, 1 - 1e-6, 400)])
    reached = curve.true_positive_rate(rates)
    assert float(curve.advantage) >= (reached - rates).max() - 1e-9
    counts = reached < 1 - 1e-6
    shifts = norm.ppf(reached[counts]) - norm.ppf(rates[counts])
    assert shifts.max() - 1e-9 <= float(curve.mu) <= shifts.max() + 0.03


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_epsilon_and_delta_are_each_others_inverse_from_above(curve: TradeOff) -> None:
    for delta in (1e-5, 1e-3, 0.05):
        epsilon = curve.epsilon(delta)
        if np.isfinite(epsilon):
            assert curve.delta(epsilon) <= delta * (1 + 1e-9)
    assert float(curve.delta(0.0)) <= float(curve.advantage) * (1 + 1e-9)


def test_gaussian_curve_is_exact() -> None:
    curve = trade_off(mu=1.0)
    np.testing.assert_allclose(curve.true_positive_rate(RATES[1:-1]), norm.cdf(norm.ppf(RATES[1:-1]) + 1))
    assert float(curve.mu) == 1.0
    assert float(curve.advantage) == pytest.approx(2 * norm.cdf(0.5) - 1)
    assert float(curve.epsilon(1e-5)) == pytest.approx(float(accounting.gaussian_epsilon(1.0, 1.0, 1e-5)))


@pytest.mark.parametrize(("noise", "q"), [(1.0, 0.3), (0.5, 0.05), (4.0, 0.5)])
def test_one_sampled_step_is_quadrature(noise: float, q: float) -> None:
    def with_person(x: float) -> float:
        return float((1 - q) * norm.pdf(x, 0, noise) + q * norm.pdf(x, 1, noise))

    # the best attack says "member" above ½, where both densities meet
    exact, _ = integrate.quad(lambda x: with_person(x) - norm.pdf(x, 0, noise), 0.5, 0.5 + 12 * noise)
    curve = trade_off(noise_multiplier=noise, sampling_probability=q)
    assert exact <= float(curve.advantage) <= exact + 1e-4
    cut = norm.isf(0.01, 0, noise)
    rate = (1 - q) * 0.01 + q * norm.sf(cut, 1, noise)
    assert rate <= curve.true_positive_rate(0.01) <= rate + 1e-4


def test_two_sampled_steps_are_their_double_integral() -> None:
    noise, q = 1.0, 0.4
    x = np.linspace(-8, 9, 1701)
    without, shifted = norm.pdf(x, 0, noise), norm.pdf(x, 1, noise)
    p = (1 - q) * without + q * shifted
    exact = np.maximum(np.outer(p, p) - np.outer(without, without), 0).sum() * (x[1] - x[0]) ** 2
    assert float(trade_off(noise_multiplier=noise, sampling_probability=q, steps=2).advantage) == pytest.approx(
        exact, abs=2e-4
    )


def test_privacy_loss_distribution_is_tighter_than_renyi_orders() -> None:
    renyi = float(accounting.dpsgd_epsilon(1.0, 0.01, 1000, 1e-5))
    assert 0.8 * renyi < pld_epsilon(1.0, 0.01, 1000, 1e-5) < renyi


def test_privacy_loss_distribution_without_sampling_is_the_analytic_gaussian() -> None:
    exact = float(accounting.gaussian_epsilon(np.sqrt(10) / 5.0, 1.0, 1e-5))
    assert pld_epsilon(5.0, 1.0, 10, 1e-5) == pytest.approx(exact, rel=1e-9)
    assert pld_epsilon(5.0, 0.0, 10, 1e-5) == 0.0


@pytest.mark.parametrize("risk", [Risk(advantage=0.2), Risk(true_positive_rate=0.05, false_positive_rate=0.01)])
def test_the_least_noise_for_a_risk_meets_it_and_less_does_not(risk: Risk) -> None:
    noise = dpsgd_noise_for_risk(risk, 0.2, 40)
    curves = [trade_off(noise_multiplier=one, sampling_probability=0.2, steps=40) for one in (noise, 0.999 * noise)]
    assert [risk.met_by(one) for one in curves] == [True, False]
    assert risk.met_by(trade_off(epsilon=risk.epsilon()))
    assert not risk.met_by(trade_off(epsilon=1.001 * risk.epsilon()))
    assert risk.met_by(trade_off(mu=risk.mu()))
    assert not risk.met_by(trade_off(mu=1.001 * risk.mu()))


def test_mechanisms_calibrated_for_a_risk_have_curves_within_it() -> None:
    conditions = Conditions(400, np.sqrt(2))
    for mechanism in (
        DPSGD.calibrated(advantage=0.2, examples=400, batch_size=100, steps=50),
        OutputPerturbation.calibrated(advantage=0.2, delta=1e-5),
        ObjectivePerturbation.calibrated(advantage=0.2),
    ):
        curve = mechanism.trade_off(conditions)
        assert curve is not None
        assert 0.199 <= float(curve.advantage) <= 0.2
        assert curve.advantage.kind == mechanism.require_guarantee(conditions).epsilon.kind  # type: ignore[union-attr]


def test_a_curve_as_json_has_what_a_report_shows() -> None:
    written = CURVES["dpsgd"].as_dict()
    assert set(written) == {"mu", "advantage", "true_positive_rates", "curve"}
    assert written["mu"]["kind"] == "proved"
    assert trade_off(epsilon=1.0, kind="estimate").as_dict()["advantage"]["kind"] == "estimate"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: trade_off(), "trade_off needs epsilon"),
        (lambda: trade_off(epsilon=-1), "epsilon must be at least 0"),
        (lambda: trade_off(mu=-1), "mu must be at least 0"),
        (lambda: trade_off(epsilon=1, delta=2), "delta must be"),
        (lambda: trade_off(rdp=[1.0], orders=[2.0, 3.0]), "one value per order"),
        (lambda: trade_off(noise_multiplier=0.0), "noise_multiplier must be"),
        (lambda: trade_off(noise_multiplier=1.0, steps=0), "steps must be"),
        (lambda: CURVES["pure"].true_positive_rate(1.5), "false_positive_rate must be"),
        (lambda: CURVES["pure"].epsilon(0.0), "delta must be"),
        (lambda: Risk(), "give one"),
        (lambda: Risk(advantage=0.1, true_positive_rate=0.1, false_positive_rate=0.01), "give one"),
        (lambda: DPSGD.calibrated(examples=100, batch_size=10), "either epsilon or a risk"),
    ],
)
def test_a_mistake_is_named(call: Callable[..., Any], words: str) -> None:
    with pytest.raises(SeedscopeError, match=words):
        call()


class TestPathEpsilon:
    def test_equal_norms_are_the_steps_of_a_larger_noise(self) -> None:
        assert path_epsilon(np.full(200, 1.0), 1.2, 0.05, 1e-5) == pytest.approx(pld_epsilon(1.2, 0.05, 200, 1e-5))
        assert path_epsilon(np.full(200, 0.5), 1.2, 0.05, 1e-5) == pytest.approx(
            pld_epsilon(2.4, 0.05, 200, 1e-5), rel=1e-3
        )

    def test_a_mixed_path_lies_between_and_below_the_renyi_sum(self) -> None:
        s = np.repeat([0.25, 0.5, 1.0], [100, 60, 40])
        found = path_epsilon(s, 1.2, 0.05, 1e-5)
        orders = np.array(DEFAULT_ORDERS)
        rdp = sum(n * sampled_gaussian_rdp(v, 1.2, 0.05, orders) for v, n in ((0.25, 100), (0.5, 60), (1.0, 40)))
        assert pld_epsilon(1.2, 0.05, 40, 1e-5) <= found <= float(rdp_to_epsilon(rdp, orders, 1e-5))
        assert found <= pld_epsilon(1.2, 0.05, 200, 1e-5)
        assert path_epsilon(s[::-1], 1.2, 0.05, 1e-5) == pytest.approx(found)

    def test_somebody_without_influence_loses_nothing(self) -> None:
        assert path_epsilon(np.zeros(10), 1.0, 0.1, 1e-5) == 0.0
        with pytest.raises(SeedscopeError, match=r"must be in \[0, 1\]"):
            path_epsilon([1.5], 1.0, 0.1, 1e-5)
