"""Compressed tables of strangers: what they unpack to is bounded before it is kept."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seedscope import read_table
from seedscope.core import OutOfMemoryError, SeedscopeError
from seedscope.datasets import dictionary, table_files, unpacking

ROWS = "a,b,y\n" + "".join(f"{k},{k * k % 7},{k % 2}\n" for k in range(40))
TOO_MUCH = 24 << 20
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zip": lambda content: zipped({"people.csv": content}),
}


def zipped(members: dict[str, bytes]) -> bytes:
    """Return an archive of these files."""
    with zipfile.ZipFile(target := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "ALWAYS", 4 << 20)


@pytest.mark.parametrize("form", PACKED)
def test_a_packed_table_is_read_as_it_was(tmp_path: Path, form: str) -> None:
    (tmp_path / "x").write_bytes(PACKED[form](ROWS.encode()))
    (tmp_path / "x.csv").write_text(ROWS)
    packed, plain = (read_table(tmp_path / name, target="y") for name in ("x", "x.csv"))
    np.testing.assert_array_equal(packed.train.features, plain.train.features)


@pytest.mark.parametrize("form", PACKED)
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused_before_it_is_kept(tmp_path: Path, form: str) -> None:
    (tmp_path / "x").write_bytes(PACKED[form](ROWS.encode() + bytes(TOO_MUCH)))
    (tmp_path / "x.csv").write_text(ROWS)
    read_table(tmp_path / "x.csv", target="y")  # everything is imported now
    tracemalloc.start()
    with pytest.raises(SeedscopeError, match=r"unpacks to more than 4 MiB.*unpack it yourself"):
        read_table(tmp_path / "x", target="y")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.75 * TOO_MUCH  # xz has a dictionary of its own


def test_a_spreadsheet_that_lies_about_its_size_is_refused_before_its_reader_sees_it(tmp_path: Path) -> None:
    content = zipped({"[Content_Types].xml": b"<x/>", "xl/workbook.xml": bytes(TOO_MUCH)})
    lying = content.replace(TOO_MUCH.to_bytes(4, "little"), (16).to_bytes(4, "little"))
    assert lying != content
    for place, one in enumerate((content, lying)):
        (tmp_path / f"{place}.xlsx").write_bytes(one)
        with pytest.raises(SeedscopeError, match="unpacks to more than"):
            read_table(tmp_path / f"{place}.xlsx", target="y")


def test_a_small_parquet_file_of_a_billion_equal_rows_is_refused_by_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = 4_000_000  # a billion would take a while to write
    column = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * 1000])
    parquet.write_table(pyarrow.table({"a": column, "y": column}), tmp_path / "x.parquet")
    monkeypatch.setattr(table_files, "DENSEST_PARQUET", 10)
    with pytest.raises(SeedscopeError, match="holds 61 MiB, which does not fit"):
        read_table(tmp_path / "x.parquet", target="y")


@pytest.mark.slow
def test_a_gzip_bomb_of_gigabytes_ends_with_one_sentence_and_little_memory(tmp_path: Path) -> None:
    """29 bytes and more of nothing: each member of a gzip file holds a gigabyte at most, so members are repeated."""
    member = gzip.compress(bytes(16 << 20))
    (tmp_path / "x.csv.gz").write_bytes(member * 400)  # 6.4 GB in 6.5 MB
    with pytest.raises(SeedscopeError, match="unpacks to more than"):
        read_table(tmp_path / "x.csv.gz", target="y")


@pytest.mark.parametrize(("free", "what"), [(1000, "file '.*'"), (6000, "a table of 40 rows and .*")])
def test_a_table_that_will_not_fit_is_refused_before_it_is_read_or_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, what: str
) -> None:
    (tmp_path / "x.csv").write_text(ROWS)
    monkeypatch.setattr(table_files, "CELLS_OF_TEXT", 12 if free == 1000 else 0)
    monkeypatch.setattr(dictionary, "COPIES", 30)
    monkeypatch.setattr(unpacking, "available_memory", lambda: free)
    with pytest.raises(OutOfMemoryError, match=rf"{what} needs about .* of memory, and .* are free; leave columns"):
        read_table(tmp_path / "x.csv", target="y")
