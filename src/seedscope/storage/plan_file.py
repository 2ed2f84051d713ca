"""The file that says which plan a store belongs to: read, compared, and written again where markers prove it."""

from __future__ import annotations

import errno
import json
import warnings
from pathlib import Path
from typing import Any

from seedscope.core import (
    DamageError,
    SeedscopeError,
    SeedscopeWarning,
    disk_error,
    read_error,
    require,
    write_durably,
)
from seedscope.datasets import scaling_from
from seedscope.planning import ChunkShape, Plan, differences, fingerprint_of
from seedscope.storage import layout
from seedscope.storage.chunk_files import MARKERS, RECORDS
from seedscope.storage.markers import read_marker
from seedscope.storage.metadata import METADATA, array_facts, read_json
from seedscope.storage.signature import LAYOUT, read_signature

PLAN = "plan.json"


class DamagedPlanError(DamageError):
    """A plan that cannot be read, or that does not have its own checksum."""


def read_identity(path: Path) -> dict[str, Any] | None:
    """Return the identity of a store's plan, None where there is none."""
    file = path / PLAN
    try:
        plan = read_json(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        impossible = error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)
        raise (disk_error if impossible else read_error)(error, path) from error
    except ValueError as error:
        raise _no_plan(file, error) from None
    try:
        identity: dict[str, Any] = plan["identity"]
        known, fingerprint = plan["format"] == layout.FORMAT, fingerprint_of(identity)
        ChunkShape(**identity["chunk"])
    except (KeyError, TypeError, RecursionError) as error:
        raise _no_plan(file, error) from None
    newer = f"{file} has format {plan['format']!r}, this version reads {layout.FORMAT}; choose another store."
    require(known or plan.get("fingerprint") != fingerprint, newer, argument="store")
    if plan.get("fingerprint") != fingerprint:
        raise DamagedPlanError(
            f"{file} is damaged: it does not have its own checksum; run the very same training to write it again."
        )
    return identity


def _no_plan(file: Path, error: Exception) -> SeedscopeError:
    """Return the sentence for a plan that cannot be read."""
    return DamagedPlanError(
        f"{file} is not a plan of Seedscope ({error}); choose another store, or run the very same training to write it "
        "again.",
        argument="store",
    )


def stored_fingerprint(path: Path) -> str | None:
    """Return the fingerprint that a store's markers bear, None where there is no store yet.

    It is of the plan's text when the store was made; whether the plan is the same is decided by its values.
    """
    try:
        identity = read_identity(path)
    except DamagedPlanError:
        return None  # the plan that is asked for may turn out to be the one
    return None if identity is None else fingerprint_of(identity)


def stored_chunk_shape(path: str | Path) -> ChunkShape | None:
    """Return the chunk shape that a store was made with, None where there is no store yet."""
    try:
        identity = read_identity(Path(path))
    except DamagedPlanError as error:
        return _chunk_shape_of_weights(Path(path), error)
    return ChunkShape(**identity["chunk"]) if identity else None


def _chunk_shape_of_weights(path: Path, error: DamagedPlanError) -> ChunkShape:
    """Return the chunk shape that a store's weights have, or raise the error where they do not tell."""
    try:
        signed = read_signature(path)
        facts = (
            signed.facts
            if signed
            else {"weights": array_facts("weights", read_json(path / RECORDS / "weights" / METADATA))}
        )
        return ChunkShape(*facts["weights"].chunk[:2])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
        raise error from None
    except OSError as trouble:
        raise read_error(trouble, path) from trouble


def check_identity(path: Path, plan: Plan) -> None:
    """Write the plan of a new store, or of one whose plan was damaged; raise if the store's plan is another."""
    identity = plan.identity()
    try:
        old = read_identity(path)
    except DamagedPlanError as error:
        _require_own_markers(path, plan, error)
        old = None
    if old is None:
        return _write_plan(path, identity)
    differing = differences(_as_written_now(old, plan), identity)
    more = f" (and {len(differing) - 3} more)" if len(differing) > 3 else ""
    require(
        not differing,
        f"store {path} belongs to another plan: {'; '.join(differing[:3])}{more}. Choose another store, or the "
        "same settings to resume.",
    )
    if not read_json(path / PLAN).get("signed"):
        _write_plan(path, old)
    return None


def _write_plan(path: Path, identity: dict[str, Any]) -> None:
    """Write down what makes the plan itself, and that its store is signed."""
    plan = {"format": layout.FORMAT, "signed": True, "fingerprint": fingerprint_of(identity), "identity": identity}
    write_durably(path / PLAN, json.dumps(plan, indent=1, allow_nan=False))


def _require_own_markers(path: Path, plan: Plan, error: DamagedPlanError) -> None:
    """Raise unless every marker is of the plan that is asked for: then its damaged plan can be written again."""
    markers = [read_marker(file) for file in sorted((path / MARKERS).iterdir())]
    plans = {marker.plan for marker in markers if marker is not None}
    if plans - {plan.fingerprint} or not (plans or (path / LAYOUT).exists()):
        raise error
    warnings.warn(
        f"{path / PLAN} was damaged and is written again: {len(markers)} finished chunks bear this very plan's "
        "fingerprint.",
        SeedscopeWarning,
        stacklevel=4,
    )


def _as_written_now(identity: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return a store's identity as this version writes it: the scaling's number, and the data's checksum."""
    data, scaling = identity.get("data"), identity.get("scaling")
    if isinstance(data, dict) and data.get("fingerprint") == plan.data.former_fingerprint:
        identity = identity | {"data": data | {"fingerprint": plan.data.fingerprint}}
    try:
        return identity | {"scaling": repr(scaling_from(scaling or ""))}
    except (KeyError, TypeError, SeedscopeError):  # a scaling of the user's own: its text is all there is
        return identity
