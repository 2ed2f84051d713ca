"""Would scrambled Sobol noise save re-trainings? Sets of models with such noise, and an exact interval over the sets.

Models are stand-ins to the third order, which decide as the models do but for a third of a percent of the variance:
only the noise matters here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.measure import report

if TYPE_CHECKING:
    from seedscope.training.surrogates import LinearSurrogate

ERROR, EPSILON, DELTA, MOST_SETS = 0.05, 1.0, 1e-5, 4096
SIZES = (4, 16, 64, 256, 1024)


def shares_of_sets(surrogate: LinearSurrogate, size: int, sets: int, scrambled: bool) -> np.ndarray:
    """Return the share of models that decide 1 about each person, [set, person]."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    width, shares = surrogate.spread.shape[1], []
    draw = np.random.default_rng(0)
    for _ in range(sets):
        uniform = qmc.Sobol(width, rng=draw).random(size) if scrambled else draw.random((size, width))
        tilts = surrogate.noise.scale * ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
        assert surrogate.terms is not None
        moved = surrogate.terms.added(tilts @ surrogate.spread.T)
        shares.append(((surrogate.centre + moved) @ surrogate.rows.T > 0).mean(0))
    return np.array(shares)


def largest_error(shares: np.ndarray) -> float:
    """Return how far anybody's disagreement may be from the middle of its exact interval over the sets."""
    from seedscope.analyses.multiplicity.intervals import disagreement_image
    from seedscope.numerics import betting_interval

    lower, upper = disagreement_image(*betting_interval(shares, 0.95, together=shares.shape[1]))
    return float((upper - lower).max() / 2)


def fewest_sets(shares: np.ndarray) -> float:
    """Return the fewest sets that make everybody's error small enough, to about 3 %; infinite where none do."""
    sets = 8
    while sets <= len(shares):
        if largest_error(shares[:sets]) <= ERROR:
            return sets
        sets += max(1, sets // 32)
    return float("inf")


def main(name: str = "mammography") -> None:
    """Print, for sets of each size, how much narrower shares scatter and how many models ±.05 for everybody takes."""
    import seedscope as ss
    from seedscope.planning import make_plan
    from seedscope.training.surrogates import LinearSurrogate

    if not os.environ.get("SEEDSCOPE_DATA"):
        return print("scrambled: skipped, SEEDSCOPE_DATA is not set")
    mechanism = ss.GaussianObjectivePerturbation(EPSILON, DELTA)
    plan = make_plan(ss.load(name), mechanism, None, ss.Grid(2), ss.Records(probes=("test",)))
    surrogate = mechanism.surrogate(plan.job)
    assert isinstance(surrogate, LinearSurrogate)
    for size in SIZES:
        sets = MOST_SETS // max(1, size // 16)
        scrambled, plain = (shares_of_sets(surrogate, size, 256, one).var(0) for one in (True, False))
        times = plain.sum() / scrambled.sum()
        report(f"{name}, sets of {size}: variance of a share without over with", float(times), unit="×")
        fewest = fewest_sets(shares_of_sets(surrogate, size, sets, True))
        report(
            f"{name}, sets of {size}: models for ±{ERROR:g} of everybody",
            fewest * size,
            unit=f"models, {fewest:g} sets",
        )
    return None
