"""Results as plain values that JSON has."""

from __future__ import annotations

from typing import Any

import numpy as np

from seedscope.number import Number


def number_or_none(number: Number | None) -> dict[str, Any] | None:
    """Return a number as plain values; a value that is not finite becomes null."""
    if number is None:
        return None
    values = number.as_dict() | {"value": number.value}
    return {name: finite(one) for name, one in values.items()}


def plain_list(values: np.ndarray) -> list[Any]:
    """Return an array as a list of rounded numbers, None where it is not finite."""
    return [finite(float(f"{one:.6g}")) for one in np.asarray(values, float)]


def finite(value: Any) -> Any:
    """Return the value, or None for a float that is not finite."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
