"""Random numbers by coordinate: what a model draws depends on the root seed and its place in the grid, on nothing else.

So a grid can grow, run in any order and on any number of workers without changing a model that exists already.
"""

from __future__ import annotations

import zlib

import numpy as np

SEEDS_PER_BLOCK = 64  # seeds that share one generator: making a generator costs more than drawing from it


def generator(root_seed: int, purpose: str, coordinate: int = 0) -> np.random.Generator:
    """Return the generator of one purpose at one coordinate.

    >>> generator(0, "batches", 3).integers(100) == generator(0, "batches", 3).integers(100)
    True
    """
    sequence = np.random.SeedSequence((root_seed, zlib.crc32(purpose.encode()), coordinate))
    return np.random.Generator(np.random.Philox(sequence))


def normals(root_seed: int, purpose: str, seeds: np.ndarray, size: int) -> np.ndarray:
    """Return standard normals [seed, size]: for each seed its own, whichever others are asked for."""
    return _by_seed(root_seed, purpose, seeds, lambda draw: draw.standard_normal((SEEDS_PER_BLOCK, size)))


def gammas(root_seed: int, purpose: str, seeds: np.ndarray, shape: float) -> np.ndarray:
    """Return Gamma(shape, 1) variables [seed]: for each seed its own."""
    return _by_seed(root_seed, purpose, seeds, lambda draw: draw.standard_gamma(shape, SEEDS_PER_BLOCK))


def shuffled_batches(root_seed: int, seed: int, examples: int, batch_size: int, steps: int) -> np.ndarray:
    """Return example indices [step, batch_size]: each epoch a new order, its incomplete last batch dropped."""
    draw, per_epoch = generator(root_seed, "batches", seed), examples // batch_size
    epochs = [draw.permutation(examples)[: per_epoch * batch_size] for _ in range(-(-steps // per_epoch))]
    return np.concatenate(epochs).reshape(-1, batch_size)[:steps].astype(np.int32)


def _by_seed(root_seed: int, purpose: str, seeds: np.ndarray, draw_block) -> np.ndarray:
    """Return each seed's row of the block of seeds that it belongs to."""
    seeds = np.asarray(seeds)
    blocks, place = np.unique(seeds // SEEDS_PER_BLOCK, return_inverse=True)
    drawn = np.stack([draw_block(generator(root_seed, purpose, int(block))) for block in blocks])
    return drawn[place, seeds % SEEDS_PER_BLOCK]
