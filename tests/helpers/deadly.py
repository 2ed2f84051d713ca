"""A chunk that kills whoever trains it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any


def deadly(attempt: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a worker's attempt at a chunk that ends the worker's process if the chunk has this name."""

    def deadly_attempt(job: Any, chunk: Any, *coordinates: Any) -> Any:
        if chunk.name == name:
            os.kill(os.getpid(), signal.SIGKILL)
        return attempt(job, chunk, *coordinates)

    return deadly_attempt
