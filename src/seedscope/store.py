"""Where records are kept while a grid is trained: in memory, or in a folder that survives being killed.

A stored run is a folder:

    models.zarr/     the records, readable with `xarray.open_zarr` alone
    plan.json        the plan's identity, so that another plan is refused
    done/            one marker for each finished chunk, written only after the chunk's data is on disk
    lock             held by the running process; a crash releases it

"What is missing?" is the only question that resuming asks.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from seedscope import layout
from seedscope.chunk_training import Arrays
from seedscope.errors import SeedscopeError, require
from seedscope.grid import Chunk, ChunkShape
from seedscope.plan import Plan, differences

if TYPE_CHECKING:
    import xarray

FORMAT = 1


class Store(Protocol):
    """Where a run's chunks go."""

    def missing(self) -> list[Chunk]:
        """Return the chunks that are not done."""

    def write(self, chunk: Chunk, records: Arrays) -> None:
        """Keep a chunk's records and mark it as done."""

    def dataset(self) -> xarray.Dataset:
        """Return everything that is kept, with named axes."""


class MemoryStore:
    """Records in arrays of this process."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self._arrays = {one.name: np.full(one.shape, np.nan, one.dtype) for one in layout.variables(plan)}
        self._done: set[Chunk] = set()

    def missing(self) -> list[Chunk]:
        """Return the chunks that are not done."""
        chunks = self.plan.shape.chunks(self.plan.grid.seeds, len(self.plan.neighbours))
        return [chunk for chunk in chunks if chunk not in self._done]

    def write(self, chunk: Chunk, records: Arrays) -> None:
        """Keep a chunk's records."""
        where = layout.region(self.plan, chunk)
        for name, values in layout.trim(self.plan, chunk, records).items():
            self._arrays[name][where] = values
        self._done.add(chunk)

    def dataset(self) -> xarray.Dataset:
        """Return the records with named axes."""
        import xarray

        data = {one.name: (one.axes, self._arrays[one.name]) for one in layout.variables(self.plan)}
        return xarray.Dataset(data, coords=layout.coordinates(self.plan), attrs=attributes(self.plan))


class FolderStore:
    """Records in a folder: chunked, checked, resumable. Open it with `open_store`."""

    def __init__(self, path: Path, plan: Plan):
        self.path, self.plan = path, plan
        self._group: Any = None

    @property
    def records_path(self) -> Path:
        """The Zarr group with the records."""
        return self.path / "models.zarr"

    def missing(self) -> list[Chunk]:
        """Return the chunks whose marker is absent, of another plan, or covers less than the grid now has."""
        chunks = self.plan.shape.chunks(self.plan.grid.seeds, len(self.plan.neighbours))
        present = {entry.name for entry in os.scandir(self.path / "done")}
        return [one for one in chunks if f"{one.name}.json" not in present or not self._is_done(one)]

    def write(self, chunk: Chunk, records: Arrays) -> None:
        """Write a chunk's records, bring them to the disk, then mark the chunk as done."""
        kept, stamp = layout.trim(self.plan, chunk, records), self._stamp(chunk)
        try:
            self._marker(chunk).unlink(missing_ok=True)
            for name, values in kept.items():
                self._array(name)[self._where(name, chunk, stamp)] = values
            self._sync(chunk, kept)
            write_durably(self._marker(chunk), json.dumps(stamp | {"checksums": checksums(kept)}))
        except OSError as error:
            raise disk_error(error, self.path) from error

    def verify(self) -> list[Chunk]:
        """Return the finished chunks whose records are not what was written; their markers are removed."""
        bad = [chunk for chunk in self._finished() if not self._is_intact(chunk)]
        for chunk in bad:
            self._marker(chunk).unlink(missing_ok=True)
        return bad

    def dataset(self) -> xarray.Dataset:
        """Return the records of this plan's grid, read when they are asked for."""
        import xarray

        whole = xarray.open_zarr(self.records_path, chunks=None)
        return whole.isel(
            seed=slice(self.plan.grid.seeds),
            neighbour=slice(len(self.plan.neighbours)),
            example=slice(len(self.plan.job.probe_rows)),
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock, or raise if another run has it."""
        import fcntl

        with open(self.path / "lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SeedscopeError(
                    f"another run is writing to {self.path}; wait for it or choose another store."
                ) from None
            yield

    def prepare(self) -> None:
        """Create or grow the arrays so that the plan's grid fits; what exists stays."""
        import zarr

        group = zarr.open_group(self.records_path, mode="a")
        whole = self._whole_plan(group)
        for variable in layout.variables(whole):
            self._fit(group, variable)
        for name, (axis, values) in layout.coordinates(whole).items():
            _write_coordinate(group, name, axis, values)
        group.attrs.update(attributes(self.plan))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # consolidation is not in the specification yet, but xarray reads it first
            zarr.consolidate_metadata(str(self.records_path))

    def _whole_plan(self, group: Any) -> Plan:
        """Return the plan grown to everything that the store has room for, from a larger grid asked for before."""
        seeds, neighbours = group["weights"].shape[:2] if "weights" in group else (0, 0)
        grid = self.plan.grid
        drawn = max(grid.neighbours, neighbours - 1 - len(grid.people))
        return replace(self.plan, grid=replace(grid, seeds=max(grid.seeds, seeds), neighbours=drawn))

    def _fit(self, group: Any, variable: layout.Variable) -> None:
        """Create an array, or grow it to the variable's shape."""
        from zarr.codecs import Crc32cCodec, ZstdCodec

        if variable.name in group:
            group[variable.name].resize(variable.shape)
            return
        group.create_array(
            variable.name,
            shape=variable.shape,
            chunks=variable.chunk,
            dtype=variable.dtype,
            fill_value=float("nan"),
            dimension_names=variable.axes,
            compressors=[ZstdCodec(level=1), Crc32cCodec()],
        )

    def _array(self, name: str) -> Any:
        """Return the Zarr array of a variable."""
        import zarr

        if self._group is None:
            self._group = zarr.open_group(self.records_path, mode="r+")
        return self._group[name].with_config({"write_empty_chunks": True})

    def _marker(self, chunk: Chunk) -> Path:
        """Return the path of a chunk's marker."""
        return self.path / "done" / f"{chunk.name}.json"

    def _stamp(self, chunk: Chunk) -> dict[str, Any]:
        """Return what a marker must say to count for this plan: fingerprint, and how much of the chunk is filled."""
        seeds, neighbours = layout.region(self.plan, chunk)
        return {
            "plan": self.plan.fingerprint,
            "seeds": seeds.stop - seeds.start,
            "neighbours": neighbours.stop - neighbours.start,
            "examples": len(self.plan.job.probe_rows),
        }

    def _read_marker(self, chunk: Chunk) -> dict[str, Any]:
        """Return what a chunk's marker says; an unreadable marker says nothing."""
        return _read_marker(self._marker(chunk))

    def _is_done(self, chunk: Chunk) -> bool:
        """Whether a chunk's marker is of this plan and covers the grid."""
        marker, needed = self._read_marker(chunk), self._stamp(chunk)
        return marker.get("plan") == needed.pop("plan") and _covers(marker, needed)

    def _finished(self) -> list[Chunk]:
        """Return the chunks of the grid that are done."""
        chunks = self.plan.shape.chunks(self.plan.grid.seeds, len(self.plan.neighbours))
        return [chunk for chunk in chunks if self._is_done(chunk)]

    def _is_intact(self, chunk: Chunk) -> bool:
        """Whether a finished chunk's records have the checksums of its marker."""
        marker = self._read_marker(chunk)
        names = [one.name for one in layout.variables(self.plan)]
        try:
            found = {name: np.asarray(self._array(name)[self._where(name, chunk, marker)]) for name in names}
        except (OSError, ValueError, KeyError, RuntimeError):
            return False
        return checksums(found) == marker.get("checksums")

    def _where(self, name: str, chunk: Chunk, filled: dict[str, Any]) -> tuple[slice, ...]:
        """Return the part of a variable's array that a chunk has filled; the array may be larger than this plan."""
        shape = self.plan.shape
        seed, neighbour = chunk.seed_block * shape.seeds, chunk.neighbour_block * shape.neighbours
        parts = {
            "seed": slice(seed, seed + filled["seeds"]),
            "neighbour": slice(neighbour, neighbour + filled["neighbours"]),
            "example": slice(filled["examples"]),
        }
        axes = next(one.axes for one in layout.variables(self.plan) if one.name == name)
        return tuple(parts.get(axis, slice(None)) for axis in axes)

    def _sync(self, chunk: Chunk, kept: Arrays) -> None:
        """Bring the files of a chunk to the disk."""
        folders: set[Path] = set()
        for name in kept:
            root = self.records_path / name / "c" / str(chunk.seed_block) / str(chunk.neighbour_block)
            files = [root] if root.is_file() else [path for path in root.rglob("*") if path.is_file()]
            for path in files:
                _fsync(path)
                folders.update(parent for parent in path.parents if parent.is_relative_to(self.records_path))
        for folder in folders:
            _fsync(folder)


def open_store(path: str | Path, plan: Plan) -> FolderStore:
    """Return the store in this folder, made if it does not exist; a folder of another plan is refused."""
    store = FolderStore(Path(path), plan)
    try:
        if not (store.path / "plan.json").exists():
            _create_folder(store.path)
        with store.locked():
            _check_identity(store)
            store.prepare()
    except OSError as error:
        raise disk_error(error, store.path) from error
    return store


def stored_chunk_shape(path: str | Path) -> ChunkShape | None:
    """Return the chunk shape that a store was made with, None where there is no store yet."""
    identity = _read_identity(Path(path))
    return ChunkShape(**identity["chunk"]) if identity else None


def unfinished(path: Path, chunk_shape: Mapping[str, int], sizes: Mapping[Any, int]) -> list[Chunk]:
    """Return the chunks of a grid of these sizes that no marker in the store covers."""
    shape, seeds, neighbours = ChunkShape(**chunk_shape), sizes["seed"], sizes["neighbour"]

    def covered(chunk: Chunk) -> bool:
        ends = shape.seed_slice(chunk, seeds), shape.neighbour_slice(chunk, neighbours)
        filled = dict(zip(("seeds", "neighbours"), (end.stop - end.start for end in ends), strict=True))
        return _covers(_read_marker(path / "done" / f"{chunk.name}.json"), filled | {"examples": sizes["example"]})

    return [chunk for chunk in shape.chunks(seeds, neighbours) if not covered(chunk)]


def attributes(plan: Plan) -> dict[str, Any]:
    """Return the attributes of an ensemble: its whole description, as JSON."""
    named = " ".join(name for name, (axis, _) in layout.coordinates(plan).items() if name != axis)
    return {"description": json.dumps(plan.description()), "format": FORMAT, "coordinates": named}


def checksums(records: Arrays) -> dict[str, int]:
    """Return a checksum for each array."""
    return {name: zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data) for name, values in records.items()}


def write_durably(path: Path, text: str) -> None:
    """Write a file so that after a power cut it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _fsync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def disk_error(error: OSError, path: Path) -> SeedscopeError:
    """Return the sentence for a disk that is full, a place that may not be written, or another trouble with it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return SeedscopeError(
            f"no space left for {path}; make room and run the same command again: finished chunks are kept."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SeedscopeError(f"no permission to write {path}; choose another place with --store.")
    return SeedscopeError(f"cannot write {path}: {error.strerror or error}; choose another place with --store.")


def _create_folder(path: Path) -> None:
    """Make the folders of a new store; a folder with other things in it is refused."""
    require(not path.exists() or path.is_dir(), f"store {path} is a file; choose another place with --store.")
    foreign = path.exists() and any(not _is_ours(entry.name) for entry in path.iterdir())
    require(not foreign, f"store {path} is a folder with other files in it; choose another place with --store.")
    (path / "done").mkdir(parents=True, exist_ok=True)


def _is_ours(name: str) -> bool:
    """Whether a file may stand in a store whose plan is not written yet, because a run was killed before."""
    return name in ("lock", "done") or name.startswith(".plan.json.")


def _check_identity(store: FolderStore) -> None:
    """Write the plan of a new store; raise if the store's plan is another."""
    identity = store.plan.identity()
    old = _read_identity(store.path)
    if old is None:
        text = json.dumps({"format": FORMAT, "identity": identity}, indent=1)
        return write_durably(store.path / "plan.json", text)
    differing = differences(old, identity)
    more = f" (and {len(differing) - 3} more)" if len(differing) > 3 else ""
    return require(
        not differing,
        f"store {store.path} belongs to another plan: {'; '.join(differing[:3])}{more}. Choose another store, or the "
        "same settings to resume.",
    )


def _read_identity(path: Path) -> dict[str, Any] | None:
    """Return the identity of a store's plan, None where there is none."""
    file = path / "plan.json"
    try:
        plan = json.loads(file.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise disk_error(error, path) from error
    except ValueError as error:
        raise SeedscopeError(f"{file} is not a plan of Seedscope ({error}); choose another store.") from None
    try:
        identity = plan["identity"]
        ChunkShape(**identity["chunk"])
    except (KeyError, TypeError) as error:
        raise SeedscopeError(f"{file} is not a plan of Seedscope ({error}); choose another store.") from None
    known = plan.get("format") == FORMAT
    require(known, f"{file} has format {plan.get('format')}, this version reads {FORMAT}; choose another store.")
    return identity


def _read_marker(path: Path) -> dict[str, Any]:
    """Return what a marker says; an absent or unreadable one says nothing."""
    try:
        marker = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return marker if isinstance(marker, dict) else {}


def _covers(marker: Mapping[str, Any], needed: Mapping[str, int]) -> bool:
    """Whether a marker says that at least so much of its chunk is filled."""
    return all(isinstance(marker.get(name), int) and marker[name] >= size for name, size in needed.items())


def _write_coordinate(group: Any, name: str, axis: str, values: np.ndarray) -> None:
    """Write a coordinate, unless it has these values already: a run may have been killed before it wrote them."""
    if name in group and np.array_equal(_values(group[name]), values):
        return
    text = values.dtype.kind == "U"
    array = group.create_array(
        name,
        shape=values.shape,
        chunks=(max(1, len(values)),),
        dtype="string" if text else values.dtype,
        dimension_names=(axis,),
        overwrite=True,
    )
    if len(values):
        array[:] = values


def _values(array: Any) -> np.ndarray:
    """Return the values of a coordinate, none where a crash left them unreadable."""
    try:
        return np.asarray(array[:])
    except (OSError, ValueError, RuntimeError):
        return np.zeros(0)


def _fsync(path: Path) -> None:
    """Bring a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
