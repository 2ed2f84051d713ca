"""Leakage of training records from an ensemble trained by DP-SGD with recorded Fisher traces."""

from __future__ import annotations

from math import prod
from typing import Literal, get_args

import numpy as np

from seedscope.analyses.reconstruction.amplification import amplification_estimate, amplification_proved
from seedscope.analyses.reconstruction.leakage import Leakage, average_traces
from seedscope.core import Number, SeedscopeError, require, unknown_name
from seedscope.storage import Ensemble

Amplification = Literal["none", "proved", "estimate"]


def training_leakage(
    ensemble: Ensemble, amplification: Amplification = "proved", confidence: float = 0.95, step: int | None = None
) -> Leakage:
    """Return how much DP-SGD revealed of each traced row, averaged over seeds: the models of the base data set.

    Args:
        ensemble: trained with `DPSGD(clipping=SmoothClipping())` and `Records(fisher_traces=…)`; the traced rows are
            named by its coordinate `traced_row`.
        amplification: which factor κ: "none", "proved", or BR's "estimate". Shuffled batches have none.
        confidence: of the interval over seeds.
        step: a checkpoint; by default the last.

    BR Equation 4.
    """
    if amplification not in get_args(Amplification):
        raise unknown_name("amplification", amplification, get_args(Amplification))
    require(
        "fisher_traces" in ensemble.dataset,
        "no Fisher traces were recorded; use DPSGD(clipping=SmoothClipping()) and Records(fisher_traces='train').",
    )
    traces = ensemble.dataset["fisher_traces"].sel(neighbour=-1)
    known = traces["step"].values.tolist()
    require(step is None or step in known, f"step must be a checkpoint, one of {known}, got {step}.")
    at = traces.isel(step=-1) if step is None else traces.sel(step=step)
    values = np.asarray(at.values, float)
    features = prod(ensemble.description.data.shape)
    return average_traces(values.reshape(-1, values.shape[-1]), features, _factor(ensemble, amplification), confidence)


def _factor(ensemble: Ensemble, amplification: Amplification) -> Number:
    """Return the factor κ of the ensemble's noise, rate and sampling."""
    if amplification == "none":
        return Number(1.0, "proved")
    sums = ensemble.mechanism.noisy_sums(ensemble.description.data.examples)
    assert sums is not None  # nothing else records traces
    sampling = sums.sampling.amplifies
    if sampling is None:
        remedy = "use amplification='none' or train with Poisson() batches"
        raise SeedscopeError(f"{sums.sampling} batches have no amplification; {remedy}.")
    noise, rate = sums.noise_multiplier, sums.sampling_probability
    if amplification == "proved":
        return Number(float(amplification_proved(noise, rate, sampling)), "proved")
    return Number(float(amplification_estimate(noise, rate, sums.delta, sampling)), "estimate")
