"""Names of an image's entries, and how rows that have them are seen as images again."""

from __future__ import annotations

import re
from itertools import product

from seedscope.datasets.dataset import Dataset

_LAST = re.compile(r"pixel-(\d+)-(\d+)-(\d+)")


def pixel_names(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return a name for each entry of an image, in the order of its memory.

    >>> pixel_names((1, 2, 1))
    ('pixel-0-0-0', 'pixel-0-1-0')
    """
    return tuple("pixel-" + "-".join(map(str, place)) for place in product(*map(range, shape)))


def image_shape(data: Dataset) -> tuple[int, int, int] | None:
    """Return the height, width and channels of a row that is an image: by its axes or its features' names; else None.

    >>> import seedscope as ss
    >>> image_shape(ss.load("digits")), image_shape(ss.load("synthetic"))
    ((8, 8, 1), None)
    """
    if data.features.ndim == 4:
        height, width, channels = data.features.shape[1:]
        return height, width, channels
    last = _LAST.fullmatch(data.feature_names[-1])
    if last is None:
        return None
    height, width, channels = (int(number) + 1 for number in last.groups())
    return (height, width, channels) if data.feature_names == pixel_names((height, width, channels)) else None
