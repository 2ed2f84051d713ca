"""Timing, fresh processes, and one line a result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def seconds(action: Callable[[], Any], repeats: int = 3) -> float:
    """Return the shortest time of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def in_fresh_process(module: str, function: str, *arguments: Any, threads: int | None = None) -> Any:
    """Return what a function of a benchmark module prints as JSON, called in a process of its own."""
    code = f"import json, {module} as m; print('RESULT' + json.dumps(m.{function}(*{list(arguments)!r})))"
    environment = os.environ | ({} if threads is None else {"NPROC": str(threads), "OMP_NUM_THREADS": str(threads)})
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise RuntimeError(done.stderr)
    return json.loads(lines[-1].removeprefix("RESULT"))


def report(what: str, ours: float, peer: float | None = None, unit: str = "", goal: str = "") -> None:
    """Print one line: our figure, the peer's, their ratio, and the goal."""
    beside = "" if peer is None else f"   peer {peer:,.4g}   ratio {ours / peer:.2f}×"
    print(f"{what:58s} {ours:,.4g} {unit}{beside}{'   goal ' + goal if goal else ''}", flush=True)
