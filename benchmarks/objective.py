"""Objective perturbation: thousands of seeds at once, against scikit-learn fitting one at a time; several classes."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import in_fresh_process, report, seconds

SEEDS = 5000
SHAPES = {(622, 5): "15,000", (1104, 9): "6,000"}


def rows_and_labels(examples: int, features: int, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of norm at most 1 with labels that depend on them."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(examples, features)) / np.sqrt(features)
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    if classes > 2:
        logits = 4 * rows @ draw.normal(size=(features, classes))
        return rows, (logits + draw.gumbel(size=logits.shape)).argmax(1)
    chance = 1 / (1 + np.exp(-4 * rows @ draw.normal(size=features)))
    return rows, (draw.random(examples) < chance).astype(int)


def our_rate(examples: int, features: int, epsilon: float, seeds: int, data_name: str = "", classes: int = 2) -> float:
    """Return fits/s of a grid of seeds on two processes, started before."""
    import seedscope as ss

    if data_name:
        data = ss.load(data_name)
    else:
        rows, labels = rows_and_labels(examples, features, classes)
        data = ss.from_arrays(rows, labels, rows[:40], labels[:40], norm_bound=1.0)
    mechanism = ss.ObjectivePerturbation(epsilon)

    def run(root_seed: int, count: int) -> None:
        grid = ss.Grid(count, root_seed=root_seed)
        ss.train(data, mechanism, grid=grid, records=ss.Records(probes=()), jobs=2)

    run(0, min(seeds, 64))
    return seeds / seconds(lambda: run(1, seeds), repeats=1 if data_name else 3)


def peak_memory(data_name: str, epsilon: float, seeds: int) -> float:
    """Return the peak memory in GiB of this process and its largest worker while fitting."""
    import resource

    our_rate(0, 0, epsilon, seeds, data_name)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 2**20


def sklearn_rate(examples: int, features: int, epsilon: float) -> float:
    """Return fits/s of scikit-learn's Newton solver in a loop, on the same rows with the same regularisation."""
    from sklearn.linear_model import LogisticRegression

    from seedscope.mechanisms import Conditions
    from seedscope.mechanisms.objective import ObjectivePerturbation

    rows, labels = rows_and_labels(examples, features)
    penalty = ObjectivePerturbation(epsilon).tilt(Conditions(examples, 2**0.5)).penalty
    model = LogisticRegression(C=1 / (examples * penalty), tol=1e-8, solver="newton-cholesky")
    fits = 100
    return fits / seconds(lambda: [model.fit(rows, labels) for _ in range(fits)], repeats=2)


def processor_rate(examples: int, features: int, epsilon: float, classes: int, seeds: int = 500) -> float:
    """Return fits in a second of one processor's time, on one thread: a busy machine does not change it."""
    import time

    import seedscope as ss
    from seedscope.core import BASE
    from seedscope.planning import make_plan

    rows, labels = rows_and_labels(examples, features, classes)
    data = ss.from_arrays(rows, labels, rows[:40], labels[:40], norm_bound=1.0)
    plan = make_plan(data, ss.ObjectivePerturbation(epsilon), None, ss.Grid(seeds), ss.Records(probes=()))
    train, taken = plan.mechanism.trainer(plan.job), []
    for first in range(0, 4 * seeds, seeds):
        start = time.process_time()
        train(np.arange(first, first + seeds), np.array([BASE]))
        taken.append(time.process_time() - start)
    return seeds / min(taken)


def several_classes(examples: int, features: int, epsilon: float = 1.0) -> None:
    """Print how many times longer a fit takes with more than two classes."""

    def rate(classes: int) -> float:
        given = ("benchmarks.objective", "processor_rate", examples, features, epsilon, classes)
        return float(in_fresh_process(*given, threads=1))

    two = rate(2)
    for classes in (3, 5):
        more, title = rate(classes), f"two classes over {classes}: fits on {examples}×{features}, ε={epsilon:g}"
        report(title, two, more, "fits/s", f"at most {2 * classes}×")


def main() -> None:
    """Print fits/s of ours and of scikit-learn."""
    import os

    for (examples, features), goal in SHAPES.items():
        for epsilon in (0.5, 2.5):
            ours = in_fresh_process("benchmarks.objective", "our_rate", examples, features, epsilon, SEEDS)
            peer = in_fresh_process("benchmarks.objective", "sklearn_rate", examples, features, epsilon)
            report(f"objective perturbation {examples}×{features}, ε={epsilon}", ours, peer, "fits/s", f"{goal} fits/s")
    for examples, features in SHAPES:
        several_classes(examples, features)
    if not os.environ.get("SEEDSCOPE_DATA"):
        return print("adult: skipped, SEEDSCOPE_DATA is not set")
    for epsilon in (0.5, 2.5):
        ours = in_fresh_process("benchmarks.objective", "our_rate", 0, 0, epsilon, 512, "adult")
        report(f"objective perturbation on adult, ε={epsilon}", ours, unit="fits/s", goal="100 fits/s")
    memory = in_fresh_process("benchmarks.objective", "peak_memory", "adult", 0.5, 256)
    return report("objective perturbation on adult: peak memory", memory, unit="GiB", goal="2 GiB")
