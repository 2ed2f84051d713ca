"""`seedscope verdict`, and the exit codes of commands that judge."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from seedscope.auditing import audit
from seedscope.commands.cli import app
from seedscope.core.errors import SeedscopeError
from seedscope.report import write_report
from tests.auditing.test_verdict import Situation, exposed
from tests.helpers.report_sample import sample_report

run = CliRunner().invoke


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of an audit in which one person is exposed."""
    place = tmp_path_factory.mktemp("verdict") / "report"
    Situation(shifts=exposed(2.0), trained_on=60).audit().save(place)
    return place


def test_a_report_that_nobody_set_rules_for_ends_well(folder: Path) -> None:
    done = run(app, ["verdict", str(folder)])
    assert done.exit_code == 0
    assert "an attacker can tell who was in the training data" in done.output


def test_conditions_and_policies_decide_the_exit_code(folder: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[rules.accuracy]\nat_least = 0.5\n[declared]\npurpose = 'a test'\n")
    assert run(app, ["verdict", str(folder), "--fail-if", "advantage>0.1"]).exit_code == 1
    assert run(app, ["verdict", str(folder), "--fail-if", "accuracy<0.5"]).exit_code == 0
    assert run(app, ["verdict", str(folder), "--policy", "default"]).exit_code == 1
    assert run(app, ["verdict", str(folder), "--policy", str(policy)]).exit_code == 0
    both = run(app, ["verdict", str(folder), "--policy", str(policy), "--fail-if", "advantage>10%"])
    assert both.exit_code == 1
    assert "policy not kept: Most exposed person's advantage: at most 0.1" in both.output


def test_files_for_pipelines_are_written_and_named(folder: Path, tmp_path: Path) -> None:
    junit, sarif = tmp_path / "ci" / "verdict.xml", tmp_path / "verdict.sarif"
    arguments = ["verdict", str(folder), "--junit", str(junit), "--sarif", str(sarif), "--json"]
    done = run(app, arguments)
    assert json.loads(done.output)["written"] == [str(junit), str(sarif)]
    assert ElementTree.parse(junit).getroot()[0].get("failures") == "1"
    assert [one["ruleId"] for one in json.loads(sarif.read_text())["runs"][0]["results"]] == ["advantage"]


def test_a_report_from_before_policies_can_be_judged(tmp_path: Path) -> None:
    write_report(tmp_path / "old", sample_report(people=6))
    done = run(app, ["verdict", str(tmp_path / "old")])
    assert done.exit_code == 0
    assert "nothing is known about who can be recognised" in done.output or "change" in done.output


def test_a_bug_in_the_training_is_exit_code_three(tmp_path: Path) -> None:
    audit(Situation(shifts=exposed(6.0), epsilon=0.1).ensemble()).save(tmp_path / "bug")
    done = run(app, ["verdict", str(tmp_path / "bug")])
    assert done.exit_code == 3
    assert "AN ATTACK BEATS WHAT IS CLAIMED" in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give the folder of a report"),
        (["nowhere"], "no report at"),
        (["{folder}", "--fail-if", "advantag>1"], "Did you mean 'advantage'?"),
        (["{folder}", "--policy", "nowhere.toml"], "cannot read the policy nowhere.toml"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], said: str, folder: Path) -> None:
    given = [one.format(folder=folder) for one in arguments]
    with pytest.raises(SeedscopeError, match=said.replace("?", r"\?")):
        run(app, ["verdict", *given], catch_exceptions=False)


def test_what_rules_can_be_about_is_listed() -> None:
    done = run(app, ["verdict", "--quantities"])
    assert done.exit_code == 0
    assert "advantage " in done.output
