"""What each re-trained model, were it the released one, would tell by itself about its decisions: privacy-free."""

from __future__ import annotations

import numpy as np

from seedscope.analyses.multiplicity import ReleasedDisagreement, released_model_disagreement
from seedscope.core import BASE, Number, last_step, varied_init
from seedscope.datasets import Dataset
from seedscope.numerics import mean_interval
from seedscope.storage import Ensemble

CERTAIN = 0.75  # self-consistency that a decision needs not to be abstained from: a disagreement of at most ½


def told_by_released(ensemble: Ensemble, data: Dataset, confidence: float = 0.95) -> ReleasedDisagreement | None:
    """Return how arbitrary decisions [model, test person] are by each model alone; None where models cannot tell.

    They can where Gaussian noise of a public scale is on the weights of a linear model.
    """
    noise = ensemble.mechanism.weight_noise(ensemble.description.conditions)
    if noise is None:
        return None
    rows = ensemble.scaling.fit(data).apply(np.asarray(data.test.unfilled, float))
    weights = last_step(varied_init(ensemble.weights.sel(neighbour=BASE))).values.astype(float)
    logits = 1 if data.classes == 2 else data.classes  # a network's order: all classes' weights, then the biases
    coefficients = weights[:, :-logits].reshape(len(weights), logits, -1)
    scores = np.moveaxis(coefficients @ rows.T, 1, 2) + weights[:, None, -logits:]
    norms, linear = np.hypot(np.linalg.norm(rows, axis=1), 1), scores[..., 0] if logits == 1 else scores
    return released_model_disagreement(linear, norms, noise, confidence, classes=data.classes)


def certain_share(ensemble: Ensemble, data: Dataset, confidence: float = 0.95) -> Number | None:
    """Return the share of test people whom a released model would certify, on average over models; None without."""
    told = told_by_released(ensemble, data, confidence)
    if told is None:
        return None
    shares = told.certain(CERTAIN).mean(axis=1)
    low, high = mean_interval(shares, confidence)
    return Number(float(shares.mean()), "estimate", max(0.0, float(low)), min(1.0, float(high)), confidence)
