"""`seedscope audit --estimator`: the user's own estimator, named as module:name, on a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedscope.commands import data_options
from seedscope.commands.common_options import as_toml
from seedscope.commands.given_options import refuse_others, was_given
from seedscope.commands.terminal import said_command
from seedscope.core import SeedscopeError

if TYPE_CHECKING:
    from seedscope.auditing import Audit
    from seedscope.datasets import PlainTable

Estimator = Annotated[
    str | None, typer.Option(metavar="MODULE:NAME", help="Your own estimator, or a function that makes one.")
]
Resample = Annotated[
    str, typer.Option(help="With --estimator: 'bootstrap' draws the training rows anew for every seed, too.")
]
FEWER = {"models": 100, "neighbours": 10, "neighbour_models": 20}  # than of our own models: each is fitted by itself
REPORTING = (
    "out", "policy", "fail_if", "junit", "sarif", "about", "public", "show", "parquet", "quiet", "as_json",
)  # fmt: skip
READING = (
    "ignore", "features", "numeric", "category", "missing", "fill", "above", "separator", "decimal", "encoding", "sheet"
)  # fmt: skip
TAKEN = (
    "data", "target", "group", "test", "id", "drop_missing", "models", "neighbours", "neighbour_models", "seed",
    "store", "jobs", "cluster", "estimator", "resample", *READING, *REPORTING,
)  # fmt: skip
TAKEN_OF_SCORES = ("scores", *REPORTING)


def audit_estimator(
    context: typer.Context, estimator: str, data: str, target: str | None, group: list[str] | None,
    test: str | None, id: str | None, drop_missing: bool,
    counts: dict[str, int], resample: str, seed: int, store: Path | None, jobs: int | None,
    cluster: str | None, quiet: bool,
) -> Audit:  # fmt: skip
    """Return the audit of the user's own estimator, with progress."""
    from seedscope.commands.train import visibly  # start-up
    from seedscope.integrations import audit_own, estimator_settings, load_estimator, tells_of_everybody  # start-up

    refuse_others(context, TAKEN, "for Seedscope's own mechanisms; an estimator has its own settings and pipeline")
    model = load_estimator(estimator)
    table = _opened(data, target, group, test, id, drop_missing, seed)
    place = store or Path("runs") / _named_by(estimator, [table, estimator_settings(model), resample, seed])
    wanted = {name: count if was_given(context, name) else FEWER[name] for name, count in counts.items()}
    from_trees = store is None and resample == "none" and tells_of_everybody(model, wanted["models"])
    kept = None if from_trees else place
    with visibly("fitting", place, quiet) as progress:
        examined = audit_own(
            model, table.X, table.y, groups=table.groups, test=table.test, ids=table.ids, name=table.name,
            seeds=wanted["models"], neighbours=wanted["neighbours"], neighbour_seeds=wanted["neighbour_models"],
            resample=resample, seed=seed, store=kept, jobs=jobs, cluster=cluster, progress=progress,  # type: ignore[arg-type]
            command=said_command(),
        )  # fmt: skip
    return replace(examined, configuration=as_toml(context, TAKEN, **wanted))


def _named_by(estimator: str, trained: list[Any]) -> str:
    """Return the name of a folder for models of an estimator, another one for other data or settings."""
    import joblib

    table = trained[0]
    return f"audit-{table.name}-{estimator.replace(':', '-')}-{joblib.hash(trained)[:8]}"


def _opened(
    data: str, target: str | None, group: list[str] | None, test: str | None, id: str | None, drop_missing: bool,
    seed: int,
) -> PlainTable:  # fmt: skip
    """Return the rows and labels of a table or of a named data set."""
    from seedscope import datasets  # start-up
    from seedscope.integrations import named_set  # start-up

    if data in datasets.names() or not Path(data).exists():
        return named_set(data_options.open_data(data, target, group, test, id, drop_missing, seed))
    if target is None:
        raise SeedscopeError(f"--target must name the column of {data} to predict.")
    about = data_options.about(data).arguments
    return datasets.read_plain_table(
        data, target=target, groups=group or (), test=test, id=id, drop_missing=drop_missing,
        **{name: about[name] for name in READING if name in about},
    )  # fmt: skip
