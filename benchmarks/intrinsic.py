"""The papers' eight grids of 118,000 models (IP2 Table 3), one after another: times, memory, and all their analyses."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import in_fresh_process

GOAL = "12 minutes (aim 8) for all, 3 GiB, 30 s for the analyses of a grid"
HEADER = "| grid | seeds × data sets × inits | models | trained in | models/s | all analyses | peak memory |"
SAMPLED_EVERY = 0.5  # seconds


def grid_cost(name: str, share: float) -> dict[str, float]:
    """Return the seconds that training and analysing one grid took, and the peak memory of all processes in GiB.

    `share` of its seeds are trained: 1 is the paper's size.
    """
    from seedscope.reproduce.comparison import Run
    from seedscope.reproduce.intrinsic.grids import analysed, trained
    from seedscope.reproduce.intrinsic.settings import SETTINGS, Size

    setting = next(one for one in SETTINGS if one.name == name)
    size = Size(max(4, round(share * setting.paper.seeds)), setting.paper.datasets)
    with tempfile.TemporaryDirectory() as folder, PeakMemory() as memory:
        start = time.perf_counter()
        data = setting.load()
        loaded = time.perf_counter()
        ensemble = trained(setting, data, size, Run("paper", Path(folder), quiet=True))
        done = time.perf_counter()
        analysed(setting, data, size, ensemble)
        end = time.perf_counter()
    return {
        "models": size.models, "seeds": size.seeds, "datasets": size.datasets, "loading": loaded - start,
        "training": done - loaded, "analyses": end - done, "memory": memory.peak / 2**30,
    }  # fmt: skip


class PeakMemory:
    """Samples the memory of this process and its children, what they share counted once."""

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        """Keep the largest sum seen."""
        while not self._ended.wait(SAMPLED_EVERY):
            self.peak = max(self.peak, sum(map(proportional_bytes, family(os.getpid()))))


def family(process: int) -> list[int]:
    """Return a process and all that descend from it."""
    found = [process]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, _text(task).split())
    return found


def proportional_bytes(process: int) -> int:
    """Return the memory of a process, pages that it shares divided by those who share them."""
    lines = _text(Path(f"/proc/{process}/smaps_rollup")).splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _text(path: Path) -> str:
    """Return what a file says; nothing if its process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def row(name: str, cost: dict[str, Any]) -> str:
    """Return a row of the Markdown table."""
    shape = f"{cost['seeds']:.0f} × {cost['datasets']:.0f} × 2"
    speed = cost["models"] / cost["training"]
    return (
        f"| {name} | {shape} | {cost['models']:,.0f} | {cost['training']:.0f} s | {speed:,.0f} | "
        f"{cost['analyses']:.0f} s | {cost['memory']:.2f} GiB |"
    )


def main() -> None:
    """Print a Markdown table with one row a grid; SEEDSCOPE_BENCH_SHARE trains only a share of the seeds."""
    if not os.environ.get("SEEDSCOPE_DATA"):
        return print("skipped, SEEDSCOPE_DATA is not set")
    from seedscope.reproduce.intrinsic.settings import SETTINGS

    share = float(os.environ.get("SEEDSCOPE_BENCH_SHARE", "1"))
    print(HEADER, "|---|---|---|---|---|---|---|", sep="\n", flush=True)
    costs = []
    for setting in SETTINGS:
        costs.append(in_fresh_process("benchmarks.intrinsic", "grid_cost", setting.name, share))
        print(row(setting.name, costs[-1]), flush=True)
    total = {name: sum(one[name] for one in costs) for name in ("models", "training", "analyses")}
    memory = max(one["memory"] for one in costs)
    print(
        f"| all | | {total['models']:,.0f} | {total['training'] / 60:.1f} min | "
        f"{total['models'] / total['training']:,.0f} | {total['analyses']:.0f} s | {memory:.2f} GiB |"
    )
    loading = sum(one["loading"] for one in costs)
    return print(f"\nLoading the data took another {loading:.0f} s. Goals: {GOAL}.")
