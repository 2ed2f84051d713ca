"""What a user passes as a model; one of the library's own is passed on without loading JAX."""

from __future__ import annotations

from typing import Any

from seedscope.core import SeedscopeError
from seedscope.models.base import Model


def as_model(model: Any) -> Model:
    """Return the model for what a user passed: a model, a pair, a module, or a function that makes one."""
    if isinstance(model, Model):
        return model
    pair = isinstance(model, tuple) and len(model) == 2 and all(callable(function) for function in model)
    if pair or callable(model):
        from seedscope.models.custom import Custom  # JAX

        name = "custom" if pair else getattr(model, "__name__", type(model).__name__)
        return Custom(tuple(model) if pair else model, name)
    raise SeedscopeError(
        f"model must be a Seedscope model, an (init, apply) pair or a function key → Equinox module, got {model!r}."
    )
