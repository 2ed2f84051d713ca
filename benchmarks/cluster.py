"""Two local workers beside one, a Dask cluster beside local processes, and the start of a plan of a million models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.grid import BATCH, FEATURES, synthetic
from benchmarks.measure import in_fresh_process, report

STEPS, NEIGHBOURS = 1850, 49
SEEDS = 2200  # about 20 seconds with two workers
ROUNDS = 5
MILLION: dict[str, Any] = {"seeds": 10_000, "neighbours": 99}


def train(seeds: int, store: str, **where: Any) -> float:
    """Return the seconds that a stored grid of the shape of MNIST-binary takes, after everything has been compiled."""
    import seedscope as ss

    def run(count: int, place: str, root_seed: int) -> None:
        grid = ss.Grid(count, NEIGHBOURS, root_seed=root_seed)
        records = ss.Records(probes=("test",))
        ss.train(synthetic(), ss.SGD(0.5, BATCH, STEPS), grid=grid, records=records, store=f"{store}/{place}", **where)

    run(seeds // 20, "first", 0)
    start = time.perf_counter()
    run(seeds, "timed", 1)
    return time.perf_counter() - start


def local_seconds(jobs: int, seeds: int) -> float:
    """Return the seconds with this many local workers."""
    with tempfile.TemporaryDirectory() as folder:
        return train(seeds, folder, jobs=jobs)


def dask_seconds(workers: int, seeds: int) -> float:
    """Return the seconds with this many workers of a Dask cluster on this machine."""
    with tempfile.TemporaryDirectory() as folder, dask_cluster(workers, Path(folder)) as address:
        return train(seeds, folder, cluster=address)


@contextmanager
def dask_cluster(workers: int, folder: Path) -> Iterator[str]:
    """Yield the address of a scheduler with this many workers of one thread each."""
    file = folder / "scheduler.json"
    calm = os.environ | {"DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s"}  # as docs/cluster.md recommends
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": calm}
    dask = [sys.executable, "-m", "dask"]
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    started = [subprocess.Popen([*dask, "scheduler", *options], **quiet)]
    try:
        while not (file.exists() and file.read_text().strip()):
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        worker = ["worker", address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
        started += [subprocess.Popen([*dask, *worker], **quiet) for _ in range(workers)]
        from distributed import Client

        with Client(address) as client:
            client.wait_for_workers(workers)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def million(seconds: float) -> dict[str, float]:
    """Return when a plan of a million models starts to train, and what its driver uses after a while, in GiB."""
    import resource

    begin = time.perf_counter()
    import seedscope as ss

    started: list[float] = []

    class EnoughError(Exception):
        """It has been watched for long enough."""

    def seen(done: int, total: int) -> None:
        if not started:
            started.append(time.perf_counter() - begin)
        if time.perf_counter() - begin > seconds:
            raise EnoughError

    data = ss.load("breast-cancer")
    with tempfile.TemporaryDirectory() as folder, suppress(EnoughError):
        ss.train(data, ss.SGD(steps=300), grid=ss.Grid(**MILLION), store=f"{folder}/x", jobs=2, progress=seen)
    return {"start": started[0], "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def study_core_seconds(models_per_second: float) -> dict[str, float]:
    """Return what the papers' eight grids of 118,000 models take one core, from the speed of this benchmark's grid.

    A grid counts by its floating-point operations: wide data and networks reach the same rate.
    """
    from seedscope.reproduce.intrinsic.settings import SETTINGS

    columns = {"mnist-binary": 50, "adult": 100, "forest": 49, "cifar2": 50}
    rate = models_per_second * STEPS * BATCH * (FEATURES + 1)
    found = {}
    for one in SETTINGS:
        width = columns[one.data] + 1
        weights = width if one.model == "logistic" else one.hidden * (width + 1)
        found[one.name] = one.paper.models * one.steps * one.batch_size * weights / rate
    return found


def local_and_dask() -> tuple[float, float]:
    """Return the seconds with two local and with two Dask workers: medians of rounds that alternate."""
    ways: dict[str, list[float]] = {"local_seconds": [], "dask_seconds": []}
    for _ in range(ROUNDS):
        for way, times in ways.items():
            times.append(in_fresh_process("benchmarks.cluster", way, 2, SEEDS))
    return median(ways["local_seconds"]), median(ways["dask_seconds"])


def main() -> None:
    """Print the speed-up of a second worker, the overhead of Dask, and what a plan of a million models takes."""
    cores = os.cpu_count() or 1
    one = in_fresh_process("benchmarks.cluster", "local_seconds", 1, SEEDS)
    two, dask = local_and_dask()
    models = SEEDS * (NEIGHBOURS + 1)
    report(f"2 local workers against one, {models:,} logistic models on {cores} cores", models / two, models / one,
           "models/s", "1.5×")  # fmt: skip
    report("the same on a Dask cluster of 2 workers, against 2 local ones", dask, two, "s", "at most 1.15×")
    study = sum(study_core_seconds(models / one).values())
    report("the 118,000-model study at that speed", study / 60, unit="minutes of one core")
    found = in_fresh_process("benchmarks.cluster", "million", 30)
    report("a plan of 1,000,000 models starts after", found["start"], unit="s", goal="10 s")
    report("  its driver's memory", found["memory"], unit="GiB", goal="1 GiB")


if __name__ == "__main__":
    main()
