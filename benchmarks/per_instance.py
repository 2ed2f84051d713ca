"""Per-instance accounting of everybody in a data set of MNIST's size, and a million step divergences."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, report, seconds

PEOPLE, STEPS = 60_000, 4_690
ORDERS = (1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def everybody() -> dict[str, float]:
    """Return seconds and peak memory (GiB, the norms included) of composing everybody's steps at eight orders."""
    import resource

    import seedscope as ss

    draw = np.random.default_rng(0)
    norms = np.empty((1, STEPS, PEOPLE), np.float32)
    for step in range(STEPS):
        norms[0, step] = draw.standard_exponential(PEOPLE, np.float32) * np.float32(0.2)
    start = time.perf_counter()
    rdp = ss.per_instance.everybodys_rdp(norms, 1.0, 128 / PEOPLE, ORDERS)
    taken = time.perf_counter() - start
    some = np.minimum(norms[:, :, 7], 1.0)
    compose = ss.per_instance.compose_expected
    exact = [float(compose(some, 1.0, 128 / PEOPLE, one, clipping_norm=1.0).total) for one in ORDERS]
    return {
        "seconds": taken,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "above": float(np.max(rdp[7] / exact)),
    }


def step_divergences() -> float:
    """Return seconds of a million (sensitivity, order) pairs, orders 2 to 32."""
    import seedscope as ss

    sensitivities, orders = np.linspace(0.01, 1, 1_000_000 // 31)[:, None], np.arange(2, 33)
    return seconds(lambda: ss.accounting.sampled_gaussian_rdp(sensitivities, 1.0, 0.01, orders))


def digits() -> dict[str, Any]:
    """Return what GLA's main setting gives on all of MNIST, in two runs from one initial point: 500 digits followed."""
    import seedscope as ss

    data = ss.load("mnist")
    data = replace(data, test=data.test.take(slice(500)), spare=("test", 0))
    examples = len(data.base)
    steps = round(10 * examples / 128)
    mechanism = ss.DPSGD.calibrated(10.0, 1e-5, examples=examples, batch_size=128, steps=steps, learning_rate=0.5)
    records = ss.Records(probes=("test",), norms=ss.Norms("test", every="epoch"))
    start = time.perf_counter()
    ensemble = ss.train(
        data, mechanism, model=ss.lenet5(), grid=ss.Grid(seeds=2, init="fixed"), records=records, jobs=2
    )
    taken = time.perf_counter() - start
    contributions = ss.per_instance.contribution_shares(ensemble)[1].mean(0)
    found = ss.per_instance.step_shares(ensemble)
    rows: dict[str, Any] = {"taken": taken, "accuracy": float(ensemble.accuracy().mean())}
    for name, state in (("initial", 0), ("after epoch 1", 1), ("middle", 5), ("end", -1)):
        shares, right = found.shares[:, state], found.correct[:, state] == 1
        rows[name] = {
            "mean contribution over baseline": float(contributions[min(state, len(contributions) - 1)]),
            "share of digits at least 10× below": float(np.mean(shares <= 0.1)),
            "median correct digit": float(np.median(shares[right])) if right.any() else None,
            "median wrong digit": float(np.median(shares[~right])) if not right.all() else None,
        }
    rows["median ε of the run"] = float(np.median(ss.per_instance.per_instance_privacy(ensemble).epsilon))
    return rows


def main() -> None:
    """Print time, memory and how far the rounding goes up; with the real data, what MNIST's digits get."""
    found = in_fresh_process("benchmarks.per_instance", "everybody")
    report(f"{PEOPLE:,} people × {STEPS:,} steps × {len(ORDERS)} orders", found["seconds"], unit="s", goal="60 s")
    report("peak memory of the process, norms included", found["peak"], unit="GiB", goal="4 GiB")
    report("largest ratio to one person computed without rounding", found["above"], unit="×")
    report("a million step divergences, orders 2–32", step_divergences(), unit="s", goal="3 s")
    if os.environ.get("SEEDSCOPE_DATA"):
        found = in_fresh_process("benchmarks.per_instance", "digits")
        report("LeNet-5 on all of MNIST, 10 epochs, 2 runs", found.pop("taken"), unit="s")
        for name, value in found.items():
            print(f"  {name}: {value}")


if __name__ == "__main__":
    main()
