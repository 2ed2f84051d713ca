"""Options of every command: a file that holds the others, and a log that programs read."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from seedscope.commands.terminal import keep_log
from seedscope.core import SeedscopeError, plain_values, require, unknown_name, without_places

OUTSIDE = ("config", "log_json", "show", "as_json", "help")  # what is said of one run, not of an audit


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take a file's entries as the defaults of the options; what is on the command line counts more."""
    if path is not None:
        context.default_map = defaults_in(path, names_of(context))
    return path


def _start_log(wanted: bool) -> bool:
    """Write what is said on standard error as JSON from now on, or no longer."""
    keep_log(wanted)
    return wanted


Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        is_eager=True,
        callback=_read_config,
        help="A TOML file of options; those given here count more.",
    ),
]
LogJson = Annotated[
    bool,
    typer.Option(
        "--log-json", is_eager=True, callback=_start_log, help="Say on standard error in JSON, an event a line."
    ),
]


def with_common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that also takes --config and --log-json."""

    @wraps(command)
    def run(**given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in ("config", "log_json")})

    hints = get_type_hints(command, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY)
        for parameter in signature(command).parameters.values()
    ]
    parameters.append(Parameter("config", Parameter.KEYWORD_ONLY, default=None, annotation=Config))
    parameters.append(Parameter("log_json", Parameter.KEYWORD_ONLY, default=False, annotation=LogJson))
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def names_of(context: typer.Context) -> dict[str, str]:
    """Return, by the name of an option or argument as people write it, the name of the command's parameter."""
    names: dict[str, str] = {}
    for parameter in context.command.params:
        name = str(parameter.name)
        written = [option.lstrip("-") for option in parameter.opts if option.startswith("--")] or [name]
        names |= dict.fromkeys([*written, *(option.replace("-", "_") for option in written)], name)
    return names


def defaults_in(path: Path, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a file's entries by parameter; a name that the command does not have is refused."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SeedscopeError(f"--config {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SeedscopeError(f"--config {path} is not TOML: {error}.") from None
    defaults = {}
    for name, value in entries.items():
        if names.get(name, "config") in OUTSIDE:
            raise unknown_name(f"option in {path}", name, [known for known in names if names[known] not in OUTSIDE])
        fitting = not isinstance(value, dict)
        require(fitting, f"--config {path}: {name} must be a value or a list of values, not a table.")
        defaults[names[name]] = value
    return defaults


def as_toml(context: typer.Context, taken: Collection[str] | None = None, **used: Any) -> str:
    """Return every option of the command that runs, as a file for --config: what was said and what was not.

    Where files lie on this machine, the report itself included, is left out, as in the report's command.

    Args:
        taken: the only options that count, where what is audited takes no others.
        used: values in place of those of options that were left open.
    """
    written = {name: option for option, name in reversed(names_of(context).items())}
    names = [name for name in context.params if name not in (*OUTSIDE, "out") and (taken is None or name in taken)]
    said = {written[name]: used.get(name, context.params[name]) for name in names}
    return "".join(f"{option} = {_toml(value)}\n" for option, value in said.items() if value not in (None, [], ()))


def _toml(value: Any) -> str:
    """Return a value as TOML has it.

    >>> _toml([0.5, 1.0]), _toml(True), _toml("a \\"b\\""), _toml(float("inf"))
    ('[0.5, 1.0]', 'true', '"a \\\\"b\\\\""', 'inf')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(without_places(str(plain_values(str(value)))), ensure_ascii=False)
