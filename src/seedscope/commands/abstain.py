"""`seedscope abstain`: whose decision a published model may take, told from that model alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from seedscope.commands import data_options, options
from seedscope.commands.terminal import say
from seedscope.core import require

if TYPE_CHECKING:
    from seedscope.datasets import Dataset
    from seedscope.releasing import ReleasedModel

LISTED = 10  # people named on the screen


def abstain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that 'seedscope release' wrote.")],
    data: data_options.Data = "breast-cancer",
    target: data_options.Target = None,
    id: data_options.Id = None,
    drop_missing: data_options.DropMissing = False,
    noise_scale: Annotated[
        float | None, typer.Option(help="σ of the noise on each weight; default the one that the model says.")
    ] = None,
    level: Annotated[float, typer.Option(help="Chance with which two runs must decide alike, 0.5 to 1.")] = 0.75,
    confidence: Annotated[float, typer.Option(help="With which that is so, for each person.")] = 0.95,
    as_json: options.Json = False,
) -> None:
    """Say on whom a model published by output perturbation should abstain: from the model alone, at no privacy cost.

    Nothing but published numbers enters, so whoever holds the model can run it on people of their own.

    \b
    Examples:
      seedscope release breast-cancer --mechanism output --epsilon 8 --out model
      seedscope abstain model breast-cancer
    """
    from seedscope.releasing import load_released  # start-up

    published = load_released(model)
    noise = published.noise_scale if noise_scale is None else noise_scale
    need = "noise_scale must be above 0: the standard deviation of the published noise on each weight"
    lacks = f"none, and {model / 'model.json'} has none either (only models by output perturbation say it)"
    require(bool(noise and noise > 0), f"{need}, got {lacks if noise is None else noise}.", argument="noise_scale")
    people = data_options.open_data(data, target, None, None, id, drop_missing, 0)
    summary = summarise(replace(published, noise_scale=noise), people, level, confidence)
    return options.print_json(summary) if as_json else print_abstention(summary)


def summarise(model: ReleasedModel, people: Dataset, level: float, confidence: float) -> dict[str, Any]:
    """Return who can be decided about, and on whom to abstain, among everybody in the data."""
    rows = np.concatenate([people.base.unfilled, people.test.unfilled])
    features = len(model.feature_names)
    require(rows.shape[1] == features, f"the model has {features} features, the data {rows.shape[1]}.")
    certified = model.arbitrariness(rows, confidence)
    certain = certified.certain(level)
    return {
        "people": len(rows),
        "noise_scale": model.noise_scale,
        "certain": int(certain.sum()),
        "level": level,
        "confidence": confidence,
        "abstained": [str(person) for person in np.concatenate([people.base.ids, people.test.ids])[~certain]],
        "disagreement_upper": certified.upper.tolist(),
    }


def print_abstention(summary: dict[str, Any]) -> None:
    """Print the summary in words."""
    named = summary["abstained"][:LISTED]
    more = len(summary["abstained"]) - len(named)
    say(
        f"{summary['certain']:,} of {summary['people']:,} people can be decided about: two runs would decide alike "
        f"with chance {summary['level']:g} or more, at {100 * summary['confidence']:g} % for each of them."
    )
    if named:
        say(f"Abstain on {', '.join(named)}{f' and {more:,} more' if more else ''}.")
