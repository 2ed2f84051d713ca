"""`seedscope abstain`: whose decision a published model may take, told from that model alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from seedscope.commands import data_options, options
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
    noise_scale: Annotated[float, typer.Option(help="σ of the noise on each weight, as it was published.")] = 0.0,
    level: Annotated[float, typer.Option(help="Chance with which two runs must decide alike, 0.5 to 1.")] = 0.75,
    confidence: Annotated[float, typer.Option(help="With which that is so, for each person.")] = 0.95,
    as_json: options.Json = False,
) -> None:
    """Say on whom a model published by output perturbation should abstain: from the model alone, at no privacy cost.

    Nothing but published numbers enters, so whoever holds the model can run it on people of their own.

    \b
    Examples:
      seedscope release breast-cancer --mechanism output --epsilon 8 --out model
      seedscope abstain model breast-cancer --noise-scale 0.3
    """
    from seedscope.releasing import load_released  # start-up

    need = "noise_scale must be above 0: the standard deviation of the published noise on each weight"
    require(noise_scale > 0, f"{need}, got {noise_scale:g}.", argument="noise_scale")
    people = data_options.open_data(data, target, None, None, id, drop_missing, 0)
    found = summarise(load_released(model), people, noise_scale, level, confidence)
    return options.print_json(found) if as_json else print_abstention(found)


def summarise(
    model: ReleasedModel, people: Dataset, noise_scale: float, level: float, confidence: float
) -> dict[str, Any]:
    """Return who can be decided about, and on whom to abstain, among everybody in the data."""
    from seedscope.analyses.multiplicity import released_model_disagreement  # start-up

    require(model.linear and len(model.class_names) == 2, "abstain needs a linear model of two classes.")
    rows = np.concatenate([people.base.features, people.test.features])
    require(
        rows.shape[1] == len(model.weights) - 1, f"the model has {len(model.weights) - 1} features, the data other."
    )
    scaled = model.scaling.apply(np.asarray(rows, float))
    scores = scaled @ model.weights[:-1] + model.weights[-1]
    norms = np.hypot(np.linalg.norm(scaled, axis=1), 1)
    found = released_model_disagreement(scores, norms, noise_scale, confidence)
    certain = found.certain(level)
    return {
        "people": len(rows),
        "certain": int(certain.sum()),
        "level": level,
        "confidence": confidence,
        "abstained": [str(one) for one in np.concatenate([people.base.ids, people.test.ids])[~certain]],
        "disagreement_upper": found.upper.tolist(),
    }


def print_abstention(found: dict[str, Any]) -> None:
    """Print the summary in words."""
    named = found["abstained"][:LISTED]
    more = len(found["abstained"]) - len(named)
    typer.echo(
        f"{found['certain']:,} of {found['people']:,} people can be decided about: two runs would decide alike with "
        f"chance {found['level']:g} or more, at {100 * found['confidence']:g} % for each of them."
    )
    if named:
        typer.echo(f"Abstain on {', '.join(named)}{f' and {more:,} more' if more else ''}.")
