"""Calls a function on many things in worker processes: for studies whose parts are trained each in one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from seedscope.execution.dispatch import configured_workers, importing_nothing_here
from seedscope.execution.worker import prepare_worker

Given = TypeVar("Given")
Result = TypeVar("Result")


def in_workers(
    function: Callable[[Given], Result], given: Iterable[Given], jobs: int | None = None, *, in_order: bool = False
) -> Iterator[Result]:
    """Yield what a function gives for each thing, as the results come, or in order.

    The things are worked on in processes of which each keeps to one core and ends with this one, or wherever
    `joblib.parallel_config` says.

    Args:
        function: of one thing; it must be possible to send both to another process.
        given: the things.
        jobs: how many processes; default one for each core; 1 works here.
        in_order: whether results come in the order of the things.

    >>> list(in_workers(abs, [-1, -2], jobs=1))
    [1, 2]
    """
    if jobs == 1:
        yield from map(function, given)
        return
    from joblib import Parallel, delayed

    local: dict[str, Any] = {
        "backend": "loky",
        "n_jobs": jobs or os.cpu_count() or 1,
        "initializer": prepare_worker,
        "initargs": (os.getpid(),),
    }
    options = local if configured_workers() is None else {}
    how = "generator" if in_order else "generator_unordered"
    with importing_nothing_here():
        yield from Parallel(return_as=how, batch_size=1, **options)(delayed(function)(argument) for argument in given)
