"""The kinds of torture. Each function does one round: it hurts a store, then asks for what it must still give."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.torture import calls
from tests.torture.forked import Ended, attempt
from tests.torture.stores import LARGE, SMALL, Workshop, exported, finished, opened, trained, verified
from tests.torture.tally import Tally

MOMENTS = 0.6  # seconds: an undisturbed training takes about as long
TRAINING_CALLS = 1900  # about a store
Round = Callable[[Workshop, random.Random, Tally], None]


def resumed(shop: Workshop, store: Path, kind: str, tally: Tally, story: str, verify: bool = False) -> None:
    """Run the same training again, undisturbed: it must give the bits of the undisturbed store."""
    ended = attempt(lambda: trained(store, LARGE, verify=verify))
    judged(ended, shop.large, kind, tally, story)
    if ended.how == "refused":
        tally.sin(kind, "lost", f"{story}: the same training is refused: {ended.value}")


def judged(ended: Ended, truth: str, kind: str, tally: Tally, story: str, wrong: str = "different") -> None:
    """Count how something ended that gives the truth, or a sentence."""
    if ended.how == "done":
        if ended.value == truth:
            tally.add(kind, same_bits=1)
        else:
            tally.sin(kind, wrong, story)
    elif ended.how == "refused":
        tally.add(kind, refused=1)
    elif ended.how in ("traceback", "hung"):
        tally.sin(kind, {"traceback": "tracebacks"}.get(ended.how, ended.how), f"{story}: {ended.value}")


def kills(shop: Workshop, draw: random.Random, tally: Tally) -> None:
    """A training, from nothing to the large grid, is killed again and again, at moments or at system calls."""
    store, kind = shop.new(), "kills at random moments and system calls"
    tally.add(kind, tries=1)
    known: set[str] = set()
    for _ in range(draw.randrange(3, 16)):
        grid = LARGE if known else draw.choice((SMALL, LARGE))
        at = int(TRAINING_CALLS * draw.random() ** 2)  # what is left to do has fewer calls each time
        work = lambda: calls.Trap(store).set(at, calls.kill) and trained(store, grid)  # noqa: E731, B023
        by_call = draw.random() < 0.5
        ended = attempt(work) if by_call else attempt(lambda: trained(store, grid), draw.uniform(0, MOMENTS))  # noqa: B023
        tally.add(kind, kills=int(ended.how == "killed"))
        if ended.how in ("traceback", "hung", "refused"):
            judged(ended, "", kind, tally, f"{store} while it was killed")
        now = finished(store, shop.examples)
        if not known <= now:
            tally.sin(kind, "lost", f"{store}: {sorted(known - now)} were finished")
        known = now
    resumed(shop, store, kind, tally, f"{store} after kills")
    shutil.rmtree(store, ignore_errors=True)


def kills_while_verifying(shop: Workshop, draw: random.Random, tally: Tally) -> None:
    """Whoever reads, verifies or hands over a finished store is killed: the store is as it was."""
    store, kind = shop.copy(), "kills of who reads, verifies, exports"
    tally.add(kind, tries=1)
    before = contents(store)
    for _ in range(6):
        work = draw.choice((opened, verified, exported, lambda one: trained(one, LARGE, verify=True)))
        ended = attempt(lambda: work(store), draw.uniform(0, MOMENTS / 2))  # noqa: B023
        tally.add(kind, kills=int(ended.how == "killed"))
        judged(ended, ended.value, kind, tally, f"{store} while it was read")
    if contents(store) != before:
        tally.sin(kind, "lost", f"{store} was changed by reading")
    resumed(shop, store, kind, tally, f"{store} after kills of readers")
    shutil.rmtree(store)
    for left in shop.folder.glob("tmp*"):
        shutil.rmtree(left, ignore_errors=True)


def full_disks(shop: Workshop, draw: random.Random, tally: Tally) -> None:
    """Files may not grow beyond a limit, or there are too few descriptors, while a store is made or grows."""
    kind, grow = "full disks, too few descriptors", draw.random() < 0.5
    store = shop.copy("small") if grow else shop.new()
    limits = draw.choice(
        [(resource.RLIMIT_FSIZE, draw.randrange(50, 12_000)), (resource.RLIMIT_NOFILE, draw.randrange(5, 30))]
    )

    def work() -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(limits[0], (limits[1], limits[1]))
        return trained(store, LARGE)

    tally.add(kind, tries=1, faults=1)
    story = f"limit {limits[0]} at {limits[1]}, {'growing' if grow else 'new'}"
    judged(attempt(work), shop.large, kind, tally, story)
    resumed(shop, store, kind, tally, f"{story}, and again")
    shutil.rmtree(store, ignore_errors=True)


def filled_disk(shop: Workshop, draw: random.Random, tally: Tally) -> None:
    """A disk of its own fills up while a store is made on it; with more room it is finished."""
    kind, disk = "a disk of its own that is full", shop.new()
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={draw.randrange(40, 400)}k", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        return tally.add(f"{kind} (mounting is not permitted here)", tries=1)
    try:
        tally.add(kind, tries=1, faults=1)
        judged(attempt(lambda: trained(disk / "store")), shop.large, kind, tally, "a full disk")
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True, capture_output=True)
        resumed(shop, disk / "store", kind, tally, "a full disk, with more room")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    return disk.rmdir()


def stalls(shop: Workshop, draw: random.Random, tally: Tally) -> None:
    """A training stands still for a while (as a laptop's lid does); another one asks for its store meanwhile."""
    store, kind = shop.new(), "stalls of a driver"
    tally.add(kind, tries=1)

    def stop_now_and_then() -> None:
        parent = os.getpid()
        for _ in range(3):
            time.sleep(draw.uniform(0, MOMENTS / 3))
            if os.fork() == 0:
                os.kill(parent, signal.SIGSTOP)
                time.sleep(draw.uniform(0, 0.3))
                os.kill(parent, signal.SIGCONT)
                os._exit(0)

    def work() -> str:
        threading.Thread(target=stop_now_and_then, daemon=True).start()
        return trained(store, LARGE)

    tally.add(kind, faults=3)
    judged(attempt(work), shop.large, kind, tally, "a driver that stood still")
    resumed(shop, store, kind, tally, "after a driver stood still")
    shutil.rmtree(store, ignore_errors=True)


def contents(store: Path) -> dict[str, bytes]:
    """Return what a store's files hold."""
    files = [one for one in sorted(store.rglob("*")) if one.is_file() and one.name != "lock"]
    return {str(one.relative_to(store)): one.read_bytes() for one in files}
