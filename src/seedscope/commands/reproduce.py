"""`seedscope reproduce`: the papers' tables and figures, ours beside theirs."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from seedscope.commands.options import Cluster, Jobs, Json, on_cluster, print_json
from seedscope.commands.terminal import say
from seedscope.core import require, unknown_name
from seedscope.reproduce import SCALES, STUDIES


def reproduce(
    study: Annotated[str, typer.Argument(metavar="STUDY", help=f"One of {', '.join(STUDIES)}.")],
    scale: Annotated[
        str,
        typer.Option(help="small: minutes; paper: the papers' own sizes, resumable; of reconstruction also medium."),
    ] = "small",
    data: Annotated[list[str] | None, typer.Option(help="Only these data sets; repeatable.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where tables, figures and models go; default runs/reproduce-STUDY-SCALE.")
    ] = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Re-do a paper's experiments and print its numbers beside ours.

    \b
    Examples:
      seedscope reproduce multiplicity
      seedscope reproduce intrinsic --scale paper --data mnist-binary --out runs/study
    """
    if study not in STUDIES:
        raise unknown_name("study", study, STUDIES)
    require(scale in SCALES[study], f"scale of {study} must be one of {', '.join(SCALES[study])}, got {scale!r}.")
    from seedscope.reproduce import print_comparisons  # start-up

    folder = out or Path("runs") / f"reproduce-{study}-{scale}"
    module = import_module(f"seedscope.reproduce.{study.replace('-', '_')}")
    with on_cluster(cluster, jobs):
        done = module.run(scale=scale, data=data, out=folder, jobs=jobs, quiet=as_json)
    written = done.save(folder)
    if as_json:
        return print_json(
            {"comparisons": [asdict(comparison) for comparison in done.comparisons], "written": list(map(str, written))}
        )
    print_comparisons(done.comparisons)
    for path in written:
        say(f"Written: {path}")
    return None
