"""Every end of a command has its own exit code and one sentence: stopped, out of memory, a full disk, a lost reader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest

from seedscope.commands import cli, ending, options
from seedscope.core import (
    ClusterError,
    DamageError,
    DiskError,
    OutOfMemoryError,
    SeedscopeError,
    TrainingError,
    printable,
    without_places,
)
from seedscope.core.files import IN_USE, TEMPORARY, private_folder, sweep

ENDS = [
    (SeedscopeError("a mistake"), 2),
    (TrainingError("no model"), 8),
    (OutOfMemoryError("too large"), 4),
    (MemoryError(), 4),
    (DiskError("full"), 5),
    (ClusterError("lost"), 6),
    (DamageError("flipped"), 7),
    (KeyboardInterrupt(), 130),
]


@pytest.mark.parametrize(("error", "code"), ENDS, ids=lambda one: type(one).__name__)
def test_each_end_has_its_exit_code_and_one_sentence(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def app(**_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(ending, "listen_for_signals", lambda: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert said.startswith("seedscope: ")
    assert said.count("\n") == 1


def test_a_command_keeps_the_kind_of_an_error_when_it_adds_its_option() -> None:
    def command(store: str) -> NoReturn:
        raise DiskError("no space left.", argument="store")

    with pytest.raises(DiskError, match=r"no space left \(--store\)\."):
        options.in_own_words(command)("x")


def test_who_read_the_progress_bar_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def rich(standalone_mode: bool) -> NoReturn:
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            raise SystemExit(1)  # noqa: B904  as rich does

    monkeypatch.setattr(cli, "app", rich)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 141


def test_what_nobody_foresaw_has_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def surprise(standalone_mode: bool) -> NoReturn:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(cli, "app", surprise)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError: of all things" in said
    assert said.endswith("please report the lines above, without names of people.\n")


def test_a_broken_pipe_inside_is_no_success_and_not_the_readers() -> None:
    def command() -> NoReturn:
        raise BrokenPipeError

    with pytest.raises(TrainingError, match="a pipe between processes broke"):
        options.in_own_words(command)()


MANY_LINES = """
import sys
from seedscope.commands import cli, terminal
@cli.app.command()
@cli.in_own_words
def tell() -> None:
    '''Tell.'''
    for _ in range(100_000):
        terminal.say("line")
sys.argv = ["seedscope", "tell"]
cli.main()
"""
SLOW = """
import sys, time, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job has it off
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and one under nohup that
from seedscope.commands import cli
@cli.app.command()
@cli.in_own_words
def wait(seconds: float = 60.0) -> None:
    '''Wait.'''
    try:
        print("waiting", flush=True)
        time.sleep(seconds)
    finally:
        print("tidying", flush=True)
        time.sleep({tidying})
sys.argv = ["seedscope", "wait"]
cli.main()
"""


def waiting(tidying: float) -> subprocess.Popen[str]:
    """Start a command that waits until it is stopped."""
    code = SLOW.replace("{tidying}", str(tidying))
    started = subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "waiting\n"
    return started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_command_with_one_sentence(number: signal.Signals) -> None:
    started = waiting(0)
    started.send_signal(number)
    _, said = started.communicate(timeout=30)
    assert started.returncode == 128 + number
    assert said == "\nseedscope: stopped.\n"


def test_a_second_signal_ends_a_command_at_once_and_quietly() -> None:
    started = waiting(60)
    assert started.stdout is not None
    started.send_signal(signal.SIGINT)
    assert started.stdout.readline() == "tidying\n"
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=30)
    assert started.returncode == 130
    assert said == ""


def test_a_reader_that_goes_away_is_an_exit_code_of_its_own() -> None:
    code = "import sys; from seedscope.commands import cli; sys.argv = ['seedscope', 'data', 'list']; cli.main()"
    gone = subprocess.Popen(
        f"{sys.executable} -c \"{code}\" | true; exit ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", stdout=-1, stderr=-1, text=True,
    )  # fmt: skip
    _, said = gone.communicate(timeout=60)
    assert "Traceback" not in said


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_of_the_first_line_only_ends_the_command_quietly(unbuffered: str, tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text(MANY_LINES)
    command = f"{sys.executable} many.py | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        command, shell=True, executable="/bin/bash", capture_output=True, text=True, cwd=tmp_path, timeout=60,
        check=False, env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (141, "line\n", "")


def test_what_a_terminal_would_obey_is_escaped_and_places_are_left_out() -> None:
    assert printable("a\x1b[2Jb\x9bc\udce9é") == "a\\x1b[2Jb\\x9bc\\udce9é"
    given = ["/home/ada/x.csv", "--out=/a/b", "tcp://10.0.0.1:8786", "--epsilon", "0.5", "plain"]
    assert [without_places(one) for one in given] == ["x.csv", "--out=b", "tcp://…", "--epsilon", "0.5", "plain"]


def test_a_column_that_would_control_the_terminal_is_shown_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ending.end(2, "column 'age\x1b[31m' has 3 empty cells.")
    assert capsys.readouterr().err == "seedscope: column 'age\\x1b[31m' has 3 empty cells.\n"


def test_temporary_folders_of_killed_processes_are_removed_and_those_in_use_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"{TEMPORARY}left"
    left.mkdir()
    (left / IN_USE).touch()
    (left / "rows.npy").write_text("people")
    (tmp_path / f"{TEMPORARY}of-somebody-else").mkdir()
    with private_folder() as mine:
        assert not left.exists()
        sweep(tmp_path)
        assert mine.exists()
        assert mine.stat().st_mode & 0o077 == 0
    assert [one.name for one in tmp_path.iterdir()] == [f"{TEMPORARY}of-somebody-else"]


KILLED = """
import os, sys
import seedscope as ss
from tests.helpers.small_data import table
def seen(done, total):
    if done:
        os.kill(os.getpid(), 9)
ss.train(table(rows=500), ss.SGD(batch_size=8, steps=20), grid=ss.Grid(40, 3), jobs=2, progress=seen)
"""


@pytest.mark.slow
def test_a_killed_run_leaves_no_training_rows_behind(tmp_path: Path) -> None:
    surroundings = os.environ | {"TMPDIR": str(tmp_path)}
    killed = subprocess.run([sys.executable, "-c", KILLED], env=surroundings, check=False, capture_output=True)
    assert killed.returncode == -9
    for _ in range(200):  # workers notice within a second or two
        if not list(tmp_path.glob(f"{TEMPORARY}*")):
            return
        time.sleep(0.1)
    raise AssertionError(list(tmp_path.rglob("*")))
