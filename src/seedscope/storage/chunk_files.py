"""A store's chunks as they are on the disk: each is checked against its marker, and set aside when it is damaged.

A marker names the plan and the chunk, says how much of it is filled, and has a checksum of every record. So a chunk
that was cut off, changed, moved, or that belongs to another plan is told from a whole one.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.core import DamageError, SeedscopeWarning, read_error, require_open_files
from seedscope.planning import Chunk, ChunkShape
from seedscope.storage.markers import Extent, Marker, read_marker
from seedscope.storage.metadata import ArrayFacts, array_facts, oversized
from seedscope.storage.signature import LAYOUT, Signature, differing, metadata_now, read_signature
from seedscope.training import Arrays

RECORDS, MARKERS, SET_ASIDE = "models.zarr", "done", "set-aside"


class DamagedChunkError(DamageError):
    """A stored chunk that is not what was written."""


def checksums(records: Arrays) -> dict[str, int]:
    """Return a checksum for each array."""
    return {name: checksum(values) for name, values in records.items()}


def checksum(values: np.ndarray) -> int:
    """Return the checksum of an array's values; texts count as UTF-8."""
    if values.dtype.kind not in "biuf":
        return zlib.crc32("\0".join(map(str, values.tolist())).encode())
    return zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data)


@dataclass(frozen=True)
class Layout:
    """What a store's arrays are, its attributes, and the signature that they were compared with."""

    facts: Mapping[str, ArrayFacts]
    attributes: Mapping[str, Any]
    signature: Signature | None


@dataclass(eq=False)
class ChunkFiles:
    """The chunks of one plan in a store's folder.

    `mend` trains a damaged chunk again, so that reading can go on; without it a damaged chunk is an error.
    """

    path: Path
    fingerprint: str
    shape: ChunkShape
    mend: Callable[[Chunk, str], None] | None = None
    signed: bool = False  # whether the plan says that there is a signature
    _layout: Layout | None = None
    _arrays: dict[str, Any] = field(default_factory=dict)
    _checked: set[tuple[str, Chunk]] = field(default_factory=set)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to this process."""
        return self.__dict__ | {"mend": None, "_layout": None, "_arrays": {}, "_checked": set()}

    def layout(self) -> Layout:
        """Return what the store's arrays are, compared once with the signature; raise where they are something else."""
        if self._layout is None:
            self._layout = self._read_layout()
        return self._layout

    def forget(self) -> None:
        """Read the layout anew when it is asked for next: it was changed."""
        self._layout = None
        self._arrays.clear()

    def _read_layout(self) -> Layout:
        """Return the layout that the files have now."""
        signed = read_signature(self.path)
        if signed is None:
            self._tell_unsigned()
        try:
            group, arrays, copies = metadata_now(self.path / RECORDS)
            wrong = [] if signed is None else differing(signed, group, arrays, copies)
        except (ValueError, FileNotFoundError) as error:
            raise self._not_as_written(str(error)) from None
        if wrong:
            raise self._not_as_written(f"{', '.join(wrong[:5])} differs")
        return Layout(
            {name: array_facts(name, metadata) for name, metadata in arrays.items()}, group["attributes"], signed
        )

    def _tell_unsigned(self) -> None:
        """Say that metadata cannot be compared, or raise where it could be before."""
        if self.signed:
            raise self._not_as_written(f"{LAYOUT} is gone")
        warnings.warn(
            f"the store {self.path} was made by an older version, which did not sign its metadata; the next training "
            "into it does.",
            SeedscopeWarning,
            stacklevel=2,
        )

    def _not_as_written(self, what: str) -> DamageError:
        """Return the sentence for metadata that is not what was signed."""
        return DamageError(
            f"the metadata of the store {self.path} is not what was written ({what}): it is damaged, or a run was "
            "stopped while it grew; run the same training again to mend it."
        )

    def array(self, name: str) -> Any:
        """Return the Zarr array of a variable, whose metadata was compared with the signature."""
        import zarr

        if name not in self._arrays:
            self.facts(name)
            require_open_files()
            array = zarr.open_array(self.path / RECORDS / name, mode="r+", zarr_format=3)
            self._arrays[name] = array.with_config({"write_empty_chunks": True})
        return self._arrays[name]

    def facts(self, name: str) -> ArrayFacts:
        """Return what a variable's array is."""
        known = self.layout().facts.get(name)
        if known is None:
            raise self._not_as_written(f"{name} is gone")
        return known

    def names(self) -> list[str]:
        """Return the names of the variables whose files are kept in chunks of models."""
        folders = [entry.path for entry in os.scandir(self.path / RECORDS) if entry.is_dir()]
        return sorted(os.path.basename(folder) for folder in folders if _has_blocks(os.path.join(folder, "c")))

    def marker(self, chunk: Chunk) -> Path:
        """Return the path of a chunk's marker."""
        return self.path / MARKERS / f"{chunk.name}.json"

    def read_marker(self, chunk: Chunk) -> Marker | None:
        """Return what a chunk's marker says, None where it is not this plan's and this chunk's."""
        marker = read_marker(self.marker(chunk))
        own = marker is not None and (marker.plan, marker.chunk) == (self.fingerprint, chunk.name)
        return marker if own else None

    def where(self, axes: tuple[str, ...], chunk: Chunk, filled: Extent) -> tuple[slice, ...]:
        """Return the part of a variable's array that a chunk has filled; the array may be larger than the plan."""
        seed, neighbour = chunk.seed_block * self.shape.seeds, chunk.neighbour_block * self.shape.neighbours
        parts = {
            "seed": slice(seed, seed + filled.seeds),
            "neighbour": slice(neighbour, neighbour + filled.neighbours),
            "example": slice(filled.examples),
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
                "verify=True to set it aside and train it again.",
                argument="verify",
            )
        return values

    def read(self, name: str, chunk: Chunk) -> tuple[np.ndarray | None, str]:
        """Return a chunk's records of a variable, and what is wrong with them: nothing, if they are as written."""
        marker = self.read_marker(chunk)
        if marker is None:
            return None, "has no marker of this plan"
        facts = self.facts(name)
        try:
            if wrong := self._oversized(name, chunk, facts):
                return None, wrong
            values = np.asarray(self.array(name)[self.where(facts.axes, chunk, marker.filled)])
        except (OSError, MemoryError) as error:  # of the system, and perhaps passing: says nothing about the file
            raise read_error(error, self.path) from error
        except Exception as error:  # whatever a damaged file makes the decoders raise
            return None, f"cannot be decoded: {type(error).__name__}"
        if (name, chunk) not in self._checked:
            if checksum(values) != marker.checksums.get(name):
                return None, "does not have the checksum of its marker"
            self._checked.add((name, chunk))
        return values, ""

    def _oversized(self, name: str, chunk: Chunk, facts: ArrayFacts) -> str:
        """Return why a chunk of a variable must not be decoded, nothing where it may be."""
        inside = self.path / RECORDS / name / "c" / str(chunk.seed_block) / str(chunk.neighbour_block)
        files = (os.path.join(folder, file) for folder, _, names in os.walk(inside) for file in names)
        return next(filter(None, (oversized(Path(file), facts.chunk_bytes) for file in files)), "")

    def damage(self, chunk: Chunk, names: list[str]) -> str:
        """Return what is wrong with a finished chunk: nothing, if every variable is what was written."""
        self._checked.difference_update((name, chunk) for name in names)
        damages = ((name, self.read(name, chunk)[1]) for name in names)
        return "; ".join(f"{name} {wrong}" for name, wrong in damages if wrong)

    def half_written(self) -> Iterator[tuple[Chunk, str]]:
        """Yield chunks that have records but no good marker, as a killed run leaves them, or a damaged marker."""
        present = {chunk for name in self.names() for chunk in _chunks(self.path / RECORDS / name / "c")}
        for chunk in sorted(present, key=lambda chunk: (chunk.seed_block, chunk.neighbour_block)):
            if self.read_marker(chunk) is None:
                yield chunk, "has a bad marker" if self.marker(chunk).exists() else "is half written"

    def files(self, chunk: Chunk) -> dict[str, Path]:
        """Return where the records of a chunk are, by variable."""
        inside = {name: self.path / RECORDS / name / "c" / str(chunk.seed_block) for name in self.names()}
        return {name: path / str(chunk.neighbour_block) for name, path in inside.items()}

    def set_aside(self, chunk: Chunk) -> Path:
        """Move a chunk's records and its marker out of the way and return where they are now."""
        place = free_name(self.path / SET_ASIDE / chunk.name)
        place.mkdir(parents=True)
        for name, path in (self.files(chunk) | {"marker.json": self.marker(chunk)}).items():
            if path.exists():
                path.rename(place / name)
        self._checked = {checked for checked in self._checked if checked[1] != chunk}
        return place


def free_name(place: Path) -> Path:
    """Return a path like this one that does not exist yet: what was set aside earlier is never removed."""
    copies = (place.with_name(f"{place.name}.{k}") for k in count(2))
    return next(path for path in chain([place], copies) if not path.exists())


def _has_blocks(path: str) -> bool:
    """Whether a variable has folders of seeds; coordinates have files."""
    return os.path.isdir(path) and any(entry.is_dir() for entry in os.scandir(path))


def _chunks(path: Path) -> Iterator[Chunk]:
    """Yield the chunks that a variable has files of."""
    for seeds in path.iterdir():
        if seeds.name.isdecimal() and seeds.is_dir():
            yield from (Chunk(int(seeds.name), int(entry.name)) for entry in seeds.iterdir() if entry.name.isdecimal())
