"""Where records are kept while a grid is trained: in memory, or in a folder that survives being killed.

A stored run is a folder:

    models.zarr/     the records, readable with `xarray.open_zarr` alone
    plan.json        the plan's identity, so that another plan is refused
    layout.json      the metadata of the records, signed
    done/            one marker for each finished chunk, written only after the chunk's data is on disk
    set-aside/       chunks that were found damaged or half written
    lock             held by the running process; a crash releases it

"What is missing?" is the only question that resuming asks.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from seedscope.core import (
    SeedscopeError,
    SeedscopeWarning,
    disk_error,
    read_error,
    require,
    synchronise,
    write_durably,
)
from seedscope.planning import Chunk, ChunkShape, Plan, fingerprint_of
from seedscope.planning import environment as environment_here
from seedscope.storage import layout
from seedscope.storage.chunk_files import MARKERS, RECORDS, SET_ASIDE, ChunkFiles, checksums, free_name
from seedscope.storage.markers import Extent, Marker
from seedscope.storage.metadata import METADATA, read_json
from seedscope.storage.plan_file import PLAN, check_identity, read_identity, stored_fingerprint
from seedscope.storage.record_arrays import (
    consolidate,
    fit,
    made,
    member,
    open_group,
    readable_signature,
    restore,
    update_attributes,
    write_coordinate,
)
from seedscope.storage.signature import LAYOUT, Signature, signature_of
from seedscope.training import Arrays, train_chunk

if TYPE_CHECKING:
    import xarray

LOCK = "lock"
MOST_CHUNKS = 10_000_000  # of an ensemble that is opened
AT_ONCE = 16  # files that are brought to the disk together


class FolderStore:
    """Records in a folder: chunked, checked, resumable. Open it with `open_store`."""

    def __init__(self, path: Path, plan: Plan):
        self.path, self.plan = path, plan
        self.files = ChunkFiles(path, stored_fingerprint(path) or plan.fingerprint, plan.shape, self._mend, True)
        self._names = [one.name for one in layout.stored_variables(plan)]
        self._axes = {one.name: one.axes for one in layout.stored_variables(plan)}
        self._seconds: list[float] = []
        self._diverged: set[int] = set()
        self._environments: dict[tuple[tuple[str, str], ...], None] = {}

    @property
    def records_path(self) -> Path:
        """The Zarr group with the records."""
        return self.path / RECORDS

    def missing(self) -> list[Chunk]:
        """Return the chunks whose marker is absent, of another plan, or covers less than the grid now has."""
        with self._reading():
            present = {entry.name for entry in os.scandir(self.path / MARKERS)}
            return [one for one in self._grid_chunks() if f"{one.name}.json" not in present or not self._is_done(one)]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say in one sentence what the system refuses while the store is read."""
        try:
            yield
        except (OSError, MemoryError) as error:
            raise read_error(error, self.path) from error

    def write(
        self, chunk: Chunk, records: Arrays, seconds: float = 0.0, environment: Mapping[str, str] | None = None
    ) -> None:
        """Write a chunk's records, bring them to the disk, then mark the chunk as done."""
        trimmed, filled = layout.trim(self.plan, chunk, records), self._needed(chunk)
        kept = {layout.stored_name(name): values for name, values in trimmed.items()}
        diverged = tuple(layout.diverged_seeds(layout.region(self.plan, chunk)[0], kept))
        marker = Marker(
            self.files.fingerprint, chunk.name, filled, checksums(kept), round(seconds, 3), diverged, environment or {}
        )
        try:
            self.files.marker(chunk).unlink(missing_ok=True)
            for name, values in kept.items():
                self.files.array(name)[self.files.where(self._axes[name], chunk, filled)] = values
            self._sync(chunk, kept)
            write_durably(self.files.marker(chunk), marker.text())
        except OSError as error:
            self._discard(chunk)
            raise disk_error(error, self.path) from error
        self._diverged.update(diverged)
        self._remember(marker)

    def environments(self) -> list[Mapping[str, str]]:
        """Return the different environments in which chunks of the grid were trained, of those that were met."""
        return [dict(one) for one in self._environments]

    def _remember(self, marker: Marker) -> None:
        """Remember the environment of a chunk."""
        if marker.environment:
            self._environments.setdefault(tuple(sorted(marker.environment.items())))

    def verify(self) -> list[Chunk]:
        """Return the finished chunks whose records are not what was written, after they were set aside."""
        with self._reading():
            finished = [one for one in self._grid_chunks() if self.files.read_marker(one) is not None]
            bad = {chunk: self.files.damage(chunk, self._names) for chunk in finished}
        found = [chunk for chunk, damage in bad.items() if damage]
        for chunk in found:
            self._set_aside(chunk, bad[chunk])
        return found

    def set_aside_half_written(self) -> list[Chunk]:
        """Return the chunks that a killed run left half written, or whose marker is bad, after they were set aside."""
        with self._reading():
            found = dict(self.files.half_written())
        for chunk, damage in found.items():
            self._set_aside(chunk, damage)
        return list(found)

    def dataset(self) -> xarray.Dataset:
        """Return the records of this plan's grid, read and checked when they are asked for."""
        from seedscope.storage.reading import open_checked  # start-up

        with self._reading():
            whole = open_checked(self.files)
        return whole.isel(
            seed=slice(self.plan.grid.seeds),
            neighbour=slice(len(self.plan.neighbours)),
            example=slice(len(self.plan.job.probe_rows)),
        )

    def diverged(self) -> list[int]:
        """Return the seeds of models with weights that are not finite, of those that were met in this run."""
        return sorted(one for one in self._diverged if one < self.plan.grid.seeds)

    def chunk_seconds(self) -> float | None:
        """Return how long a finished chunk took a worker in the middle, None where none is finished."""
        return float(np.median(self._seconds)) if self._seconds else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock, or raise if another run has it; a process that ends, however it ends, releases it."""
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise SeedscopeError(
                f"another run is writing to {self.path}; wait for it or choose another store.", argument="store"
            ) from None
        except OSError as error:
            raise disk_error(error, self.path) from error
        try:
            yield
        finally:
            lock.release()

    def prepare(self) -> None:
        """Create or grow the arrays so that the plan's grid fits, and sign what they are.

        What exists stays; metadata that is damaged or lost is written again from its signature, else from the plan.
        Everything is on the disk before the new signature is, and before any chunk that depends on it.
        """
        signed = readable_signature(self.path)
        if signed is not None:
            restore(self.records_path, signed)
        group = open_group(self.records_path)
        whole = self._whole_plan(group)
        for variable in layout.stored_variables(whole):
            fit(group, variable, self.records_path)
        coordinates = layout.coordinates(whole)
        for name, (axis, values) in coordinates.items():
            write_coordinate(group, name, axis, values, self.records_path)
        update_attributes(group, layout.attributes(self.plan))
        self._sign(signed, coordinates)

    def _sign(self, before: Signature | None, coordinates: Mapping[str, tuple[str, np.ndarray]]) -> None:
        """Bring the metadata to the disk and then its signature, if either is new."""
        consolidate(self.records_path)
        now = signature_of(self.records_path, coordinates)
        if before is None or now != before:
            files = [self.records_path, *(self.records_path / name for name in now.arrays)]
            files += [one / METADATA for one in files]
            for name in coordinates:
                files += [inside for inside in (self.records_path / name).rglob("*") if inside.name != METADATA]
            _bring_to_disk([files, [self.path]])
            write_durably(self.path / LAYOUT, now.text())
        self.files.forget()

    def _whole_plan(self, group: Any) -> Plan:
        """Return the plan grown to everything that the store has room for, from a larger grid asked for before."""
        name = "weights" if self.plan.mechanism.records_weights else "losses"
        kept = member(group, name)
        seeds, neighbours = (0, 0) if kept is None or kept.ndim != len(self._axes[name]) else kept.shape[:2]
        grid, rows = self.plan.grid, len(self.plan.data.base)
        drawn = min(rows, max(grid.neighbours, neighbours - 1 - len(grid.people)))
        return replace(self.plan, grid=replace(grid, seeds=max(grid.seeds, seeds), neighbours=drawn))

    def _needed(self, chunk: Chunk) -> Extent:
        """Return how much of a chunk the plan's grid has."""
        seeds, neighbours = layout.region(self.plan, chunk)
        return Extent(seeds.stop - seeds.start, neighbours.stop - neighbours.start, len(self.plan.job.probe_rows))

    def _is_done(self, chunk: Chunk) -> bool:
        """Whether a chunk's marker is of this plan and covers the grid; what it tells besides is remembered."""
        marker = self.files.read_marker(chunk)
        if marker is None or not marker.filled.covers(self._needed(chunk)):
            return False
        if marker.seconds is not None:
            self._seconds.append(marker.seconds)
        self._diverged.update(marker.diverged)
        self._remember(marker)
        return True

    def _grid_chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of the grid."""
        return self.plan.shape.chunks(self.plan.grid.seeds, len(self.plan.neighbours))

    def _set_aside(self, chunk: Chunk, damage: str) -> None:
        """Set a chunk aside, and say so."""
        try:
            place = self.files.set_aside(chunk)
        except OSError as error:
            raise disk_error(error, self.path) from error
        message = (
            f"chunk {chunk.name} of {self.path} {_clause(damage)}: it was set aside in {place} and is trained again."
        )
        warnings.warn(message, SeedscopeWarning, stacklevel=4)

    def _mend(self, chunk: Chunk, damage: str) -> None:
        """Set a chunk aside that was found damaged while it was read, and train it again in this process."""
        with self.locked():
            self._set_aside(chunk, damage)
            trained = train_chunk(self.plan.job, *self.plan.chunk_coordinates(chunk))
            self.write(chunk, trained, environment=environment_here())

    def _discard(self, chunk: Chunk) -> None:
        """Remove what was written of a chunk, its marker first: a full disk needs the room, and no marker may lie."""
        try:
            self.files.marker(chunk).unlink(missing_ok=True)
            synchronise(self.path / MARKERS)
            found = self.files.files(chunk)
        except OSError:
            return  # then the records stay beside their marker
        for path in found.values():
            shutil.rmtree(path, ignore_errors=True)

    def _sync(self, chunk: Chunk, kept: Arrays) -> None:
        """Bring the files of a chunk to the disk, several at a time: a disk does that in one go."""
        folders, files = set[Path](), list[Path]()
        for name in kept:
            root = self.records_path / name / "c" / str(chunk.seed_block) / str(chunk.neighbour_block)
            files += [root] if root.is_file() else [path for path in root.rglob("*") if path.is_file()]
        for path in files:
            folders.update(parent for parent in path.parents if parent.is_relative_to(self.records_path))
        _bring_to_disk([files, sorted(folders)])


def open_store(path: str | Path, plan: Plan) -> FolderStore:
    """Return the store in this folder, made if it does not exist; a folder of another plan is refused."""
    store = FolderStore(Path(path), plan)
    try:
        if not (store.path / PLAN).exists():
            _create_folder(store.path)
        with store.locked():
            _make_markers_folder(store.path)
            _set_strange_aside(store.path)
            check_identity(store.path, plan)
            store.prepare()
    except OSError as error:
        raise disk_error(error, store.path) from error
    return store


def open_files(path: Path) -> ChunkFiles:
    """Return the chunks of the plan whose store this is."""
    identity = read_identity(path)
    if identity is None:
        raise SeedscopeError(f"no ensemble at {path}; name the folder that was given as store.")
    signed = bool(read_json(path / PLAN).get("signed"))
    return ChunkFiles(path, fingerprint_of(identity), ChunkShape(**identity["chunk"]), signed=signed)


def unfinished(files: ChunkFiles, sizes: Mapping[Any, int]) -> list[Chunk]:
    """Return the chunks of a grid of these sizes that no marker in the store covers."""
    shape, seeds, neighbours = files.shape, sizes["seed"], sizes["neighbour"]
    few = shape.count(seeds, neighbours) <= MOST_CHUNKS
    require(few, f"the ensemble at {files.path} claims {shape.count(seeds, neighbours):,} chunks; it was not read.")

    def covered(chunk: Chunk) -> bool:
        own_seeds, own_neighbours = shape.seed_slice(chunk, seeds), shape.neighbour_slice(chunk, neighbours)
        needed = Extent(own_seeds.stop - own_seeds.start, own_neighbours.stop - own_neighbours.start, sizes["example"])
        marker = files.read_marker(chunk)
        return marker is not None and marker.filled.covers(needed)

    return [chunk for chunk in shape.chunks(seeds, neighbours) if not covered(chunk)]


def _create_folder(path: Path) -> None:
    """Make the folders of a new store; a folder with other things in it is refused."""
    require(not path.exists() or path.is_dir(), f"store {path} is a file; choose another place.", argument="store")
    foreign = path.exists() and any(not _is_ours(entry.name) for entry in path.iterdir())
    require(not foreign, f"store {path} is a folder with other files in it; choose another place.", argument="store")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)  # people's scores are nobody else's business


def _make_markers_folder(path: Path) -> None:
    """Make the folder of markers where it is missing, as archives leave it out when it is empty.

    A file in its place is set aside.
    """
    place = path / MARKERS
    if place.exists() and not place.is_dir():
        (path / SET_ASIDE).mkdir(exist_ok=True, mode=0o700)
        place.rename(free_name(path / SET_ASIDE / MARKERS))
    place.mkdir(exist_ok=True, mode=0o700)


def _set_strange_aside(path: Path) -> None:
    """Set aside what stands in the place of the store's own files and is none: a folder, a pipe."""
    for place in (path / PLAN, path / LAYOUT, path / RECORDS / METADATA):
        if place.exists() and not place.is_file():
            place.rename(free_name(made(path / SET_ASIDE) / place.name))


def _is_ours(name: str) -> bool:
    """Whether a file may stand in a store whose plan is not written yet, because a run was killed before."""
    return name in (LOCK, MARKERS, SET_ASIDE) or name.startswith(f".{PLAN}.")


def _bring_to_disk(together: Iterable[Sequence[Path]]) -> None:
    """Bring files and folders to the disk, several at a time, one list after the other."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for paths in together:
            list(pool.map(synchronise, paths))


def _clause(damage: str) -> str:
    """Return what is wrong as a clause that follows the chunk's name."""
    return damage if damage.startswith(("is ", "has ")) else f"is damaged ({damage})"
