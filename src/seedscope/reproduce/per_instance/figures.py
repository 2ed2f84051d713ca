"""GLA's figures as Altair charts, drawn from outcomes; nothing is computed here but what is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from seedscope.reproduce.per_instance.cells import CellOutcome, Directions, student_half_width
from seedscope.reproduce.per_instance.settings import HEADLINE_ORDERS, ORDER, ORDERS, STAGES, Cell, Sweep

Row = dict[str, Any]
WIDTH, HEIGHT = 260, 180
FLOOR = 1e-8  # fractions below are drawn there
POINTS = 10  # drawn one by one in Figure 5
STAGE_COLOURS = ["#9aa5b1", "#4c72b0", "#1b2a49"]
BASELINE = "#8b3fa0"
RAMP = alt.Scale(scheme="viridis")
FRACTION = "fraction of the data-independent step"
CONTRIBUTION = "contribution / data-independent step"
DECADES = alt.Axis(values=[10.0**k for k in range(-8, 4)], format="~e", labelOverlap=True)


def charts(sweep: Sweep, outcomes: Mapping[Cell, CellOutcome], directions: Directions | None) -> dict[str, Any]:
    """Return the charts of one data set by file name."""
    main = outcomes[sweep.main]
    same = [outcome for outcome in outcomes.values() if outcome.cell.model == main.cell.model]
    by_epsilon = sorted((outcome for outcome in same if outcome.cell.batch_size == main.cell.batch_size), key=_epsilon)
    by_batch = sorted((outcome for outcome in same if outcome.cell.epsilon == main.cell.epsilon), key=_batch_size)
    by_model = [
        outcome
        for outcome in outcomes.values()
        if (_epsilon(outcome), _batch_size(outcome)) == (_epsilon(main), _batch_size(main))
    ]
    drawn = {
        "figure-1-contributions": contribution_chart(by_epsilon, directions),
        "figure-2-long-tail": tail_chart(main, by_batch),
        "figure-3-correctness": correctness_chart(by_model),
        "figure-4-mean-rule": mean_rule_chart(main, by_batch),
        "figure-5-confidence": confidence_chart(main),
        "figures-6-13-epsilon-delta": corollary_chart(by_batch),
        "figures-16-21-orders": order_chart(main, by_epsilon),
        "whole-run": whole_run_chart(main),
    }
    return {f"{sweep.data}-{name}": chart.properties(background="white") for name, chart in drawn.items()}


def whole_run_chart(main: CellOutcome) -> alt.LayerChart:
    """Return the distribution of people's divergence of the whole run over the data-independent one, by order."""
    privacy = main.privacy
    columns = {f"α = {order:g}": list(privacy.orders).index(order) for order in HEADLINE_ORDERS}
    values = {name: privacy.rdp[:, column] / privacy.baseline[column] for name, column in columns.items()}
    return _distribution(values, f"the whole run, {privacy.runs} runs")


def contribution_chart(outcomes: Sequence[CellOutcome], directions: Directions | None) -> alt.ConcatChart:
    """Return contributions by epoch for each ε, mean and 10th percentile, and both directions (Figure 1)."""
    ways: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "mean over points": lambda values: values.mean(0),
        "10th percentile": lambda values: np.quantile(values, 0.1, axis=0),
    }
    panels = []
    for title, reduce in ways.items():
        rows = [
            {"epoch": float(epoch), "value": max(float(value), FLOOR), "by": f"ε = {outcome.cell.epsilon:g}"}
            for outcome in outcomes
            for epoch, value in zip(outcome.epochs, reduce(outcome.contributions), strict=False)
        ]
        panels.append(_lines(rows, title, CONTRIBUTION, log=title != "mean over points"))
    if directions is not None:
        rows = [
            {"epoch": float(epoch), "value": float(value), "by": name}
            for name, values in (("trained with", directions.trained_with), ("without", directions.trained_without))
            for epoch, value in zip(directions.epochs, values.mean(0), strict=True)
        ]
        panels.append(_lines(rows, f"both directions, {len(directions.trained_with)} people", CONTRIBUTION))
    panel: alt.ConcatChart = alt.concat(*panels, columns=3).resolve_scale(color="independent", y="independent")
    return panel


def tail_chart(main: CellOutcome, outcomes: Sequence[CellOutcome]) -> alt.ConcatChart:
    """Return the distribution of steps over points, by stage and by batch size (Figures 2, 14, 15)."""
    by_stage = {stage: main.shares(stage).ravel() for stage in STAGES}
    by_batch = {f"batch {outcome.cell.batch_size}": outcome.shares("final").ravel() for outcome in outcomes}
    panels = [
        _distribution(by_stage, "by stage", STAGE_COLOURS),
        _distribution(by_batch, "by batch size, at the end"),
    ]
    panel: alt.ConcatChart = alt.concat(*panels).resolve_scale(color="independent")
    return panel


def correctness_chart(outcomes: Sequence[CellOutcome]) -> alt.ConcatChart:
    """Return steps of correct and incorrect points at each stage, a panel for each network (Figures 3, 22)."""
    return alt.concat(*(_correctness_panel(outcome) for outcome in outcomes), columns=3)


def mean_rule_chart(main: CellOutcome, outcomes: Sequence[CellOutcome]) -> alt.ConcatChart:
    """Return Theorem 3.6 for the mean rule: both directions by stage, and by batch size (Figures 4, 25, 34)."""
    shares = {stage: main.batches[stage].step_rdp("mean", ORDER) / main.baseline() for stage in STAGES}
    panels = [
        _distribution({stage: shares[stage][side] for stage in STAGES}, title, STAGE_COLOURS)
        for side, title in enumerate(("trained with against without", "without against with"))
    ]
    by_batch = {
        f"batch {outcome.cell.batch_size}": outcome.batches["final"].step_rdp("mean", ORDER).max(0) / outcome.baseline()
        for outcome in outcomes
    }
    panels.append(_distribution(by_batch, "by batch size, at the end"))
    panel: alt.ConcatChart = alt.concat(*panels).resolve_scale(color="independent")
    return panel


def confidence_chart(main: CellOutcome) -> alt.LayerChart:
    """Return the contributions of some points with 95 % intervals over runs (Figure 5)."""
    by_run = main.contributions_by_run()[:, :POINTS]
    mean = by_run.mean(0)
    half = np.nan_to_num(student_half_width(by_run))
    rows = [
        {
            "epoch": float(main.epochs[epoch]), "point": str(point), "value": float(mean[point, epoch]),
            "low": float(max(0.0, mean[point, epoch] - half[point, epoch])),
            "high": float(mean[point, epoch] + half[point, epoch]),
        }
        for point, epoch in np.ndindex(*mean.shape)
    ]  # fmt: skip
    base = alt.Chart(alt.InlineData(values=rows), width=2 * WIDTH, height=HEIGHT)
    x, colour = alt.X("epoch:Q"), alt.Color("point:N", legend=None)
    band = base.mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q", title=CONTRIBUTION), y2="high:Q", color=colour)
    panel: alt.LayerChart = band + base.mark_line().encode(x=x, y="value:Q", color=colour) + _baseline()
    return panel


def corollary_chart(outcomes: Sequence[CellOutcome]) -> alt.ConcatChart:
    """Return Corollary 3.1 by batch size for both rules at each stage (Figures 6–13)."""
    panels = []
    for rule in ("mean", "sum"):
        rows = [
            {"batch": outcome.cell.batch_size, "by": stage, "value": float(np.median(batches.step_epsilon(rule)))}
            for outcome in outcomes
            for stage, batches in outcome.batches.items()
        ]
        rows += [
            {
                "batch": outcome.cell.batch_size,
                "by": "data-independent",
                "value": outcome.batches["final"].step_epsilon_worst(),
            }
            for outcome in outcomes
        ]
        colour = alt.Color(
            "by:N", title=None, scale=alt.Scale(domain=[*STAGES, "data-independent"], range=[*STAGE_COLOURS, BASELINE])
        )
        panels.append(
            alt.Chart(alt.InlineData(values=rows), title=f"{rule} rule", width=WIDTH, height=HEIGHT)
            .mark_line(point=True)
            .encode(
                x=alt.X("batch:Q", title="expected batch size", scale=alt.Scale(type="log", base=2)),
                y=alt.Y("value:Q", title="median ε of a step", scale=alt.Scale(type="log"), axis=DECADES),
                color=colour,
            )
        )
    return alt.concat(*panels)


def order_chart(main: CellOutcome, outcomes: Sequence[CellOutcome]) -> alt.ConcatChart:
    """Return mean steps over the baseline by order (Figures 16–19) and by the ε of training (20, 21)."""
    by_order = [
        {"at": order, "by": stage, "value": float(main.shares(stage, order).mean())}
        for order in ORDERS
        for stage in STAGES
    ]
    by_epsilon = [
        {"at": outcome.cell.epsilon, "by": stage, "value": float(outcome.shares(stage).mean())}
        for outcome in outcomes
        for stage in STAGES
    ]
    panels = [_by_stage(by_order, "Rényi order α"), _by_stage(by_epsilon, "ε of training")]
    return alt.concat(*panels)


def _lines(rows: Sequence[Row], title: str, y_title: str, log: bool = False) -> alt.LayerChart:
    """Return curves over epochs with the baseline."""
    scale, axis = (alt.Scale(type="log"), DECADES) if log else (alt.Scale(zero=True), alt.Axis())
    order = list(dict.fromkeys(row["by"] for row in rows))
    curves = (
        alt.Chart(alt.InlineData(values=rows), title=title, width=WIDTH, height=HEIGHT)
        .mark_line(point=alt.OverlayMarkDef(size=15))
        .encode(
            x=alt.X("epoch:Q"),
            y=alt.Y("value:Q", title=y_title, scale=scale, axis=axis),
            color=alt.Color("by:N", title=None, sort=order, scale=RAMP),
        )
    )
    panel: alt.LayerChart = curves + _baseline()
    return panel


def _distribution(
    values: Mapping[str, Iterable[float]], title: str, colours: list[str] | None = None
) -> alt.LayerChart:
    """Return cumulative distributions on a log scale, with the baseline."""
    rows = []
    for name, numbers in values.items():
        ordered = np.sort(np.maximum(np.asarray(numbers, float), FLOOR))
        kept = np.unique(np.linspace(0, len(ordered) - 1, 120).round().astype(int))
        rows += [{"value": float(ordered[k]), "share": (k + 1) / len(ordered), "by": name} for k in kept]
    names = list(values)
    scale = alt.Scale(domain=names, range=colours) if colours else RAMP
    curves = (
        alt.Chart(alt.InlineData(values=rows), title=title, width=WIDTH, height=HEIGHT)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("value:Q", title=FRACTION, scale=alt.Scale(type="log"), axis=DECADES),
            y=alt.Y("share:Q", title="share of points at or below", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("by:N", title=None, sort=names, scale=scale),
        )
    )
    line = alt.Chart(alt.InlineData(values=[{"value": 1.0}])).mark_rule(color=BASELINE, strokeDash=[4, 3])
    panel: alt.LayerChart = curves + line.encode(x="value:Q")
    return panel


def _correctness_panel(outcome: CellOutcome) -> alt.LayerChart:
    """Return medians with the range of the middle 80 %, by stage and correctness."""
    rows = []
    for stage in STAGES:
        shares, right = outcome.shares(stage), outcome.right(stage)
        for name, chosen in (("correct", right), ("incorrect", ~right)):
            if chosen.any():
                low, middle, high = np.maximum(np.quantile(shares[chosen], [0.1, 0.5, 0.9]), FLOOR)
                rows.append({"stage": stage, "points": name, "low": low, "value": middle, "high": high})
    title = f"{outcome.cell.model}, accuracy {outcome.accuracy:.2f}"
    base = alt.Chart(alt.InlineData(values=rows), title=title, width=WIDTH * 0.8, height=HEIGHT)
    x, offset = alt.X("stage:N", sort=list(STAGES), title=None, axis=alt.Axis(labelAngle=0)), alt.XOffset("points:N")
    colour = alt.Color(
        "points:N", title=None, scale=alt.Scale(domain=["correct", "incorrect"], range=["#2a7f62", "#c44e52"])
    )
    y = alt.Y("low:Q", title=FRACTION, scale=alt.Scale(type="log"), axis=DECADES)
    ranges = base.mark_rule(strokeWidth=2).encode(x=x, xOffset=offset, y=y, y2="high:Q", color=colour)
    medians = base.mark_circle(size=70, opacity=1).encode(x=x, xOffset=offset, y="value:Q", color=colour)
    panel: alt.LayerChart = ranges + medians + _baseline()
    return panel


def _by_stage(rows: Sequence[Row], title: str) -> alt.LayerChart:
    """Return curves by stage over a logarithmic axis."""
    curves = (
        alt.Chart(alt.InlineData(values=rows), width=WIDTH, height=HEIGHT)
        .mark_line(point=True)
        .encode(
            x=alt.X("at:Q", title=title, scale=alt.Scale(type="log")),
            y=alt.Y("value:Q", title="mean, " + FRACTION),
            color=alt.Color(
                "by:N", title=None, sort=list(STAGES), scale=alt.Scale(domain=list(STAGES), range=STAGE_COLOURS)
            ),
        )
    )
    panel: alt.LayerChart = curves + _baseline()
    return panel


def _baseline() -> alt.Chart:
    """Return the line of the data-independent guarantee."""
    line = alt.Chart(alt.InlineData(values=[{"one": 1.0}])).mark_rule(color=BASELINE, strokeDash=[4, 3])
    panel: alt.Chart = line.encode(y=alt.Y("one:Q"))
    return panel


def _epsilon(outcome: CellOutcome) -> float:
    """Return the ε that a cell's noise is calibrated to."""
    return outcome.cell.epsilon


def _batch_size(outcome: CellOutcome) -> int:
    """Return a cell's expected batch size."""
    return outcome.cell.batch_size
