"""The report as files for machines: JSON that is checked against the schema beside this module, and CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from seedscope.core import SeedscopeError, plain_values, require
from seedscope.report.older import without_old_promises

FORMAT, VERSION = "seedscope-report", 1
JSON_NAME = "report.json"
NOT_PER_PERSON = ("ranked",)  # the one entry of a privacy level's people that is no column


def read_report(path: str | Path) -> dict[str, Any]:
    """Return the checked report in a file, or in the `report.json` of a folder.

    Raises:
        SeedscopeError: one sentence for whatever is wrong with the file.
    """
    file = Path(path) / JSON_NAME if Path(path).is_dir() else Path(path)
    try:
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except FileNotFoundError:
        raise SeedscopeError(f"no report at {file}; give the folder that 'seedscope audit' wrote.") from None
    except OSError as error:
        raise SeedscopeError(f"cannot read {file}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested beyond reason
        raise SeedscopeError(f"{file} is not a JSON file: {str(error)[:200]}; run the audit again.") from error
    try:
        check_report(report)
    except SeedscopeError as error:
        raise SeedscopeError(f"{file} is not a report that can be shown: {error}") from None
    return without_old_promises(report)


def check_report(report: Any) -> None:
    """Raise a `SeedscopeError` unless this is a report as the schema describes it, with columns of equal lengths."""
    require(isinstance(report, dict), f"a report is a JSON object, got {type(report).__name__}.")
    require(report.get("format") == FORMAT, f"'format' must be {FORMAT!r}, got {report.get('format')!r:.80}.")
    version = report.get("version")
    newer = isinstance(version, int | float) and version > VERSION
    require(not newer, f"it has version {version}, this Seedscope reads version {VERSION}; update Seedscope.")
    _check_schema(report)
    if not report["public"]:
        for name, length, expected in _lengths(report):
            require(length == expected, f"'{name}' has {length:,} entries where {expected:,} are needed.")
        _check_positions(report)


def report_json(report: Mapping[str, Any]) -> str:
    """Return the report as JSON text; what JSON lacks (NaN, infinity) becomes null.

    >>> report_json({"value": float("nan"), "classes": (1, 2)})
    '{"value":null,"classes":[1,2]}'
    """
    return json.dumps(plain_values(report), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _refuse_constant(name: str) -> None:
    """Raise for NaN and Infinity, which Python's reader would let pass."""
    raise ValueError(f"{name} is not JSON")


@cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of a report."""
    document: dict[str, Any] = json.loads(
        files("seedscope.report").joinpath("assets", "report.schema.json").read_text(encoding="utf-8")
    )
    return document


@cache
def _validator() -> Any:
    """Return a validator that leaves the people's columns to faster checks: they are most of the file."""
    from jsonschema import Draft202012Validator

    definitions = dict(schema()["$defs"])
    definitions |= {name: {"type": "array"} for name in ("column", "indices")}
    return Draft202012Validator({**schema(), "$defs": definitions})


def _check_schema(report: dict[str, Any]) -> None:
    """Raise for the first place at which the report departs from the schema."""
    error = next(_validator().iter_errors(report), None)
    if error is not None:
        place = ".".join(map(str, error.absolute_path)) or "the report"
        raise SeedscopeError(f"at {place[:200]}: {_short(error.message)}.")


def _short(text: str) -> str:
    """Return a text of at most 200 characters, the middle left out."""
    return text if len(text) <= 200 else f"{text[:120]} … {text[-70:]}"


def _lengths(report: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Yield name, length and needed length of every list whose length follows from another's."""
    people, groups, levels = report["people"], report["groups"], report["levels"]
    shown = people["shown"]
    yield from ((f"people.{name}", len(people[name]), shown) for name in ("id", "part", "label"))
    yield "people.levels", len(people["levels"]), len(levels)
    yield "people.groups", len(people["groups"]), len(groups)
    yield from ((f"people.groups.{index}", len(column), shown) for index, column in enumerate(people["groups"]))
    for index, columns in enumerate(people["levels"]):
        named = {name: column for name, column in columns.items() if name not in NOT_PER_PERSON}
        yield from ((f"people.levels.{index}.{name}", len(column), shown) for name, column in named.items())
    for index, group in enumerate(groups):
        yield f"groups.{index}.people", len(group["people"]), len(group["levels"])
        yield f"groups.{index}.by_level", len(group["by_level"]), len(levels)
        for part in group["by_level"]:
            for name in ("mean_disagreement", "accuracy", "membership_advantage"):
                if name in part:
                    yield f"groups.{index}.by_level.{name}", len(part[name]), len(group["levels"])
    for index, level in enumerate(levels):
        curve = level["roc"] or {}
        yield from (
            (f"levels.{index}.roc.{name}", len(values), len(curve["false_positive_rate"]))
            for name, values in curve.items()
        )


def _check_positions(report: dict[str, Any]) -> None:
    """Raise unless columns hold numbers, and positions in a list of names lie inside that list."""
    people, classes = report["people"], len(report["audited"]["classes"])
    _check_indices("verdict.level", [report["verdict"].get("level")], len(report["levels"]))
    _check_indices("people.label", people["label"], classes)
    for index, (column, group) in enumerate(zip(people["groups"], report["groups"], strict=True)):
        _check_indices(f"people.groups.{index}", column, len(group["levels"]))
    for index, columns in enumerate(people["levels"]):
        for name, column in columns.items():
            place = f"people.levels.{index}.{name}"
            if name == "predicted":
                _check_indices(place, column, classes)
            elif name not in NOT_PER_PERSON:
                require(_types(column) <= {int, float, type(None)}, f"'{place}' must hold numbers or null.")


def _check_indices(place: str, column: list[Any], size: int) -> None:
    """Raise unless each entry is null or a position in a list of that size."""
    right = _types(column) <= {int, type(None)} and all(index is None or 0 <= index < size for index in column)
    require(right, f"'{place}' must hold null or whole numbers from 0 to {size - 1}.")


def _types(column: Iterable[Any]) -> set[type]:
    """Return the types that occur in a column."""
    return set(map(type, column))
