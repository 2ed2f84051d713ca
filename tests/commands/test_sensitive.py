"""`seedscope audit --sensitive`: from a table to what can be told of a column, in all three files; wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from seedscope.commands.cli import app
from seedscope.core.errors import SeedscopeError

SMALL = ["--models", "24", "--neighbours", "0", "--jobs", "1", "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 160 people with a category, a number and one value for all."""
    draw = np.random.default_rng(0)
    smokes, age = draw.choice(["never", "some", "much"], 160), draw.integers(20, 80, 160)
    ill = age / 20 + (smokes == "much") + draw.normal(size=160) > 3
    place = tmp_path_factory.mktemp("sensitive")
    table = pd.DataFrame({"smokes": smokes, "age": age, "weight": draw.normal(70, 9, 160).round(1)})
    table.assign(ill=np.where(ill, "yes", "no")).to_csv(place / "people.csv", index=False)
    return place


def audit(folder: Path, *arguments: str) -> None:
    """Run the command in this process; a mistake raises its one sentence."""
    out = ["--out", str(folder / "report"), "--store", str(folder / "store")]
    given = ["audit", str(folder / "people.csv"), "--target", "ill", *out, *SMALL, *arguments]
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_what_can_be_told_is_in_the_report_the_table_and_on_the_page(folder: Path) -> None:
    audit(folder, "--epsilon", "4", "--sensitive", "smokes", "--sensitive", "ill", "--candidates", "5")
    report = json.loads((folder / "report" / "report.json").read_text())
    smokes, ill = report["levels"][0]["told"]
    assert (smokes["column"], ill["column"]) == ("smokes", "ill")
    assert 1 / 3 < smokes["chance"] <= smokes["mean"] <= smokes["largest"]["value"] <= smokes["ceiling"] <= 1
    rows = pd.read_csv(folder / "report" / "individuals.csv")
    trained, tested = rows[rows["part"] == "train"], rows[rows["part"] == "test"]
    assert tested["told_smokes"].isna().all()
    assert (trained["told_smokes"] <= trained["told_smokes_ceiling"]).all()
    assert (trained["told_smokes"] >= trained["told_smokes_chance"]).all()
    meanings = pd.read_csv(folder / "report" / "dictionary.csv").set_index("column")["meaning"]
    assert meanings["told_smokes"].startswith("The best attacker's chance to guess smokes")
    page = (folder / "report" / "report.html").read_text(encoding="utf-8")
    assert "What can be told of a record" in page
    assert "smokes: " in page
    guesses = report["levels"][0]["reconstruction"]["guesses"]
    assert [one["column"] for one in guesses] == ["smokes"]
    assert guesses[0]["prior"] < guesses[0]["at_most"] < 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sensitive", "smoke"], "unknown sensitive column 'smoke'. Did you mean 'smokes'?"),
        (["--sensitive", "age", "--candidates", "1"], "candidates must be a whole number of at least 2, got 1"),
        (["--sensitive", "age", "--mechanism", "output"], "--sensitive needs a mechanism whose released models"),
        (["--sensitive", "age", "--mechanism", "dpsgd", "--personal-budget", "1"], "leave out --personal-budget"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(folder: Path, arguments: list[str], message: str) -> None:
    place = folder / "elsewhere"
    with pytest.raises(SeedscopeError) as caught:
        audit(folder, *arguments, "--store", str(place))
    assert message in str(caught.value)
    assert not place.exists()
