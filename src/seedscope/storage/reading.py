"""An ensemble's records read when they are asked for, every chunk checked as it is read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from seedscope.core import DamageError, in_bytes, machine_memory, require
from seedscope.planning import Chunk
from seedscope.storage.chunk_files import RECORDS, ChunkFiles, checksum
from seedscope.storage.metadata import oversized
from seedscope.storage.signature import signed_checksum

CHECKSUMS = "checksums"  # the attribute with the checksums of the description and of the coordinates


class CheckedArray(BackendArray):
    """A variable's records [seed, neighbour, ...]: what is asked for is taken from its chunks, which are checked."""

    def __init__(self, name: str, files: ChunkFiles, shape: tuple[int, ...], dtype: Any):
        self.name, self.files, self.shape, self.dtype = name, files, shape, np.dtype(dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._outer)

    def _outer(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the records at the given places along each axis."""
        seeds, neighbours = (
            np.atleast_1d(np.arange(size)[one]) for size, one in zip(self.shape[:2], key[:2], strict=True)
        )
        rest = key[2:]
        outside = _taken(np.empty((0, 0, *self.shape[2:]), self.dtype), rest).shape[2:]
        found = np.empty((len(seeds), len(neighbours), *outside), self.dtype)
        shape = self.files.shape
        for seed_block in np.unique(seeds // shape.seeds):
            seed_places = np.flatnonzero(seeds // shape.seeds == seed_block)
            for neighbour_block in np.unique(neighbours // shape.neighbours):
                neighbour_places = np.flatnonzero(neighbours // shape.neighbours == neighbour_block)
                values = self.files.values(self.name, Chunk(int(seed_block), int(neighbour_block)))
                inside = _block(seeds[seed_places] % shape.seeds, neighbours[neighbour_places] % shape.neighbours)
                found[_block(seed_places, neighbour_places)] = _taken(values, rest)[inside]
        single = tuple(0 if isinstance(one, int | np.integer) else slice(None) for one in key[:2])
        return found[single]


def _block(rows: np.ndarray, columns: np.ndarray) -> tuple[Any, ...]:
    """Return the index of rows × columns: slices where both are runs, which copy much faster."""
    if all(len(one) and (np.diff(one) == 1).all() for one in (rows, columns)):
        return tuple(slice(int(one[0]), int(one[-1]) + 1) for one in (rows, columns))
    return np.ix_(rows, columns)


def _taken(values: np.ndarray, rest: tuple[Any, ...]) -> np.ndarray:
    """Return what is at the given places along the third and later axes."""
    for axis in reversed(range(len(rest))):
        values = values[(slice(None),) * (2 + axis) + (rest[axis],)]
    return values


def open_checked(files: ChunkFiles) -> xarray.Dataset:
    """Return everything in a store: its records as checked arrays, its coordinates in memory and as they were signed.

    Nothing is decoded before the metadata was compared with its signature and found to be of our form.
    """
    found = files.layout()
    names = list(json.loads(found.attributes[CHECKSUMS])["coordinates"])
    coordinates = {name: (found.facts[name].axes[0], coordinate_values(files, name)) for name in names}
    require_signed(files, coordinates)
    dataset = xarray.Dataset(coords=coordinates, attrs=dict(found.attributes))
    for name, one in found.facts.items():
        if name in coordinates:
            continue
        lazy: Any = indexing.LazilyIndexedArray(CheckedArray(name, files, one.shape, one.dtype))
        kept = indexing.MemoryCachedArray(indexing.CopyOnWriteArray(lazy))  # as xarray itself opens files
        dataset[name] = xarray.Variable(one.axes, kept)
    if "gradient_norms" in dataset and "watched" not in dataset["gradient_norms"].dims:
        return dataset.rename(gradient_norms="residual_norms")  # what solving left: one name on the disk for both
    return dataset


def require_signed(files: ChunkFiles, coordinates: Mapping[str, tuple[str, np.ndarray]]) -> None:
    """Raise where a coordinate is not what was signed; older stores have no signature."""
    signed = files.layout().signature
    if signed is not None:
        now = {name: signed_checksum(name, axis, values) for name, (axis, values) in coordinates.items()}
        _require_whole([name for name in signed.coordinates.keys() | now.keys()
                        if signed.coordinates.get(name) != now.get(name)], files.path)  # fmt: skip


def coordinate_values(files: ChunkFiles, name: str) -> np.ndarray:
    """Return a coordinate's values, after its files were found to hold no more than they should."""
    facts = files.facts(name)
    require(len(facts.axes) == 1, f"the coordinate {name} of the store {files.path} has more than one axis.")
    fits = facts.bytes <= machine_memory() // 4
    require(fits, f"the coordinate {name} of the store {files.path} claims {in_bytes(facts.bytes)}; it was not read.")
    for file in (files.path / RECORDS / name / "c").glob("*"):
        wrong = oversized(file, facts.chunk_bytes)
        require(not wrong, f"the coordinate {name} of the store {files.path} {wrong}; it was not decoded.")
    values = np.asarray(files.array(name)[:])
    return values.astype(object) if values.dtype.kind == "T" else values  # which not every pandas and xarray compares


def known_checksums(description: str, coordinates: dict[str, np.ndarray]) -> str:
    """Return the checksums of an ensemble's description and coordinates, as JSON."""
    found = {name: checksum(np.asarray(values)) for name, values in coordinates.items()}
    return json.dumps({"description": zlib.crc32(description.encode()), "coordinates": found})


def check_coordinates(dataset: xarray.Dataset, path: Path) -> xarray.Dataset:
    """Return the data set, or raise where a coordinate of its grid or the description is damaged."""
    known = json.loads(dataset.attrs[CHECKSUMS])
    found = {name: dataset.coords[name].values for name in known["coordinates"]}
    actual = json.loads(known_checksums(dataset.attrs["description"], found))
    wrong = [name for name in found if actual["coordinates"][name] != known["coordinates"][name]]
    _require_whole(wrong + (["description"] if actual["description"] != known["description"] else []), path)
    return dataset


def _require_whole(wrong: list[str], path: Path) -> None:
    """Raise where something is not what was written."""
    if wrong:
        named = ", ".join(sorted(wrong))
        raise DamageError(f"{named} of the store {path} is damaged; run the same training again to mend it.")
