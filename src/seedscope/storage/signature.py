"""A store's metadata, signed: `layout.json` has a copy of what every array is, and a checksum of all coordinates.

Records have checksums in their markers. But which axis is which, what type a number has, and which label a row bears is
metadata, and one flipped bit there gives other numbers without any decoder noticing. So every array's own `zarr.json`
is compared with the signed copy whenever a store is opened, and written again from it where it was lost.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.core import DamageError
from seedscope.storage.metadata import METADATA, ArrayFacts, array_facts, read_json

LAYOUT = "layout.json"
CONSOLIDATED = "consolidated_metadata"  # Zarr's copy of all arrays' metadata in the group's


@dataclass(frozen=True)
class Signature:
    """What a store's metadata must be: the group's, each array's, and a checksum for each coordinate."""

    group: Mapping[str, Any]
    arrays: Mapping[str, Mapping[str, Any]]
    coordinates: Mapping[str, int]

    @cached_property
    def facts(self) -> dict[str, ArrayFacts]:
        """What each array is; one that is not of our form is refused."""
        return {name: array_facts(name, metadata) for name, metadata in self.arrays.items()}

    def text(self) -> str:
        """Return the signature as it is written down, with its own checksum."""
        known = {"group": self.group, "arrays": self.arrays, "coordinates": self.coordinates}
        return json.dumps({"signed": known, "checksum": _digest(known)}, indent=1)

    @classmethod
    def from_json(cls, written: Any) -> Signature:
        """Return the signature that was written down; `ValueError` where it is not what was."""
        if not isinstance(written, dict) or not isinstance(written.get("signed"), dict):
            raise ValueError("it is not a layout")
        known = written["signed"]
        if written.get("checksum") != _digest(known) or set(known) != {"group", "arrays", "coordinates"}:
            raise ValueError("it does not have its own checksum")
        return cls(known["group"], known["arrays"], known["coordinates"])


def _digest(known: Any) -> str:
    """Return the checksum of plain values."""
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def signed_checksum(name: str, axis: str, values: np.ndarray) -> int:
    """Return a coordinate's checksum: over its name, axis, kind, length and every value with its own length.

    Texts differ though only NULs at their ends do; 1 and 1.0 differ.

    >>> signed_checksum("id", "person", np.array(["a"])) == signed_checksum("id", "person", np.array(["b"]))
    False
    """
    text = values.dtype.kind not in "biuf"
    kind = "text" if text else values.dtype.str
    running = zlib.crc32(json.dumps([name, axis, kind, len(values)]).encode())
    if not text:
        return zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data, running)
    encoded = [str(value).encode("utf-8", "surrogatepass") for value in values.tolist()]
    running = zlib.crc32(np.array([len(cell) for cell in encoded], np.int64).data, running)
    return zlib.crc32(b"".join(encoded), running)


def read_signature(store: Path) -> Signature | None:
    """Return a store's signature, None where it has none; one that is damaged is an error."""
    try:
        return Signature.from_json(read_json(store / LAYOUT))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise DamageError(f"{store / LAYOUT} is damaged ({error}); run the same training again to mend it.") from None


def metadata_now(records: Path) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return the metadata as files have it: the group's, each array's, and the group's copy of the arrays'.

    `ValueError` where a file is no JSON.
    """
    folders = sorted(path for path in records.iterdir() if path.is_dir())
    group = read_json(records / METADATA)
    if not isinstance(group, dict):
        raise ValueError("the group's metadata is not an object")
    copies = group.pop(CONSOLIDATED, None)
    arrays = {folder.name: read_json(folder / METADATA) for folder in folders}
    return group, arrays, copies.get("metadata") if isinstance(copies, dict) else None


def signature_of(records: Path, coordinates: Mapping[str, tuple[str, np.ndarray]]) -> Signature:
    """Return the signature of metadata that was just written, with these coordinates (axis and values)."""
    group, arrays, _ = metadata_now(records)
    sums = {name: signed_checksum(name, axis, values) for name, (axis, values) in coordinates.items()}
    return Signature(group, arrays, sums)


def differing(signed: Signature, group: Any, arrays: Mapping[str, Any], copies: Any) -> list[str]:
    """Return the names of what is not as it was signed, "the group" among them."""
    names = sorted(signed.arrays.keys() | arrays.keys())
    changed = [name for name in names if signed.arrays.get(name) != arrays.get(name)]
    return changed if group == signed.group and copies == signed.arrays else [*changed, "the group"]
