"""Which stores are kept in a folder: what they hold, how large and how old they are; and taking one away."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from seedscope.core import DiskError, SeedscopeError, read_error, require
from seedscope.storage.chunk_files import MARKERS, RECORDS
from seedscope.storage.folder import LOCK
from seedscope.storage.metadata import read_json
from seedscope.storage.plan_file import PLAN


@dataclass(frozen=True)
class Kept:
    """A store: where it is, what it was trained on and by, how many chunks are done, its size and its age."""

    path: Path
    data: str
    mechanism: str
    chunks: int
    bytes: int
    seconds_since_change: float


def kept_stores(folder: str | Path) -> list[Kept]:
    """Return the stores in a folder and below it, the youngest first; what is not a store is passed over."""
    try:
        stores = [_facts(path) for path in _stores(Path(folder))]
    except OSError as error:
        raise read_error(error, Path(folder)) from error
    return sorted(stores, key=lambda store: (store.seconds_since_change, str(store.path)))


def remove_store(path: str | Path) -> None:
    """Delete a store and folders above it that are empty then; raise if it is none, or if a run is writing to it."""
    place = Path(path)
    try:
        require(_is_store(place), f"{place} is not a store of Seedscope; nothing was removed.")
        with FileLock(place / LOCK, timeout=0):
            shutil.rmtree(place / RECORDS)  # first: without its records a folder is no store any more
        shutil.rmtree(place)
        for above in list(place.parents)[:2]:
            if above.is_dir() and above != Path() and not any(above.iterdir()):
                above.rmdir()
    except Timeout:  # which is an OSError too
        raise SeedscopeError(f"a run is writing to {place}; stop it first.") from None
    except OSError as error:
        left = f"{place} could not be removed whole: {error.strerror or error}; remove what is left of it by hand."
        raise DiskError(left) from error


def _stores(folder: Path) -> Iterator[Path]:
    """Yield the stores in a folder, and in folders below it."""
    if _is_store(folder):
        yield folder
    elif folder.is_dir() and not folder.is_symlink():
        for inside in sorted(folder.iterdir()):
            yield from _stores(inside)


def _is_store(path: Path) -> bool:
    """Say whether a folder is a store."""
    return not path.is_symlink() and (path / PLAN).is_file() and (path / RECORDS).is_dir()


def _facts(path: Path) -> Kept:
    """Return what is to be said about a store; one that cannot be read is named so."""
    try:
        plan = read_json(path / PLAN)
        identity = plan.get("identity", plan)
        data, mechanism = str(identity["data"]["name"]), str(identity["mechanism"]["type"])
    except Exception:  # whatever a damaged file makes the reader raise: it can still be listed and removed
        data, mechanism = "?", "cannot be read"
    sizes, changed = 0, 0.0
    for place, _, names in os.walk(path):
        for name in names:
            status = os.lstat(os.path.join(place, name))
            sizes, changed = sizes + status.st_size, max(changed, status.st_mtime)
    chunks = sum(1 for _ in (path / MARKERS).glob("*.json"))
    return Kept(path, data, mechanism, chunks, sizes, max(0.0, time.time() - changed))
