"""Everybody's privacy loss: what it costs beside the training that is done anyway.

A step of training looks at a batch, the losses at everybody; so beside training they cost what the share of people in a
batch makes of it, and set-ups with other batches are shown beside each other. The goal is about the audit's own rule,
which on the census takes 500 steps of 1,024 rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, report

MODELS, WATCHED = 500, 500
QUARTER, QUARTER_STEPS = 7326, 100  # a quarter of the census' training rows in a batch
USUAL, USUAL_STEPS = 1024, 500  # what an audit of the census takes by default
BATCH = 128
LENET_STEPS = 10


def census() -> Any:
    """Return the adult data, or random rows of their size where they are not at hand."""
    import seedscope as ss

    if os.environ.get("SEEDSCOPE_DATA"):
        return ss.load("adult")
    draw = np.random.default_rng(0)
    features = draw.random((39_000, 100)) / 10
    return ss.from_arrays(features, features[:, :50].sum(1) > features[:, 50:].sum(1), norm_bound=1.0)


def dpsgd(batch: int, steps: int, models: int, losses: bool) -> dict[str, float]:
    """Return seconds and memory of logistic DP-SGD on the census, and of the analysis of everybody's losses."""
    import seedscope as ss

    mechanism = ss.DPSGD(4.0, batch, steps, noise_multiplier=1.0)
    return _timed(census(), mechanism, models, losses)


def one_thread(batch: int, steps: int, models: int) -> dict[str, float]:
    """Return processor seconds of logistic DP-SGD on the census in one thread, without and with everybody's losses."""
    import seedscope as ss
    from seedscope.training.dpsgd.train import train_dpsgd

    data = census()
    rows = np.vstack([data.base.features, data.spare_example.features]).astype(np.float32)
    labels = np.append(data.base.labels, data.spare_example.labels).astype(np.float32)
    network, private = ss.logistic().network(rows.shape[1:], 2), ss.DPSGD(4.0, batch, steps).private_steps()

    def took(lossy: np.ndarray | None) -> float:
        def run() -> None:
            train_dpsgd(
                private, network, "add_or_remove", 0, np.arange(models), np.array([-1]), ("varied",), (steps,), rows,
                labels, None, lossy=lossy,
            )  # fmt: skip

        return processor_seconds(run)

    found = {"base": took(None), "losses": took(np.arange(len(data.base)))}
    return found | {"each": (found["losses"] - found["base"]) / (len(data.base) * steps * models)}


def processor_seconds(action: Callable[[], None]) -> float:
    """Return the least processor time of three runs, of which the first compiles."""
    times = []
    for _ in range(3):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def objective(models: int) -> dict[str, float]:
    """Return seconds and memory of objective perturbation on the census with everybody's losses."""
    import seedscope as ss

    return _timed(census(), ss.ObjectivePerturbation(1.0), models, True)


def output() -> dict[str, float]:
    """Return the seconds that everybody's exact privacy under output perturbation takes."""
    import seedscope as ss

    data = census()
    ensemble = ss.train(data, ss.OutputPerturbation(1.0, 1e-6), grid=ss.Grid(seeds=2), jobs=1)
    start, busy = time.perf_counter(), time.process_time()
    found = ss.privacy_loss.everybody(ensemble, data=data)
    took = {"seconds": time.perf_counter() - start, "busy": time.process_time() - busy}
    return took | {"people": len(found.people), "error": float(found.error.max())}  # type: ignore[attr-defined]


def _timed(data: Any, mechanism: Any, models: int, losses: bool) -> dict[str, float]:
    """Return seconds of training and of the analysis, and the memory of this process and its workers."""
    import seedscope as ss

    records = ss.Records(probes=(), losses_of="train" if losses else None)
    ss.train(data, mechanism, grid=ss.Grid(seeds=2), records=records)  # workers start, and compile
    start, busy = time.perf_counter(), _processor_time()
    ensemble = ss.train(data, mechanism, grid=ss.Grid(seeds=models), records=records)
    trained = _processor_time() - busy
    if losses:
        ss.privacy_loss.everybody(ensemble)
    took = {"seconds": time.perf_counter() - start, "busy": _processor_time() - busy}
    return took | {"training": trained, "memory": _memory()}


def _processor_time() -> float:
    """Return the seconds that this process and its workers have computed: what other programs do is not in it."""
    own = os.getpid()
    spent = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in [own, *_children(own)]]
    return sum(int(one[11]) + int(one[12]) for one in spent) / os.sysconf("SC_CLK_TCK")


def _memory() -> float:
    """Return the peak memory in GiB of this process and its workers, added up."""
    own = os.getpid()
    family = [own, *_children(own)]
    peaks = [line for pid in family for line in _status(pid) if line.startswith("VmHWM")]
    return sum(int(line.split()[1]) for line in peaks) / 2**20


def _children(parent: int) -> list[int]:
    """Return the processes below a process."""
    parents = {int(path.name): _parent(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    direct = [child for child, of in parents.items() if of == parent]
    return [*direct, *(one for child in direct for one in _children(child))]


def _parent(pid: int) -> int:
    """Return a process' parent, 0 for one that has ended."""
    found = [line for line in _status(pid) if line.startswith("PPid")]
    return int(found[0].split()[1]) if found else 0


def _status(pid: int) -> list[str]:
    """Return what the system says of a process; nothing of one that has ended."""
    try:
        return Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []


def lenet(batch: int, watched: int) -> float:
    """Return the processor seconds of a LeNet-5's steps, with the losses of this many people."""
    import seedscope as ss
    from seedscope.training.dpsgd.train import train_dpsgd

    draw, examples = np.random.default_rng(0), 12_800
    rows = draw.random((examples + 1, 28, 28, 1), np.float32)
    labels = draw.integers(0, 10, examples + 1).astype(np.float32)
    network, private = ss.lenet5().network((28, 28, 1), 10), ss.DPSGD(0.1, batch, LENET_STEPS).private_steps()
    lossy = np.arange(watched) if watched else None

    def run() -> None:
        train_dpsgd(
            private, network, "add_or_remove", 0, np.zeros(1, int), np.array([-1]), ("varied",), (LENET_STEPS,), rows,
            labels, None, lossy=lossy,
        )  # fmt: skip

    return processor_seconds(run)


def main() -> None:
    """Print what everybody's losses cost for each mechanism."""
    for batch, steps, goal in ((QUARTER, 20, "1.5×"), (2048, 50, ""), (USUAL, 100, "1.5×"), (BATCH, 100, "")):
        alone = in_fresh_process("benchmarks.everybody", "one_thread", batch, steps, 64, threads=1)
        extra = alone["losses"] - alone["base"]
        report(f"64 logistic models, batches of {batch}: losses, processor time", extra, alone["base"], "s", goal)
        report("  for each person, step and model", 1e9 * alone["each"], None, "ns")
    for batch, steps, goal in ((QUARTER, QUARTER_STEPS, "1.5×"), (USUAL, USUAL_STEPS, "1.5×")):
        base, with_losses = (
            in_fresh_process("benchmarks.everybody", "dpsgd", batch, steps, MODELS, losses) for losses in (False, True)
        )
        what = f"{MODELS} DP-SGD models of the census, {steps} steps of {batch}"
        extra = with_losses["training"] - base["training"]
        report(f"{what}: losses beside training, processor time", extra, base["training"], "s", goal)
        report(f"{what}: everybody, in all", with_losses["seconds"], None, "s", "60 s")
        report("  the same, processor time", with_losses["busy"], None, "s")
        report(f"{what}: memory", with_losses["memory"], None, "GiB", "4 GiB")
    for batch in (BATCH, 512, 1024):
        base_time, watched = (
            in_fresh_process("benchmarks.everybody", "lenet", batch, count, threads=1) for count in (0, WATCHED)
        )
        report(f"LeNet-5, batches of {batch}, {WATCHED} watched: in all, processor time", watched, base_time, "s", "2×")
    found = in_fresh_process("benchmarks.everybody", "objective", MODELS)
    report(f"{MODELS} models of objective perturbation, everybody, in all", found["seconds"], None, "s", "60 s")
    report("  the same, processor time", found["busy"], None, "s")
    exact = in_fresh_process("benchmarks.everybody", "output")
    report(f"output perturbation, {exact['people']:,.0f} people exactly", exact["seconds"], None, "s", "20 s")
    report("  the same, processor time", exact["busy"], None, "s")
