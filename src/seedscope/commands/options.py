"""Options that several commands share, and how they become data, mechanisms and models."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from inspect import signature
from typing import Annotated, Any

import typer

from seedscope.commands import ending
from seedscope.commands.terminal import say
from seedscope.core import SeedscopeError, TrainingError, plain_values, require

Seed = Annotated[int, typer.Option(help="The root seed: everything random follows from it.")]
Jobs = Annotated[int | None, typer.Option(help="Worker processes; default: all cores, or none for a small grid.")]
Cluster = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Train on a Dask cluster, like tcp://10.0.0.1:8786, instead.")
]
Memory = Annotated[
    str | None, typer.Option(help="What a worker may use, like 2GiB; it decides only when a store is made.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but the result and what is wrong.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def on_cluster(address: str | None, jobs: int | None) -> AbstractContextManager[None]:
    """Return the context in which everything trains on a cluster, if one was named."""
    from seedscope.execution import on_cluster as train_on  # start-up

    both = address is not None and jobs is not None
    require(not both, "--jobs is for local processes; leave it out with --cluster, whose workers are all used.")
    return train_on(address)


def in_own_words(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose errors also name the option for the argument that the library's remedy is about.

    Stopping it, and a reader of its output that goes away, have exit codes of their own.
    """

    @wraps(command)
    def run(*given: Any, **options: Any) -> None:
        try:
            command(*given, **options)
        except SeedscopeError as error:
            known = signature(command).parameters
            kind = next((known_kind for known_kind in ending.CODES if isinstance(error, known_kind)), SeedscopeError)
            raise kind(with_options(_in_options(error), error.argument, known)) from error
        except KeyboardInterrupt:
            say("\nseedscope: stopped.", err=True)
            raise typer.Exit(ending.stopped_code()) from None
        except BrokenPipeError as error:
            if (code := ending.broken_pipe()) == ending.NO_READER:
                raise typer.Exit(code) from None
            raise TrainingError("a pipe between processes broke; run the same again.") from error

    return run


def _in_options(error: SeedscopeError) -> str:
    """Return an error's text; all problems of a table end with the options that go on without them."""
    from seedscope.datasets import TableError  # start-up

    return error.in_words(as_options(error.remedy)) if isinstance(error, TableError) else str(error)


def as_options(arguments: Mapping[str, Any]) -> str:
    """Return arguments as they are written on a command line.

    >>> as_options({"ignore": ["note", "blood group"], "drop_missing": True})
    "--ignore note --ignore 'blood group' --drop-missing"
    """
    words: list[str] = []
    for name, value in arguments.items():
        option = f"--{name.replace('_', '-')}"
        words += (
            [option] if value is True else [part for argument in value for part in (option, shlex.quote(str(argument)))]
        )
    return " ".join(words)


TABLE_ARGUMENTS = (
    "bounds",
    "category",
    "drop_missing",
    "features",
    "fill",
    "id",
    "ignore",
    "impute",
    "levels",
    "missing",
    "numeric",
    "person",
)


def with_options(sentence: str, argument: str | None, known: Iterable[str]) -> str:
    """Return the library's sentence with the command's options in place of its arguments.

    >>> with_options("leave it out (ignore).", "ignore", ["ignore"]), with_options("too few.", "seeds", ["seeds"])
    ('leave it out (--ignore).', 'too few (--seeds).')
    """
    names = {name: f"(--{name.replace('_', '-')})" for name in known}
    said = re.sub(r"\((\w+)\)", lambda match: names.get(match[1], match[0]), sentence)
    option = names.get(argument or "", "")
    return said if not option or option in said else f"{said.removesuffix('.')} {option}."


def print_json(value: Any) -> None:
    """Print a value as JSON; numbers that JSON lacks become null."""
    say(json.dumps(plain_values(value), indent=1, ensure_ascii=False, default=str))


def parse_steps(text: str | None) -> int | tuple[int, ...]:
    """Return checkpoints from text: a number of them, or steps separated by commas."""
    try:
        numbers = [int(number) for number in (text or "1").split(",")]
    except ValueError:
        raise SeedscopeError(f"checkpoints must be a number or steps like 10,100,1000, got {text!r}.") from None
    return numbers[0] if len(numbers) == 1 else tuple(numbers)
