"""A table of a million people: reading it, and writing everybody's row, beside what pandas alone takes for that."""

from __future__ import annotations

import io
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measure import in_fresh_process, report

ROWS = 1_000_000


def people(rows: int) -> pd.DataFrame:
    """Return a table of 20 columns: numbers, codes, words, an identifier and the target."""
    draw = np.random.default_rng(0)
    columns: dict[str, object] = {"id": np.arange(rows) + 10**6}
    columns |= {f"x{k}": draw.normal(size=rows).round(4) for k in range(12)}
    columns |= {f"n{k}": draw.integers(0, 100, rows) for k in range(2)}
    for name, levels in (("sex", 2), ("job", 15), ("region", 8), ("smoker", 2)):
        columns[name] = draw.choice([f"{name} {k}" for k in range(levels)], rows)
    columns["y"] = draw.choice(["sick", "well"], rows)
    return pd.DataFrame(columns)


def reading(path: str, ours: bool) -> tuple[float, float]:
    """Return the processor's seconds and the peak memory in GiB of reading a table."""
    import seedscope as ss

    start = time.process_time()
    if ours:
        ss.read_table(path, target="y", groups=["sex"], id="id")
    else:
        pd.read_csv(io.StringIO(Path(path).read_text()), dtype=str)
    return time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def writing(rows: int, ours: bool) -> tuple[float, float]:
    """Return the same of writing everybody's row as CSV."""
    from seedscope.report.individuals import individuals_csv

    table = people(rows)
    start = time.process_time()
    individuals_csv(table) if ours else table.to_csv(index=False)
    return time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Print seconds and memory of both."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/people.csv"
        people(ROWS).to_csv(path, index=False)
        ours, plain = (in_fresh_process("benchmarks.tables", "reading", path, one) for one in (True, False))
    report("reading 10^6 rows × 20 columns", ours[0], plain[0], "s of the processor")
    report("  its peak memory", ours[1], plain[1], "GiB")
    ours, plain = (in_fresh_process("benchmarks.tables", "writing", ROWS, one) for one in (True, False))
    report("everybody's row as CSV, 10^6 rows × 20 columns", ours[0], plain[0], "s of the processor")
    report("  its peak memory", ours[1], plain[1], "GiB")
