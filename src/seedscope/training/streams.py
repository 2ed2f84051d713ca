"""Random numbers by coordinate: what a model draws depends on the root seed and its place in the grid, on nothing else.

So a grid can grow, run in any order and on any number of workers without changing a model that exists already.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from seedscope.training.system_draws import SystemDraws

NOISE_STREAM = 3  # another number where the same seeds draw other noise: stored runs cannot go on with it
SEEDS_PER_BLOCK = 64  # seeds that share one generator: making a generator costs more than drawing from it


def generator(root_seed: int, purpose: str, coordinate: int = 0) -> np.random.Generator:
    """Return the generator of one purpose at one coordinate.

    >>> bool(generator(0, "batches", 3).integers(100) == generator(0, "batches", 3).integers(100))
    True
    """
    sequence = np.random.SeedSequence((root_seed, zlib.crc32(purpose.encode()), coordinate))
    return np.random.Generator(np.random.Philox(sequence))


def normals(root_seed: int | SystemDraws, purpose: str, seeds: np.ndarray, size: int) -> np.ndarray:
    """Return standard normals [seed, size]: for each seed its own, whichever others are asked for.

    From draws of the operating system in place of a root seed they are new every time; so are gammas.
    """
    if isinstance(root_seed, SystemDraws):
        return root_seed.normals((len(seeds), size))
    return _by_seed(root_seed, purpose, seeds, lambda draw: draw.standard_normal((SEEDS_PER_BLOCK, size)))


def gammas(root_seed: int | SystemDraws, purpose: str, seeds: np.ndarray, shape: float) -> np.ndarray:
    """Return Gamma(shape, 1) variables [seed]: for each seed its own."""
    if isinstance(root_seed, SystemDraws):
        return root_seed.gammas(len(seeds), shape)
    return _by_seed(root_seed, purpose, seeds, lambda draw: draw.standard_gamma(shape, SEEDS_PER_BLOCK))


def shuffled_batches(root_seed: int, seed: int, examples: int, batch_size: int, steps: int) -> np.ndarray:
    """Return example indices [step, batch_size]: each epoch a new order, its incomplete last batch dropped."""
    draw, per_epoch = generator(root_seed, "batches", seed), examples // batch_size
    epochs = [draw.permutation(examples)[: per_epoch * batch_size] for _ in range(-(-steps // per_epoch))]
    return np.concatenate(epochs).reshape(-1, batch_size)[:steps].astype(np.int32)


def poisson_batches(
    root_seed: int, seed: int, examples: int, probability: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return which examples are drawn, step after step in one row, and how many each step has [step].

    Each example is in each batch with the probability q, independently: the gaps between the hits of a long row of
    examples × steps coin flips are geometric, so only the hits are drawn. A geometric variable is an exponential one
    in units of −1/ln(1−q), rounded down, which is drawn three times as fast.

    >>> drawn, sizes = poisson_batches(0, 0, examples=1000, probability=0.01, steps=50)
    >>> bool(len(drawn) == sizes.sum()), len(sizes)
    (True, 50)
    """
    draw, flips = generator(root_seed, "poisson batches", seed), examples * steps
    expected = flips * probability
    more = int(expected + 3 * np.sqrt(expected)) + 16
    with np.errstate(divide="ignore"):
        unit = -1 / np.log1p(-probability)  # 0 where everybody is drawn

    def hits_after(last: int) -> np.ndarray:
        gaps = draw.standard_exponential(more)
        gaps *= unit
        hits = gaps.astype(np.int64)
        hits += 1
        hits[0] += last
        return np.cumsum(hits, out=hits)

    hits = hits_after(-1)
    while hits[-1] < flips:
        hits = np.concatenate([hits, hits_after(hits[-1])])
    starts = examples * np.arange(steps + 1)
    sizes = np.diff(np.searchsorted(hits, starts))
    drawn = np.empty(sizes.sum(), np.int32)
    np.subtract(hits[: len(drawn)], np.repeat(starts[:-1], sizes), out=drawn, casting="unsafe")
    return drawn, sizes


def subset_batches(root_seed: int, seed: int, examples: int, batch_size: int, steps: int) -> np.ndarray:
    """Return example indices [step, batch_size]: each step a fresh uniform subset.

    Examples are drawn with replacement and the first different ones kept; a step that has too few is drawn anew, which
    favours no example. Where a batch is a large part of the examples, that is what all steps do.
    """
    draw, spare = generator(root_seed, "subset batches", seed), 8
    width = batch_size + spare + 2 * batch_size**2 // examples
    short = np.ones(steps, bool)
    batches = np.empty((steps, batch_size), np.int32)
    if width <= examples // 4:
        drawn = draw.integers(examples, size=(steps, width), dtype=np.int32)
        kept = _first_occurrences(drawn)
        kept &= kept.cumsum(axis=1) <= batch_size
        short = kept.sum(axis=1) < batch_size
        batches[~short] = drawn[~short][kept[~short]].reshape(-1, batch_size)
    for step in np.flatnonzero(short):
        batches[step] = draw.choice(examples, batch_size, replace=False, shuffle=False)
    return batches


def _first_occurrences(values: np.ndarray) -> np.ndarray:
    """Return where a value [row, column] is the first of its kind in its row."""
    order = values.argsort(axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    first = np.ones(values.shape, bool)
    np.put_along_axis(first, order[:, 1:], ordered[:, 1:] != ordered[:, :-1], axis=1)
    return first


def _by_seed(
    root_seed: int, purpose: str, seeds: np.ndarray, draw_block: Callable[[np.random.Generator], np.ndarray]
) -> np.ndarray:
    """Return each seed's row of the block of seeds that it belongs to."""
    seeds = np.asarray(seeds)
    blocks, place = np.unique(seeds // SEEDS_PER_BLOCK, return_inverse=True)
    drawn = np.stack([draw_block(generator(root_seed, purpose, int(block))) for block in blocks])
    by_seed: np.ndarray = drawn[place, seeds % SEEDS_PER_BLOCK]
    return by_seed
