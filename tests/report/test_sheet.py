"""The sheet of one person: their numbers, in sentences, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import seedscope as ss
from seedscope.report import write_sheet
from tests.helpers.command_line import run
from tests.helpers.small_data import table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of two private levels."""
    place = tmp_path_factory.mktemp("report")
    records = ss.Records(probes=("test", "train"), losses_of="train")
    levels = [
        ss.train(table(), ss.ObjectivePerturbation(epsilon=e), grid=ss.Grid(seeds=24), records=records)
        for e in (1.0, 8.0)
    ]
    ss.audit(*levels, data=table()).save(place)
    return place


def person_of(folder: Path, part: str) -> pd.Series:
    """Return the first row of a person of a part."""
    people = pd.read_csv(folder / "individuals.csv", dtype={"id": str})
    return people[people["part"] == part].iloc[0]


def test_a_sheet_says_what_the_table_has_of_this_person(folder: Path) -> None:
    row = person_of(folder, "train")
    path = write_sheet(folder, row["id"])
    text = path.read_text(encoding="utf-8")
    assert f"About {row['id']}" in text
    assert f"{100 * row['advantage']:.1f} points better than guessing" in text
    assert str(row["predicted"]) in text
    assert "What is guaranteed is an estimate" in text  # the scaling was learned from the rows
    assert "<script" not in text
    assert path.stat().st_mode & 0o077 == 0


def test_somebody_of_the_test_part_is_told_that_no_epsilon_is_about_them(folder: Path) -> None:
    text = write_sheet(folder, person_of(folder, "test")["id"]).read_text(encoding="utf-8")
    assert "no ε is about it" in text
    assert "The model never saw you" in text


def test_an_unknown_person_is_one_sentence_and_a_new_report_takes_old_sheets_away(folder: Path) -> None:
    done = run("report", str(folder), "--about", "nobody")
    assert (done.returncode, "nobody is called 'nobody'" in done.stderr) == (2, True)
    person = person_of(folder, "train")["id"]
    assert "Written" in run("report", str(folder), "--about", person).stdout
    assert (folder / "sheets").is_dir()
    ss.audit(ss.train(table(), ss.ObjectivePerturbation(), grid=ss.Grid(seeds=4))).save(folder)
    assert not (folder / "sheets").exists()


def test_a_public_report_and_a_person_exclude_each_other(tmp_path: Path) -> None:
    done = run("audit", "--public", "--about", "3", cwd=tmp_path)
    assert (done.returncode, "--about is about one person" in done.stderr) == (2, True)
