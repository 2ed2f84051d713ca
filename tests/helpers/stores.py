"""Stores for tests: the bits of an ensemble, where a chunk's files are, and what can happen to them."""

from __future__ import annotations

from pathlib import Path

from seedscope import Ensemble
from seedscope.execution.run import train_into
from seedscope.planning import Plan
from seedscope.storage import MemoryStore


def bits(ensemble: Ensemble) -> dict[str, bytes]:
    """Return the records as bytes, by name."""
    return {str(name): one.values.tobytes() for name, one in ensemble.dataset.data_vars.items()}


def trained_in_memory(plan: Plan, jobs: int = 1) -> Ensemble:
    """Return the ensemble of a plan, trained in this process unless by more."""
    return Ensemble(train_into(MemoryStore(plan), plan, jobs))


def chunk_file(store: Path, name: str = "weights", chunk: str = "1-0") -> Path:
    """Return the file that holds a variable's records of a chunk."""
    inside = store / "models.zarr" / name / "c" / chunk.replace("-", "/")
    return next(one for one in inside.rglob("*") if one.is_file())


def flip(file: Path, place: float = 0.5, bit: int = 4) -> None:
    """Change one bit of a file, at a place between its first byte, 0, and its last, 1."""
    content = bytearray(file.read_bytes())
    content[int(place * (len(content) - 1))] ^= 1 << bit
    file.write_bytes(content)


def cut(file: Path, share: float = 0.5) -> None:
    """Leave only the first share of a file."""
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
