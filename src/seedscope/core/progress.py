"""A progress bar of models trained, for commands and for studies that train many grids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from seedscope.core.plain import printable


@contextmanager
def model_progress(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yield the function (done, total) that moves a progress bar of models trained; its first call shows the bar."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )

    class ModelsPerSecond(ProgressColumn):
        """The speed of this run, finished parts of earlier runs left out."""

        def render(self, task: Task) -> str:
            return speed(task.completed, task.total, task.fields.get("before", 0), task.elapsed)

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), MofNCompleteColumn(), ModelsPerSecond(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), disable=quiet)
    task = bar.add_task(printable(what), total=None)

    def move(done: int, total: int) -> None:
        if bar.tasks[0].total is None:
            bar.update(task, before=done)
            bar.reset(task, total=total, completed=done)
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield move
    finally:
        bar.stop()


def speed(done: float, total: float | None, before: float, seconds: float | None) -> str:
    """Return in words how fast models are trained.

    >>> speed(30, 100, 10, 4.0), speed(10, 100, 10, 4.0), speed(100, 100, 100, 4.0)
    ('5 models/s', 'starting …', 'all kept from before')
    """
    if total is not None and before >= total:
        return "all kept from before"
    return f"{(done - before) / seconds:,.0f} models/s" if seconds and done > before else "starting …"
