"""`seedscope audit` as a person meets it: every mechanism, wrong input, and what stays of an earlier report."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import seedscope as ss
from seedscope import DPSGD
from seedscope.commands.audit import make_levels, rows_of
from seedscope.commands.cli import app
from seedscope.commands.mechanism_options import MechanismOptions
from seedscope.core.errors import SeedscopeError
from seedscope.datasets import from_frame
from tests.helpers.small_data import table as small_table
from tests.helpers.tables import patients, written

SMALL = ["--models", "20", "--neighbours", "4", "--neighbour-models", "16", "--jobs", "1"]


def audit(*arguments: str) -> str:
    """Return what the command prints, run in this process; a mistake raises its one sentence."""
    done = CliRunner().invoke(app, ["audit", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of 120 people in a folder of its own, with a group of one."""
    monkeypatch.chdir(tmp_path)
    people = patients(120).rename(columns={"sex": "team"})
    people.loc[7, "team"] = "alone"
    return written(tmp_path, people)


@pytest.mark.parametrize("mechanism", ["output", "sgd"])
def test_an_audit_ends_with_its_verdict_and_three_files(mechanism: str, table: Path) -> None:
    more = {"output": [], "sgd": ["--steps", "20"]}[mechanism]
    said = audit(str(table), "--target", "sick", "--group", "team", "--mechanism", mechanism, *more, *SMALL)
    assert "Report: seedscope-report/report.html" in said
    names = {one.name for one in Path("seedscope-report").iterdir()}
    assert {"report.html", "report.json", "individuals.csv"} <= names
    report = json.loads(Path("seedscope-report/report.json").read_text())
    assert report["alarms"] == []
    assert "alone (" in report["groups"][0]["note"] or report["groups"][0]["people"][0] >= 2
    rows = pd.read_csv("seedscope-report/individuals.csv")
    assert len(rows) == 120 * len(report["levels"])
    assert rows.columns[:6].tolist() == ["id", "part", "label", "group_team", "level", "epsilon"]


@pytest.mark.slow
def test_dpsgd_reaches_the_epsilon_that_was_asked_for(table: Path) -> None:
    options = shlex.split("--epsilon 3 --delta 1e-4 --batch-size 15 --epochs 2 --clip 0.3")
    audit(str(table), "--target", "sick", "--mechanism", "dpsgd", *options, *SMALL)
    report = json.loads(Path("seedscope-report/report.json").read_text())
    assert report["alarms"] == []
    assert sum(one is not None for one in report["people"]["levels"][0]["epsilon_estimate"]) == 4
    assert 3 * (1 - 1e-4) < report["levels"][0]["epsilon"] <= 3
    assert report["levels"][0]["delta"] == 1e-4
    (folder,) = Path("runs/audit-people-dpsgd").glob("epsilon-3-*")
    stored = ss.Ensemble.open(folder / "neighbours")
    assert (stored.mechanism.batch_size, stored.mechanism.last_step) == (15, 12)
    assert isinstance(stored.mechanism, DPSGD)
    assert stored.mechanism.clipping_norm == 0.3
    assert stored.relation == "add_or_remove"
    assert stored.description.records["norms"]["of"] == "neighbours"


@pytest.mark.parametrize("mechanism", ["gaussian-objective", pytest.param("dpsgd", marks=pytest.mark.slow)])
def test_a_public_audit_prints_nothing_that_depends_on_the_data(table: Path, mechanism: str) -> None:
    options = [str(table), "--target", "sick", "--epsilon", "1", "--public", "--mechanism", mechanism, *SMALL]
    with warnings.catch_warnings(record=True) as warned:
        done = CliRunner().invoke(app, ["audit", *options], catch_exceptions=False)
    told = done.stderr + " ".join(str(one.message) for one in warned)
    assert "How each column was read" not in told
    assert not re.search(r"\b(120|90)\b", told)  # rows, and those to train on
    assert "Report: seedscope-report/report.html" in done.stdout
    assert "%" not in done.stdout
    assert not Path("seedscope-report/individuals.csv").exists()


def test_the_same_inputs_give_the_same_files_but_for_the_time(table: Path) -> None:
    written = []
    for out in ("one", "two"):
        audit(str(table), "--target", "sick", "--epsilon", "1", *SMALL, "--out", out)
        texts = {path.name: path.read_text() for path in Path(out).iterdir() if not path.name.startswith(".")}
        made = json.loads(texts["report.json"])["provenance"]["made"]
        written.append({name: text.replace(made, "MADE") for name, text in texts.items()})
    assert written[0] == written[1]


def test_train_takes_the_same_options(table: Path) -> None:
    options = shlex.split("--mechanism dpsgd --noise-multiplier 2 --steps 10 --seeds 3 --jobs 1 --json")
    done = CliRunner().invoke(app, ["train", str(table), "--target", "sick", *options], catch_exceptions=False)
    summary = json.loads(done.output)
    assert summary["mechanism"]["noise_multiplier"] == 2
    assert summary["guarantee"]["delta"] == pytest.approx(1e-6)
    assert summary["guarantee"]["epsilon"]["kind"] == "estimate"  # the scaling is learned from the rows


def test_a_named_data_set_can_be_compared_by_one_of_its_groups() -> None:
    from seedscope.commands.data_options import with_groups

    data = ss.from_arrays(np.eye(8), [0, 1] * 4, groups={"sex": list("fmfmfmfm"), "age": list("abababab")})
    assert list(with_groups(data, ["age"]).test.groups) == ["age"]
    assert list(with_groups(data, None).groups) == ["sex", "age"]
    with pytest.raises(SeedscopeError, match="Did you mean 'sex'"):
        with_groups(data, ["sax"])


def wrong_tables(folder: Path) -> dict[str, Path]:
    """Return tables with which no audit can be made."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=400)
    split = np.arange(400) < 300
    return {
        "two_rows": written(folder, {"x": [1, 2], "y": [0, 1]}, "two.csv"),
        "many_classes": written(folder, {"x": x, "y": np.arange(400) % 200}, "many.csv"),
        "one_class": written(folder, {"x": x, "y": 1}, "one.csv"),
        "one_class_test": written(
            folder, {"x": x, "y": np.where(split, np.arange(400) % 2, 1), "test": (~split).astype(int)}, "split.csv"
        ),
        "fine": written(folder, {"x": x, "y": (x > 0).astype(int), "g": np.arange(400)}, "fine.csv"),
    }


@pytest.mark.parametrize(
    ("table_name", "options", "said"),
    [
        ("two_rows", [], "has one row only; each class needs at least two"),
        ("many_classes", [], "has 200 different values; is it a regression target?"),
        ("one_class_test", ["--test", "test"], "the test part must hold at least two classes, it has only '1'"),
        ("one_class", [], "at least two"),
        ("fine", ["--models", "1"], "models must be a whole number of at least 2, got 1"),
        ("fine", ["--neighbour-models", "1"], "neighbour_models must be a whole number of at least 2"),
        ("fine", ["--neighbours", "-1"], "neighbours must be a whole number of at least 0"),
        ("fine", ["--epsilon", "0"], "epsilon must be above 0, got 0.0"),
        ("fine", ["--epsilon", "-2"], "epsilon must be above 0"),
        ("fine", ["--epsilon", "nan"], "epsilon must be above 0"),
        ("fine", ["--epsilon", "1", "--epsilon", "1.0"], "each --epsilon must be given once"),
        ("fine", ["--model", "mlp"], "ObjectivePerturbation needs model=logistic()"),
        ("fine", ["--mechanism", "output", "--model", "mlp"], "OutputPerturbation needs model=logistic()"),
        ("fine", ["--mechanism", "dpsgd", "--epsilon", "0"], "epsilon must be above 0"),
        ("fine", ["--mechanism", "sgd", "--l2", "1"], "--l2 is not an option of --mechanism sgd"),
        ("fine", ["--mechanism", "dpsgd", "--delta", "2"], "delta must be in (0, 1)"),
        ("fine", ["--mechanism", "dpsgd", "--batch-size", "301"], "batch_size must be at most the 300 training rows"),
        ("fine", ["--mechanism", "dpsgd", "--batch-size", "0"], "batch_size must be a whole number of at least 1"),
        ("fine", ["--mechanism", "dpsgd", "--steps", "5", "--epochs", "5"], "give either --steps or --epochs"),
        ("fine", ["--mechanism", "dpsgd", "--epochs", "0"], "epochs must be a finite number above 0"),
        ("fine", ["--mechanism", "dpsgd", "--clip", "0"], "clipping_norm must be a finite number above 0"),
        ("fine", ["--mechanism", "sgd", "--clip", "1"], "--clip is not an option of --mechanism sgd"),
        ("fine", ["--mechanism", "dpsgdd"], "Did you mean 'dpsgd'?"),
        ("fine", ["--group", "g"], "20"),
        ("fine", ["--group", "h"], "'h'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_leaves_an_earlier_report_alone(
    table_name: str, options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tables = wrong_tables(tmp_path)
    folder = tmp_path / "seedscope-report"
    folder.mkdir()
    (folder / ".seedscope").touch()
    (folder / "report.html").write_text("earlier")
    with pytest.raises(SeedscopeError) as error:
        audit(str(tables[table_name]), "--target", "y", *SMALL, *options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith((".", "?"))
    assert (folder / "report.html").read_text() == "earlier"


def test_a_beaten_claim_is_an_exit_code_and_a_sentence(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ss.Audit, "alarms", ("ε = 1: the attack proves too much.",))
    done = CliRunner().invoke(app, ["audit", str(table), "--target", "sick", "--epsilon", "1", *SMALL])
    assert done.exit_code == 3
    assert "AN ATTACK BEATS WHAT IS CLAIMED at ε = 1" in done.output
    assert "An attack beats what is claimed." in Path("seedscope-report/report.html").read_text()


def test_nothing_is_written_when_mechanism_and_model_do_not_go_together(table: Path) -> None:
    with pytest.raises(SeedscopeError, match="needs model=logistic"):
        audit(str(table), "--target", "sick", "--model", "mlp", *SMALL)
    assert [one.name for one in Path.cwd().iterdir()] == ["people.csv"]


def test_the_exit_code_of_a_mistake_is_two_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "seedscope", "audit", "--mechanism", "dpsgd", "--epsilon", "-1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ, check=False)
    assert done.returncode == 2
    assert done.stderr.strip() == "seedscope: epsilon must be above 0, got -1.0."
    assert not (tmp_path / "seedscope-report").exists()


def test_levels_that_agree_to_six_digits_have_folders_of_their_own() -> None:
    levels = make_levels(MechanismOptions(), "objective", [1.0, 1.0000001, 0.5], small_table(100))
    assert list(levels) == ["epsilon-1", "epsilon-1.0000001", "epsilon-0.5"]
    with pytest.raises(SeedscopeError, match="each --epsilon must be given once"):
        make_levels(MechanismOptions(), "objective", [1.0, 1.0], small_table(100))


def test_a_person_is_attacked_by_name_and_beside_an_earlier_run_without_them(table: Path) -> None:
    few = ["--models", "8", "--neighbours", "2", "--neighbour-models", "8", "--jobs", "1"]
    options = [str(table), "--target", "sick", "--mechanism", "output", "--epsilon", "8", *few]
    audit(*options)
    trained = individuals().query("part == 'train'")
    person = trained[trained["membership_advantage"].isna()]["id"].iloc[0]
    audit(*options, "--attack", str(person))
    attacked = individuals().query("membership_advantage == membership_advantage")["id"].tolist()
    assert person in attacked
    assert len(attacked) == 3
    with pytest.raises(SeedscopeError, match="nobody trained on is called 'nobody'"):
        audit(*options, "--attack", "nobody")


def individuals() -> pd.DataFrame:
    """Return the table of people of the last report."""
    return pd.read_csv("seedscope-report/individuals.csv")


def test_a_person_of_several_rows_is_attacked_by_any_of_them(tmp_path: Path) -> None:
    frame = patients(60).assign(who=np.arange(60) // 3, test=["train"] * 45 + ["test"] * 15)
    data = from_frame(frame, target="sick", test="test", person="who")
    assert rows_of(data, ["7", "8", "0"]) == (6, 0)
    assert data.reading is not None
    became = {column.name: (column.role, column.became) for column in data.reading.columns}
    assert became["who"] == ("person", "whose each row is")
