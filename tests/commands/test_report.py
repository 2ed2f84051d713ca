"""`seedscope report`: the page again, without training."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from seedscope.commands.report import report
from seedscope.core.errors import SeedscopeError
from seedscope.report import write_report
from tests.helpers.report_sample import sample_individuals, sample_report

APP = typer.Typer()
APP.command()(report)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = sample_report(people=15, epsilons=(1.0,))
    write_report(tmp_path, made, sample_individuals(made))
    return tmp_path


def test_the_page_is_made_again(run: Path) -> None:
    (run / "report.html").unlink()
    result = CliRunner().invoke(APP, [str(run)])
    assert result.exit_code == 0
    assert "report.html" in result.output
    assert (run / "report.html").exists()


def test_json_names_what_was_written(run: Path) -> None:
    result = CliRunner().invoke(APP, [str(run), "--charts", "svg", "--json"])
    names = json.loads(result.output)
    assert names["page"].endswith("report.html")
    assert len(names["charts"]) == 5


@pytest.mark.parametrize(
    ("arguments", "message"), [(["nowhere"], "no report at"), ([".", "--charts", "gif"], "svg, png")]
)
def test_a_mistake_is_one_sentence(arguments: list[str], message: str) -> None:
    error = CliRunner().invoke(APP, arguments).exception
    assert isinstance(error, SeedscopeError)
    assert message in str(error)
