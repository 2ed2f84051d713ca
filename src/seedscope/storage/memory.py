"""An ensemble that is kept in memory only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from seedscope.planning import Chunk, Plan
from seedscope.storage import layout
from seedscope.training import Arrays

if TYPE_CHECKING:
    import xarray


class MemoryStore:
    """Records in arrays of this process."""

    def __init__(self, plan: Plan):
        self.plan, self.path = plan, None
        self._arrays = {
            variable.name: np.full(variable.shape, np.nan, variable.dtype) for variable in layout.variables(plan)
        }
        self._done: set[Chunk] = set()
        self._diverged: set[int] = set()

    def missing(self) -> list[Chunk]:
        """Return the chunks that are not done."""
        chunks = self.plan.shape.chunks(self.plan.grid.seeds, len(self.plan.neighbours))
        return [chunk for chunk in chunks if chunk not in self._done]

    def environments(self) -> list[Mapping[str, str]]:
        """Return nothing: all that is in memory was trained just now."""
        return []

    def write(
        self, chunk: Chunk, records: Arrays, seconds: float = 0.0, environment: Mapping[str, str] | None = None
    ) -> None:
        """Keep a chunk's records."""
        where = layout.region(self.plan, chunk)
        kept = layout.trim(self.plan, chunk, records)
        for name, values in kept.items():
            self._arrays[name][where] = values
        self._diverged.update(layout.diverged_seeds(where[0], kept))
        self._done.add(chunk)

    def dataset(self) -> xarray.Dataset:
        """Return the records with named axes."""
        import xarray

        data = {variable.name: (variable.axes, self._arrays[variable.name]) for variable in layout.variables(self.plan)}
        return xarray.Dataset(data, coords=layout.coordinates(self.plan), attrs=layout.attributes(self.plan))

    def diverged(self) -> list[int]:
        """Return the seeds of models with weights that are not finite."""
        return sorted(self._diverged)

    def chunk_seconds(self) -> float | None:
        """Return None: nothing was trained before."""
        return None
