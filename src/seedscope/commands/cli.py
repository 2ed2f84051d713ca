"""The `seedscope` command: parse, call one public function, print."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import NoReturn

import typer

from seedscope.commands import data, ending, runs
from seedscope.commands.abstain import abstain
from seedscope.commands.account import account
from seedscope.commands.audit import audit
from seedscope.commands.common_options import with_common_options
from seedscope.commands.compare import compare
from seedscope.commands.data_options import with_table_options
from seedscope.commands.dossier import card, dossier
from seedscope.commands.options import TABLE_ARGUMENTS, in_own_words, with_options
from seedscope.commands.plan import plan
from seedscope.commands.release import release
from seedscope.commands.remedies import remedies
from seedscope.commands.report import report
from seedscope.commands.reproduce import reproduce
from seedscope.commands.terminal import keep_log, log, logs, say
from seedscope.commands.train import train
from seedscope.commands.unlearn import unlearn
from seedscope.commands.verdict import verdict
from seedscope.commands.verify import verify
from seedscope.core import NETWORKS, SeedscopeError, SeedscopeWarning, networks_missing, printable

app = typer.Typer(
    name="seedscope",
    help="What the randomness of training hides, and what it decides: person by person.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (
    audit, compare, remedies, release, abstain, train, plan, account, unlearn, reproduce, report, verdict, verify,
    dossier, card,
):  # fmt: skip
    app.command()(in_own_words(with_common_options(with_table_options(command))))
app.add_typer(data.app, name="data")
app.add_typer(runs.app, name="runs")


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    """What the randomness of training hides, and what it decides: person by person."""
    if show:
        from seedscope import __version__  # start-up

        say(__version__)
        raise typer.Exit


def one_line(message: Warning | str, category: type[Warning], *_: object, **__: object) -> str:
    """Return a warning as a person wants to read it."""
    told = printable(with_options(str(message), None, TABLE_ARGUMENTS))
    if logs():
        log("warning", message=str(message))
        return ""
    return f"seedscope: {told}\n" if issubclass(category, SeedscopeWarning) else f"{category.__name__}: {told}\n"


def _run() -> None:
    """Run the command; the log ends with its exit code."""
    try:
        app(standalone_mode=True)
    except SystemExit as done:
        if isinstance(done.__context__, BrokenPipeError):  # rich ends by itself when who read a progress bar has gone
            sys.exit(ending.NO_READER)
        if logs():
            log("end", exit_code=int(done.code or 0))
        raise


def main() -> None:
    """Run a command; whatever ends it has its exit code and one sentence, never a traceback for a user's mistake."""
    warnings.formatwarning = one_line
    warnings.simplefilter("always", SeedscopeWarning)
    os.environ.setdefault("NPROC", "1")  # this process trains small grids itself: single-threaded, as workers do
    ending.listen_for_signals()
    keep_log(False)
    try:
        _run()
    except SeedscopeError as error:
        ending.end(ending.exit_code(error), str(error))
    except MemoryError:
        ending.end(ending.OUT_OF_MEMORY, "out of memory; use fewer --jobs or less --memory, finished chunks are kept.")
    except KeyboardInterrupt:
        ending.end(ending.stopped_code(), "stopped.")
    except ImportError as error:
        if error.name not in NETWORKS:
            _unforeseen()
        missing = networks_missing("this command")
        ending.end(ending.exit_code(missing), str(missing))
    except Exception:
        _unforeseen()


def _unforeseen() -> NoReturn:
    """End with the traceback of what nobody foresaw, and what to do with it."""
    traceback.print_exc()
    ending.end(ending.UNFORESEEN, "that was not foreseen; please report the lines above, without names of people.")
