"""Differential-privacy accounting in NumPy: the Gaussian mechanism, its sampled version, conversions."""

from seedscope.accounting.conversions import (
    DEFAULT_ORDERS,
    dpsgd_epsilon,
    dpsgd_noise_multiplier,
    pld_epsilon,
    rdp_to_epsilon,
)
from seedscope.accounting.gaussian import (
    classical_gaussian_epsilon,
    classical_gaussian_noise_scale,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_scale,
)
from seedscope.accounting.sampled_gaussian import FractionalOrders, Relation, sampled_gaussian_rdp

__all__ = [
    "DEFAULT_ORDERS",
    "FractionalOrders",
    "Relation",
    "classical_gaussian_epsilon",
    "classical_gaussian_noise_scale",
    "dpsgd_epsilon",
    "dpsgd_noise_multiplier",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise_scale",
    "pld_epsilon",
    "rdp_to_epsilon",
    "sampled_gaussian_rdp",
]
