"""The Zarr arrays of a store: made and grown as the plan says, and mended where their metadata was damaged."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.core import DamageError, require_open_files, write_durably
from seedscope.storage import layout
from seedscope.storage.chunk_files import SET_ASIDE, free_name
from seedscope.storage.metadata import METADATA, ForeignMetadataError, oversized, read_json
from seedscope.storage.signature import CONSOLIDATED, Signature, metadata_now, read_signature


def open_group(path: Path) -> Any:
    """Return the group of records, open for writing; one whose metadata is damaged is made anew around its arrays."""
    import zarr

    require_open_files()
    try:
        return zarr.open_group(path, mode="a", use_consolidated=False, zarr_format=3)
    except OSError:
        raise
    except Exception:  # whatever damaged metadata makes Zarr raise
        (path / "zarr.json").unlink(missing_ok=True)
        return zarr.open_group(path, mode="a", use_consolidated=False, zarr_format=3)


def member(group: Any, name: str) -> Any:
    """Return an array of a group, None where it is absent or its metadata is damaged."""
    try:
        return group.get(name)
    except OSError:
        raise
    except Exception:  # whatever damaged metadata makes Zarr raise
        return None


def fit(group: Any, variable: layout.Variable, records: Path) -> None:
    """Create an array, or grow it to the variable's shape; one that was damaged is described anew."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    array = member(group, variable.name)
    if array is not None and _is_as_planned(array, variable):
        if array.shape != variable.shape:
            array.resize(variable.shape)
        return
    (records / variable.name / METADATA).unlink(missing_ok=True)
    group.create_array(
        variable.name,
        shape=variable.shape,
        chunks=_chunk_beside(group, variable),
        dtype=variable.dtype,
        fill_value=float("nan"),
        dimension_names=variable.axes,
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
    )


def _chunk_beside(group: Any, variable: layout.Variable) -> tuple[int, ...]:
    """Return the shape of a new array's chunks; along examples as arrays beside it have them, from a smaller grid."""
    beside = (member(group, name) for name in ("scores", "losses"))
    known = {axis: size for array in beside if array is not None
             for axis, size in zip(array.metadata.dimension_names or (), array.chunks, strict=False)}  # fmt: skip
    return tuple(
        known.get(axis, size) if axis == "example" else size
        for axis, size in zip(variable.axes, variable.chunk, strict=True)
    )


def _is_as_planned(array: Any, variable: layout.Variable) -> bool:
    """Whether an array's metadata is what the variable's would be, apart from the sizes that can grow."""
    codecs = [type(codec).__name__ for codec in array.metadata.codecs]
    kind = (str(array.dtype), array.metadata.dimension_names, codecs)
    if kind != (variable.dtype, variable.axes, ["BytesCodec", "ZstdCodec", "Crc32cCodec"]):
        return False
    axes = zip(variable.axes, array.shape, variable.shape, array.chunks, variable.chunk, strict=True)
    return all(
        axis == "example" or (has == planned and (axis in layout.CHUNKED or size == wanted))
        for axis, size, wanted, has, planned in axes
    )


def update_attributes(group: Any, attributes: dict[str, Any]) -> None:
    """Write the attributes of the group, unless it has just these."""
    if dict(group.attrs) != attributes:
        group.attrs.put(attributes)


def write_coordinate(group: Any, name: str, axis: str, values: np.ndarray, records: Path) -> None:
    """Write a coordinate, unless it has these values already: a run may have been killed before it wrote them."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    written, text = member(group, name), values.dtype.kind == "U"
    kind = "string" if text else str(values.dtype)
    readable = not any(oversized(file, None) for file in (records / name / "c").glob("*"))  # a pipe would never end
    kept = written is not None and readable and _kind(written) == (kind, (axis,))
    if kept and np.array_equal(_values(written), values):
        return
    array = group.create_array(
        name,
        shape=values.shape,
        chunks=(max(1, len(values)),),
        dtype="string" if text else values.dtype,
        dimension_names=(axis,),
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
        overwrite=True,
    )
    if len(values):
        array[:] = values


def _kind(array: Any) -> tuple[str, tuple[str, ...]]:
    """Return the type and the axes of an array."""
    metadata = array.metadata.to_dict()
    return str(metadata["data_type"]), tuple(array.metadata.dimension_names or ())


def _values(array: Any) -> np.ndarray:
    """Return the values of a coordinate; something else where a crash left them unreadable."""
    try:
        return np.asarray(array[:])
    except (OSError, MemoryError):
        raise
    except Exception:  # whatever a damaged file makes the decoders raise
        return np.array("unreadable")


def consolidate(records: Path) -> None:
    """Write the copy of all metadata that xarray reads first, unless it is there."""
    import zarr

    group, arrays, copies = metadata_now(records)
    if copies != arrays or not group:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # consolidation is not in the specification yet
            zarr.consolidate_metadata(str(records))


def readable_signature(path: Path) -> Signature | None:
    """Return a store's signature, None where it is absent or damaged: then the plan says what its metadata must be."""
    try:
        signature = read_signature(path)
        return signature if signature and signature.facts else None
    except (DamageError, ForeignMetadataError):
        return None


def restore(records: Path, signed: Signature) -> None:
    """Write metadata again that is not what was signed: damage, or a growth that nothing was written into yet."""
    for name, metadata in {"": signed.group, **signed.arrays}.items():
        file = records / name / METADATA
        try:
            written = read_json(file)
        except (ValueError, FileNotFoundError):
            written = None
        if not name and isinstance(written, dict):
            written.pop(CONSOLIDATED, None)
        if written != metadata:
            if file.exists() and not file.is_file():
                file.rename(free_name(made(records.parent / SET_ASIDE) / f"{name}.{METADATA}"))
            file.parent.mkdir(parents=True, exist_ok=True)
            write_durably(file, json.dumps(metadata))
    for folder in [path for path in records.iterdir() if path.is_dir() and path.name not in signed.arrays]:
        shutil.move(folder, free_name(made(records.parent / SET_ASIDE) / folder.name))


def made(folder: Path) -> Path:
    """Return a folder after it was made."""
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder
