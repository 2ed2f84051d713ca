"""When training is over: validation loss that no longer improves (IP1 §5, IP2 App. B.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import require, require_count


def convergence_point(losses: ArrayLike, steps: Sequence[int], *, fails: int = 3) -> np.ndarray:
    """Return the step at which each model stops: its loss was not below its best so far `fails` times in a row.

    −1 where that does not happen in the steps looked at. The papers stop so, or "by visual assessment of loss curves".

    Args:
        losses: [..., step], on validation rows.
        steps: the steps at which they were taken, ascending.
        fails: how many times in a row the best so far stands.

    >>> convergence_point([5.0, 4.0, 4.5, 3.0, 3.5, 3.2, 3.1, 2.0], [50, 100, 150, 200, 250, 300, 350, 400]).item()
    350
    """
    array = np.asarray(losses, float)
    require_count("fails", fails)
    shape = f"losses must have an entry for each of the {len(steps)} steps, got the shape {array.shape}."
    require(array.ndim >= 1 and array.shape[-1] == len(steps), shape)
    best = np.minimum.accumulate(array, axis=-1)
    improved = np.ones(array.shape, bool)
    improved[..., 1:] = array[..., 1:] < best[..., :-1]  # a loss that is not a number never improves
    place = np.arange(len(steps))
    since = place - np.maximum.accumulate(np.where(improved, place, 0), axis=-1)
    stopped = since >= fails
    first = stopped.argmax(axis=-1)
    return np.where(stopped.any(axis=-1), np.asarray(steps)[first], -1)
