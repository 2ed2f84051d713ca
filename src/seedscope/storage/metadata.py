"""What may be an array of a store, read before any decoder is built: Zarr 3, our types, our codecs, regular chunks.

A store may come from a stranger. So its JSON is read with a limit, anything but the few forms that are written here is
refused, and no file is decoded that claims to hold more than its array's chunk, or more than it can.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.core import SeedscopeError, in_bytes, machine_memory

METADATA = "zarr.json"
LONGEST_JSON = 64 << 20  # bytes
NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
TEXT = "string"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
DENSEST = 1 << 16  # a Zstandard block of 4 bytes holds 128 KiB: nothing true is denser than this
MAGIC = b"\x28\xb5\x2f\xfd"  # of a Zstandard frame
LIBRARY_SIZE = 1 << 12  # bytes that any file may claim


class ForeignMetadataError(SeedscopeError):
    """Metadata of a form that Seedscope does not write."""


@dataclass(frozen=True)
class ArrayFacts:
    """What an array of a store is: its named axes, type, whole shape, and the shape of one of its chunks."""

    axes: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    chunk: tuple[int, ...]

    @property
    def chunk_bytes(self) -> int | None:
        """How many bytes one chunk holds; None for texts, whose lengths differ."""
        return None if self.dtype == TEXT else math.prod(self.chunk) * np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """How many bytes the whole array takes in memory, texts counted with 16 each."""
        return math.prod(self.shape) * (16 if self.dtype == TEXT else np.dtype(self.dtype).itemsize)


def read_json(file: Path) -> Any:
    """Return what a JSON file of a store says; one that is no plain file, too long or no JSON raises `ValueError`."""
    status = os.stat(file)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{file.name} is not a plain file")
    if status.st_size > LONGEST_JSON:
        raise ValueError(f"{file.name} has {in_bytes(status.st_size)}")
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{file.name} is nested too deeply") from None


def array_facts(name: str, written: Any) -> ArrayFacts:
    """Return what an array's metadata says, or raise `ForeignMetadataError` where it is not of our form.

    >>> array_facts("weights", {"zarr_format": 2})
    Traceback (most recent call last):
    seedscope.storage.metadata.ForeignMetadataError: the array 'weights' is not of a form that Seedscope writes \
(zarr_format); it was not read.
    """
    known: dict[str, Any] = written if isinstance(written, dict) else {}
    wrong = [rule for rule, is_ours in _RULES.items() if not is_ours(known)]
    if not NAME.fullmatch(name) or wrong:
        what = f" ({wrong[0]})" if wrong else ""
        raise ForeignMetadataError(
            f"the array {name[:60]!r} is not of a form that Seedscope writes{what}; it was not read."
        )
    chunk = tuple(known["chunk_grid"]["configuration"]["chunk_shape"])
    return ArrayFacts(tuple(known["dimension_names"]), known["data_type"], tuple(known["shape"]), chunk)


def _sizes(value: Any, least: int) -> bool:
    """Whether a value is a list of whole numbers that are all at least as large as asked."""
    whole = isinstance(value, list) and all(isinstance(size, int) and not isinstance(size, bool) for size in value)
    return whole and all(size >= least for size in value) and len(value) <= 8


def _axes(known: Mapping[str, Any]) -> bool:
    """Whether every axis has a name of its own."""
    names = known.get("dimension_names")
    named = isinstance(names, list) and all(isinstance(name, str) and NAME.fullmatch(name) for name in names)
    return named and len(set(names or ())) == len(names or ()) == len(known["shape"])


def _grid(known: Mapping[str, Any]) -> bool:
    """Whether chunks are regular, with as many axes as the array."""
    grid = known.get("chunk_grid")
    if not isinstance(grid, dict) or grid.get("name") != "regular" or not isinstance(grid.get("configuration"), dict):
        return False
    chunk = grid["configuration"].get("chunk_shape")
    return _sizes(chunk, 1) and len(chunk) == len(known["shape"])


def _codecs(known: Mapping[str, Any]) -> bool:
    """Whether the codecs are ours: little-endian numbers or texts, Zstandard, a checksum."""
    codecs = known.get("codecs")
    if not isinstance(codecs, list) or not all(isinstance(codec, dict) for codec in codecs):
        return False
    first = "vlen-utf8" if known.get("data_type") == TEXT else "bytes"
    names = [codec.get("name") for codec in codecs]
    endian = (codecs[0].get("configuration") or {}).get("endian", "little") if codecs else ""
    return names == [first, "zstd", "crc32c"] and endian == "little"


def _keys(known: Mapping[str, Any]) -> bool:
    """Whether chunks are found under the usual names."""
    return known.get("chunk_key_encoding") == {"name": "default", "configuration": {"separator": "/"}}


_RULES: dict[str, Any] = {
    "zarr_format": lambda known: known.get("zarr_format") == 3 and known.get("node_type") == "array",
    "shape": lambda known: _sizes(known.get("shape"), 0),
    "dimension_names": lambda known: _sizes(known.get("shape"), 0) and _axes(known),
    "data_type": lambda known: known.get("data_type") in (*NUMBERS, TEXT),
    "chunk_grid": lambda known: _sizes(known.get("shape"), 0) and _grid(known),
    "chunk_key_encoding": _keys,
    "codecs": _codecs,
    "storage_transformers": lambda known: not known.get("storage_transformers"),
}


def content_size(head: bytes) -> int | None:
    """Return how many bytes a Zstandard frame says that it holds, None where it does not say so.

    >>> content_size(bytes.fromhex("28b52ffd2005"))
    5
    """
    if head[:4] != MAGIC or len(head) < 5:
        return None
    flag, single, dictionary = head[4] >> 6, head[4] >> 5 & 1, head[4] & 3
    start = 5 + (0 if single else 1) + (0, 1, 2, 4)[dictionary]
    width = (1 if single else 0, 2, 4, 8)[flag]
    field = head[start : start + width]
    if not width or len(field) < width:
        return None
    return int.from_bytes(field, "little") + (256 if width == 2 else 0)


def oversized(file: Path, expected: int | None) -> str:
    """Return why a chunk's file must not be decoded: nothing where it is absent, or holds what it should.

    Args:
        file: one chunk of an array.
        expected: how many bytes it must hold, None for texts.
    """
    try:
        status = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return ""  # then Zarr reads fill values, and the checksum tells
    if not stat.S_ISREG(status.st_mode):
        return "is not a plain file"
    with open(file, "rb") as opened:
        claimed = content_size(opened.read(20))
    if claimed is None or (expected is not None and claimed != expected):
        return "does not hold what its array has"
    dense = claimed > LIBRARY_SIZE + DENSEST * status.st_size
    return "claims to hold more than it can" if dense or claimed > machine_memory() // 4 else ""
