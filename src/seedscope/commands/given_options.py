"""Which options of a command were given, and that none of them is left unheard."""

from __future__ import annotations

from collections.abc import Collection

import typer

from seedscope.commands.common_options import OUTSIDE
from seedscope.core import require


def was_given(context: typer.Context, name: str) -> bool:
    """Whether the user gave this parameter of the command that runs."""
    source = context.get_parameter_source(name)
    return source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT", "DEFAULT_MAP")  # the last: --config


def refuse_others(context: typer.Context, taken: Collection[str], why: str) -> None:
    """Raise where an option was given that would change nothing."""
    idle = [name for name in context.params if name not in (*taken, *OUTSIDE) and was_given(context, name)]
    given = ", ".join("DATA" if name == "data" else f"--{name.replace('_', '-')}" for name in idle)
    require(not idle, f"{given} {'is' if len(idle) == 1 else 'are'} {why}.")
