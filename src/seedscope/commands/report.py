"""`seedscope report`: make a run's page again, and its charts as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seedscope.commands.options import Json, print_json
from seedscope.commands.terminal import say
from seedscope.core import require

FORMATS = ("svg", "png")


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that 'seedscope audit' wrote.")],
    charts: Annotated[str | None, typer.Option(help="Also write the charts as pictures: svg or png.")] = None,
    about: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Also write a sheet to print for this person; repeatable.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Make the page again from a run's report.json, without training anything.

    \b
    Examples:
      seedscope report runs/breast-cancer
      seedscope report runs/breast-cancer --charts svg --open
      seedscope report seedscope-report --about 17
    """
    require(charts is None or charts in FORMATS, f"--charts must be one of {', '.join(FORMATS)}, got {charts!r}.")
    from seedscope.report import write_charts, write_page, write_sheet  # start-up

    written = write_page(run)
    sheets = [write_sheet(run, person) for person in about or ()]
    pictures = [] if charts is None else write_charts(run, charts)
    if as_json:
        print_json({"page": str(written), "charts": [str(path) for path in pictures], "sheets": list(map(str, sheets))})
    for path in () if as_json else (written, *pictures, *sheets):
        say(f"Written: {path}")
    if open_page:
        typer.launch(written.resolve().as_uri())
