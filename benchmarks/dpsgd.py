"""DP-SGD: LeNet-5 beside Opacus, logistic regression and an MLP beside plain SGD, 500 models of census data.

Opacus is measured by this interpreter if it has torch, else by the one that SEEDSCOPE_TORCH_PYTHON names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, report, seconds

BATCH, IMAGES, LENET_STEPS = 128, 12_800, 96
MODES = ("hooks", "ew", "functorch", "ghost")
MODELS, ADULT_STEPS = 500, 1000
ROUNDS = 3
RIVAL = 0.8  # modes of Opacus that are this fast beside its fastest are measured in every round


def lenet(models: int) -> float:
    """Return examples per second of this many LeNet-5 side by side, one thread."""
    import seedscope as ss
    from seedscope.training.dpsgd.train import train_dpsgd

    draw = np.random.default_rng(0)
    rows = as_workers_have(draw.random((IMAGES + 1, 28, 28, 1), np.float32))
    labels = draw.integers(0, 10, IMAGES + 1).astype(np.float32)
    network, mechanism = ss.lenet5().network((28, 28, 1), 10), ss.DPSGD(0.1, BATCH, LENET_STEPS)
    neighbours, private = np.arange(-1, models - 1), mechanism.private_steps()

    def run() -> None:
        train_dpsgd(
            private, network, "add_or_remove", 0, np.zeros(1, int), neighbours, ("varied",), (LENET_STEPS,), rows,
            labels, None,
        )  # fmt: skip

    run()
    return models * LENET_STEPS * BATCH / seconds(run, 2)


def as_workers_have(array: np.ndarray) -> np.ndarray:
    """Return an array mapped from a file."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "array.npy", array)
        mapped: np.ndarray = np.load(Path(folder) / "array.npy", mmap_mode="r")
        return mapped


def opacus(mode: str) -> float:
    """Return examples per second of Opacus on the same network, batch size and kind of data, with all cores."""
    import torch
    from opacus import PrivacyEngine

    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 16, 5),
        torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(400, 120), torch.nn.ReLU(),
        torch.nn.Linear(120, 84), torch.nn.ReLU(), torch.nn.Linear(84, 10),
    )  # fmt: skip
    data = torch.utils.data.TensorDataset(torch.rand(IMAGES, 1, 28, 28), torch.randint(0, 10, (IMAGES,)))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
    criterion = torch.nn.CrossEntropyLoss()
    made = PrivacyEngine().make_private(
        module=network, optimizer=torch.optim.SGD(network.parameters(), lr=0.1), criterion=criterion,
        data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0, grad_sample_mode=mode,
    )  # fmt: skip
    module, optimizer, loss = made[0], made[1], made[2] if mode == "ghost" else criterion
    loader = made[-1]  # draws Poisson batches of the same expected size, as we do

    def run() -> None:
        for (rows, labels), _ in zip(loader, range(LENET_STEPS), strict=False):
            optimizer.zero_grad()
            loss(module(rows), labels).backward()
            optimizer.step()

    run()
    return LENET_STEPS * BATCH / seconds(run, 2)


def torch_python() -> str | None:
    """Return the interpreter that has torch and Opacus; None where there is none."""
    return sys.executable if importlib.util.find_spec("opacus") else os.environ.get("SEEDSCOPE_TORCH_PYTHON")


def opacus_speed(python: str, mode: str) -> float:
    """Return the examples per second of one of Opacus's modes in a process of its own, 0 where it does not run."""
    code = f"import json, benchmarks.dpsgd as m; print('RESULT' + json.dumps(m.opacus({mode!r})))"
    root = Path(__file__).parent.parent
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    return json.loads(lines[-1].removeprefix("RESULT")) if lines else 0.0


def beside_opacus() -> None:
    """Print examples per second of LeNet-5 beside Opacus's fastest mode, each the median of rounds that alternate."""
    python = torch_python()
    first = {mode: opacus_speed(python, mode) for mode in MODES} if python else {}
    theirs = {mode: list[float]() for mode, speed in first.items() if speed > RIVAL * max(first.values())}
    ours: dict[int, list[float]] = {1: [], 8: []}
    for _ in range(ROUNDS):
        for mode, speeds in theirs.items():
            speeds.append(opacus_speed(str(python), mode))
        for models, speeds in ours.items():
            speeds.append(both_cores(models))
    fastest = max(theirs, key=lambda mode: median(theirs[mode]), default=None)
    peer = median(theirs[fastest]) if fastest else None
    beside = f"Opacus's fastest, {fastest}" if fastest else "Opacus not at hand: set SEEDSCOPE_TORCH_PYTHON"
    for models, speeds in ours.items():
        report(f"LeNet-5, batch 128, {models} a core, beside {beside}", median(speeds), peer, "examples/s", "5×")


def beside_sgd(name: str, seeds: int, neighbours: int) -> dict[str, float]:
    """Return processor seconds of plain SGD, and of DP-SGD on the same and on Poisson batches, one thread."""
    import seedscope as ss
    from seedscope.training.dpsgd.train import train_dpsgd
    from seedscope.training.gradient.sgd import train_sgd

    model, columns, steps = {"logistic": (ss.logistic(), 100, 300), "mlp": (ss.mlp(10), 50, 200)}[name]
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(10_001, columns)).astype(np.float32) / np.sqrt(columns)
    labels, network = np.float32(draw.integers(0, 2, 10_001)), model.network((columns,), 2)
    shared = (network, "add_or_remove", 0, np.arange(seeds), np.arange(-1, neighbours - 1), ("varied",), (steps,))
    ways: dict[str, Any] = {
        "sgd": (train_sgd, ss.SGD(0.5, BATCH, steps)),
        "the same": (train_dpsgd, ss.DPSGD(0.5, BATCH, steps, sampling=ss.Shuffled()).private_steps()),
        "Poisson": (train_dpsgd, ss.DPSGD(0.5, BATCH, steps).private_steps()),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(24):  # one after another, so that a noisy moment of the machine hits all
        for way, (train, mechanism) in ways.items():
            start = time.process_time()
            train(mechanism, *shared, rows, labels, None)
            times[way].append(time.process_time() - start)
    return {way: min(one) for way, one in times.items()}


def census() -> dict[str, float]:
    """Return seconds of 500 logistic DP-SGD models of the adult data, the start included, and their mean accuracy."""
    import seedscope as ss

    if os.environ.get("SEEDSCOPE_DATA"):
        data = ss.load("adult")
    else:
        draw = np.random.default_rng(0)
        features = draw.random((32_000, 100), np.float32) / 10
        data = ss.from_arrays(features, features[:, :50].sum(1) > features[:, 50:].sum(1), norm_bound=1.0)
    mechanism = ss.DPSGD.calibrated(1.0, 1e-5, examples=len(data.base), steps=ADULT_STEPS, learning_rate=4.0)
    start = time.perf_counter()
    ensemble = ss.train(data, mechanism, grid=ss.Grid(seeds=MODELS), records=ss.Records(probes=("test",)))
    return {"seconds": time.perf_counter() - start, "accuracy": float(ensemble.accuracy().mean())}


def both_cores(models: int) -> float:
    """Return examples per second of single-threaded processes, one for each core, as grids are trained."""
    with ThreadPoolExecutor() as pool:
        cores = os.cpu_count() or 1
        running = [pool.submit(in_fresh_process, "benchmarks.dpsgd", "lenet", models, threads=1) for _ in range(cores)]
        rates: list[float] = [one.result() for one in running]
        return sum(rates)


def main() -> None:
    """Print examples per second beside Opacus, times beside plain SGD, and the census ensemble."""
    beside_opacus()
    for model in ("logistic", "mlp"):
        for grid in ((2, 50), (20, 1)):
            times = in_fresh_process("benchmarks.dpsgd", "beside_sgd", model, *grid, threads=1)
            for way in ("the same", "Poisson"):
                what = f"{model}, {grid[0]} seeds × {grid[1]} data sets, {way} batches beside SGD"
                report(what, times[way], times["sgd"], "s", "1.3×")
    found = in_fresh_process("benchmarks.dpsgd", "census")
    what = f"{MODELS} logistic DP-SGD models of adult (accuracy {found['accuracy']:.3f})"
    report(what, found["seconds"], None, "s", "60 s")


if __name__ == "__main__":
    main()
