"""Is a store what was written? Everything that has a checksum is read and compared; nothing is changed.

No data are needed: what a store must be is in its own plan, signature and markers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedscope.core import DiskError, OutOfMemoryError, SeedscopeError, printable, read_error, require
from seedscope.planning import Chunk
from seedscope.storage.chunk_files import MARKERS, RECORDS, SET_ASIDE, ChunkFiles
from seedscope.storage.folder import LOCK, open_files, unfinished
from seedscope.storage.markers import Marker
from seedscope.storage.plan_file import PLAN
from seedscope.storage.signature import LAYOUT

if TYPE_CHECKING:
    import xarray

SHOWN = 5  # names in a note
KNOWN = {LOCK, PLAN, LAYOUT, MARKERS, RECORDS, SET_ASIDE, "looks.json"}


@dataclass(frozen=True)
class Finding:
    """What was found about one part of a store: how much was checked, how much of it is good, and what to know."""

    part: str
    checked: int
    good: int
    note: str = ""

    @property
    def bad(self) -> int:
        """How much is not what was written."""
        return self.checked - self.good


@dataclass(frozen=True)
class Verified:
    """A store's findings, and how many of its grid's chunks are not trained yet."""

    path: Path
    findings: tuple[Finding, ...]
    missing: int = 0

    @property
    def whole(self) -> bool:
        """Whether everything that is there is what was written."""
        return all(finding.bad == 0 for finding in self.findings)

    @property
    def finished(self) -> bool:
        """Whether it is whole, and nothing is missing."""
        return self.whole and not self.missing


def verify_store(path: str | Path) -> Verified:
    """Return what is good and what is not in a store, after everything in it was read; nothing is written.

    A trouble of the system, such as a disk that cannot be read just now, is an error: it says nothing about the store.
    """
    place = Path(path)
    require((place / RECORDS).is_dir() or (place / PLAN).exists(), f"no store at {place}; name the folder of one.")
    try:
        return _verified(place)
    except (OSError, MemoryError) as error:
        raise read_error(error, place) from error


def _verified(place: Path) -> Verified:
    """Return what is found, as far as one part allows to read the next."""
    plan, files = _tried("plan", lambda: open_files(place))
    if files is None:
        return Verified(place, (plan,))
    metadata, layout = _tried("metadata", lambda: files.layout())
    if layout is None:
        return Verified(place, (plan, metadata))
    count = len(layout.facts) + 1
    unsigned = "" if layout.signature else "not signed: made by an older version"
    coordinates, opened = _tried("coordinates and description", lambda: _opened(files))
    findings = (plan, Finding("metadata", count, count, unsigned), coordinates)
    if opened is None:
        return Verified(place, findings)
    names = sorted(set(layout.facts) - set(map(str, opened.coords)))
    done, lost = _markers(files)
    records = [_records(files, name, done) for name in names]
    environments = Finding("environments", 0, 0, _environments(done.values()))
    strangers = Finding("other files", 0, 0, _others(place))
    missing = len(unfinished(files, opened.sizes))
    return Verified(
        place, (*findings, lost, *records, *(finding for finding in (environments, strangers) if finding.note)), missing
    )


def _tried(part: str, attempt: Any) -> tuple[Finding, Any]:
    """Return the finding about a part that is good or not as a whole, and what was read of it."""
    try:
        return Finding(part, 1, 1), attempt()
    except (DiskError, OutOfMemoryError):
        raise
    except SeedscopeError as error:
        return Finding(part, 1, 0, printable(str(error).partition("; ")[0])), None


def _opened(files: ChunkFiles) -> xarray.Dataset:
    """Return the records of the grid that was asked for last, its coordinates and description compared."""
    from seedscope.storage.ensemble import described_grid  # start-up
    from seedscope.storage.reading import check_coordinates, open_checked  # start-up

    try:
        return check_coordinates(described_grid(open_checked(files)), files.path)
    except (SeedscopeError, OSError, MemoryError):
        raise
    except (ValueError, KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
        raise SeedscopeError(f"cannot be read ({type(error).__name__})") from error


def _markers(files: ChunkFiles) -> tuple[dict[Chunk, Marker], Finding]:
    """Return the finished chunks with what their markers say, and the finding about all markers."""
    chunks = list(_marked(files))
    read = {chunk: files.read_marker(chunk) for chunk in chunks}
    done = {chunk: marker for chunk, marker in read.items() if marker is not None}
    bad = [chunk.name for chunk in chunks if chunk not in done]
    half = [chunk.name for chunk, why in files.half_written() if why == "is half written"]
    notes = [f"not of this plan: {_some(bad)}"] if bad else []
    notes += [f"{len(half)} without a marker, under way or half written: {_some(half)}"] if half else []
    return done, Finding("markers", len(chunks), len(done), "; ".join(notes))


def _marked(files: ChunkFiles) -> Iterator[Chunk]:
    """Yield the chunks that have a marker's file."""
    place = files.path / MARKERS
    for file in sorted(file for file in place.iterdir() if file.suffix == ".json") if place.is_dir() else ():
        seed, dash, neighbour = file.stem.partition("-")
        if dash and seed.isdecimal() and neighbour.isdecimal():
            yield Chunk(int(seed), int(neighbour))


def _records(files: ChunkFiles, name: str, done: Iterable[Chunk]) -> Finding:
    """Return the finding about one variable's chunks."""
    wrong = {chunk.name: files.read(name, chunk)[1] for chunk in done}
    bad = [f"{chunk} {why}" for chunk, why in wrong.items() if why]
    return Finding(f"{name}, in chunks", len(wrong), len(wrong) - len(bad), _some(bad))


def _environments(markers: Iterable[Marker]) -> str:
    """Return in how many environments the chunks were trained, where that is more than one."""
    kinds = {json.dumps(dict(marker.environment), sort_keys=True) for marker in markers if marker.environment}
    return f"trained in {len(kinds)} different environments; bits may differ between them" if len(kinds) > 1 else ""


def _others(place: Path) -> str:
    """Return what else lies in the folder: chunks that were set aside, and files that no store has."""
    aside = len(list((place / SET_ASIDE).iterdir())) if (place / SET_ASIDE).is_dir() else 0
    strange = sorted(path.name for path in place.iterdir() if path.name not in KNOWN and not path.name.startswith("."))
    notes = [f"{aside} set aside"] if aside else []
    return "; ".join(notes + ([f"not of a store: {_some(strange)}"] if strange else []))


def _some(names: list[str]) -> str:
    """Return the first few names."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return printable(", ".join(names[:SHOWN]) + more)
