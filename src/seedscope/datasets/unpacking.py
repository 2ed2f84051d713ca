"""What is inside a compressed file, bounded: a few megabytes of a stranger's can claim to hold the whole memory.

Nothing is kept before it was counted. A file may unpack to `DENSEST` times its size (or to `ALWAYS`), and never to more
than a share of the memory that is free.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

from seedscope.core import OutOfMemoryError, SeedscopeError, available_memory, in_bytes, require

ALWAYS = 256 << 20  # bytes that any file may unpack to
DENSEST = 100  # times its size, which tables of people do not reach
SHARE = 8  # of the free memory, one part in this many: texts and cells need the rest
PIECE = 1 << 20
ZIP = b"PK\x03\x04"
_COMPRESSED: dict[bytes, tuple[str, Callable[..., Any]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
}
_BROKEN = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError)


def most_bytes(packed: int, densest: int = DENSEST) -> int:
    """Return how many bytes a file of this size may unpack to.

    >>> most_bytes(10) == min(ALWAYS, most_bytes(10**12))
    True
    """
    return min(max(ALWAYS, densest * packed), available_memory() // SHARE)


def require_memory(what: str, needed: int) -> None:
    """Raise where something will not fit into the memory that is free: better said before hours of work than after."""
    free = available_memory()
    if needed > free:
        raise OutOfMemoryError(
            f"{what} needs about {in_bytes(needed)} of memory, and {in_bytes(free)} are free; leave columns or rows "
            "out, or use a machine with more."
        )


def unpacked(file: str, content: bytes) -> bytes:
    """Return what is inside gzip, bzip2, xz, or an archive with one table; anything else as it is."""
    for start, (name, opened) in _COMPRESSED.items():
        if content.startswith(start):
            try:
                return _read(file, opened(io.BytesIO(content)), most_bytes(len(content)))
            except SeedscopeError:
                raise
            except (*_BROKEN, MemoryError):
                raise SeedscopeError(f"{file} is a damaged {name} file.") from None
    return _from_archive(file, content) if content.startswith(ZIP) else content


def _read(file: str, source: IO[bytes], most: int) -> bytes:
    """Return everything that a stream holds; raise as soon as that is more than it may be."""
    pieces, size = [], 0
    while piece := source.read(PIECE):
        size += len(piece)
        _require_few(file, size, most)
        pieces.append(piece)
    return b"".join(pieces)


def _require_few(file: str, size: int, most: int) -> None:
    """Raise where more is unpacked than may be."""
    require(
        size <= most,
        f"{file} unpacks to more than {in_bytes(most)}, which is {DENSEST} times its size or a good part of the free "
        "memory; if you trust it, unpack it yourself and name the table.",
    )


def _from_archive(file: str, content: bytes) -> bytes:
    """Return the one table in a zip archive; a spreadsheet, which is one too, as it is, after it was counted."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        members = [
            member
            for member in archive.infolist()
            if not member.is_dir() and not member.filename.startswith("__MACOSX")
        ]
        if {"[Content_Types].xml", "mimetype"} & {member.filename for member in members}:
            _require_small(file, archive, most_bytes(len(content)))
            return content
        require(len(members) == 1, f"{file} is an archive of {len(members)} files; unpack it and name the table.")
        return _read(file, _opened(archive, members[0]), most_bytes(len(content)))
    except SeedscopeError:
        raise
    except (zipfile.BadZipFile, *_BROKEN):
        raise SeedscopeError(f"{file} is a damaged or locked zip archive; unpack it and name the table.") from None


def _opened(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """Return the stream of a member to its true end, whatever size the archive's directory claims."""
    member.file_size = 1 << 62
    return archive.open(member)


def _require_small(file: str, archive: zipfile.ZipFile, most: int) -> None:
    """Raise where all members together unpack to too much; they are counted, not kept."""
    size = 0
    for member in archive.infolist():
        with _opened(archive, member) as stream:
            while piece := stream.read(PIECE):
                size += len(piece)
                _require_few(file, size, most)
