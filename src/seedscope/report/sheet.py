"""A sheet of paper for one person: what the model may reveal of them, whether their decision hangs on chance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seedscope.core import PRIVATE, cannot_write, require, write_together
from seedscope.report import page, schema
from seedscope.report.folder import SHEETS_NAME, TABLE_NAME
from seedscope.report.individuals import safe_cell
from seedscope.report.words import Show, shown

ARBITRARY = 0.5
UNSAFE = re.compile(r"[^\w-]+")


def write_sheet(run: str | Path, person: str) -> Path:
    """Write the sheet of one person of a run, named as in its table of individuals; return its path."""
    report = schema.read_report(run)
    require(not report["public"], "a public report knows nobody; name the whole report's folder.", argument="about")
    place = Path(run) if Path(run).is_dir() else Path(run).parent
    rows = _rows_of(place / TABLE_NAME, person)
    folder = place / SHEETS_NAME
    name = f"sheet-{UNSAFE.sub('-', person)[:80] or 'person'}.html"
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
        return write_together(folder, {name: render_sheet(report, person, rows)}, PRIVATE)[0]
    except OSError as error:
        raise cannot_write(folder, error) from error


def _rows_of(table: Path, person: str) -> list[dict[str, Any]]:
    """Return a person's row of each level; somebody unknown is refused."""
    import pandas as pd

    require(table.is_file(), f"{table} is missing, which names everybody; run the audit again.", argument="about")
    everybody = pd.read_csv(table, dtype={"id": str}, keep_default_na=True)
    own = everybody[everybody["id"] == person]
    require(len(own), f"nobody is called {person!r} in {table}; its column id has everybody.", argument="about")
    return [{str(name): value for name, value in row.items()} for row in own.to_dict("records")]


def render_sheet(report: Mapping[str, Any], person: str, rows: list[dict[str, Any]]) -> str:
    """Return the sheet as a page that prints on one side of paper and runs no script."""
    trained = rows[0]["part"] == "train"
    levels = [_at_level(report, level, row) for level, row in zip(report["levels"], rows, strict=True)]
    kinds = {level["guarantee"]["epsilon"]["kind"] for level in report["levels"] if level["guarantee"]["epsilon"]}
    guaranteed = {frozenset(["proved"]): "proved", frozenset(): "nothing"}.get(frozenset(kinds), "an estimate")
    from markupsafe import Markup

    style = page.asset("dossier.css")
    sheet: str = page.environment().get_template("sheet.html.j2").render(
        report=report, person=person, levels=levels, guaranteed=guaranteed,
        spreads=_spreads(report),
        part="The models learned from this row." if trained else "No model learned from this row: no ε is about it.",
        style=Markup(style), policy=page.content_security_policy([], style),
    )  # fmt: skip
    return sheet


def _at_level(report: Mapping[str, Any], level: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what there is to say of a person at one privacy level."""
    return {
        "label": level["label"],
        "reveals": _reveals(level, row),
        "decided": row.get("predicted") if isinstance(row.get("predicted"), str) else "not scored",
        "chance": _chance(report, row),
        "off_by": _off_by(level, row),
    }


def _off_by(level: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, str]:
    """Return by feature how far off a guess is at least, in its own units; nothing about people not trained on."""
    units = (level.get("reconstruction") or {}).get("own_units")
    if units is None or row["part"] != "train":
        return {}
    anybody = {feature["feature"]: feature["error"] for feature in units["features"]} if units["person"] is None else {}
    own = {
        feature["feature"]: row.get(safe_cell(f"off_by_{feature['feature']}")) for feature in units["features"]
    } | anybody
    return {name: f"±{shown(error)}" for name, error in own.items() if error is not None and error == error}


def _spreads(report: Mapping[str, Any]) -> dict[str, str]:
    """Return by how much guessing the mean of each feature is off, of the features that any level speaks of."""
    all_units = [(level.get("reconstruction") or {}).get("own_units") for level in report["levels"]]
    return {
        feature["feature"]: f"±{shown(feature['spread'])}"
        for units in all_units
        if units
        for feature in units["features"]
    }


def _reveals(level: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    """Return sentences about what whoever sees the model can tell of a person."""
    if row["part"] != "train":
        return ["The model never saw you; what it says of you it learned from others."]
    said = [level["guarantee"].get("meaning") or "Nothing is guaranteed."]
    if (level["guarantee"]["epsilon"] or {}).get("kind") == "estimate":
        said.append(
            f"That is an estimate, not a proof: {level['guarantee']['epsilon'].get('note') or 'see the report'}."
        )
    if _known(row, "advantage"):
        ends = _between(row, "advantage", "points")
        value = shown(row["advantage"], "points")
        said.append(f"The best possible attack tells that you were in the data {value} better than guessing{ends}.")
    elif _known(row, "membership_advantage"):
        value = shown(row["membership_advantage"], "points")
        said.append(f"Our attack tells that you were in the data {value} better than guessing (an estimate).")
    else:
        said.append("Nobody attacked you in particular.")
    return said


def _chance(report: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Return how far a person's decision hangs on the random numbers of training."""
    if not _known(row, "disagreement"):
        return "not known: this row was not scored"
    hangs = "it hangs on chance" if row["disagreement"] >= ARBITRARY else "it is settled"
    share = shown(row["agreement"], "percent") if _known(row, "agreement") else "most"
    known = f"disagreement {shown(row['disagreement'])}{_between(row, 'disagreement')}"
    return f"{share} of the models decide so, {hangs}: {known}"


def _known(row: Mapping[str, Any], name: str) -> bool:
    """Whether a person has a number."""
    value = row.get(name)
    return isinstance(value, int | float) and value == value


def _between(row: Mapping[str, Any], name: str, show: Show = "plain") -> str:
    """Return a number's interval in words, nothing where it has none."""
    if not (_known(row, f"{name}_lower") and _known(row, f"{name}_upper")):
        return ""
    return f" (between {shown(row[f'{name}_lower'], show)} and {shown(row[f'{name}_upper'], show)})"
