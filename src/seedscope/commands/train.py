"""`seedscope train`: train a grid of models into a folder; stop and resume at will."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import data_options, ending, mechanism_options, model_options, options
from seedscope.commands.terminal import confirm, logs, progress_of, say
from seedscope.core import SeedscopeError, in_bytes, require

if TYPE_CHECKING:
    from seedscope.datasets import Dataset
    from seedscope.execution import Estimate
    from seedscope.storage import Ensemble

SEEDS = 100
LONG = 3600  # seconds

NoiseScale = Annotated[float | None, typer.Option(help="Noise of output perturbation, instead of --epsilon.")]
UntilError = Annotated[
    float | None, typer.Option(help="Instead of --seeds: until each test person's disagreement is known to this error.")
]
MaxSeeds = Annotated[int | None, typer.Option(help="With --until-error: stop at this many seeds at the latest.")]
RelationName = Annotated[str | None, typer.Option(help="replace_one or add_or_remove; default: the mechanism's.")]
NormsOf = Annotated[
    str | None, typer.Option(help="With dpsgd: record gradient norms of the neighbours, of train or of test rows.")
]
NormsEvery = Annotated[str, typer.Option(help="How often norms are recorded: a number of steps, or epoch.")]
NormsOrders = Annotated[
    str | None,
    typer.Option(help="Keep no norms but sums of step divergences at Rényi orders like 1.5,2,4: for many runs."),
]
LossesOf = Annotated[
    str | None,
    typer.Option("--losses", help="Record privacy losses: of train, of neighbours, or of this many training rows."),
]
Store = Annotated[
    Path | None, typer.Option(help="The folder to keep models in; default: one in runs, named by what is trained.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse to mix models of different versions, processors or compiler's flags.")
]
Verify = Annotated[bool, typer.Option("--verify", help="Check what is stored first, and train again what is damaged.")]


def train(
    data: data_options.Data = "breast-cancer",
    target: data_options.Target = None,
    group: data_options.Group = None,
    test: data_options.Test = None,
    id: data_options.Id = None,
    drop_missing: data_options.DropMissing = False,
    mechanism: mechanism_options.Name = "sgd",
    model: model_options.Name = "logistic",
    hidden: model_options.Hidden = 10,
    activation: Annotated[str, typer.Option(help="Activation of the mlp: relu, tanh or sigmoid.")] = "relu",
    dropout: Annotated[float, typer.Option(help="Share of the mlp's hidden units left out at random (sgd).")] = 0.0,
    learning_rate: mechanism_options.LearningRate = None,
    batch_size: mechanism_options.BatchSize = None,
    steps: mechanism_options.Steps = None,
    epochs: mechanism_options.Epochs = None,
    epsilon: mechanism_options.Epsilon = None,
    delta: mechanism_options.Delta = None,
    clip: mechanism_options.Clip = None,
    noise_multiplier: mechanism_options.NoiseMultiplier = None,
    public_size: mechanism_options.PublicSize = None,
    private_scaling: mechanism_options.PrivateScaling = None,
    imputation_share: mechanism_options.ImputationShare = None,
    personal_budget: mechanism_options.PersonalBudget = None,
    l2: mechanism_options.L2 = None,
    noise_scale: NoiseScale = None,
    seeds: Annotated[int | None, typer.Option(help=f"How many random seeds; default {SEEDS}.")] = None,
    until_error: UntilError = None,
    confidence: Annotated[float, typer.Option(help="With which all those errors are as small.")] = 0.95,
    max_seeds: MaxSeeds = None,
    neighbours: Annotated[int, typer.Option(help="How many data sets that differ in one row, beside the base.")] = 0,
    init: Annotated[str, typer.Option(help="Initial weights: fixed, varied with the seed, or both.")] = "varied",
    relation: RelationName = None,
    checkpoints: Annotated[str, typer.Option(help="How many checkpoints, or steps like 10,100,1000.")] = "1",
    norms: NormsOf = None,
    norms_every: NormsEvery = "1",
    norms_orders: NormsOrders = None,
    losses: LossesOf = None,
    seed: options.Seed = 0,
    store: Store = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    memory: options.Memory = None,
    verify: Verify = False,
    strict: Strict = False,
    as_json: options.Json = False,
) -> None:
    """Train models over seeds × neighbouring data sets, and keep them.

    Ctrl-C stops at any time; the same command goes on where it was, with more --seeds or --neighbours it adds to it.

    \b
    Examples:
      seedscope train breast-cancer --seeds 200 --neighbours 50
      seedscope train breast-cancer --seeds 20000 --neighbours 50 --cluster tcp://10.0.0.1:8786 --memory 2GiB
      seedscope train patients.csv --target outcome --group sex --mechanism objective --epsilon 1 --seeds 5000
      seedscope train breast-cancer --mechanism dpsgd --epsilon 2 --epochs 30 --clip 0.5 --neighbours 20
      seedscope train breast-cancer --mechanism dpsgd --epsilon 2 --norms train --store runs/for-unlearn
      seedscope train breast-cancer --mechanism dpsgd --epsilon 2 --seeds 400 --losses train
      seedscope train breast-cancer --mechanism objective --epsilon 1 --until-error 0.05 --confidence 0.95
    """
    from seedscope.planning import Grid  # start-up

    check_until(until_error, seeds, max_seeds)
    records = with_losses(norm_records(norms, norms_every, norms_orders), losses)
    require(until_error is None or records is None, "--norms and --losses go with --seeds; leave --until-error out.")
    table = data_options.open_data(data, target, group, test, id, drop_missing, seed)
    given = mechanism_options.MechanismOptions(
        learning_rate,
        batch_size,
        steps,
        epochs,
        epsilon,
        delta,
        clip,
        noise_multiplier,
        l2,
        noise_scale,
        public_size,
        personal_budget=personal_budget,
    )
    chosen, scaling = _with_private_parts(given, mechanism, table, private_scaling, imputation_share)
    count = SEEDS if seeds is None else seeds
    grid = Grid(count, neighbours, init, options.parse_steps(checkpoints), relation, seed)  # type: ignore[arg-type]
    network = model_options.make_model(model, hidden, activation, dropout)
    place = (
        store
        or Path("runs") / f"{table.name}-{mechanism}-{_short_name(table, chosen, network, grid, records, scaling)}"
    )
    with options.on_cluster(cluster, jobs):
        if until_error is None:
            trained = train_visibly(
                table, chosen, network, grid, place, jobs, verify=verify, quiet=as_json, memory=memory, records=records,
                scaling=scaling, strict=strict,
            )  # fmt: skip
            summary = summarise(trained)
        else:
            limits = {
                "error": until_error,
                "confidence": confidence,
                "maximum": max_seeds,
                "memory": memory,
                "verify": verify,
                "strict": strict,
                "scaling": scaling,
            }
            summary = train_until_visibly(table, chosen, network, grid, place, jobs, as_json, limits)
    return options.print_json(summary) if as_json else print_summary(summary)


def _with_private_parts(
    given: mechanism_options.MechanismOptions,
    mechanism: str,
    data: Dataset,
    private_scaling: float | None,
    imputation_share: float | None,
) -> tuple[Any, Any]:
    """Return the mechanism and how rows are scaled (None: as usual): private preprocessing is paid out of its ε."""
    imputes = data.imputation is not None and data.imputation.draws
    if private_scaling is None and imputation_share is None and not imputes:
        return given.make(mechanism, len(data.base)), None
    noise = given.noise_multiplier is None and given.noise_scale is None
    require(noise, "private preprocessing is paid out of --epsilon; give that, and no noise.")
    aim = None if mechanism == "sgd" else 1.0 if given.epsilon is None else given.epsilon
    level = mechanism_options.level(given, mechanism, aim, data, private_scaling, imputation_share)
    return level.mechanism, level.scaling


def _short_name(data: Any, mechanism: Any, model: Any, grid: Any, records: Any, scaling: Any) -> str:
    """Return the name of what is trained, for a store that nobody named: another option gets another store."""
    from seedscope.planning import make_plan  # start-up

    return make_plan(data, mechanism, model, grid, records, scaling).short_name


def train_visibly(
    data: Any, mechanism: Any, model: Any, grid: Any, store: Path, jobs: int | None, *, verify: bool = False,
    quiet: bool = False, records: Any = None, what: str = "training", memory: str | None = None, scaling: Any = None,
    strict: bool = False,
) -> Ensemble:  # fmt: skip
    """Return the trained ensemble; say before what it takes, show progress and, when interrupted, how to go on."""
    from seedscope.execution import train as train_grid  # start-up

    with visibly(what, store, quiet) as progress:
        return train_grid(
            data, mechanism, model=model, grid=grid, records=records, store=store, jobs=jobs, memory=memory,
            verify=verify, strict=strict, progress=progress, announce=None if quiet else announce, scaling=scaling,
        )  # fmt: skip


def announce(estimate: Estimate) -> None:
    """Print what training will take; on a terminal, ask before very long work or where the disk may be too small."""
    say(str(estimate), err=True)
    if not estimate.fits:
        say(f"The disk has {in_bytes(estimate.free_bytes or 0)} left; what is compressed may still fit.", err=True)
    doubtful = estimate.seconds > LONG or not estimate.fits
    if doubtful and not logs() and sys.stdin.isatty() and sys.stderr.isatty():
        confirm("Go on?", default=True)


def train_until_visibly(
    data: Any, mechanism: Any, model: Any, grid: Any, store: Path, jobs: int | None, quiet: bool, limits: dict[str, Any]
) -> dict[str, Any]:
    """Train until errors are small enough, visibly, and return the summary with the error that was reached."""
    from seedscope.execution import train_until  # start-up

    with visibly("training", store, quiet) as progress:
        until = train_until(
            data, mechanism, model=model, grid=grid, store=store, jobs=jobs, progress=progress,
            announce=None if quiet else announce, **limits,
        )  # fmt: skip
    reached = {"reached": until.reached, "wanted": limits["error"], "error": until.error.as_dict()}
    words = {} if until.stand_ins is None else {"stand_ins": until.stand_ins.words()}
    return summarise(until.ensemble) | {"until_error": reached | words}


@contextmanager
def visibly(what: str, store: Path, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield what shows progress (done, total); when interrupted, say what is kept and how to go on."""
    reached = (0, 0)
    try:
        with progress_of(what, quiet) as move:

            def progress(done: int, total: int) -> None:
                nonlocal reached
                reached = (done, total)
                move(done, total)

            yield progress
    except KeyboardInterrupt:
        done, total = reached
        say(f"\nStopped. {done:,} of {total:,} models are kept in {store}; run the same command to go on.", err=True)
        raise typer.Exit(ending.stopped_code()) from None


def norm_records(of: str | None, every: str, orders: str | None = None) -> Any:
    """Return what is recorded where gradient norms are asked for; None: the defaults."""
    from seedscope.planning import Norms, Records  # start-up

    if of is None:
        require(every == "1" and orders is None, "--norms-every and --norms-orders go with --norms.")
        return None
    known = every == "epoch" or every.isdigit()
    require(known, f"--norms-every must be a number of steps or 'epoch', got {every!r}.")
    often: Any = "epoch" if every == "epoch" else int(every)
    return Records(norms=Norms(of, often, orders=_orders(orders)))  # type: ignore[arg-type]


def with_losses(records: Any, of: str | None) -> Any:
    """Return the records with people's privacy losses, where they are asked for."""
    from seedscope.planning import Records  # start-up

    if of is None:
        return records
    return replace(records or Records(), losses_of=int(of) if of.isdigit() else of)


def _orders(written: str | None) -> tuple[float, ...]:
    """Return the numbers of a list with commas."""
    try:
        return tuple(float(order) for order in written.split(",")) if written else ()
    except ValueError:
        raise SeedscopeError(f"--norms-orders must be numbers with commas, like 1.5,2,4, got {written!r}.") from None


def check_until(until_error: float | None, seeds: int | None, max_seeds: int | None) -> None:
    """Raise where options of a fixed and of an open number of seeds are mixed."""
    if until_error is None:
        require(max_seeds is None, "--max-seeds goes with --until-error; give --seeds for a fixed number.")
        return
    require(
        seeds is None, "--until-error finds the number of seeds itself; leave --seeds out, or limit it by --max-seeds."
    )


def summarise(ensemble: Ensemble) -> dict[str, Any]:
    """Return what a person wants to know of a finished training: sizes, accuracy, guarantee with its curve, place."""
    description, sizes = ensemble.description, ensemble.dataset.sizes
    accuracy = ensemble.accuracy()
    curve = None if ensemble.guarantee.epsilon is None else ensemble.mechanism.trade_off(description.conditions)
    return {
        "store": str(ensemble.path),
        "models": sizes["seed"] * sizes["neighbour"] * sizes["init"],
        "seeds": sizes["seed"],
        "neighbours": sizes["neighbour"] - 1,
        "parameters": sizes["parameter"],
        "mechanism": dict(description.described_mechanism),
        "guarantee": description.guarantee.describe(),
        "trade_off": None if curve is None else curve.as_dict(),
        "test_accuracy": {
            "mean": float(accuracy.mean()), "smallest": float(accuracy.min()), "largest": float(accuracy.max())
        },
    }  # fmt: skip


def print_summary(summary: dict[str, Any]) -> None:
    """Print the summary in words."""
    accuracy, guarantee = summary["test_accuracy"], summary["guarantee"]
    say(
        f"{summary['models']:,} models of {summary['parameters']:,} weights: {summary['seeds']:,} seeds × "
        f"(base + {summary['neighbours']:,} neighbours)."
    )
    say(f"Test accuracy {accuracy['mean']:.3f} on average, {accuracy['smallest']:.3f} to {accuracy['largest']:.3f}.")
    epsilon = guarantee["epsilon"]
    if epsilon is None:
        say(f"No proved ε: {guarantee['reason']}")
    else:
        say(f"ε = {epsilon['value']:g}, δ = {guarantee['delta']:.2g} ({epsilon['kind']}): {guarantee['reason']}")
    if summary["trade_off"] is not None:
        say(attacks_sentence(summary["trade_off"]))
    if "until_error" in summary:
        say(until_sentence(summary["until_error"]))
    say(f"Kept in {summary['store']}")


def attacks_sentence(curve: dict[str, Any]) -> str:
    """Return in words what the guarantee's curve leaves to membership attacks."""
    rates = [
        f"{100 * rate['at_most']:.3g} % of the members at {100 * rate['false_positive_rate']:g} % false accusations"
        for rate in curve["true_positive_rates"][:2]
    ]
    gain = f"By that no membership attack gains more than {curve['advantage']['value']:.3g}"
    return f"{gain} or finds more than {' or '.join(rates)}; μ = {curve['mu']['value']:.3g}."


def until_sentence(summary: dict[str, Any]) -> str:
    """Return in words whether the wanted error was reached."""
    error, confidence = summary["error"]["value"], summary["error"]["confidence"]
    known = f"Each test person's disagreement is known to within {error:.3g}, all at once at {100 * confidence:g} %"
    more = f" {summary['stand_ins']}" if "stand_ins" in summary else ""
    said = f"{known}." if summary["reached"] else f"{known}: not yet {summary['wanted']:g}, raise --max-seeds to go on."
    return said + more
