"""A user's own estimator: what the grid, its store and its checks cost beside a bare loop over the same fits."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, report

FITS = 500
ROWS = 5000


def rows_and_labels(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels of a named set, at most 5,000."""
    import seedscope as ss

    data = ss.load(name)
    chosen = np.random.default_rng(0).permutation(len(data.train))[:ROWS]
    return np.asarray(data.train.features[chosen], float), data.train.labels[chosen]


def boosting() -> Any:
    """Return a small gradient boosting that depends on its seed."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8, max_features=0.5, early_stopping=False)


def _processor_seconds(start: tuple[float, ...]) -> float:
    """Return the processor seconds of this process and its ended children since a call of `os.times`."""
    now = os.times()
    return sum(now[:4]) - sum(start[:4])


def our_seconds(name: str, fits: int) -> float:
    """Return the processor seconds of an audit of this many fits in one process, kept in a store."""
    import seedscope as ss

    X, y = rows_and_labels(name)
    start = os.times()
    with tempfile.TemporaryDirectory() as folder:
        ss.audit(boosting(), X, y, seeds=fits, neighbours=0, jobs=1, store=f"{folder}/runs")
    return _processor_seconds(start)


def bare_seconds(name: str, fits: int) -> float:
    """Return the processor seconds of joblib calling fit and predict_proba on the same rows, one thread each."""
    from joblib import Parallel, delayed
    from sklearn.model_selection import train_test_split
    from threadpoolctl import threadpool_limits

    X, y = rows_and_labels(name)
    start = os.times()
    train, test = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=0)

    def one(seed: int) -> np.ndarray:
        model = boosting().set_params(random_state=seed).fit(X[train], y[train])
        return np.asarray(model.predict_proba(X[test]))

    with threadpool_limits(1):
        Parallel(n_jobs=1)(delayed(one)(seed) for seed in range(fits))
    return _processor_seconds(start)


def main(fits: int = FITS) -> None:
    """Print our processor seconds, the bare loop's, and their ratio."""
    name = "adult" if os.environ.get("SEEDSCOPE_DATA") else "breast-cancer"
    begun = time.perf_counter()
    ours = in_fresh_process("benchmarks.own_models", "our_seconds", name, fits)
    bare = in_fresh_process("benchmarks.own_models", "bare_seconds", name, fits)
    report(f"{fits} fits of a small boosting on {name}", ours, bare, "processor s", "at most 1.05×")
    print(f"both took {time.perf_counter() - begun:.0f} s")
