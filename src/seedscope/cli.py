"""The `seedscope` command: parse, call one public function, print."""

from __future__ import annotations

import os
import sys
import warnings

import typer

from seedscope.commands import data
from seedscope.commands.account import account
from seedscope.commands.audit import audit
from seedscope.commands.plan import plan
from seedscope.commands.report import report
from seedscope.commands.reproduce import reproduce
from seedscope.commands.train import train
from seedscope.commands.unlearn import unlearn
from seedscope.errors import SeedscopeError, SeedscopeWarning

app = typer.Typer(
    name="seedscope",
    help="What the randomness of training hides, and what it decides: person by person.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (audit, train, plan, account, unlearn, reproduce, report):
    app.command()(command)
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    """What the randomness of training hides, and what it decides: person by person."""
    if show:
        from seedscope import __version__

        typer.echo(__version__)
        raise typer.Exit


def one_line(message: Warning | str, category: type[Warning], *_: object, **__: object) -> str:
    """Return a warning as a person wants to read it."""
    return f"seedscope: {message}\n" if issubclass(category, SeedscopeWarning) else f"{category.__name__}: {message}\n"


def main() -> None:
    """Run a command; a user's mistake ends in one sentence and exit code 2, never in a traceback."""
    warnings.formatwarning = one_line
    warnings.simplefilter("always", SeedscopeWarning)
    os.environ.setdefault("NPROC", "1")  # this process trains small grids itself: single-threaded, as workers do
    try:
        app(standalone_mode=True)
    except SeedscopeError as error:
        typer.echo(f"seedscope: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(1)
