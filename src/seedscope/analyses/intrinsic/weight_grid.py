"""The weights of a grid of models, [seed, dataset, parameter], checked: dataset 0 is the base `D`, the others `D_i`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import SeedscopeError, require

LEAST_SEEDS = 3
BLOCK_BYTES = 2**26  # what one block of float64 weights may take


def checked_weights(
    weights: ArrayLike,
    *,
    seed_names: Sequence[object] | np.ndarray | None = None,
    drop_diverged: bool = False,
    least_datasets: int = 1,
) -> np.ndarray:
    """Return the weights as a floating array [seed, dataset, parameter] without a diverged run.

    A run whose weights are not finite is an error that names its seed; with `drop_diverged` that seed is left out, for
    all data sets, so that what remains is a full grid.

    >>> checked_weights([[[1.0]], [[float("nan")]], [[2.0]], [[3.0]]], drop_diverged=True).ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    array = np.asarray(weights)
    array = array if np.issubdtype(array.dtype, np.floating) else array.astype(float)
    require(array.ndim == 3, f"weights must have the axes [seed, dataset, parameter], got the shape {array.shape}.")
    require(array.shape[2] >= 1, f"weights must have at least one parameter, got the shape {array.shape}.")
    array = _without_diverged(array, seed_names, drop_diverged)
    seeds, datasets, _ = array.shape
    require(
        seeds >= LEAST_SEEDS,
        f"the effect of the seed needs at least {LEAST_SEEDS} seeds, got {seeds}; train more seeds.",
    )
    require(
        datasets >= least_datasets,
        f"the effect of one person needs the base and at least {least_datasets - 1} neighbouring data set, got "
        f"{datasets} data set{'s' * (datasets != 1)}; train a grid with neighbours.",
    )
    return array


def _without_diverged(
    array: np.ndarray, seed_names: Sequence[object] | np.ndarray | None, drop_diverged: bool
) -> np.ndarray:
    """Return the seeds with finite weights; raise where others are not to be left out."""
    finite = np.isfinite(array).all(axis=(1, 2))
    if finite.all():
        return array
    names = np.arange(len(array)) if seed_names is None else np.asarray(seed_names)
    if drop_diverged:
        converged: np.ndarray = array[finite]
        return converged
    diverged = [str(name) for name in names[~finite]]
    shown = ", ".join(diverged[:10]) + (", …" if len(diverged) > 10 else "")
    raise SeedscopeError(
        f"the weights of {len(diverged)} of {len(array)} seeds are not finite, so those runs diverged: seed {shown}; "
        "lower the learning rate, or leave these seeds out with drop_diverged=True."
    )


def blocks(count: int, bytes_each: int) -> Iterator[slice]:
    """Yield slices that cover `count` items, each with at most `BLOCK_BYTES` of memory and at least one item."""
    size = max(1, BLOCK_BYTES // max(1, bytes_each))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
