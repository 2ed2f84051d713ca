"""Options that several commands share, and how they become data, mechanisms and models."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.errors import SeedscopeError, require, unknown_name
from seedscope.progress import model_progress as model_progress

if TYPE_CHECKING:
    from seedscope.datasets import Dataset

MECHANISMS = ("sgd", "output", "objective")
MODELS = ("logistic", "mlp", "lenet5", "small-cnn", "small-vgg")

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A data set's name ('seedscope data list') or a CSV or Parquet file.")
]
Target = Annotated[str | None, typer.Option(help="The column to predict (for a file).")]
Group = Annotated[
    list[str] | None, typer.Option(help="A column to compare people by, kept out of the features; repeatable.")
]
Test = Annotated[str | None, typer.Option(help="The column that marks test rows; else a stratified quarter is drawn.")]
Id = Annotated[str | None, typer.Option(help="The column that identifies a row; else the row's number.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with empty cells.")]
Seed = Annotated[int, typer.Option(help="The root seed: everything random follows from it.")]
Jobs = Annotated[int | None, typer.Option(help="Worker processes; default: all cores, or none for a small grid.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def open_data(
    data: str,
    target: str | None = None,
    groups: list[str] | None = None,
    test: str | None = None,
    id: str | None = None,
    drop_missing: bool = False,
    seed: int = 0,
) -> Dataset:
    """Return the named data set, or the table in the named file."""
    from seedscope import datasets

    if data in datasets.names():
        given = {"--target": target, "--group": groups, "--test": test, "--id": id, "--drop-missing": drop_missing}
        foreign = [name for name, value in given.items() if value]
        require(not foreign, f"{', '.join(foreign)} is for a file; {data!r} is a data set with its own columns.")
        return datasets.load(data)
    if not Path(data).suffix and not Path(data).exists():
        raise unknown_name("data set or file", data, datasets.names())
    require(Path(data).exists(), f"no file {data}; check the path, or see 'seedscope data list' for named data sets.")
    if target is None:
        raise SeedscopeError(f"--target must name the column of {data} to predict.")
    return datasets.read_table(
        data, target=target, groups=groups or (), test=test, id=id, drop_missing=drop_missing, seed=seed
    )


def make_model(name: str, hidden: int = 10, activation: str = "relu") -> Any:
    """Return the model of that name."""
    from seedscope import models

    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    makers = {
        "logistic": models.logistic,
        "mlp": lambda: models.mlp(hidden, activation),
        "lenet5": models.lenet5,
        "small-cnn": models.small_cnn,
        "small-vgg": models.small_vgg,
    }
    return makers[name]()


def make_mechanism(
    name: str,
    *,
    learning_rate: float = 0.5,
    batch_size: int = 32,
    steps: int = 1000,
    epsilon: float | None = None,
    delta: float | None = None,
    l2: float | None = None,
    noise_scale: float | None = None,
) -> Any:
    """Return the mechanism of that name, with the options that it takes; others that were given are refused."""
    from seedscope import mechanisms

    if name not in MECHANISMS:
        raise unknown_name("mechanism", name, MECHANISMS)
    if name == "sgd":
        _refuse(name, epsilon=epsilon, delta=delta, l2=l2, noise_scale=noise_scale)
        return mechanisms.SGD(learning_rate, batch_size, steps)
    if name == "objective":
        _refuse(name, delta=delta, noise_scale=noise_scale)
        return mechanisms.ObjectivePerturbation(1.0 if epsilon is None else epsilon, l2)
    if epsilon is None and noise_scale is None:
        epsilon = 1.0
    return mechanisms.OutputPerturbation(epsilon, delta, 0.01 if l2 is None else l2, noise_scale)


def _refuse(mechanism: str, **given: float | None) -> None:
    """Raise if an option was given that the mechanism has no use for."""
    foreign = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    why = " (plain SGD has no proved guarantee to aim at)" if mechanism == "sgd" else ""
    require(not foreign, f"{', '.join(foreign)} is not an option of --mechanism {mechanism}{why}.")


def print_json(value: Any) -> None:
    """Print a value as JSON; numbers that JSON lacks become null."""
    typer.echo(json.dumps(_finite(value), indent=1, ensure_ascii=False, default=str))


def _finite(value: Any) -> Any:
    """Return the value with infinities and NaN as None."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_steps(text: str | None) -> int | tuple[int, ...]:
    """Return checkpoints from text: a number of them, or steps separated by commas."""
    try:
        numbers = [int(one) for one in (text or "1").split(",")]
    except ValueError:
        raise SeedscopeError(f"checkpoints must be a number or steps like 10,100,1000, got {text!r}.") from None
    return numbers[0] if len(numbers) == 1 else tuple(numbers)
