"""Images inside charts: rows of pictures with a caption above each."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from seedscope.core import data_uri

SIZE = 64


def picture_rows(
    images: Sequence[np.ndarray], captions: Sequence[Sequence[str]], titles: Sequence[str]
) -> alt.LayerChart:
    """Return rows of pictures, one row for each array of images [picture, height, width, channel] in [0, 1].

    Args:
        images: the rows.
        captions: for each row, a caption for each picture.
        titles: a title for each row, on its left.
    """
    rows = [
        {"row": title, "place": place, "caption": caption, "url": data_uri(image)}
        for row, words, title in zip(images, captions, titles, strict=True)
        for place, (image, caption) in enumerate(zip(row, words, strict=True))
    ]
    columns = max(len(row) for row in images)
    place = alt.X("place:O", axis=None)
    down = alt.Y("row:N", sort=list(titles), title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=260))
    base = alt.Chart(alt.InlineData(values=rows), width=(SIZE + 12) * columns, height=(SIZE + 30) * len(images))
    pictures = base.mark_image(width=SIZE, height=SIZE).encode(x=place, y=down, url="url:N")
    words = base.mark_text(dy=-SIZE / 2 - 7, fontSize=10).encode(x=place, y=down, text="caption:N")
    drawn: alt.LayerChart = (pictures + words).configure_view(stroke=None).properties(background="white")
    return drawn
