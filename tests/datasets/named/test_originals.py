"""The way from a download to a compact file, over a real server on this machine with small originals."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import io
import os
import socket
import struct
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from seedscope.core.errors import SeedscopeError
from seedscope.datasets import describe, fetch, load
from seedscope.datasets.named import catalogue, originals
from seedscope.datasets.named.originals import RECIPES, Member, Original, Recipe

RNG = np.random.default_rng(0)
REAL = Path(os.environ.get("SEEDSCOPE_DATA", "."))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Serve a file; of a name that begins with `cut-` only half of the promised bytes."""
        name = Path(self.path).name
        if not name.startswith("cut-"):
            return super().do_GET()
        content = Path(self.directory, name.removeprefix("cut-")).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        return None


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder served on this machine, with its address; the cache is another, empty folder."""
    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.delenv("SEEDSCOPE_DATA", raising=False)
    monkeypatch.setenv("SEEDSCOPE_CACHE", str(tmp_path / "cache"))
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield folder, f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def zipped(members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def serve(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, recipe: str, members: Mapping[str, bytes], prefix: str = ""
) -> Recipe:
    """Serve small originals in place of a recipe's, with their own checksums, and return the changed recipe."""
    folder, address = home
    small = []
    for original in RECIPES[recipe].originals:
        inside = {member.name: members[member.name] for member in original.members}
        (folder / original.file).write_bytes(packed(original.file, inside))
        known = tuple(Member(name, hashlib.sha256(content).hexdigest()) for name, content in inside.items())
        small.append(Original(f"{address}{prefix}{original.file}", known))
    changed = replace(RECIPES[recipe], originals=tuple(small))
    monkeypatch.setitem(originals.RECIPES, recipe, changed)
    return changed


def packed(file: str, members: Mapping[str, bytes]) -> bytes:
    """Pack members as the original with this file name does."""
    if file.endswith(".tar.gz"):
        return tarred({f"cifar-10-batches-bin/{name}": content for name, content in members.items()})
    if file == "covertype.zip":
        return zipped({f"{name}.gz": gzip.compress(content) for name, content in members.items()})
    return zipped(members) if file.endswith(".zip") else gzip.compress(next(iter(members.values())))


def cache() -> Path:
    return Path(os.environ["SEEDSCOPE_CACHE"])


def left_behind() -> list[str]:
    """All files in the cache."""
    return (
        sorted(str(path.relative_to(cache())) for path in cache().rglob("*") if path.is_file())
        if cache().exists()
        else []
    )


def mnist_members(train: int = 60, test: int = 20) -> dict[str, bytes]:
    members = {}
    for part, rows in (("train", train), ("t10k", test)):
        members[f"{part}-images-idx3-ubyte"] = idx(RNG.integers(0, 256, (rows, 28, 28)).astype(np.uint8))
        members[f"{part}-labels-idx1-ubyte"] = idx((np.arange(rows) % 10).astype(np.uint8))
    return members


ADULT = {
    "adult.data": b"39, State-gov, 7, Bachelors, 13, Single, Cook, Own, White, Male, 2, 0, 40, Cuba, <=50K\n" * 3
    + b"\n",
    "adult.test": b"|1x3 Cross validator\n20, ?, 7, HS, 9, Single, ?, Own, Black, Female, 0, 0, 10, ?, >50K.\n\n",
}


def test_mnist_is_downloaded_checked_converted_and_loaded(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    members = mnist_members()
    serve(home, monkeypatch, "mnist", members)
    entry = replace(catalogue.CATALOGUE["mnist"], rows=(60, 0, 20))
    monkeypatch.setitem(catalogue.CATALOGUE, "mnist", entry)
    assert describe("mnist").where == "not fetched"
    data = load("mnist")
    pixels = np.frombuffer(members["train-images-idx3-ubyte"], np.uint8, offset=16).reshape(60, 28, 28, 1)
    np.testing.assert_allclose(data.features, pixels / 255, rtol=1e-6)
    np.testing.assert_array_equal(data.test_labels, np.arange(20) % 10)
    assert left_behind() == ["mnist.npz"]
    assert describe("mnist").where == str(cache() / "mnist.npz")
    assert home[1] in data.source


def test_one_cifar_archive_makes_both_sets(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.arange(40, dtype=np.uint8) % 10
    planes = RNG.integers(0, 256, (6, 40, 3, 32, 32)).astype(np.uint8)
    names = [*(f"data_batch_{batch}.bin" for batch in range(1, 6)), "test_batch.bin"]
    members = {
        name: np.column_stack([labels, batch.reshape(40, -1)]).tobytes()
        for name, batch in zip(names, planes, strict=True)
    }
    serve(home, monkeypatch, "cifar10", members)
    path = fetch("cifar2")
    assert left_behind() == ["cifar10-small.npz", "cifar2.npz"]
    two, ten = np.load(path), np.load(cache() / "cifar10-small.npz")
    assert two["x_train"].shape == (40, 32, 32, 3)
    np.testing.assert_array_equal(two["y_train"][:4], [0, 1, 0, 1])
    np.testing.assert_array_equal(two["x_train"][1], planes[0, 2].transpose(1, 2, 0))
    np.testing.assert_array_equal(ten["x_test"], planes[5].transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(ten["y_train"], np.tile(labels, 5))


def test_the_first_of_each_class_are_taken_in_their_order() -> None:
    labels = np.array([1, 0, 1, 1, 0, 0])
    np.testing.assert_array_equal(originals._first_of_each(labels, 2), [0, 1, 2, 4])


def test_covertype_is_unpacked_twice(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.column_stack([RNG.integers(0, 3000, (30, 54)), 1 + np.arange(30) % 7])
    content = pd.DataFrame(table).to_csv(header=False, index=False).encode()
    serve(home, monkeypatch, "covertype", {"covtype.data": content})
    arrays = np.load(fetch("forest"))
    np.testing.assert_array_equal(arrays["X"], table[:, :-1])
    np.testing.assert_array_equal(arrays["y"], table[:, -1])
    assert len(arrays["feature_names"]) == 54


def test_adult_loses_spaces_and_dots_and_gains_a_split(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    serve(home, monkeypatch, "adult", ADULT)
    frame = pd.read_csv(fetch("adult"))
    assert list(frame["split"]) == ["train"] * 3 + ["test"]
    assert list(frame["income"]) == ["<=50K"] * 3 + [">50K"]
    assert frame["workclass"][3] == "?"
    assert frame["native-country"][0] == "Cuba"


@pytest.mark.parametrize(
    ("name", "member"), [("contraception", "cmc.data"), ("credit", "crx.data"), ("dermatology", "dermatology.data")]
)
def test_a_small_table_is_kept_byte_for_byte(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, name: str, member: str
) -> None:
    serve(home, monkeypatch, name, {member: b"1,2,?\n3,4,5\n"})
    assert fetch(name).read_bytes() == b"1,2,?\n3,4,5\n"


def by_shape(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, name: str, content: bytes) -> None:
    """Serve a table that is recognised by its shape and counts."""
    (original,) = RECIPES[name].originals
    (home[0] / original.file).write_bytes(zipped({original.members[0].name: content}))
    small = replace(RECIPES[name], originals=(replace(original, url=home[1] + original.file),))
    monkeypatch.setitem(originals.RECIPES, name, small)


def test_german_credit_is_recognised_by_counts_and_gets_commas(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["A11 6 " + "A1 " * 18 + ("1" if row < 700 else "2") + " " for row in range(1000)]
    by_shape(home, monkeypatch, "german-credit", "\n".join(rows).encode())
    lines = fetch("german-credit").read_text().splitlines()
    assert len(lines) == 1000
    assert lines[-1] == "A11,6," + "A1," * 18 + "2"


@pytest.mark.parametrize("name", ["mammography", "heart", "german-credit"])
def test_wrong_counts_are_refused(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    by_shape(home, monkeypatch, name, b"5,67,3,5,3,1\n" * 961)
    with pytest.raises(SeedscopeError, match=r"has 961 rows of 6 cells with classes \{'1': 961\}\. Get .* by hand"):
        fetch(name)
    assert left_behind() == []


def test_mammography_is_accepted_with_either_copys_cell(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"55,67,3,5,3,0\n" + b"5,67,3,5,3,0\n" * 515 + b"5,67,?,5,3,1\n" * 445
    by_shape(home, monkeypatch, "mammography", content)
    assert fetch("mammography").read_bytes() == content


FAILURES = {
    "wrong checksum": r"adult\.data has SHA-256 [0-9a-f]{64}, but 0{64} is right",
    "truncated archive": r"adult\.zip is cut off or damaged",
    "not an archive": r"adult\.zip is cut off or damaged",
    "missing member": r"adult\.zip has no member adult\.test",
    "moved": r"the server answered 404",
    "refused": r"no connection",
    "broken off": r"the connection broke off",
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_download_says_what_to_get_and_where_to_put_it_and_leaves_nothing(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    recipe = serve(home, monkeypatch, "adult", ADULT, prefix="cut-" if failure == "broken off" else "")
    (original,) = recipe.originals
    archive = home[0] / "adult.zip"
    if failure == "wrong checksum":
        original = replace(original, members=(Member("adult.data", "0" * 64), original.members[1]))
    elif failure == "truncated archive":
        archive.write_bytes(archive.read_bytes()[:-40])
    elif failure == "not an archive":
        archive.write_bytes(b"<html>please log in</html>")
    elif failure == "missing member":
        archive.write_bytes(zipped({"adult.data": ADULT["adult.data"]}))
    elif failure == "moved":
        archive.unlink()
    elif failure == "refused":
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            original = replace(original, url=f"http://127.0.0.1:{unused.getsockname()[1]}/adult.zip")
    monkeypatch.setitem(originals.RECIPES, "adult", replace(recipe, originals=(original,)))
    with pytest.raises(SeedscopeError, match=FAILURES[failure]) as caught:
        load("adult")
    sentence = str(caught.value)
    assert original.url in sentence
    assert original.file in sentence
    assert all(member.sha256 in sentence for member in original.members)
    assert str(cache()) in sentence
    assert "\n" not in sentence
    assert left_behind() == []


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_truncated_gzip_file_is_refused(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, kept: float) -> None:
    serve(home, monkeypatch, "mnist", mnist_members())
    path = home[0] / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(SeedscopeError, match=r"t10k-images-idx3-ubyte\.gz is cut off or damaged\. Get t10k-images"):
        fetch("mnist")
    assert left_behind() == []


def test_a_truncated_tar_archive_is_refused(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*(f"data_batch_{batch}.bin" for batch in range(1, 6)), "test_batch.bin"]
    serve(home, monkeypatch, "cifar10", {name: RNG.bytes(3073 * 5) for name in names})
    path = home[0] / "cifar-10-binary.tar.gz"
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(SeedscopeError, match=r"cifar-10-binary\.tar\.gz (is cut off|has no member)"):
        fetch("cifar2")
    assert left_behind() == []


def test_a_file_placed_by_hand_is_used_without_a_network(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(home, monkeypatch, "adult", ADULT)
    cache().mkdir()
    (home[0] / "adult.zip").rename(cache() / "adult.zip")
    assert len(pd.read_csv(fetch("adult"))) == 4
    assert left_behind() == ["adult.csv.gz", "adult.zip"]


def test_a_wrong_file_placed_by_hand_is_named_and_kept(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    serve(home, monkeypatch, "adult", ADULT)
    cache().mkdir()
    (cache() / "adult.zip").write_bytes(b"nothing")
    with pytest.raises(SeedscopeError, match=r"the file '.*adult\.zip' is of no use: adult\.zip is cut off"):
        fetch("adult")
    assert left_behind() == ["adult.zip"]


def test_a_person_who_watches_sees_a_progress_bar(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(home, monkeypatch, "adult", ADULT)
    fetch("adult")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    fetch("adult", force=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "adult.zip" in err


def test_force_replaces_what_is_there(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    serve(home, monkeypatch, "adult", ADULT)
    path = fetch("adult")
    good = path.read_bytes()
    path.write_bytes(b"spoilt")
    assert fetch("adult").read_bytes() == b"spoilt"
    assert fetch("adult", force=True).read_bytes() == good


def test_a_failed_forced_download_keeps_the_old_file(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    serve(home, monkeypatch, "adult", ADULT)
    good = fetch("adult").read_bytes()
    (home[0] / "adult.zip").unlink()
    with pytest.raises(SeedscopeError, match="404"):
        fetch("adult", force=True)
    assert fetch("adult").read_bytes() == good


def test_members_with_hostile_paths_are_read_but_never_written(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    serve(home, monkeypatch, "adult", ADULT)
    hostile = {f"../../{name}": content for name, content in ADULT.items()} | {"/etc/evil": b"x"}
    (home[0] / "adult.zip").write_bytes(zipped(hostile))
    fetch("adult")
    assert left_behind() == ["adult.csv.gz"]
    assert not list(tmp_path.rglob("adult.data"))


def test_a_member_that_unpacks_without_end_is_refused(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "_LARGEST_MEMBER", 1000)
    serve(home, monkeypatch, "adult", {"adult.data": b"0" * 100_000, "adult.test": b"0"})
    with pytest.raises(SeedscopeError, match="is cut off or damaged"):
        fetch("adult")


def test_a_cache_that_takes_no_files_is_named(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    serve(home, monkeypatch, "adult", ADULT)
    cache().write_bytes(b"a file where the folder should be")
    with pytest.raises(SeedscopeError, match=r"cannot write to the cache .* name another with SEEDSCOPE_CACHE"):
        fetch("adult")


def test_a_full_disk_leaves_nothing_behind(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    serve(home, monkeypatch, "adult", ADULT)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SeedscopeError, match="No space left on device"):
        fetch("adult")
    assert left_behind() == []


# The real files can be turned back into their originals, byte for byte: so the conversion is proved on the real thing.


@pytest.mark.paper_data
def test_the_real_mnist_comes_out_of_its_originals() -> None:
    arrays = np.load(REAL / "mnist.npz")
    members = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        members[f"{name}-images-idx3-ubyte"] = idx(arrays[f"x_{part}"])
        members[f"{name}-labels-idx1-ubyte"] = idx(arrays[f"y_{part}"])
    for original in RECIPES["mnist"].originals:
        original.members[0].check(members[original.members[0].name])
    made = np.load(io.BytesIO(RECIPES["mnist"].convert(members)["mnist.npz"]))
    assert set(made) == set(arrays)
    for name in arrays:
        np.testing.assert_array_equal(made[name], arrays[name])
        assert made[name].dtype == arrays[name].dtype


@pytest.mark.paper_data
def test_the_real_adult_comes_out_of_its_originals(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = gzip.decompress((REAL / "adult.csv.gz").read_bytes()).decode()
    parts: dict[str, list[str]] = {"train": [], "test": []}
    for line in text.splitlines()[1:]:
        cells = line.split(",")
        parts[cells[-1]].append(", ".join(cells[:-1]))
    members = {
        "adult.data": ("\n".join(parts["train"]) + "\n\n").encode(),
        "adult.test": ("|1x3 Cross validator\n" + ".\n".join(parts["test"]) + ".\n\n").encode(),
    }
    (home[0] / "adult.zip").write_bytes(zipped(members))
    original = replace(RECIPES["adult"].originals[0], url=f"{home[1]}adult.zip")  # the true checksums
    monkeypatch.setitem(originals.RECIPES, "adult", replace(RECIPES["adult"], originals=(original,)))
    assert gzip.decompress(fetch("adult").read_bytes()).decode() == text
    assert len(load("adult").train) == 29_305


@pytest.mark.paper_data
def test_the_real_covertype_comes_out_of_its_original() -> None:
    arrays = np.load(REAL / "covtype.npz")
    table = pd.DataFrame(np.column_stack([arrays["X"], arrays["y"]]))
    content = table.to_csv(header=False, index=False).encode()
    RECIPES["covertype"].originals[0].members[0].check(content)
    made = np.load(io.BytesIO(RECIPES["covertype"].convert({"covtype.data": content})["covtype.npz"]))
    for name in arrays:
        np.testing.assert_array_equal(made[name], arrays[name])
        assert made[name].dtype == arrays[name].dtype


@pytest.mark.paper_data
@pytest.mark.parametrize("name", ["credit", "contraception", "dermatology", "mammography", "heart", "german-credit"])
def test_the_real_small_tables_pass_their_checks(
    home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    content = (REAL / RECIPES[name].files[0]).read_bytes()
    original = content.replace(b",", b" ") if name == "german-credit" else content
    (archive,) = RECIPES[name].originals
    (home[0] / archive.file).write_bytes(zipped({archive.members[0].name: original}))
    served = replace(RECIPES[name], originals=(replace(archive, url=home[1] + archive.file),))
    monkeypatch.setitem(originals.RECIPES, name, served)
    assert fetch(name).read_bytes() == content
