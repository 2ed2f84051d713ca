"""Leakage of training records from an ensemble trained by DP-SGD with recorded Fisher traces."""

from __future__ import annotations

from math import prod
from typing import Any, Literal, get_args

import numpy as np

from seedscope.analyses.reconstruction.amplification import Sampling, amplification_estimate, amplification_proved
from seedscope.analyses.reconstruction.leakage import Leakage, average_traces
from seedscope.errors import require, unknown_name
from seedscope.number import Number

Amplification = Literal["none", "proved", "estimate"]
SAMPLINGS: dict[str, Sampling] = {"Poisson": "poisson", "WithoutReplacement": "subset"}


def training_leakage(
    ensemble: Any, amplification: Amplification = "proved", confidence: float = 0.95, step: int | None = None
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
    factor = _factor(ensemble.description, amplification)
    return average_traces(
        values.reshape(-1, values.shape[-1]), prod(ensemble.description["data"]["shape"]), factor, confidence
    )


def _factor(description: dict[str, Any], amplification: Amplification) -> Number:
    """Return the factor κ of the ensemble's noise, rate and sampling."""
    mechanism, name = description["mechanism"], description["mechanism"]["sampling"]["type"]
    if amplification == "none":
        return Number(1.0, "proved")
    require(
        name in SAMPLINGS,
        f"{name} batches have no amplification; use amplification='none' or train with Poisson() batches.",
    )
    noise, rate = mechanism["noise_multiplier"], mechanism["batch_size"] / description["data"]["examples"]
    if amplification == "proved":
        return Number(float(amplification_proved(noise, rate, SAMPLINGS[name])), "proved")
    return Number(float(amplification_estimate(noise, rate, mechanism["delta"], SAMPLINGS[name])), "estimate")
