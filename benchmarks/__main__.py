"""Runs all benchmarks, or those named: `python -m benchmarks grid objective`."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from pathlib import Path


def main() -> None:
    """Run the named benchmarks one after another."""
    here = Path(__file__).parent
    known = sorted(one.name for one in pkgutil.iter_modules([str(here)]) if not one.name.startswith("_"))
    known.remove("measure")
    chosen = sys.argv[1:] or known
    unknown = [name for name in chosen if name not in known]
    if unknown:
        sys.exit(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(known)}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(f"machine: {os.cpu_count()} cores, {memory:.0f} GiB")
    for name in chosen:
        print(f"\n## {name}")
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
