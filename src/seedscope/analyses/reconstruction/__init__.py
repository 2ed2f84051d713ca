"""Reconstruction: how well any attacker can at best recover a training record, and how well a known attack does."""

from seedscope.accounting import (
    SMOOTH_CLIPPING_BOUND,
    dpsgd_rdp,
    gaussian_rdp,
    pure_epsilon_rdp,
    reconstruction_success_upper,
)
from seedscope.analyses.reconstruction.amplification import (
    amplification_estimate,
    amplification_factors,
    amplification_proved,
)
from seedscope.analyses.reconstruction.attack import AttackErrors, attack_errors, attack_reconstructions
from seedscope.analyses.reconstruction.candidates import Candidates, candidates_for
from seedscope.analyses.reconstruction.error_bounds import (
    feature_error_lower,
    fisher_error_lower,
    fisher_matrix_error_lower,
    rdp_error_lower,
    rdp_feature_error_lower,
    rdp_uncertainty_left,
)
from seedscope.analyses.reconstruction.exact_amplification import amplification_exact
from seedscope.analyses.reconstruction.from_ensemble import training_leakage
from seedscope.analyses.reconstruction.guessing import (
    Guessing,
    density_success,
    posterior_success,
    tilted_candidate_ratios,
)
from seedscope.analyses.reconstruction.leakage import Leakage, average_traces, logistic_leakage
from seedscope.analyses.reconstruction.logistic import (
    logistic_dfil,
    logistic_feature_information,
    logistic_fisher_information,
    logistic_spectral_norm,
)
from seedscope.analyses.reconstruction.record_bounds import (
    RecordBounds,
    mechanism_success_upper,
    record_bounds,
    replace_one_rdp,
)
from seedscope.analyses.reconstruction.stepped_columns import grid_error_lower, information_on_grid, value_step
from seedscope.analyses.reconstruction.tilted_information import FeatureInformation, tilted_feature_information

__all__ = [
    "SMOOTH_CLIPPING_BOUND",
    "AttackErrors",
    "Candidates",
    "FeatureInformation",
    "Guessing",
    "Leakage",
    "RecordBounds",
    "amplification_estimate",
    "amplification_exact",
    "amplification_factors",
    "amplification_proved",
    "attack_errors",
    "attack_reconstructions",
    "average_traces",
    "candidates_for",
    "density_success",
    "dpsgd_rdp",
    "feature_error_lower",
    "fisher_error_lower",
    "fisher_matrix_error_lower",
    "gaussian_rdp",
    "grid_error_lower",
    "information_on_grid",
    "logistic_dfil",
    "logistic_feature_information",
    "logistic_fisher_information",
    "logistic_leakage",
    "logistic_spectral_norm",
    "mechanism_success_upper",
    "posterior_success",
    "pure_epsilon_rdp",
    "rdp_error_lower",
    "rdp_feature_error_lower",
    "rdp_uncertainty_left",
    "reconstruction_success_upper",
    "record_bounds",
    "replace_one_rdp",
    "tilted_candidate_ratios",
    "tilted_feature_information",
    "training_leakage",
    "value_step",
]
