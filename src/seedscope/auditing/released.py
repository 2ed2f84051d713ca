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

    They can where Gaussian noise of a public scale is on the weights of a linear model of two classes.
    """
    noise = ensemble.mechanism.weight_noise(ensemble.description.conditions)
    if noise is None or data.classes != 2:
        return None
    rows = ensemble.scaling.fit(data).apply(np.asarray(data.test.unfilled, float))
    weights = last_step(varied_init(ensemble.weights.sel(neighbour=BASE))).values.astype(float)
    scores, norms = weights[:, :-1] @ rows.T + weights[:, -1:], np.hypot(np.linalg.norm(rows, axis=1), 1)
    return released_model_disagreement(scores, norms, noise, confidence)


def certain_share(ensemble: Ensemble, data: Dataset, confidence: float = 0.95) -> Number | None:
    """Return the share of test people whom a released model would certify, on average over models; None without."""
    told = told_by_released(ensemble, data, confidence)
    if told is None:
        return None
    shares = told.certain(CERTAIN).mean(axis=1)
    low, high = mean_interval(shares, confidence)
    return Number(float(shares.mean()), "estimate", max(0.0, float(low)), min(1.0, float(high)), confidence)
