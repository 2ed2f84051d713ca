"""The commands that the README starts with run as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.command_line import run

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.split("  #")[0]
    for block in BLOCK.findall(README)
    for line in block.splitlines()
    if line.startswith("seedscope ")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table and the dictionary that the README's commands name."""
    place, draw = tmp_path_factory.mktemp("readme"), np.random.default_rng(0)
    age, pressure = draw.integers(20, 90, 400), draw.normal(130, 20, 400).round()
    outcome = np.where(age + 0.3 * pressure + draw.normal(0, 12, 400) > 95, "ill", "well")
    people = {"age": age, "pressure": pressure, "sex": draw.choice(["f", "m"], 400), "outcome": outcome}
    pd.DataFrame(people).to_csv(place / "patients.csv", index=False)
    (place / "dictionary.toml").write_text('age = [0, 120]\npressure = [50, 250]\nsex = ["f", "m"]\n')
    return place


def test_the_start_has_five_commands() -> None:
    assert len(COMMANDS) == 5
    assert COMMANDS[0].startswith("seedscope audit patients.csv")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs_as_it_stands_there(folder: Path, command: str) -> None:
    done = run(*shlex.split(command)[1:], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout
