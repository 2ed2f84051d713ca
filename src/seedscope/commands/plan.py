"""`seedscope plan`: how many re-trainings does it take to know whose decision is a coin toss, and how long is that?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import data_options, mechanism_options, model_options, options
from seedscope.commands.terminal import say
from seedscope.core import in_bytes, in_time

if TYPE_CHECKING:
    from seedscope.execution import Cost


def plan(
    data: data_options.Data = "breast-cancer",
    target: data_options.Target = None,
    group: data_options.Group = None,
    test: data_options.Test = None,
    id: data_options.Id = None,
    drop_missing: data_options.DropMissing = False,
    error: Annotated[float, typer.Option(help="The largest error of a disagreement (0 to 1) that is allowed.")] = 0.05,
    confidence: Annotated[float, typer.Option(help="With which all errors are as small as that.")] = 0.95,
    examples: Annotated[
        int | None, typer.Option(help="People to know it of at once; default: the test part, times classes beyond two.")
    ] = None,
    mechanism: mechanism_options.Name = mechanism_options.DEFAULT,
    model: model_options.Name = "logistic",
    hidden: model_options.Hidden = 10,
    learning_rate: mechanism_options.LearningRate = None,
    batch_size: mechanism_options.BatchSize = None,
    steps: mechanism_options.Steps = None,
    epochs: mechanism_options.Epochs = None,
    epsilon: mechanism_options.Epsilon = None,
    delta: mechanism_options.Delta = None,
    clip: mechanism_options.Clip = None,
    l2: mechanism_options.L2 = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    memory: options.Memory = None,
    as_json: options.Json = False,
) -> None:
    """Say how many models must be trained to know each person's disagreement, and what that takes here.

    The time is measured with a short run of the same training on the same data.

    \b
    Examples:
      seedscope plan breast-cancer --error 0.05 --confidence 0.95 --epsilon 1
      seedscope plan patients.csv --target outcome --mechanism sgd --steps 2000 --json
    """
    from seedscope.execution import measure_cost, watched  # start-up

    table = data_options.open_data(data, target, group, test, id, drop_missing, seed)
    chosen = mechanism_options.MechanismOptions(
        learning_rate, batch_size, steps, epochs, epsilon, delta, clip, l2=l2
    ).make(mechanism, len(table.base), mechanism_options.conditions_of(table))  # fmt: skip
    people = watched(table) if examples is None else examples
    linear = table.classes == 2 and model == "logistic" and chosen.has_surrogate
    counts = models_for(error, confidence, people, linear)
    network = model_options.make_model(model, hidden)
    cost = measure_cost(table, chosen, models=counts["exact interval"], model=network, jobs=jobs, memory=memory)
    summary = summarise(error, confidence, people, counts, cost)
    return options.print_json(summary) if as_json else print_plan(summary, table.name, mechanism)


def models_for(error: float, confidence: float, examples: int, stand_ins: bool = False) -> dict[str, int]:
    """Return the number of models by each way of being sure; `stand_ins`: where the mechanism has such."""
    from seedscope.analyses.multiplicity import models_needed, models_needed_exact  # start-up
    from seedscope.execution import seeds_needed  # start-up

    bound = models_needed(error, confidence, examples)
    earliest, latest = seeds_needed(error, confidence, examples)
    sooner, later = seeds_needed(error, confidence, examples, surrogate=True)
    with_stand_ins = {
        "--until-error with stand-ins, at the earliest": sooner,
        "--until-error with stand-ins, at the latest": later,
    }
    return {
        "the paper's bound": bound,
        "exact interval": models_needed_exact(error, confidence, examples),
        "--until-error, at the earliest": earliest,
        "--until-error, at the latest": latest,
    } | (with_stand_ins if stand_ins else {})


def summarise(error: float, confidence: float, examples: int, counts: dict[str, int], cost: Cost) -> dict[str, Any]:
    """Return the plan: for each way of being sure models, seconds and bytes."""
    ways = {
        name: {"models": models, "seconds": cost.seconds(models), "bytes": cost.bytes(models)}
        for name, models in counts.items()
    }
    measured = {"models_per_second": cost.models_per_second, "start_seconds": cost.start_seconds}
    speed = measured | {"processes": cost.processes, "kind": "estimate"}
    return {"error": error, "confidence": confidence, "examples": examples, "ways": ways, "measured": speed}


def print_plan(summary: dict[str, Any], data: str, mechanism: str) -> None:
    """Print the plan as a table, and the command that carries it out."""
    from rich.console import Console
    from rich.table import Table

    say(
        f"To know {summary['examples']:,} disagreements to within {summary['error']:g}, all at once at "
        f"{100 * summary['confidence']:g} %:"
    )
    table = Table("by", "models", "time here", "space at most", box=None, header_style="bold")
    for name, way in summary["ways"].items():
        table.add_row(name, f"{way['models']:,}", in_time(way["seconds"]), in_bytes(way["bytes"]))
    Console().print(table)
    measured = summary["measured"]
    say(
        f"Measured: {measured['models_per_second']:,.0f} models/s with {measured['processes']} "
        f"process{'es' if measured['processes'] > 1 else ''}, {measured['start_seconds']:.1f} s to start (estimate)."
    )
    say(f"Next: seedscope train {data} --mechanism {mechanism} … --until-error {summary['error']:g}")
