"""The report's charts (Altair): with their data for a notebook, with named, empty data for the page's script to fill.

On the page all charts are linked: the script gives the same `chosen` people and the same `level` to each of them.
Colours are parameters too, so that the page can change between light and dark without drawing anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import altair as alt

from seedscope.core import require
from seedscope.report import drawings, rows

Report = Mapping[str, Any]

FONT = "Inter, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
COLOURS = {
    "ink": "#1c2430",
    "muted": "#5c6675",
    "line": "#e3e6ea",
    "paper": "#ffffff",
    "neutral": "#8d99a8",
    "accent": "#0b6e99",
    "second": "#c4620a",
    "third": "#5f5aa2",
}
NOTEBOOK_WIDTH = 520


def charts(report: Report, level: int = 0) -> dict[str, Any]:
    """Return the report's charts by name, with their data, at one privacy level.

    They show themselves in a notebook and can be saved: `charts(report)["people"].save("people.svg")`, or `.png`.
    A chart that the report has no numbers for is left out: `people` needs somebody's exposure, `trade_off` several
    levels, `attack` a curve, `exposure` both sides of everybody's, `groups` groups, and a public report has none.
    `privacy` needs an ε bounded from a side; where exposure has both sides, one that says more than 0.

    Args:
        report: as `read_report` returns it.
        level: which privacy level, from 0.
    """
    if report["public"]:
        return {}
    levels = len(report["levels"])
    require(0 <= level < levels, f"level must be a whole number from 0 to {levels - 1}, got {level!r}.")
    data = _data(report, level)
    start = {
        "level": level,
        "labels": [entry["label"] for entry in report["levels"]],
        "names": rows.group_names(report),
    }
    return _draw(report, lambda name: alt.InlineData(values=data.get(name, []), name=name), start, NOTEBOOK_WIDTH)


def specifications(report: Report) -> dict[str, dict[str, Any]]:
    """Return the Vega-Lite specifications for the page, by name: without data, and without any text of the report."""
    if report["public"]:
        return {}
    start: dict[str, Any] = {"level": 0, "labels": [], "names": []}
    drawn = _draw(report, lambda name: alt.NamedData(name=name), start, "container")
    return {name: chart.to_dict(validate=False) for name, chart in drawn.items()}


def _data(report: Report, level: int) -> dict[str, rows.Rows]:
    """Return the rows of every named data set; nobody is chosen in a notebook."""
    people = rows.people_rows(report, level)
    return {
        "people": people,
        "sided": rows.sided_rows(people),
        "allowed": rows.allowed_rows(report),
        "bounded": rows.privacy_rows(people),
        "levels": rows.level_rows(report),
        "roc": rows.roc_rows(report),
        "groups": rows.group_rows(report),
        "limits": rows.limit_rows(report),
    }


def _draw(report: Report, source: drawings.Source, start: dict[str, Any], width: int | str) -> dict[str, Any]:
    """Return the charts that the report has numbers for, in the page's order."""
    wanted: dict[str, tuple[Callable[[Report, drawings.Source], Any], bool]] = {
        "people": (drawings.people, _has(report, "membership_advantage") or _has(report, "advantage")),
        "distribution": (drawings.distribution, True),
        "trade_off": (drawings.trade_off, len(report["levels"]) > 1),
        "attack": (drawings.attack, bool(rows.roc_rows(report))),
        "exposure": (drawings.exposure, _has(report, "advantage_lower")),
        "privacy": (drawings.privacy, _bounded(report)),
        "groups": (drawings.groups, bool(report["groups"])),
    }
    return {name: _styled(draw(report, source), start, width) for name, (draw, possible) in wanted.items() if possible}


def _bounded(report: Report) -> bool:
    """Return whether anybody's ε has a side worth drawing: zeros under one line say nothing beside the exposure."""
    if not _has(report, "advantage_lower"):
        return _has(report, "epsilon_lower") or _has(report, "epsilon_upper")
    return _has(report, "epsilon_estimate") or any(
        bound for columns in report["people"]["levels"] for bound in columns["epsilon_lower"]
    )


def _has(report: Report, column: str) -> bool:
    """Return whether anybody has a number in that column, at any level."""
    return any(value is not None for columns in report["people"]["levels"] for value in columns.get(column, ()))


def _styled(chart: Any, start: dict[str, Any], width: int | str) -> Any:
    """Return the chart with its parameters and the page's look."""
    parameters = {**COLOURS, "someone": False, **start}
    text = {"labelColor": alt.ExprRef("muted"), "labelFontSize": 12}
    lines = {"gridColor": alt.ExprRef("line"), "domainColor": alt.ExprRef("line"), "domain": False, "ticks": False}
    title = {"titleColor": alt.ExprRef("muted"), "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 10}
    axis = alt.AxisConfig(**text, **lines, **title, labelPadding=6, labelFlush=False, tickCount=5)  # type: ignore[arg-type]
    look = alt.Config(
        font=FONT,
        axis=axis,
        axisX=alt.AxisConfig(grid=False, domain=True),
        legend=alt.LegendConfig(**text),  # type: ignore[arg-type]
        view=alt.ViewConfig(stroke=None),
    )
    shared = [alt.param(name=name, value=value).param for name, value in parameters.items()]
    own = [] if chart.params is alt.Undefined else chart.params
    chart.params = [*own, *shared]  # in place: each of the chart's own methods copies all of it
    chart.width, chart.background, chart.config = width, "transparent", look
    return chart
