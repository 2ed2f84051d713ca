"""A run's folder: made, recognised and renewed, so that nobody's own files are ever overwritten."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedscope.errors import SeedscopeError, require
from seedscope.report import html, tables

if TYPE_CHECKING:
    import pandas as pd

PAGE_NAME, TABLE_NAME, CHARTS_NAME = "report.html", "individuals.csv", "charts"
MARK = ".seedscope"
MARK_TEXT = "Seedscope may replace report.html, report.json and individuals.csv in this folder.\n"


def claim_folder(folder: str | Path) -> Path:
    """Return the folder, made if it is missing and marked as ours; one with other people's files is refused.

    Long work calls this first, so that a wrong `--out` is known before, not after it.
    """
    place = Path(folder)
    try:
        if place.exists():
            require(place.is_dir(), f"--out must name a folder, {place} is a file; choose another name.")
            ours = (place / MARK).exists() or not any(place.iterdir())
            require(ours, f"{place} has files that Seedscope did not write; choose another --out, or an empty folder.")
        place.mkdir(parents=True, exist_ok=True)
        (place / MARK).write_text(MARK_TEXT, encoding="utf-8")
    except OSError as error:
        raise _cannot_write(place, error) from error
    return place


def write_report(folder: str | Path, report: Mapping[str, Any], individuals: pd.DataFrame | None = None) -> list[Path]:
    """Write `report.html`, `report.json` and `individuals.csv`; return their paths, the page first.

    What was there stays until all that is new is complete. A public report has no table of people: an older one is
    removed from its folder.

    Args:
        folder: new, empty, or written by Seedscope before.
        report: as the schema `report.schema.json` describes it; NumPy's numbers and arrays are welcome.
        individuals: one row per person, everyone; must be None for a public report.
    """
    plain = tables.plain(report)
    tables.check_report(plain)
    require(individuals is None or not plain["public"], "a public report must not have rows of individuals.")
    place = claim_folder(folder)
    try:
        return _replace(place, plain, individuals)
    except OSError as error:
        raise _cannot_write(place, error) from error


def write_page(run: str | Path) -> Path:
    """Write `report.html` again from a run's `report.json`; return its path."""
    report = tables.read_report(run)
    place = _folder(run)
    try:
        return _rename_into(place, {PAGE_NAME: html.render_page(report)})[0]
    except OSError as error:
        raise _cannot_write(place, error) from error


def write_charts(run: str | Path, picture: str = "svg") -> list[Path]:
    """Write every chart of a run at every privacy level as a picture (svg or png) into its folder `charts`."""
    from seedscope.report.figures import charts

    report = tables.read_report(run)
    place = _folder(run) / CHARTS_NAME
    paths = []
    try:
        place.mkdir(exist_ok=True)
        for level in range(len(report["levels"])):
            for name, chart in charts(report, level).items():
                paths.append(place / f"{name}-{level}.{picture}")
                chart.save(str(paths[-1]))
    except OSError as error:
        raise _cannot_write(place, error) from error
    return paths


def _folder(run: str | Path) -> Path:
    """Return a run's folder, also if its `report.json` was named."""
    return Path(run) if Path(run).is_dir() else Path(run).parent


def _replace(place: Path, report: dict[str, Any], individuals: pd.DataFrame | None) -> list[Path]:
    """Write the files beside the old ones, then rename them into place."""
    texts = {PAGE_NAME: html.render_page(report), tables.JSON_NAME: tables.report_json(report)}
    paths = _rename_into(place, texts, individuals)
    if individuals is None:
        (place / TABLE_NAME).unlink(missing_ok=True)
    return paths


def _rename_into(place: Path, texts: Mapping[str, str], individuals: pd.DataFrame | None = None) -> list[Path]:
    """Complete all files in a folder of their own, then move each over its namesake."""
    parts = Path(tempfile.mkdtemp(prefix=".writing-", dir=place))
    try:
        for name, text in texts.items():
            (parts / name).write_text(text, encoding="utf-8", newline="\n")
        if individuals is not None:
            tables.write_individuals(parts / TABLE_NAME, individuals)
        names = [*texts, *([] if individuals is None else [TABLE_NAME])]
        for name in names:
            _sync(parts / name)
        for name in names:
            os.replace(parts / name, place / name)
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    return [place / name for name in names]


def _sync(path: Path) -> None:
    """Wait until the file is on the disk: a rename must not come before its content."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _cannot_write(place: Path, error: OSError) -> SeedscopeError:
    """Return the error for a folder that cannot be written to."""
    return SeedscopeError(f"cannot write to {place}: {error.strerror or error}; choose another --out.")
