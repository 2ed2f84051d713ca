"""`seedscope audit`: from a table to a page that says what the randomness of training hides and decides."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import (
    data_options,
    mechanism_options,
    model_options,
    options,
    own_models,
    policy_options,
)
from seedscope.commands.common_options import as_toml
from seedscope.commands.given_options import refuse_others
from seedscope.commands.terminal import log, logs, said_command, say
from seedscope.core import require, require_count

if TYPE_CHECKING:
    from seedscope.auditing import Audit
    from seedscope.datasets import Dataset

LEVELS: dict[str, tuple[float, ...]] = {
    "gaussian-objective": (0.5, 1.0, 2.0),
    "objective": (0.5, 1.0, 2.0),
    "dpsgd": (0.5, 1.0, 2.0),
    "output": (1.0, 4.0, 8.0),
}
MOST_SCORES = 20_000_000  # of training people, that are recorded: 160 megabytes with their losses
TELLING = ("gaussian-objective", "objective", "dpsgd")
SHADOW_SEEDS = 100  # seeds of the models without a person, at most


def audit(
    context: typer.Context,
    data: data_options.Data = "breast-cancer",
    target: data_options.Target = None,
    group: data_options.Group = None,
    test: data_options.Test = None,
    id: data_options.Id = None,
    drop_missing: data_options.DropMissing = False,
    mechanism: mechanism_options.Name = mechanism_options.DEFAULT,
    model: model_options.Name = "logistic",
    epsilon: Annotated[list[float] | None, typer.Option(help="A privacy level; repeatable. Not for sgd.")] = None,
    delta: mechanism_options.Delta = None,
    l2: mechanism_options.L2 = None,
    learning_rate: mechanism_options.LearningRate = None,
    batch_size: mechanism_options.BatchSize = None,
    steps: mechanism_options.Steps = None,
    epochs: mechanism_options.Epochs = None,
    clip: mechanism_options.Clip = None,
    smooth_clipping: mechanism_options.SmoothClipping = False,
    public_size: mechanism_options.PublicSize = None,
    personal_budget: mechanism_options.PersonalBudget = None,
    private_scaling: mechanism_options.PrivateScaling = None,
    imputation_share: mechanism_options.ImputationShare = None,
    models: Annotated[int, typer.Option(help="Re-trainings per level.")] = 1000,
    neighbours: Annotated[int, typer.Option(help="People whose membership is attacked.")] = 40,
    attack: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Attack this person too, by their identifier; repeatable.")
    ] = None,
    neighbour_models: Annotated[int, typer.Option(help="Re-trainings with and without each of them.")] = SHADOW_SEEDS,
    seed: options.Seed = 0,
    out: Annotated[Path, typer.Option(help="The folder of the report.")] = Path("seedscope-report"),
    store: Annotated[
        Path | None, typer.Option(help="The folder of the models; default: one in runs, named by what is trained.")
    ] = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    estimator: own_models.Estimator = None,
    resample: own_models.Resample = "none",
    scores: Annotated[
        Path | None, typer.Option(help="Instead of DATA: predictions of models trained elsewhere (.npz, CSV, Parquet).")
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(help="How well can this column of a person be told by one who knows the rest? Repeatable."),
    ] = None,
    candidates: Annotated[int, typer.Option(help="Among how many values a sensitive number is guessed.")] = 10,
    policy: policy_options.PolicyFile = None,
    fail_if: policy_options.FailIf = None,
    junit: policy_options.JUnit = None,
    sarif: policy_options.Sarif = None,
    about: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Also write a sheet to print for this person; repeatable.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="Write only what does not depend on the data.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write individuals.parquet too.")] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Audit a training: privacy bought, privacy left and arbitrariness caused, person by person.

    With dpsgd each audited person gets both sides: an ε from their own gradients, and what an attack proves.
    Exit codes: 0 every rule that was asked for is kept (--policy, --fail-if), 1 not, 2 a mistake in the command, 3 an
    attack beats what is guaranteed (then the training has a bug) or claimed.

    \b
    Examples:
      seedscope audit
      seedscope audit --mechanism dpsgd --epsilon 1 --epsilon 2 --clip 0.5 --neighbour-models 200
      seedscope audit patients.csv --target outcome --group sex --mechanism objective --epsilon 0.5 --epsilon 2
      seedscope audit patients.csv --target outcome --group sex --estimator my_module:pipeline
      seedscope audit --scores predictions.npz
      seedscope audit --config audit.toml --log-json
      seedscope audit patients.csv --target outcome --id record --attack 000017 --about 000017
      seedscope audit patients.csv --target outcome --sensitive smoker --sensitive age
      seedscope audit patients.csv --target outcome --policy policy.toml --fail-if "advantage>0.1" --junit verdict.xml
    """
    from seedscope.report import claim_folder  # start-up

    require(not (public and about), "--about is about one person, which a --public report must not be; leave one out.")
    judging = policy_options.Judging(policy, fail_if or (), junit, sarif)
    judging.rules()  # a mistake in them must not be found after long work
    unknown = "--sensitive needs a mechanism whose released models have a known density"
    known = not sensitive or (scores is None and estimator is None and mechanism in TELLING)
    require(known, f"{unknown}: --mechanism {', '.join(TELLING)}.")
    filtered = "--sensitive cannot follow people who leave the sum; leave out --personal-budget."
    require(not sensitive or personal_budget is None, filtered)
    if scores is not None:
        return _finish_scores(context, scores, out, public, show, as_json, judging, parquet, about)
    _require_counts(models, neighbours, neighbour_models)
    if estimator is not None:
        claim_folder(out)
        counts = {"models": models, "neighbours": neighbours, "neighbour_models": neighbour_models}
        own = own_models.audit_estimator(
            context,
            estimator,
            data,
            target,
            group,
            test,
            id,
            drop_missing,
            counts,
            resample,
            seed,
            store,
            jobs,
            cluster,
            as_json,
        )
        own = replace(own, policy=judging.rules())
        return _finish(own, _saved(own, out, public, parquet, about), show, as_json, judging, public)
    needs_estimator = "--resample is for an --estimator, whose rows can be drawn anew."
    require(resample == "none", needs_estimator)
    table = data_options.open_data(data, target, group, test, id, drop_missing, seed)
    named = rows_of(table, attack or ())
    given = mechanism_options.MechanismOptions(
        learning_rate,
        batch_size,
        steps,
        epochs,
        None,
        delta,
        clip,
        None,
        l2,
        public_size=public_size,
        smooth_clipping=smooth_clipping or None,
        personal_budget=personal_budget,
    )
    chosen = make_levels(given, mechanism, epsilon, table, private_scaling, imputation_share)
    _require_sensitive(table, tuple(sensitive or ()), candidates, [level.mechanism for level in chosen.values()])
    network = model_options.make_model(model)
    names = _require_plans(table, chosen, network, seed, models)
    place = store or Path("runs") / f"audit-{table.name}-{mechanism}"
    folders = {label: place / (label if store else f"{label}-{names[label]}") for label in chosen}
    claim_folder(out)
    silent = quiet or as_json
    with options.on_cluster(cluster, jobs):
        trained = [
            _train_level(
                table, level, network, models, neighbours, named, neighbour_models, seed, folders[label], jobs, silent
            )
            for label, level in chosen.items()
        ]
    examined = _examined(trained, table, judging, tuple(sensitive or ()), candidates)
    examined = replace(examined, configuration=as_toml(context))
    return _finish(examined, _saved(examined, out, public, parquet, about), show, as_json, judging, public)


def _saved(examined: Audit, out: Path, public: bool, parquet: bool, about: list[str] | None) -> list[Path]:
    """Write the report, and a sheet for everybody asked about; return what was written, the page first."""
    from seedscope.report import write_sheet  # start-up

    return [*examined.save(out, public, parquet), *(write_sheet(out, person) for person in about or ())]


def _finish_scores(
    context: typer.Context, scores: Path, out: Path, public: bool, show: bool, as_json: bool,
    judging: policy_options.Judging, parquet: bool, about: list[str] | None,
) -> None:  # fmt: skip
    """Audit predictions from elsewhere: they bring their own labels and groups."""
    from seedscope.integrations import read_scores  # start-up
    from seedscope.report import claim_folder  # start-up

    taken = own_models.TAKEN_OF_SCORES
    refuse_others(context, taken, "for data to train on; a file of --scores has its own labels, groups and models")
    ensemble = read_scores(scores)
    claim_folder(out)
    examined = replace(_examined([ensemble], None, judging), configuration=as_toml(context, taken))
    return _finish(examined, _saved(examined, out, public, parquet, about), show, as_json, judging, public)


def _require_sensitive(data: Dataset, columns: tuple[str, ...], candidates: int, mechanisms: list[Any]) -> None:
    """Raise where a sensitive column cannot be asked about, before anything is trained."""
    if columns:
        from seedscope.auditing import require_followed, require_sensitive  # start-up

        require_sensitive(data, columns, candidates)
        for mechanism in mechanisms:
            require_followed(data, mechanism)


def _require_counts(models: int, neighbours: int, neighbour_models: int) -> None:
    """Raise where there are too few re-trainings to compare."""
    require_count("models", models, at_least=2)
    require_count("neighbours", neighbours, at_least=0)
    require_count("neighbour_models", neighbour_models, at_least=2)


def _require_plans(data: Dataset, levels: dict[str, Any], model: Any, seed: int, models: int) -> dict[str, str]:
    """Return the levels' short names; raise what does not go together, before anything is trained or written."""
    from seedscope.planning import Grid, make_plan  # start-up

    present = sorted(set(data.test.labels.tolist()))
    names = ", ".join(repr(data.class_names[label]) for label in present)
    few = f"the test part must hold at least two classes, it has only {names}; choose another --test."
    require(len(present) >= 2, few)
    plans = {
        label: make_plan(
            data,
            level.mechanism,
            model,
            Grid(1, root_seed=seed),
            _records(data, level.mechanism, models),
            level.scaling,
        )
        for label, level in levels.items()
    }
    for level in levels.values():
        mechanism_options.warn_of_size(level.mechanism, data)
    return {label: plan.short_name for label, plan in plans.items()}


def make_levels(
    given: mechanism_options.MechanismOptions,
    mechanism: str,
    epsilons: list[float] | None,
    data: Dataset,
    private_scaling: float | None = None,
    imputation_share: float | None = None,
) -> dict[str, mechanism_options.Level]:
    """Return the mechanism and scaling of each privacy level by the level's name; plain SGD has one."""
    if mechanism == "sgd":
        require(not epsilons, "--epsilon is not an option of --mechanism sgd: it has no proved guarantee.")
        return {"sgd": mechanism_options.level(given, mechanism, None, data, private_scaling, imputation_share)}
    wanted = epsilons or LEVELS.get(mechanism, (1.0,))
    levels = {
        f"epsilon-{shortest(aim)}": mechanism_options.level(
            given, mechanism, aim, data, private_scaling, imputation_share
        )
        for aim in wanted
    }
    require(len(levels) == len(wanted), f"each --epsilon must be given once, got {epsilons}.")
    return levels


def shortest(number: float) -> str:
    """Return a number as text: six digits where they are the whole number, else all that tell it from another.

    >>> shortest(0.5), shortest(1.0000001)
    ('0.5', '1.0000001')
    """
    text = f"{number:g}"
    return text if float(text) == number else repr(number)


def _train_level(
    data: Any, level: mechanism_options.Level, model: Any, models: int, neighbours: int, named: tuple[int, ...],
    neighbour_models: int, seed: int, place: Path, jobs: int | None, quiet: bool,
) -> Any:  # fmt: skip
    """Return a level's ensembles: many seeds on the base, and fewer with neighbours beside it."""
    from seedscope.commands.train import train_visibly  # start-up
    from seedscope.planning import Grid, Norms, Records, make_plan  # start-up

    mechanism, scaling = level.mechanism, level.scaling
    base = train_visibly(
        data, mechanism, model, Grid(models, root_seed=seed), place / "base", jobs, quiet=quiet,
        records=_records(data, mechanism, models), what=f"{place.name}: base", scaling=scaling,
    )  # fmt: skip
    if not neighbours and not named:
        return base
    drawn = min(neighbours, data.base.people - len(named))
    grid = Grid(neighbour_models, drawn, root_seed=seed, people=named)
    norms = None if mechanism.cannot_record("gradient_norms") else Norms(precision="float16")
    records = Records(probes=("neighbours",), norms=norms)
    folder = "neighbours"
    if named:  # another plan, which must not meet the store of one without them
        folder = f"neighbours-{make_plan(data, mechanism, model, grid, records, scaling).short_name}"
    shadows = train_visibly(
        data, mechanism, model, grid, place / folder, jobs, quiet=quiet, records=records,
        what=f"{place.name}: neighbours", scaling=scaling,
    )  # fmt: skip
    return base, shadows


def rows_of(data: Dataset, people: Sequence[str]) -> tuple[int, ...]:
    """Return a training row of each of the people with these identifiers: of a person with several rows the first."""
    places = {str(name): place for place, name in enumerate(data.base.ids.tolist())}
    for person in people:
        known = (
            f"nobody trained on is called {person!r}; --id names the column of identifiers, else a row's number is it."
        )
        require(person in places, known, argument="attack")
    rows = [places[person] for person in people]
    if data.base.persons is not None:
        owners = data.base.persons.tolist()
        rows = [owners.index(owners[row]) for row in rows]
    return tuple(dict.fromkeys(rows))


def _records(data: Dataset, mechanism: Any, models: int) -> Any:
    """Return what is recorded of the models on the base: it is part of what a store is named by."""
    from seedscope.planning import Records  # start-up

    return Records(probes=_scored(data, models), losses_of=_losses_of(data, mechanism), **_traced(data, mechanism))


def _scored(data: Dataset, models: int) -> Any:
    """Return whose scores are recorded: everybody's, unless there are very many of those trained on."""
    return ("test", "train") if len(data.base) * models <= MOST_SCORES else ("test",)


def _traced(data: Dataset, mechanism: Any) -> dict[str, Any]:
    """Return the records of what each training row gave away, where the mechanism has them: of columns with numbers."""
    from seedscope.datasets import category_columns  # start-up

    encoded = {column for category in category_columns(data) for column in category.columns}
    numbers = tuple(j for j in range(len(data.feature_names)) if j not in encoded)
    if mechanism.cannot_record("fisher_traces") or data.features.ndim != 2 or not numbers:
        return {}
    return {"fisher_traces": "train", "private": numbers}


def _losses_of(data: Dataset, mechanism: Any) -> Any:
    """Return whose privacy losses are recorded: everybody's, where the mechanism has them for what a person is."""
    together = data.base.persons is not None
    unknown = together and mechanism.cannot_lose_together(data.base.most_rows, data.classes)
    return None if unknown or mechanism.cannot_record("privacy_losses") else "train"


def _examined(
    trained: list[Any],
    data: Dataset | None,
    judging: policy_options.Judging,
    sensitive: tuple[str, ...] = (),
    candidates: int = 10,
) -> Audit:
    """Return the audit of the trained levels."""
    from seedscope.auditing import audit as examine  # start-up

    examined = examine(*trained, data=data, command=said_command(), sensitive=sensitive, candidates=candidates)
    return replace(examined, policy=judging.rules())


def _finish(
    examined: Audit, written: list[Path], show: bool, as_json: bool, judging: policy_options.Judging | None = None,
    public: bool = False,
) -> None:  # fmt: skip
    """Print the verdict and where the report is; open it if asked to; what is wrong is an exit code too.

    With a public report standard output says nothing that depends on the data either.
    """
    page = next(path for path in written if path.suffix == ".html")
    if logs():
        log("written", paths=[str(path) for path in written])
    if judging is not None and (judging.junit or judging.sarif):
        written = [*written, *judging.write(examined.as_dict())]
    if public:
        _print_public(examined, written, as_json)
    elif as_json:
        report = examined.as_dict()
        parts = {"verdict": report["verdict"], "alarms": report["alarms"], "written": [str(path) for path in written]}
        options.print_json(parts)
    else:
        if attacked := examined.as_dict()["audited"]["attacked"]:
            say(attacked)
        policy_options.print_verdict(examined.verdict)
        say(f"Report: {page}")
    if show:
        webbrowser.open(page.resolve().as_uri())
    policy_options.leave(examined.verdict, examined.alarms)


def _print_public(examined: Audit, written: list[Path], as_json: bool) -> None:
    """Print what a public report may say: the guarantees, and where it is."""
    levels = examined.as_dict(public=True)["levels"]
    if as_json:
        return options.print_json({"levels": levels, "written": [str(path) for path in written]})
    for level in levels:
        say(f"{level['label']}: {level['guarantee']['reason']}")
    return say(f"Report: {written[0]}")
