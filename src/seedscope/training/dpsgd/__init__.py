"""DP-SGD on a block of models side by side, with what it records of each person; loads JAX."""

from seedscope.training.dpsgd.informed import Suspects, informed_releases, operations
from seedscope.training.dpsgd.norms import People, rounded_up
from seedscope.training.dpsgd.per_example import clipped_sum, flat_factors, gradient_norms
from seedscope.training.dpsgd.publishing import published_steps
from seedscope.training.dpsgd.steps import PrivateSteps
from seedscope.training.dpsgd.surrogates import StepsSurrogate, steps_surrogate
from seedscope.training.dpsgd.train import dpsgd_trainer, train_dpsgd

__all__ = [
    "People",
    "PrivateSteps",
    "StepsSurrogate",
    "Suspects",
    "clipped_sum",
    "dpsgd_trainer",
    "flat_factors",
    "gradient_norms",
    "informed_releases",
    "operations",
    "published_steps",
    "rounded_up",
    "steps_surrogate",
    "train_dpsgd",
]
