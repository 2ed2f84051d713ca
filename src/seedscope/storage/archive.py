"""One file for an ensemble: to hand it to a colleague, or to keep it with a paper.

An archive is a ZIP file whose members are stored, not compressed (records are compressed already):

    seedscope.json               what this is, and the SHA-256 and size of every other member
    zarr.json                    an empty Zarr group, so that xarray opens what is below it
    [NAME/…]plan.json            each store's own files, as in its folder
    [NAME/…]layout.json
    [NAME/…]done/0-0.json
    [NAME/…]models.zarr/…

Members have no time and no owner: the same store gives the same bytes. Nothing in it can be run. What is unpacked is
what this page lists and nothing else: no other name, no link, no member that claims more than the file holds.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from seedscope.core import (
    PRIVATE,
    DamageError,
    SeedscopeError,
    disk_error,
    files_below,
    in_bytes,
    printable,
    read_error,
    require,
    synchronise,
)
from seedscope.storage.chunk_files import MARKERS, RECORDS
from seedscope.storage.ensemble import LOOKS
from seedscope.storage.folder import LOCK
from seedscope.storage.kept import kept_stores
from seedscope.storage.metadata import LONGEST_JSON, METADATA
from seedscope.storage.plan_file import PLAN
from seedscope.storage.signature import LAYOUT
from seedscope.storage.verification import Verified, verify_store

FORMAT, VERSION = "seedscope-archive", 1
MANIFEST = "seedscope.json"
ROOT = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode()
LONG_AGO = (1980, 1, 1, 0, 0, 0)
PIECE = 1 << 20
FOLDER = r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,99}/){0,4}"
MEMBER = re.compile(
    FOLDER + r"(?:plan\.json|layout\.json|looks\.json|done/\d{1,9}-\d{1,9}\.json"
    r"|models\.zarr/(?:zarr\.json|[A-Za-z][A-Za-z0-9_]{0,99}/(?:zarr\.json|c(?:/\d{1,9}){1,8})))"
)


@dataclass(frozen=True)
class Archived:
    """An archive: where it is, its size and SHA-256, and the stores in it."""

    path: Path
    bytes: int
    sha256: str
    stores: tuple[str, ...]


def export_store(store: str | Path, file: str | Path) -> Archived:
    """Write a store, or all stores in a folder, into one file; each is verified first, and must be finished.

    The file is its owner's only: scores are about people.
    """
    place, target = Path(store), Path(file)
    require(not target.exists(), f"{target} exists; choose another name for the archive.", argument="file")
    paths = [kept.path for kept in kept_stores(place)]
    require(paths, f"no store at {place}; see 'seedscope runs list'.", argument="store")
    names = {"" if path == place else f"{path.relative_to(place).as_posix()}/": path for path in paths}
    for name in names:
        require(
            re.fullmatch(FOLDER, name),
            f"the store's name {printable(name)!r} may have letters, digits and ._- only.",
        )
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, PRIVATE), "w+b") as opened:
            _write(opened, names)
        synchronise(part)
        os.replace(part, target)
        synchronise(target.absolute().parent)
        return _archived(target, sorted(name.rstrip("/") or "." for name in names))
    except OSError as error:
        raise disk_error(error, target) from error
    finally:
        part.unlink(missing_ok=True)


def _write(opened: IO[bytes], stores: Mapping[str, Path]) -> None:
    """Write the archive: every member is read once for its checksum and once more to be copied."""
    members: dict[str, Path] = {}
    with ExitStack() as locks, zipfile.ZipFile(opened, "w", zipfile.ZIP_STORED) as archive:
        for name, place in sorted(stores.items()):
            locks.enter_context(_unchanging(place))
            _require_finished(verify_store(place))
            members |= {name + inside: place / inside for inside in _inside(place)}
        known = {name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for name, path in members.items()}
        manifest = {"format": FORMAT, "version": VERSION, "stores": sorted(stores), "members": known}
        archive.writestr(_member(MANIFEST), json.dumps(manifest, indent=1, sort_keys=True))
        archive.writestr(_member(METADATA), ROOT)
        for name, path in members.items():
            with open(path, "rb") as source, archive.open(_member(name), "w", force_zip64=True) as copy:
                shutil.copyfileobj(source, copy, PIECE)


@contextmanager
def _unchanging(place: Path) -> Iterator[None]:
    """Hold a store's lock, so that no run writes to it; where that cannot be made nobody else can write either."""
    lock = FileLock(place / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:  # which is an OSError too
        raise SeedscopeError(f"a run is writing to {place}; wait for it, or stop it first.") from None
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    try:
        yield
    finally:
        lock.release()


def _require_finished(verified: Verified) -> None:
    """Raise unless a store is whole, and all its chunks are there."""
    bad = next((finding for finding in verified.findings if finding.bad), None)
    if bad is not None:
        raise DamageError(
            f"{verified.path} is damaged ({bad.part}: {bad.note}); see 'seedscope verify', and mend it first."
        )
    lacks = f"{verified.path} lacks {verified.missing} of its chunks; run the same training again to finish it first."
    require(not verified.missing, lacks)


def _inside(place: Path) -> Iterator[str]:
    """Yield the names of a store's own files, in order."""
    yield from [name for name in (PLAN, LAYOUT, LOOKS) if (place / name).is_file()]
    for folder in (MARKERS, RECORDS):
        paths = (path for path in files_below(place / folder) if not path.name.startswith("."))
        yield from sorted(path.relative_to(place).as_posix() for path in paths)


def _member(name: str) -> zipfile.ZipInfo:
    """Return how a member is entered: without a time, readable by its owner only."""
    member = zipfile.ZipInfo(name, LONG_AGO)
    member.external_attr = (stat.S_IFREG | PRIVATE) << 16
    member.create_system = 3  # the same bytes on every system
    return member


def import_store(file: str | Path, store: str | Path, sha256: str | None = None) -> Archived:
    """Unpack an archive into a new folder, after everything in it was checked; return what it is.

    Whatever is not as it must be is an error, and nothing is left behind.

    Args:
        file: what `export_store` wrote.
        store: a folder that does not exist yet, or is empty.
        sha256: the archive's checksum, if its sender told it.
    """
    source, place = Path(file), Path(store)
    vacant = not place.exists() or (place.is_dir() and not any(place.iterdir()))
    require(vacant, f"{place} exists; choose a new folder for the store.", argument="store")
    try:
        archived = _archived(source, ())
    except OSError as error:
        raise read_error(error, source) from error
    mismatch = (
        f"{source} has the SHA-256 {archived.sha256}, not {sha256}: it is another file, or was changed on its way."
    )
    if sha256 is not None and archived.sha256 != sha256.lower():
        raise DamageError(mismatch)
    try:
        stores = _unpack(source, place)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise _refused(source, f"it is not a whole ZIP file: {error}") from None
    return Archived(archived.path, archived.bytes, archived.sha256, stores)


def _unpack(source: Path, place: Path) -> tuple[str, ...]:
    """Unpack into a folder beside the new one, verify every store there, then rename it."""
    part = place.absolute().with_name(f".{place.name}.importing")
    shutil.rmtree(part, ignore_errors=True)  # of an import that was killed
    try:
        with zipfile.ZipFile(source) as archive:
            manifest = _manifest(source, archive)
            _require_room(source, place)
            part.mkdir(parents=True, mode=0o700)
            for name, known in manifest["members"].items():
                _copy(source, archive, name, known, part / name)
        for name in manifest["stores"]:
            _require_good(source, verify_store(part / name))
        if place.exists():
            place.rmdir()
        os.replace(part, place)
        synchronise(place.absolute().parent)
        return tuple(name.rstrip("/") or "." for name in manifest["stores"])
    except OSError as error:
        raise disk_error(error, place) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _manifest(source: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return what an archive says that it holds, after its directory was found to hold just that."""
    entries = archive.infolist()
    names = {entry.filename: entry for entry in entries}
    _require(source, len(names) == len(entries), "a name occurs twice")
    for entry in entries:
        _require_plain(source, entry)
    whole = sum(entry.file_size for entry in entries)
    _require(source, whole <= source.stat().st_size, f"it claims to hold {in_bytes(whole)}, more than it has")
    _require(source, MANIFEST in names and names[MANIFEST].file_size <= LONGEST_JSON, f"it has no {MANIFEST}")
    known = _parsed(source, archive.read(names[MANIFEST]))
    _require(source, set(known["members"]) == set(names) - {MANIFEST, METADATA}, f"{MANIFEST} lists other members")
    return known


def _parsed(source: Path, content: bytes) -> dict[str, Any]:
    """Return the list of members, after each of its values was found to be of its type."""
    try:
        known = json.loads(content.decode("utf-8"))
        good = known["format"] == FORMAT and _lists_members(known["stores"], known["members"])
        version = known["version"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        good, known, version = False, {}, VERSION
    _require(source, good, f"{MANIFEST} is not a list of members")
    _require(source, version == VERSION, f"it has version {version!r}, and this version of Seedscope reads {VERSION}")
    return dict(known)


def _lists_members(stores: Any, members: Any) -> bool:
    """Whether these are the names of one store or more, and a size and a checksum for each member."""
    named = bool(stores) and all(isinstance(store, str) and re.fullmatch(FOLDER, store) for store in stores)
    return named and all(set(member) == {"bytes", "sha256"} for member in members.values())


def _require_plain(source: Path, member: zipfile.ZipInfo) -> None:
    """Raise unless a member is a plain file under a name that a store has, stored as it is."""
    name = member.filename
    shown = printable(name[:60])
    _require(source, name in (MANIFEST, METADATA) or MEMBER.fullmatch(name), f"{shown!r} is no file of a store")
    mode = member.external_attr >> 16
    _require(source, not mode or stat.S_ISREG(mode) or stat.S_IFMT(mode) == 0, f"{shown!r} is not a plain file")
    stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
    _require(source, stored and not member.flag_bits & 0x1, f"{shown!r} is compressed or locked")


def _require_room(source: Path, place: Path) -> None:
    """Raise where the disk has less room than the archive takes."""
    above = next(parent for parent in place.absolute().parents if parent.exists())
    free, needed = shutil.disk_usage(above).free, source.stat().st_size
    require(needed < free, f"{source} needs {in_bytes(needed)}, the disk has {in_bytes(free)} left; make room first.")


def _copy(source: Path, archive: zipfile.ZipFile, name: str, known: Mapping[str, Any], target: Path) -> None:
    """Write a member to the disk, and raise where it is not what the archive's list says."""
    digest, size = hashlib.sha256(), 0
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        archive.open(name) as member,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as copy,
    ):
        while piece := member.read(PIECE):
            digest.update(piece)
            size += len(piece)
            copy.write(piece)
    synchronise(target)
    same = (size, digest.hexdigest()) == (known["bytes"], known["sha256"])
    if not same:
        raise DamageError(f"{source} is damaged: {name} does not have its checksum; get the archive again.")


def _require_good(source: Path, verified: Verified) -> None:
    """Raise unless a store that was unpacked is whole."""
    bad = next((finding for finding in verified.findings if finding.bad), None)
    _require(source, bad is None, f"a store in it is not whole: {bad.part}, {bad.note}" if bad else "")
    _require(source, not verified.missing, f"a store in it lacks {verified.missing} of its chunks")


def _require(source: Path, holds: object, why: str) -> None:
    """Raise unless something holds of an archive."""
    if not holds:
        raise _refused(source, why)


def _refused(source: Path, why: str) -> SeedscopeError:
    """Return the sentence for an archive that is not one of ours."""
    return DamageError(f"{source} is not an archive of Seedscope, or is damaged ({why}); nothing was unpacked.")


def _archived(path: Path, stores: Any) -> Archived:
    """Return an archive's size and checksum."""
    return Archived(path, path.stat().st_size, _sha256(path), tuple(stores))


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
