"""AD's figures as Altair charts, drawn from the outcomes of cells; nothing is computed here but what is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import numpy as np

import seedscope as ss
from seedscope.reproduce.multiplicity.images import ImageOutcome
from seedscope.reproduce.multiplicity.models import PLANE, PlaneOutcome, TableOutcome, plane_points

Row = dict[str, Any]
SHADE = alt.Scale(scheme="greys", domain=[0, 1])
EPSILON = alt.X("epsilon:Q", title="ε (lower: more private)", scale=alt.Scale(zero=False))
OPAQUE = alt.Legend(symbolOpacity=1, labelLimit=300)  # a band's legend would be as pale as the band
SMALL, WIDE = 200, 260
CROSS, PLUS = "M-1,-1L1,1M-1,1L1,-1", "M-1,0L1,0M0,-1L0,1"


def plane_chart(outcomes: Sequence[PlaneOutcome], measure: str, data: Any, boundary: np.ndarray) -> alt.ConcatChart:
    """Return the plane shaded by "disagreement" or "viable_range", one panel for each ε (AD Figures 1 and 6).

    Args:
        outcomes: one for each panel.
        measure: the attribute of an outcome that is drawn, [point].
        data: the training data; a few of its rows are marked.
        boundary: weights and bias of the model without noise, whose decision boundary is the dashed line.
    """
    title = measure.replace("_", " ").replace("viable", "viable prediction")
    return side_by_side(
        [
            shaded_plane(getattr(outcome, measure), f"ε = {outcome.cell.epsilon:g}", title, data, boundary)
            for outcome in outcomes
        ]
    )


def shaded_plane(values: np.ndarray, heading: str, title: str, data: Any, boundary: np.ndarray) -> alt.LayerChart:
    """Return one panel: the shaded plane, some training rows and the boundary without noise."""
    step = float(PLANE[1] - PLANE[0])
    cells = [
        {"x": x - step / 2, "x2": x + step, "y": y - step / 2, "y2": y + step, "value": value}  # overlap: no seams
        for (x, y), value in zip(plane_points().tolist(), np.clip(values, 0, 1).round(3).tolist(), strict=True)
    ]
    extent = alt.Scale(domain=[float(PLANE[0]), float(PLANE[-1])], nice=False)
    shade = (
        alt.Chart(alt.InlineData(values=cells), title=heading, width=SMALL, height=SMALL)
        .mark_rect(clip=True)
        .encode(
            x=alt.X("x:Q", scale=extent, title=None, axis=alt.Axis(grid=False)),
            x2="x2:Q",
            y=alt.Y("y:Q", scale=extent, title=None, axis=alt.Axis(grid=False)),
            y2="y2:Q",
            color=alt.Color("value:Q", scale=SHADE, title=title),
        )
    )
    plane: alt.LayerChart = shade + _training_rows(data, extent) + _boundary(boundary)
    return plane


def closed_form_chart() -> alt.ConcatChart:
    """Return the disagreement of output perturbation by noise or ε, and confidence of the model (AD Figure 2)."""
    confidence, noise = np.linspace(0.5, 0.995, 67), np.linspace(0.05, 5, 67)
    epsilon = np.geomspace(0.5, 20, 67)
    from_epsilon = ss.accounting.classical_gaussian_noise_scale(0.2, epsilon, 1e-5)
    panels = (
        _confidence_panel(noise, noise, confidence, "noise scale σ", "linear"),
        _confidence_panel(epsilon, from_epsilon, confidence, "ε at δ = 1e-5, sensitivity 0.2", "log"),
    )
    return side_by_side(panels)


def performance_chart(outcomes: Sequence[TableOutcome]) -> alt.ConcatChart:
    """Return AUC and mean disagreement against ε, with 95 % intervals of the means (AD Figure 3)."""
    areas = [_mean_row(outcome.cell.data, outcome.cell.epsilon, outcome.areas) for outcome in outcomes]
    return side_by_side(
        [_bands(areas, "mean AUC", [0.5, 0.9]), _bands(_disagreements(outcomes), "mean disagreement", [0, 1])]
    )


def image_chart(outcomes: Sequence[ImageOutcome]) -> alt.ConcatChart:
    """Return accuracy and mean disagreement of DP-SGD on images against ε (AD Figure 3)."""
    accuracies = [_mean_row(outcome.data, outcome.epsilon, outcome.accuracy) for outcome in outcomes]
    disagreements = [
        _mean_row(outcome.data, outcome.epsilon, outcome.disagreement.mean(axis=1)) for outcome in outcomes
    ]
    return side_by_side(
        [_bands(accuracies, "mean accuracy", [0, 1]), _bands(disagreements, "mean disagreement by class", [0, 0.3])]
    )


def range_chart(outcomes: Sequence[TableOutcome]) -> alt.ConcatChart:
    """Return mean disagreement and mean viable prediction range against ε (AD Figure 7)."""
    ranges = [_mean_row(outcome.cell.data, outcome.cell.epsilon, outcome.viable_range) for outcome in outcomes]
    panels = (_disagreements(outcomes), "mean disagreement"), (ranges, "mean viable prediction range")
    return side_by_side([_bands(rows, title, [0, 1]) for rows, title in panels])


def conditioned_chart(outcomes: Sequence[PlaneOutcome], shortfalls: np.ndarray) -> alt.Chart:
    """Return the top 5 % disagreement among models of at least an accuracy, for each ε (AD Figure 4)."""
    rows = [
        {"epsilon": f"{outcome.cell.epsilon:g}", "accuracy": -float(gap), "top": float(top)}
        for outcome in outcomes
        for gap, top in zip(shortfalls, outcome.conditioned.disagreement, strict=True)
        if np.isfinite(top)
    ]
    lines: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows), width=WIDE, height=SMALL)
        .mark_line()
        .encode(
            x=alt.X("accuracy:Q", title="accuracy at least: against the model without noise"),
            y=alt.Y("top:Q", title="disagreement of the top 5 %", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("epsilon:N", title="ε", scale=alt.Scale(scheme="viridis")),
        )
    )
    return lines


def distribution_chart(outcomes: Sequence[TableOutcome]) -> alt.ConcatChart:
    """Return the cumulative distribution of test examples' disagreement, one panel a data set (AD Figure 5a)."""
    names = dict.fromkeys(outcome.cell.data for outcome in outcomes)
    return side_by_side(
        [_distribution([outcome for outcome in outcomes if outcome.cell.data == name], name) for name in names]
    )


def group_chart(rows: Sequence[Row], attribute: str) -> alt.LayerChart:
    """Return groups' mean disagreement against ε; rows have epsilon, group, mean, lower and upper (AD Figure 5b)."""
    return _bands(rows, "mean disagreement", [0, 1], "group", attribute)


def error_chart(rows: Sequence[Row]) -> alt.LayerChart:
    """Return errors of an estimated disagreement against the number of models (AD Figure 8).

    Rows have models, error and curve, and lower and upper where errors were averaged.
    """
    base = alt.Chart(alt.InlineData(values=list(rows)), width=WIDE, height=SMALL)
    x = alt.X("models:Q", title="models", scale=alt.Scale(type="log", nice=False))
    color = alt.Color("curve:N", title=None, legend=OPAQUE)
    y = alt.Y("error:Q", title="error of a disagreement", scale=alt.Scale(type="log", nice=False))
    averaged = base.transform_filter("isValid(datum.lower)")
    band = averaged.mark_area(opacity=0.2).encode(x=x, y="lower:Q", y2="upper:Q", color=color)
    drawn: alt.LayerChart = band + base.mark_line(point=True).encode(x=x, y=y, color=color)
    return drawn


def side_by_side(charts: Iterable[Any]) -> alt.ConcatChart:
    """Return the charts in rows of four, white behind them."""
    return alt.concat(*charts, columns=4, background="white")


def _training_rows(data: Any, extent: alt.Scale) -> alt.Chart:
    """Return marks at sixty training rows, a cross or a plus by class."""
    rows = [
        {"x": float(x), "y": float(y), "class": str(label)}
        for (x, y), label in zip(data.features[:60], data.labels[:60], strict=True)
    ]
    shape = alt.Shape("class:N", scale=alt.Scale(domain=["0", "1"], range=[CROSS, PLUS]), title="class")
    marks = alt.Chart(alt.InlineData(values=rows)).mark_point(size=25, strokeWidth=1.2, color="#d95f02", clip=True)
    drawn: alt.Chart = marks.encode(x=alt.X("x:Q", scale=extent), y=alt.Y("y:Q", scale=extent), shape=shape)
    return drawn


def _boundary(weights: np.ndarray) -> alt.Chart:
    """Return the line on which a linear model of the plane is undecided."""
    across, up, bias = (float(weight) for weight in weights)
    ends = [{"x": x, "y": -(across * x + bias) / up} for x in (float(PLANE[0]), float(PLANE[-1]))]
    line = alt.Chart(alt.InlineData(values=ends)).mark_line(strokeDash=[5, 3], color="#1b6ca8", clip=True)
    drawn: alt.Chart = line.encode(x="x:Q", y="y:Q")
    return drawn


def _confidence_panel(
    shown: np.ndarray, noise: np.ndarray, confidence: np.ndarray, title: str, scale: str
) -> alt.Chart:
    """Return the closed form over noise × confidence of a unit-norm example; `shown` is what the axis says."""
    values = ss.multiplicity.output_perturbation_disagreement(
        np.log(confidence / (1 - confidence))[:, None], 1.0, noise
    )
    edges = np.stack(_edges(np.log(shown) if scale == "log" else shown), axis=-1)
    columns = (np.exp(edges) if scale == "log" else edges).tolist()
    rungs = np.stack(_edges(confidence), axis=-1).tolist()
    rows = [
        {"x": left, "x2": right, "y": below, "y2": above, "value": value}
        for (below, above), line in zip(rungs, values.round(3).tolist(), strict=True)
        for (left, right), value in zip(columns, line, strict=True)
    ]
    kind = alt.Scale(type=scale, domain=[float(shown[0]), float(shown[-1])], nice=False)  # type: ignore[arg-type]
    panel: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows), width=WIDE, height=SMALL)
        .mark_rect(clip=True)
        .encode(
            x=alt.X("x:Q", scale=kind, title=title),
            x2="x2:Q",
            y=alt.Y("y:Q", title="confidence without noise", scale=alt.Scale(domain=[0.5, 1])),
            y2="y2:Q",
            color=alt.Color("value:Q", scale=SHADE, title="disagreement"),
        )
    )
    return panel


def _edges(centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper edges of evenly spaced cells, the upper ones overlapping so that no seams show."""
    step = centres[1] - centres[0]
    return centres - step / 2, centres + step


def _mean_row(data: str, epsilon: float, values: np.ndarray) -> Row:
    """Return a mean with its 95 % interval, for a band."""
    lower, upper = ss.statistics.mean_interval(values, 0.95)
    place = {"data": data, "epsilon": epsilon}
    return place | {"mean": float(values.mean()), "lower": float(lower), "upper": float(upper)}


def _disagreements(outcomes: Sequence[TableOutcome]) -> list[Row]:
    """Return the mean disagreement over test examples of each cell."""
    return [_mean_row(outcome.cell.data, outcome.cell.epsilon, outcome.disagreement) for outcome in outcomes]


def _bands(
    rows: Sequence[Row], title: str, domain: list[float], by: str = "data", legend: str | None = None
) -> alt.LayerChart:
    """Return means against ε as lines with bands, one colour for each data set or group."""
    base = alt.Chart(alt.InlineData(values=list(rows)), width=WIDE, height=SMALL)
    color = alt.Color(f"{by}:N", title=legend, legend=OPAQUE)
    scale = alt.Scale(domain=domain)
    lower = alt.Y("lower:Q", title=title, scale=scale)
    band = base.mark_area(opacity=0.2, clip=True).encode(x=EPSILON, y=lower, y2="upper:Q", color=color)
    line = base.mark_line(point=True, clip=True).encode(x=EPSILON, y=alt.Y("mean:Q", scale=scale), color=color)
    drawn: alt.LayerChart = band + line
    return drawn


def _distribution(outcomes: Sequence[TableOutcome], name: str) -> alt.Chart:
    """Return, for each ε, the share of examples at or below each disagreement."""
    rows = [
        {
            "epsilon": f"{outcome.cell.epsilon:g}",
            "value": float(value),
            "share": (place + 1) / len(outcome.disagreement),
        }
        for outcome in outcomes
        for place, value in enumerate(np.sort(outcome.disagreement))
    ]
    drawn: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows), title=name, width=SMALL, height=SMALL)
        .mark_line(interpolate="step-after", clip=True)
        .encode(
            x=alt.X("value:Q", title="disagreement", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("share:Q", title="share of examples"),
            color=alt.Color("epsilon:N", title="ε", scale=alt.Scale(scheme="viridis")),
        )
    )
    return drawn
