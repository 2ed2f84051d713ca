"""IP2's Figures 2, 3 and 6 as Altair charts, drawn from the outcomes of grids; one panel a data set and model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import numpy as np

from seedscope.analyses.intrinsic import Distances, Growth
from seedscope.reproduce.intrinsic.grids import GridOutcome

Row = dict[str, Any]
WIDTH, HEIGHT, COLUMNS = 220, 150, 4
GOLD, BROWN, PURPLE, LILAC = "#c98a00", "#7a4a00", "#5b2a86", "#a678c9"
BINS = 30
DECADES = alt.Axis(values=[10.0**k for k in range(-8, 4)], format="~e", labelOverlap=True)
DATA, BOUND, SEED_FIXED, SEED_VARIED = "data: Δ_S", "bound on Δ_S", "seed: Δ_V fixed init", "seed: Δ_V varied init"
BOTH_FIXED, BOTH_VARIED = "both: Δ_S+V fixed init", "both: Δ_S+V varied init"
COUNTS = alt.Axis(values=[10**k for k in range(8)], format="~s")
LEGEND = alt.Legend(orient="top", labelLimit=300, symbolType="stroke", symbolOpacity=1)
STRICT = "data: Δ_S from the base"
FLAT, SMALLEST = "all weights (IP1)", "steadiest weight (IP2)"


def along_training_chart(outcomes: Sequence[GridOutcome]) -> alt.ConcatChart:
    """Return distances between weights against training steps (IP2 Figure 2).

    The largest Δ_S and its bound; the mean Δ_V with its range and one standard deviation either side.
    """
    return panels(outcomes, along_training_panel)


def along_training_panel(outcome: GridOutcome) -> alt.LayerChart:
    """Return Figure 2 for one grid."""
    every = [(step, distances) for (init, step), distances in outcome.distances.items() if init == "varied"]
    lines = [{"step": step, "curve": DATA, "value": distances.data_all_pairs.maximum} for step, distances in every]
    lines += [{"step": step, "curve": SEED_VARIED, "value": distances.seed.mean} for step, distances in every]
    bands = [
        band
        for step, distances in every
        for band in (
            {"step": step, "range": "all pairs", "low": distances.seed.minimum, "high": distances.seed.maximum},
            {
                "step": step,
                "range": "± 1 deviation",
                "low": distances.seed.mean - distances.seed.standard_deviation,
                "high": distances.seed.mean + distances.seed.standard_deviation,
            },
        )
    ]
    x = alt.X("step:Q", title="training steps T", axis=alt.Axis(tickCount=4), scale=alt.Scale(nice=False))
    shade = (
        chart(bands, outcome)
        .mark_area(color=PURPLE, opacity=0.15)
        .encode(x=x, y=alt.Y("low:Q", title="‖w − w′‖"), y2="high:Q", detail="range:N")
    )
    names = [DATA, BOUND, SEED_VARIED]
    drawn = {"x": x, "y": "value:Q", "color": colour(names), "strokeDash": dash(names, BOUND)}
    stairs = [{"step": step, "curve": BOUND, "value": bound} for step, bound in outcome.bounds.items()]
    curves = chart(lines, outcome).mark_line().encode(**drawn)
    panel: alt.LayerChart = shade + curves + chart(stairs, outcome).mark_line(interpolate="step-before").encode(**drawn)
    return panel


def distance_chart(outcomes: Sequence[GridOutcome]) -> alt.ConcatChart:
    """Return the distribution of distances between final weights, on a log scale (IP2 Figure 3)."""
    return panels(outcomes, distance_panel)


def distance_panel(outcome: GridOutcome) -> alt.LayerChart:
    """Return Figure 3 for one grid."""
    fixed, varied = outcome.at_the_end("fixed"), outcome.at_the_end("varied")
    curves = {DATA: varied.data_all_pairs, SEED_FIXED: fixed.seed, SEED_VARIED: varied.seed}
    both = {
        BOTH_FIXED: fixed.both_all_pairs or fixed.both_strict,
        BOTH_VARIED: varied.both_all_pairs or varied.both_strict,
    }
    names = [*curves, *both]
    rows = [row for name, deviations in (curves | both).items() for row in density_rows(name, deviations)]
    lines = (
        chart(rows, outcome)
        .mark_line(strokeJoin="round")
        .encode(
            x=alt.X("distance:Q", title="‖w − w′‖", scale=alt.Scale(type="log"), axis=DECADES),
            y=alt.Y("density:Q", title="density per decade", scale=alt.Scale(nice=True)),
            color=colour(names),
            strokeDash=dash(names, BOTH_FIXED, BOTH_VARIED),
        )
    )
    panel: alt.LayerChart = lines + chart(bound_rows(outcome), outcome).mark_rule(color=GOLD, strokeDash=[4, 3]).encode(
        x="distance:Q"
    )
    return panel


def density_rows(name: str, distances: Distances) -> list[Row]:
    """Return a smoothed histogram of the logarithms of the distances, as the points of a curve."""
    logs = np.log10(distances.values[distances.values > 0])
    if logs.size == 0:
        return []
    width = max(float(np.ptp(logs)) / BINS, 1e-3)
    edges = logs.min() + width * np.arange(-3, BINS + 4)  # room for the curve to come down to 0
    density = np.histogram(logs, edges, density=True)[0]
    smooth = np.convolve(density, np.array([1, 4, 6, 4, 1]) / 16, mode="same")
    centres = 10 ** ((edges[1:] + edges[:-1]) / 2)
    return [{"curve": name, "distance": float(x), "density": float(y)} for x, y in zip(centres, smooth, strict=True)]


def bound_rows(outcome: GridOutcome) -> list[Row]:
    """Return where the bound on Δ_S is, if there is one."""
    bound = outcome.privacy.sensitivity_bound
    return [] if bound is None else [{"distance": bound.value}]


def enough_runs_chart(outcomes: Sequence[GridOutcome]) -> alt.ConcatChart:
    """Return how the estimates change with the people and the seeds that are used (IP2 Figures 6, 10 and 11).

    Above the logistic regressions' largest Δ_S, then their variability, below the networks' largest Δ_S.
    """
    convex = [outcome for outcome in outcomes if outcome.setting.model == "logistic"]
    networks = [outcome for outcome in outcomes if outcome.setting.model != "logistic"]
    drawn = [*map(sensitivity_panel, convex), *map(variability_panel, convex), *map(sensitivity_panel, networks)]
    return side_by_side(drawn, len(convex))


def sensitivity_panel(outcome: GridOutcome) -> alt.LayerChart:
    """Return the largest Δ_S against the number of people: pairs that share a person are not drawn apart."""
    scale = alt.Scale(type="log", nice=False)
    x = alt.X("used:Q", title="people used", scale=scale, axis=COUNTS)
    named = {DATA: "all_pairs", STRICT: "strict"}
    rows = [row for name, key in named.items() for row in growth_rows(name, outcome.sensitivity_growth[key])]
    return growth_panel(rows, outcome, x, "largest Δ_S")


def variability_panel(outcome: GridOutcome) -> alt.LayerChart:
    """Return both variabilities against the number of seeds."""
    named = {FLAT: "flat", SMALLEST: "smallest"}
    rows = [row for name, key in named.items() for row in growth_rows(name, outcome.variability_growth[key])]
    return growth_panel(
        rows, outcome, alt.X("used:Q", title="seeds used", scale=alt.Scale(nice=False)), "variability σ"
    )


def growth_rows(name: str, growth: Growth) -> list[Row]:
    """Return the points of a growth curve with its 90 % range."""
    values = zip(growth.used, growth.mean, growth.lower, growth.upper, strict=True)
    return [
        {"curve": name, "used": int(used), "mean": float(mean), "lower": float(lower), "upper": float(upper)}
        for used, mean, lower, upper in values
    ]


def growth_panel(rows: list[Row], outcome: GridOutcome, x: alt.X, title: str) -> alt.LayerChart:
    """Return growth curves with their ranges, and a dashed line where each ends."""
    colours = colour([DATA, STRICT, FLAT, SMALLEST])  # of all panels, since they share the legend
    base = chart(rows, outcome).encode(x=x, color=colours)
    last = [point for point in rows if point["used"] == max(row["used"] for row in rows)]
    ends = chart(last, outcome).mark_rule(strokeDash=[4, 3]).encode(y="mean:Q", color=colours)
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("lower:Q", title=title), y2="upper:Q")
    panel: alt.LayerChart = band + base.mark_line().encode(y="mean:Q") + ends
    return panel


def panels(outcomes: Sequence[GridOutcome], draw: Callable[[GridOutcome], Any]) -> alt.ConcatChart:
    """Return a panel for each grid, logistic regressions above networks."""
    convex = [outcome for outcome in outcomes if outcome.setting.model == "logistic"]
    networks = [outcome for outcome in outcomes if outcome.setting.model != "logistic"]
    return side_by_side([draw(outcome) for outcome in (*convex, *networks)], len(convex))


def side_by_side(charts: Sequence[Any], columns: int) -> alt.ConcatChart:
    """Return charts in rows, with one legend above."""
    panels: alt.ConcatChart = alt.concat(*charts, columns=columns or COLUMNS).resolve_scale(
        x="independent", y="independent"
    )
    return panels


def chart(rows: list[Row], outcome: GridOutcome) -> alt.Chart:
    """Return an empty chart of the rows, titled by data set and model."""
    title = f"{outcome.setting.data}, {outcome.setting.model}"
    return alt.Chart(alt.InlineData(values=rows), title=title, width=WIDTH, height=HEIGHT)


COLOURS = {
    DATA: GOLD, BOUND: GOLD, SEED_FIXED: LILAC, SEED_VARIED: PURPLE, BOTH_FIXED: LILAC, BOTH_VARIED: PURPLE,
    FLAT: PURPLE, SMALLEST: LILAC, STRICT: BROWN,
}  # fmt: skip


def colour(names: Sequence[str]) -> alt.Color:
    """Return the colours of the named curves, with a legend above the panels."""
    scale = alt.Scale(domain=list(names), range=[COLOURS[name] for name in names])
    return alt.Color(
        "curve:N", title=None, scale=scale, legend=alt.Legend(orient="top", labelLimit=300, symbolOpacity=1)
    )


def dash(names: Sequence[str], *dashed: str) -> alt.StrokeDash:
    """Return dashes for some of the named curves; the legend is that of the colours."""
    scale = alt.Scale(domain=list(names), range=[[4, 3] if name in dashed else [1, 0] for name in names])
    return alt.StrokeDash("curve:N", title=None, scale=scale, legend=LEGEND)
