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
from tests.torture import calls, faults, kinds
from tests.torture.forked import attempt, outcome
from tests.torture.stores import Workshop
from tests.torture.tally import Tally

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("torture"))


def rounds(kind: kinds.Round, shop: Workshop, count: int = 4, seed: int = 0) -> Tally:
    """Return what several rounds of one kind find."""
    tally, draw = Tally(), random.Random(seed)
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

    monkeypatch.setattr(faults, "_drawn", lambda store, draw: exchanged(store))
    assert rounds(faults.file_faults, shop, 1).sins == 0
    monkeypatch.setattr(ChunkFiles, "read", careless)
    assert rounds(faults.file_faults, shop, 1).counts["damaged files"]["silent"] > faults.AT_ONCE


def exchanged(store: Path) -> faults.Fault:
    """Return the fault of one chunk's records in another chunk's place: a good file, but not there."""
    first, second = sorted(one for one in store.glob("models.zarr/scores/c/*/0/0/0") if one.is_file())[:2]
    return faults.Fault(first, second, "is another file", 0)


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
    assert any(
        rounds(kinds.kills, shop, 1, seed).sins for seed in range(12)
    )  # usually the first; a busy machine is slow


@pytest.mark.parametrize("sin", ["traceback", "hung"])
def test_a_traceback_and_a_hang_are_told_from_a_sentence(sin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.torture import forked

    monkeypatch.setattr(forked, "PATIENCE", 0.3)
    work: Callable[[], object] = (lambda: 1 / 0) if sin == "traceback" else (lambda: __import__("time").sleep(5))
    assert attempt(work).how == sin


def test_a_traceback_that_only_python_prints_is_counted() -> None:
    class Half:
        def __del__(self) -> None:
            raise AttributeError("_ssock")

    ended = attempt(lambda: Half() and None)
    assert ended.how == "traceback"
    assert "_ssock" in ended.value
    assert attempt(lambda: None).how == "done"


def test_a_failing_call_counts_only_where_it_was_made(tmp_path: Path) -> None:
    def opened_twice() -> list[bool]:
        trap, found = calls.Trap(tmp_path), []
        for number in (0, 1, 2):
            trap.set(number, calls.failure(5))
            ended = outcome(lambda: [(tmp_path / "a").write_text("b") for _ in range(2)] and None)
            found += [trap.sprung, ended.how == "traceback"]
        return found

    assert attempt(opened_twice).value == [True, True, True, True, False, False]
