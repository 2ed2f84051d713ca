"""A marker says the same on the disk as ever, and whatever is no marker says nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from seedscope.storage.markers import Extent, Marker, read_marker

MARKER = Marker("8d9b9ea6ec43ec59", "1-0", Extent(2, 3, 11), {"weights": 1623173809}, 0.023, (4,))
WRITTEN = (
    '{"plan": "8d9b9ea6ec43ec59", "chunk": "1-0", "seeds": 2, "neighbours": 3, "examples": 11, '
    '"checksums": {"weights": 1623173809}, "seconds": 0.023, "diverged": [4], "environment": {}}'
)
EARLIER = WRITTEN.replace(', "environment": {}', "")


def test_a_marker_is_written_as_its_readers_expect_it() -> None:
    assert MARKER.text() == WRITTEN


@pytest.mark.parametrize("text", [WRITTEN, EARLIER])
def test_a_marker_is_read_as_it_was_written(tmp_path: Path, text: str) -> None:
    (tmp_path / "1-0.json").write_text(text)
    assert read_marker(tmp_path / "1-0.json") == MARKER


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", "{}", "[" * 100_000, "\udc80"])
def test_what_cannot_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "1-0.json").write_text(text, errors="surrogatepass")
    assert read_marker(tmp_path / "1-0.json") is None
    assert read_marker(tmp_path / "nowhere.json") is None


@pytest.mark.parametrize("name", ["plan", "chunk", "seeds", "neighbours", "examples", "checksums"])
@pytest.mark.parametrize("value", ["absent", None, 1.5, []])
def test_a_marker_without_what_it_needs_says_nothing(name: str, value: Any) -> None:
    written = json.loads(WRITTEN) | {name: value}
    if value == "absent":
        del written[name]
    assert Marker.from_json(written) is None


@pytest.mark.parametrize("more", [{}, {"seconds": "long", "diverged": 3}, {"seconds": None, "diverged": ["a", None]}])
def test_a_marker_counts_without_its_time_and_its_diverged_seeds(more: dict[str, Any]) -> None:
    written = {name: one for name, one in json.loads(WRITTEN).items() if name not in ("seconds", "diverged")} | more
    assert Marker.from_json(written) == Marker(MARKER.plan, MARKER.chunk, MARKER.filled, MARKER.checksums)


@pytest.mark.parametrize("axis", ["seeds", "neighbours", "examples"])
def test_what_is_filled_covers_what_is_needed_only_along_every_axis(axis: str) -> None:
    from dataclasses import replace

    filled = Extent(4, 3, 9)
    assert filled.covers(filled)
    assert filled.covers(replace(filled, **{axis: 2}))
    assert not filled.covers(replace(filled, **{axis: 10}))
