"""A progress bar of models trained, for commands and for studies that train many grids."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from seedscope.core.errors import require
from seedscope.core.plain import printable

Move = Callable[[int, int], None]


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


@contextmanager
def shown_progress(progress: Move | bool | None, what: str = "training") -> Iterator[Move | None]:
    """Yield what is to be told how many models are done: the caller's own function, a bar for True, or nothing.

    In a notebook the bar is a piece of HTML that changes, which needs no widgets; elsewhere it is a line on standard
    error.
    """
    fitting = progress is None or isinstance(progress, bool) or callable(progress)
    require(fitting, f"progress must be True, False or a function of (done, total), got {progress!r}.", "progress")
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        yield progress
    elif in_notebook():
        yield _notebook_bar(what)
    else:
        with model_progress(what) as move:
            yield move


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


def _notebook_bar(what: str) -> Move:
    """Return what moves a bar in a notebook."""
    from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

    handle: list[Any] = []

    def move(done: int, total: int) -> None:
        shown = HTML(f"<label>{what} <progress value='{done}' max='{total}'></progress> {done:,} of {total:,}</label>")
        handle[0].update(shown) if handle else handle.append(display(shown, display_id=True))

    return move


def speed(done: float, total: float | None, before: float, seconds: float | None) -> str:
    """Return in words how fast models are trained.

    >>> speed(30, 100, 10, 4.0), speed(10, 100, 10, 4.0), speed(100, 100, 100, 4.0)
    ('5 models/s', 'starting …', 'all kept from before')
    """
    if total is not None and before >= total:
        return "all kept from before"
    return f"{(done - before) / seconds:,.0f} models/s" if seconds and done > before else "starting …"
