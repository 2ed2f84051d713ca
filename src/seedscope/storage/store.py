"""What training needs of a place for its records, whether that is memory or a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seedscope.planning import Chunk
from seedscope.training import Arrays

if TYPE_CHECKING:
    import xarray


class Store(Protocol):
    """A plan's records while its grid is trained: it is asked what is missing, and given what was trained."""

    @property
    def path(self) -> Path | None:
        """The folder that keeps the records; None where they end with this process."""

    def missing(self) -> list[Chunk]:
        """Return the chunks that are not done."""

    def write(
        self, chunk: Chunk, records: Arrays, seconds: float = 0.0, environment: Mapping[str, str] | None = None
    ) -> None:
        """Take a chunk's records, how long training it took, and what its bits depend on besides the plan."""

    def environments(self) -> list[Mapping[str, str]]:
        """Return the different environments in which the finished chunks of the grid were trained."""

    def dataset(self) -> xarray.Dataset:
        """Return the records with named axes."""

    def diverged(self) -> list[int]:
        """Return the seeds of models with weights that are not finite."""

    def chunk_seconds(self) -> float | None:
        """Return how long a chunk took a worker before, None where none was trained."""
