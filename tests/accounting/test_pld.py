"""Our accounting against dp-accounting, an independent library; skipped, visibly, where it is not installed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from seedscope import accounting

dp_accounting = pytest.importorskip("dp_accounting", reason="the pld extra (dp-accounting) is not installed")

from dp_accounting import gaussian_mechanism  # noqa: E402
from dp_accounting.rdp import RdpAccountant  # noqa: E402

INTEGER_ORDERS = [2, 3, 5, 8, 16, 32, 64, 128, 256, 512]


def their_rdp(noise_multiplier: float, q: float, orders: Sequence[float]) -> np.ndarray:
    """Return dp-accounting's divergences of one step."""
    accountant = RdpAccountant(orders)
    event = dp_accounting.GaussianDpEvent(noise_multiplier)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(q, event) if q < 1 else event)
    return np.array(accountant._rdp)


@pytest.mark.parametrize("noise_multiplier", [0.05, 0.3, 0.7, 1.0, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("q", [1e-12, 1e-6, 1e-3, 0.01, 0.1, 0.5, 0.99, 1.0])
def test_integer_orders_agree_with_dp_accounting(noise_multiplier: float, q: float) -> None:
    ours = accounting.sampled_gaussian_rdp(1.0, noise_multiplier, q, INTEGER_ORDERS)
    theirs = their_rdp(noise_multiplier, q, INTEGER_ORDERS)
    their_rounding = 1e-15 * np.array(INTEGER_ORDERS)  # they add up A, not A − 1: digits below this are noise
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=their_rounding.max())


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("q", [1e-3, 0.01, 0.2])
def test_fractional_orders_are_at_most_dp_accountings_bound_and_near_it(noise_multiplier: float, q: float) -> None:
    # dp-accounting adds the absolute values of an alternating series: an upper bound of the same integral
    orders = [1.5, 2.3, 4.7, 10.9, 40.5]
    ours = accounting.sampled_gaussian_rdp(1.0, noise_multiplier, q, orders)
    theirs = their_rdp(noise_multiplier, q, orders)
    assert np.all(ours <= theirs * (1 + 1e-9) + 1e-13)
    np.testing.assert_allclose(ours[1:], theirs[1:], rtol=0.05, atol=1e-13)


@pytest.mark.parametrize(
    ("noise", "q", "steps", "delta"), [(1.0, 0.01, 1000, 1e-5), (0.8, 0.05, 200, 1e-6), (4.0, 1, 50, 1e-7)]
)
def test_epsilon_of_dpsgd_agrees_with_dp_accounting_at_the_same_integer_orders(
    noise: float, q: float, steps: int, delta: float
) -> None:
    rdp = steps * their_rdp(noise, q, INTEGER_ORDERS)
    accountant = RdpAccountant(INTEGER_ORDERS)
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(noise))
    accountant.compose(event, steps)
    theirs = accountant.get_epsilon(delta)
    assert accounting.rdp_to_epsilon(rdp, INTEGER_ORDERS, delta) == pytest.approx(theirs, rel=1e-8)
    assert accounting.dpsgd_epsilon(noise, q, steps, delta, INTEGER_ORDERS) == pytest.approx(theirs, rel=1e-8)


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01])
def test_gaussian_epsilon_agrees_with_dp_accounting(ratio: float, delta: float) -> None:
    theirs = gaussian_mechanism.get_epsilon_gaussian(1 / ratio, delta)
    assert accounting.gaussian_epsilon(ratio, 1.0, delta) == pytest.approx(theirs, rel=1e-8, abs=1e-10)


def their_pld(noise: float, q: float, steps: int) -> Any:
    """Return dp-accounting's composed privacy-loss distribution, rounded up."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_gaussian_mechanism(noise, sampling_prob=q).self_compose(steps)


@pytest.mark.parametrize(("noise", "q", "steps"), [(1.0, 0.01, 1000), (3.0, 0.25, 150), (0.8, 0.05, 200)])
def test_privacy_loss_distributions_agree_with_dp_accounting(noise: float, q: float, steps: int) -> None:
    theirs, ours = their_pld(noise, q, steps), accounting.trade_off(
        noise_multiplier=noise, sampling_probability=q, steps=steps
    )  # fmt: skip
    assert accounting.pld_epsilon(noise, q, steps, 1e-5) == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=2e-3)
    for epsilon in (0.0, 0.5, 2.0):
        assert float(ours.delta(epsilon)) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=5e-3, abs=1e-8)
    assert float(ours.advantage) == pytest.approx(theirs.get_delta_for_epsilon(0.0), rel=2e-3)
