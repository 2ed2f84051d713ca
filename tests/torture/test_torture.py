"""Torture that finds nothing because it looks at nothing would be worthless: planted mistakes are found."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seedscope.core import write_durably
from seedscope.planning import Chunk
from seedscope.storage import FolderStore, layout
from seedscope.storage.chunk_files import ChunkFiles, checksums
from seedscope.storage.markers import Marker
from tests.torture import kinds
from tests.torture.forked import attempt
from tests.torture.stores import Workshop
from tests.torture.tally import Tally

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("torture"))


def rounds(kind: kinds.Round, shop: Workshop, count: int = 4) -> Tally:
    """Return what several rounds of one kind find."""
    tally, draw = Tally(), random.Random(0)
    for _ in range(count):
        kind(shop, draw, tally)
    return tally


def test_a_checksum_that_is_not_compared_is_found_by_damaged_files(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(self: ChunkFiles, name: str, chunk: Chunk) -> tuple[np.ndarray, str]:
        marker = self.read_marker(chunk)
        assert marker is not None
        return np.asarray(self.array(name)[self.where(self.facts(name).axes, chunk, marker.filled)]), ""

    monkeypatch.setattr(kinds, "HARMS", {"is another file": lambda file, other, draw: swap(file)})
    assert rounds(kinds.file_faults, shop, 1).sins == 0
    monkeypatch.setattr(ChunkFiles, "read", careless)
    assert rounds(kinds.file_faults, shop, 1).counts["damaged files"]["silent"] == 2


def swap(file: Path) -> None:
    """Exchange the records of two chunks of a variable: each is a good file in a wrong place."""
    store = next(one for one in file.parents if (one / "models.zarr").is_dir())
    chunks = sorted(one for one in store.glob("models.zarr/scores/c/*/0/0/0") if one.is_file())
    first, last = chunks[0].read_bytes(), chunks[1].read_bytes()
    chunks[0].write_bytes(last), chunks[1].write_bytes(first)


def test_a_marker_before_its_records_is_found_by_kills(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def early(self: Any, chunk: Any, records: Any, seconds: float = 0.0, environment: Any = None) -> None:
        trimmed, filled = layout.trim(self.plan, chunk, records), self._needed(chunk)
        kept = {layout.stored_name(name): values for name, values in trimmed.items()}
        marker = Marker(self.files.fingerprint, chunk.name, filled, checksums(kept))
        write_durably(self.files.marker(chunk), marker.text())
        time.sleep(0.05)  # long enough to be killed here
        for name, values in kept.items():
            self.files.array(name)[self.files.where(self._axes[name], chunk, filled)] = values

    monkeypatch.setattr(FolderStore, "write", early)
    monkeypatch.setattr(FolderStore, "_mend", None)  # which would hide it
    assert rounds(kinds.kills, shop, 3).sins > 0


@pytest.mark.parametrize("sin", ["traceback", "hung"])
def test_a_traceback_and_a_hang_are_told_from_a_sentence(sin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.torture import forked

    monkeypatch.setattr(forked, "PATIENCE", 0.3)
    work: Callable[[], object] = (lambda: 1 / 0) if sin == "traceback" else (lambda: __import__("time").sleep(5))
    assert attempt(work).how == sin
