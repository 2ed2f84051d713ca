"""The `seedscope` command run in the tests' own process: what a shell sees of it, without the seconds of starting."""

from __future__ import annotations

import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from seedscope.commands.cli import main


def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return what a command printed and its exit code."""
    variables = {"COLUMNS": "200", "NPROC": "1"} | environment
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
    ):
        patch.setattr(sys, "argv", ["seedscope", *arguments])
        patch.setattr(warnings, "formatwarning", warnings.formatwarning)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.chdir(cwd or Path.cwd())
        with pytest.raises(SystemExit) as ended:
            main()
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.getvalue(), err.getvalue())


def run_alone(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Return the same of a command in a process of its own; without a terminal, it would wait for ever if it asked."""
    command = [sys.executable, "-m", "seedscope", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)
