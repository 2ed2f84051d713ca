"""`seedscope plan` and `seedscope train --until-error`, with right and with wrong input."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from seedscope import multiplicity
from tests.helpers.command_line import run
from tests.helpers.tables import patients, written


def command(*arguments: str) -> tuple[int, str, str]:
    """Return a command's exit code, output and complaint."""
    done = run(*arguments)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose column `one_class` marks test rows of one class only."""
    people = patients()
    one_class = (people.sick == 1) & (people.index < 40)
    return written(tmp_path, people.assign(one_class=np.where(one_class, "test", "train")), "patients.csv")


def test_a_plan_says_models_time_and_space_for_each_way() -> None:
    code, out, _ = command("plan", "breast-cancer", "--error", "0.1", "--json", "--jobs", "1")
    found = json.loads(out)
    ways = found["ways"]
    assert code == 0
    assert found["examples"] == 143
    assert ways["the paper's bound"]["models"] == multiplicity.models_needed(0.1, 0.95, 143)
    assert ways["exact interval"]["models"] == multiplicity.models_needed_exact(0.1, 0.95, 143)
    assert all(way["seconds"] > 0 and way["bytes"] > 0 for way in ways.values())
    assert ways["the paper's bound"]["bytes"] > ways["exact interval"]["bytes"]
    assert found["measured"]["kind"] == "estimate"


def test_a_plan_reads_as_a_table() -> None:
    code, out, _ = command("plan", "breast-cancer", "--error", "0.2", "--examples", "10", "--jobs", "1")
    assert code == 0
    assert "10 disagreements to within 0.2" in out
    sizes = re.findall(r"\d (bytes|[KMG]i?B)\b", out)
    assert (sizes[0], set(sizes[1:])) == ("MiB", {"KiB"})  # the units of `train`
    assert "--until-error 0.2" in out


def test_more_examples_need_only_a_few_more_models() -> None:
    counts = [
        json.loads(command("plan", "--error", "0.2", "--examples", examples, "--json", "--jobs", "1")[1])["ways"]
        for examples in ("10", "1000")
    ]
    few, many = (ways["exact interval"]["models"] for ways in counts)
    assert few < many < 4 * few


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--error", "-1"), "error must be"),
        (("--confidence", "1"), "confidence must be in (0, 1)"),
        (("--examples", "0"), "examples must be"),
        (("--mechanism", "sgd", "--epsilon", "1"), "--epsilon"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_in_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    code, out, complaint = command("plan", *arguments)
    assert (code, out) == (2, "")
    assert words in complaint
    assert "Traceback" not in complaint


@pytest.mark.slow
def test_training_until_an_error_says_what_is_known(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    arguments = ("train", "--mechanism", "objective", "--until-error", "0.4", "--store", store, "--jobs", "1", "--json")
    code, out, _ = command(*arguments)
    found = json.loads(out)
    assert code == 0
    assert found["until_error"]["reached"]
    assert found["until_error"]["error"]["value"] <= 0.4
    assert found["until_error"]["error"]["kind"] == "statistical"
    assert json.loads(command(*arguments)[1]) == found


def test_a_limit_that_is_too_small_is_said(tmp_path: Path) -> None:
    code, out, _ = command(
        "train", "--mechanism", "objective", "--until-error", "0.1", "--max-seeds", "10", "--store", str(tmp_path / "s")
    )  # fmt: skip
    assert code == 0
    assert "not yet 0.1, raise --max-seeds" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--until-error", "0.1", "--seeds", "5"), "leave --seeds out"),
        (("--max-seeds", "5"), "--max-seeds goes with --until-error"),
        (("--until-error", "0.1", "--max-seeds", "1"), "maximum must be a whole number of at least 2"),
        (("--until-error", "0.1", "--init", "both"), "independent"),
        (("--until-error", "0"), "error must be"),
    ],
)
def test_mixed_or_impossible_goals_are_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    code, _, complaint = command("train", "--store", str(tmp_path / "store"), *arguments)
    assert code == 2
    assert words in complaint
    assert "Traceback" not in complaint


def test_an_unknown_group_is_refused(table: Path) -> None:
    code, _, complaint = command("plan", str(table), "--target", "sick", "--group", "sexx")
    assert code == 2
    assert "unknown group 'sexx'. Did you mean 'sex'?" in complaint


def test_a_study_that_is_unknown_is_refused() -> None:
    code, _, complaint = command("reproduce", "multiplicty")
    assert code == 2
    assert "Did you mean 'multiplicity'?" in complaint


def test_one_model_alone_has_no_multiplicity(table: Path) -> None:
    import seedscope as ss

    data = ss.read_table(table, target="sick", groups=["sex"])
    with pytest.raises(ss.SeedscopeError, match="at least two models, got 1; train with more seeds"):
        multiplicity.multiplicity(ss.train(data, ss.ObjectivePerturbation(1.0), grid=ss.Grid(1)))


def test_a_test_part_of_one_class_is_refused_where_both_are_needed(table: Path) -> None:
    import seedscope as ss

    data = ss.read_table(table, target="sick", groups=["sex"], test="one_class")
    ensemble = ss.train(data, ss.ObjectivePerturbation(1.0), grid=ss.Grid(4))
    with pytest.raises(ss.SeedscopeError, match="at least two classes"):
        multiplicity.multiplicity(ensemble)


def test_scores_that_are_no_probabilities_are_refused() -> None:
    from seedscope.core.errors import SeedscopeError

    with pytest.raises(SeedscopeError, match=r"scores must be in \[0, 1\], got values from -0.5 to 0.2"):
        multiplicity.multiplicity(np.array([[0.2, -0.5], [0.1, 0.0]]))
