"""Files that are whole or absent after a power cut, and the sentences for disks that refuse."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from filelock import FileLock, Timeout

from seedscope.core.errors import DiskError, OutOfMemoryError, SeedscopeError

WINDOWS = os.name == "nt"
PRIVATE = 0o600  # permissions of files that only their owner may read
PUBLIC = 0o644
TEMPORARY, IN_USE = "seedscope-", "in-use"  # our temporary folders, and the lock in each of them
FEW_FILES = 4  # more than an event loop opens


def write_durably(path: Path, content: str | bytes) -> None:
    """Write a file, a text as UTF-8, so that after a power cut it is there whole or not at all."""
    write_together(path.parent, {path.name: content})


def write_together(folder: Path, contents: Mapping[str, str | bytes], mode: int = PRIVATE) -> list[Path]:
    """Write files durably, none under its own name before all are complete; return their paths.

    They are their owner's only, unless `mode` says otherwise: most of what is written here is about people.
    """
    unique = f"{os.getpid()}.{threading.get_ident()}"
    parts = {folder / name: folder / f".{name}.{unique}" for name in contents}
    try:
        for part, content in zip(parts.values(), contents.values(), strict=True):
            _write(part, content.encode() if isinstance(content, str) else content, mode)
            synchronise(part)
        for path, part in parts.items():
            part.replace(path)
        synchronise(folder)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    return list(parts)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a new file with these permissions from the beginning."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), mode), "wb") as file:
        file.write(content)


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a temporary folder of this process's own; those that killed processes left behind are removed first."""
    sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as name, FileLock(Path(name) / IN_USE):
        yield Path(name)


def sweep(place: Path) -> None:
    """Remove the temporary folders of ours whose process has ended; one in use has its lock held."""
    for folder in place.glob(f"{TEMPORARY}*"):
        lock = FileLock(folder / IN_USE, timeout=0)
        try:
            if (folder / IN_USE).is_file() and folder.stat().st_uid == os.getuid():
                with lock:
                    shutil.rmtree(folder, ignore_errors=True)
        except (OSError, Timeout, AttributeError):  # somebody's, in use, or already gone; Windows has no user numbers
            continue


def synchronise(path: Path) -> None:
    """Bring a file or folder to the disk; Windows does that with folders itself, and with files open for writing."""
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def files_below(folder: Path) -> list[Path]:
    """Return the plain files in a folder and below it, in order; what may not be read is an error, not left out."""

    def refuse(error: OSError) -> NoReturn:
        raise error

    paths = (Path(place, name) for place, _, names in os.walk(folder, onerror=refuse) for name in names)
    return sorted(path for path in paths if path.is_file())


def require_open_files() -> None:
    """Raise the system's own error unless a few more files can be opened.

    Python's event loop, which Zarr starts, prints a traceback of its own where it was only half made.
    """
    descriptors: list[int] = []
    try:
        for _ in range(FEW_FILES):
            descriptors.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def disk_error(error: OSError, path: Path) -> SeedscopeError:
    """Return the sentence for a disk that is full, a place that may not be written, or another trouble with it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskError(f"no space left for {path}; make room and run the same again: finished chunks are kept.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DiskError(f"no permission to write {path}; choose another place.", argument="store")
    return DiskError(f"cannot write {path}: {error.strerror or error}; choose another place.", argument="store")


def read_error(error: OSError | MemoryError, path: Path) -> SeedscopeError:
    """Return the sentence for something that the operating system would not let us read: nothing is known to be wrong.

    A passing trouble (too many open files, a lost network disk, no permission) is never taken for damage.
    """
    if isinstance(error, MemoryError):
        return OutOfMemoryError(f"not enough memory to read {path}; nothing was changed: make room and try again.")
    said = error.strerror or str(error) or type(error).__name__
    return DiskError(f"cannot read {path}: {said}; nothing was changed: try again when that has passed.")


def cannot_write(folder: Path, error: OSError) -> SeedscopeError:
    """Return the sentence for a folder of results that cannot be written to."""
    return DiskError(f"cannot write to {folder}: {error.strerror or error}; choose another folder.", "out")


def cache_folder() -> Path:
    """Return the folder of what can be had again, such as downloads: SEEDSCOPE_CACHE, or the system's place for it."""
    name = os.environ.get("SEEDSCOPE_CACHE")
    if name:
        return Path(name)
    import pooch

    return Path(pooch.os_cache("seedscope"))
