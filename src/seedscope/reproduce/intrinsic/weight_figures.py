"""Pictures of weights: along training (IP1 Fig. 4, 8; IP2 Fig. 1), as maps (IP2 Fig. 4, 9), pairs' ε, symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import altair as alt
import numpy as np

from seedscope.analyses.intrinsic import Control, Projection, weight_map
from seedscope.reproduce.intrinsic.grids import GridOutcome

Row = dict[str, Any]
WIDTH, HEIGHT, COLUMNS, BINS = 220, 150, 4, 40
GOLD, PURPLE, LILAC, GREY = "#c98a00", "#5b2a86", "#a678c9", "#777777"
DATA = "data: Δ_S"
CONTROLS: tuple[Control, ...] = ("binarised", "shuffled", "synthetic")


def projection() -> Projection:
    """Return UMAP where its package is installed, else principal components; the picture's title says which."""
    return "umap" if find_spec("umap") else "principal components"


def spread_chart(outcomes: Sequence[GridOutcome]) -> alt.ConcatChart:
    """Return the bound on Δ_S, the largest Δ_S and σ along training (IP1 Figures 4 and 8)."""
    return _panels([_spread(outcome) for outcome in outcomes])


def _spread(outcome: GridOutcome) -> Any:
    """Return one grid's sensitivities and spread along training."""
    every = [(step, distances) for (init, step), distances in outcome.distances.items() if init == "varied"]
    largest = [(step, distances.data_all_pairs.maximum) for step, distances in every]
    rows: list[Row] = [{"step": step, "curve": "largest Δ_S", "value": value} for step, value in largest]
    rows += [{"step": step, "curve": "bound on Δ_S", "value": bound} for step, bound in outcome.bounds.items()]
    named = {"varied": "σ, varied init", "fixed": "σ, fixed init"}
    rows += [{"step": step, "curve": named[init], "value": share} for (init, step), share in outcome.spread.items()]
    colours = {"largest Δ_S": GOLD, "bound on Δ_S": GREY, "σ, varied init": PURPLE, "σ, fixed init": LILAC}
    shown = [row for row in rows if row["value"] > 0]  # of a log scale
    return _chart(shown, _title(outcome)).mark_line().encode(
        x=alt.X("step:Q", title="training steps T"),
        y=alt.Y("value:Q", title="distance or deviation", scale=alt.Scale(type="log")),
        color=_colour("curve", colours),
    )  # fmt: skip


def trajectories_chart(outcomes: Sequence[GridOutcome]) -> alt.ConcatChart:
    """Return two weights along training from one initial point, a curve a seed (IP2 Figure 1)."""
    return _panels([_trajectories(outcome) for outcome in outcomes])


def _trajectories(outcome: GridOutcome) -> Any:
    """Return one grid's curves."""
    trajectories = outcome.trajectories
    rows = [
        {"seed": str(seed), "step": int(step), "x": float(x), "y": float(y)}
        for seed, values in zip(trajectories.seeds, trajectories.values, strict=True)
        for step, (x, y) in zip(trajectories.steps, values, strict=True)
    ]
    first, second = trajectories.parameters
    return _chart(rows, _title(outcome)).mark_line(point=True).encode(
        x=alt.X("x:Q", title=f"weight {first}", scale=alt.Scale(zero=False)),
        y=alt.Y("y:Q", title=f"weight {second}", scale=alt.Scale(zero=False)),
        order="step:Q",
        color=alt.Color("seed:N", title="seed", legend=None),
    )  # fmt: skip


def map_chart(outcomes: Sequence[GridOutcome]) -> alt.ConcatChart:
    """Return maps of the models, by data set on the left and by seed on the right (IP2 Figures 4 and 9)."""
    drawn = []
    for outcome in outcomes:
        mapped = weight_map(outcome.mapped, projection=projection())
        drawn += [_map(mapped.coordinates, by, f"{_title(outcome)}, {mapped.projection}, by {by}") for by in BY]
    return _panels(drawn, columns=2)


BY = ("data set", "seed")


def controls_chart(outcome: GridOutcome) -> alt.ConcatChart:
    """Return maps by seed of signs alone, shuffled, synthetic and early weights (IP2 Figure 9, App. D.1)."""
    maps = {name: weight_map(outcome.mapped, control=name, projection=projection()) for name in CONTROLS}
    early = weight_map(outcome.mapped_early, projection=projection())
    titled = {f"{name} weights": picture for name, picture in maps.items()} | {"weights at the first checkpoint": early}
    return _panels(
        [_map(picture.coordinates, "seed", f"{title}, {picture.projection}") for title, picture in titled.items()]
    )


def _map(coordinates: np.ndarray, by: str, title: str) -> Any:
    """Return one map [seed, data set, 2], coloured."""
    rows = [
        {"x": float(x), "y": float(y), "seed": str(seed), "data set": str(dataset)}
        for seed, models in enumerate(coordinates)
        for dataset, (x, y) in enumerate(models)
    ]
    colour = alt.Color(f"{by}:N", legend=None, scale=alt.Scale(scheme="tableau20"))
    x, y = (alt.X("x:Q", title=None, axis=None), alt.Y("y:Q", title=None, axis=None))
    return _chart(rows, title).mark_point(filled=True, size=18).encode(x=x, y=y, color=colour)


def pairwise_chart(outcomes: Sequence[GridOutcome]) -> alt.ConcatChart:
    """Return the ε of single pairs of data sets that differ in one row (IP1 Eq. 9): a distribution, not its worst."""
    return _panels([_pairwise(outcome) for outcome in outcomes])


def _pairwise(outcome: GridOutcome) -> Any:
    """Return one grid's histogram."""
    rows = _histogram("pairs", outcome.pairwise)
    x = alt.X("low:Q", title="ε of a pair", bin="binned")
    return _chart(rows, _title(outcome)).mark_bar(color=PURPLE).encode(
        x=x, x2="high:Q", y=alt.Y("share:Q", title="share of the pairs")
    )  # fmt: skip


def symmetry_chart(outcomes: Sequence[GridOutcome]) -> alt.ConcatChart:
    """Return the distances between networks as trained, with units matched, and with units balanced too."""
    return _panels([_symmetry(outcome) for outcome in outcomes])


def _symmetry(outcome: GridOutcome) -> Any:
    """Return one grid's histograms."""
    symmetry = outcome.symmetry
    assert symmetry is not None  # drawn for networks alone
    kinds = {f"seed: Δ_V, {name}": values for name, values in symmetry.seed.items()}
    as_trained = next(iter(symmetry.data.values()))
    rows = [row for name, values in (kinds | {DATA: as_trained}).items() for row in _histogram(name, values)]
    colours = dict(zip(kinds, (PURPLE, LILAC, GREY), strict=True)) | {DATA: GOLD}
    return _chart(rows, _title(outcome)).mark_line(interpolate="step-after").encode(
        x=alt.X("low:Q", title="‖w − w′‖"),
        y=alt.Y("share:Q", title="share of the pairs"),
        color=_colour("kind", colours),
    )  # fmt: skip


def _histogram(kind: str, values: np.ndarray) -> list[Row]:
    """Return the shares of values in bins."""
    counts, edges = np.histogram(values, BINS)
    return [
        {"kind": kind, "low": float(low), "high": float(high), "share": float(count / counts.sum())}
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]


def _title(outcome: GridOutcome) -> str:
    """Return a panel's title."""
    return f"{outcome.setting.data}, {outcome.setting.model}"


def _colour(field: str, colours: dict[str, str]) -> alt.Color:
    """Return the named colours, with a legend above."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{field}:N", title=None, scale=scale, legend=alt.Legend(orient="top", labelLimit=300, columns=2))


def _chart(rows: list[Row], title: str) -> alt.Chart:
    """Return an empty chart of rows."""
    return alt.Chart(alt.InlineData(values=rows), title=title, width=WIDTH, height=HEIGHT)


def _panels(charts: Sequence[Any], columns: int = COLUMNS) -> alt.ConcatChart:
    """Return charts side by side, each with scales of its own."""
    together: alt.ConcatChart = alt.concat(*charts, columns=columns).resolve_scale(
        x="independent", y="independent", color="independent" if columns != COLUMNS else "shared"
    )
    return together
