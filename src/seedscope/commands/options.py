"""Options that several commands share, and how they become data, mechanisms and models."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.errors import SeedscopeError, require, require_count, require_positive, unknown_name
from seedscope.progress import model_progress as model_progress

if TYPE_CHECKING:
    from seedscope.datasets import Dataset

MECHANISMS = ("sgd", "dpsgd", "output", "objective")
STEPPING = ("learning_rate", "batch_size", "steps", "epochs")
TAKES = {
    "sgd": STEPPING,
    "dpsgd": (*STEPPING, "epsilon", "delta", "clip", "noise_multiplier"),
    "output": ("epsilon", "delta", "l2", "noise_scale"),
    "objective": ("epsilon", "l2"),
}
DPSGD_BATCH, DPSGD_STEPS, DPSGD_RATE, DPSGD_CLIP = 256, 150, 4.0, 0.5  # at most a quarter of the rows in a batch
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
LearningRate = Annotated[float | None, typer.Option(help="Learning rate of sgd (0.5) and dpsgd (4).")]
BatchSize = Annotated[
    int | None, typer.Option(help="Batch size of sgd (32), expected one of dpsgd (256, or a quarter of the rows).")
]
Steps = Annotated[int | None, typer.Option(help="Steps of sgd (1000) and dpsgd (150).")]
Epochs = Annotated[float | None, typer.Option(help="Instead of --steps: passes over the data.")]
Delta = Annotated[float | None, typer.Option(help="δ of dpsgd and output perturbation; default 1/N².")]
Clip = Annotated[float | None, typer.Option(help="Norm to which dpsgd clips gradients; default 0.5.")]
NoiseMultiplier = Annotated[float | None, typer.Option(help="Noise of dpsgd over --clip, instead of --epsilon.")]
L2 = Annotated[float | None, typer.Option(help="Regularisation of output and objective perturbation.")]
Jobs = Annotated[int | None, typer.Option(help="Worker processes; default: all cores, or none for a small grid.")]
Cluster = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Train on a Dask cluster, like tcp://10.0.0.1:8786, instead.")
]
Memory = Annotated[
    str | None, typer.Option(help="What a worker may use, like 2GiB; it decides only when a store is made.")
]
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
        given = {"--target": target, "--test": test, "--id": id, "--drop-missing": drop_missing}
        foreign = [name for name, value in given.items() if value]
        require(not foreign, f"{', '.join(foreign)} is for a file; {data!r} is a data set with its own columns.")
        return with_groups(datasets.load(data), groups)
    if not Path(data).suffix and not Path(data).exists():
        raise unknown_name("data set or file", data, datasets.names())
    require(Path(data).exists(), f"no file {data}; check the path, or see 'seedscope data list' for named data sets.")
    if target is None:
        raise SeedscopeError(f"--target must name the column of {data} to predict.")
    return datasets.read_table(
        data, target=target, groups=groups or (), test=test, id=id, drop_missing=drop_missing, seed=seed
    )


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


def on_cluster(address: str | None, jobs: int | None) -> AbstractContextManager[None]:
    """Return the context in which everything trains on a cluster, if one was named."""
    from seedscope import dispatch

    both = address is not None and jobs is not None
    require(not both, "--jobs is for local processes; leave it out with --cluster, whose workers are all used.")
    return dispatch.on_cluster(address)


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


@dataclass(frozen=True)
class MechanismOptions:
    """What a person said about a mechanism, None where they said nothing; `make` gives the mechanism."""

    learning_rate: float | None = None
    batch_size: int | None = None
    steps: int | None = None
    epochs: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    clip: float | None = None
    noise_multiplier: float | None = None
    l2: float | None = None
    noise_scale: float | None = None

    def make(self, name: str, examples: int) -> Any:
        """Return the mechanism of that name for so many training rows; options that it lacks are refused."""
        from seedscope import mechanisms

        if name not in MECHANISMS:
            raise unknown_name("mechanism", name, MECHANISMS)
        self._refuse_foreign(name)
        if name == "objective":
            return mechanisms.ObjectivePerturbation(1.0 if self.epsilon is None else self.epsilon, self.l2)
        if name == "output":
            aim = 1.0 if self.epsilon is None and self.noise_scale is None else self.epsilon
            l2 = 0.01 if self.l2 is None else self.l2
            return mechanisms.OutputPerturbation(aim, self.delta, l2, self.noise_scale)
        return self._sgd(examples) if name == "sgd" else self._dpsgd(examples)

    def _sgd(self, examples: int) -> Any:
        """Return plain SGD."""
        from seedscope import mechanisms

        size = 32 if self.batch_size is None else self.batch_size
        rate = 0.5 if self.learning_rate is None else self.learning_rate
        return mechanisms.SGD(rate, size, self._steps(examples, size, default=1000))

    def _dpsgd(self, examples: int) -> Any:
        """Return DP-SGD with the least noise that reaches ε, or the noise that was asked for."""
        from seedscope import mechanisms

        exclusive = self.epsilon is None or self.noise_multiplier is None
        require(exclusive, "--epsilon and --noise-multiplier exclude each other: one gives the other.")
        require(self.epsilon is None or self.epsilon > 0, f"epsilon must be above 0, got {self.epsilon}.")
        size = min(DPSGD_BATCH, max(1, examples // 4)) if self.batch_size is None else self.batch_size
        require_count("batch_size", size)
        steps = self._steps(examples, size, default=DPSGD_STEPS)
        rate = DPSGD_RATE if self.learning_rate is None else self.learning_rate
        clip = DPSGD_CLIP if self.clip is None else self.clip
        delta = examples**-2 if self.delta is None else self.delta
        given: dict[str, Any] = {"batch_size": size, "steps": steps, "learning_rate": rate, "clipping_norm": clip}
        if self.noise_multiplier is not None:
            return mechanisms.DPSGD(noise_multiplier=self.noise_multiplier, delta=delta, **given)
        aim = 1.0 if self.epsilon is None else self.epsilon
        return mechanisms.DPSGD.calibrated(aim, delta, examples=examples, **given)

    def _steps(self, examples: int, batch_size: int, default: int) -> int:
        """Return the number of steps: as given, of so many epochs, or the default."""
        require(self.steps is None or self.epochs is None, "give either --steps or --epochs, not both.")
        if self.epochs is None:
            return default if self.steps is None else self.steps
        require_positive("epochs", self.epochs)
        require_count("batch_size", batch_size)
        return max(1, round(self.epochs * examples / batch_size))

    def _refuse_foreign(self, mechanism: str) -> None:
        """Raise if an option was given that the mechanism has no use for."""
        given = [name for name, value in vars(self).items() if value is not None]
        foreign = [f"--{name.replace('_', '-')}" for name in given if name not in TAKES[mechanism]]
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
