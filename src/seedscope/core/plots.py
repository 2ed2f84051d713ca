"""Charts that results draw of themselves (Altair): one value for each person, or intervals side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seedscope.core.number import Number

BLUE, ORANGE, GREY = "#0b6e99", "#c4620a", "#8d99a8"  # told apart by every kind of colour vision
WIDTH, HEIGHT = 520, 260
MOST_POINTS = 5000  # Altair's own limit on rows


def ranked_plot(
    value: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, title: str, meaning: str, largest: float = 1.0
) -> Any:
    """Return everybody's value with its interval, the largest first; of very many people every k-th is drawn."""
    import altair as alt

    order = np.argsort(-value, kind="stable")
    kept = order[:: 1 + len(order) // MOST_POINTS]
    places = np.arange(1, len(order) + 1)[:: 1 + len(order) // MOST_POINTS]
    rows = [
        {
            "place": int(k),
            "person": int(i),
            "value": float(value[i]),
            "lower": float(lower[i]),
            "upper": float(upper[i]),
        }
        for k, i in zip(places, kept, strict=True)
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        alt.X("place:Q").title("People, the largest first").axis(format="d", tickMinStep=1, grid=False)
    )
    y = alt.Y("value:Q").title(meaning).scale(domain=[0, largest], clamp=True)
    told = [alt.Tooltip(f"{name}:Q", format=".3g") for name in ("person", "value", "lower", "upper")]
    span = base.mark_rule(color=GREY, opacity=0.5).encode(alt.Y("lower:Q").title(meaning), alt.Y2("upper:Q"))
    points = base.mark_circle(color=BLUE, size=22, opacity=0.9).encode(y, tooltip=told)
    return (span + points).properties(width=WIDTH, height=HEIGHT, title=title)


def interval_plot(numbers: Sequence[tuple[str, Number]], *, title: str, meaning: str) -> Any:
    """Return named numbers beneath each other, each with its interval and kind."""
    import altair as alt

    rows = [
        {
            "name": name,
            "value": number.value,
            "lower": number.value if number.lower is None else number.lower,
            "upper": number.value if number.upper is None else number.upper,
            "kind": number.kind,
        }
        for name, number in numbers
    ]
    y = alt.Y("name:N").title(None).sort([name for name, _ in numbers]).axis(labelLimit=220)
    base = alt.Chart(alt.InlineData(values=rows)).encode(y)
    kinds = alt.Scale(domain=["proved", "statistical", "estimate"], range=["square", "circle", "diamond"])
    span = base.mark_rule(color=GREY).encode(alt.X("lower:Q").title(meaning), alt.X2("upper:Q"))
    points = base.mark_point(filled=True, size=80, color=BLUE, opacity=1).encode(
        alt.X("value:Q").title(meaning),
        alt.Shape("kind:N").scale(kinds).title("kind"),
        tooltip=["name:N", "value:Q", "kind:N"],
    )
    return (span + points).properties(width=WIDTH, title=title)
