"""The seven drawings of a report: marks and encodings on rows with fixed names (`rows`), colours by parameter.

Each takes the report, for the ends of its axes, and `source`, which gives a named data set. On the page the data sets
`chosen` and `focus` hold the people that the reader has chosen and opened; in a notebook they are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import altair as alt

from seedscope.report import rows

Report = Mapping[str, Any]
Source = Callable[[str], Any]

HEIGHT, ROW_HEIGHT = 300, 26
BIN = 0.05
DASH = (
    "M-1.2,-.35H1.2V.35H-1.2Z"  # with an area: the library's own stroke is a line, of which filled points show nothing
)
DECADES = (1e-4, 1e-3, 1e-2, 1e-1, 1)
DISAGREEMENT = "Disagreement (0 settled, 1 a coin toss)"


def people(report: Report, source: Source) -> Any:
    """Return disagreement against exposure, one point per person; drag to choose people."""
    x = alt.X("disagreement:Q").title(DISAGREEMENT).scale(_disagreement_scale(report))
    y = alt.Y("exposure:Q").title("Exposure (0 none, 1 certain)").scale(domain=_exposure_ends(report), nice=True)
    shapes = alt.Scale(domain=["train", "test"], range=["circle", DASH])
    shape = alt.Shape("part:N").scale(shapes).legend(None)
    known = "isValid(datum.exposure) && isValid(datum.disagreement)"
    base = alt.Chart().transform_filter(known).encode(x, y, shape)
    everyone = base.mark_point(filled=True, size=34, color=_colour("neutral"), opacity=_faded(0.28, 0.6), aria=False)
    chosen = base.mark_point(filled=True, size=46, color=_colour("accent"), opacity=0.9, aria=False)
    return _layers(
        "Each point is a person: disagreement against exposure.",
        everyone.encode(tooltip=_person()).properties(data=source("people")).add_params(_brush(["x", "y"])),
        chosen.encode(tooltip=_person()).properties(data=source("chosen")),
        _ring(alt.Chart().transform_filter(known).encode(x, y)).properties(data=source("focus")),
    )


def distribution(report: Report, source: Source) -> Any:
    """Return how many people have which disagreement; drag to choose people."""
    scale = alt.Scale(domain=[0, 1], nice=False)
    bins = alt.Bin(extent=[0, 1], step=BIN)  # estimates that exceed 1 a little go into the last bar
    x = alt.X("disagreement:Q", bin=bins).title(DISAGREEMENT).scale(scale)
    x = x.axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f")
    y = alt.Y("count()").title("People (square-root scale)").scale(type="sqrt").axis(format=",d")
    told = [alt.Tooltip("disagreement:Q", bin=bins, title="Disagreement"), alt.Tooltip("count()", title="People")]
    bars = alt.Chart().transform_filter("isValid(datum.disagreement)").encode(x, y, tooltip=told)
    look: dict[str, Any] = {"binSpacing": 1.5, "cornerRadiusEnd": 2}
    focus = alt.Chart(source("focus")).mark_rule(color=_colour("ink"), strokeWidth=2).encode(alt.X("disagreement:Q"))
    everyone = bars.mark_bar(color=_colour("neutral"), opacity=_faded(0.35, 0.75), **look)
    return _layers(
        "How many people have which disagreement.",
        everyone.properties(data=source("people")).add_params(_brush(["x"])),
        bars.mark_bar(color=_colour("accent"), **look).properties(data=source("chosen")),
        focus.transform_calculate(disagreement="min(datum.disagreement, 1)"),
    )


def trade_off(report: Report, source: Source) -> Any:
    """Return accuracy, disagreement and attack advantage at each privacy level, with the chosen people's lines."""
    last = len(report["levels"]) - 1
    axis = alt.Axis(values=list(range(last + 1)), labelExpr="labels[datum.value]", grid=False, labelLimit=90)
    x = alt.X("level:Q").title("Privacy level").axis(axis).scale(domain=[-0.35, last + 0.35], nice=False)
    y = alt.Y("value:Q").title(None).scale(domain=[0, 1], clamp=True)
    names, legend = list(rows.TRADE_OFF.values()), alt.Legend(orient="top", title=None, symbolSize=70, columns=3)
    colours = alt.Scale(domain=names, range=[_colour(colour) for colour in ("third", "accent", "second")])
    shapes = alt.Scale(domain=names, range=["square", "circle", "triangle-up"])
    shape = alt.Shape("quantity:N").scale(shapes).legend(legend)
    base = alt.Chart(source("levels")).encode(x, y, alt.Color("quantity:N").scale(colours).legend(legend))
    told = _texts(quantity="Quantity", label="Privacy level") + _numbers(value="Value", lower="Lower", upper="Upper")
    person = alt.Chart().encode(x, y, alt.Detail("person:N"))
    chosen = alt.Chart(source("levels")).transform_filter("datum.level === level").encode(alt.X("level:Q"))
    points = base.mark_point(filled=True, size=70, opacity=1, stroke=_colour("paper"), strokeWidth=1)
    return _layers(
        "Accuracy, mean disagreement and attack advantage at each privacy level.",
        chosen.mark_rule(color=_colour("line"), strokeWidth=22),
        person.mark_line(color=_colour("accent"), opacity=0.18, strokeWidth=1).properties(data=source("chosen")),
        base.mark_line(strokeWidth=2),
        base.mark_rule(strokeWidth=1.5).encode(alt.Y("lower:Q"), alt.Y2("upper:Q")),
        points.encode(shape, tooltip=told),
        person.mark_line(color=_colour("ink"), strokeDash=[3, 3], strokeWidth=2).properties(data=source("focus")),
    )


def attack(report: Report, source: Source) -> Any:
    """Return the membership attack's curve with low false-positive rates spread out, under the proved limit."""
    least = max(min(row["false_positive"] for row in rows.roc_rows(report)), DECADES[0])
    least = min(least, DECADES[-2])
    scale = alt.Scale(type="log", domain=[least, 1], nice=False, clamp=True)
    ticks: dict[str, Any] = {"values": [rate for rate in DECADES if rate >= least * (1 - 1e-9)], "format": "~g"}
    x = alt.X("false_positive:Q").title("False-positive rate (logarithmic)").scale(scale).axis(grid=False, **ticks)
    y = alt.Y("true_positive:Q").title("True-positive rate (logarithmic)").scale(scale).axis(**ticks)
    base = alt.Chart(source("roc")).transform_filter("datum.true_positive > 0").encode(x, y, alt.Detail("level:N"))
    now = base.transform_filter("datum.level === level")
    limit = now.transform_filter("isValid(datum.limit)").encode(alt.Y("limit:Q"))
    guess = alt.Chart(alt.sequence(0, 2, as_="end")).transform_calculate(rate=f"datum.end ? 1 : {least}")
    told = _numbers(false_positive="False-positive rate", true_positive="True-positive rate", limit="Proved limit")
    dotted = guess.mark_line(color=_colour("muted"), strokeDash=[2, 4], strokeWidth=1.2)
    return _layers(
        "True-positive against false-positive rate of the membership attack.",
        base.mark_line(color=_colour("neutral"), opacity=0.35, strokeWidth=1.2),
        dotted.encode(alt.X("rate:Q"), alt.Y("rate:Q")),
        limit.mark_line(color=_colour("ink"), strokeDash=[6, 3], strokeWidth=1.4, clip=True),
        now.mark_line(color=_colour("accent"), strokeWidth=2.4),
        now.mark_circle(color=_colour("accent"), size=60, opacity=0.001).encode(tooltip=told),
    )


def exposure(report: Report, source: Source) -> Any:
    """Return everybody's exposure to the best possible attack from both sides, most exposed first."""
    x = alt.X("place:Q").title("People, most exposed first").scale(nice=False, zero=False, padding=8)
    x = x.axis(tickMinStep=1, format="d", grid=False)
    title = "Advantage of the best attack (0 none, 1 certain)"
    lower = alt.Y("advantage_lower:Q").title(title).scale(zero=True)
    legend = alt.Legend(orient="top", title=None, symbolType="stroke", labelLimit=260)
    dashes = alt.StrokeDash("limit:N").scale(domain=[rows.ALLOWED], range=[[6, 3]]).legend(legend)
    allowed = alt.Chart(source("allowed")).transform_filter("datum.level === level").mark_rule(strokeWidth=1.4)
    base, point = alt.Chart(source("sided")).encode(x), alt.Y("exposure:Q").title(title)
    return _layers(
        "For each person, the success of the best possible attack from below and from above.",
        allowed.encode(alt.Y("advantage:Q"), dashes, color=alt.value(_colour("ink"))),
        base.encode(lower, alt.Y2("advantage_upper:Q")).mark_rule(color=_colour("neutral"), opacity=0.5, aria=False),
        base.encode(point, tooltip=_person()).mark_circle(size=14, color=_colour("neutral"), opacity=1, aria=False),
        alt.Chart(source("chosen")).encode(x, point, tooltip=_person()).mark_circle(size=40, color=_colour("accent")),
        _ring(alt.Chart(source("focus")).encode(x, point)),
    )


def privacy(report: Report, source: Source) -> Any:
    """Return each audited person's ε between what an attack shows and what is estimated and proved."""
    x = alt.X("place:Q").title("Audited people, most exposed first").scale(nice=False, zero=False, padding=8)
    x = x.axis(tickMinStep=1, format="d", grid=False)
    lower, upper = (alt.Y(f"epsilon_{side}:Q").title("ε of a person") for side in ("lower", "upper"))
    dashes = alt.Scale(domain=list(rows.LIMITS), range=[[6, 3], [2, 4]])
    legend = alt.Legend(orient="top", title=None, symbolType="stroke", labelLimit=260, columns=1)
    limits = alt.Chart(source("limits")).transform_filter("datum.level === level").mark_rule(strokeWidth=1.4)
    dashed = limits.encode(alt.Y("epsilon:Q"), alt.StrokeDash("limit:N").scale(dashes).legend(legend))
    base = alt.Chart(source("bounded")).encode(x)
    low, high = "isValid(datum.epsilon_lower)", "isValid(datum.epsilon_upper)"
    span = base.transform_filter(f"{low} && {high}").encode(lower, alt.Y2("epsilon_upper:Q"))
    chosen = alt.Chart(source("chosen")).encode(x, lower)
    own = base.transform_filter("isValid(datum.epsilon_estimate)").encode(alt.Y("epsilon_estimate:Q"))
    return _layers(
        "For each audited person, the ε that an attack shows and the ε that is proved.",
        dashed.encode(color=alt.value(_colour("ink"))),
        span.mark_rule(color=_colour("neutral"), strokeWidth=1.5, opacity=0.5),
        base.transform_filter(high).encode(upper).mark_tick(thickness=1.6, size=6, color=_colour("neutral")),
        own.mark_point(shape="diamond", size=34, color=_colour("second"), filled=True, opacity=0.9, aria=False),
        base.transform_filter(low).encode(lower, tooltip=_person()).mark_circle(size=30, color=_colour("neutral")),
        chosen.encode(tooltip=_person()).mark_circle(size=46, color=_colour("accent"), opacity=1),
        _ring(alt.Chart(source("focus")).encode(x, lower)),
    )


def groups(report: Report, source: Source) -> Any:
    """Return the mean disagreement of every group with its interval, and the chosen people in their rows."""
    lines = list(range(len(rows.group_names(report))))
    axis = alt.Axis(labelExpr="names[datum.value]", labelLimit=130, grid=False, ticks=False, domain=False)
    y = alt.Y("row:O").title(None).axis(axis).scale(domain=lines)
    scale = _disagreement_scale(report)
    x = alt.X("value:Q").title("Mean disagreement, with interval").scale(scale).axis(grid=True)
    base = alt.Chart(source("groups")).transform_filter("datum.level === level").encode(y)
    told = [*_texts(group="Group", name="Level"), alt.Tooltip("people:Q", title="People", format=",d")]
    told += _numbers(value="Value", lower="Lower", upper="Upper")
    person = alt.Chart().encode(alt.X("disagreement:Q").scale(scale), y)
    ticks = person.mark_tick(color=_colour("accent"), opacity=0.35, thickness=1.5, size=16, aria=False)
    span = base.encode(alt.X("lower:Q").scale(scale), alt.X2("upper:Q"))
    return _layers(
        "Mean disagreement of every group, with its interval.",
        ticks.properties(data=source("chosen")),
        span.mark_rule(color=_colour("neutral"), strokeWidth=5, opacity=0.6, strokeCap="round"),
        base.mark_circle(color=_colour("ink"), size=80, opacity=1).encode(x, tooltip=told),
        _ring(person).properties(data=source("focus")),
        height=max(HEIGHT, ROW_HEIGHT * len(lines)),
    )


def _layers(description: str, *layers: Any, height: int = HEIGHT) -> Any:
    """Return the layers as one chart."""
    return alt.layer(*layers, height=height, description=description)


def _ends(report: Report, column: str, smallest: float, largest: float) -> tuple[float, float]:
    """Return the ends of an axis that holds these two and a column's numbers at all levels, so that it never moves."""
    known = [value for columns in report["people"]["levels"] for value in columns.get(column, ()) if value is not None]
    return min([smallest, *known]), max([largest, *known])


def _exposure_ends(report: Report) -> list[float]:
    """Return the ends of an axis that holds everybody's exposure at all levels; an attack's noise is below 0."""
    people = report["people"]
    drawn = [
        rows.exposure(people, columns, person) for columns in people["levels"] for person in range(people["shown"])
    ]
    known = [value for value in drawn if value is not None]
    return [min([0.0, *known]), max([0.1, *known])]


def _disagreement_scale(report: Report) -> alt.Scale:
    """Return the axis of disagreement; unbiased estimates may exceed 1 a little."""
    return alt.Scale(domain=list(_ends(report, "disagreement", 0.0, 1.0)), nice=False)


def _brush(sides: list[Any]) -> alt.Parameter:
    """Return the rectangle that chooses people."""
    look = alt.BrushConfig(fill="#0b6e99", fillOpacity=0.1, stroke="#0b6e99", strokeOpacity=0.7)
    return alt.selection_interval(name="brush", encodings=sides, mark=look)


def _ring(chart: Any) -> Any:
    """Return the mark around the person that is open."""
    return chart.mark_point(size=180, color=_colour("ink"), strokeWidth=2, filled=False, aria=False)


def _person() -> list[alt.Tooltip]:
    """Return what is told about a person under the pointer."""
    numbers = _numbers(
        disagreement="Disagreement",
        exposure="Exposure",
        advantage_lower="Exposure at least",
        advantage_upper="Exposure at most",
        membership="Membership advantage, our attack",
        epsilon_lower="ε at least",
        epsilon_estimate="Own ε",
        epsilon_upper="ε guaranteed",
    )
    return _texts(id="Person", part="Part", label="Label", predicted="Decided", models="By") + numbers


def _texts(**titles: str) -> list[alt.Tooltip]:
    """Return texts to tell under the pointer, by field."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in titles.items()]


def _numbers(**titles: str) -> list[alt.Tooltip]:
    """Return numbers to tell under the pointer, by field."""
    return [alt.Tooltip(f"{name}:Q", title=title, format=".3~g") for name, title in titles.items()]


def _colour(name: str) -> Any:
    """Return a colour that follows the parameter of that name."""
    return alt.ExprRef(name)


def _faded(while_some_are_chosen: float, otherwise: float) -> Any:
    """Return an opacity that lets everyone step back while some are chosen."""
    return alt.ExprRef(f"someone ? {while_some_are_chosen} : {otherwise}")
