"""What a command says: nothing in it can control a terminal, whatever a table's columns or a file's name hold."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import typer

from seedscope.core import printable, without_places


def say(message: object = "", err: bool = False) -> None:
    """Print a line; what controls a terminal, or is no character of any encoding, is escaped.

    >>> say("column age\\x1b[31m")
    column age\\x1b[31m
    """
    typer.echo(printable(str(message)), err=err)


def confirm(question: str, default: bool = False) -> None:
    """Ask on standard error, and stop the command unless the answer is yes."""
    typer.confirm(printable(question), default=default, abort=True, err=True)


def cell(value: object) -> Any:
    """Return a cell of a table for the terminal: its text as it is, neither marked up nor able to control anything."""
    from rich.text import Text

    return Text(printable(str(value)))


def said_command() -> str:
    """Return the command line for a report: which command and options, without where files lie on this machine."""
    return shlex.join(["seedscope", *map(without_places, sys.argv[1:])])
