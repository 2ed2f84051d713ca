"""One file for an ensemble: what comes out is what went in, and a stranger's archive does nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from seedscope import Ensemble, Grid, ObjectivePerturbation, train
from seedscope.core import DamageError, SeedscopeError
from seedscope.storage import export_store, import_store, verify_store
from seedscope.storage.archive import MANIFEST
from tests.helpers.command_line import run
from tests.helpers.small_data import table
from tests.helpers.stores import bits, chunk_file, flip

pytestmark = pytest.mark.optimised  # it is about bits


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("archive") / "mine"
    train(table(), ObjectivePerturbation(1.0), grid=Grid(3, 1), store=place, jobs=1)
    return place


@pytest.fixture(scope="module")
def archive(store: Path) -> Path:
    return export_store(store, store.parent / "mine.zip").path


def members(archive: Path) -> dict[str, bytes]:
    """Return what an archive holds."""
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def written(place: Path, contents: dict[str, bytes], **changes: Callable[[zipfile.ZipInfo], object]) -> Path:
    """Return an archive of these members, its list made anew, each member's entry changed as asked."""
    rest = {name: content for name, content in contents.items() if name not in (MANIFEST, "zarr.json")}
    known = {name: {"bytes": len(one), "sha256": hashlib.sha256(one).hexdigest()} for name, one in rest.items()}
    listed = json.loads(contents[MANIFEST]) | {"members": known}
    with zipfile.ZipFile(place, "w") as opened:
        for name, content in (contents | {MANIFEST: json.dumps(listed).encode()}).items():
            entry = zipfile.ZipInfo(name)
            change = changes.get(name.replace(".", "_"))
            if change:
                change(entry)
            opened.writestr(entry, content)
    return place


def test_what_is_imported_is_what_was_exported_to_the_bit(store: Path, archive: Path, tmp_path: Path) -> None:
    found = import_store(archive, tmp_path / "theirs", hashlib.sha256(archive.read_bytes()).hexdigest())
    assert found.stores == (".",)
    assert bits(Ensemble.open(tmp_path / "theirs")) == bits(Ensemble.open(store))
    grown = train(table(), ObjectivePerturbation(1.0), grid=Grid(5, 1), store=tmp_path / "theirs", jobs=1)
    assert grown.models == 10
    assert stat.S_IMODE((tmp_path / "theirs").stat().st_mode) == 0o700
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600


def test_the_same_store_gives_the_same_bytes_wherever_it_lies(store: Path, archive: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(store, tmp_path / "elsewhere")
    assert export_store(moved, tmp_path / "a.zip").path.read_bytes() == archive.read_bytes()
    assert str(store.parent).encode() not in archive.read_bytes()


def test_plain_xarray_reads_the_records_without_us(store: Path, archive: Path, tmp_path: Path) -> None:
    code = """
import sys
sys.modules["seedscope"] = None  # importing it would fail
import numpy, xarray, zarr
with xarray.open_zarr(zarr.storage.ZipStore(sys.argv[1], mode="r"), group="models.zarr") as records:
    numpy.save(sys.argv[2], records["scores"].sel(neighbour=-1).values)
    print(*records["scores"].dims, records.sizes["seed"])
"""
    shown = subprocess.run([sys.executable, "-W", "ignore", "-c", code, archive, tmp_path / "scores.npy"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert shown.stdout.split() == ["seed", "neighbour", "init", "example", "3"]
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), Ensemble.open(store).scores.sel(neighbour=-1))


def test_a_folder_of_stores_is_one_archive(store: Path, tmp_path: Path) -> None:
    for name in ("epsilon-1/base", "epsilon-1/neighbours"):
        shutil.copytree(store, tmp_path / "run" / name)
    shown = run("runs", "export", str(tmp_path / "run"), str(tmp_path / "run.zip"), "--json")
    assert json.loads(shown.stdout)["stores"] == ["epsilon-1/base", "epsilon-1/neighbours"]
    shown = run("runs", "import", str(tmp_path / "run.zip"), str(tmp_path / "again"))
    assert shown.returncode == 0, shown.stderr
    assert bits(Ensemble.open(tmp_path / "again" / "epsilon-1" / "base")) == bits(Ensemble.open(store))


def test_a_damaged_unfinished_or_busy_store_is_not_exported(store: Path, tmp_path: Path) -> None:
    bad, part, busy = (shutil.copytree(store, tmp_path / name) for name in ("bad", "part", "busy"))
    flip(chunk_file(bad, "scores", "0-0"))
    next((part / "done").iterdir()).unlink()
    for place, sentence in ((bad, "is damaged"), (part, "lacks 1 of its chunks")):
        with pytest.raises(SeedscopeError, match=sentence):
            export_store(place, tmp_path / "x.zip")
    with FileLock(busy / "lock"), pytest.raises(SeedscopeError, match="a run is writing"):
        export_store(busy, tmp_path / "x.zip")
    assert not list(tmp_path.glob("*x.zip*"))
    (tmp_path / "x.zip").touch()
    with pytest.raises(SeedscopeError, match="exists"):
        export_store(store, tmp_path / "x.zip")


def _renamed(old: str, new: str) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda contents: {(new if name == old else name): one for name, one in contents.items()}


def _added(name: str, content: bytes = b"x") -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda contents: contents | {name: content}


HOSTILE: dict[str, Callable[[dict[str, bytes]], dict[str, bytes]]] = {
    "a path upwards": _added("../evil.json"),
    "a path upwards inside": _added("models.zarr/../../../evil"),
    "an absolute path": _added("/tmp/evil"),
    "a drive": _added("C:\\evil"),
    "a backslash": _added("..\\evil"),
    "a hidden file": _added(".bashrc"),
    "a program": _added("models.zarr/run.py"),
    "a pickle": _added("models.zarr/weights/data.pkl"),
    "a place of Zarr 2": _added("models.zarr/weights/.zarray", b"{}"),
    "a folder in a file's place": _added("plan.json/plan.json"),
    "no plan": lambda contents: {name: one for name, one in contents.items() if name != "plan.json"},
    "no markers": lambda contents: {name: one for name, one in contents.items() if not name.startswith("done/")},
    "a foreign list": lambda contents: contents | {MANIFEST: b'{"format": "other"}'},
    "other records": lambda contents: contents | {"models.zarr/scores/c/0/0/0/0": b"(\xb5/\xfd" + bytes(40)},
    "another codec": lambda contents: contents | {
        "models.zarr/scores/zarr.json": contents["models.zarr/scores/zarr.json"].replace(b"zstd", b"pickle")},
}  # fmt: skip


@pytest.mark.parametrize("form", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(archive: Path, tmp_path: Path, form: str) -> None:
    changed = HOSTILE[form](members(archive))
    if form == "a foreign list":
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as opened:
            for name, content in changed.items():
                opened.writestr(name, content)
    else:
        written(tmp_path / "x.zip", changed)
    before = set(tmp_path.parent.rglob("*"))
    with pytest.raises(SeedscopeError):
        import_store(tmp_path / "x.zip", tmp_path / "in" / "store")
    assert {one for one in set(tmp_path.parent.rglob("*")) - before if one.is_file()} == set()
    assert not Path("/tmp/evil").exists()
    assert run("runs", "import", str(tmp_path / "x.zip"), str(tmp_path / "in" / "store")).returncode in (2, 5, 7)


def test_links_devices_and_compressed_members_are_refused(archive: Path, tmp_path: Path) -> None:
    contents = members(archive)

    def kind(mode: int) -> Callable[[zipfile.ZipInfo], None]:
        return lambda entry: setattr(entry, "external_attr", (mode | 0o777) << 16)

    changes: list[Callable[[zipfile.ZipInfo], object]] = [kind(stat.S_IFLNK), kind(stat.S_IFIFO), kind(stat.S_IFCHR)]
    changes.append(lambda entry: setattr(entry, "compress_type", zipfile.ZIP_DEFLATED))
    for change in changes:
        written(tmp_path / "x.zip", contents, plan_json=change)
        with pytest.raises(SeedscopeError, match=r"not a plain file|is compressed"):
            import_store(tmp_path / "x.zip", tmp_path / "store")


def test_an_archive_that_claims_more_than_it_holds_is_refused_before_anything_is_written(
    archive: Path, tmp_path: Path
) -> None:
    content = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as opened:
        size = opened.getinfo("plan.json").file_size
    directory = content.rindex(b"PK\x01\x02", 0, content.rindex(b"plan.json"))
    for place in (20, 24):  # both sizes of the entry
        assert int.from_bytes(content[directory + place : directory + place + 4], "little") == size
        content[directory + place : directory + place + 4] = (2_400_000_000).to_bytes(4, "little")
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(DamageError, match=r"claims to hold 2\.2 GiB|not a whole ZIP file"):
        import_store(tmp_path / "x.zip", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_members_that_overlap_cannot_hold_more_than_the_file(archive: Path, tmp_path: Path) -> None:
    """A thousand directory entries for one large member, each a store's own name, as a bomb has them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr(MANIFEST, b"{}")
        opened.writestr("plan.json", bytes(1 << 20))
        first = opened.getinfo("plan.json")
        for k in range(1000):
            copy = zipfile.ZipInfo(f"done/{k}-0.json")
            copy.header_offset, copy.CRC = first.header_offset, first.CRC
            copy.file_size = copy.compress_size = first.file_size
            opened.filelist.append(copy)
            opened.NameToInfo[copy.filename] = copy
    (tmp_path / "x.zip").write_bytes(buffer.getvalue())
    with pytest.raises(DamageError, match=r"claims to hold 1001 MiB|more than it has"):
        import_store(tmp_path / "x.zip", tmp_path / "store")


def test_a_flipped_bit_anywhere_is_found(archive: Path, tmp_path: Path) -> None:
    good = bits(Ensemble.open(archive.parent / "mine"))
    content, refused = archive.read_bytes(), 0
    for place in np.random.default_rng(0).integers(0, len(content), 12):
        changed = bytearray(content)
        changed[place] ^= 4
        (tmp_path / "x.zip").write_bytes(changed)
        try:
            import_store(tmp_path / "x.zip", tmp_path / "store")
        except SeedscopeError:
            refused += 1
            continue
        assert bits(Ensemble.open(tmp_path / "store")) == good  # a bit of a time or of a comment
        shutil.rmtree(tmp_path / "store")
    assert refused > 8


def test_a_checksum_that_the_sender_told_is_compared(archive: Path, tmp_path: Path) -> None:
    shown = run("runs", "import", str(archive), str(tmp_path / "store"), "--sha256", "0" * 64)
    assert shown.returncode == 7
    assert "it is another file, or was changed on its way" in shown.stderr


def test_verifying_reads_everything_and_writes_nothing(store: Path, tmp_path: Path) -> None:
    place = shutil.copytree(store, tmp_path / "store")
    (place / "lock").unlink(missing_ok=True)
    before = {one: (one.stat().st_mtime_ns, one.stat().st_size) for one in place.rglob("*")}
    shown = run("verify", str(place))
    assert shown.returncode == 0, shown.stderr
    assert "whole" in shown.stdout
    assert {one: (one.stat().st_mtime_ns, one.stat().st_size) for one in place.rglob("*")} == before
    found = {one.part: (one.checked, one.good) for one in verify_store(place).findings}
    assert found["scores, in chunks"] == found["markers"]
    assert found["markers"][0] >= 2


DAMAGE: dict[str, Callable[[Path], object]] = {
    "plan": lambda place: (place / "plan.json").write_text("{"),
    "metadata": lambda place: flip(place / "models.zarr" / "scores" / "zarr.json", 0.3),
    "coordinates and description": lambda place: flip(place / "models.zarr" / "person_label" / "c" / "0"),
    "markers": lambda place: (place / "done" / "0-0.json").write_text("{}"),
    "scores, in chunks": lambda place: flip(chunk_file(place, "scores", "0-0")),
    "weights, in chunks": lambda place: chunk_file(place, "weights", "0-0").unlink(),
}


@pytest.mark.parametrize("part", DAMAGE)
def test_verifying_names_what_is_damaged_and_sets_nothing_aside(store: Path, tmp_path: Path, part: str) -> None:
    place = shutil.copytree(store, tmp_path / "store")
    DAMAGE[part](place)
    files = sorted(place.rglob("*"))
    shown = run("verify", str(place), "--json")
    assert shown.returncode == 7
    found = json.loads(shown.stdout)[0]
    assert [one["part"] for one in found["findings"] if one["bad"]] == [part]
    assert sorted(place.rglob("*")) == files


def test_an_unfinished_store_is_whole_and_said_to_be_unfinished(store: Path, tmp_path: Path) -> None:
    place = shutil.copytree(store, tmp_path / "store")
    next((place / "done").iterdir()).unlink()
    found = verify_store(place)
    assert (found.whole, found.finished, found.missing) == (True, False, 1)
    assert "half written" in next(one.note for one in found.findings if one.part == "markers")
    assert run("verify", str(tmp_path / "nothing")).returncode == 2
