"""Trains a network's grid in a process of its own and prints its checksum: `python -m tests.torture.victim STORE …`."""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import joblib

from seedscope.execution.run import train
from seedscope.mechanisms import SGD
from seedscope.models import mlp
from seedscope.planning import Grid
from tests.helpers.small_data import table
from tests.torture.stores import digest

GRID = Grid(seeds=12, neighbours=3)


def main(store: str, how: str) -> None:
    """Train with this many processes (2), threads (threads-2) or a Dask cluster (tcp://…), and print the checksum."""
    warnings.simplefilter("ignore")
    options: dict[str, Any] = {"jobs": int(how)} if how.isdigit() else {}
    options |= {"cluster": how} if "://" in how else {}
    threads = how.startswith("threads-")
    with joblib.parallel_config("threading", n_jobs=int(how.split("-")[1])) if threads else nullcontext():
        mechanism = SGD(batch_size=8, steps=40)
        print(digest(train(table(), mechanism, model=mlp(4), grid=GRID, store=Path(store), **options)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
