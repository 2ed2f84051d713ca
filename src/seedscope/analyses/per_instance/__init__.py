"""Per-instance privacy of DP-SGD: how much better than the guarantee for any data is each person protected?

    steps                       one step: divergence of a person's own gradient, (epsilon, delta)
    composition, everybody      a whole run, by the expected divergence of its steps: one person, or all at once
    paths                       a whole run, by the sum of its steps' divergences: one Hölder step, or a cut-off
    general_rules               a step of any update rule, such as the mean, from sampled updates
    meaning                     what a divergence means for attacks on the person, and for memorisation
    unlearning                  which deletion requests need no training again
    fine_tuning                 how many noisy steps without a person stand in for training again
    from_ensemble               all of it for a trained ensemble

Paper: GLA, "Gradients Look Alike: Sensitivity is Often Overestimated in DP-SGD" (Thudi et al. 2024), with the
corrections that docs/per-instance.md lists.
"""

from seedscope.analyses.per_instance.composition import (
    Composition,
    best_holder,
    compose_expected,
    default_holder,
    expected_contributions,
    runs_needed,
    statistical_contributions,
    step_orders,
)
from seedscope.analyses.per_instance.everybody import everybodys_rdp, path_sums
from seedscope.analyses.per_instance.fine_tuning import (
    FineTuning,
    fine_tuning_steps,
    gradient_contraction,
    iteration_rdp,
    spread_rdp,
)
from seedscope.analyses.per_instance.from_ensemble import (
    PerInstancePrivacy,
    StepShares,
    Training,
    contribution_shares,
    per_instance_privacy,
    run_epsilon,
    step_shares,
    training_of,
)
from seedscope.analyses.per_instance.general_rules import GeneralStep, general_step, general_step_rdp, sampled_step_rdp
from seedscope.analyses.per_instance.meaning import (
    epsilon_advantage,
    epsilon_true_positive_rate,
    gaussian_true_positive_rate,
    membership_advantage,
    memorisation,
    true_positive_rate,
)
from seedscope.analyses.per_instance.paths import (
    CutOff,
    PathComposition,
    compose_paths,
    cut_off,
    paths_rdp,
    paths_rdp_upper,
)
from seedscope.analyses.per_instance.steps import clipped, step_epsilon, step_epsilon_worst, step_rdp, step_share
from seedscope.analyses.per_instance.unlearning import (
    Decision,
    Divergence,
    UnlearningSchedule,
    orders_needed,
    unlearning_decisions,
)

__all__ = [
    "Composition",
    "CutOff",
    "Decision",
    "Divergence",
    "FineTuning",
    "GeneralStep",
    "PathComposition",
    "PerInstancePrivacy",
    "StepShares",
    "Training",
    "UnlearningSchedule",
    "best_holder",
    "clipped",
    "compose_expected",
    "compose_paths",
    "contribution_shares",
    "cut_off",
    "default_holder",
    "epsilon_advantage",
    "epsilon_true_positive_rate",
    "everybodys_rdp",
    "expected_contributions",
    "fine_tuning_steps",
    "gaussian_true_positive_rate",
    "general_step",
    "general_step_rdp",
    "gradient_contraction",
    "iteration_rdp",
    "membership_advantage",
    "memorisation",
    "orders_needed",
    "path_sums",
    "paths_rdp",
    "paths_rdp_upper",
    "per_instance_privacy",
    "run_epsilon",
    "runs_needed",
    "sampled_step_rdp",
    "spread_rdp",
    "statistical_contributions",
    "step_epsilon",
    "step_epsilon_worst",
    "step_orders",
    "step_rdp",
    "step_share",
    "step_shares",
    "training_of",
    "true_positive_rate",
    "unlearning_decisions",
]
