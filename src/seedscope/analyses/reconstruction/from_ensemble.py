"""Leakage of training records from an ensemble trained by DP-SGD with recorded Fisher traces."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Literal, cast, get_args

import numpy as np

from seedscope.accounting import SMOOTH_CLIPPING_BOUND
from seedscope.analyses.reconstruction.amplification import Sampling, amplification_estimate, amplification_proved
from seedscope.analyses.reconstruction.exact_amplification import amplification_exact
from seedscope.analyses.reconstruction.leakage import Leakage, average_traces
from seedscope.core import BASE, Number, SeedscopeError, last_step, require, unknown_name
from seedscope.mechanisms import NoisySums
from seedscope.storage import Ensemble

UNITS = "features in the units that training saw: one unit is a scaled feature's 1"
Amplification = Literal["exact", "own", "none", "proved", "estimate"]


def training_leakage(
    ensemble: Ensemble, amplification: Amplification = "exact", confidence: float = 0.95, step: int | None = None
) -> Leakage:
    """Return how much DP-SGD revealed of each traced row, averaged over seeds: the models of the base data set.

    Args:
        ensemble: trained with `DPSGD(clipping=SmoothClipping())` and `Records(fisher_traces=…)`; the traced rows are
            named by its coordinate `traced_row`.
        amplification: which factor κ: the "exact" one; each record's "own", from its recorded gradient norms
            (`Records(norms=Norms(of="train"))`), which is smaller still; the looser "proved" one; "none"; or BR's
            "estimate". Shuffled batches have none.
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
    traces = ensemble.dataset["fisher_traces"].sel(neighbour=BASE)
    known = traces["step"].values.tolist()
    require(step is None or step in known, f"step must be a checkpoint, one of {known}, got {step}.")
    at = last_step(traces) if step is None else traces.sel(step=step)
    values = np.asarray(at.values, float)
    private = ensemble.description.records.get("private")
    features = prod(ensemble.description.data.shape) if private is None else len(private)
    if amplification == "own":
        values, amplification = values * _own_factors(ensemble), "none"
    leakage = average_traces(
        values.reshape(-1, values.shape[-1]), features, _factor(ensemble, amplification), confidence
    )
    return replace(leakage, note=f"{leakage.note}; {UNITS}")


def _own_factors(ensemble: Ensemble) -> np.ndarray:
    """Return κ of each run and record [seed, init, record]: that of the largest clipped gradient that the run had."""
    sums = _amplified_sums(ensemble)
    require(
        "gradient_norms" in ensemble.dataset and len(ensemble.dataset["norm_step"]) == sums.steps + 1,
        "no gradient norms were recorded at every step; use Records(norms=Norms(of='train')).",
    )
    norms = ensemble.dataset["gradient_norms"].sel(neighbour=BASE)
    watched, traced = (ensemble.dataset[name].values for name in ("watched_row", "traced_row"))
    inside = np.isin(traced, watched) & (ensemble.dataset["watched_part"].values[0] != "test")
    require(inside, "gradient norms must be recorded of the rows that traces are; use Norms(of='train').")
    places = np.searchsorted(watched, traced, sorter=np.argsort(watched))
    relative = np.asarray(norms.values, float)[..., np.argsort(watched)[places]] / sums.clipping_norm
    largest = (relative / (gelu(relative - 1) + 1)).max(axis=-2)
    grid = np.linspace(0, SMOOTH_CLIPPING_BOUND, 2049)
    kappas = amplification_exact(
        sums.sampling_probability, sums.noise_multiplier, subset=sums.sampling.amplifies == "subset", norm=grid
    )
    above = np.searchsorted(grid, np.minimum(largest, grid[-1]))  # κ grows with the norm: the next one of the grid
    factors: np.ndarray = kappas[above]
    return factors


def gelu(x: np.ndarray) -> np.ndarray:
    """Return x·Φ(x)."""
    from scipy.special import ndtr

    product: np.ndarray = x * ndtr(x)
    return product


def _amplified_sums(ensemble: Ensemble) -> NoisySums:
    """Return the noisy sums of a run whose batches have an amplification, or raise."""
    sums = ensemble.mechanism.noisy_sums(ensemble.description.data.examples)
    assert sums is not None  # nothing else records traces
    if sums.sampling.amplifies is None:
        remedy = "use amplification='none' or train with Poisson() batches"
        raise SeedscopeError(f"{sums.sampling} batches have no amplification; {remedy}.")
    return sums


def _factor(ensemble: Ensemble, amplification: Amplification) -> Number:
    """Return the factor κ of the ensemble's noise, rate and sampling."""
    if amplification == "none":
        return Number(1.0, "proved")
    sums = _amplified_sums(ensemble)
    sampling = cast("Sampling", sums.sampling.amplifies)
    noise, rate = sums.noise_multiplier, sums.sampling_probability
    if amplification == "exact":
        return Number(float(amplification_exact(rate, noise, subset=sampling == "subset")), "proved")
    if amplification == "proved":
        return Number(float(amplification_proved(noise, rate, sampling)), "proved")
    return Number(float(amplification_estimate(noise, rate, sums.delta, sampling)), "estimate")
