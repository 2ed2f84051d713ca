"""The options that say which data a command is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from seedscope.commands.options import TABLE_ARGUMENTS, with_options
from seedscope.commands.terminal import cell, log, logs
from seedscope.core import SeedscopeError, require, unknown_name

if TYPE_CHECKING:
    from seedscope.datasets import Dataset, Reading


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A data set's name ('seedscope data list'), or a file: CSV, Parquet, a spreadsheet."
    ),
]


Target = Annotated[str | None, typer.Option(help="The column to predict (for a file).")]


Group = Annotated[
    list[str] | None, typer.Option(help="A column to compare people by, kept out of the features; repeatable.")
]


Test = Annotated[str | None, typer.Option(help="The column that marks test rows; else a stratified quarter is drawn.")]


Id = Annotated[str | None, typer.Option(help="The column that identifies a row; else the row's number.")]


DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with empty cells.")]


SHOWN_COLUMNS = 40  # on a terminal; the report has all


@dataclass(frozen=True)
class TableOptions:
    """What can be said about a table in a file, beside its columns' roles."""

    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out; repeatable.")] = None
    features: Annotated[list[str] | None, typer.Option(help="Learn from this column only; repeatable.")] = None
    numeric: Annotated[list[str] | None, typer.Option(help="A column to read as numbers; repeatable.")] = None
    category: Annotated[list[str] | None, typer.Option(help="A column to read as words (codes); repeatable.")] = None
    missing: Annotated[list[str] | None, typer.Option(help="A word for an empty cell, like -999; repeatable.")] = None
    fill: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="A value for a column's empty cells; repeatable.")
    ] = None
    impute: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="Fill empty cells: 'middle' of --bounds (free), 'private' (noisy, costs ε) or 'typical' (learned).",
        ),
    ] = None
    above: Annotated[float | None, typer.Option(help="With numbers as target: class 1 is above this number.")] = None
    separator: Annotated[str | None, typer.Option(help="The mark between cells; else told from the file.")] = None
    decimal: Annotated[str | None, typer.Option(help="The mark before decimals, . or ,; else told.")] = None
    encoding: Annotated[str | None, typer.Option(help="The text's encoding, like latin-1; else told.")] = None
    sheet: Annotated[str | None, typer.Option(help="A spreadsheet's sheet; else the first one.")] = None
    bounds: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN:LEAST:LARGEST", help="A public range, or a .toml file of them; repeatable."),
    ] = None
    levels: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN:LEVEL,LEVEL", help="A column's levels by public knowledge; repeatable."),
    ] = None
    person: Annotated[str | None, typer.Option(help="The column that says whose a row is.")] = None
    rows_per_person: Annotated[
        int | None, typer.Option(help="With --person: how many rows of one count at most, a public number.")
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """What was said, by name."""
        return {
            option.name: value for option in fields(self) if (value := getattr(self, option.name)) not in (None, [])
        }

    @property
    def arguments(self) -> dict[str, Any]:
        """What was said, as arguments of `read_table`."""
        from seedscope.datasets import parse_dictionary  # start-up

        known = parse_dictionary(self.bounds or (), self.levels or ())
        fill = {**known.fill, **dict(map(_filling, self.fill or ()))}
        return self.given | {"bounds": known.bounds, "levels": known.levels} | ({"fill": fill} if fill else {})


class TableSource(str):
    """What a command's DATA names, with what was said about its table."""

    options: TableOptions = TableOptions()
    quiet: bool = False

    @classmethod
    def of(cls, name: str, options: TableOptions, quiet: bool) -> TableSource:
        """Return the name with what was said about its table, and whether to say how it was read."""
        source = cls(name)
        source.options, source.quiet = options, quiet
        return source


def about(data: str) -> TableOptions:
    """Return what was said about a command's table."""
    return data.options if isinstance(data, TableSource) else TableOptions()


def with_table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that also takes the options about a table, if it takes a table at all: its DATA knows them."""
    own = signature(command).parameters
    if "drop_missing" not in own:
        return command

    @wraps(command)
    def run(**given: Any) -> None:
        said = TableOptions(**{option.name: given.pop(option.name) for option in fields(TableOptions)})
        quiet = any(given.get(name) for name in ("as_json", "quiet", "public"))  # what a table holds is not public
        command(**given | {"data": TableSource.of(given["data"], said, quiet)})

    hints = get_type_hints(command, include_extras=True)
    more = get_type_hints(TableOptions, include_extras=True)
    described = [parameter.replace(annotation=hints[parameter.name]) for parameter in own.values()]
    added = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint) for name, hint in more.items()]
    place = list(own).index("drop_missing") + 1
    parameters = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in (*described[:place], *added, *described[place:])
    ]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def open_data(
    data: str,
    target: str | None = None,
    groups: list[str] | None = None,
    test: str | None = None,
    id: str | None = None,
    drop_missing: bool = False,
    seed: int = 0,
) -> Dataset:
    """Return the named data set, or the table in the named file, saying how its columns were read."""
    from seedscope import datasets  # start-up

    said = about(data)
    if data in datasets.names():
        given = {"target": target, "test": test, "id": id, "drop_missing": drop_missing, **said.given}
        foreign = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
        require(not foreign, f"{', '.join(foreign)} is for a file; {data!r} is a data set with its own columns.")
        return with_groups(datasets.load(data), groups)
    if not Path(data).suffix and not Path(data).exists():
        raise unknown_name("data set or file", data, datasets.names())
    require(Path(data).exists(), f"no file {data}; check the path, or see 'seedscope data list' for named data sets.")
    if target is None:
        raise SeedscopeError(f"--target must name the column of {data} to predict.")
    table = datasets.read_table(
        data, target=target, groups=groups or (), test=test, id=id, drop_missing=drop_missing, seed=seed,
        **said.arguments,
    )  # fmt: skip
    if table.reading is not None and (logs() or not (isinstance(data, TableSource) and data.quiet)):
        log("reading", **table.reading.describe()) if logs() else show_reading(table.reading)
    return table


def _filling(text: str) -> tuple[str, str]:
    """Return the column and the value of COLUMN=VALUE."""
    column, mark, value = text.partition("=")
    require(mark and column, f"--fill must be COLUMN=VALUE, got {text!r}.")
    return column, value


def show_reading(reading: Reading) -> None:
    """Print how each column was read, on standard error."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    heads = ("column", "role", "holds", "values", "empty", "became")
    table = Table(
        *heads, box=box.SIMPLE_HEAD, header_style="bold", title="How each column was read", title_justify="left"
    )
    for column in reading.columns[:SHOWN_COLUMNS]:
        said = with_options(column.became, None, TABLE_ARGUMENTS)
        became = f"{said} ({column.note})" if column.note else said
        cells = (column.name, column.role, column.kind, column.values, str(column.missing or ""), became)
        table.add_row(*map(cell, cells))
    console = Console(stderr=True)
    console.print(table)
    if len(reading.columns) > SHOWN_COLUMNS:
        console.print(f"… and {len(reading.columns) - SHOWN_COLUMNS} more columns; the report has all of them.")
    dropped = f"{reading.dropped:,} of {reading.rows:,} rows dropped: they have an empty cell."
    for sentence in (*reading.file, *([dropped] if reading.dropped else [])):
        console.print(cell(sentence))


def with_groups(data: Dataset, groups: list[str] | None) -> Dataset:
    """Return a named data set with only the groups asked for; all of its own where nothing was said."""
    if not groups:
        return data
    require(data.groups, f"{data.name!r} has no groups of people; leave --group out.")
    for name in groups:
        if name not in data.groups:
            raise unknown_name(f"group of {data.name}", name, data.groups)
    parts = {
        part: replace(rows, groups={name: rows.groups[name] for name in groups})
        for part in ("train", "validation", "test")
        if (rows := getattr(data, part)) is not None
    }
    return replace(data, **parts)
