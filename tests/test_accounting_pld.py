"""Our accounting against dp-accounting, an independent library; skipped, visibly, where it is not installed."""

import numpy as np
import pytest

from seedscope import accounting

dp_accounting = pytest.importorskip("dp_accounting", reason="the pld extra (dp-accounting) is not installed")

from dp_accounting import gaussian_mechanism  # noqa: E402
from dp_accounting.rdp import RdpAccountant  # noqa: E402

INTEGER_ORDERS = [2, 3, 5, 8, 16, 32, 64, 128, 256, 512]


def their_rdp(noise_multiplier, q, orders):
    """Return dp-accounting's divergences of one step."""
    accountant = RdpAccountant(orders)
    event = dp_accounting.GaussianDpEvent(noise_multiplier)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(q, event) if q < 1 else event)
    return np.array(accountant._rdp)


@pytest.mark.parametrize("noise_multiplier", [0.05, 0.3, 0.7, 1.0, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("q", [1e-12, 1e-6, 1e-3, 0.01, 0.1, 0.5, 0.99, 1.0])
def test_integer_orders_agree_with_dp_accounting(noise_multiplier, q):
    ours = accounting.sampled_gaussian_rdp(1.0, noise_multiplier, q, INTEGER_ORDERS)
    theirs = their_rdp(noise_multiplier, q, INTEGER_ORDERS)
    their_rounding = 1e-15 * np.array(INTEGER_ORDERS)  # they add up A, not A − 1: digits below this are noise
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=their_rounding.max())


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("q", [1e-3, 0.01, 0.2])
def test_fractional_orders_are_at_most_dp_accountings_bound_and_near_it(noise_multiplier, q):
    # dp-accounting adds the absolute values of an alternating series: an upper bound of the same integral
    orders = [1.5, 2.3, 4.7, 10.9, 40.5]
    ours = accounting.sampled_gaussian_rdp(1.0, noise_multiplier, q, orders)
    theirs = their_rdp(noise_multiplier, q, orders)
    assert np.all(ours <= theirs * (1 + 1e-9) + 1e-13)
    np.testing.assert_allclose(ours[1:], theirs[1:], rtol=0.05, atol=1e-13)


@pytest.mark.parametrize(
    ("noise", "q", "steps", "delta"), [(1.0, 0.01, 1000, 1e-5), (0.8, 0.05, 200, 1e-6), (4.0, 1, 50, 1e-7)]
)
def test_epsilon_of_dpsgd_agrees_with_dp_accounting_at_the_same_integer_orders(noise, q, steps, delta):
    rdp = steps * their_rdp(noise, q, INTEGER_ORDERS)
    accountant = RdpAccountant(INTEGER_ORDERS)
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(noise))
    accountant.compose(event, steps)
    theirs = accountant.get_epsilon(delta)
    assert accounting.rdp_to_epsilon(rdp, INTEGER_ORDERS, delta) == pytest.approx(theirs, rel=1e-8)
    assert accounting.dpsgd_epsilon(noise, q, steps, delta, INTEGER_ORDERS) == pytest.approx(theirs, rel=1e-8)


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01])
def test_gaussian_epsilon_agrees_with_dp_accounting(ratio, delta):
    theirs = gaussian_mechanism.get_epsilon_gaussian(1 / ratio, delta)
    assert accounting.gaussian_epsilon(ratio, 1.0, delta) == pytest.approx(theirs, rel=1e-8, abs=1e-10)


def test_privacy_loss_distribution_is_tighter_than_renyi_and_above_a_single_step():
    tight = accounting.pld_epsilon(1.0, 0.01, 1000, 1e-5)
    renyi = float(accounting.dpsgd_epsilon(1.0, 0.01, 1000, 1e-5))
    assert 0.8 * renyi < tight < renyi


def test_privacy_loss_distribution_without_sampling_is_the_analytic_gaussian():
    exact = float(accounting.gaussian_epsilon(np.sqrt(10) / 5.0, 1.0, 1e-5))  # ten steps are one with √10 the ratio
    assert accounting.pld_epsilon(5.0, 1.0, 10, 1e-5) == pytest.approx(exact, rel=1e-3)
    assert accounting.pld_epsilon(5.0, 0.0, 10, 1e-5) == 0.0
