"""BR's figures as Altair charts, drawn from outcomes; nothing is computed here but what is drawn."""

from __future__ import annotations

import altair as alt
import numpy as np

from seedscope.reproduce.reconstruction.linear import SHOWN, LinearOutcome
from seedscope.reproduce.reconstruction.pictures import picture_rows

BINS = 80
POINTS = 2000  # records drawn of each scatter
SIDE = 320
EXTENT = [1e-6, 1e8]
RED, BLUE = "#c44e52", "#4c72b0"


def histogram_chart(outcome: LinearOutcome, printed: float) -> alt.LayerChart:
    """Return the histogram of records' dFIL bounds, with the RDP bound as printed and perfect privacy (BR Figure 2)."""
    bounds = np.log10(outcome.bound)
    counts, edges = np.histogram(bounds, bins=BINS)
    bars = [
        {"from": 10.0 ** edges[i], "to": 10.0 ** edges[i + 1], "records": int(count), "none": 0}
        for i, count in enumerate(counts)
    ]
    scale = alt.Scale(type="log", domain=[printed / 3, float(outcome.bound.max()) * 2])
    histogram = (
        alt.Chart(alt.InlineData(values=bars), width=2 * SIDE, height=SIDE)
        .mark_rect(color="#bbbbbb", stroke="black", strokeWidth=0.3)
        .encode(
            x=alt.X("from:Q", scale=scale, title="least mean squared error", axis=_powers()),
            x2="to:Q",
            y=alt.Y("records:Q", title="records"),
            y2="none:Q",
        )
    )
    marks = [
        {"at": printed, "what": "RDP bound as printed (corrected: 0)"},
        {"at": 1.0, "what": "perfect privacy: 1"},
    ]
    dash = alt.StrokeDash("what:N", title=None, legend=alt.Legend(orient="top", labelLimit=300))
    drawn: alt.LayerChart = (
        histogram + alt.Chart(alt.InlineData(values=marks)).mark_rule().encode(x="at:Q", strokeDash=dash)
    ).properties(background="white")
    return drawn


def attack_chart(outcome: LinearOutcome) -> alt.ConcatChart:
    """Return the attack's mean, median and clipped errors against the dFIL bound (BR Figure 3), some of the records."""
    errors = {
        "mean": outcome.attack.mean,
        "median": outcome.attack.median,
        "clipped to the box": outcome.attack.clipped,
    }
    panels = [_scatter(outcome.attacked_bound, values, name) for name, values in errors.items()]
    return alt.concat(*panels, columns=3, background="white")


def reconstruction_chart(outcome: LinearOutcome) -> alt.LayerChart:
    """Return records of the highest and lowest leakage above their guesses from one released model (BR Figure 4)."""
    shown = np.append(outcome.most, outcome.least)
    original = outcome.digits.features[shown].reshape(-1, 28, 28, 1)
    guessed = outcome.guesses.reshape(-1, 28, 28, 1)
    leakage = [f"√dFIL {value:.3g}" for value in np.sqrt(outcome.attacked_dfil[shown])]
    misses = ((outcome.guesses - outcome.digits.features[shown]) ** 2).mean(axis=1)
    error = [f"error {value:.2g}" for value in misses]
    halves = slice(0, SHOWN), slice(SHOWN, 2 * SHOWN)
    titles = [f"{kind} leakage: {what}" for kind in ("highest", "lowest") for what in ("record", "reconstruction")]
    images = [values[half] for half in halves for values in (original, guessed)]
    captions = [words[half] for half in halves for words in (leakage, error)]
    return picture_rows(images, captions, titles)


def _scatter(bound: np.ndarray, errors: np.ndarray, name: str) -> alt.LayerChart:
    """Return one panel: errors against bounds, the diagonal, and perfect privacy."""
    below = errors < bound
    kept = np.random.default_rng(0).permutation(len(bound))[:POINTS]
    rows = [
        {"bound": float(bound[i]), "error": float(errors[i]), "side": "below the bound" if below[i] else "above"}
        for i in kept
        if EXTENT[0] < bound[i] < EXTENT[1] and EXTENT[0] < errors[i] < EXTENT[1]
    ]
    scale = alt.Scale(type="log", domain=EXTENT)
    points = (
        alt.Chart(alt.InlineData(values=rows), title=name, width=SIDE, height=SIDE)
        .mark_circle(size=5, opacity=0.5, clip=True)
        .encode(
            x=alt.X("bound:Q", scale=scale, title="least mean squared error (dFIL)", axis=_powers()),
            y=alt.Y("error:Q", scale=scale, title="squared error of the attack", axis=_powers()),
            color=alt.Color(
                "side:N", scale=alt.Scale(domain=["above", "below the bound"], range=[BLUE, RED]), title=None
            ),
        )
    )
    ends = alt.InlineData(values=[{"bound": end, "error": end} for end in EXTENT])
    diagonal = alt.Chart(ends).mark_line(color="black").encode(x="bound:Q", y="error:Q")
    private = alt.Chart(alt.InlineData(values=[{"bound": 1.0}])).mark_rule(strokeDash=[2, 2]).encode(x="bound:Q")
    drawn: alt.LayerChart = points + diagonal + private
    return drawn


def _powers() -> alt.Axis:
    """Return an axis that shows powers of ten."""
    return alt.Axis(format="~e", tickCount=8, grid=False)
