"""Differential-privacy accounting in NumPy: the Gaussian mechanism, its sampled version, conversions, curves."""

from seedscope.accounting.attacks import (
    epsilon_advantage,
    epsilon_true_positive_rate,
    gaussian_true_positive_rate,
    membership_advantage,
    true_positive_rate,
)
from seedscope.accounting.blow_up import reconstruction_success_upper
from seedscope.accounting.conversions import (
    DEFAULT_ORDERS,
    dpsgd_epsilon,
    dpsgd_noise_multiplier,
    personal_budget,
    rdp_to_epsilon,
    smallest_noise,
)
from seedscope.accounting.gaussian import (
    classical_gaussian_epsilon,
    classical_gaussian_noise_scale,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_scale,
)
from seedscope.accounting.gaussian_objective import (
    curvature_epsilon,
    curvature_l2,
    gaussian_objective_delta,
    gaussian_objective_noise_scale,
    pull_corners,
    smallest_scale,
)
from seedscope.accounting.last_iterate import last_iterate_epsilon
from seedscope.accounting.meanings import plain_meanings
from seedscope.accounting.norm_bins import ABOVE, BINS, SHIFT, TOP, bin_edges, binned_up, divergence_table
from seedscope.accounting.order_two import SMOOTH_CLIPPING_BOUND, dpsgd_rdp, gaussian_rdp, pure_epsilon_rdp
from seedscope.accounting.risk import Risk, dpsgd_noise_for_risk
from seedscope.accounting.sampled_gaussian import FractionalOrders, sampled_gaussian_rdp
from seedscope.accounting.trade_off import TradeOff, path_epsilon, pld_epsilon, trade_off

__all__ = [
    "ABOVE",
    "BINS",
    "DEFAULT_ORDERS",
    "SHIFT",
    "SMOOTH_CLIPPING_BOUND",
    "TOP",
    "FractionalOrders",
    "Risk",
    "TradeOff",
    "bin_edges",
    "binned_up",
    "classical_gaussian_epsilon",
    "classical_gaussian_noise_scale",
    "curvature_epsilon",
    "curvature_l2",
    "divergence_table",
    "dpsgd_epsilon",
    "dpsgd_noise_for_risk",
    "dpsgd_noise_multiplier",
    "dpsgd_rdp",
    "epsilon_advantage",
    "epsilon_true_positive_rate",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise_scale",
    "gaussian_objective_delta",
    "gaussian_objective_noise_scale",
    "gaussian_rdp",
    "gaussian_true_positive_rate",
    "last_iterate_epsilon",
    "membership_advantage",
    "path_epsilon",
    "personal_budget",
    "plain_meanings",
    "pld_epsilon",
    "pull_corners",
    "pure_epsilon_rdp",
    "rdp_to_epsilon",
    "reconstruction_success_upper",
    "sampled_gaussian_rdp",
    "smallest_noise",
    "smallest_scale",
    "trade_off",
    "true_positive_rate",
]
