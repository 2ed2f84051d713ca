"""`seedscope dossier` and `seedscope card`: what to file about a model, and what to publish with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seedscope.commands.options import Json, print_json
from seedscope.commands.terminal import say

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder that 'seedscope audit' wrote, or its report.json.")
]


def dossier(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="The folder to write into; default: beside the report.")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser, to print it.")] = False,
    as_json: Json = False,
) -> None:
    """Write what a data-protection officer files: dossier.md, and dossier.html to print or save as PDF.

    Purpose, data, threat model, claims with their kinds, results, residual risks, remedies, provenance, and the
    report's SHA-256. What a person must fill in is marked; a policy's [declared] part fills in what it knows.

    \b
    Examples:
      seedscope dossier seedscope-report
      seedscope dossier seedscope-report/report.json --out filed --open
    """
    from seedscope.report import write_dossier  # start-up

    written = write_dossier(run, out)
    if as_json:
        print_json({"written": [str(path) for path in written]})
    for path in () if as_json else written:
        say(f"Written: {path}")
    if open_page:
        typer.launch(written[-1].resolve().as_uri())


def card(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="The file to write; default README.md beside the report.")] = None,
    level: Annotated[int | None, typer.Option(help="Which privacy level, from 0; default that of the verdict.")] = None,
    as_json: Json = False,
) -> None:
    """Write a model card from what does not depend on the data: for Hugging Face, with the sections of skops.

    \b
    Examples:
      seedscope card seedscope-report
      seedscope card seedscope-report --level 1 --out model/README.md
    """
    from seedscope.report import write_card  # start-up

    written = write_card(run, out, level)
    if as_json:
        print_json({"written": str(written)})
    else:
        say(f"Written: {written}")
