"""A progress bar of models trained, for commands and for studies that train many grids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def model_progress(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar of models trained, and yield the function (done, total) that moves it."""
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
            fresh = task.completed - task.fields.get("before", 0)
            return f"{fresh / task.elapsed:,.0f} models/s" if task.elapsed and fresh else "starting …"

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), ModelsPerSecond(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task(what, total=None)

        def move(done: int, total: int) -> None:
            if bar.tasks[0].total is None:
                bar.update(task, before=done)
            bar.update(task, completed=done, total=total)

        yield move
