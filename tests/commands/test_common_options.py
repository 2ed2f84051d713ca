"""A file of options, and a log that programs read."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import run
from tests.helpers.tables import patients, written

SMALL = {"models": 20, "neighbours": 0, "jobs": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table and a file of options about it."""
    written(tmp_path, patients(120))
    options: dict[str, Any] = {"data": "people.csv", "target": "sick", "group": ["sex"], "epsilon": [0.5, 2.0]}
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in (options | SMALL).items()]
    (tmp_path / "audit.toml").write_text("".join(lines))
    return tmp_path


def report_in(folder: Path) -> Any:
    """Return the report that was written."""
    return json.loads((folder / "seedscope-report" / "report.json").read_text())


def events(text: str) -> list[dict[str, Any]]:
    """Return the events of a log: every line is one."""
    return [json.loads(line) for line in text.splitlines()]


def test_a_file_of_options_is_the_command_line_and_is_written_back_whole(folder: Path) -> None:
    done = run("audit", "--config", "audit.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    first = report_in(folder)
    assert [level["epsilon"] for level in first["levels"]] == [0.5, 2.0]
    assert first["groups"][0]["name"] == "sex"
    back = tomllib.loads(first["provenance"]["configuration"])
    assert back["target"] == "sick"
    assert back["neighbour-models"] == 100
    assert back["mechanism"] == "gaussian-objective"
    (folder / "again.toml").write_text(first["provenance"]["configuration"])
    assert run("audit", "--config", "again.toml", cwd=folder).returncode == 0
    again = report_in(folder)
    assert again["levels"] == first["levels"]
    assert again["provenance"]["configuration"] == first["provenance"]["configuration"]


def test_what_is_on_the_command_line_counts_more_than_the_file(folder: Path) -> None:
    done = run("audit", "--config", "audit.toml", "--epsilon", "4", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert [level["epsilon"] for level in report_in(folder)["levels"]] == [4.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modles = 3", "Did you mean 'models'?"),
        ("json = true", "unknown option in audit.toml 'json'"),
        ("models = ", "is not TOML"),
        ("[models]\nseeds = 3", "must be a value or a list of values"),
        ('models = "many"', "Invalid value for '--models'"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(folder: Path, text: str, words: str) -> None:
    (folder / "audit.toml").write_text(text)
    done = run("audit", "--config", "audit.toml", cwd=folder)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    done = run("plan", "--config", "nowhere.toml", cwd=tmp_path)
    assert (done.returncode, "--config nowhere.toml cannot be read" in done.stderr) == (2, True)


def test_a_log_has_an_event_a_line_from_reading_to_the_exit_code(folder: Path) -> None:
    done = run("audit", "--config", "audit.toml", "--log-json", "--json", cwd=folder)
    assert json.loads(done.stdout)["verdict"]
    found = events(done.stderr)
    kinds = [one["event"] for one in found]
    assert {"reading", "progress", "written", "end"} <= set(kinds)
    assert kinds[-1] == "end"
    assert found[-1]["exit_code"] == done.returncode == 0
    last = [one for one in found if one["event"] == "progress"][-1]
    assert last["done"] == last["total"] == 20


def test_a_failure_is_an_event_with_its_exit_code(folder: Path) -> None:
    done = run("audit", "people.csv", "--target", "nothing", "--log-json", cwd=folder)
    assert done.returncode == 2
    (last,) = [one for one in events(done.stderr) if one["event"] == "end"]
    assert last["exit_code"] == 2
    assert "nothing" in last["message"]
    assert "seedscope: unknown target" in run("audit", "people.csv", "--target", "nothing", cwd=folder).stderr
