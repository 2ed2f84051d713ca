"""A paper's numbers beside ours: rows of a table, figures, and the folder they are written to."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from seedscope.core import SeedscopeWarning, cannot_write, has_pictures


@dataclass(frozen=True)
class Comparison:
    """One number of a paper beside ours, why they differ where they must, and what the best we know gives instead."""

    place: str  # for instance "IP1 Table 3"
    data: str
    setting: str
    quantity: str
    ours: float
    paper: float | None = None
    note: str = ""
    detail: bool = False  # in the files, not on the screen
    best: float | None = None  # the same quantity at the same ε with the best calibration


@dataclass(frozen=True)
class Run:
    """How a study is run: its scale, its folder, the processes it may use, and whether it shows progress."""

    scale: str
    out: Path
    jobs: int | None = None
    quiet: bool = False

    def store(self, name: str) -> Path | None:
        """Return the folder that keeps a grid's models: at the papers' sizes, so that a run can be resumed."""
        return self.out / "stores" / name if self.scale == "paper" else None


@dataclass(frozen=True)
class Study:
    """What re-doing a paper gave: comparisons, and charts (Altair) by file name."""

    name: str
    scale: str
    comparisons: tuple[Comparison, ...]
    charts: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)  # how long each part took

    def save(self, out: str | Path) -> list[Path]:
        """Write comparisons.csv, comparisons.json and each chart as SVG; return what was written."""
        folder = Path(out)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return [self._write_csv(folder), self._write_json(folder), *self._write_charts(folder)]
        except OSError as error:
            raise cannot_write(folder, error) from error

    def _write_csv(self, folder: Path) -> Path:
        """Write the comparisons as a table."""
        path = folder / "comparisons.csv"
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(Comparison.__dataclass_fields__))
            writer.writeheader()
            writer.writerows(asdict(comparison) for comparison in self.comparisons)
        return path

    def _write_json(self, folder: Path) -> Path:
        """Write everything but the charts."""
        path = folder / "comparisons.json"
        rows = [asdict(comparison) for comparison in self.comparisons]
        content = {"study": self.name, "scale": self.scale, "comparisons": rows, "seconds": dict(self.seconds)}
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
        return path

    def _write_charts(self, folder: Path) -> list[Path]:
        """Write the charts as pictures, where that can be done."""
        if not has_pictures():
            warnings.warn("charts are left out: they need pip install 'seedscope[pictures]'.", SeedscopeWarning, 2)
            return []
        paths = [folder / f"{name}.svg" for name in self.charts]
        for path, chart in zip(paths, self.charts.values(), strict=True):
            chart.save(str(path))
        return paths


def paper_numbers(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file of published numbers that lies beside this module."""
    text = files("seedscope.reproduce").joinpath("numbers", f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def print_comparisons(comparisons: Iterable[Comparison]) -> None:
    """Print the comparisons as one table for each place in the paper; details are only counted."""
    from itertools import groupby

    from rich.console import Console
    from rich.table import Table

    console, all_rows = Console(), list(comparisons)
    shown = [row for row in all_rows if not row.detail]
    for place, rows in groupby(shown, key=lambda row: row.place):
        of_place = list(rows)
        better = ["same ε, best calibration"] if any(row.best is not None for row in of_place) else []
        names = ("data", "setting", "quantity", "ours", "paper", *better, "note")
        table = Table(*names, title=place, title_justify="left", box=None)
        for row in of_place:
            numbers = [row.ours, row.paper, *([row.best] if better else [])]
            table.add_row(row.data, row.setting, row.quantity, *map(_shown, numbers), row.note)
        console.print(table)
    if len(shown) < len(all_rows):
        console.print(f"… and {len(all_rows) - len(shown)} more numbers in the files.")


def _shown(number: float | None) -> str:
    """Return a number as it is printed; a dash for none."""
    return "–" if number is None else f"{number:.4g}"
