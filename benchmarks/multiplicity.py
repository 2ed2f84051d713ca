"""AD's Table 2, 160,000 private models with all statistics, against scikit-learn; statistics of many models."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, report, seconds

MODELS, EXAMPLES = 5000, 20_000
LOOPED = 40  # fits of the loop that are timed, for each data set and ε


def table_seconds(jobs: int) -> float:
    """Return the time of all of Table 2: fits, scores on the test part, all statistics; processes start within it."""
    from seedscope.reproduce.multiplicity import PAPER
    from seedscope.reproduce.multiplicity.models import EPSILONS, TABLES, Cell, outcomes, table_outcome

    cells = [Cell(name, epsilon, PAPER, MODELS) for name in TABLES for epsilon in EPSILONS]
    return seconds(lambda: outcomes(table_outcome, cells, jobs, lambda done, total: None), repeats=1)


def loop_seconds() -> float:
    """Return what Table 2 would take in a loop of scikit-learn, from a few fits with their metrics in each cell."""
    from seedscope.reproduce.multiplicity import PAPER
    from seedscope.reproduce.multiplicity.models import EPSILONS, TABLES, Cell, bounded_data

    return sum(
        loop_rate(bounded_data(name), Cell(name, epsilon, PAPER, MODELS)) for name in TABLES for epsilon in EPSILONS
    )


def loop_rate(data: Any, cell: Any) -> float:
    """Return the seconds of a cell's models one by one: the same penalty, Newton's method, AUC, F1 and decisions."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score, roc_auc_score

    from seedscope.mechanisms import Conditions

    examples = len(data.base)
    penalty = cell.mechanism.tilt(Conditions(examples, float(np.hypot(data.norm_bound, 1)))).penalty
    model = LogisticRegression(C=1 / (examples * penalty), tol=1e-8, solver="newton-cholesky")

    def one() -> None:
        model.fit(data.features, data.labels)
        scores = model.predict_proba(data.test_features)[:, 1]
        roc_auc_score(data.test_labels, scores)
        f1_score(data.test_labels, scores > 0.5)

    models: int = cell.models

    def loop() -> None:
        for _ in range(LOOPED):
            one()

    one()
    return models * seconds(loop, repeats=1) / LOOPED


def statistics_seconds(kind: str) -> float:
    """Return the time of all statistics of 5,000 models × 20,000 examples with groups, from decisions or scores."""
    import seedscope as ss

    draw = np.random.default_rng(0)
    chances = draw.random(EXAMPLES, np.float32)
    scores = draw.random((MODELS, EXAMPLES), np.float32)
    source = scores if kind == "scores" else scores < chances
    labels, groups = (chances > 0.5).astype(int), {"sex": np.where(draw.random(EXAMPLES) < 0.5, "f", "m")}
    return seconds(lambda: ss.multiplicity.multiplicity(source, labels, groups), repeats=2)


def main() -> None:
    """Print the time of Table 2 beside scikit-learn's, and of the statistics."""
    for kind in ("decisions", "scores"):
        taken = in_fresh_process("benchmarks.multiplicity", "statistics_seconds", kind)
        report(f"all statistics of {MODELS:,} × {EXAMPLES:,} {kind}", taken, unit="s", goal="3 s")
    if not os.environ.get("SEEDSCOPE_DATA"):
        return print("AD Table 2: skipped, SEEDSCOPE_DATA is not set")
    ours = in_fresh_process("benchmarks.multiplicity", "table_seconds", 2)
    report("AD Table 2: 160,000 models with all statistics", ours, unit="s", goal="90 s, aim 30 s")
    peer = in_fresh_process("benchmarks.multiplicity", "loop_seconds")
    return report(
        "AD Table 2: models/s against scikit-learn in a loop", 160_000 / ours, 160_000 / peer, "models/s", "50×"
    )
