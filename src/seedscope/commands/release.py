"""`seedscope release`: the one model to publish, with a card that says what is proved of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import data_options, mechanism_options, model_options, options
from seedscope.commands.terminal import say

if TYPE_CHECKING:
    from seedscope.releasing import ReleasedModel


def release(
    data: data_options.Data = "breast-cancer",
    target: data_options.Target = None,
    test: data_options.Test = None,
    drop_missing: data_options.DropMissing = False,
    mechanism: mechanism_options.Name = mechanism_options.DEFAULT,
    model: model_options.Name = "logistic",
    epsilon: Annotated[float, typer.Option(help="The privacy level of all that is published.")] = 1.0,
    delta: mechanism_options.Delta = None,
    l2: mechanism_options.L2 = None,
    learning_rate: mechanism_options.LearningRate = None,
    batch_size: mechanism_options.BatchSize = None,
    steps: mechanism_options.Steps = None,
    epochs: mechanism_options.Epochs = None,
    clip: mechanism_options.Clip = None,
    public_size: mechanism_options.PublicSize = None,
    private_scaling: mechanism_options.PrivateScaling = None,
    imputation_share: mechanism_options.ImputationShare = None,
    unproved: Annotated[bool, typer.Option("--unproved", help="Publish all the same what is not proved.")] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write model.onnx too (linear models; extra onnx).")] = False,
    out: Annotated[Path, typer.Option(help="A new folder for the model.")] = Path("model"),
    as_json: options.Json = False,
) -> None:
    """Train the one model to publish: random numbers from the operating system, kept nowhere, and a card.

    Writes weights (model.npz, model.json), public preprocessing and MODEL_CARD.md with ε, δ, μ, the trade-off curve,
    relation, unit, and what is not covered. What is not proved is refused.

    \b
    Examples:
      seedscope release breast-cancer --epsilon 1 --out model
      seedscope release patients.csv --target outcome --bounds bounds.toml --mechanism dpsgd --public-size 5000
    """
    from seedscope.releasing import SMOOTHING, all_rows  # start-up
    from seedscope.releasing import release as train_one  # start-up

    table = all_rows(data_options.open_data(data, target, None, test, None, drop_missing, 0))
    given = mechanism_options.MechanismOptions(
        learning_rate, batch_size, steps, epochs, None, delta, clip, None, l2, public_size=public_size
    )
    aim = epsilon if "epsilon" in mechanism_options.TAKES.get(mechanism, ()) else None
    level = mechanism_options.level(given, mechanism, aim, table, private_scaling, imputation_share)
    if (
        aim is not None and aim < math.inf and level.mechanism.smooths
    ):  # what smoothing costs is part of what was asked for
        left = aim / (1 + SMOOTHING)
        level = mechanism_options.level(given, mechanism, left, table, private_scaling, imputation_share)
    mechanism_options.warn_of_size(level.mechanism, table)
    network = model_options.make_model(model)
    released = train_one(table, level.mechanism, model=network, scaling=level.scaling, unproved=unproved)
    written = released.save(out, onnx)
    return options.print_json(_summary(released, written)) if as_json else _print(released, written)


def _summary(released: ReleasedModel, written: list[Path]) -> dict[str, Any]:
    """Return what was published and where, without the weights."""
    facts = released.as_dict()
    kept = ("model", "mechanism", "guarantee", "curve")
    return {name: facts[name] for name in kept} | {"written": [str(path) for path in written]}


def _print(released: ReleasedModel, written: list[Path]) -> None:
    """Print the guarantee and where the model is."""
    guarantee = released.guarantee
    if guarantee.epsilon is None:
        say(f"No ε is proved: {guarantee.reason}")
    else:
        say(f"ε = {guarantee.epsilon}, δ = {guarantee.delta:.3g}: {guarantee.reason}")
    if released.curve is not None:
        say(f"No membership attack has an advantage above {released.curve.advantage.value:.3g}.")
    say(f"Model: {', '.join(str(path) for path in written)}")
