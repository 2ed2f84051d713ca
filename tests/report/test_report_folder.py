"""A run's folder is renewed as a whole, and nobody's own files are touched."""

import json

import pytest

from report_sample import changed, sample_individuals, sample_report
from seedscope.errors import SeedscopeError
from seedscope.report import claim_folder, folder, public_report, read_report, write_report

REPORT = sample_report(people=20)
PEOPLE = sample_individuals(REPORT)
NAMES = ["report.html", "report.json", "individuals.csv"]


def content(place):
    """Return every file's name and bytes."""
    return {path.name: path.read_bytes() for path in place.iterdir()}


def test_a_report_is_a_page_its_json_and_a_table(tmp_path):
    paths = write_report(tmp_path / "new" / "run", REPORT, PEOPLE)
    assert [path.name for path in paths] == NAMES
    assert all(path.stat().st_size > 0 for path in paths)
    assert read_report(tmp_path / "new" / "run") == REPORT


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    before = content(tmp_path)
    with pytest.raises(SeedscopeError, match="did not write"):
        write_report(tmp_path, REPORT, PEOPLE)
    assert content(tmp_path) == before


def test_a_report_json_of_someone_else_does_not_make_a_folder_ours(tmp_path):
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(SeedscopeError, match="did not write"):
        claim_folder(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(SeedscopeError, match="is a file"):
        claim_folder(tmp_path / "out")


def test_a_folder_of_ours_is_renewed_and_keeps_its_models(tmp_path):
    claim_folder(tmp_path)
    (tmp_path / "stores").mkdir()
    write_report(tmp_path, REPORT, PEOPLE)
    write_report(tmp_path, changed(REPORT, "title", "Second"), PEOPLE)
    assert read_report(tmp_path)["title"] == "Second"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*NAMES, "stores", folder.MARK])


def test_the_old_report_stays_whole_when_the_new_one_fails(tmp_path, monkeypatch):
    write_report(tmp_path, REPORT, PEOPLE)
    before = content(tmp_path)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder.tables, "write_individuals", fail)
    with pytest.raises(SeedscopeError, match="No space left"):
        write_report(tmp_path, changed(REPORT, "title", "Second"), PEOPLE)
    assert content(tmp_path) == before


def test_a_malformed_report_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(SeedscopeError, match="tone"):
        write_report(tmp_path / "out", changed(REPORT, "verdict.tone", "fine"), PEOPLE)
    assert not (tmp_path / "out").exists()


def test_a_public_report_leaves_no_older_table_of_people(tmp_path):
    write_report(tmp_path, REPORT, PEOPLE)
    write_report(tmp_path, public_report(REPORT))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder.MARK, "report.html", "report.json"])


def test_a_public_report_with_individuals_is_refused(tmp_path):
    with pytest.raises(SeedscopeError, match="must not have rows"):
        write_report(tmp_path / "out", public_report(REPORT), PEOPLE)


def test_rendering_again_gives_the_same_page(tmp_path):
    page = write_report(tmp_path, REPORT, PEOPLE)[0]
    before = page.read_bytes()
    page.unlink()
    assert folder.write_page(tmp_path) == page
    assert page.read_bytes() == before


def test_charts_are_written_for_every_level(tmp_path):
    write_report(tmp_path, sample_report(people=5, epsilons=(1.0, 2.0)))
    paths = folder.write_charts(tmp_path, "svg")
    assert {path.name for path in paths} >= {"people-0.svg", "people-1.svg"}
    assert all(path.read_text(encoding="utf-8").startswith("<svg") for path in paths)


def test_the_json_on_disk_is_strict(tmp_path):
    path = write_report(tmp_path, changed(REPORT, "people.levels.0.disagreement.0", float("nan")), PEOPLE)[1]
    read = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert read["people"]["levels"][0]["disagreement"][0] is None
