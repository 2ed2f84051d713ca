"""Faults in files and at system calls, many in one process: starting one takes longer than what is looked at."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.torture import calls
from tests.torture.forked import Ended, attempt, outcome
from tests.torture.kinds import TRAINING_CALLS, contents, judged, resumed
from tests.torture.stores import LARGE, Workshop, exported, opened, trained, verified
from tests.torture.tally import Tally

AT_ONCE = 40  # faults that one process meets, one after the other
READING_CALLS = {"verify": 850, "open": 380, "export": 1100}  # about a store


@dataclass(frozen=True)
class Fault:
    """A file that is damaged in some way; some ways need another file or chance."""

    file: Path
    other: Path
    harm: str
    seed: int

    def __str__(self) -> str:
        return f"{self.file.name} in {self.file.parent.parent.name}/{self.file.parent.name} {self.harm}"

    def done(self) -> None:
        """Damage the file."""
        HARMS[self.harm](self.file, self.other, random.Random(self.seed))

    def undone(self, content: bytes) -> None:
        """Put the file back, whatever stands in its place."""
        self.file.rmdir() if self.file.is_dir() else self.file.unlink(missing_ok=True)
        self.file.write_bytes(content)


def file_faults(shop: Workshop, draw: random.Random, tally: Tally) -> None:
    """Files of a finished store are damaged: reading finds it or is not touched by it, training mends several."""
    store, kind = shop.copy(), "damaged files"
    drawn = [_drawn(store, draw) for _ in range(AT_ONCE)]
    told = attempt(lambda: [_read_damaged(store, one) for one in drawn])
    tally.add(kind, tries=1, faults=len(drawn))
    if told.how != "done":
        judged(told, "", kind, tally, f"one of {', '.join(map(str, drawn))}")
    for fault, found in zip(drawn, told.value if told.how == "done" else (), strict=False):
        read, verifying = (Ended(**one) for one in found)
        _judge_reading(shop, fault, read, verifying, kind, tally)
    several = {one.file: one for one in drawn[: draw.randrange(1, 5)]}.values()
    for one in several:
        one.done()
    story = ", ".join(map(str, several))
    resumed(shop, store, kind, tally, f"{story}, mended", verify=True)
    judged(attempt(lambda: opened(store)), shop.large, kind, tally, f"{story}, opened after mending", "silent")
    shutil.rmtree(store)


def _drawn(store: Path, draw: random.Random) -> Fault:
    """Return a fault of one of a store's files."""
    files = [one for one in sorted(store.rglob("*")) if one.is_file() and one.name != "lock"]
    file, other = draw.sample(files, 2)
    return Fault(file, other, draw.choice(list(HARMS)), draw.randrange(1 << 30))


def _read_damaged(store: Path, fault: Fault) -> list[dict[str, Any]]:
    """Return how opening and verifying a store end while one file is damaged."""
    content = fault.file.read_bytes()
    fault.done()
    try:
        return [asdict(outcome(lambda: opened(store))), asdict(outcome(lambda: verified(store)))]
    finally:
        fault.undone(content)


def _judge_reading(shop: Workshop, fault: Fault, read: Ended, told: Ended, kind: str, tally: Tally) -> None:
    """Count how a damaged store was read, and whether what verifying said of it was true."""
    judged(read, shop.large, kind, tally, f"{fault}, opened", "silent")
    if told.how in ("traceback", "hung"):
        judged(told, "", kind, tally, f"{fault}, verified")
    if told.value is True and read.value != shop.large:
        tally.sin(kind, "silent", f"{fault}: said to be whole, but {read.value}")


def _flipped(file: Path, other: Path, draw: random.Random) -> None:
    content = bytearray(file.read_bytes() or b"\0")
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def _another(file: Path, other: Path, draw: random.Random) -> None:
    file.write_bytes(other.read_bytes() if other.is_file() else b"")  # the other may be a pipe by now, or a folder


def _folder(file: Path, other: Path, draw: random.Random) -> None:
    file.unlink()
    file.mkdir()


def _pipe(file: Path, other: Path, draw: random.Random) -> None:
    file.unlink()
    os.mkfifo(file)


HARMS: dict[str, Callable[[Path, Path, random.Random], object]] = {
    "has another bit": _flipped,
    "is cut off": lambda file, other, draw: os.truncate(file, draw.randrange(1 + file.stat().st_size)),
    "is empty": lambda file, other, draw: os.truncate(file, 0),
    "is gone": lambda file, other, draw: file.unlink(),
    "is another file": _another,
    "is zeros": lambda file, other, draw: file.write_bytes(bytes(file.stat().st_size)),
    "is a folder": _folder,
    "is a pipe": _pipe,
}


def failing_reads(shop: Workshop, draw: random.Random, tally: Tally) -> None:
    """System calls fail, one each time a store is read: a sentence or the truth, and the store is as it was."""
    kind, store, name = "failing system calls of readers", shop.copy(), draw.choice(list(READING_CALLS))
    works: dict[str, Callable[[Path], object]] = {
        "verify": lambda one: trained(one, LARGE, verify=True), "open": opened, "export": exported}  # fmt: skip
    before = contents(store)
    _failing(shop, store, works[name], name, READING_CALLS[name], draw, kind, tally)
    if contents(store) != before:
        tally.sin(kind, "lost", f"{name}: the store was changed")
    resumed(shop, store, kind, tally, f"{name} with failing calls, and again")
    shutil.rmtree(store)


def failing_writes(shop: Workshop, draw: random.Random, tally: Tally) -> None:
    """System calls fail while a store is made or grows, again and again: the last, undisturbed try gives its bits."""
    kind, grow = "failing system calls of writers", draw.random() < 0.5
    store, name = (shop.copy("small"), "grow") if grow else (shop.new(), "train")

    def renew() -> None:
        """Put the store back to where it was: the next training would find nothing to write."""
        shutil.rmtree(store)
        if grow:
            shutil.copytree(shop.whole["small"], store)

    _failing(shop, store, lambda one: trained(one, LARGE), name, TRAINING_CALLS, draw, kind, tally, renew)
    resumed(shop, store, kind, tally, f"{name} with failing calls, and again")
    shutil.rmtree(store, ignore_errors=True)


def _failing(
    shop: Workshop, store: Path, work: Callable[[Path], object], name: str, most: int, draw: random.Random, kind: str,
    tally: Tally, renew: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Do some work again and again in one process, another call of it failing each time; renew what was finished."""
    drawn = [(draw.randrange(most), draw.choice(calls.ERRORS)) for _ in range(AT_ONCE)]

    def one_after_the_other() -> list[tuple[bool, dict[str, Any]]]:
        trap, found = calls.Trap(store), []
        for at, error in drawn:
            trap.set(at, calls.failure(error))
            ended = outcome(lambda: work(store))
            found.append((trap.sprung, asdict(ended)))
            if ended.how == "done":
                renew()
        return found

    told = attempt(one_after_the_other)
    tally.add(kind, tries=1)
    if told.how != "done":
        judged(told, "", kind, tally, f"{name}: one of {drawn}")
    for (at, error), (sprung, ended) in zip(drawn, told.value if told.how == "done" else (), strict=False):
        tally.add(kind, faults=int(sprung))
        judged(Ended(**ended), shop.large, kind, tally, f"{name}: {os.strerror(error)} at call {at}", "silent")
