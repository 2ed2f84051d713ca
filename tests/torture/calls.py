"""Faults at a system call: the n-th one about a store fails with an error of the system, or ends the process.

Python tells its audit hooks of every file that is opened, renamed, removed or listed, also from C; what a hook raises
is what the call raises. `fsync` is not told of, and is wrapped.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.scandir", "os.listdir", "os.truncate", "fsync")
ERRORS = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.ESTALE, errno.EACCES, errno.EDQUOT, errno.EROFS)


def at_call(place: Path, number: int, act: Callable[[], object]) -> list[int]:
    """Do something at a call about files in a place, the given one counted from 0; return the count, which goes on."""
    count, inside = [0], os.fsencode(place)

    def count_one(event: str, path: object) -> None:
        if event in CALLS and _within(path, inside):
            count[0] += 1
            if count[0] == number + 1:
                act()

    real = os.fsync

    def fsync(descriptor: int) -> None:
        count_one("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    os.fsync = fsync  # type: ignore[assignment]
    sys.addaudithook(lambda event, given: count_one(event, given[0]) if given else None)
    return count


def _within(path: Any, inside: bytes) -> bool:
    """Whether a call is about a file in a place."""
    try:
        return os.fsencode(path).startswith(inside)
    except TypeError:  # a descriptor
        return False


def kill() -> None:
    """End this process as a power switch does, as far as processes see it."""
    os.kill(os.getpid(), signal.SIGKILL)


def failure(number: int) -> Callable[[], object]:
    """Return what raises an error of the system."""

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail
