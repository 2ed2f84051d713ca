"""`seedscope verify`: is a store what was written? Read-only, and without the data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands.options import Json, print_json
from seedscope.commands.terminal import cell, say
from seedscope.core import DamageError

if TYPE_CHECKING:
    from seedscope.storage import Verified


def verify(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store, or a folder of stores.")],
    as_json: Json = False,
) -> None:
    """Read all of a store and compare it with its checksums; nothing is changed, and no data are needed.

    Ends with exit code 7 where something is damaged. 'seedscope train … --verify' mends it, with the data.

    \b
    Example:
      seedscope verify runs/patients
    """
    from seedscope.storage import kept_stores, verify_store  # start-up

    places = [kept.path for kept in kept_stores(store)] or [store]
    verified = [verify_store(place) for place in places]
    if as_json:
        print_json([_plain(result) for result in verified])
    else:
        _print(verified)
    bad = [str(result.path) for result in verified if not result.whole]
    if bad:
        raise DamageError(f"damaged: {', '.join(bad)}; run the same training with --verify to mend it.")


def _plain(verified: Verified) -> dict[str, Any]:
    """Return what was found of one store as plain values."""
    findings = [asdict(finding) | {"bad": finding.bad} for finding in verified.findings]
    return {
        "store": str(verified.path),
        "whole": verified.whole,
        "missing_chunks": verified.missing,
        "findings": findings,
    }


def _print(verified: list[Verified]) -> None:
    """Print one table of all stores, and a sentence for each."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("store", "part", "checked", "good", "bad", "note", box=box.SIMPLE_HEAD, header_style="bold")
    for result in verified:
        for place, part in enumerate(result.findings):
            counts = (part.checked, part.good, part.bad or "") if part.checked else ("", "", "")
            table.add_row(*map(cell, (result.path if place == 0 else "", part.part, *counts, part.note)))
    Console().print(table)
    for result in verified:
        state = "whole" if result.whole else "DAMAGED"
        say(f"{result.path}: {state}{f', {result.missing} chunks are not trained yet' if result.missing else ''}.")
