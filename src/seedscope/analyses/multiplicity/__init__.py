"""Predictive multiplicity: whose decision depends on the seed, how sure is that, and what can be done (AD)."""

from seedscope.analyses.multiplicity.disagreement import (
    ambiguity,
    class_counts,
    decisions,
    disagreement,
    disagreement_from_counts,
    discrepancy,
    one_vs_rest_disagreement,
    pairwise_disagreement,
    positive_counts,
    top_class_share,
    top_disagreement,
)
from seedscope.analyses.multiplicity.groups import (
    GroupComparison,
    GroupDisagreement,
    compare_groups,
    mean_disagreement,
    paired_shares,
)
from seedscope.analyses.multiplicity.intervals import (
    disagreement_error,
    disagreement_interval,
    half_risk,
    interval_after_looks,
    interval_error,
    models_needed,
    models_needed_anytime,
    models_needed_exact,
)
from seedscope.analyses.multiplicity.performance import (
    ConditionedDisagreement,
    accuracies,
    accuracy_conditioned_disagreement,
    areas_under_curve,
    f1_scores,
)
from seedscope.analyses.multiplicity.released import ReleasedDisagreement, released_model_disagreement
from seedscope.analyses.multiplicity.remedies import Abstention, abstention, consensus, self_consistency
from seedscope.analyses.multiplicity.result import Multiplicity, multiplicity
from seedscope.analyses.multiplicity.scores import (
    output_perturbation_disagreement,
    rashomon_capacity,
    viable_prediction_range,
)
from seedscope.analyses.multiplicity.surrogates import (
    SURROGATE_RISK,
    StandIns,
    combined_error,
    combined_interval,
    models_needed_surrogate,
    surrogate_interval,
)

__all__ = [
    "SURROGATE_RISK",
    "Abstention",
    "ConditionedDisagreement",
    "GroupComparison",
    "GroupDisagreement",
    "Multiplicity",
    "ReleasedDisagreement",
    "StandIns",
    "abstention",
    "accuracies",
    "accuracy_conditioned_disagreement",
    "ambiguity",
    "areas_under_curve",
    "class_counts",
    "combined_error",
    "combined_interval",
    "compare_groups",
    "consensus",
    "decisions",
    "disagreement",
    "disagreement_error",
    "disagreement_from_counts",
    "disagreement_interval",
    "discrepancy",
    "f1_scores",
    "half_risk",
    "interval_after_looks",
    "interval_error",
    "mean_disagreement",
    "models_needed",
    "models_needed_anytime",
    "models_needed_exact",
    "models_needed_surrogate",
    "multiplicity",
    "one_vs_rest_disagreement",
    "output_perturbation_disagreement",
    "paired_shares",
    "pairwise_disagreement",
    "positive_counts",
    "rashomon_capacity",
    "released_model_disagreement",
    "self_consistency",
    "surrogate_interval",
    "top_class_share",
    "top_disagreement",
    "viable_prediction_range",
]
