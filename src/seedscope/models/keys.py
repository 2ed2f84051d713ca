"""The one place where a whole number becomes JAX's key: the same key, whatever offset the environment adds to seeds."""

from __future__ import annotations

from typing import Any

import jax


def root_key(seed: Any) -> jax.Array:
    """Return the key of a seed; JAX_RANDOM_SEED_OFFSET, which JAX adds to every seed, is taken away before."""
    return jax.random.key(seed - int(getattr(jax.config, "jax_random_seed_offset", 0) or 0))
