"""What is on disk is whole, is this plan's, and survives whatever stops a run."""

import json
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import pytest
import xarray
import zarr

from seedscope import (
    SGD,
    Ensemble,
    Grid,
    ObjectivePerturbation,
    OutputPerturbation,
    Records,
    Standardised,
    mlp,
    train,
)
from seedscope.core.errors import SeedscopeError
from seedscope.planning import Plan
from seedscope.planning.chunks import Chunk, ChunkShape
from seedscope.planning.plan import make_plan
from seedscope.storage import folder as store
from seedscope.storage.folder import FolderStore, open_store
from seedscope.storage.memory import MemoryStore
from seedscope.storage.plan_file import stored_chunk_shape
from seedscope.training.trainers import train_chunk
from tests.helpers.present import present
from tests.helpers.small_data import table
from tests.helpers.stores import chunk_file, cut, flip

pytestmark = pytest.mark.optimised  # it is about bits

MECHANISM = ObjectivePerturbation(epsilon=1.0)
GRID = Grid(seeds=5, neighbours=3)
SHAPE = ChunkShape(2, 2)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the tests most of the synchronising, which a test cannot see fail anyway."""
    monkeypatch.setattr(store, "synchronise", lambda path: None)


def plan_for(grid: Grid = GRID, **choices: Any) -> Plan:
    """Return a plan of 3 × 2 chunks, the last of them partly outside the grid."""
    return make_plan(table(), MECHANISM, grid=grid, chunk=SHAPE, **choices)


def opened(path: Path, grid: Grid = GRID) -> FolderStore:
    return open_store(path, plan_for(grid))


AnyStore = TypeVar("AnyStore", FolderStore, MemoryStore)


def fill(folder: AnyStore, chunks: Iterable[Chunk] | None = None) -> AnyStore:
    """Train and write what a store is missing, or the given chunks of it."""
    for chunk in folder.missing() if chunks is None else chunks:
        folder.write(chunk, train_chunk(folder.plan.job, *folder.plan.chunk_coordinates(chunk)))
    return folder


def filled(path: Path, grid: Grid = GRID) -> FolderStore:
    return fill(opened(path, grid))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled store, to copy: copying is faster than training."""
    return filled(tmp_path_factory.mktemp("stores") / "template").path


@pytest.fixture
def ready(tmp_path: Path, template: Path) -> Path:
    """A filled store of one's own."""
    return shutil.copytree(template, tmp_path / "ready")


@pytest.fixture(scope="module")
def truth() -> xarray.Dataset:
    """The records of the largest grid here, trained in memory."""
    return fill(MemoryStore(plan_for(Grid(seeds=8, neighbours=6)))).dataset()


def same_bits(found: xarray.Dataset, truth: xarray.Dataset) -> bool:
    """Whether the models of an ensemble are those of the larger one, to the bit, in every record."""
    part = truth.sel(seed=found.seed, neighbour=found.neighbour).isel(example=slice(found.sizes["example"]))
    names = ("weights", "scores", "losses", "residual_norms")
    return all(np.array_equal(found[name], part[name]) for name in names) and found.coords.equals(
        part.drop_attrs().coords
    )


def test_a_new_store_misses_every_chunk_and_a_filled_one_none(tmp_path: Path, truth: xarray.Dataset) -> None:
    folder = opened(tmp_path / "new")
    assert len(folder.missing()) == 6
    fill(folder)
    assert folder.missing() == []
    assert same_bits(folder.dataset(), truth)
    assert same_bits(Ensemble.open(tmp_path / "new").dataset, truth)


def test_another_process_misses_only_what_was_not_written(tmp_path: Path) -> None:
    done = [Chunk(1, 0), Chunk(0, 1)]
    fill(opened(tmp_path), done)
    assert set(opened(tmp_path).missing()) == set(plan_for().shape.chunks(5, 4)) - set(done)


def test_a_run_killed_between_data_and_marker_misses_the_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truth: xarray.Dataset
) -> None:
    folder = fill(opened(tmp_path), [Chunk(0, 0)])
    monkeypatch.setattr(store, "write_durably", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fill(folder, [Chunk(1, 0)])
    monkeypatch.undo()
    assert (tmp_path / "models.zarr" / "weights" / "c" / "1" / "0").exists()
    assert Chunk(1, 0) in opened(tmp_path).missing()
    assert Chunk(0, 0) not in opened(tmp_path).missing()
    assert same_bits(filled(tmp_path).dataset(), truth)


def test_a_chunk_that_is_written_again_is_not_done_meanwhile(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = opened(ready)
    monkeypatch.setattr(FolderStore, "_sync", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fill(folder, [Chunk(0, 0)])
    assert opened(ready).missing() == [Chunk(0, 0)]


def test_the_marker_is_written_after_every_file_and_folder_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []
    folder = opened(tmp_path)
    monkeypatch.setattr(store, "synchronise", lambda path: events.append(path))
    monkeypatch.setattr(store, "write_durably", lambda path, text: events.append("marker"))
    fill(folder, [Chunk(1, 1)])
    written = [path for path in folder.records_path.glob("*/c/1/1/**/*") if path.is_file()]
    folders = {above for path in written for above in path.parents if above.is_relative_to(folder.records_path)}
    assert len(written) == 4
    assert events[-1] == "marker"
    assert {*written, *folders} <= set(events[:-1])


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"plan": "another"}'])
def test_a_marker_that_is_not_this_plans_counts_for_nothing(ready: Path, text: str) -> None:
    marker = ready / "done" / "1-0.json"
    if text == '{"plan": "another"}':
        text = json.dumps(json.loads(marker.read_text()) | {"plan": "another"})
    marker.write_text(text)
    assert opened(ready).missing() == [Chunk(1, 0)]


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_truncated_marker_counts_for_nothing(ready: Path, cut: int) -> None:
    marker = ready / "done" / "2-1.json"
    marker.write_text(marker.read_text()[:-cut])
    assert opened(ready).missing() == [Chunk(2, 1)]


def test_growth_misses_what_is_new_and_keeps_what_exists(tmp_path: Path, truth: xarray.Dataset) -> None:
    filled(tmp_path, Grid(seeds=4, neighbours=3))
    more = opened(tmp_path, Grid(seeds=8, neighbours=3))
    assert set(more.missing()) == {Chunk(seed, neighbour) for seed in (2, 3) for neighbour in (0, 1)}
    assert same_bits(fill(more).dataset(), truth)


def test_growth_fills_up_a_chunk_that_was_padded(tmp_path: Path, truth: xarray.Dataset) -> None:
    filled(tmp_path, Grid(seeds=5, neighbours=3))
    more = opened(tmp_path, Grid(seeds=6, neighbours=3))
    assert set(more.missing()) == {Chunk(2, 0), Chunk(2, 1)}
    assert same_bits(fill(more).dataset(), truth)


def test_new_neighbours_are_probed_by_the_old_models_too(tmp_path: Path, truth: xarray.Dataset) -> None:
    filled(tmp_path, Grid(seeds=5, neighbours=3))
    more = fill(opened(tmp_path, Grid(seeds=5, neighbours=6)))
    assert same_bits(more.dataset(), truth)
    assert np.isfinite(more.dataset().scores).all()


def test_a_smaller_request_on_a_larger_store_trains_nothing(tmp_path: Path, truth: xarray.Dataset) -> None:
    filled(tmp_path, Grid(seeds=8, neighbours=6))
    fewer = opened(tmp_path, Grid(seeds=3, neighbours=2))
    assert fewer.missing() == []
    found = fewer.dataset()
    assert (found.sizes["seed"], found.sizes["neighbour"]) == (3, 3)
    assert same_bits(found, truth)
    assert same_bits(Ensemble.open(tmp_path).dataset, truth)
    assert Ensemble.open(tmp_path).dataset.sizes == found.sizes
    assert opened(tmp_path, Grid(seeds=8, neighbours=6)).missing() == []


def test_a_smaller_request_finishes_what_a_larger_one_left(tmp_path: Path, truth: xarray.Dataset) -> None:
    fill(opened(tmp_path, Grid(seeds=8, neighbours=6)), [Chunk(0, 0)])
    fewer = filled(tmp_path, Grid(seeds=3, neighbours=2))
    assert same_bits(fewer.dataset(), truth)
    assert fewer.verify() == []
    assert same_bits(filled(tmp_path, Grid(seeds=8, neighbours=6)).dataset(), truth)


def test_more_seeds_with_fewer_neighbours_is_a_corner_of_the_store(tmp_path: Path, truth: xarray.Dataset) -> None:
    filled(tmp_path, Grid(seeds=3, neighbours=6))
    assert same_bits(filled(tmp_path, Grid(seeds=8, neighbours=2)).dataset(), truth)
    assert same_bits(Ensemble.open(tmp_path).dataset, truth)
    assert same_bits(filled(tmp_path, Grid(seeds=8, neighbours=6)).dataset(), truth)


DIFFERENT: dict[str, dict[str, Any]] = {
    "mechanism.epsilon is 1.0, not 2.0": {"mechanism": ObjectivePerturbation(2.0)},
    "mechanism.type is ObjectivePerturbation, not OutputPerturbation": {"mechanism": OutputPerturbation(epsilon=1.0)},
    "data.fingerprint is": {"data": table(seed=1)},
    "root_seed is 0, not 1": {"grid": replace(GRID, root_seed=1)},
    "relation is replace_one, not add_or_remove": {"grid": replace(GRID, relation="add_or_remove")},
    r"people is \[\], not \[1\]": {"grid": replace(GRID, people=[1])},
    r"scaling is Standardised\(norm_bound=1.0\), not Standardised\(norm_bound=2.0\)": {"scaling": Standardised(2.0)},
    r"records.probes is \['test', 'neighbours', 'spare'\], not \['test'\]": {"records": Records(probes=("test",))},
    "records.scores_at_checkpoints is False, not True": {"records": Records(scores_at_checkpoints=True)},
}  # fmt: skip


@pytest.fixture(scope="module")
def objective_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled store that tests may read and try to open, not change."""
    path = tmp_path_factory.mktemp("stores") / "objective"
    train(table(), MECHANISM, grid=GRID, store=path)
    return path


@pytest.mark.parametrize("sentence", DIFFERENT)
def test_another_plan_is_refused_with_what_differs(objective_store: Path, sentence: str) -> None:
    choices = {"data": table(), "mechanism": MECHANISM, "grid": GRID, **DIFFERENT[sentence]}
    before = (objective_store / "plan.json").read_bytes()
    with pytest.raises(SeedscopeError, match=f"belongs to another plan: .*{sentence}"):
        train(choices.pop("data"), choices.pop("mechanism"), store=objective_store, **choices)
    assert (objective_store / "plan.json").read_bytes() == before
    assert opened_as_is(objective_store).missing() == []


def opened_as_is(path: Path) -> FolderStore:
    return open_store(path, make_plan(table(), MECHANISM, grid=GRID, chunk=stored_chunk_shape(path)))


@pytest.mark.parametrize(
    ("sentence", "choices"),
    [
        ("mechanism.steps is 10, not 20", {"mechanism": SGD(batch_size=8, steps=20)}),
        (r"model is Logistic\(\), not MLP", {"model": mlp(3)}),
        (r"init is \['varied'\], not \['fixed'\]", {"grid": Grid(seeds=2, init="fixed")}),
        (r"checkpoints is \[10\], not \[5, 10\]", {"grid": Grid(seeds=2, checkpoints=2)}),
    ],
)
def test_another_gradient_training_is_refused_with_what_differs(
    tmp_path: Path, sentence: str, choices: dict[str, Any]
) -> None:
    sgd, grid = SGD(batch_size=8, steps=10), Grid(seeds=2)
    open_store(tmp_path, make_plan(table(), sgd, grid=grid))
    others = {"mechanism": sgd, "grid": grid, **choices}
    with pytest.raises(SeedscopeError, match=f"belongs to another plan: .*{sentence}"):
        train(table(), others.pop("mechanism"), store=tmp_path, **others)


def test_another_norm_bound_of_the_same_rows_is_another_plan(tmp_path: Path) -> None:
    open_store(tmp_path, make_plan(table(norm_bound=1.0), MECHANISM, grid=GRID, chunk=SHAPE))
    with pytest.raises(SeedscopeError, match=r"norm_bound is 1\.0, not 3\.0"):
        open_store(tmp_path, make_plan(table(norm_bound=3.0), MECHANISM, grid=GRID, chunk=SHAPE))


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "models.zarr"):
        other = tmp_path / name.split(".")[0]
        other.mkdir()
        (other / name).write_text("mine")
        with pytest.raises(SeedscopeError, match="is a folder with other files in it; choose another place"):
            train(table(), MECHANISM, grid=GRID, store=other)
        assert [path.name for path in other.iterdir()] == [name]
        assert (other / name).read_text() == "mine"


def test_an_empty_folder_becomes_a_store(tmp_path: Path) -> None:
    assert filled(tmp_path).missing() == []


def test_a_store_killed_before_its_plan_was_written_can_be_made_again(tmp_path: Path) -> None:
    (tmp_path / "done").mkdir()
    (tmp_path / "lock").touch()
    (tmp_path / ".plan.json.4711").write_text('{"form')
    assert filled(tmp_path).missing() == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1, "identity": {}}', '{"identity": {"chunk": 3}}'])
def test_a_plan_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(SeedscopeError, match="is not a plan of Seedscope"):
        train(table(), MECHANISM, grid=GRID, store=tmp_path)


def test_a_plan_of_another_format_is_refused(ready: Path) -> None:
    plan = json.loads((ready / "plan.json").read_text())
    (ready / "plan.json").write_text(json.dumps(plan | {"format": 99}))
    with pytest.raises(SeedscopeError, match="has format 99, this version reads 1"):
        train(table(), MECHANISM, grid=GRID, store=ready)


def test_a_file_as_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SeedscopeError, match="is a file; choose another place"):
        train(table(), MECHANISM, grid=GRID, store=tmp_path / "file")
    with pytest.raises(SeedscopeError, match=r"cannot write .*Not a directory"):
        train(table(), MECHANISM, grid=GRID, store=tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("path", ["/proc/nowhere/store", "/tmp/" + "x" * 300, "/tmp/\0"])
def test_a_place_that_cannot_be_is_one_sentence(path: str) -> None:
    with pytest.raises(SeedscopeError, match="choose another"):
        train(table(), MECHANISM, grid=GRID, store=path)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(30, "Read-only file system")])
def test_no_permission_to_write_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(SeedscopeError, match=r"no permission to write .*; choose another place"):
        train(table(), MECHANISM, grid=GRID, store=tmp_path / "new")


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file grow beyond a size: as close to a full disk as a test without privileges comes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    grid, records = Grid(seeds=40), Records(probes=("train", "test"))
    path, data = tmp_path / "store", table(rows=1500)
    train(data, MECHANISM, grid=replace(grid, seeds=22), records=records, store=path)
    with file_size_limit(20_000), pytest.raises(SeedscopeError, match=r"no space left .*: finished chunks are kept"):
        train(data, MECHANISM, grid=grid, records=records, store=path)
    with pytest.raises(
        SeedscopeError, match=r"lacks \d+ of its chunks, first 3-0; run the same training again to finish it"
    ):
        Ensemble.open(path)
    seen = []
    resumed = train(data, MECHANISM, grid=grid, records=records, store=path, progress=lambda *done: seen.append(done))
    assert seen[0] == (18, 40)  # three whole chunks of six; the larger grid fills up the fourth
    chunk = stored_chunk_shape(path)
    whole = fill(MemoryStore(make_plan(data, MECHANISM, grid=grid, records=records, chunk=chunk))).dataset()
    assert same_bits(resumed.dataset, whole)


def test_a_store_that_another_run_holds_is_refused(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    with folder.locked(), pytest.raises(SeedscopeError, match="another run is writing to"):
        opened(tmp_path)
    assert filled(tmp_path).missing() == []


OLD_LOCK = """
import fcntl, sys, time
lock = open(sys.argv[1], "a")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""
LOCK = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("code", [LOCK, OLD_LOCK], ids=["this version's", "an older version's"])
def test_a_crash_releases_the_lock(ready: Path, code: str) -> None:
    with subprocess.Popen([sys.executable, "-c", code, str(ready / "lock")], stdout=subprocess.PIPE) as holder:
        assert present(holder.stdout).readline() == b"held\n"
        with pytest.raises(SeedscopeError, match=r"another run is writing to .*; wait for it or choose another store"):
            opened(ready)
        holder.send_signal(signal.SIGKILL)
    assert opened(ready).missing() == []


def test_an_older_version_sees_that_a_store_is_held_and_the_lock_stays_in_its_place(ready: Path) -> None:
    import fcntl

    before = (ready / "lock").stat().st_ino
    with opened(ready).locked(), open(ready / "lock", "a") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with opened(ready).locked():
        assert (ready / "lock").stat().st_ino == before


def test_a_store_works_where_the_system_has_no_fcntl(tmp_path: Path) -> None:
    code = """
import sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
import seedscope as ss
from tests.helpers.small_data import table
ensemble = ss.train(table(), ss.ObjectivePerturbation(1.0), grid=ss.Grid(seeds=2), store=sys.argv[1], jobs=1)
print(ensemble.models, ss.Ensemble.open(sys.argv[1]).models)
"""
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "store")]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.stdout == "2 2\n", shown.stderr


DAMAGE: dict[str, Callable[[Path], object]] = {
    "first byte": lambda file: flip(file, 0),
    "middle": lambda file: flip(file, 0.5),
    "last byte": lambda file: flip(file, 1),
    "truncated": lambda file: cut(file, 0.9),
    "empty": lambda file: file.write_bytes(b""),
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize(
    ("damage", "name"),
    [*zip(DAMAGE, ["weights", "scores", "losses", "gradient_norms", "weights", "scores"], strict=True)],
)
def test_verify_finds_a_damaged_chunk_and_training_mends_it(
    ready: Path, truth: xarray.Dataset, damage: str, name: str
) -> None:
    folder = opened(ready)
    assert folder.verify() == []
    DAMAGE[damage](chunk_file(ready, name, "1-0"))
    assert folder.verify() == [Chunk(1, 0)]
    assert folder.missing() == [Chunk(1, 0)]
    assert same_bits(fill(folder).dataset(), truth)


def test_verify_finds_a_whole_chunk_in_the_wrong_place(ready: Path) -> None:
    shutil.copy(chunk_file(ready, "weights", "0-0"), chunk_file(ready, "weights", "1-0"))
    assert opened(ready).verify() == [Chunk(1, 0)]


def test_verify_does_not_blame_chunks_for_an_interrupted_growth(tmp_path: Path) -> None:
    filled(tmp_path, Grid(seeds=5, neighbours=3))
    opened(tmp_path, Grid(seeds=8, neighbours=6))
    assert opened(tmp_path, Grid(seeds=5, neighbours=3)).verify() == []


def test_models_that_diverged_to_nan_are_not_taken_for_damage(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    for chunk in folder.missing():
        records = train_chunk(folder.plan.job, *folder.plan.chunk_coordinates(chunk))
        folder.write(chunk, {name: np.copysign(np.full_like(values, np.nan), -1) for name, values in records.items()})
    assert opened(tmp_path).verify() == []


def test_train_with_verify_mends_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    whole = train(table(), MECHANISM, grid=GRID, store=path).dataset.load()
    DAMAGE["middle"](chunk_file(path, "weights", "0-0"))
    mended = train(table(), MECHANISM, grid=GRID, store=path, verify=True)
    assert same_bits(mended.dataset, whole)


@pytest.mark.parametrize("name", ["seed", "neighbour", "example_part", "example_row"])
def test_a_run_killed_while_it_wrote_coordinates_is_mended(ready: Path, truth: xarray.Dataset, name: str) -> None:
    shutil.rmtree(ready / "models.zarr" / name / "c")
    assert same_bits(filled(ready).dataset(), truth)


def test_a_run_killed_while_it_grew_the_arrays_leaves_the_smaller_grid_usable(
    ready: Path, truth: xarray.Dataset
) -> None:
    array = zarr.open_group(ready / "models.zarr", mode="r+")["weights"]
    assert isinstance(array, zarr.Array)
    array.resize((8, 7, *array.shape[2:]))
    assert same_bits(filled(ready).dataset(), truth)


def test_opening_needs_only_xarray(tmp_path: Path) -> None:
    train(table(), MECHANISM, grid=GRID, store=tmp_path / "store")
    code = """
import json, sys, xarray
found = xarray.open_zarr(sys.argv[1] + "/models.zarr")
assert not any(name.split(".")[0] in ("seedscope", "jax", "equinox") for name in sys.modules)
description = json.loads(found.attrs["description"])
print(found.weights.dims, found.scores.dims, sorted(found.coords), sorted(description), found.example_part.values[0])
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")], capture_output=True, text=True, check=True
    )
    assert "('seed', 'neighbour', 'init', 'step', 'parameter') ('seed', 'neighbour', 'init', 'example')" in run.stdout
    for name in ("example_part", "neighbour_drawn", "guarantee", "mechanism", "versions"):
        assert f"'{name}'" in run.stdout
    assert run.stdout.endswith("test\n")
