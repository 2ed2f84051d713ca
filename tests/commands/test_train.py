"""`seedscope train`: what it says before it starts, what it finds damaged, what it asks and does not ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import typer

from seedscope import Ensemble
from seedscope.commands import options
from seedscope.commands.train import announce
from seedscope.core.errors import SeedscopeError
from seedscope.execution.estimate import Estimate
from tests.helpers.command_line import run, run_alone
from tests.helpers.stores import chunk_file, cut

SMALL = Estimate(10, 20, 1 << 20, 5.0, 2, False, 1 << 30)


def test_the_estimate_comes_first_and_damage_is_named_set_aside_and_mended(tmp_path: Path) -> None:
    command = ["train", "breast-cancer", "--mechanism", "output", "--seeds", "40", "--store", str(tmp_path / "run")]
    first = run(*command, "--memory", "1GiB")
    assert first.returncode == 0, first.stderr
    assert first.stderr.startswith("40 models to train: at most ")
    before = Ensemble.open(tmp_path / "run").weights.values
    cut(chunk_file(tmp_path / "run", chunk="1-0"))
    again = run_alone(*command, "--verify", "--json")
    assert again.returncode == 0, again.stderr
    assert again.stderr.splitlines()[0].startswith(f"seedscope: chunk 1-0 of {tmp_path / 'run'} is damaged")
    assert "models to train" not in again.stderr
    assert (Ensemble.open(tmp_path / "run").weights.values == before).all()


def test_an_estimate_is_said_and_nothing_asked_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    announce(SMALL)
    announce(Estimate(10, 10, 1 << 40, 1e6, 1, True, 1 << 30))
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "10 of 20 models to train: at most 1 MiB, about 5 s with 2 workers (roughly).",
        "10 models to train: at most 1024.0 GiB, about 11.6 days with 1 worker (as before).",
        "The disk has 1.0 GiB left; what is compressed may still fit.",
    ]


@pytest.mark.parametrize(
    ("estimate", "asks"),
    [(SMALL, False), (Estimate(1, 1, 1, 4000.0, 1, True), True), (Estimate(1, 1, 9, 1.0, 1, True, 8), True)],
)
def test_on_a_terminal_only_what_is_long_or_may_not_fit_is_asked_about(
    monkeypatch: pytest.MonkeyPatch, estimate: Estimate, asks: bool
) -> None:
    question = Mock(return_value=True)
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", question)
    announce(estimate)
    assert question.called == asks


@pytest.mark.parametrize("answer", [lambda *_, **__: False, Mock(side_effect=typer.Abort)])
def test_a_question_that_is_declined_or_not_answered_trains_nothing(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[..., bool]
) -> None:
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", answer)
    with pytest.raises(typer.Exit) as ended:
        announce(Estimate(1, 1, 1, 4000.0, 1, True))
    assert ended.value.exit_code == 130


def test_a_cluster_and_a_number_of_processes_exclude_each_other() -> None:
    with pytest.raises(SeedscopeError, match="--jobs is for local processes; leave it out with --cluster"):
        options.on_cluster("tcp://127.0.0.1:1", 2)


def test_a_cluster_without_its_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seedscope.execution.dispatch.find_spec", lambda name: None)
    with (
        pytest.raises(
            SeedscopeError, match=r"a cluster needs the cluster extra; install it with: pip install 'seedscope\["
        ),
        options.on_cluster("tcp://127.0.0.1:1", None),
    ):
        pass


def test_losses_that_are_asked_for_are_in_the_store_and_bad_ones_are_a_mistake(tmp_path: Path) -> None:
    command = ["train", "breast-cancer", "--mechanism", "objective", "--epsilon", "2", "--seeds", "20", "--jobs", "1"]
    done = run(*command, "--losses", "7", "--store", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert Ensemble.open(tmp_path / "run").dataset["privacy_losses"].sizes["loser"] == 7
    assert (
        "no membership attack gains more than 0.762 or finds more than 0.739 % of the members at 0.1 %" in done.stdout
    )
    for wrong, words in (("everyone", "a number of training rows"), ("0", "a number of training rows")):
        found = run(*command, "--losses", wrong, "--store", str(tmp_path / "other"))
        assert (found.returncode, words in found.stderr) == (2, True)
    plain = run("train", "breast-cancer", "--seeds", "2", "--losses", "train", "--store", str(tmp_path / "third"))
    assert plain.returncode == 2
    assert "SGD has none" in plain.stderr
