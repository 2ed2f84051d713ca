"""Exponentials and logarithms in single precision, as polynomials that a loop of many operations takes in.

The compiler's own are as fast on their own, but in one loop with what comes before and after them they take twice the
time: they look after infinities, zeros and NaN. Where these are used only NaN can come up, and the caller keeps it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

# of 2^f, −½ ≤ f ≤ ½, and of (ln(1 + x) − x + x²/2)/x³, highest powers first: Cephes' exp2f and logf
POWERS = (
    1.535336188e-4, 1.339887440e-3, 9.618437358e-3, 5.550332471e-2, 2.402264791e-1, 6.931472029e-1, 1.0,
)  # fmt: skip
LOGARITHMS = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
LEAST = -87.0  # an exponent whose power is a normal number; of lower ones it counts as well
LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453
ONE, ROOT_HALF, MANTISSA = 127, 0x3F3504F3, 23  # the exponent of 1, the bits of √½, and where a mantissa ends


def exponential(x: jax.Array) -> jax.Array:
    """Return e^x for x ≤ 88, to single precision; below −87 it is e^−87.

    >>> [round(one, 5) for one in exponential(jnp.float32([0.0, 1.0, -1e9])).tolist()]
    [1.0, 2.71828, 0.0]
    """
    if x.dtype != jnp.float32:
        return jnp.exp(x)
    doublings = jnp.maximum(x, LEAST) * LOG2_E
    whole = jnp.round(doublings)
    power = (whole.astype(jnp.int32) + ONE) << MANTISSA
    return _polynomial(POWERS, doublings - whole) * jax.lax.bitcast_convert_type(power, jnp.float32)


def logarithm(x: jax.Array) -> jax.Array:
    """Return ln x of positive normal numbers, to single precision.

    >>> [round(one, 5) for one in logarithm(jnp.float32([1.0, 2.0, 1e-30])).tolist()]
    [0.0, 0.69315, -69.07755]
    """
    if x.dtype != jnp.float32:
        return jnp.log(x)
    bits = jax.lax.bitcast_convert_type(x, jnp.int32)
    exponent = (bits - ROOT_HALF) >> MANTISSA  # so that the mantissa is in [√½, √2)
    beyond_one = jax.lax.bitcast_convert_type(bits - (exponent << MANTISSA), jnp.float32) - 1
    square = beyond_one * beyond_one
    curved = _polynomial(LOGARITHMS, beyond_one) * beyond_one * square - square / 2
    return beyond_one + curved + exponent.astype(jnp.float32) * LN_2


def _polynomial(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    """Return a polynomial's value, by Horner's rule."""
    total = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total
