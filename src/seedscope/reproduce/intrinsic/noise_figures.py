"""Pictures of the seed's noise: IP2's Figures 5 and 7, IP1's Figure 6, and people's own ε."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from seedscope.reproduce.intrinsic.noise import NoiseOutcome, SeedNoise, power_study

WIDTH, HEIGHT, COLUMNS = 220, 150, 4
BLUE, ORANGE = "#0b6e99", "#c98a00"


def least_gaussian_chart(outcomes: Sequence[SeedNoise]) -> alt.ConcatChart:
    """Return the histogram over seeds of each set's least Gaussian weight (IP2 Figures 5 and 8)."""
    return _panels([_histogram(outcome) for outcome in outcomes])


def _histogram(outcome: SeedNoise) -> Any:
    """Return one weight's histogram."""
    worst = outcome.histograms[0]
    rows = [
        {"low": float(low), "high": float(high), "seeds": int(count)}
        for low, high, count in zip(worst.edges, worst.edges[1:], worst.counts, strict=False)
    ]
    title = f"{outcome.setting.name}: weight {worst.parameter}, p = {worst.p_value:.1g}"
    x = alt.X("low:Q", title="final weight", bin="binned", scale=alt.Scale(zero=False))
    return _chart(rows, title).mark_bar(color=BLUE).encode(x=x, x2="high:Q", y=alt.Y("seeds:Q", title="seeds"))


def p_value_chart(outcomes: Sequence[SeedNoise]) -> alt.ConcatChart:
    """Return the weights' Shapiro–Wilk p-values, varied and, convex models, one initial point (IP1 Fig. 6, IP2 8)."""
    return _panels([_p_values(outcome) for outcome in outcomes])


def _p_values(outcome: SeedNoise) -> Any:
    """Return the share of weights whose p-value is at most p; a straight line is what Gaussian weights give."""
    rows: list[dict[str, Any]] = []
    by_init = {"varied": outcome.varied}
    if isinstance(outcome, NoiseOutcome):
        by_init["one for all"] = outcome.fixed
    for init, normality in by_init.items():
        ordered = np.sort(normality.normality_by_weight.p_values)
        shares = np.arange(1, len(ordered) + 1) / len(ordered)
        rows += [
            {"p": float(max(p, 1e-16)), "share": float(s), "init": init} for p, s in zip(ordered, shares, strict=True)
        ]
    x = alt.X("p:Q", title="Shapiro–Wilk p-value", scale=alt.Scale(type="log"), axis=alt.Axis(format="~e", tickCount=5))
    y = alt.Y("share:Q", title="weights with at most p", axis=alt.Axis(format="%"))
    colour = alt.Color(
        "init:N", title="initial point", scale=alt.Scale(domain=["varied", "one for all"], range=[BLUE, ORANGE])
    )
    return _chart(rows, outcome.setting.name).mark_line(interpolate="step-after").encode(x=x, y=y, color=colour)


def power_chart() -> Any:
    """Return the Henze–Zirkler p-value by seeds, weights and law (IP2 Figure 7), with uniform noise beside."""
    drawn = _chart(power_study(), "").mark_line(point=True)
    return drawn.encode(
        x=alt.X("seeds:Q", title="seeds"),
        y=alt.Y("p:Q", title="mean p-value", scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("weights:N", title="weights"),
        column=alt.Column("law:N", title=None),
    )


def people_chart(outcomes: Sequence[NoiseOutcome]) -> alt.ConcatChart:
    """Return everybody's own ε with its interval, the most exposed last, beside one number for all."""
    return _panels([_people(outcome) for outcome in outcomes])


def _people(outcome: NoiseOutcome) -> alt.LayerChart:
    """Return one set's people."""
    people, order = outcome.people, np.argsort(outcome.people.mu)
    columns = (people.epsilon, people.epsilon_lower, people.epsilon_upper)
    rows = [
        {"place": place, "epsilon": float(value), "low": float(low), "high": float(high)}
        for place, (value, low, high) in enumerate(zip(*(column[order] for column in columns), strict=True), 1)
    ]
    base = _chart(rows, outcome.setting.name)
    x = alt.X("place:Q", title="people, the most exposed last")
    spans = base.mark_rule(color=BLUE, opacity=0.5).encode(x=x, y=alt.Y("low:Q", title="intrinsic ε"), y2="high:Q")
    dots = base.mark_point(color=BLUE, filled=True).encode(x=x, y="epsilon:Q")
    line = [] if outcome.for_all is None else [{"epsilon": outcome.for_all.value}]
    panel: alt.LayerChart = (
        spans + dots + _chart(line, "").mark_rule(color=ORANGE, strokeDash=[4, 3]).encode(y="epsilon:Q")
    )
    return panel.properties(title=outcome.setting.name)


def _chart(rows: list[Any], title: str) -> alt.Chart:
    """Return an empty chart of rows."""
    return alt.Chart(alt.InlineData(values=rows), title=title, width=WIDTH, height=HEIGHT)


def _panels(charts: Sequence[Any]) -> alt.ConcatChart:
    """Return charts side by side, each with scales of its own."""
    together: alt.ConcatChart = alt.concat(*charts, columns=COLUMNS).resolve_scale(x="independent", y="independent")
    return together
