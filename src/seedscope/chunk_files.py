"""A store's chunks as they are on the disk: each is checked against its marker, and set aside when it is damaged.

A marker names the plan and the chunk, says how much of it is filled, and has a checksum of every record. So a chunk
that was cut off, changed, moved, or that belongs to another plan is told from a whole one.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.chunk_training import Arrays
from seedscope.errors import SeedscopeError
from seedscope.grid import Chunk, ChunkShape

RECORDS, MARKERS, SET_ASIDE = "models.zarr", "done", "set-aside"


class DamagedChunkError(SeedscopeError):
    """A stored chunk that is not what was written."""


def checksums(records: Arrays) -> dict[str, int]:
    """Return a checksum for each array."""
    return {name: checksum(values) for name, values in records.items()}


def checksum(values: np.ndarray) -> int:
    """Return the checksum of an array's values; texts count as UTF-8."""
    if values.dtype.kind not in "biuf":
        return zlib.crc32("\0".join(map(str, values.tolist())).encode())
    return zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data)


def read_marker(path: Path) -> dict[str, Any]:
    """Return what a marker says; an absent or unreadable one says nothing."""
    try:
        marker = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return marker if isinstance(marker, dict) else {}


def covers(marker: Mapping[str, Any], needed: Mapping[str, int]) -> bool:
    """Whether a marker says that at least so much of its chunk is filled."""
    return all(isinstance(marker.get(name), int) and marker[name] >= size for name, size in needed.items())


@dataclass(eq=False)
class ChunkFiles:
    """The chunks of one plan in a store's folder.

    `mend` trains a damaged chunk again, so that reading can go on; without it a damaged chunk is an error.
    """

    path: Path
    fingerprint: str
    shape: ChunkShape
    mend: Callable[[Chunk, str], None] | None = None
    _arrays: dict[str, Any] = field(default_factory=dict)
    _checked: set[tuple[str, Chunk]] = field(default_factory=set)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to this process."""
        return self.__dict__ | {"mend": None, "_arrays": {}, "_checked": set()}

    def array(self, name: str) -> Any:
        """Return the Zarr array of a variable."""
        import zarr

        if name not in self._arrays:
            found = zarr.open_array(self.path / RECORDS / name, mode="r+")
            self._arrays[name] = found.with_config({"write_empty_chunks": True})
        return self._arrays[name]

    def names(self) -> list[str]:
        """Return the names of the variables whose files are kept in chunks of models."""
        return sorted(
            path.parent.name for path in (self.path / RECORDS).glob("*/c") if path.is_dir() and _has_blocks(path)
        )

    def marker(self, chunk: Chunk) -> Path:
        """Return the path of a chunk's marker."""
        return self.path / MARKERS / f"{chunk.name}.json"

    def read_marker(self, chunk: Chunk) -> dict[str, Any]:
        """Return what a chunk's marker says, if it is this plan's and this chunk's."""
        marker = read_marker(self.marker(chunk))
        own = marker.get("plan") == self.fingerprint and marker.get("chunk") == chunk.name
        filled = all(isinstance(marker.get(one), int) for one in ("seeds", "neighbours", "examples"))
        return marker if own and filled and isinstance(marker.get("checksums"), dict) else {}

    def where(self, axes: tuple[str, ...], chunk: Chunk, filled: Mapping[str, int]) -> tuple[slice, ...]:
        """Return the part of a variable's array that a chunk has filled; the array may be larger than the plan."""
        seed, neighbour = chunk.seed_block * self.shape.seeds, chunk.neighbour_block * self.shape.neighbours
        parts = {
            "seed": slice(seed, seed + filled["seeds"]),
            "neighbour": slice(neighbour, neighbour + filled["neighbours"]),
            "example": slice(filled["examples"]),
        }
        return tuple(parts.get(axis, slice(None)) for axis in axes)

    def values(self, name: str, chunk: Chunk) -> np.ndarray:
        """Return a chunk's records of a variable, after they were checked; mend the chunk or raise if it is damaged."""
        values, damage = self.read(name, chunk)
        if damage and self.mend:
            self.mend(chunk, damage)
            values, damage = self.read(name, chunk)
        if damage or values is None:
            raise DamagedChunkError(
                f"chunk {chunk.name} of the store {self.path} is damaged ({name} {damage}); run the same training with "
                "--verify to set it aside and train it again."
            )
        return values

    def read(self, name: str, chunk: Chunk) -> tuple[np.ndarray | None, str]:
        """Return a chunk's records of a variable, and what is wrong with them: nothing, if they are as written."""
        marker = self.read_marker(chunk)
        if not marker:
            return None, "has no marker of this plan"
        try:
            array = self.array(name)
            values = np.asarray(array[self.where(array.metadata.dimension_names, chunk, marker)])
        except Exception as error:  # whatever a damaged file makes the decoders raise
            return None, f"cannot be decoded: {type(error).__name__}"
        if (name, chunk) not in self._checked:
            if checksum(values) != marker["checksums"].get(name):
                return None, "does not have the checksum of its marker"
            self._checked.add((name, chunk))
        return values, ""

    def damage(self, chunk: Chunk, names: list[str]) -> str:
        """Return what is wrong with a finished chunk: nothing, if every variable is what was written."""
        self._checked.difference_update((name, chunk) for name in names)
        found = ((name, self.read(name, chunk)[1]) for name in names)
        return "; ".join(f"{name} {wrong}" for name, wrong in found if wrong)

    def half_written(self) -> Iterator[tuple[Chunk, str]]:
        """Yield chunks that have records but no good marker, as a killed run leaves them, or a damaged marker."""
        present = {chunk for name in self.names() for chunk in _chunks(self.path / RECORDS / name / "c")}
        for chunk in sorted(present, key=lambda one: (one.seed_block, one.neighbour_block)):
            if not self.read_marker(chunk):
                yield chunk, "has a bad marker" if self.marker(chunk).exists() else "is half written"

    def files(self, chunk: Chunk) -> dict[str, Path]:
        """Return where the records of a chunk are, by variable."""
        inside = {name: self.path / RECORDS / name / "c" / str(chunk.seed_block) for name in self.names()}
        return {name: path / str(chunk.neighbour_block) for name, path in inside.items()}

    def set_aside(self, chunk: Chunk) -> Path:
        """Move a chunk's records and its marker out of the way and return where they are now."""
        place = self.path / SET_ASIDE / chunk.name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, path in (self.files(chunk) | {"marker.json": self.marker(chunk)}).items():
            if path.exists():
                path.rename(place / name)
        self._checked = {one for one in self._checked if one[1] != chunk}
        return place


def _has_blocks(path: Path) -> bool:
    """Whether a variable has folders of seeds; coordinates have files."""
    return any(entry.is_dir() for entry in path.iterdir())


def _chunks(path: Path) -> Iterator[Chunk]:
    """Yield the chunks that a variable has files of."""
    for seeds in path.iterdir():
        if seeds.name.isdecimal() and seeds.is_dir():
            yield from (Chunk(int(seeds.name), int(one.name)) for one in seeds.iterdir() if one.name.isdecimal())
