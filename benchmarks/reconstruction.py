"""Leakage of all zeros and ones of MNIST, and the attack on them, against one trial at a time."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, report, seconds

RECORDS, PIXELS = 12_665, 784
L2, NOISE = 1e-2, 1e-5
TRIALS, LOOPED = 10_000, 5


def regression() -> tuple[Any, ...]:
    """Return features, labels and weights: MNIST's zeros and ones, or rows of that shape where MNIST is not at hand."""
    from seedscope.solvers import LogisticProblem

    if os.environ.get("SEEDSCOPE_DATA"):
        import seedscope as ss

        data = ss.load("mnist")
        two = data.labels < 2
        features, labels = data.features[two].reshape(-1, PIXELS), data.labels[two]
    else:
        draw = np.random.default_rng(0)
        features = draw.random((RECORDS, PIXELS), np.float32) * (draw.random((RECORDS, PIXELS)) < 0.2)
        labels = (features[:, :100].sum(1) > features[:, 100:200].sum(1)).astype(int)
    rows = np.column_stack([features.astype(float), np.ones(len(features))])
    problem = LogisticProblem(rows, labels, np.full(PIXELS + 1, L2))
    return features, labels, problem.minimise(np.zeros(PIXELS + 1)).weights[0]


def leakage() -> dict[str, float]:
    """Return seconds and additional peak memory (GiB) of the leakage of all records."""
    import resource

    import seedscope as ss

    features, labels, weights = regression()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = seconds(lambda: ss.reconstruction.logistic_dfil(features, labels, weights, L2, NOISE))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": taken, "peak": after / 2**20, "more": (after - before) / 2**20}


def attack() -> dict[str, float]:
    """Return seconds of the blocked attack, and what a loop over as many trials takes, from a few of them."""
    import seedscope as ss

    features, labels, weights = regression()
    draw = np.random.default_rng(0)
    blocked = seconds(
        lambda: ss.reconstruction.attack_errors(features, labels, weights, L2, NOISE, TRIALS, draw, box=(0, 1)),
        repeats=1,
    )
    looped = seconds(lambda: looped_attack(features, labels, weights), repeats=2) * TRIALS / LOOPED
    return {"blocked": blocked, "looped": looped}


def looped_attack(features: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return each record's mean error, one trial at a time, all records of a trial together, in float32."""
    rows = np.column_stack([features, np.ones(len(features), np.float32)])
    draw, total = np.random.default_rng(0), np.zeros(len(rows))
    for _ in range(LOOPED):
        released = (weights + NOISE * draw.normal(size=len(weights))).astype(np.float32)
        gradients = (1 / (1 + np.exp(-(rows @ released))) - labels.astype(np.float32))[:, None] * rows
        others = gradients.sum(0) - gradients + len(rows) * np.float32(L2) * released
        total += ((others / others[:, -1:] - rows) ** 2).mean(1)
    return total / LOOPED


def main() -> None:
    """Print time and memory of the leakage, and the attack beside a loop over trials."""
    found = in_fresh_process("benchmarks.reconstruction", "leakage")
    report("dFIL of all 12,665 records", found["seconds"], unit="s", goal="3 s")
    report("dFIL: peak memory of the process, data included", found["peak"], unit="GiB", goal="1.5 GiB")
    found = in_fresh_process("benchmarks.reconstruction", "attack")
    report("attack: 10,000 trials × 12,665 records", found["blocked"], unit="s", goal="30 s")
    report("attack: trials/s against a loop", TRIALS / found["blocked"], TRIALS / found["looped"], "trials/s", "20×")
