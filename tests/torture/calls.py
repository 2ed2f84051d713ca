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


class Trap:
    """Does something at a call about files in a place, once for each time that it is set."""

    def __init__(self, place: Path) -> None:
        self.inside, self.left, self.act = os.fsencode(place), -1, kill
        real = os.fsync

        def fsync(descriptor: int) -> None:
            self._count("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))
            real(descriptor)

        os.fsync = fsync  # type: ignore[assignment]
        sys.addaudithook(lambda event, given: self._count(event, given[0]) if given else None)

    def set(self, number: int, act: Callable[[], None]) -> Trap:
        """Wait for the call of this number, counted from 0."""
        self.left, self.act = number, act
        return self

    @property
    def sprung(self) -> bool:
        """Whether the call came; a trap that waits on is taken away by asking."""
        waiting, self.left = self.left >= 0, -1
        return not waiting

    def _count(self, event: str, path: object) -> None:
        """Count a call; the one that is waited for acts."""
        if self.left >= 0 and event in CALLS and _within(path, self.inside):
            self.left -= 1
            if self.left < 0:
                self.act()


def _within(path: Any, inside: bytes) -> bool:
    """Whether a call is about a file in a place."""
    try:
        return os.fsencode(path).startswith(inside)
    except TypeError:  # a descriptor
        return False


def kill() -> None:
    """End this process as a power switch does, as far as processes see it."""
    os.kill(os.getpid(), signal.SIGKILL)


def failure(number: int) -> Callable[[], None]:
    """Return what raises an error of the system."""

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail
