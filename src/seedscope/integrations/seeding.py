"""What a seed decides of an estimator: every `random_state` in it, however deep; and that it uses one core."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

CORES = ("n_jobs", "nthread", "num_threads", "thread_count")


def seeded(estimator: Any, draw: np.random.Generator) -> Any:
    """Return an unfitted copy whose random states are all drawn anew, and which leaves the other cores alone.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> one = seeded(RandomForestClassifier(random_state=3, n_jobs=-1), np.random.default_rng(0))
    >>> one.random_state != 3, one.n_jobs
    (True, 1)
    """
    from sklearn.base import clone

    fresh = clone(estimator) if hasattr(estimator, "get_params") else copy.deepcopy(estimator)
    if not hasattr(fresh, "get_params"):
        return fresh
    parameters = fresh.get_params(deep=True)
    fresh.set_params(**_new_states(parameters, draw), **_one_core(fresh, parameters))
    return fresh


def _new_states(parameters: dict[str, Any], draw: np.random.Generator) -> dict[str, Any]:
    """Return a new value for each random state, also of splitters and the like, which have no parameters to set."""
    states: dict[str, Any] = {}
    for name, value in sorted(parameters.items()):
        if name.rpartition("__")[2] == "random_state":
            states[name] = int(draw.integers(2**31 - 1))
        elif hasattr(value, "random_state") and not hasattr(value, "get_params") and not isinstance(value, type):
            states[name] = copy.copy(value)
            if getattr(value, "shuffle", True):  # a splitter that does not shuffle takes none
                states[name].random_state = int(draw.integers(2**31 - 1))
    return states


def _one_core(estimator: Any, parameters: dict[str, Any]) -> dict[str, int]:
    """Return one core for whatever in an estimator would take several: models are fitted side by side already."""
    several = []
    for name, value in parameters.items():
        owner, _, last = name.rpartition("__")
        if last in CORES and (value is not None or _takes_all(parameters[owner] if owner else estimator)):
            several.append(name)
    return dict.fromkeys(several, 1)


def _takes_all(estimator: Any) -> bool:
    """Whether no number of cores may mean all of them: it is one core in scikit-learn, and all of them in LightGBM."""
    return not type(estimator).__module__.startswith("sklearn.")
