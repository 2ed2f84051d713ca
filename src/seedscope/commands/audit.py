"""`seedscope audit`: from a table to a page that says what the randomness of training hides and decides."""

from __future__ import annotations

import shlex
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import options
from seedscope.errors import require, require_count

if TYPE_CHECKING:
    from seedscope.audit import Audit

LEVELS: dict[str, tuple[float | None, ...]] = {"objective": (0.5, 1.0, 2.0), "output": (1.0, 4.0, 8.0)}
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
    delta: Annotated[float | None, typer.Option(help="δ of output perturbation; default 1/N².")] = None,
    l2: Annotated[float | None, typer.Option(help="Regularisation of output and objective perturbation.")] = None,
    learning_rate: Annotated[float, typer.Option(help="Learning rate of sgd.")] = 0.5,
    batch_size: Annotated[int, typer.Option(help="Batch size of sgd.")] = 32,
    steps: Annotated[int, typer.Option(help="Steps of sgd.")] = 1000,
    models: Annotated[int, typer.Option(help="Re-trainings per level.")] = 1000,
    neighbours: Annotated[int, typer.Option(help="People whose membership is attacked.")] = 40,
    neighbour_models: Annotated[int, typer.Option(help="Re-trainings with and without each of them.")] = SHADOW_SEEDS,
    seed: options.Seed = 0,
    out: Annotated[Path, typer.Option(help="The folder of the report.")] = Path("seedscope-report"),
    store: Annotated[
        Path | None, typer.Option(help="The folder of the models; default runs/audit-DATA-MECHANISM.")
    ] = None,
    jobs: options.Jobs = None,
    public: Annotated[bool, typer.Option("--public", help="Write only what does not depend on the data.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    as_json: options.Json = False,
) -> None:
    """Audit a training: privacy bought, privacy left and arbitrariness caused, person by person.

    \b
    Examples:
      seedscope audit
      seedscope audit patients.csv --target outcome --group sex --mechanism objective --epsilon 0.5 --epsilon 2
    """
    from seedscope.report import claim_folder

    require_count("models", models, at_least=2)
    require_count("neighbours", neighbours, at_least=0)
    require_count("neighbour_models", neighbour_models, at_least=2)
    table = options.open_data(data, target, group, test, id, drop_missing, seed)
    require(
        mechanism != "sgd" or not epsilon, "--epsilon is not an option of --mechanism sgd: it has no proved guarantee."
    )
    place = store or Path("runs") / f"audit-{table.name}-{mechanism}"
    chosen = [
        options.make_mechanism(
            mechanism, epsilon=one, delta=delta, l2=l2, learning_rate=learning_rate, batch_size=batch_size, steps=steps
        )
        for one in epsilon or LEVELS.get(mechanism, (None,))
    ]
    require(len(set(chosen)) == len(chosen), f"each --epsilon must be given once, got {epsilon}.")
    network = options.make_model(model)
    claim_folder(out)
    trained = [
        _train_level(table, one, network, models, neighbours, neighbour_models, seed, place, jobs, as_json)
        for one in chosen
    ]
    found = _examined(trained)
    _finish(found, found.save(out, public), show, as_json)


def _train_level(
    data: Any, mechanism: Any, model: Any, models: int, neighbours: int, neighbour_models: int, seed: int, place: Path,
    jobs: int | None, quiet: bool,
) -> Any:  # fmt: skip
    """Return a level's ensembles: many seeds on the base, and fewer with neighbours beside it."""
    from seedscope.commands.train import train_visibly
    from seedscope.grid import Grid
    from seedscope.plan import Records

    epsilon = getattr(mechanism, "epsilon", None)
    label = "sgd" if epsilon is None else f"epsilon-{epsilon:g}"
    base = train_visibly(
        data, mechanism, model, Grid(models, root_seed=seed), place / label / "base", jobs, quiet=quiet,
        records=Records(probes=("test",)), what=f"{label}: base",
    )  # fmt: skip
    if not neighbours:
        return base
    grid = Grid(neighbour_models, min(neighbours, len(data.base)), root_seed=seed)
    shadows = train_visibly(
        data, mechanism, model, grid, place / label / "neighbours", jobs, quiet=quiet,
        records=Records(probes=("neighbours",)), what=f"{label}: neighbours",
    )  # fmt: skip
    return base, shadows


def _examined(trained: list[Any]) -> Audit:
    """Return the audit of the trained levels."""
    from seedscope.audit import audit as examine

    command = shlex.join(["seedscope", *sys.argv[1:]])
    return examine(*trained, command=command)


def _finish(found: Audit, written: list[Path], show: bool, as_json: bool) -> None:
    """Print the verdict and where the report is; open it if asked to."""
    page = next(path for path in written if path.suffix == ".html")
    if as_json:
        verdict = found.as_dict()["verdict"]
        return options.print_json({"verdict": verdict, "written": [str(path) for path in written]})
    typer.echo(found.verdict.headline)
    for sentence in found.verdict.sentences:
        typer.echo(f"  {sentence}")
    for one in found.verdict.numbers:
        typer.echo(f"  {one.name}: {one.number}")
    if show:
        webbrowser.open(page.resolve().as_uri())
    return typer.echo(f"Report: {page}")
