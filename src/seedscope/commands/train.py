"""`seedscope train`: train a grid of models into a folder; stop and resume at will."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import options

if TYPE_CHECKING:
    from seedscope.ensemble import Ensemble


def train(
    data: options.Data = "breast-cancer",
    target: options.Target = None,
    group: options.Group = None,
    test: options.Test = None,
    id: options.Id = None,
    drop_missing: options.DropMissing = False,
    mechanism: Annotated[str, typer.Option(help=f"One of {', '.join(options.MECHANISMS)}.")] = "sgd",
    model: Annotated[str, typer.Option(help=f"One of {', '.join(options.MODELS)}.")] = "logistic",
    hidden: Annotated[int, typer.Option(help="Hidden units of the mlp.")] = 10,
    activation: Annotated[str, typer.Option(help="Activation of the mlp: relu, tanh or sigmoid.")] = "relu",
    learning_rate: Annotated[float, typer.Option(help="Learning rate of sgd.")] = 0.5,
    batch_size: Annotated[int, typer.Option(help="Batch size of sgd.")] = 32,
    steps: Annotated[int, typer.Option(help="Steps of sgd.")] = 1000,
    epsilon: Annotated[float | None, typer.Option(help="Privacy level of output and objective perturbation.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ of output perturbation; default 1/N².")] = None,
    l2: Annotated[float | None, typer.Option(help="Regularisation of output and objective perturbation.")] = None,
    noise_scale: Annotated[
        float | None, typer.Option(help="Noise of output perturbation, instead of --epsilon.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many random seeds.")] = 100,
    neighbours: Annotated[int, typer.Option(help="How many data sets that differ in one row, beside the base.")] = 0,
    init: Annotated[str, typer.Option(help="Initial weights: fixed, varied with the seed, or both.")] = "varied",
    relation: Annotated[
        str | None, typer.Option(help="replace_one or add_or_remove; default: the mechanism's.")
    ] = None,
    checkpoints: Annotated[str, typer.Option(help="How many checkpoints, or steps like 10,100,1000.")] = "1",
    seed: options.Seed = 0,
    store: Annotated[
        Path | None, typer.Option(help="The folder to keep models in; default runs/DATA-MECHANISM.")
    ] = None,
    jobs: options.Jobs = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check what is stored first, and train again what is damaged.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train models over seeds × neighbouring data sets, and keep them.

    Ctrl-C stops at any time; the same command goes on where it was, with more --seeds or --neighbours it adds to it.

    \b
    Examples:
      seedscope train breast-cancer --seeds 200 --neighbours 50
      seedscope train patients.csv --target outcome --group sex --mechanism objective --epsilon 1 --seeds 5000
    """
    from seedscope.grid import Grid

    table = options.open_data(data, target, group, test, id, drop_missing, seed)
    chosen = options.make_mechanism(
        mechanism, learning_rate=learning_rate, batch_size=batch_size, steps=steps, epsilon=epsilon, delta=delta, l2=l2,
        noise_scale=noise_scale,
    )  # fmt: skip
    place = store or Path("runs") / f"{table.name}-{mechanism}"
    grid = Grid(seeds, neighbours, init, options.parse_steps(checkpoints), relation, seed)  # type: ignore[arg-type]
    network = options.make_model(model, hidden, activation)
    ensemble = train_visibly(table, chosen, network, grid, place, jobs, verify=verify, quiet=as_json)
    summary = summarise(ensemble)
    if as_json:
        return options.print_json(summary)
    return print_summary(summary)


def train_visibly(
    data: Any, mechanism: Any, model: Any, grid: Any, store: Path, jobs: int | None, *, verify: bool = False,
    quiet: bool = False, records: Any = None, what: str = "training",
) -> Ensemble:  # fmt: skip
    """Return the trained ensemble, with a progress bar and, when interrupted, a word on how to go on."""
    from seedscope.run import train as train_grid

    reached = (0, 0)
    try:
        with options.model_progress(what, quiet) as move:

            def progress(done: int, total: int) -> None:
                nonlocal reached
                reached = (done, total)
                move(done, total)

            return train_grid(
                data, mechanism, model=model, grid=grid, records=records, store=store, jobs=jobs, verify=verify,
                progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        done, total = reached
        typer.echo(
            f"\nStopped. {done:,} of {total:,} models are kept in {store}; run the same command to go on.", err=True
        )
        raise typer.Exit(130) from None


def summarise(ensemble: Ensemble) -> dict[str, Any]:
    """Return what a person wants to know of a finished training: sizes, accuracy, guarantee, place."""
    description, sizes = ensemble.description, ensemble.dataset.sizes
    accuracy = ensemble.accuracy()
    return {
        "store": str(ensemble.path),
        "models": sizes["seed"] * sizes["neighbour"] * sizes["init"],
        "seeds": sizes["seed"],
        "neighbours": sizes["neighbour"] - 1,
        "parameters": sizes["parameter"],
        "mechanism": description["mechanism"],
        "guarantee": description["guarantee"],
        "test_accuracy": {
            "mean": float(accuracy.mean()), "smallest": float(accuracy.min()), "largest": float(accuracy.max())
        },
    }  # fmt: skip


def print_summary(summary: dict[str, Any]) -> None:
    """Print the summary in words."""
    accuracy, guarantee = summary["test_accuracy"], summary["guarantee"]
    typer.echo(
        f"{summary['models']:,} models of {summary['parameters']:,} weights: {summary['seeds']:,} seeds × "
        f"(base + {summary['neighbours']:,} neighbours)."
    )
    typer.echo(
        f"Test accuracy {accuracy['mean']:.3f} on average, {accuracy['smallest']:.3f} to {accuracy['largest']:.3f}."
    )
    epsilon = guarantee["epsilon"]
    if epsilon is None:
        typer.echo(f"No proved ε: {guarantee['reason']}")
    else:
        typer.echo(f"ε = {epsilon['value']:g}, δ = {guarantee['delta']:.2g} ({epsilon['kind']}): {guarantee['reason']}")
    typer.echo(f"Kept in {summary['store']}")
