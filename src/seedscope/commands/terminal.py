"""What a command says: nothing in it can control a terminal, whatever a table's columns or a file's name hold."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from seedscope.core import model_progress, plain_values, printable, without_places

LOG_EVERY = 1.0  # seconds between two events of progress
_log = {"kept": False}


def keep_log(wanted: bool) -> None:
    """Let everything on standard error be JSON from now on, an event a line; or no longer."""
    _log["kept"] = wanted


def logs() -> bool:
    """Whether standard error is a log of JSON."""
    return _log["kept"]


def log(event: str, **about: Any) -> None:
    """Write one event of the log: its kind, when, and what there is to know about it."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    typer.echo(
        printable(json.dumps({"event": event, "time": now, **plain_values(about)}, ensure_ascii=False)), err=True
    )


@contextmanager
def progress_of(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yield what is told how many models are done: it moves a bar, or writes events where there is a log."""
    if not logs():
        with model_progress(what, quiet) as move:
            yield move
        return
    last = [-LOG_EVERY]

    def tell(done: int, total: int) -> None:
        if done >= total or time.monotonic() - last[0] >= LOG_EVERY:
            last[0] = time.monotonic()
            log("progress", what=what, done=done, total=total)

    yield tell


def say(message: object = "", err: bool = False) -> None:
    """Print a line; what controls a terminal, or is no character of any encoding, is escaped.

    On standard error it is an event where there is a log.

    >>> say("column age\\x1b[31m")
    column age\\x1b[31m
    """
    if err and logs():
        return log("message", message=str(message).strip())
    return typer.echo(printable(str(message)), err=err)


def confirm(question: str, default: bool = False) -> None:
    """Ask on standard error, and stop the command, as Ctrl-C does, unless the answer is yes."""
    try:
        agreed = typer.confirm(printable(question), default=default, err=True)
    except typer.Abort:  # no answer
        agreed = False
    if not agreed:
        raise typer.Exit(130)


def cell(value: object) -> Any:
    """Return a cell of a table for the terminal: its text as it is, neither marked up nor able to control anything."""
    from rich.text import Text

    return Text(printable(str(value)))


def said_command() -> str:
    """Return the command line for a report: which command and options, without where files lie on this machine."""
    return shlex.join(["seedscope", *map(without_places, sys.argv[1:])])
