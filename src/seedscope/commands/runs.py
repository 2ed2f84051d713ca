"""`seedscope runs`: which trained models are kept, taking old ones away, and handing one over as a single file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from seedscope.commands.options import Json, in_own_words, print_json
from seedscope.commands.terminal import confirm, say
from seedscope.core import in_bytes, in_time, require

app = typer.Typer(
    help="List the stores of trained models, remove old ones, hand one over as a file.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to look, also in folders below it.")]


@app.callback()
def kept(context: typer.Context) -> None:
    """List the stores of trained models, remove old ones, hand one over as a file; alone it lists those in runs/."""
    if context.invoked_subcommand is None:
        list_runs()


@app.command("list")
@in_own_words
def list_runs(folder: Folder = Path("runs"), as_json: Json = False) -> None:
    """List the stores in a folder with what they hold, their size, and when they were last used for training.

    \b
    Example:
      seedscope runs list
    """
    from seedscope.storage import kept_stores  # start-up

    kept = kept_stores(folder)
    if as_json:
        return print_json([asdict(store) for store in kept])
    for store in kept:
        size, age = in_bytes(store.bytes), in_time(store.seconds_since_change)
        say(f"{store.path}  {store.data}, {store.mechanism}, {store.chunks} chunks, {size}, {age} ago")
    whole = in_bytes(sum(store.bytes for store in kept))
    return say(f"{len(kept)} stores, {whole}." if kept else f"No stores in {folder}.")


@app.command("remove")
@in_own_words
def remove(
    stores: Annotated[
        list[Path] | None, typer.Argument(metavar="STORE…", help="Stores, as 'runs list' names them.")
    ] = None,
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", help="All that are older than this many days.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="With --older-than: where to look.")] = Path("runs"),
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove stores: those named, or all in a folder that are older than this many days. Asks before it does.

    \b
    Examples:
      seedscope runs remove runs/audit-patients-objective/epsilon-1-0a1b2c3d
      seedscope runs remove --older-than 30
    """
    from seedscope.storage import kept_stores, remove_store  # start-up

    require(bool(stores) != (older_than is not None), "name the stores to remove, or give --older-than, one of both.")
    require(older_than is None or older_than >= 0, f"--older-than must be 0 or more days, got {older_than}.")
    wanted = [store for path in stores or () for store in kept_stores(path)]
    nothing = [path for path in stores or () if not kept_stores(path)]
    require(not nothing, f"no store at {', '.join(map(str, nothing))}; see 'seedscope runs list'.")
    if older_than is not None:
        wanted = [store for store in kept_stores(folder) if store.seconds_since_change > older_than * 86400]
    whole = in_bytes(sum(store.bytes for store in wanted))
    if wanted and not yes:
        for store in wanted:
            say(str(store.path), err=True)
        confirm(f"Remove these {len(wanted)} stores, {whole}?")
    for store in wanted:
        remove_store(store.path)
    if as_json:
        return print_json({"removed": [str(store.path) for store in wanted]})
    return say(f"Removed {len(wanted)} stores, {whole}.")


@app.command("export")
@in_own_words
def export(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store, or a folder of stores.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write, a ZIP file.")],
    as_json: Json = False,
) -> None:
    """Write a store into one checksummed file, for a colleague or to keep with a paper; it is verified first.

    The file has everybody's scores in it: give it only to those who may see the data.

    \b
    Example:
      seedscope runs export runs/patients patients.zip
    """
    from seedscope.storage import export_store  # start-up

    archived = export_store(store, file)
    if as_json:
        return print_json(asdict(archived))
    say(f"Written: {archived.path}, {len(archived.stores)} stores, {in_bytes(archived.bytes)}")
    return say(f"SHA-256: {archived.sha256}")


@app.command("import")
@in_own_words
def import_archive(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive that 'runs export' wrote.")],
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The new folder.")],
    sha256: Annotated[str | None, typer.Option(help="The checksum that the archive's sender told you.")] = None,
    as_json: Json = False,
) -> None:
    """Unpack an archive into a new folder, after everything in it was checked. Nothing in it is run.

    \b
    Example:
      seedscope runs import patients.zip runs/patients --sha256 0f…
    """
    from seedscope.storage import import_store  # start-up

    archived = import_store(file, store, sha256)
    if as_json:
        return print_json(asdict(archived) | {"store": str(store)})
    say(f"SHA-256: {archived.sha256}")
    return say(f"Stores: {', '.join(str(store / name) for name in archived.stores)}")
