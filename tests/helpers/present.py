"""A value that may be missing, where a test knows that it is not."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """Return the value, which must be there."""
    assert value is not None
    return value
