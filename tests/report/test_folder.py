"""A run's folder is renewed as a whole, and nobody's own files are touched."""

import json
from pathlib import Path
from typing import NoReturn

import pandas as pd
import pytest

from seedscope.core.errors import SeedscopeError
from seedscope.report import claim_folder, folder, read_report, write_charts, write_report
from tests.helpers.report_sample import changed, public_report, sample_individuals, sample_report

REPORT = sample_report(people=20)
PEOPLE = sample_individuals(REPORT)
NAMES = ["report.html", "report.json", "individuals.csv", "dictionary.csv"]


def content(place: Path) -> dict[str, bytes]:
    """Return every file's name and bytes."""
    return {path.name: path.read_bytes() for path in place.iterdir()}


def test_a_report_is_a_page_its_json_and_a_table(tmp_path: Path) -> None:
    paths = write_report(tmp_path / "new" / "run", REPORT, PEOPLE)
    assert [path.name for path in paths] == NAMES
    assert all(path.stat().st_size > 0 for path in paths)
    assert read_report(tmp_path / "new" / "run") == REPORT


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    before = content(tmp_path)
    with pytest.raises(SeedscopeError, match="did not write"):
        write_report(tmp_path, REPORT, PEOPLE)
    assert content(tmp_path) == before


def test_a_report_json_of_someone_else_does_not_make_a_folder_ours(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(SeedscopeError, match="did not write"):
        claim_folder(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(SeedscopeError, match="is a file"):
        claim_folder(tmp_path / "out")


def test_a_folder_of_ours_is_renewed_and_keeps_its_models(tmp_path: Path) -> None:
    claim_folder(tmp_path)
    (tmp_path / "stores").mkdir()
    write_report(tmp_path, REPORT, PEOPLE)
    write_report(tmp_path, changed(REPORT, "title", "Second"), PEOPLE)
    assert read_report(tmp_path)["title"] == "Second"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*NAMES, "stores", folder.MARK])


def test_the_old_report_stays_whole_when_the_new_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(tmp_path, REPORT, PEOPLE)
    before = content(tmp_path)

    def fail(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(SeedscopeError, match="No space left"):
        write_report(tmp_path, changed(REPORT, "title", "Second"), PEOPLE)
    assert content(tmp_path) == before


def test_a_malformed_report_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(SeedscopeError, match="tone"):
        write_report(tmp_path / "out", changed(REPORT, "verdict.tone", "fine"), PEOPLE)
    assert not (tmp_path / "out").exists()


def test_a_public_report_leaves_no_older_table_of_people(tmp_path: Path) -> None:
    write_report(tmp_path, REPORT, PEOPLE)
    write_report(tmp_path, public_report(REPORT))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder.MARK, "report.html", "report.json"])


def test_a_public_report_with_individuals_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeedscopeError, match="must not have rows"):
        write_report(tmp_path / "out", public_report(REPORT), PEOPLE)


def test_rendering_again_gives_the_same_page(tmp_path: Path) -> None:
    page = write_report(tmp_path, REPORT, PEOPLE)[0]
    before = page.read_bytes()
    page.unlink()
    assert folder.write_page(tmp_path) == page
    assert page.read_bytes() == before


@pytest.mark.slow
def test_charts_are_written_for_every_level(tmp_path: Path) -> None:
    write_report(tmp_path, sample_report(people=5, epsilons=(1.0, 2.0)))
    paths = folder.write_charts(tmp_path, "svg")
    assert {path.name for path in paths} >= {"people-0.svg", "people-1.svg"}
    assert all(path.read_text(encoding="utf-8").startswith("<svg") for path in paths)


def test_pictures_without_what_draws_them_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(tmp_path / "run", sample_report())
    monkeypatch.setattr("seedscope.core.extras.find_spec", lambda package: None)
    with pytest.raises(SeedscopeError, match=r"need vl-convert: pip install 'seedscope\[pictures\]'"):
        write_charts(tmp_path / "run")
    assert not (tmp_path / "run" / "charts").exists()


def test_the_json_on_disk_is_strict(tmp_path: Path) -> None:
    path = write_report(tmp_path, changed(REPORT, "people.levels.0.disagreement.0", float("nan")), PEOPLE)[1]
    read = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert read["people"]["levels"][0]["disagreement"][0] is None


def test_the_dictionary_says_what_every_column_is(tmp_path: Path) -> None:
    write_report(tmp_path, REPORT, PEOPLE)
    dictionary = pd.read_csv(tmp_path / "dictionary.csv").set_index("column")
    assert dictionary.index.tolist() == list(PEOPLE.columns)
    assert dictionary["meaning"].notna().all()
    assert dictionary.loc["disagreement", "type"] == "number"


def test_parquet_has_the_rows_of_the_table_and_goes_with_it(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write_report(tmp_path, REPORT, PEOPLE, parquet=True)
    assert pd.read_parquet(tmp_path / "individuals.parquet").shape == PEOPLE.shape
    write_report(tmp_path, REPORT, PEOPLE)
    assert not (tmp_path / "individuals.parquet").exists()


def private_run(place: Path) -> None:
    """Write a report with everything private that can lie beside it: pictures, and what a killed audit left."""
    write_report(place, REPORT, PEOPLE)
    folder.write_charts(place, "svg")
    for name in (".individuals.csv.4711.1", ".report.json.4711.1"):
        (place / name).write_text("people")
    (place / ".writing-4711").mkdir()
    (place / ".writing-4711" / "individuals.csv").write_text("people")


@pytest.mark.parametrize("movable", [True, pytest.param(False, marks=pytest.mark.slow, id="a mounted folder")])
def test_nothing_private_is_left_beside_a_public_page(
    tmp_path: Path, movable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    private_run(tmp_path / "out")
    if not movable:
        monkeypatch.setattr("os.rename", lambda *_: (_ for _ in ()).throw(OSError(16, "Device or resource busy")))
    write_report(tmp_path / "out", public_report(REPORT))
    names = sorted(path.name for path in (tmp_path / "out").rglob("*"))
    assert names == sorted([folder.MARK, "report.html", "report.json"])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_pictures_of_an_older_report_do_not_stay_beside_a_new_one(tmp_path: Path) -> None:
    private_run(tmp_path / "out")
    write_report(tmp_path / "out", REPORT, PEOPLE)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*NAMES, folder.MARK])


def test_a_public_report_beside_somebodys_files_is_refused(tmp_path: Path) -> None:
    write_report(tmp_path / "out", REPORT, PEOPLE)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    before = content(tmp_path / "out")
    with pytest.raises(SeedscopeError, match=r"also has notes.txt; choose an empty folder for a public report"):
        write_report(tmp_path / "out", public_report(REPORT))
    assert content(tmp_path / "out") == before


@pytest.mark.parametrize("killed_at", [0, 1, 2])
def test_an_exchange_of_folders_that_was_killed_is_finished_by_the_next_run(
    tmp_path: Path, killed_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    place, renames, real = tmp_path / "out", [0], os.rename
    write_report(place, REPORT, PEOPLE)
    (place / "notes.txt").write_text("mine")

    def killing(source: object, target: object) -> None:
        if renames[0] == killed_at:
            raise KeyboardInterrupt
        renames[0] += 1
        real(str(source), str(target))

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", killing)
        with pytest.raises(KeyboardInterrupt):
            write_report(place, changed(REPORT, "title", "Second"), PEOPLE)
    claim_folder(place)
    assert read_report(place)["title"] == (REPORT["title"] if killed_at < 2 else "Second")
    assert (place / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_about_people_is_its_owners_only_and_a_public_report_everybodys(tmp_path: Path) -> None:
    private, public = write_report(tmp_path / "a", REPORT, PEOPLE), write_report(tmp_path / "b", public_report(REPORT))
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "a", *private))
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in (tmp_path / "b", *public))


def test_a_page_that_is_not_ours_is_not_overwritten(tmp_path: Path) -> None:
    write_report(tmp_path / "out", REPORT, PEOPLE)
    (tmp_path / "out" / folder.MARK).unlink()
    folder.write_page(tmp_path / "out")  # it is ours, as it says itself
    (tmp_path / "out" / "report.html").write_text("<h1>my thesis</h1>")
    with pytest.raises(SeedscopeError, match="was not written by Seedscope; move it away first"):
        folder.write_page(tmp_path / "out")
    assert (tmp_path / "out" / "report.html").read_text() == "<h1>my thesis</h1>"
