"""The axes of what is recorded of models: the last step, and the initial point that is drawn anew for every seed."""

from __future__ import annotations

from typing import Any


def last_step(records: Any) -> Any:
    """Return records (xarray) at the last checkpoint, or as they are where there is only one."""
    return records.isel(step=-1) if "step" in records.dims else records


def varied_init(records: Any) -> Any:
    """Return records (xarray) of the models whose initial point is the seed's; where all share one, of those."""
    return records.isel(init=-1)
