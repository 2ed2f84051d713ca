"""Hostile names: nothing in a table or a path controls a terminal, becomes a formula, or tells where files lie."""

from __future__ import annotations

import ast
import csv
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import seedscope
from seedscope.commands.terminal import say
from tests.helpers.command_line import run

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
ESCAPE, FORMULA = "na\x1b[31mme", "=HYPERLINK(1)"
SMALL = ("--models", "12", "--neighbours", "2", "--neighbour-models", "8", "--epsilon", "1", "--jobs", "1", "--quiet")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name, and a table in it whose name, columns, levels and identifiers are hostile."""
    folder = tmp_path_factory.mktemp("hostile") / "caf\udce9 \x1b[2J{x} [red]"
    folder.mkdir()
    draw = np.random.default_rng(0)
    with open(folder / "p\udce9ople\x1b.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([ESCAPE, "=cmd()", "b;\t@x", "sex", "y"])
        for k in range(60):
            value = draw.normal()
            sex = "\x1b[2Jm" if k % 2 else f"=f;{FORMULA}"
            writer.writerow([f"{FORMULA}\t+{k}", round(value, 3), k % 7, sex, "+yes" if value > 0 else "-no\x9b"])
    return folder


@pytest.fixture(scope="module")
def audited(place: Path) -> Path:
    """The folder after an audit, named by absolute paths."""
    table = str(place / "p\udce9ople\x1b.csv")
    options = ("--target", "y", "--id", ESCAPE, "--group", "sex", "--store", str(place / "st\udce9re"))
    shown = run("audit", table, *options, *SMALL, "--out", str(place / "out\udce9"), "--json")
    assert shown.returncode == 0, shown.stderr
    assert not CONTROLS.search(shown.stdout + shown.stderr)
    return place / "out\udce9"


def test_a_name_that_is_no_utf_8_fails_neither_before_nor_after_training(audited: Path) -> None:
    assert {"report.html", "report.json", "individuals.csv"} <= {one.name for one in audited.iterdir()}
    assert run("report", str(audited)).returncode == 0
    assert run("verdict", str(audited)).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("audit", "TABLE", "--target", "y", "--group", "sex", "--id", ESCAPE, *SMALL[:-1], "--out", "OUT"),
        ("train", "TABLE", "--target", "y", "--group", "sex", "--seeds", "2", "--store", "STORE"),
        ("train", "TABLE", "--target", "outcome"),
        ("plan", "TABLE", "--target", "y", "--error", "0.2"),
        ("compare", "TABLE", "--target", "y", "--models", "20", "--advantage", "0.5"),
        ("runs", "list", "FOLDER"),
        ("report", "TABLE"),
    ],
    ids=lambda one: "-".join(one[:2]),
)  # fmt: skip
def test_no_command_lets_a_table_control_the_terminal(place: Path, command: tuple[str, ...], tmp_path: Path) -> None:
    names = {"TABLE": place / "p\udce9ople\x1b.csv", "FOLDER": place, "STORE": tmp_path / "\x1b[31m{s}",
             "OUT": place / "out\udce9 again"}  # fmt: skip
    shown = run(*(str(names.get(one, one)) for one in command), cwd=tmp_path)
    assert not CONTROLS.search(shown.stdout + shown.stderr), shown.stdout + shown.stderr
    assert "Traceback" not in shown.stderr
    assert shown.stdout + shown.stderr


def test_no_file_of_a_report_says_where_it_was_made(audited: Path) -> None:
    home = str(audited.parent.parent).encode()
    for file in [one for one in audited.rglob("*") if one.is_file()]:
        assert home not in os.fsencode(file.read_bytes()), file.name


def test_own_models_and_policies_say_no_places_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seedscope.auditing import read_policy
    from seedscope.commands.terminal import said_command

    monkeypatch.setattr(sys, "argv", ["seedscope", "audit", "/home/ada/x.csv", "--policy=/home/ada/rules.toml"])
    assert said_command() == "seedscope audit x.csv --policy=rules.toml"
    (tmp_path / "rules.toml").write_text("[rules.advantage]\nat_most = 0.1\n")
    assert read_policy(tmp_path / "rules.toml").origin == "rules.toml"


SEPARATORS = (",", ";", "\t", "|")


@pytest.mark.parametrize("separator", SEPARATORS)
def test_whatever_separator_a_spreadsheet_splits_at_no_cell_begins_a_formula(audited: Path, separator: str) -> None:
    text = (audited / "individuals.csv").read_text(encoding="utf-8")
    for quote in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
        for row in csv.reader(text.splitlines(), delimiter=separator, quoting=quote):
            for cell in row:
                bare = cell.strip().strip('"').strip()
                assert not re.match(r"[=@＝＠]", bare), cell
                assert not re.match(r"[+\-](?!\d|\.|$)", bare), cell


def test_commands_print_through_one_door_that_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2J\udce9")
    assert capsys.readouterr().out == "a\\x1b[2J\\udce9\n"
    folder = Path(seedscope.__file__).parent / "commands"
    for file in [one for one in folder.glob("*.py") if one.name != "terminal.py"]:
        called = {ast.unparse(one.func) for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.Call)}
        assert not called & {"typer.echo", "typer.confirm", "print", "click.echo"}, file.name
