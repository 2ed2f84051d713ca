"""`seedscope audit`: from a table to a page that says what the randomness of training hides and decides."""

from __future__ import annotations

import shlex
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import options
from seedscope.errors import require, require_count

if TYPE_CHECKING:
    from seedscope.audit import Audit
    from seedscope.datasets import Dataset

LEVELS: dict[str, tuple[float, ...]] = {
    "objective": (0.5, 1.0, 2.0),
    "dpsgd": (0.5, 1.0, 2.0),
    "output": (1.0, 4.0, 8.0),
}
SHADOW_SEEDS = 100  # seeds of the models without a person, at most


def audit(
    data: options.Data = "breast-cancer",
    target: options.Target = None,
    group: options.Group = None,
    test: options.Test = None,
    id: options.Id = None,
    drop_missing: options.DropMissing = False,
    mechanism: Annotated[str, typer.Option(help=f"One of {', '.join(options.MECHANISMS)}.")] = "objective",
    model: Annotated[str, typer.Option(help=f"One of {', '.join(options.MODELS)}.")] = "logistic",
    epsilon: Annotated[list[float] | None, typer.Option(help="A privacy level; repeatable. Not for sgd.")] = None,
    delta: options.Delta = None,
    l2: options.L2 = None,
    learning_rate: options.LearningRate = None,
    batch_size: options.BatchSize = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    clip: options.Clip = None,
    models: Annotated[int, typer.Option(help="Re-trainings per level.")] = 1000,
    neighbours: Annotated[int, typer.Option(help="People whose membership is attacked.")] = 40,
    neighbour_models: Annotated[int, typer.Option(help="Re-trainings with and without each of them.")] = SHADOW_SEEDS,
    seed: options.Seed = 0,
    out: Annotated[Path, typer.Option(help="The folder of the report.")] = Path("seedscope-report"),
    store: Annotated[
        Path | None, typer.Option(help="The folder of the models; default runs/audit-DATA-MECHANISM.")
    ] = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    public: Annotated[bool, typer.Option("--public", help="Write only what does not depend on the data.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    as_json: options.Json = False,
) -> None:
    """Audit a training: privacy bought, privacy left and arbitrariness caused, person by person.

    With dpsgd each audited person gets both sides: an ε from their own gradients, and what an attack proves.
    Exit code 1 says that an attack beats what is guaranteed: then the training has a bug.

    \b
    Examples:
      seedscope audit
      seedscope audit --mechanism dpsgd --epsilon 1 --epsilon 2 --clip 0.5 --neighbour-models 200
      seedscope audit patients.csv --target outcome --group sex --mechanism objective --epsilon 0.5 --epsilon 2
    """
    from seedscope.report import claim_folder

    _require_counts(models, neighbours, neighbour_models)
    table = options.open_data(data, target, group, test, id, drop_missing, seed)
    given = options.MechanismOptions(learning_rate, batch_size, steps, epochs, None, delta, clip, None, l2)
    chosen = make_levels(given, mechanism, epsilon, len(table.base))
    network = options.make_model(model)
    _require_plans(table, chosen, network, seed)
    place = store or Path("runs") / f"audit-{table.name}-{mechanism}"
    claim_folder(out)
    with options.on_cluster(cluster, jobs):
        trained = [
            _train_level(table, one, network, models, neighbours, neighbour_models, seed, place / label, jobs, as_json)
            for label, one in chosen.items()
        ]
    found = _examined(trained, table)
    _finish(found, found.save(out, public), show, as_json)


def _require_counts(models: int, neighbours: int, neighbour_models: int) -> None:
    """Raise where there are too few re-trainings to compare."""
    require_count("models", models, at_least=2)
    require_count("neighbours", neighbours, at_least=0)
    require_count("neighbour_models", neighbour_models, at_least=2)


def _require_plans(data: Dataset, levels: dict[str, Any], model: Any, seed: int) -> None:
    """Raise what does not go together, before anything is trained or written."""
    from seedscope.grid import Grid
    from seedscope.plan import make_plan

    present = sorted(set(data.test.labels.tolist()))
    names = ", ".join(repr(data.class_names[one]) for one in present)
    few = f"the test part must hold at least two classes, it has only {names}; choose another --test."
    require(len(present) >= 2, few)
    for mechanism in levels.values():
        make_plan(data, mechanism, model, Grid(1, root_seed=seed))


def make_levels(
    given: options.MechanismOptions, mechanism: str, epsilons: list[float] | None, examples: int
) -> dict[str, Any]:
    """Return the mechanism of each privacy level by the level's name; plain SGD has one."""
    if mechanism == "sgd":
        require(not epsilons, "--epsilon is not an option of --mechanism sgd: it has no proved guarantee.")
        return {"sgd": given.make(mechanism, examples)}
    wanted = epsilons or LEVELS.get(mechanism, (1.0,))
    levels = {f"epsilon-{one:g}": replace(given, epsilon=one).make(mechanism, examples) for one in wanted}
    require(len(levels) == len(wanted), f"each --epsilon must be given once, got {epsilons}.")
    return levels


def _train_level(
    data: Any, mechanism: Any, model: Any, models: int, neighbours: int, neighbour_models: int, seed: int, place: Path,
    jobs: int | None, quiet: bool,
) -> Any:  # fmt: skip
    """Return a level's ensembles: many seeds on the base, and fewer with neighbours beside it."""
    from seedscope.commands.train import train_visibly
    from seedscope.grid import Grid
    from seedscope.mechanisms import DPSGD
    from seedscope.plan import Norms, Records

    base = train_visibly(
        data, mechanism, model, Grid(models, root_seed=seed), place / "base", jobs, quiet=quiet,
        records=Records(probes=("test",)), what=f"{place.name}: base",
    )  # fmt: skip
    if not neighbours:
        return base
    grid = Grid(neighbour_models, min(neighbours, len(data.base)), root_seed=seed)
    norms = Norms(precision="float16") if isinstance(mechanism, DPSGD) else None
    shadows = train_visibly(
        data, mechanism, model, grid, place / "neighbours", jobs, quiet=quiet,
        records=Records(probes=("neighbours",), norms=norms), what=f"{place.name}: neighbours",
    )  # fmt: skip
    return base, shadows


def _examined(trained: list[Any], data: Dataset) -> Audit:
    """Return the audit of the trained levels."""
    from seedscope.audit import audit as examine

    command = shlex.join(["seedscope", *sys.argv[1:]])
    return examine(*trained, data=data, command=command)


def _finish(found: Audit, written: list[Path], show: bool, as_json: bool) -> None:
    """Print the verdict and where the report is; open it if asked to; a bug in the training is an exit code too."""
    page = next(path for path in written if path.suffix == ".html")
    if as_json:
        report = found.as_dict()
        parts = {"verdict": report["verdict"], "alarms": report["alarms"], "written": [str(path) for path in written]}
        options.print_json(parts)
    else:
        _print_verdict(found)
        typer.echo(f"Report: {page}")
    if show:
        webbrowser.open(page.resolve().as_uri())
    if found.alarms:
        for alarm in found.alarms:
            typer.echo(f"seedscope: BUG IN THE TRAINING at {alarm}", err=True)
        raise typer.Exit(1)


def _print_verdict(found: Audit) -> None:
    """Print the advice, its reasons and the numbers that matter."""
    typer.echo(found.verdict.headline)
    for sentence in found.verdict.sentences:
        typer.echo(f"  {sentence}")
    for one in found.verdict.numbers:
        typer.echo(f"  {one.name}: {one.number}")
