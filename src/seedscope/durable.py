"""Files that are whole or absent after a power cut, and the sentences for disks that refuse."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from seedscope.errors import SeedscopeError


def write_durably(path: Path, text: str) -> None:
    """Write a file so that after a power cut it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        synchronise(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def synchronise(path: Path) -> None:
    """Bring a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_error(error: OSError, path: Path) -> SeedscopeError:
    """Return the sentence for a disk that is full, a place that may not be written, or another trouble with it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return SeedscopeError(
            f"no space left for {path}; make room and run the same command again: finished chunks are kept."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SeedscopeError(f"no permission to write {path}; choose another place with --store.")
    return SeedscopeError(f"cannot write {path}: {error.strerror or error}; choose another place with --store.")
