"""An ensemble's records read when they are asked for, every chunk checked as it is read."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from seedscope.chunk_files import RECORDS, ChunkFiles, checksum
from seedscope.errors import require
from seedscope.grid import Chunk

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
            here = np.flatnonzero(seeds // shape.seeds == seed_block)
            for neighbour_block in np.unique(neighbours // shape.neighbours):
                there = np.flatnonzero(neighbours // shape.neighbours == neighbour_block)
                values = self.files.values(self.name, Chunk(int(seed_block), int(neighbour_block)))
                inside = _block(seeds[here] % shape.seeds, neighbours[there] % shape.neighbours)
                found[_block(here, there)] = _taken(values, rest)[inside]
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
    """Return everything in a store, its records as checked arrays."""
    whole = xarray.open_zarr(files.path / RECORDS, chunks=None)
    variables = {}
    for name, one in whole.data_vars.items():
        lazy: Any = indexing.LazilyIndexedArray(CheckedArray(str(name), files, one.shape, one.dtype))
        kept = indexing.MemoryCachedArray(indexing.CopyOnWriteArray(lazy))  # as xarray itself opens files
        variables[name] = xarray.Variable(one.dims, kept, one.attrs)
    return whole.assign(variables)


def known_checksums(description: str, coordinates: dict[str, np.ndarray]) -> str:
    """Return the checksums of an ensemble's description and coordinates, as JSON."""
    found = {name: checksum(np.asarray(values)) for name, values in coordinates.items()}
    return json.dumps({"description": zlib.crc32(description.encode()), "coordinates": found})


def check_coordinates(dataset: xarray.Dataset, path: Path) -> xarray.Dataset:
    """Return the data set with its coordinates in memory, or raise where one or the description is damaged."""
    known = json.loads(dataset.attrs[CHECKSUMS])
    found = {name: dataset.coords[name].values for name in known["coordinates"]}
    actual = json.loads(known_checksums(dataset.attrs["description"], found))
    wrong = [name for name in found if actual["coordinates"][name] != known["coordinates"][name]]
    wrong += ["description"] if actual["description"] != known["description"] else []
    require(not wrong, f"{', '.join(wrong)} of the store {path} is damaged; run the same training again to mend it.")
    return dataset
