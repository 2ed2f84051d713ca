"""What a finished chunk's marker says, and the one place that knows how it is written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from seedscope.core import read_error
from seedscope.storage.metadata import read_json

NEEDED = {"plan": str, "chunk": str, "seeds": int, "neighbours": int, "examples": int, "checksums": dict}


@dataclass(frozen=True)
class Extent:
    """How much of a chunk is filled, along the axes that can grow."""

    seeds: int
    neighbours: int
    examples: int

    def covers(self, needed: Extent) -> bool:
        """Whether at least what is needed is filled.

        >>> Extent(4, 2, 9).covers(Extent(3, 2, 9)), Extent(4, 2, 9).covers(Extent(4, 2, 10))
        (True, False)
        """
        return all(held >= wanted for held, wanted in zip(astuple(self), astuple(needed), strict=True))


@dataclass(frozen=True)
class Marker:
    """That a chunk is done: of which plan and chunk, how much is filled, and the checksum of every record.

    `seconds` is how long training took, None where nobody wrote it down; `diverged` has the seeds whose weights are
    not finite; `environment` what the bits depend on besides the plan, empty where nobody wrote it down.
    """

    plan: str
    chunk: str
    filled: Extent
    checksums: Mapping[str, int]
    seconds: float | None = None
    diverged: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Return the marker as it is written down."""
        known = {"plan": self.plan, "chunk": self.chunk} | asdict(self.filled)
        measured = {"checksums": dict(self.checksums), "seconds": self.seconds, "diverged": list(self.diverged)}
        return json.dumps(known | measured | {"environment": dict(self.environment)})

    @classmethod
    def from_json(cls, written: Any) -> Marker | None:
        """Return the marker that was written down, None where something that it needs is absent or of another type."""
        if not isinstance(written, dict) or not all(isinstance(written.get(k), kind) for k, kind in NEEDED.items()):
            return None
        filled = Extent(*(written[one.name] for one in fields(Extent)))
        seconds, diverged = written.get("seconds"), written.get("diverged")
        return cls(
            written["plan"],
            written["chunk"],
            filled,
            written["checksums"],
            seconds if isinstance(seconds, float | int) else None,
            tuple(one for one in diverged if isinstance(one, int)) if isinstance(diverged, list) else (),
            _texts(written.get("environment")),
        )


def _texts(written: Any) -> dict[str, str]:
    """Return names with texts, nothing where something else was written."""
    plain = isinstance(written, dict) and all(isinstance(one, str) for one in written.values())
    return written if plain else {}


def read_marker(path: Path) -> Marker | None:
    """Return what a marker's file says, None where it is absent or is no marker.

    A marker that the system would not let us read just now is an error: it is not known to be absent.
    """
    try:
        return Marker.from_json(read_json(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise read_error(error, path) from error
