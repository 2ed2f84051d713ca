"""Images inside charts: rows of pictures with a caption above each."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import altair as alt
import numpy as np

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


def data_uri(image: np.ndarray) -> str:
    """Return an image [height, width, channel] in [0, 1], of one or three channels, as the address of a PNG."""
    pixels = np.rint(255 * np.clip(np.asarray(image, float), 0, 1)).astype(np.uint8)
    height, width, channels = pixels.shape
    kind = {1: 0, 3: 2}[channels]  # grey, or red, green and blue
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # 0: no filter
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = (b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")
    body = b"".join(_chunk(name, content) for name, content in chunks)
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _chunk(name: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG file: length, name, content, checksum."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
