"""Counts how often trained models decide otherwise than the stand-ins of their seeds."""

from __future__ import annotations

import numpy as np

from seedscope.analyses.multiplicity import StandIns, decisions
from seedscope.core import BASE, require, varied_init
from seedscope.datasets import Dataset
from seedscope.planning import Grid, Records, make_plan
from seedscope.storage import Ensemble
from seedscope.training import Surrogate


def stand_ins_of(ensemble: Ensemble, data: Dataset) -> StandIns | None:
    """Return what stand-ins say about the test people of an ensemble; None where its mechanism has none at hand.

    Args:
        ensemble: with scores on the test part.
        data: what it was trained on: stand-ins are worked out from the rows.
    """
    if not ensemble.mechanism.surrogate_afterwards:
        return None
    described = ensemble.description
    prints = {data.fingerprint, data.former_fingerprint}
    require(described.data.fingerprint in prints, "data must be what the ensemble was trained on; it was not.")
    grid, records = Grid(2, root_seed=described.grid.root_seed), Records(probes=("test",))
    plan = make_plan(data, ensemble.mechanism, None, grid, records, ensemble.scaling)
    surrogate = ensemble.mechanism.surrogate(plan.job)
    return None if surrogate is None else counted(ensemble, surrogate.for_models(ensemble.dataset.sizes["seed"]))


def counted(ensemble: Ensemble, surrogate: Surrogate, first: int = 0) -> StandIns:
    """Return the counts over an ensemble's base models from seed `first` on, for stand-ins on the test part."""
    scores = varied_init(ensemble.on("test")["scores"].sel(neighbour=BASE)).isel(seed=slice(first, None))
    seeds = np.arange(first, first + scores.sizes["seed"])
    shares, decided = surrogate.shares, decisions(scores.values)
    return StandIns.counted(
        shares.values, decided, surrogate.decisions(seeds),
        below=shares.below, above=shares.above, risk=shares.risk, variance=shares.variance,
    )  # fmt: skip


def on_test(surrogate: Surrogate, ensemble: Ensemble) -> Surrogate:
    """Return the stand-ins on the test part only, of an ensemble with more probes."""
    return surrogate.at(np.flatnonzero(ensemble.texts("example_part") == "test"))
