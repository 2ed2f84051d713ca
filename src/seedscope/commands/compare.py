"""`seedscope compare`: mechanisms at the same proved risk, and what each costs in accuracy and arbitrary decisions."""

from __future__ import annotations

import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from seedscope.commands import data_options, options
from seedscope.commands.terminal import cell, progress_of, say
from seedscope.core import DELTA, Relation

if TYPE_CHECKING:
    from rich.table import Table

    from seedscope.auditing import Comparison
    from seedscope.core import Number

CONTENDERS = ("gaussian-objective", "objective", "output", "dpsgd")
Mechanism = Annotated[
    list[str] | None, typer.Option(help=f"A mechanism to compare, of {', '.join(CONTENDERS)}; repeatable. Default all.")
]


def compare(
    data: data_options.Data = "breast-cancer",
    target: data_options.Target = None,
    group: data_options.Group = None,
    test: data_options.Test = None,
    id: data_options.Id = None,
    drop_missing: data_options.DropMissing = False,
    epsilon: Annotated[float | None, typer.Option(help="The common ε; default 1.")] = None,
    delta: Annotated[float, typer.Option(help="The common δ.")] = DELTA,
    advantage: Annotated[float | None, typer.Option(help="Instead: any membership attack's largest advantage.")] = None,
    tpr: Annotated[float | None, typer.Option(help="Instead: the largest true-positive rate, at --fpr.")] = None,
    fpr: Annotated[float | None, typer.Option(help="The false-positive rate that --tpr is at.")] = None,
    relation: Annotated[str, typer.Option(help="Neighbours: add_or_remove or replace_one.")] = "add_or_remove",
    mechanism: Mechanism = None,
    models: Annotated[int, typer.Option(help="Re-trainings of each mechanism.")] = 200,
    seed: options.Seed = 0,
    store: Annotated[Path | None, typer.Option(help="A folder that keeps the models; default none.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of comparison.html and comparison.json.")] = None,
    jobs: options.Jobs = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser; needs --out.")] = False,
    as_json: options.Json = False,
) -> None:
    """Compare private mechanisms at the same proved risk, and with no privacy at all beside them.

    Each is trained many times on the same data: mean accuracy, mean disagreement, the share of arbitrary decisions, and
    what any attack can gain at most. The last sentence names the price of having looked.

    \b
    Examples:
      seedscope compare
      seedscope compare patients.csv --target outcome --epsilon 1 --delta 1e-5 --out comparison
      seedscope compare --advantage 0.1 --mechanism gaussian-objective --mechanism dpsgd --json
    """
    from seedscope.auditing import compare as compared  # start-up
    from seedscope.core import require  # start-up
    from seedscope.report import claim_folder, write_comparison  # start-up

    require(out is not None or not show, "--open needs --out: without a folder there is no page.")
    table = data_options.open_data(data, target, group, test, id, drop_missing, seed)
    if out is not None:
        claim_folder(out)
    with ExitStack() as bars:
        comparison = compared(
            table, epsilon=epsilon, delta=delta, advantage=advantage, true_positive_rate=tpr, false_positive_rate=fpr,
            relation=cast(Relation, relation), mechanisms=mechanism or CONTENDERS, models=models, seed=seed,
            store=store, jobs=jobs,
            progress=lambda name: bars.enter_context(progress_of(name, quiet=as_json)),
        )  # fmt: skip
    written = [] if out is None else write_comparison(out, comparison.as_dict())
    if as_json:
        options.print_json(comparison.as_dict() | {"written": [str(path) for path in written]})
    else:
        _print(comparison, written)
    if show:
        webbrowser.open(written[0].resolve().as_uri())


def _print(comparison: Comparison, written: list[Path]) -> None:
    """Print the table, what follows, and where the page is."""
    from rich.console import Console  # start-up

    table = numbers_table(f"{comparison.data} at {comparison.risk}, {comparison.models} models each")
    for name in ("mechanism", "accuracy", "disagreement", "arbitrary", "most exposed", "attack gains at most", "ε"):
        table.add_column(name, overflow="fold")
    for contender in comparison.contenders:
        table.add_row(*map(cell, (contender.title, *map(shown, row(contender)))))
    Console().print(table)
    for sentence in (
        *comparison.sentences,
        *(f"Left out: {name}: {why}." for name, why in comparison.left_out.items()),
    ):
        say(sentence)
    if written:
        say(f"Page: {written[0]}")


def numbers_table(title: str) -> Table:
    """Return an empty table for numbers with their intervals, which fits a terminal of 80 columns."""
    from rich.table import Table  # start-up

    return Table(
        title=cell(title), title_justify="left", box=None, header_style="bold", padding=(0, 1, 1, 0), pad_edge=False
    )


def row(contender: Any) -> tuple[Number | None, ...]:
    """Return a contender's numbers in the order of the table."""
    return (
        contender.accuracy,
        contender.disagreement,
        contender.arbitrary_share,
        contender.most_exposed,
        contender.advantage_upper,
        contender.epsilon,
    )


def shown(number: Number | None) -> str:
    """Return a number with its interval below it, short.

    >>> from seedscope.core import Number
    >>> shown(Number(0.9123, "estimate", 0.88, 0.94, 0.95)), shown(None)
    ('0.912\\n0.880–0.940', '–')
    """
    if number is None:
        return "–"
    inside = "" if number.lower is None or number.upper is None else f"\n{number.lower:.3f}–{number.upper:.3f}"
    return f"{number.value:.3f}{inside}"
