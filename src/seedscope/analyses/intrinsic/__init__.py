"""Intrinsic privacy of SGD: does the seed move the weights more than any person's record, and what does that hide?

    distances, sensitivity, spread        what the seed and what one record do to the weights
    bounds                                what theory says about both
    privacy, from_ensemble                the epsilon they amount to: an estimate, never a guarantee
    per_person                            each person's own, along the direction that shows them best
    origin                                how much of the noise is the initial point's, and its true law
    growth, convergence                   were enough models trained, and long enough?
    normality, noise                      is the seed's noise Gaussian, Laplace, heavy-tailed?
    seed_against_data                     clusters, maps and trajectories of weights
    symmetry                              the same with hidden units matched and on one scale
    augmentation                          the utility that the seed's own noise saves

Papers: IP1 and IP2, "An Empirical Study on the Intrinsic Privacy of SGD", first and second version.
"""

from seedscope.analyses.intrinsic.augmentation import (
    AugmentedUtility,
    anisotropic_noise,
    augmented_noise_scale,
    augmented_utility,
    linear_accuracy,
)
from seedscope.analyses.intrinsic.bounds import (
    VariabilityBound,
    epochs_begun,
    logistic_lipschitz,
    logistic_smoothness,
    sgd_sensitivity_bound,
    sgd_variability_bound,
)
from seedscope.analyses.intrinsic.convergence import convergence_point
from seedscope.analyses.intrinsic.distances import (
    Distances,
    SeedAndDataDistances,
    data_distances,
    pairwise_distances,
    seed_and_data_distances,
    seed_distances,
)
from seedscope.analyses.intrinsic.from_ensemble import (
    checkpoint_weights,
    checkpoints,
    distances_along_training,
    intrinsic_privacy,
    intrinsic_privacy_along_training,
    intrinsic_privacy_of_people,
    sensitivity_bound_of,
)
from seedscope.analyses.intrinsic.growth import Growth, maximum_growth
from seedscope.analyses.intrinsic.noise import (
    Correlations,
    Histogram,
    NoiseDistribution,
    TailIndex,
    correlations,
    laplace_anderson_darling,
    least_gaussian_weights,
    noise_distribution,
    tail_index,
)
from seedscope.analyses.intrinsic.normality import (
    HenzeZirkler,
    HenzeZirklerSubsets,
    WeightTests,
    henze_zirkler,
    henze_zirkler_power,
    henze_zirkler_subsets,
    shapiro_wilk,
)
from seedscope.analyses.intrinsic.origin import (
    NoiseOrigin,
    epsilon_by_true_law,
    noise_origin,
    uniform_and_gaussian_epsilon,
)
from seedscope.analyses.intrinsic.per_person import PersonalPrivacy, personal_privacy
from seedscope.analyses.intrinsic.privacy import (
    Bootstrap,
    IntrinsicPrivacy,
    Refused,
    intrinsic_privacy_from_weights,
    pairwise_epsilon,
)
from seedscope.analyses.intrinsic.seed_against_data import (
    Clusters,
    Control,
    Projection,
    Trajectories,
    WeightMap,
    cluster_models,
    controlled_weights,
    weight_map,
    weight_trajectories,
)
from seedscope.analyses.intrinsic.sensitivity import (
    EmpiricalSensitivity,
    SampledSensitivity,
    empirical_sensitivity,
    extrapolated_sensitivity,
    sampled_sensitivity,
    sensitivity_growth,
)
from seedscope.analyses.intrinsic.spread import (
    ResampledVariability,
    Variability,
    bootstrap_shares,
    resampled_variability,
    variability,
    variability_growth,
)
from seedscope.analyses.intrinsic.symmetry import (
    HiddenLayer,
    Symmetry,
    aligned,
    balanced,
    best_order,
    matched_distances,
    without_symmetry,
)

__all__ = [
    "AugmentedUtility",
    "Bootstrap",
    "Clusters",
    "Control",
    "Correlations",
    "Distances",
    "EmpiricalSensitivity",
    "Growth",
    "HenzeZirkler",
    "HenzeZirklerSubsets",
    "HiddenLayer",
    "Histogram",
    "IntrinsicPrivacy",
    "NoiseDistribution",
    "NoiseOrigin",
    "PersonalPrivacy",
    "Projection",
    "Refused",
    "ResampledVariability",
    "SampledSensitivity",
    "SeedAndDataDistances",
    "Symmetry",
    "TailIndex",
    "Trajectories",
    "Variability",
    "VariabilityBound",
    "WeightMap",
    "WeightTests",
    "aligned",
    "anisotropic_noise",
    "augmented_noise_scale",
    "augmented_utility",
    "balanced",
    "best_order",
    "bootstrap_shares",
    "checkpoint_weights",
    "checkpoints",
    "cluster_models",
    "controlled_weights",
    "convergence_point",
    "correlations",
    "data_distances",
    "distances_along_training",
    "empirical_sensitivity",
    "epochs_begun",
    "epsilon_by_true_law",
    "extrapolated_sensitivity",
    "henze_zirkler",
    "henze_zirkler_power",
    "henze_zirkler_subsets",
    "intrinsic_privacy",
    "intrinsic_privacy_along_training",
    "intrinsic_privacy_from_weights",
    "intrinsic_privacy_of_people",
    "laplace_anderson_darling",
    "least_gaussian_weights",
    "linear_accuracy",
    "logistic_lipschitz",
    "logistic_smoothness",
    "matched_distances",
    "maximum_growth",
    "noise_distribution",
    "noise_origin",
    "pairwise_distances",
    "pairwise_epsilon",
    "personal_privacy",
    "resampled_variability",
    "sampled_sensitivity",
    "seed_and_data_distances",
    "seed_distances",
    "sensitivity_bound_of",
    "sensitivity_growth",
    "sgd_sensitivity_bound",
    "sgd_variability_bound",
    "shapiro_wilk",
    "tail_index",
    "uniform_and_gaussian_epsilon",
    "variability",
    "variability_growth",
    "weight_map",
    "weight_trajectories",
    "without_symmetry",
]
