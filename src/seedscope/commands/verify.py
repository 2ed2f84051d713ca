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

    places = [one.path for one in kept_stores(store)] or [store]
    found = [verify_store(place) for place in places]
    if as_json:
        print_json([_plain(one) for one in found])
    else:
        _print(found)
    bad = [str(one.path) for one in found if not one.whole]
    if bad:
        raise DamageError(f"damaged: {', '.join(bad)}; run the same training with --verify to mend it.")


def _plain(found: Verified) -> dict[str, Any]:
    """Return what was found of one store as plain values."""
    findings = [asdict(one) | {"bad": one.bad} for one in found.findings]
    return {"store": str(found.path), "whole": found.whole, "missing_chunks": found.missing, "findings": findings}


def _print(found: list[Verified]) -> None:
    """Print one table of all stores, and a sentence for each."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("store", "part", "checked", "good", "bad", "note", box=box.SIMPLE_HEAD, header_style="bold")
    for one in found:
        for place, part in enumerate(one.findings):
            counts = (part.checked, part.good, part.bad or "") if part.checked else ("", "", "")
            table.add_row(*map(cell, (one.path if place == 0 else "", part.part, *counts, part.note)))
    Console().print(table)
    for one in found:
        state = "whole" if one.whole else "DAMAGED"
        say(f"{one.path}: {state}{f', {one.missing} chunks are not trained yet' if one.missing else ''}.")
