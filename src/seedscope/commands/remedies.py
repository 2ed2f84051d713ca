"""`seedscope remedies`: what can be done about arbitrary decisions, what it costs, and what is cheapest."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedscope.commands import data_options, mechanism_options, options
from seedscope.commands.compare import numbers_table, shown
from seedscope.commands.terminal import cell, say
from seedscope.core import model_progress

if TYPE_CHECKING:
    from seedscope.auditing import PricedRemedies

PRIVATE = ("gaussian-objective", "objective", "output", "dpsgd")


def remedies(
    data: data_options.Data = "breast-cancer",
    target: data_options.Target = None,
    test: data_options.Test = None,
    id: data_options.Id = None,
    drop_missing: data_options.DropMissing = False,
    mechanism: Annotated[str, typer.Option(help=f"One of {', '.join(PRIVATE)}.")] = PRIVATE[0],
    epsilon: Annotated[float, typer.Option(help="The privacy level that remedies start from.")] = 1.0,
    delta: mechanism_options.Delta = None,
    wanted: Annotated[float, typer.Option(help="The share of arbitrary decisions to come down to.")] = 0.05,
    together: Annotated[list[int] | None, typer.Option(help="Models that decide together; repeatable. 3, 5.")] = None,
    models: Annotated[int, typer.Option(help="Re-trainings at each level.")] = 600,
    seed: options.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="The folder of remedies.html and remedies.json.")] = None,
    jobs: options.Jobs = None,
    as_json: options.Json = False,
) -> None:
    """Price the remedies for arbitrary decisions: averaging, consensus, abstention, weaker privacy.

    Several models cost several times the privacy (composed), or each gets less of it (split). The last lines say
    what is cheapest for the share of arbitrary decisions that is wanted.

    \b
    Examples:
      seedscope remedies
      seedscope remedies patients.csv --target outcome --mechanism output --epsilon 2 --wanted 0.02 --out remedies
    """
    from seedscope.auditing import price_remedies  # start-up
    from seedscope.core import unknown_name  # start-up
    from seedscope.report import claim_folder, write_remedies  # start-up

    if mechanism not in PRIVATE:
        raise unknown_name("private mechanism", mechanism, PRIVATE)
    table = data_options.open_data(data, target, None, test, id, drop_missing, seed)
    if out is not None:
        claim_folder(out)
    level = mechanism_options.level(mechanism_options.MechanismOptions(delta=delta), mechanism, epsilon, table)
    with ExitStack() as bars:
        priced = price_remedies(
            table, level.mechanism, wanted=wanted, together=together or (3, 5), models=models, seed=seed, jobs=jobs,
            progress=lambda name: bars.enter_context(model_progress(name, quiet=as_json)),
        )  # fmt: skip
    written = [] if out is None else write_remedies(out, priced.as_dict())
    if as_json:
        return options.print_json(priced.as_dict() | {"written": [str(path) for path in written]})
    return _print(priced, written)


def _print(priced: PricedRemedies, written: list[Path]) -> None:
    """Print the table, what follows, and where the page is."""
    from rich.console import Console  # start-up

    table = numbers_table(f"{priced.data}: {priced.mechanism}")
    for name in ("remedy", "privacy", "ε in all", "δ in all", "arbitrary", "undecided", "accuracy"):
        table.add_column(name, overflow="fold")
    for remedy in priced.remedies:
        numbers = map(shown, (remedy.arbitrary_share, remedy.undecided, remedy.accuracy))
        spent = f"{remedy.epsilon.value:.3g}"
        table.add_row(*map(cell, (remedy.title, remedy.spending, spent, f"{remedy.delta:.2g}", *numbers)))
    Console().print(table)
    for sentence in (*priced.sentences, *(f"Left out: {name}: {why}" for name, why in priced.left_out.items())):
        say(sentence)
    if written:
        say(f"Page: {written[0]}")
