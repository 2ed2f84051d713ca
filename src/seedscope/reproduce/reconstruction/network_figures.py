"""BR Figures 5 and 6 as Altair charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

import seedscope as ss
from seedscope.reproduce.reconstruction.networks import NetworkOutcome, Sweep, first_rows
from seedscope.reproduce.reconstruction.pictures import picture_rows

SHOWN = 8
COLOURS = [  # pale: as printed, grey: the authors' code, full: corrected
    "#9db7dd", "#2f5597", "#f0a8a8", "#b8a0a0", "#b02024", "#f6c99a", "#c4b29c", "#d9730d",
]  # fmt: skip
FLOOR = 1e-12  # bounds below are drawn there: they say nothing


def trade_off_chart(outcomes: Sequence[NetworkOutcome]) -> alt.LayerChart:
    """Return accuracy against error bounds, a point for each setting and bound, with the best trade-offs dashed."""
    names = list(outcomes[0].bounds)
    rows: list[dict[str, Any]] = [
        {"accuracy": outcome.accuracy, "bound": max(value, FLOOR), "by": name, "setting": outcome.setting}
        for outcome in outcomes
        for name, value in outcome.bounds.items()
        if np.isfinite(value)  # a record that was in no batch has leaked nothing
    ]
    best = [row for name in names for row in frontier([row for row in rows if row["by"] == name])]
    accuracy = alt.X("accuracy:Q", title="test accuracy %", scale=alt.Scale(zero=False))
    bound = alt.Y("bound:Q", title="least mean squared error", scale=alt.Scale(type="log"), axis=alt.Axis(format="~e"))
    by = alt.Color(
        "by:N", sort=names, scale=alt.Scale(domain=names, range=COLOURS), title=None, legend=alt.Legend(labelLimit=300)
    )
    points = (
        alt.Chart(alt.InlineData(values=rows), width=460, height=320)
        .mark_circle(size=40)
        .encode(x=accuracy, y=bound, color=by, tooltip=["setting:N", "bound:Q"])
    )
    lines = alt.Chart(alt.InlineData(values=best)).mark_line(strokeDash=[4, 3]).encode(x=accuracy, y=bound, color=by)
    private = alt.Chart(alt.InlineData(values=[{"bound": 1.0}])).mark_rule(strokeDash=[2, 2]).encode(y="bound:Q")
    drawn: alt.LayerChart = (points + lines + private).properties(background="white")
    return drawn


def frontier(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that no other row beats in accuracy and bound at once, by accuracy.

    >>> rows = [{"accuracy": 1, "bound": 9}, {"accuracy": 2, "bound": 8}, {"accuracy": 1, "bound": 5}]
    >>> [row["accuracy"] for row in frontier(rows)]
    [1, 2]
    """
    kept: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: (-row["accuracy"], -row["bound"])):
        if not kept or row["bound"] > kept[-1]["bound"]:
            kept.append(row)
    return kept[::-1]


def sample_chart(outcome: NetworkOutcome, sweep: Sweep) -> alt.LayerChart:
    """Return the training images of the highest and the lowest leakage (BR Figure 6)."""
    images = first_rows(ss.load(sweep.data), sweep).base.features
    leakage = np.sqrt(outcome.corrected_leakage.dfil)
    seen = np.flatnonzero(leakage > 0)  # a record that was in no batch has leaked nothing
    order = seen[np.argsort(-leakage[seen])]
    rows = order[:SHOWN], order[: -SHOWN - 1 : -1]
    captions = [[f"{value:.3g}" for value in leakage[chosen]] for chosen in rows]
    return picture_rows([images[chosen] for chosen in rows], captions, ["highest √dFIL", "lowest √dFIL"])
