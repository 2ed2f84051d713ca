"""Numbers that would be silently wrong, files of strangers, and troubles of the system that are no damage."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import xarray

from seedscope import Ensemble, Grid, ObjectivePerturbation, train
from seedscope.core import DamageError, DiskError, OutOfMemoryError, SeedscopeError, SeedscopeWarning
from seedscope.execution.run import train_into
from seedscope.planning import Chunk, ChunkShape, Plan, make_plan
from seedscope.storage import (
    chunk_files,
    export_store,
    kept_stores,
    note_looks,
    open_store,
    remove_store,
    stored_chunk_shape,
)
from seedscope.storage.ensemble import LOOKS, _looks
from seedscope.storage.metadata import content_size
from seedscope.storage.signature import signed_checksum
from tests.helpers.small_data import table
from tests.helpers.stores import bits, chunk_file

pytestmark = pytest.mark.optimised  # it is about bits
MECHANISM, GRID, SHAPE = ObjectivePerturbation(epsilon=1.0), Grid(seeds=3, neighbours=1), ChunkShape(2, 1)


def plan_for(grid: Grid = GRID) -> Plan:
    return make_plan(table(), MECHANISM, grid=grid, chunk=SHAPE)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # only a power cut would tell


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trust") / "store"
    train_into(open_store(path, plan_for()), plan_for(), 1)
    return path


@pytest.fixture(scope="module")
def truth(template: Path) -> dict[str, Any]:
    return contents(Ensemble.open(template))


@pytest.fixture
def store(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "store")


def contents(ensemble: Ensemble) -> dict[str, Any]:
    """Return everything that is read of an ensemble, with its labels and types."""
    dataset = ensemble.dataset
    return {str(name): (one.dims, one.dtype.kind, one.values.tolist()) for name, one in dataset.variables.items()} | {
        "base": dataset["scores"].sel(neighbour=-1).values.tolist(),
        "accuracy": ensemble.accuracy().tolist(),
    }


def again(store: Path, **options: Any) -> Ensemble:
    """Run the same training."""
    return train(table(), MECHANISM, grid=GRID, store=store, jobs=1, **options)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every plain value inside JSON."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inside is None:
        yield path
        return
    for name, one in inside:
        yield from leaves(one, (*path, name))


def edits(value: Any) -> list[Any]:
    """Return what an accident, or somebody, may have put in a value's place."""
    if isinstance(value, str):
        return [value[:-1] + chr(ord(value[-1]) ^ 1), "float64", "int32"] if value else ["x"]
    return [not value] if isinstance(value, bool) else [value + 1, value + 4] if isinstance(value, int) else ["x"]


def edited(known: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return JSON with one value replaced."""
    copy = json.loads(json.dumps(known))
    inside = copy
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = value
    return copy


def every_edit(store: Path) -> Iterator[tuple[Path, str]]:
    """Yield each metadata file of a store with each of its values edited."""
    for file in [*sorted(store.glob("models.zarr/**/zarr.json")), store / "plan.json", store / "layout.json"]:
        known = json.loads(file.read_text())
        places = list(leaves(known))
        for place in places if len(places) < 60 else places[:: len(places) // 40]:  # copies of the same in two files
            value = known
            for name in place:
                value = value[name]
            for other in edits(value)[: 1 if len(places) >= 60 else None]:
                if other != value:
                    yield file, json.dumps(edited(known, place, other))


def test_no_edit_of_metadata_changes_what_is_read_without_a_word(store: Path, truth: dict[str, Any]) -> None:
    silent, refused = [], 0
    for file, text in every_edit(store):
        good = file.read_bytes()
        file.write_text(text)
        try:
            if contents(Ensemble.open(store)) != truth:
                silent.append((file, text))
        except SeedscopeError:
            refused += 1
        file.write_bytes(good)
    assert silent == []
    assert refused > 500


def test_a_flipped_bit_in_the_name_of_an_axis_is_found_on_opening_and_mended_by_training(
    store: Path, truth: dict[str, Any]
) -> None:
    file = store / "models.zarr" / "neighbour" / "zarr.json"
    file.write_text(file.read_text().replace('"neighbour"', '"neighbouq"'))
    with pytest.raises(DamageError, match=r"metadata of the store .* is not what was written \(neighbour differs\)"):
        Ensemble.open(store)
    assert contents(again(store)) == truth == contents(Ensemble.open(store))


@pytest.mark.parametrize(("name", "written"), [("example_label", "float64"), ("scores", "int32")])
def test_numbers_of_another_type_are_found_though_their_bytes_are_the_same(
    store: Path, truth: dict[str, Any], name: str, written: str
) -> None:
    file = store / "models.zarr" / name / "zarr.json"
    known = json.loads(file.read_text())
    file.write_text(json.dumps(known | {"data_type": written, "fill_value": 0}))
    with pytest.raises(DamageError, match=f"{name} differs"):
        Ensemble.open(store)
    assert contents(again(store, verify=True)) == truth
    assert not (store / "set-aside").exists()


def test_the_checksum_of_a_coordinate_covers_name_axis_type_and_the_ends_of_texts() -> None:
    ones = np.array([1, 1])
    texts = (np.array(["a", "b"], object), np.array(["a\0", "b"], object), np.array(["a", "\0b"], object))
    sums = [signed_checksum("a", "x", ones), signed_checksum("b", "x", ones), signed_checksum("a", "y", ones),
            signed_checksum("a", "x", ones.astype(np.int32)), signed_checksum("a", "x", ones.view(np.float64)),
            *(signed_checksum("a", "x", one) for one in texts)]  # fmt: skip
    assert len(set(sums)) == len(sums)


def test_an_ensemble_without_labels_of_its_neighbours_is_refused(template: Path) -> None:
    dataset = Ensemble.open(template).dataset
    for unlabelled in (dataset.drop_vars("neighbour"), dataset.rename_dims(neighbour="other").drop_vars("seed")):
        with pytest.raises(SeedscopeError, match="an ensemble needs labels along"):
            Ensemble(unlabelled)


def test_a_marker_never_outlives_its_records(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store / "done" / "0-0.json").unlink()
    opened, real = open_store(store, plan_for()), os.fsync
    shutil.rmtree(store / "models.zarr" / "weights" / "c" / "0" / "0")

    def failing(descriptor: int) -> None:
        """Fail once the marker was renamed into its place."""
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/done"):
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(DiskError):
            train_into(opened, plan_for(), 1)
    assert not (store / "done" / "0-0.json").exists()
    assert Chunk(0, 0) in open_store(store, plan_for()).missing()


TROUBLES = [
    *(OSError(one, os.strerror(one)) for one in (errno.EMFILE, errno.EIO, errno.ESTALE, errno.EACCES)),
    MemoryError(),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: type(one).__name__ + str(getattr(one, "errno", "")))
@pytest.mark.parametrize("where", ["records", "markers"])
def test_a_trouble_of_the_system_is_not_taken_for_damage(
    store: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception, where: str
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise trouble

    opened = open_store(store, plan_for())
    with monkeypatch.context() as patch:
        patch.setattr(*((chunk_files, "oversized") if where == "records" else (os, "stat")), refuse)
        with pytest.raises(OutOfMemoryError if isinstance(trouble, MemoryError) else DiskError, match="nothing was"):
            opened.verify()
    assert not (store / "set-aside").exists()
    assert opened.verify() == []


@pytest.mark.parametrize("where", ["folder", "ensemble"])  # which file is read: the plan, what is said about looking
def test_a_passing_trouble_while_an_ensemble_is_opened_is_one_sentence(
    store: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def refuse(_: Path) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    note_looks(store, 12)
    monkeypatch.setattr(f"seedscope.storage.{where}.read_json", refuse)
    with pytest.raises(DiskError, match="Read-only file system; nothing was changed"):
        Ensemble.open(store)


def test_a_damaged_plan_beside_a_passing_trouble_is_a_trouble(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (store / "plan.json").write_text("{")
    monkeypatch.setattr("seedscope.storage.plan_file.read_signature", refuse)
    with pytest.raises(DiskError, match="nothing was changed"):
        stored_chunk_shape(store)


def test_no_flipped_bit_in_what_is_said_about_looking_changes_it(store: Path) -> None:
    note_looks(store, 120)
    said = (store / LOOKS).read_bytes()
    assert Ensemble.open(store).dataset.attrs["latest"] == 120
    refused = 0
    for place in range(8 * len(said)):
        changed = bytearray(said)
        changed[place // 8] ^= 1 << place % 8
        (store / LOOKS).write_bytes(changed)
        try:
            assert _looks(store) == {"latest": 120}
        except DamageError:
            refused += 1
    assert refused > 8 * len(said) / 2
    (store / LOOKS).write_text('{"latest": 120}')  # of an older version
    assert _looks(store) == {"latest": 120}


def test_too_few_open_files_are_told_before_an_event_loop_is_half_made(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zarr

    real, left = os.open, [3]

    def few(path: Any, *given: Any, **more: Any) -> int:
        if path == os.devnull:
            left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, *given, **more)

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("Zarr was asked")

    monkeypatch.setattr(os, "open", few)
    monkeypatch.setattr(zarr, "open_array", refuse)
    with pytest.raises(DiskError, match="Too many open files; nothing was changed"):
        Ensemble.open(store)


def test_a_folder_that_may_not_be_read_is_no_archive_without_it(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def refuse(place: Any = ".") -> Any:
        if str(place).endswith("/done"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(place)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DiskError, match="permission"):
        export_store(store, tmp_path / "a.zip")
    assert not list(tmp_path.glob("*.zip"))


@pytest.mark.parametrize("name", ["kept_stores", "remove_store"])
def test_a_trouble_while_stores_are_listed_or_removed_is_one_sentence(
    store: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(os, "walk", refuse)
    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(DiskError, match="Stale file handle"):
        {"kept_stores": kept_stores, "remove_store": remove_store}[name](store)


def test_identifiers_that_differ_in_nulls_at_their_ends_are_refused(tmp_path: Path) -> None:
    from seedscope import from_arrays

    data = table()
    with pytest.raises(SeedscopeError, match=r"identifier 'a\\x00' ends with a NUL"):
        from_arrays(data.train.features, data.train.labels, ids=["a", "a\0", *map(str, range(len(data.train) - 2))])


@pytest.mark.parametrize("lost", ["losses", "scores", "weights", ""])
def test_metadata_lost_while_a_store_grew_is_written_again_as_it_was(
    store: Path, lost: str, truth: dict[str, Any]
) -> None:
    grown = Grid(seeds=3, neighbours=3)
    train(table(), MECHANISM, grid=grown, store=store, jobs=1)
    expected = bits(Ensemble.open(store))
    (store / "models.zarr" / lost / "zarr.json").write_bytes(b"")
    seen = []
    found = train(
        table(), MECHANISM, grid=grown, store=store, jobs=1, verify=True, progress=lambda *one: seen.append(one)
    )
    assert seen == [(12, 12)]  # nothing was trained again
    assert bits(found) == expected
    assert not (store / "set-aside").exists()


def test_metadata_is_on_the_disk_before_what_depends_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda one: synced.append(os.readlink(f"/proc/self/fd/{one}")))
    opened = open_store(tmp_path / "store", plan_for())
    records = opened.records_path
    signed = next(k for k, one in enumerate(synced) if ".layout.json." in one)
    before = set(synced[:signed])
    for file in [*records.rglob("*"), records]:
        assert str(file) in before, file


def test_a_store_without_its_empty_folder_of_markers_is_a_store(tmp_path: Path) -> None:
    open_store(tmp_path / "store", plan_for())
    (tmp_path / "store" / "done").rmdir()
    assert len(open_store(tmp_path / "store", plan_for()).missing()) == 4
    (tmp_path / "store" / "done").rmdir()
    (tmp_path / "store" / "done").write_text("a file")
    assert len(open_store(tmp_path / "store", plan_for()).missing()) == 4
    assert (tmp_path / "store" / "set-aside" / "done").read_text() == "a file"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"identity": {"chunk": 3}}', None])
def test_a_damaged_plan_is_written_again_from_the_command_and_the_markers(
    store: Path, truth: dict[str, Any], text: str | None
) -> None:
    plan = store / "plan.json"
    plan.write_text(plan.read_text().replace("0", "1") if text is None else text)
    with pytest.raises(SeedscopeError):
        Ensemble.open(store)
    with pytest.raises(SeedscopeError, match=r"plan\.json"):  # not what the markers are of
        train(table(), ObjectivePerturbation(epsilon=2.0), grid=GRID, store=store, jobs=1)
    with pytest.warns(SeedscopeWarning, match="was damaged and is written again: 4 finished chunks bear"):
        assert contents(again(store)) == truth
    assert contents(Ensemble.open(store)) == truth


PICKLE = {"id": "pickle", "protocol": 5}
FOREIGN: dict[str, dict[str, Any]] = {
    "version 2": {"zarr_format": 2, "filters": [PICKLE]},
    "a codec": {"codecs": [{"name": "numcodecs.pickle", "configuration": {}}]},
    "a codec more": {"codecs": [{"name": "bytes"}, {"name": "numcodecs.zlib"}, {"name": "zstd"}, {"name": "crc32c"}]},
    "a type": {"data_type": "object"},
    "a type with parameters": {"data_type": {"name": "structured", "configuration": {}}},
    "a shape": {"shape": [3, 2, 1, 1, -4]},
    "no axes": {"dimension_names": None},
    "the same axis twice": {"dimension_names": ["seed", "seed", "init", "step", "parameter"]},
    "irregular chunks": {"chunk_grid": {"name": "rectilinear", "configuration": {}}},
    "other places": {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}}},
    "a transformer": {"storage_transformers": [{"name": "sharding"}]},
}


@pytest.mark.parametrize("form", FOREIGN)
def test_a_strangers_array_is_refused_before_a_codec_is_built(
    store: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zarr

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("it was opened")

    monkeypatch.setattr(zarr, "open_array", refuse)
    forge(store, "weights", FOREIGN[form])
    with pytest.raises(SeedscopeError, match="the array 'weights' is not of a form that Seedscope writes"):
        Ensemble.open(store)


def forge(store: Path, name: str, changes: dict[str, Any]) -> None:
    """Change an array's metadata and sign it again, as a stranger can."""
    file, layout = store / "models.zarr" / name / "zarr.json", store / "layout.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    group = json.loads((store / "models.zarr" / "zarr.json").read_text())
    group["consolidated_metadata"]["metadata"][name] |= changes
    (store / "models.zarr" / "zarr.json").write_text(json.dumps(group))
    known = json.loads(layout.read_text())["signed"]
    known["arrays"][name] |= changes
    from seedscope.storage.signature import Signature

    layout.write_text(Signature(known["group"], known["arrays"], known["coordinates"]).text())


def bomb(size: int) -> bytes:
    """Return a Zstandard frame of one repeated byte that says it holds this many bytes, and a checksum's four bytes."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\x03\x00\x02\0" + bytes(4)


def test_the_size_of_a_frame_is_what_a_decoder_would_find() -> None:
    from numcodecs import Zstd  # type: ignore[import-untyped]

    for size in (0, 5, 255, 256, 300, 70_000, 5_000_000):
        assert content_size(Zstd(level=1).encode(bytes(size))[:20]) == size
    assert content_size(bomb(2_400_000_000)[:20]) == 2_400_000_000
    assert content_size(b"") is content_size(b"PK\x03\x04 a zip") is None


@pytest.mark.parametrize("name", ["person_id", "person_label", "scores"])
def test_a_small_file_that_claims_gigabytes_is_refused_before_it_is_decoded(store: Path, name: str) -> None:
    file = store / "models.zarr" / name / "c" / "0"
    if name == "scores":
        file = chunk_file(store, "scores", "0-0")
    file.write_bytes(bomb(2_400_000_000))
    with pytest.raises(SeedscopeError, match=r"does not hold what its array has|claims to hold more than it can"):
        Ensemble.open(store).scores.load()


@pytest.mark.parametrize("name", ["models.zarr/scores/zarr.json", "plan.json", "layout.json", "done/0-0.json"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_does_not_hang(store: Path, name: str) -> None:
    (store / name).unlink()
    os.mkfifo(store / name)
    with pytest.raises(SeedscopeError):
        Ensemble.open(store)


@pytest.mark.parametrize("made", [os.mkfifo, os.mkdir], ids=["a pipe", "a folder"])
@pytest.mark.parametrize(
    "name", ["models.zarr/neighbour_drawn/c/0", "models.zarr/zarr.json", "models.zarr/scores/zarr.json", "plan.json",
             "layout.json", "done/0-0.json"],
)  # fmt: skip
def test_what_is_no_file_in_the_place_of_one_is_put_away_by_training(
    store: Path, truth: dict[str, Any], name: str, made: Any
) -> None:
    (store / name).unlink()
    made(store / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert contents(again(store)) == truth == contents(Ensemble.open(store))


def test_an_ensemble_that_claims_millions_of_chunks_is_refused_at_once(store: Path) -> None:
    forge(store, "weights", {"shape": [10**15, 2, 1, 1, 4]})
    with pytest.raises(SeedscopeError):
        Ensemble.open(store)


def test_a_strangers_store_opens_no_connection_starts_no_process_and_writes_no_file(
    template: Path, tmp_path: Path
) -> None:
    """An audit hook sees what Python does; a store whose every array was forged is opened under it."""
    import subprocess
    import sys

    code = """
import sys, shutil
from seedscope import Ensemble, SeedscopeError
Ensemble.open(sys.argv[1])  # everything is imported now
seen = []
def hook(event, given):
    if event.split(".")[0] in ("socket", "subprocess", "shutil") or event in ("os.exec", "os.fork", "os.system"):
        seen.append(event)
    elif event == "open" and any(one in str(given[1]) for one in "wax+"):
        seen.append((event, given[0]))
    elif event in ("os.mkdir", "os.rename", "os.remove", "pickle.find_class"):
        seen.append(event)
sys.addaudithook(hook)
for path in sys.argv[2:]:
    try:
        Ensemble.open(path).dataset.load()
    except SeedscopeError as error:
        print(len(str(error)) > 0)
print(seen)
"""
    places = []
    for number, (form, changes) in enumerate(FOREIGN.items()):
        place = shutil.copytree(template, tmp_path / str(number))
        for name in ("weights", "person_id"):
            forge(place, name, changes)
        if form == "version 2":
            (place / "models.zarr" / "weights" / ".zarray").write_text(json.dumps(changes))
        places.append(str(place))
    command = [sys.executable, "-W", "ignore", "-c", code, str(template), *places]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [*["True"] * len(places), "[]"], shown.stdout


def test_hostile_tables_archives_and_reports_start_no_process_and_reach_nobody(tmp_path: Path) -> None:
    """Each is refused, or read as text, under an audit hook; no file is written."""
    import gzip
    import subprocess
    import sys
    import zipfile

    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(bytes(300 << 20), 1))
    (tmp_path / "pickle.csv").write_bytes(b"\x80\x04\x95cos\nsystem\n(S'touch owned'\ntR.")
    (tmp_path / "formula.csv").write_text("a,y\n" + "".join(f'"=cmd|calc!A{k}",{k % 2}\n' for k in range(30)))
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("../owned", "x")
    (tmp_path / "report").mkdir()
    forged = {"format": "seedscope-report", "version": 1, "__class__": "os.system"}
    (tmp_path / "report" / "report.json").write_text(json.dumps(forged))
    code = """
import os, sys
from seedscope import read_table, SeedscopeError
from seedscope.report import write_page
from seedscope.storage import import_store
import pandas, json, jsonschema, sklearn.model_selection
os.chdir(sys.argv[1])
seen = []
def hook(event, given):
    wrong = ("os.exec", "os.fork", "os.system", "pickle.find_class")
    if event.split(".")[0] in ("socket", "subprocess") or event in wrong:
        seen.append(event)
    elif event == "open" and any(one in str(given[1]) for one in "wax+") and "null" not in str(given[0]):
        seen.append(str(given[0]))
tries = [lambda name=name: read_table(name, target="y") for name in ("bomb.csv.gz", "pickle.csv", "formula.csv")]
tries += [lambda: import_store("archive.zip", "new"), lambda: write_page("report")]
sys.addaudithook(hook)
for attempt in tries:
    try:
        attempt()
    except SeedscopeError:
        print("refused")
print(seen, sorted(os.listdir()))
"""
    before = sorted(one.name for one in tmp_path.iterdir())
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    *refused, rest = shown.stdout.splitlines()
    assert refused == ["refused"] * 5
    assert rest == f"[] {before}"


def test_what_is_private_in_libraries_is_still_where_it_is_used() -> None:
    """One sentence for each private name that a new version may move; nothing public does these jobs."""
    from xarray.core import indexing

    names = ("LazilyIndexedArray", "MemoryCachedArray", "CopyOnWriteArray", "explicit_indexing_adapter",
             "IndexingSupport", "ExplicitIndexer")  # fmt: skip
    for name in names:
        assert hasattr(indexing, name), f"xarray {xarray.__version__} has no xarray.core.indexing.{name} any more"


def test_a_store_is_its_owners_only(tmp_path: Path) -> None:
    open_store(tmp_path / "store", plan_for())
    assert (tmp_path / "store").stat().st_mode & 0o077 == 0


def test_a_lock_that_the_system_refuses_is_one_sentence(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_store(store, plan_for())

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with pytest.raises(SeedscopeError, match="Too many open files"), opened.locked():
        pass
