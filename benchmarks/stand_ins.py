"""How many re-trainings stand-ins with the same noise save, and how much of a processor's time, everything included."""

from __future__ import annotations

import os
import time

from benchmarks.measure import in_fresh_process, report

ERRORS = {"mammography": 0.05, "adult": 0.05}
EPSILONS = (1.0, 2.5)
MEASURED = ("benchmarks.stand_ins", "models_and_seconds")
PEOPLE = {"mammography": 208, "adult": 16_281}  # in the test part


def models_and_seconds(name: str, epsilon: float, surrogate: bool) -> list[float]:
    """Return how many models it takes to know every test person's disagreement, and a processor's seconds for it."""
    import seedscope as ss

    data, mechanism = ss.load(name), ss.GaussianObjectivePerturbation(epsilon, 1e-5)
    start = time.process_time()
    found = ss.train_until(data, mechanism, error=ERRORS[name], surrogate=surrogate, jobs=1)
    return [float(found.seeds), time.process_time() - start]


def fewest_alike(people: int, error: float) -> int:
    """Return the models that the exact interval needs at a number fixed beforehand, measured alike: half its width."""
    import numpy as np

    import seedscope as ss

    def half_width(models: int) -> float:
        lower, upper = ss.multiplicity.disagreement_interval(np.arange(models // 2 + 1), models, 0.95, examples=people)
        return float((upper - lower).max() / 2)

    low, high = 100, 100_000
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if half_width(middle) <= error else (middle + 1, high)
    return low


def main() -> None:
    """Print models and seconds with and without stand-ins."""
    if not os.environ.get("SEEDSCOPE_DATA"):
        return print("stand-ins: skipped, SEEDSCOPE_DATA is not set")
    for name in ERRORS:
        for epsilon in EPSILONS:
            few, quick = in_fresh_process(*MEASURED, name, epsilon, True, threads=1)
            many, slow = in_fresh_process(*MEASURED, name, epsilon, False, threads=1)
            report(f"{name}, ε={epsilon:g}: models without over with stand-ins", many, few, "models", "4×")
            fixed = fewest_alike(PEOPLE[name], ERRORS[name])
            report(f"{name}, ε={epsilon:g}: the same against a fixed number, half widths", fixed, few, "models", "4×")
            report(f"{name}, ε={epsilon:g}: processor seconds without over with them", slow, quick, "s")
    return None
