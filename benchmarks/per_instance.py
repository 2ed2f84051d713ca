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
RUN_ORDERS = (2.0, 4.0, 6.0, 8.0, 12.0)


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


def from_path_sums() -> dict[str, float]:
    """Return seconds and peak memory (GiB) of everybody's bounds from the path sums of two runs, at 17 orders."""
    import resource

    import seedscope as ss
    from seedscope.analyses.per_instance.paths import PATH_ORDERS

    draw = np.random.default_rng(0)
    worst = STEPS * ss.accounting.sampled_gaussian_rdp(1.0, 1.0, 128 / PEOPLE, PATH_ORDERS)
    sums = (draw.beta(0.3, 2.0, size=(2, PEOPLE, 1)) * worst).astype(np.float32)
    start = time.perf_counter()
    ss.per_instance.paths_rdp(sums, PATH_ORDERS, ORDERS)
    ss.per_instance.paths_rdp_upper(sums, PATH_ORDERS, ORDERS, worst, 0.95)
    ss.per_instance.cut_off(sums, PATH_ORDERS).membership_advantage()
    taken = time.perf_counter() - start
    return {"seconds": taken, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def hundred_thousand_runs(runs: int = 100_000) -> dict[str, float]:
    """Return seconds of this many runs of logistic DP-SGD on breast-cancer with all path sums, and the bounds."""
    import tempfile

    import seedscope as ss

    data = ss.load("breast-cancer")
    mechanism = ss.DPSGD.calibrated(2.0, 1e-3, examples=len(data.base), batch_size=106, steps=100, learning_rate=1.0)
    records = ss.Records(probes=(), norms=ss.Norms("train", orders=RUN_ORDERS))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        ensemble = ss.train(data, mechanism, grid=ss.Grid(seeds=runs), records=records, store=f"{folder}/x", jobs=2)
        trained = time.perf_counter() - start
        sums = np.moveaxis(ensemble.dataset["path_sums"].values[:, 0, 0], 1, 2)
        found = ss.per_instance.cut_off(sums, RUN_ORDERS)
        rate = mechanism.sampling_probability(len(data.base))
        mechanism_epsilon = ss.accounting.pld_epsilon(mechanism.noise_multiplier, rate, mechanism.steps, 1e-3)
        return {
            "trained": trained,
            "seconds": time.perf_counter() - start,
            "guarantee": mechanism_epsilon,
            "median": float(np.median(found.epsilon(1e-3))),
            "better": float(np.mean(found.epsilon(1e-3) < mechanism_epsilon)),
        }


def filtered(name: str = "adult", rows: int | None = None, seeds: int = 4) -> dict[str, Any]:
    """Return accuracies at one guarantee: plain DP-SGD, and less noise with everybody's budget at that guarantee."""
    import seedscope as ss

    data, images = ss.load(name), name != "adult"
    data = data if rows is None else replace(data, train=data.train.take(slice(rows)), spare=("test", 0))
    examples, epsilon = len(data.base), 3.0 if images else 0.5
    size, steps, rate = (128, 160, 1.0) if images else (1024, 150, 2.0)
    options: dict[str, Any] = {"examples": examples, "batch_size": size, "steps": steps, "learning_rate": rate}
    records, model = ss.Records(probes=("test",)), ss.lenet5() if images else ss.logistic()
    found: dict[str, Any] = {"guarantee": epsilon}
    for times in (1.0, 1.25, 1.5, 2.0, 3.0):
        mechanism = ss.DPSGD.calibrated(times * epsilon, 1e-5, **options)
        mechanism = mechanism if times == 1 else replace(mechanism, personal_budget=epsilon)
        ensemble = ss.train(data, mechanism, model=model, grid=ss.Grid(seeds=seeds), records=records, jobs=2)
        entry = {"noise": round(mechanism.noise_multiplier, 3), "accuracy": round(float(ensemble.accuracy().mean()), 4)}
        if times > 1:
            order, limit = mechanism.budget(examples)
            cheapest = float(
                ss.accounting.sampled_gaussian_rdp(1.0, mechanism.noise_multiplier, size / examples, order)
            )
            spent = ensemble.dataset["spent_divergences"].values
            entry["share of people without a full step left"] = round(float(np.mean(spent > limit - cheapest)), 3)
        found["plain" if times == 1 else f"noise for {times:g}ε, filter at ε"] = entry
    return found


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
    every = examples // (128 * 8)  # eight states an epoch
    records = ss.Records(probes=("test",), norms=ss.Norms("test", every=every))
    start = time.perf_counter()
    ensemble = ss.train(
        data, mechanism, model=ss.lenet5(), grid=ss.Grid(seeds=2, init="fixed"), records=records, jobs=2
    )
    taken = time.perf_counter() - start
    contributions = ss.per_instance.contribution_shares(ensemble)[1].mean(0)
    found = ss.per_instance.step_shares(ensemble)
    rows: dict[str, Any] = {"taken": taken, "accuracy": float(ensemble.accuracy().mean())}
    for name, state in (("initial", 0), ("after epoch 1", 8), ("middle", 40), ("end", -1)):
        shares, right = found.shares[:, state], found.correct[:, state] == 1
        rows[name] = {
            "mean contribution over baseline": float(contributions[min(state, len(contributions) - 1)]),
            "share of digits at least 10× below": float(np.mean(shares <= 0.1)),
            "median correct digit": float(np.median(shares[right])) if right.any() else None,
            "median wrong digit": float(np.median(shares[~right])) if not right.all() else None,
        }
    privacy = ss.per_instance.per_instance_privacy(ensemble)
    column = list(privacy.orders).index(8.0)
    paper = ss.per_instance.per_instance_privacy(ensemble, orders=privacy.orders, holder=3.0 * steps).by_steps
    for name, divergences in (("GLA's p = 3n", paper), ("the best", privacy.rdp)):
        shares = divergences[:, column] / privacy.baseline[column]
        rows[f"whole run, D₈ over baseline, {name}"] = {
            "10th percentile, median, 90th": np.quantile(shares, [0.1, 0.5, 0.9]).round(3).tolist(),
            "share of digits at least 10× below": float(np.mean(shares <= 0.1)),
        }
    rows["ε of everybody, Rényi and privacy-loss distribution"] = [
        round(float(one), 3) for one in (privacy.epsilon_baseline, privacy.epsilon_baseline_pld)
    ]
    rows["ε of digits, 10th percentile and median"] = np.quantile(privacy.epsilon, [0.1, 0.5]).round(3).tolist()
    return rows


def main() -> None:
    """Print time, memory and how far the rounding goes up; with the real data, what MNIST's digits get."""
    found = in_fresh_process("benchmarks.per_instance", "everybody")
    report(f"{PEOPLE:,} people × {STEPS:,} steps × {len(ORDERS)} orders", found["seconds"], unit="s", goal="60 s")
    report("peak memory of the process, norms included", found["peak"], unit="GiB", goal="4 GiB")
    report("largest ratio to one person computed without rounding", found["above"], unit="×")
    found = in_fresh_process("benchmarks.per_instance", "from_path_sums")
    report(f"all bounds of {PEOPLE:,} people from path sums", found["seconds"], unit="s", goal="60 s")
    report("peak memory of that process", found["peak"], unit="GiB", goal="2 GiB")
    found = in_fresh_process("benchmarks.per_instance", "hundred_thousand_runs")
    report("100,000 logistic runs on breast-cancer, everybody's path sums", found["trained"], unit="s", goal="180 s")
    report("the same with their cut-offs", found["seconds"], unit="s")
    print(f"  ε at δ = 1e-3: guarantee {found['guarantee']:.3f} (proved, for any data); by the cut-off, 95 % for")
    print(
        f"  everybody at once, with‖without: median {found['median']:.3f}, below it for {found['better']:.0%} of people"
    )
    report("a million step divergences, orders 2–32", step_divergences(), unit="s", goal="3 s")
    if os.environ.get("SEEDSCOPE_DATA"):
        for name, rows in (("adult", None), ("mnist", 2500)):
            print(f"  {name}, accuracy at one guarantee with and without a filter: {filtered(name, rows)}")
        found = in_fresh_process("benchmarks.per_instance", "digits")
        report("LeNet-5 on all of MNIST, 10 epochs, 2 runs", found.pop("taken"), unit="s")
        for name, value in found.items():
            print(f"  {name}: {value}")


if __name__ == "__main__":
    main()
