"""`seedscope plan`: how many re-trainings does it take to know whose decision is a coin toss, and how long is that?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import options

if TYPE_CHECKING:
    from seedscope.costs import Cost


def plan(
    data: options.Data = "breast-cancer",
    target: options.Target = None,
    group: options.Group = None,
    test: options.Test = None,
    id: options.Id = None,
    drop_missing: options.DropMissing = False,
    error: Annotated[float, typer.Option(help="The largest error of a disagreement (0 to 1) that is allowed.")] = 0.05,
    confidence: Annotated[float, typer.Option(help="With which all errors are as small as that.")] = 0.95,
    examples: Annotated[
        int | None, typer.Option(help="People to know it of at once; default: the test part, times classes beyond two.")
    ] = None,
    mechanism: Annotated[str, typer.Option(help=f"One of {', '.join(options.MECHANISMS)}.")] = "objective",
    model: Annotated[str, typer.Option(help=f"One of {', '.join(options.MODELS)}.")] = "logistic",
    hidden: Annotated[int, typer.Option(help="Hidden units of the mlp.")] = 10,
    learning_rate: options.LearningRate = None,
    batch_size: options.BatchSize = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy level; default 1. Not for sgd.")] = None,
    delta: options.Delta = None,
    clip: options.Clip = None,
    l2: options.L2 = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    as_json: options.Json = False,
) -> None:
    """Say how many models must be trained to know each person's disagreement, and what that takes here.

    The time is measured with a short run of the same training on the same data.

    \b
    Examples:
      seedscope plan breast-cancer --error 0.05 --confidence 0.95 --epsilon 1
      seedscope plan patients.csv --target outcome --mechanism sgd --steps 2000 --json
    """
    from seedscope.adaptive import watched
    from seedscope.costs import measure_cost

    table = options.open_data(data, target, group, test, id, drop_missing, seed)
    chosen = options.MechanismOptions(
        learning_rate, batch_size, steps, epochs, epsilon, delta, clip, l2=l2
    ).make(mechanism, len(table.base))  # fmt: skip
    people = watched(table) if examples is None else examples
    counts = models_for(error, confidence, people)
    network = options.make_model(model, hidden)
    cost = measure_cost(table, chosen, models=counts["exact interval"], model=network, jobs=jobs)
    found = summarise(error, confidence, people, counts, cost)
    return options.print_json(found) if as_json else print_plan(found, table.name, mechanism)


def models_for(error: float, confidence: float, examples: int) -> dict[str, int]:
    """Return the number of models by each way of being sure."""
    from seedscope.adaptive import seeds_needed
    from seedscope.analyses.multiplicity import models_needed, models_needed_exact

    bound = models_needed(error, confidence, examples)
    earliest, latest = seeds_needed(error, confidence, examples)
    return {
        "the paper's bound": bound,
        "exact interval": models_needed_exact(error, confidence, examples),
        "--until-error, at the earliest": earliest,
        "--until-error, at the latest": latest,
    }


def summarise(error: float, confidence: float, examples: int, counts: dict[str, int], cost: Cost) -> dict[str, Any]:
    """Return the plan: for each way of being sure models, seconds and bytes."""
    ways = {
        name: {"models": models, "seconds": cost.seconds(models), "bytes": cost.bytes(models)}
        for name, models in counts.items()
    }
    measured = {"models_per_second": cost.models_per_second, "start_seconds": cost.start_seconds}
    here = measured | {"processes": cost.processes, "kind": "estimate"}
    return {"error": error, "confidence": confidence, "examples": examples, "ways": ways, "measured": here}


def print_plan(found: dict[str, Any], data: str, mechanism: str) -> None:
    """Print the plan as a table, and the command that carries it out."""
    from rich.console import Console
    from rich.table import Table

    typer.echo(
        f"To know {found['examples']:,} disagreements to within {found['error']:g}, all at once at "
        f"{100 * found['confidence']:g} %:"
    )
    table = Table("by", "models", "time here", "space at most", box=None, header_style="bold")
    for name, way in found["ways"].items():
        table.add_row(name, f"{way['models']:,}", duration(way["seconds"]), size(way["bytes"]))
    Console().print(table)
    measured = found["measured"]
    typer.echo(
        f"Measured: {measured['models_per_second']:,.0f} models/s with {measured['processes']} "
        f"process{'es' if measured['processes'] > 1 else ''}, {measured['start_seconds']:.1f} s to start (estimate)."
    )
    typer.echo(f"Next: seedscope train {data} --mechanism {mechanism} … --until-error {found['error']:g}")


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> duration(4.2), duration(300), duration(9000), duration(400_000)
    ('4.2 s', '5.0 min', '2.5 h', '4.6 days')
    """
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def size(count: float) -> str:
    """Return a number of bytes in the unit that suits it.

    >>> size(300), size(5e6), size(7.25e9)
    ('300 B', '5.0 MB', '7.2 GB')
    """
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count:.0f} B"
