"""The library speaks in the library's words; a command adds the option that is meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import seedscope
from seedscope.commands.cli import app
from tests.helpers.command_line import run
from tests.helpers.tables import patients, written

SOURCE = Path(seedscope.__file__).parent


def options_of(command: Any) -> set[str]:
    """Return the long options of a command and of the commands below it."""
    own = {name for one in command.params for name in one.opts if name.startswith("--")}
    return own.union(*map(options_of, getattr(command, "commands", {}).values()))


def takes_options(file: Path) -> bool:
    """Return whether a file is of the commands, or is run by `python -m` with options of its own."""
    return "commands" in file.parts or file.name == "__main__.py"


def named_options(module: Path) -> Iterator[str]:
    """Yield what looks like an option in the texts of a module."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"(?<![\w-])--[a-z][a-z-]*", node.value)


def test_no_text_of_the_library_names_an_option_of_the_command_line() -> None:
    known = options_of(typer.main.get_command(app))
    assert {"--store", "--out", "--verify", "--until-error"} <= known
    library = [file for file in SOURCE.rglob("*.py") if not takes_options(file)]
    named = {str(file.relative_to(SOURCE)): sorted(known.intersection(named_options(file))) for file in library}
    assert {place: names for place, names in named.items() if names} == {}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Patients of whom one has an empty cell."""
    people = patients()
    people.loc[3, "income"] = None
    return written(tmp_path, people)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--store", "{table}"], "is a file; choose another place (--store)."),
        (["audit", "--out", "{table}"], "is a file, not a folder; choose another name (--out)."),
        (["train", "{table}", "--target", "sick"], "or leave 1 of 80 rows out (--drop-missing)."),
        (["train", "{table}", "--target", "sick", "--decimal", ";"], "got ';' (--decimal)."),
    ],
)
def test_a_command_adds_the_option_that_a_remedy_is_about(arguments: list[str], words: str, table: Path) -> None:
    done = run(*(one.format(table=table) for one in arguments), cwd=table.parent)
    assert done.returncode == 2
    assert done.stderr.endswith(f"{words}\n")


def test_a_command_without_that_option_says_what_the_library_says(tmp_path: Path) -> None:
    from seedscope.commands.options import in_own_words
    from seedscope.core import SeedscopeError

    @in_own_words
    def command(out: str) -> None:
        raise SeedscopeError(f"{out} is full; choose another store.", argument="store")

    with pytest.raises(SeedscopeError, match=r"^here is full; choose another store\.$"):
        command("here")
