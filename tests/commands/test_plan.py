"""`seedscope plan` and `seedscope train --until-error`, with right and with wrong input."""

import json
from pathlib import Path

import numpy as np
import pytest

from seedscope import multiplicity
from seedscope.cli import main


@pytest.fixture
def command(monkeypatch, capsys):
    """Return a function that runs a command in this process and returns its exit code, output and complaint."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["seedscope", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """Return a table whose column `one_class` marks test rows of one class only."""
    draw = np.random.default_rng(0)
    age = draw.normal(size=80)
    sick = (age + 0.3 * draw.normal(size=80) > 0).astype(int)
    one_class = (sick == 1) & (np.arange(80) < 40)
    part, sex = np.where(one_class, "test", "train"), np.where(np.arange(80) % 2, "m", "f")
    lines = [",".join(map(str, row)) for row in zip(age.round(3), sick, sex, part, strict=True)]
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(["age,sick,sex,one_class", *lines]))
    return path


def test_a_plan_says_models_time_and_space_for_each_way(command):
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


def test_a_plan_reads_as_a_table(command):
    code, out, _ = command("plan", "breast-cancer", "--error", "0.2", "--examples", "10", "--jobs", "1")
    assert code == 0
    assert "10 disagreements to within 0.2" in out
    assert "--until-error 0.2" in out


def test_more_examples_need_only_a_few_more_models(command):
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
def test_a_plan_that_makes_no_sense_is_refused_in_one_sentence(command, arguments, words):
    code, out, complaint = command("plan", *arguments)
    assert (code, out) == (2, "")
    assert words in complaint
    assert "Traceback" not in complaint


def test_training_until_an_error_says_what_is_known(command, tmp_path: Path):
    store = str(tmp_path / "store")
    arguments = ("train", "--mechanism", "objective", "--until-error", "0.4", "--store", store, "--jobs", "1", "--json")
    code, out, _ = command(*arguments)
    found = json.loads(out)
    assert code == 0
    assert found["until_error"]["reached"]
    assert found["until_error"]["error"]["value"] <= 0.4
    assert found["until_error"]["error"]["kind"] == "statistical"
    assert json.loads(command(*arguments)[1]) == found


def test_a_limit_that_is_too_small_is_said(command, tmp_path: Path):
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
        (("--until-error", "0.1", "--verify"), "--verify goes with --seeds"),
        (("--until-error", "0"), "error must be"),
    ],
)
def test_mixed_or_impossible_goals_are_refused(command, tmp_path: Path, arguments, words):
    code, _, complaint = command("train", "--store", str(tmp_path / "store"), *arguments)
    assert code == 2
    assert words in complaint
    assert "Traceback" not in complaint


def test_an_unknown_group_is_refused(command, patients: Path):
    code, _, complaint = command("plan", str(patients), "--target", "sick", "--group", "sexx")
    assert code == 2
    assert "unknown group 'sexx'. Did you mean 'sex'?" in complaint


def test_a_study_that_is_unknown_is_refused(command):
    code, _, complaint = command("reproduce", "multiplicty")
    assert code == 2
    assert "Did you mean 'multiplicity'?" in complaint


def test_one_model_alone_has_no_multiplicity(patients: Path):
    import seedscope as ss

    data = ss.read_table(patients, target="sick", groups=["sex"])
    with pytest.raises(ss.SeedscopeError, match="at least two models, got 1; train with more seeds"):
        multiplicity.multiplicity(ss.train(data, ss.ObjectivePerturbation(1.0), grid=ss.Grid(1)))


def test_a_test_part_of_one_class_is_refused_where_both_are_needed(patients: Path):
    import seedscope as ss

    data = ss.read_table(patients, target="sick", groups=["sex"], test="one_class")
    ensemble = ss.train(data, ss.ObjectivePerturbation(1.0), grid=ss.Grid(4))
    with pytest.raises(ss.SeedscopeError, match="at least two classes"):
        multiplicity.multiplicity(ensemble)


def test_scores_that_are_no_probabilities_are_refused():
    from seedscope.errors import SeedscopeError

    with pytest.raises(SeedscopeError, match=r"scores must be in \[0, 1\], got values from -0.5 to 0.2"):
        multiplicity.multiplicity(np.array([[0.2, -0.5], [0.1, 0.0]]))
