"""Predictions in a file as an ensemble: format `seedscope-scores`, version 1.

An `.npz` file has arrays: `scores` [model, example] (or [model, example, class]; or decisions), `labels` [example],
and if wanted `without`, `ids`, `group: NAME`, `format` ("seedscope-scores") and `version` (1).

A table (CSV or Parquet) has a row for each example: `label`, a column `score: NAME` for each model (the probability of
the second class, or the decided class), and if wanted `without: NAME`, `id`, `group: NAME`, and `format` with
"seedscope-scores 1" in every row. A file that names no version is of version 1.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.core import SeedscopeError, require, unknown_name
from seedscope.datasets import read_frame
from seedscope.storage import Ensemble

if TYPE_CHECKING:
    import pandas

FORMAT, VERSION = "seedscope-scores", 1
ARRAYS = ("scores", "labels", "without", "ids", "format", "version")
COLUMNS = ("label", "id", "format")
PREFIXES = ("score:", "without:", "group:")


def read_scores(path: str | Path) -> Ensemble:
    """Return the ensemble of the predictions in an .npz, CSV or Parquet file; the module says what they hold."""
    place = Path(path)
    given = _from_arrays(place) if place.suffix == ".npz" else _from_table(place)
    return Ensemble.from_scores(given.pop("scores"), given.pop("labels"), **given, name=place.stem, source=place.name)


def _from_arrays(path: Path) -> dict[str, Any]:
    """Return the arguments of `Ensemble.from_scores` that an .npz file has."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except FileNotFoundError:
        raise SeedscopeError(f"no file {path}; check the path.", argument="scores") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise SeedscopeError(f"{path} is not an .npz file of plain arrays ({error}).", argument="scores") from None
    groups = {name: values for name, values in arrays.items() if name.startswith("group:")}
    for name in arrays.keys() - groups.keys():
        if name not in ARRAYS:
            raise unknown_name(f"array in {path.name}", name, (*ARRAYS, "group: NAME"))
    _require_version(path, str(arrays.get("format", FORMAT)), arrays.get("version", VERSION))
    _require_present(path, arrays, "scores", "labels")
    optional = {name: arrays[name] for name in ("without", "ids") if name in arrays}
    return {"scores": arrays["scores"], "labels": arrays["labels"], "groups": _named(groups)} | optional


def _from_table(path: Path) -> dict[str, Any]:
    """Return the arguments of `Ensemble.from_scores` that a table has."""
    frame, _ = read_frame(path)
    for name in frame.columns:
        if name not in COLUMNS and not name.startswith(PREFIXES):
            raise unknown_name(f"column in {path.name}", name, (*COLUMNS, *(f"{prefix} NAME" for prefix in PREFIXES)))
    if "format" in frame:
        for said in frame["format"].astype(str).unique():
            name, _, version = said.partition(" ")
            _require_version(path, name, version)
    with_models, without = (_columns(frame, prefix) for prefix in ("score:", "without:"))
    _require_present(path, {"label": None} if "label" in frame else {}, "label")
    require(with_models, f"{path.name} has no column 'score: NAME' for a model.", argument="scores")
    empty = [name for name, values in (with_models | {"label": frame["label"]}).items() if values.isna().any()]
    require(not empty, f"column {empty[:1]} of {path.name} has empty cells; every model needs a score of everybody.")
    file: dict[str, Any] = {"scores": _stacked(with_models), "labels": frame["label"].to_numpy()}
    file["groups"] = _named({name: frame[name].to_numpy() for name in frame if str(name).startswith("group:")})
    if without:
        _require_same_models(path, with_models, without)
        file["without"] = np.stack([without[name].to_numpy(float) for name in with_models])
    return file | ({"ids": frame["id"].to_numpy()} if "id" in frame else {})


def _columns(frame: pandas.DataFrame, prefix: str) -> dict[str, Any]:
    """Return the columns of a prefix by what follows it."""
    return {
        str(column).removeprefix(prefix).strip(): frame[column]
        for column in frame.columns
        if str(column).startswith(prefix)
    }


def _stacked(columns: Mapping[str, Any]) -> np.ndarray:
    """Return the columns as [model, example]: numbers where all are, else texts."""
    numbers = all(column.dtype.kind in "fiu" for column in columns.values())
    whole = numbers and all(column.dtype.kind in "iu" for column in columns.values())
    kind = int if whole else float if numbers else str
    return np.stack([column.to_numpy().astype(kind) for column in columns.values()])


def _require_same_models(path: Path, with_models: Mapping[str, Any], without: Mapping[str, Any]) -> None:
    """Raise unless the same models have scores with and without each example."""
    odd = sorted(set(with_models) ^ set(without))
    require(not odd, f"{path.name} has only one of 'score: {odd[:1]}' and 'without: {odd[:1]}'; both are needed.")


def _require_version(path: Path, name: str, version: Any) -> None:
    """Raise unless the file says, if anything, that it is of a format and version that are read here."""
    require(name == FORMAT, f"{path.name} is of format {name!r}, not {FORMAT!r}.", argument="scores")
    known = str(version).strip() == str(VERSION)
    require(known, f"{path.name} is of version {version} of {FORMAT}; this Seedscope reads version {VERSION}.")


def _require_present(path: Path, contents: Mapping[str, Any], *needed: str) -> None:
    """Raise where the file lacks something that it needs."""
    missing = [name for name in needed if name not in contents]
    require(not missing, f"{path.name} has no {', '.join(map(repr, missing))}.", argument="scores")


def _named(groups: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return groups by their own names."""
    return {name.removeprefix("group:").strip(): values for name, values in groups.items()}
