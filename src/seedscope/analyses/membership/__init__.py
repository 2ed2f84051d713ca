"""Membership inference: who was in the training data, and the epsilon that an attack proves."""

from seedscope.analyses.membership.canary import CanaryCheck, CanaryProblem, Finding, canary_check
from seedscope.analyses.membership.likelihood_ratio import (
    LEAST_SEEDS,
    MembershipTests,
    likelihood_ratio_tests,
    logit_confidence,
)
from seedscope.analyses.membership.linear import LinearShadows, linear_shadows
from seedscope.analyses.membership.loss_threshold import (
    SeedKnownOrHidden,
    loss_threshold_accuracy,
    seed_known_or_hidden,
    seed_known_or_hidden_along_training,
)
from seedscope.analyses.membership.lower_bound import CurveTest, curve_test, epsilon_lower, mu_lower, seeds_needed
from seedscope.analyses.membership.votes import vote_log_ratios

__all__ = [
    "LEAST_SEEDS",
    "CanaryCheck",
    "CanaryProblem",
    "CurveTest",
    "Finding",
    "LinearShadows",
    "MembershipTests",
    "SeedKnownOrHidden",
    "canary_check",
    "curve_test",
    "epsilon_lower",
    "likelihood_ratio_tests",
    "linear_shadows",
    "logit_confidence",
    "loss_threshold_accuracy",
    "mu_lower",
    "seed_known_or_hidden",
    "seed_known_or_hidden_along_training",
    "seeds_needed",
    "vote_log_ratios",
]
