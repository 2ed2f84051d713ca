"""`python -m tests.torture --minutes N`: all kinds of torture in turn, then one table; exit code 1 for any sin."""

from __future__ import annotations

import argparse
import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.torture import faults, kinds
from tests.torture.stores import Workshop
from tests.torture.tally import Tally
from tests.torture.workers import Crew, killed_commands, mixed_workers

# Each with its share of the time.
ROUNDS: dict[kinds.Round, float] = {
    kinds.kills: 0.3, kinds.kills_while_verifying: 0.1, faults.file_faults: 0.24, faults.failing_reads: 0.08,
    faults.failing_writes: 0.12, kinds.full_disks: 0.03, kinds.filled_disk: 0.02, kinds.stalls: 0.03,
}  # fmt: skip
SLOW: dict[Callable[[Crew, random.Random, Tally], None], float] = {killed_commands: 0.04, mixed_workers: 0.04}


def torture(minutes: float, seed: int, folder: Path) -> Tally:
    """Return what happened within this many minutes; whichever kind has had the least of its share goes next.

    What goes wrong is told as it happens, and how it goes when SIGUSR1 asks.
    """
    tally, draw, end = Tally(), random.Random(seed), time.monotonic() + 60 * minutes
    signal.signal(signal.SIGUSR1, lambda *_: print(tally.table(), file=sys.stderr, flush=True))
    shop = Workshop(folder)
    crew = Crew(shop)
    rounds = [(share, lambda one=one: one(shop, draw, tally)) for one, share in ROUNDS.items()]
    rounds += [(share, lambda one=one: one(crew, draw, tally)) for one, share in SLOW.items()]
    spent = [0.0] * len(rounds)
    try:
        while (begin := time.monotonic()) < end:
            late = (
                end - begin < 30 * minutes
            )  # the slow ones start clusters: in the second half, or nothing else is done
            place = min(range(len(rounds) if late else len(ROUNDS)), key=lambda k: spent[k] / rounds[k][0])
            known = len(tally.wrong)
            rounds[place][1]()
            spent[place] += time.monotonic() - begin
            for story in tally.wrong[known:]:
                print(f"{story}\n", file=sys.stderr, flush=True)
    finally:
        crew.stop()
    return tally


def main() -> int:
    """Torture, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk would be waited for most of the time
    with tempfile.TemporaryDirectory(prefix="torture-", dir=memory) as folder:
        tally = torture(given.minutes, given.seed, Path(folder))
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"python -m tests.torture --minutes {given.minutes:g} --seed {given.seed}  # {machine}\n\n{tally.table()}")
    return 1 if tally.sins else 0


if __name__ == "__main__":
    sys.exit(main())
