"""JAX as training needs it, whatever a notebook's first line or the environment asked for.

A plan's identity says which models it trains; precision and generators are not in it. So they are the same around all
training: 32-bit numbers, partitionable Threefry, no debugging modes. What cannot be set here (processor, compiler's
flags, versions) is recorded with each chunk instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

SETTINGS: dict[str, Any] = {
    "enable_x64": False,
    "threefry_partitionable": True,
    "default_prng_impl": "threefry2x32",
    "default_matmul_precision": None,
    "numpy_dtype_promotion": "standard",
    "numpy_rank_promotion": "allow",
    "debug_nans": False,
    "debug_infs": False,
    "disable_jit": False,
}


@contextmanager
def settled() -> Iterator[None]:
    """Have JAX use the precision and the generators that stored models were made with; it loads JAX."""
    import jax
    import jax.experimental

    with ExitStack() as stack:
        for name, value in SETTINGS.items():
            change = getattr(jax if hasattr(jax, name) else jax.experimental, name)  # older versions have some there
            if getattr(jax.config, f"jax_{name}", value) != value:
                stack.enter_context(change(value))
        yield
