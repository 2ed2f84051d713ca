"""The commands as a person meets them: with right and with wrong input, and in processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from seedscope import Ensemble
from seedscope.commands.data_options import show_reading
from seedscope.datasets import from_frame
from tests.helpers.command_line import run, run_alone
from tests.helpers.tables import patients, written


def refused(done: subprocess.CompletedProcess[str], code: int = 2) -> str:
    """Return the one sentence with which a command refused, after checking that it is only that."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("seedscope: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A table of eighty people."""
    return written(tmp_path, patients())


def test_every_command_has_help_with_an_example() -> None:
    listed = run("--help").stdout
    for command in ("audit", "train", "reproduce", "data"):
        assert command in listed
    for words in (["audit"], ["train"], ["reproduce"], ["data", "list"], ["data", "fetch"]):
        text = run(*words, "--help").stdout
        assert "Example" in text, words
        assert "seedscope" in text, words


def test_help_does_not_import_what_it_does_not_need() -> None:
    code = "import sys; sys.argv = ['seedscope', 'train', '--help']\nfrom seedscope.commands.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += "print([m for m in ('jax', 'scipy', 'pandas', 'xarray', 'sklearn', 'altair') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_train_keeps_models_and_resumes(people: Path, tmp_path: Path) -> None:
    options = ["--target", "sick", "--group", "sex", "--steps", "40", "--batch-size", "8", "--neighbours", "3"]
    options += ["--store", str(tmp_path / "run")]
    first = run("train", str(people), *options, "--seeds", "6")
    assert first.returncode == 0, first.stderr
    assert "24 models of 3 weights" in first.stdout
    before = Ensemble.open(tmp_path / "run").weights.values.copy()
    second = run_alone("train", str(people), *options, "--seeds", "9", "--json")
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["models"] == 36
    np.testing.assert_array_equal(Ensemble.open(tmp_path / "run").weights.values[:6], before)


def test_interrupted_training_says_how_to_go_on_and_does(tmp_path: Path) -> None:
    options = ["train", "breast-cancer", "--steps", "300", "--seeds", "30000", "--neighbours", "20", "--jobs", "1"]
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job has it off
    code += "from seedscope.commands.cli import main; main()"
    command = [sys.executable, "-c", code, *options, "--store", str(tmp_path / "run")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    done = tmp_path / "run" / "done"
    while process.poll() is None and not any(done.glob("*.json")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "run the same command to go on" in said
    assert "Traceback" not in said
    assert any(done.glob("*.json"))


def test_data_list_names_every_set() -> None:
    listed = json.loads(run("data", "list", "--json").stdout)
    assert {"breast-cancer", "adult", "mnist-binary"} <= {one["name"] for one in listed}


def test_version() -> None:
    from seedscope import __version__

    assert run("--version").stdout.strip() == __version__


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "breast-cancr"], "Did you mean 'breast-cancer'?"),
        (["train", "nowhere.csv", "--target", "x"], "no file nowhere.csv"),
        (["train", "{people}"], "--target must name the column"),
        (["train", "{people}", "--target", "sik"], "Did you mean 'sick'?"),
        (["train", "{people}", "--target", "sick", "--group", "sx"], "Did you mean 'sex'?"),
        (["train", "{people}", "--target", "sick", "--batch-size", "100"], "at most the 60 training rows"),
        (["train", "{people}", "--target", "sick", "--batch-size", "8", "--neighbours", "61"], "must be at most 60"),
        (["train", "--seeds", "0"], "seeds must be a whole number of at least 1, got 0"),
        (["train", "--steps", "-3"], "steps must be"),
        (["train", "--learning-rate", "nan"], "learning_rate must be a finite number above 0"),
        (["train", "--checkpoints", "a"], "checkpoints must be"),
        (["train", "--checkpoints", "1,5000"], "checkpoints must be steps from 0 (the initial point) to 1000"),
        (["train", "--init", "random"], "init must be"),
        (["train", "--relation", "other"], "relation must be"),
        (["train", "--model", "resnet"], "unknown model"),
        (["train", "--mechanism", "sgdd"], "Did you mean 'sgd'?"),
        (["train", "--mechanism", "sgd", "--epsilon", "1"], "--epsilon is not an option of --mechanism sgd"),
        (["train", "--mechanism", "objective", "--epsilon", "0"], "epsilon must be above 0"),
        (["train", "--mechanism", "objective", "--model", "mlp"], "ObjectivePerturbation needs model=logistic()"),
        (["train", "--jobs", "0"], "jobs must be a whole number of at least 1"),
        (["train", "--target", "x"], "--target is for a file"),
        (["audit", "--epsilon", "-1"], "epsilon must be above 0"),
        (["audit", "--mechanism", "sgd", "--epsilon", "1"], "--epsilon is not an option of --mechanism sgd"),
        (["audit", "--epsilon", "1", "--epsilon", "1"], "each --epsilon must be given once"),
        (["data", "fetch", "mnst"], "Did you mean 'mnist'?"),
        (["reproduce", "intrinsc"], "Did you mean 'intrinsic'?"),
        (["reproduce", "intrinsic", "--scale", "huge"], "scale of intrinsic must be one of small, paper"),
        (["reproduce", "intrinsic", "--scale", "medium"], "scale of intrinsic must be one of small, paper"),
    ],
)  # fmt: skip
def test_a_mistake_ends_in_one_sentence(arguments: list[str], said: str, people: Path, tmp_path: Path) -> None:
    assert said in refused(run(*(one.format(people=people) for one in arguments), cwd=tmp_path))
    assert not (tmp_path / "seedscope-report").exists()


def test_a_mistake_in_a_process_of_its_own_shows_no_traceback(tmp_path: Path) -> None:
    assert "Did you mean 'breast-cancer'?" in refused(run_alone("train", "breast-cancr", cwd=tmp_path))


def test_another_plan_is_refused_and_nothing_is_lost(people: Path, tmp_path: Path) -> None:
    options = ["--target", "sick", "--seeds", "3", "--batch-size", "8", "--store", str(tmp_path / "run")]
    assert run("train", str(people), *options, "--steps", "20").returncode == 0
    before = Ensemble.open(tmp_path / "run").weights.values.copy()
    sentence = refused(run("train", str(people), *options, "--steps", "30"))
    assert "mechanism.steps is 20, not 30" in sentence
    np.testing.assert_array_equal(Ensemble.open(tmp_path / "run").weights.values, before)


def test_a_place_that_cannot_be_written_is_named(people: Path, tmp_path: Path) -> None:
    options = ["--target", "sick", "--seeds", "3", "--steps", "5", "--batch-size", "8", "--store"]
    assert "/proc/run" in refused(run("train", str(people), *options, "/proc/run"), code=5)
    file = tmp_path / "a-file"
    file.write_text("mine")
    assert "is a file" in refused(run("train", str(people), *options, str(file)))
    assert file.read_text() == "mine"


def test_no_network_ends_in_how_to_place_the_file_by_hand(tmp_path: Path) -> None:
    dead = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    environment = {"SEEDSCOPE_DATA": "", "SEEDSCOPE_CACHE": str(tmp_path / "cache"), **dead}
    sentence = refused(run("data", "fetch", "mammography", cwd=tmp_path, **environment))
    assert "mammo" in sentence
    assert str(tmp_path / "cache") in sentence


def test_how_columns_were_read_names_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    rows = range(60)
    frame = pd.DataFrame({"mrn": [row // 2 for row in rows], "kg": [row % 7 for row in rows], "y": [0, 1] * 30})
    reading = from_frame(frame, target="y").reading
    assert reading is not None
    show_reading(reading)
    told = capsys.readouterr().err
    assert "(--person)" in told
    assert "(--id)" in told
