"""Reconstruction robustness: the chance that an attacker with a prior succeeds, from noise and rate.

An attacker who guesses from the prior alone is right with chance κ, whatever "right" means. With a model trained by
DP-SGD at hand the chance is at most sup P(E) over events with Q(E) ≤ κ, where P is a run with the record and Q one
without it (its output cannot depend on the record, so on average over the prior it is right with chance κ). For Poisson
batches `loss_distribution` has that supremum, for any network.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from seedscope.accounting.loss_distribution import NEGLIGIBLE, sampled_gaussian_rates, slack, total_variation
from seedscope.core import require_count, require_positive, require_probability


def reconstruction_success_upper(
    prior: ArrayLike, noise_multiplier: float, sampling_probability: float = 1.0, steps: int = 1
) -> np.ndarray:
    """Return the largest chance of a successful reconstruction, an upper bound with a slack of 1e-9.

    The answer to: "they would guess right once in a thousand times anyway; how often with the model?" Batches must be
    Poisson batches. For output perturbation use `noise_multiplier` = noise scale / replace-one sensitivity and the
    defaults otherwise.

    Args:
        prior: the chance κ of success without the model, any shape.
        noise_multiplier: noise standard deviation over the clipping norm.
        sampling_probability: the chance q of a record to be in a batch.
        steps: number of steps T.

    >>> reconstruction_success_upper([0.001, 0.1], noise_multiplier=1.0, sampling_probability=0.01, steps=1000).round(3)
    array([0.004, 0.194])
    >>> float(reconstruction_success_upper(0.1, noise_multiplier=2.0, steps=4).round(4))      # Φ(Φ⁻¹(κ) + √T/σ)
    0.3891

    Hayes, Mahloujifar & Balle 2023, "Bounding training data reconstruction in DP-SGD"; they sample what is computed
    here. Kaissis et al. 2023 have the closed form without sampling.
    """
    require_probability("prior", prior, closed=True)
    require_positive("noise_multiplier", noise_multiplier)
    require_probability("sampling_probability", sampling_probability, closed=True)
    require_count("steps", steps)
    kappa = np.asarray(prior, float)
    if sampling_probability == 0:
        return kappa[()]
    distance = total_variation(noise_multiplier, sampling_probability, steps)
    if sampling_probability == 1:
        upper = ndtr(ndtri(kappa) + np.sqrt(steps) / noise_multiplier)
    elif distance < NEGLIGIBLE:
        upper = kappa + distance
    else:
        upper = sampled_gaussian_rates(noise_multiplier, sampling_probability, steps).at(kappa)
    upper = np.minimum(upper + slack(steps), kappa + distance)
    return np.where(kappa == 0, 0.0, np.clip(upper, kappa, 1.0))[()]
