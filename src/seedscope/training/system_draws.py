"""Random numbers for a model that is published: from the operating system, kept nowhere, exact where noise is released.

`normals` and `gammas` are within 2⁻⁴⁴ (relative) of ideal ones; what is made of them is smoothed before it is released.
`rounded_normals` and `discrete_laplace` are released as they are, so they are exact: integers whose probabilities are
those of the theorem (to within 2⁻¹²⁸), not numbers on the uneven grid of floating point, which gives away what was
added to what (Mironov 2012).
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np

from seedscope.core import require

MORE_BITS = 192  # that a number gets where its rounding is not clear
DIGITS = 120  # of decimals with which it is then computed


class SystemDraws:
    """Draws from the operating system's generator (256 bits of state and more); nothing can be drawn again.

    `bits` gives that many random bytes; tests may give others.
    """

    def __init__(self, bits: Callable[[int], bytes] = os.urandom):
        self.bits = bits

    def words(self, count: int) -> np.ndarray:
        """Return uniform 64-bit words."""
        return np.frombuffer(self.bits(8 * count), np.uint64)

    def uniforms(self, count: int) -> np.ndarray:
        """Return uniforms in (0, 1] with 53 significant bits, however small they are."""
        high, low = self.words(count).astype(float), self.words(count).astype(float)
        drawn: np.ndarray = high * 2.0**-64 + (low + 1) * 2.0**-128
        return drawn

    def normals(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return standard normals (Box–Muller)."""
        count = math.prod(shape)
        radii, angles = np.sqrt(-2 * np.log(self.uniforms(count))), 2 * np.pi * self.uniforms(count)
        drawn: np.ndarray = (radii * np.cos(angles)).reshape(shape)
        return drawn

    def gammas(self, count: int, shape: float) -> np.ndarray:
        """Return Gamma(shape, 1) variables for a whole or half shape: sums of exponentials, half a squared normal."""
        whole, half = divmod(2 * shape, 2)
        require(half in (0, 1), f"gammas are drawn for whole and half shapes, got {shape}.")
        exponentials: np.ndarray = -np.log(self.uniforms(count * int(whole))).reshape(count, int(whole)).sum(axis=1)
        if half:
            exponentials += 0.5 * self.normals((count,)) ** 2
        return exponentials

    def batch(self, examples: int, probability: float) -> np.ndarray:
        """Return a Poisson batch: each example with the probability, rounded down to a multiple of 2⁻⁵³."""
        if probability >= 1:
            return np.arange(examples)
        return np.flatnonzero(self.words(examples) >> np.uint64(11) < np.uint64(math.floor(probability * 2**53)))

    def rounded_normals(self, scale: float, count: int) -> np.ndarray:
        """Return integers ⌊scale·Z + ½⌋ of standard normals Z, exactly distributed, for scales up to 2⁴⁰.

        Marsaglia's polar method in double precision; where its error could change the integer, or whether a point is
        inside the circle, more bits are drawn and it is computed with 120 decimals.
        """
        require(1 <= scale <= 2.0**40, f"scale must be from 1 to 2^40, got {scale}.")
        drawn = np.zeros(0, np.int64)
        while len(drawn) < count:
            drawn = np.concatenate([drawn, self._some_rounded(scale, (count - len(drawn)) * 4 // 3 + 8)])
        return drawn[:count]

    def _some_rounded(self, scale: float, pairs: int) -> np.ndarray:
        """Return the integers that this many points of a square give."""
        points = self.words(2 * pairs).reshape(2, pairs)
        x, y = points.astype(np.int64).astype(float) * 2.0**-63  # in [−1, 1), to within 2⁻⁵³
        squares = x * x + y * y
        unclear = (np.abs(squares - 1) < 2.0**-40) | (squares < 2.0**-16)
        inside = (squares < 1) | unclear
        clear = np.where(inside & ~unclear, squares, 0.5)
        logs = -2 * np.log(clear)
        values = scale * x * np.sqrt(logs / clear)
        # The square is known to within 2⁻⁵⁰; all else is relative: x, the logarithm, the root, the products.
        error = 2.0**-48 * (np.abs(values) + scale / np.sqrt(logs))
        unclear |= inside & ~(np.abs(values + 0.5 - np.round(values + 0.5)) > error)  # rounding could change
        integers = np.floor(values + 0.5).astype(np.int64)
        for place in np.flatnonzero(unclear & inside):
            known = self._exactly(scale, *(int(word) for word in points[:, place].astype(np.int64)))
            integers[place], inside[place] = (0, False) if known is None else (known, True)
        kept: np.ndarray = integers[inside]
        return kept

    def _exactly(self, scale: float, x: int, y: int) -> int | None:
        """Return the integer of a point given by its first 64 bits, with more bits; None outside the circle."""
        more = [int.from_bytes(self.bits(MORE_BITS // 8), "big") for _ in range(2)]
        with localcontext() as context:
            context.prec = DIGITS
            unit = Decimal(2) ** (63 + MORE_BITS)
            first, second = (
                (Decimal((high << MORE_BITS) + low) + Decimal(1) / 2) / unit
                for high, low in zip((x, y), more, strict=True)
            )
            square = first * first + second * second
            if square >= 1:
                return None
            value = Decimal(scale) * first * (-2 * square.ln() / square).sqrt()
            return int((value + Decimal(1) / 2).to_integral_value("ROUND_FLOOR"))

    def discrete_laplace(self, scale: int, count: int) -> np.ndarray:
        """Return integers with probabilities ∝ exp(−|k|/scale), exactly (Canonne, Kamath & Steinke 2020, Alg. 2)."""
        return np.array([self._one_laplace(scale) for _ in range(count)], np.int64)

    def _one_laplace(self, scale: int) -> int:
        """Return one such integer."""
        while True:
            part = self._below(scale)
            if not self._with_chance_exp(part, scale):
                continue
            size = part
            while self._with_chance_exp(1, 1):
                size += scale
            negative = self._below(2) == 1
            if not (negative and size == 0):
                return -size if negative else size

    def _with_chance_exp(self, numerator: int, denominator: int) -> bool:
        """Return True with the chance exp(−numerator/denominator), a fraction of at most 1."""
        trials = 1
        while self._below(denominator * trials) < numerator:
            trials += 1
        return trials % 2 == 1

    def _below(self, bound: int) -> int:
        """Return a uniform whole number below a bound, by rejection."""
        if self.bits is os.urandom:
            return secrets.randbelow(bound)
        length = max(1, (bound - 1).bit_length())
        while True:
            drawn = int.from_bytes(self.bits(-(-length // 8)), "big") & ((1 << length) - 1)
            if drawn < bound:
                return drawn
