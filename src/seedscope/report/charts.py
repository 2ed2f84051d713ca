"""The report's charts (Altair): for a notebook with their data inside, for the page with named data that its script fills.

On the page all charts are linked: the script gives the same `chosen` people and the same `level` to each of them.
Colours are parameters too, so that the page can change between light and dark without drawing anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import altair as alt

from seedscope.errors import require
from seedscope.report import rows

Report = Mapping[str, Any]
Source = Callable[[str], Any]  # from a data set's name to its Altair data

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
BIN = 0.05
CHART_HEIGHT = 300
ROW_HEIGHT = 26
LEAST_RATE = 1e-4
DECADES = [1e-4, 1e-3, 1e-2, 1e-1, 1]


def charts(report: Report, level: int = 0) -> dict[str, Any]:
    """Return the report's charts by name, with their data, at one privacy level.

    They show themselves in a notebook and can be saved: `charts(report)["people"].save("people.svg")`, or `.png`.
    A chart for which the report has no numbers is left out: `people` needs membership numbers, `trade_off` several levels, `attack` a curve,
    `groups` groups, `privacy` an ε bounded from a side, and a public report has none.

    Args:
        report: as `read_report` returns it.
        level: which privacy level, from 0.
    """
    if report["public"]:
        return {}
    levels = len(report["levels"])
    require(0 <= level < levels, f"level must be a whole number from 0 to {levels - 1}, got {level!r}.")
    values = _values(report, level)
    drawn = _draw(report, lambda name: alt.InlineData(values=values.get(name, []), name=name))
    start = {"level": level, "labels": [one["label"] for one in report["levels"]], "names": rows.group_names(report)}
    for chart in drawn.values():
        for parameter in chart.params:
            if parameter.name in start:
                parameter.value = start[parameter.name]
        chart.width = 520
    return drawn


def specifications(report: Report) -> dict[str, dict[str, Any]]:
    """Return the Vega-Lite specifications for the page, by name: without data, and without any text of the report."""
    if report["public"]:
        return {}
    drawn = _draw(report, lambda name: alt.NamedData(name=name))
    return {name: chart.to_dict() for name, chart in drawn.items()}


def _values(report: Report, level: int) -> dict[str, rows.Rows]:
    """Return the rows of every named data set; nobody is chosen in a notebook."""
    people = rows.people_rows(report, level)
    return {
        "people": people,
        "bounded": rows.privacy_rows(people),
        "levels": rows.level_rows(report),
        "roc": rows.roc_rows(report),
        "groups": rows.group_rows(report),
        "limits": rows.limit_rows(report),
    }


def _draw(report: Report, source: Source) -> dict[str, Any]:
    """Return the charts that the report has numbers for, in the page's order."""
    has = {name: _has(report, name) for name in ("membership_advantage", "epsilon_lower", "epsilon_upper")}
    drawn = {}
    if has["membership_advantage"]:
        drawn["people"] = _people(report, source)
    drawn["distribution"] = _distribution(report, source)
    if len(report["levels"]) > 1:
        drawn["trade_off"] = _trade_off(report, source)
    if any(level["roc"] for level in report["levels"]):
        drawn["attack"] = _attack(report, source)
    if has["epsilon_lower"] or has["epsilon_upper"]:
        drawn["privacy"] = _privacy(report, source)
    if report["groups"]:
        drawn["groups"] = _groups(report, source)
    return {name: _styled(chart) for name, chart in drawn.items()}


def _has(report: Report, column: str) -> bool:
    """Return whether anybody has a number in that column, at any level."""
    return any(one is not None for columns in report["people"]["levels"] for one in columns[column])


def _largest(report: Report, column: str, least: float) -> float:
    """Return where an axis ends: the column's largest number over all levels, at least `least`."""
    return max([least, *(one for columns in report["people"]["levels"] for one in columns[column] if one is not None)])


def _smallest(report: Report, column: str) -> float:
    """Return where an axis starts: the column's smallest number over all levels, at most 0."""
    return min([0.0, *(one for columns in report["people"]["levels"] for one in columns[column] if one is not None)])


def _disagreement_scale(report: Report) -> alt.Scale:
    """Return the axis of disagreement, the same at all levels; unbiased estimates may exceed 1 a little."""
    return alt.Scale(domain=[0, _largest(report, "disagreement", 1.0)], nice=False)


def _people(report: Report, source: Source) -> alt.LayerChart:
    """Return disagreement against membership advantage, one point per person; drag to choose people."""
    span = [_smallest(report, "membership_advantage"), _largest(report, "membership_advantage", 0.1)]
    x = alt.X("disagreement:Q").title("Disagreement (0 settled, 1 a coin toss)").scale(_disagreement_scale(report))
    y = alt.Y("membership:Q").title("Membership advantage").scale(alt.Scale(domain=span, nice=True))
    brush = alt.selection_interval(name="brush", mark=_brush_mark())
    base = alt.Chart().transform_filter("isValid(datum.membership) && isValid(datum.disagreement)").encode(x, y)
    everyone = base.mark_circle(size=34, color=_signal("neutral"), opacity=alt.expr("someone ? 0.28 : 0.6"), aria=False)
    chosen = base.mark_circle(size=46, color=_signal("accent"), opacity=0.9, aria=False)
    focus = base.mark_point(size=180, color=_signal("ink"), strokeWidth=2, filled=False, aria=False)
    return alt.layer(
        everyone.encode(tooltip=_person_tooltip()).properties(data=source("people")).add_params(brush),
        chosen.encode(tooltip=_person_tooltip()).properties(data=source("chosen")),
        focus.properties(data=source("focus")),
        height=CHART_HEIGHT,
        description="Each point is a person: disagreement against membership advantage.",
    )


def _distribution(report: Report, source: Source) -> alt.LayerChart:
    """Return how many people have which disagreement; drag to choose people."""
    scale = alt.Scale(domain=[0, 1], nice=False)
    bins = alt.Bin(extent=[0, 1], step=BIN)  # what exceeds 1 goes into the last bar
    x = alt.X("disagreement:Q", bin=bins).title("Disagreement (0 settled, 1 a coin toss)").scale(scale)
    x = x.axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f")
    y = alt.Y("count()").title("People (square-root scale)").scale(type="sqrt")
    y = y.axis(tickCount=5, format=",d")
    brush = alt.selection_interval(name="brush", encodings=["x"], mark=_brush_mark())
    tooltip = [alt.Tooltip("disagreement:Q", bin=bins, title="Disagreement"), alt.Tooltip("count()", title="People")]
    bars = alt.Chart().transform_filter("isValid(datum.disagreement)").encode(x, y)
    faded = alt.expr("someone ? 0.35 : 0.75")
    everyone = bars.mark_bar(color=_signal("neutral"), opacity=faded, binSpacing=1.5, cornerRadiusEnd=2)
    chosen = bars.mark_bar(color=_signal("accent"), binSpacing=1.5, cornerRadiusEnd=2)
    focus = alt.Chart().mark_rule(color=_signal("ink"), strokeWidth=2).encode(alt.X("disagreement:Q"))
    return alt.layer(
        everyone.encode(tooltip=tooltip).properties(data=source("people")).add_params(brush),
        chosen.encode(tooltip=tooltip).properties(data=source("chosen")),
        focus.properties(data=source("focus")),
        height=CHART_HEIGHT,
        description="How many people have which disagreement.",
    )


def _trade_off(report: Report, source: Source) -> alt.LayerChart:
    """Return accuracy, disagreement and attack advantage at each privacy level, with the chosen people's lines."""
    last = len(report["levels"]) - 1
    axis = alt.Axis(values=list(range(last + 1)), labelExpr="labels[datum.value]", grid=False, labelLimit=90)
    x = alt.X("level:Q").title("Privacy level").axis(axis).scale(domain=[-0.35, last + 0.35], nice=False)
    y = alt.Y("value:Q").title(None).scale(domain=[0, 1], clamp=True)
    colours = alt.Scale(
        domain=list(rows.TRADE_OFF.values()), range=[_signal(one) for one in ("third", "accent", "second")]
    )
    shapes = alt.Scale(domain=list(rows.TRADE_OFF.values()), range=["square", "circle", "triangle-up"])
    legend = alt.Legend(orient="top", title=None, symbolSize=70, labelLimit=150, columns=3)
    colour = alt.Color("quantity:N").scale(colours).legend(legend)
    base = alt.Chart().encode(x, y, colour)
    tooltip = [alt.Tooltip("quantity:N", title="Quantity"), alt.Tooltip("label:N", title="Privacy level")]
    tooltip += [alt.Tooltip(f"{name}:Q", title=name.title(), format=".3f") for name in ("value", "lower", "upper")]
    here = alt.Chart(source("levels")).mark_rule(color=_signal("line"), strokeWidth=22).encode(alt.X("level:Q"))
    single = alt.Chart().encode(x, y, alt.Detail("person:N"))
    points = base.mark_point(filled=True, size=70, opacity=1, stroke=_signal("paper"), strokeWidth=1)
    return alt.layer(
        here.transform_filter("datum.level === level"),
        single.mark_line(color=_signal("accent"), opacity=0.18, strokeWidth=1).properties(data=source("chosen")),
        base.mark_line(strokeWidth=2).properties(data=source("levels")),
        base.mark_rule(strokeWidth=1.5).encode(alt.Y("lower:Q"), alt.Y2("upper:Q")).properties(data=source("levels")),
        points.encode(alt.Shape("quantity:N").scale(shapes).legend(legend), tooltip=tooltip).properties(
            data=source("levels")
        ),
        single.mark_line(color=_signal("ink"), strokeDash=[3, 3], strokeWidth=2).properties(data=source("focus")),
        height=CHART_HEIGHT,
        description="Accuracy, mean disagreement and attack advantage at each privacy level.",
    )


def _attack(report: Report, source: Source) -> alt.LayerChart:
    """Return the membership attack's curve with low false-positive rates spread out, under the proved limit."""
    least = max(min([one["false_positive"] for one in rows.roc_rows(report)], default=LEAST_RATE), LEAST_RATE)
    scale = alt.Scale(type="log", domain=[least, 1], nice=False, clamp=True)
    decades = [rate for rate in DECADES if rate >= least * (1 - 1e-9)]
    x = alt.X("false_positive:Q").title("False-positive rate (logarithmic)").scale(scale)
    x = x.axis(format="~g", values=decades, grid=False)
    y = (
        alt.Y("true_positive:Q")
        .title("True-positive rate (logarithmic)")
        .scale(scale)
        .axis(format="~g", values=decades)
    )
    base = alt.Chart(source("roc")).transform_filter("datum.true_positive > 0").encode(x, y, alt.Detail("level:N"))
    now = base.transform_filter("datum.level === level")
    guess = alt.sequence(-60, 1, 1, as_="step")
    chance = alt.Chart(guess).transform_calculate(false_positive=f"pow({least}, -datum.step / 60)")
    tooltip = [
        alt.Tooltip("false_positive:Q", title="False-positive rate", format=".3~g"),
        alt.Tooltip("true_positive:Q", title="True-positive rate", format=".3~g"),
        alt.Tooltip("limit:Q", title="Proved limit", format=".3~g"),
    ]
    limit = now.transform_filter("isValid(datum.limit)").encode(alt.Y("limit:Q"))
    return alt.layer(
        base.mark_line(color=_signal("neutral"), opacity=0.35, strokeWidth=1.2),
        chance.mark_line(color=_signal("muted"), strokeDash=[2, 4], strokeWidth=1.2).encode(
            x, alt.Y("false_positive:Q")
        ),
        limit.mark_line(color=_signal("ink"), strokeDash=[6, 3], strokeWidth=1.4, clip=True),
        now.mark_line(color=_signal("accent"), strokeWidth=2.4),
        now.mark_circle(color=_signal("accent"), size=60, opacity=0.001).encode(tooltip=tooltip),
        height=CHART_HEIGHT,
        description="True-positive against false-positive rate of the membership attack.",
    )


def _privacy(report: Report, source: Source) -> alt.LayerChart:
    """Return each audited person's ε between what an attack shows and what is proved."""
    x = alt.X("place:Q").title("Audited people, most exposed first").scale(nice=False, zero=False, padding=8)
    x = x.axis(tickMinStep=1, format="d", grid=False)
    y = alt.Y("epsilon_lower:Q").title("ε of a person")
    sides = alt.Chart().encode(x)
    upper = alt.Y("epsilon_upper:Q").title("ε of a person")
    line = (
        alt.Chart()
        .mark_rule(color=_signal("neutral"), strokeWidth=1.5, opacity=0.5)
        .encode(x, y, alt.Y2("epsilon_upper:Q"))
    )
    shown = sides.mark_circle(size=30, color=_signal("neutral")).encode(y, tooltip=_person_tooltip())
    most = sides.mark_tick(thickness=1.6, size=6, color=_signal("neutral")).encode(upper)
    limits = (
        alt.Chart(source("limits"))
        .transform_filter("datum.level === level")
        .mark_rule(strokeDash=[6, 3], strokeWidth=1.4)
    )
    dashes = alt.Scale(domain=["proved for everyone", "most that so many seeds can show"], range=[[6, 3], [2, 4]])
    legend = alt.Legend(
        orient="top", title=None, symbolType="stroke", labelLimit=260, columns=1, symbolStrokeColor=_signal("ink")
    )
    return alt.layer(
        limits.encode(alt.Y("epsilon:Q"), alt.StrokeDash("limit:N").scale(dashes).legend(legend), color=alt.value(_signal("ink"))),
        line.transform_filter("isValid(datum.epsilon_lower) && isValid(datum.epsilon_upper)").properties(data=source("bounded")),
        most.transform_filter("isValid(datum.epsilon_upper)").properties(data=source("bounded")),
        shown.transform_filter("isValid(datum.epsilon_lower)").properties(data=source("bounded")),
        sides.mark_circle(size=46, color=_signal("accent"), opacity=1).encode(y).properties(data=source("chosen")),
        sides.mark_point(size=180, color=_signal("ink"), strokeWidth=2).encode(y).properties(data=source("focus")),
        height=CHART_HEIGHT,
        description="For each audited person, the ε that an attack shows and the ε that is proved.",
    )  # fmt: skip


def _groups(report: Report, source: Source) -> alt.LayerChart:
    """Return the mean disagreement of every group with its interval, and the chosen people in their rows."""
    axis = alt.Axis(
        labelExpr="names[datum.value]", labelLimit=130, grid=False, ticks=False, domain=False, labelPadding=8
    )
    lines = list(range(len(rows.group_names(report))))
    y = alt.Y("row:O").title(None).axis(axis).scale(domain=lines)
    scale = _disagreement_scale(report)
    x = alt.X("value:Q").title("Mean disagreement, with interval").scale(scale).axis(grid=True)
    base = alt.Chart(source("groups")).transform_filter("datum.level === level")
    tooltip = [alt.Tooltip("group:N", title="Group"), alt.Tooltip("name:N", title="Level")]
    tooltip += [alt.Tooltip("people:Q", title="People", format=",d")]
    tooltip += [alt.Tooltip(f"{name}:Q", title=name.title(), format=".3f") for name in ("value", "lower", "upper")]
    ticks = alt.Chart().encode(alt.X("disagreement:Q").scale(scale), y)
    return alt.layer(
        ticks.mark_tick(color=_signal("accent"), opacity=0.35, thickness=1.5, size=16, aria=False).properties(data=source("chosen")),
        base.mark_rule(color=_signal("neutral"), strokeWidth=5, opacity=0.6, strokeCap="round").encode(alt.X("lower:Q").scale(scale), alt.X2("upper:Q"), y),
        base.mark_circle(color=_signal("ink"), size=80, opacity=1).encode(x, y, tooltip=tooltip),
        ticks.mark_point(size=150, color=_signal("ink"), strokeWidth=2).properties(data=source("focus")),
        height=max(CHART_HEIGHT, ROW_HEIGHT * len(lines)),
        description="Mean disagreement of every group, with its interval.",
    )  # fmt: skip


def _person_tooltip() -> list[alt.Tooltip]:
    """Return what is shown about a person under the pointer."""
    numbers = {"disagreement": "Disagreement", "membership": "Membership advantage", "epsilon_lower": "ε at least"}
    texts = {"id": "Person", "label": "Label", "predicted": "Decided"}
    named = [alt.Tooltip(f"{name}:N", title=title) for name, title in texts.items()]
    return named + [alt.Tooltip(f"{name}:Q", title=title, format=".3f") for name, title in numbers.items()]


def _brush_mark() -> alt.BrushConfig:
    """Return the look of the rectangle that chooses people."""
    return alt.BrushConfig(fill="#0b6e99", fillOpacity=0.1, stroke="#0b6e99", strokeOpacity=0.7)


def _signal(colour: str) -> Any:
    """Return a colour that follows the parameter of that name."""
    return alt.ExprRef(colour)


def _styled(chart: alt.LayerChart) -> alt.LayerChart:
    """Return the chart with its parameters and the page's look."""
    start: dict[str, Any] = {**COLOURS, "level": 0, "someone": False, "labels": [], "names": []}
    chart = chart.add_params(*(alt.param(name=name, value=value) for name, value in start.items()))
    chart.width = "container"
    chart.background = "transparent"
    text = {"labelColor": _signal("muted"), "labelFontSize": 12}
    lines = {"gridColor": _signal("line"), "domainColor": _signal("line"), "domain": False, "ticks": False}
    title = {"titleColor": _signal("muted"), "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 10}
    return chart.configure(
        font=FONT,
        axis=alt.AxisConfig(**text, **lines, **title, labelPadding=6, labelFlush=False, tickCount=5),
        axisX=alt.AxisConfig(grid=False, domain=True),
        legend=alt.LegendConfig(**text),
        view=alt.ViewConfig(stroke=None),
    )
