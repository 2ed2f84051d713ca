"""Work in a process of its own that may be killed: forked, so that starting it takes no time.

The process that forks has everything imported and never opens a store itself: threads of Zarr's would not survive.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from seedscope.core import SeedscopeError

PATIENCE = 300.0  # seconds after which a process hangs: far more than any work here takes, on a busy machine too


@dataclass(frozen=True)
class Ended:
    """How a process ended: `done` with a value, `refused` with a sentence, `traceback`, `killed` or `hung`."""

    how: str
    value: Any = None


def attempt(work: Callable[[], Any], killed_after: float | None = None) -> Ended:
    """Return how some work ended in a process of its own, killed after this many seconds if it still runs."""
    reading, writing = os.pipe()
    gc.freeze()  # or the child's collector writes to, and so copies, every page of the parent's
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(work, writing)
    os.close(writing)
    try:
        return _watched(child, reading, killed_after)
    finally:
        os.close(reading)


def outcome(work: Callable[[], Any]) -> Ended:
    """Return how some work ended in this very process, which is then still there to do more."""
    _unraised.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ended = Ended("done", work())
    except SeedscopeError as error:
        ended = Ended("refused", str(error))
    except BaseException:
        return Ended("traceback", traceback.format_exc()[-1500:])
    return Ended("traceback", "\n".join(_unraised)[-1500:]) if _unraised else ended


_unraised: list[str] = []  # what Python itself would print a traceback of, though nobody can catch it


def _keep(unraised: Any) -> None:
    """Keep an error that a destructor or a thread ended with."""
    told = traceback.format_exception(unraised.exc_type, unraised.exc_value, unraised.exc_traceback)
    _unraised.append("".join(told))


def _work(work: Callable[[], Any], writing: int) -> NoReturn:
    """Do the work and tell how it ended; nothing of the parent's is cleaned up."""
    sys.unraisablehook = threading.excepthook = _keep
    ended = outcome(work)
    with os.fdopen(writing, "w") as pipe:
        json.dump(asdict(ended), pipe)
    os._exit(0)


def _watched(child: int, reading: int, killed_after: float | None) -> Ended:
    """Return how a process ended, killed at its time, or given up."""
    ready = _readable(reading, PATIENCE if killed_after is None else killed_after)
    if not ready:
        os.kill(child, signal.SIGKILL)
    said = _everything(reading)
    _, status = os.waitpid(child, 0)
    if said:
        return Ended(**json.loads(said))
    by_us = not ready or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL)
    if not by_us:
        return Ended("traceback", f"the process ended by itself with status {status}")
    return Ended("hung" if killed_after is None and not ready else "killed")


def _readable(reading: int, seconds: float) -> bool:
    """Whether something, or the end, can be read within this many seconds."""
    return bool(select.select([reading], [], [], seconds)[0])


def _everything(reading: int) -> str:
    """Return what the other side wrote until it ended; nothing where that was cut off."""
    pieces, until = [], time.monotonic() + PATIENCE
    while _readable(reading, max(0.0, until - time.monotonic())) and (piece := os.read(reading, 1 << 16)):
        pieces.append(piece)
    text = b"".join(pieces).decode()
    return text if text.endswith("}") else ""
