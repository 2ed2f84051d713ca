"""Statistics and a Newton solver on arrays; nothing here knows about privacy."""

from seedscope.numerics import statistics
from seedscope.numerics.betting import betting_interval, betting_lower
from seedscope.numerics.logistic import MODELS_TOGETHER, LogisticProblem
from seedscope.numerics.newton import RESIDUAL, Solution
from seedscope.numerics.nonnegative import RunningMoments, nonnegative_mean_interval
from seedscope.numerics.softmax import SoftmaxProblem, zero_sum_basis
from seedscope.numerics.statistics import (
    clopper_pearson,
    confidence_sequence,
    empirical_bernstein,
    mean_interval,
    mean_ranks,
    pair_mean_margin,
    paired_t_test,
    permutation_test_of_groups,
    spearman,
)
from seedscope.numerics.three_values import mean_refuted, three_valued_interval
from seedscope.numerics.tilted import Spare, TiltLaw, tilted_log_ratios
from seedscope.numerics.tilted_persons import person_log_ratios
from seedscope.numerics.tilted_softmax import softmax_log_ratios
from seedscope.numerics.tilted_softmax_persons import softmax_person_log_ratios
from seedscope.numerics.weighted import WeightedProblem
from seedscope.numerics.weighted_softmax import WeightedSoftmax

__all__ = [
    "MODELS_TOGETHER",
    "RESIDUAL",
    "LogisticProblem",
    "RunningMoments",
    "SoftmaxProblem",
    "Solution",
    "Spare",
    "TiltLaw",
    "WeightedProblem",
    "WeightedSoftmax",
    "betting_interval",
    "betting_lower",
    "clopper_pearson",
    "confidence_sequence",
    "empirical_bernstein",
    "mean_interval",
    "mean_ranks",
    "mean_refuted",
    "nonnegative_mean_interval",
    "pair_mean_margin",
    "paired_t_test",
    "permutation_test_of_groups",
    "person_log_ratios",
    "softmax_log_ratios",
    "softmax_person_log_ratios",
    "spearman",
    "statistics",
    "three_valued_interval",
    "tilted_log_ratios",
    "zero_sum_basis",
]
