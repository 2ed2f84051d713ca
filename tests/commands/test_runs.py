"""The second run works, and what runs leave behind can be listed and removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import CliRunner

from seedscope.commands.cli import app
from seedscope.core import SeedscopeError
from seedscope.storage import kept_stores, remove_store
from tests.helpers.tables import patients, written

TRAIN = ["--target", "sick", "--mechanism", "objective", "--seeds", "4", "--jobs", "1"]


def seedscope(*arguments: str) -> str:
    """Return what a command prints on standard output."""
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one table was trained on in several ways, each without naming a store."""
    place = tmp_path_factory.mktemp("runs")
    people = patients(60)
    with pytest.MonkeyPatch.context() as here:
        here.chdir(place)
        table = str(written(place, people))
        seedscope("train", table, *TRAIN)
        seedscope("train", table, *TRAIN, "--seeds", "9")  # more of the same
        seedscope("train", table, *TRAIN, "--epsilon", "2")
        seedscope("train", table, *TRAIN, "--group", "sex")
        seedscope("train", table, *TRAIN, "--seed", "1")
        people.loc[0, "income"] += 1
        written(place, people)
        seedscope("train", table, *TRAIN)
    return place


def test_another_option_group_seed_or_cell_gets_another_store_and_more_seeds_the_same(folder: Path) -> None:
    kept = kept_stores(folder / "runs")
    assert len(kept) == 5
    assert {one.data for one in kept} == {"people"}
    assert all(one.bytes > 1000 and one.chunks > 0 for one in kept)


def test_runs_are_listed_in_words_and_as_json(folder: Path) -> None:
    listed = json.loads(seedscope("runs", "list", str(folder / "runs"), "--json"))
    assert len(listed) == 5
    assert {"path", "data", "mechanism", "chunks", "bytes", "seconds_since_change"} == set(listed[0])
    said = seedscope("runs", "list", str(folder))
    assert "5 stores" in said
    assert "people, ObjectivePerturbation" in said
    assert "No stores" in seedscope("runs", "list", str(folder / "nothing"))


def test_a_store_is_removed_on_request_and_nothing_else(folder: Path) -> None:
    first = kept_stores(folder / "runs")[0].path
    (folder / "runs" / "mine").mkdir()
    (folder / "runs" / "mine" / "notes.txt").write_text("keep")
    with FileLock(first / "lock"), pytest.raises(SeedscopeError, match="a run is writing to"):
        remove_store(first)
    assert "Removed 1 stores" in seedscope("runs", "remove", str(first), "--yes")
    assert not first.exists()
    assert len(kept_stores(folder / "runs")) == 4
    assert "Removed 0 stores" in seedscope(
        "runs", "remove", "--older-than", "1", "--folder", str(folder / "runs"), "--yes"
    )
    with pytest.raises(SeedscopeError, match="is not a store of Seedscope"):
        remove_store(folder / "runs" / "mine")
    with pytest.raises(SeedscopeError, match="no store at"):
        seedscope("runs", "remove", str(folder / "runs" / "mine"), "--yes")
    assert (folder / "runs" / "mine" / "notes.txt").read_text() == "keep"
    done = CliRunner().invoke(app, ["runs", "remove", str(kept_stores(folder)[0].path)], input="n\n")
    assert done.exit_code == 130
    assert len(kept_stores(folder / "runs")) == 4


def test_removing_asks_for_one_of_both_ways() -> None:
    with pytest.raises(SeedscopeError, match="one of both"):
        seedscope("runs", "remove", "--yes")
