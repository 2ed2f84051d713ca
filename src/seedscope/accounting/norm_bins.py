"""Step divergences looked up instead of computed: relative norms rounded up to bins a few thousandths apart.

A bin is a floating-point number with few digits, so that a norm's bin is read off its bits, in NumPy and in compiled
training alike. Divergences are tabulated at the bins' upper ends: what is looked up is never below the truth.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from seedscope.accounting.sampled_gaussian import sampled_gaussian_rdp
from seedscope.core import require

MANTISSA_BITS = 8  # of a norm's bin: neighbouring bins differ by at most 2⁻⁸
OCTAVES = 14  # bins reach down to 2⁻¹⁴ of the clipping norm; what is smaller is rounded up to that
SHIFT = 23 - MANTISSA_BITS
TOP = int(np.float32(1.0).view(np.uint32)) >> SHIFT
BINS = (OCTAVES << MANTISSA_BITS) + 1
ABOVE = 1 + 2.0**-22  # more than what dividing by the clipping norm rounds away


def bin_edges() -> np.ndarray:
    """Return the upper end of each bin of relative norms, the last 1; they are floats with few digits."""
    bits = ((np.arange(BINS, dtype=np.int64) - (BINS - 1) + TOP) << SHIFT).astype(np.uint32)
    return bits.view(np.float32).astype(float)


def binned_up(norms: np.ndarray, clipping_norm: float) -> np.ndarray:
    """Return the bin of each clipped norm, whose upper end is at least the norm.

    >>> bin_edges()[binned_up(np.array([0.3, 5.0]), clipping_norm=1.0)].tolist()
    [0.30078125, 1.0]
    """
    relative = np.asarray(norms, np.float32) * np.float32(ABOVE / clipping_norm)
    np.minimum(relative, np.float32(1.0), out=relative)
    bits = relative.view(np.uint32)
    bits += np.uint32((1 << SHIFT) - 1)
    bits >>= np.uint32(SHIFT)
    require(bits <= TOP, "gradient norms must be at least 0 and not NaN; a run that diverged must be left out.")
    return np.maximum(bits.astype(np.int32) - (TOP - (BINS - 1)), 0)


@lru_cache(maxsize=256)
def divergence_table(noise_multiplier: float, sampling_probability: float, order: float) -> np.ndarray:
    """Return the divergence of a step at the upper end of each bin.

    >>> table = divergence_table(1.0, 0.1, 2.0)
    >>> float(table[-1]) == float(sampled_gaussian_rdp(1.0, 1.0, 0.1, 2.0))
    True
    """
    table = np.asarray(sampled_gaussian_rdp(bin_edges(), noise_multiplier, sampling_probability, order))
    table.setflags(write=False)
    return table
