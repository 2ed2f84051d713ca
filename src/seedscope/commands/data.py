"""`seedscope data`: which data sets there are, and fetching those that are not here yet."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from seedscope.commands.options import Json, print_json
from seedscope.commands.terminal import say

app = typer.Typer(help="List the known data sets, fetch one.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_sets(as_json: Json = False) -> None:
    """List the known data sets with their sizes and where they are.

    \b
    Example:
      seedscope data list
    """
    from seedscope import datasets  # start-up

    described = [datasets.describe(name) for name in datasets.names()]
    if as_json:
        return print_json([asdict(entry) for entry in described])
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "train / validation / test", "features", "where", "what", box=None, header_style="bold")
    for entry in described:
        rows = " / ".join(f"{size:,}" for size in entry.rows)
        shape = "×".join(map(str, entry.features))
        table.add_row(entry.name, rows, shape, str(entry.where), entry.summary)
    return Console(soft_wrap=False).print(table)


@app.command("fetch")
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Names from 'seedscope data list'.")],
    force: Annotated[bool, typer.Option("--force", help="Fetch again what is here already.")] = False,
    as_json: Json = False,
) -> None:
    """Download data sets from their public homes, check and convert them.

    \b
    Example:
      seedscope data fetch mnist adult
    """
    from seedscope import datasets  # start-up

    paths = {name: str(datasets.fetch(name, force=force)) for name in names}
    if as_json:
        return print_json(paths)
    for name, path in paths.items():
        say(f"{name}: {path}")
    return None
