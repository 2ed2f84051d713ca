"""A run's folder: made, recognised and renewed, so that nobody's own files are ever overwritten."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedscope.core import PRIVATE, PUBLIC, cannot_write, plain_values, require, require_pictures, write_together
from seedscope.report import page as html
from seedscope.report import schema
from seedscope.report.individuals import dictionary_csv, individuals_csv, individuals_parquet

if TYPE_CHECKING:
    import pandas as pd

PAGE_NAME, TABLE_NAME, CHARTS_NAME, SHEETS_NAME = "report.html", "individuals.csv", "charts", "sheets"
DICTIONARY_NAME, PARQUET_NAME = "dictionary.csv", "individuals.parquet"
MARK = ".seedscope"
MARK_TEXT = "Seedscope may replace report.html, report.json and individuals.csv in this folder.\n"
OWN = (PAGE_NAME, schema.JSON_NAME, TABLE_NAME, DICTIONARY_NAME, PARQUET_NAME, CHARTS_NAME, SHEETS_NAME, MARK)
LEFTOVERS = (".writing-", *(f".{name}." for name in OWN))  # of a run that was killed
IMMOVABLE = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
SIGN = b'<meta name="generator" content="Seedscope'


def claim_folder(folder: str | Path) -> Path:
    """Return the folder, made if it is missing and marked as ours; one with other people's files is refused.

    Long work calls this first, so that a folder of no use is known before, not after it. What is about people is their
    owner's only, so a new folder is too.
    """
    place = Path(folder)
    try:
        _recover(place)
        if place.exists():
            require(place.is_dir(), f"{place} is a file, not a folder; choose another name.", argument="out")
            ours = (place / MARK).exists() or not any(place.iterdir())
            foreign = f"{place} has files that Seedscope did not write; choose another folder, or an empty one."
            require(ours, foreign, argument="out")
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        (place / MARK).write_text(MARK_TEXT, encoding="utf-8")
    except OSError as error:
        raise cannot_write(place, error) from error
    return place


def write_report(
    folder: str | Path, report: Mapping[str, Any], individuals: pd.DataFrame | None = None, parquet: bool = False
) -> list[Path]:
    """Write `report.html`, `report.json`, `individuals.csv` and `dictionary.csv`; return their paths, the page first.

    The folder changes as a whole: what was there stays until all that is new is complete, then nothing of it is left,
    neither pictures nor what a killed run left. Whatever else lies in it is kept, but a public report is refused there.

    Args:
        folder: new, empty, or written by Seedscope before.
        report: as the schema `report.schema.json` describes it; NumPy's numbers and arrays are welcome.
        individuals: one row per person and level, everyone; must be None for a public report.
        parquet: write them as `individuals.parquet` too.
    """
    plain = plain_values(report)
    schema.check_report(plain)
    require(individuals is None or not plain["public"], "a public report must not have rows of individuals.")
    place = claim_folder(folder)
    try:
        return _replace(place, plain, individuals, parquet)
    except OSError as error:
        raise cannot_write(place, error) from error


def write_page(run: str | Path) -> Path:
    """Write `report.html` again from a run's `report.json`; return its path. A page that is not ours is refused."""
    report = schema.read_report(run)
    place = _folder(run)
    try:
        require(
            _is_ours(place), f"{place / PAGE_NAME} was not written by Seedscope; move it away first.", argument="run"
        )
        return write_together(place, {PAGE_NAME: html.render_page(report)}, _mode(report))[0]
    except OSError as error:
        raise cannot_write(place, error) from error


def _is_ours(place: Path) -> bool:
    """Whether the page of a folder is absent, or one that Seedscope wrote."""
    page = place / PAGE_NAME
    if not page.exists() or (place / MARK).exists():
        return True
    with open(page, "rb") as file:
        return SIGN in file.read(1 << 16)


def _mode(report: Mapping[str, Any]) -> int:
    """Return the permissions of a report's files: everybody's for a public one."""
    return PUBLIC if report["public"] else PRIVATE


def write_charts(run: str | Path, picture: str = "svg") -> list[Path]:
    """Write every chart of a run at every privacy level as a picture (svg or png) into its folder `charts`."""
    from seedscope.report.charts import charts  # start-up

    require_pictures()
    report = schema.read_report(run)
    place = _folder(run) / CHARTS_NAME
    paths = []
    try:
        place.mkdir(exist_ok=True, mode=0o755 if report["public"] else 0o700)
        for level in range(len(report["levels"])):
            for name, chart in charts(report, level).items():
                paths.append(place / f"{name}-{level}.{picture}")
                chart.save(str(paths[-1]))
    except OSError as error:
        raise cannot_write(place, error) from error
    return paths


def _folder(run: str | Path) -> Path:
    """Return a run's folder, also if its `report.json` was named."""
    return Path(run) if Path(run).is_dir() else Path(run).parent


def _replace(place: Path, report: dict[str, Any], individuals: pd.DataFrame | None, parquet: bool) -> list[Path]:
    """Complete a new folder beside the old one, then exchange them."""
    contents: dict[str, str | bytes] = {
        PAGE_NAME: html.render_page(report),
        schema.JSON_NAME: schema.report_json(report),
    }
    if individuals is not None:
        contents[TABLE_NAME] = individuals_csv(individuals)
        contents[DICTIONARY_NAME] = dictionary_csv(individuals, report["people"].get("kinds", {}))
    if individuals is not None and parquet:
        contents[PARQUET_NAME] = individuals_parquet(individuals)
    kept = [path.name for path in place.iterdir() if not _is_own(path.name)]
    mixed = f"{place} also has {', '.join(kept[:3])}; choose an empty folder for a public report."
    require(not (report["public"] and kept), mixed, argument="out")
    new = _beside(place, f"new-{os.getpid()}")
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(mode=0o755 if report["public"] else 0o700)
        write_together(new, contents | {MARK: MARK_TEXT}, _mode(report))
        _exchange(place, new)
    except OSError as error:
        if error.errno not in IMMOVABLE:
            raise
        return _replace_inside(place, contents, _mode(report))
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return [place / name for name in contents]


def _exchange(place: Path, new: Path) -> None:
    """Put the new folder in the old one's place, with what the old one has of somebody else."""
    old = _beside(place, "old")
    os.rename(place.resolve(), old)
    os.rename(new, place.resolve())
    _recover(place)


def _recover(place: Path) -> None:
    """Finish an exchange, also one that was killed: what is not ours goes back into the folder, the rest is removed."""
    old = _beside(place, "old")
    if not old.is_dir():
        return
    if not place.exists():
        os.rename(old, place.resolve())
        return
    for path in list(old.iterdir()):
        if not _is_own(path.name) and not (place / path.name).exists():
            os.rename(path, place / path.name)
    shutil.rmtree(old)


def _replace_inside(place: Path, contents: Mapping[str, str | bytes], mode: int) -> list[Path]:
    """Replace the files of a folder that cannot be moved, such as a mounted one: what is private goes first."""
    for path in [path for path in place.iterdir() if _is_own(path.name) and path.name not in (*contents, MARK)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return write_together(place, contents, mode)


def _beside(place: Path, what: str) -> Path:
    """Return a name beside a folder, hidden, for while it is exchanged."""
    whole = place.resolve()
    return whole.with_name(f".{whole.name}.seedscope-{what}")


def _is_own(name: str) -> bool:
    """Whether a file of a run's folder is of a report, or was left by one that was not finished."""
    return name in OWN or name.startswith(LEFTOVERS)
