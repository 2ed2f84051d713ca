"""One thread for BLAS where cores are shared out by other means; one thread also gives the same bits everywhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_lock = threading.Lock()
_limits: list[Any] = []  # one for each thread that is within the limit; only the first holds the true one


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread.

    The limit is the whole process's: of several threads that want it, the first sets it and the last lifts it.
    """
    with _lock:
        _limits.append(None if _limits else _libraries(len(sys.modules)).limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            if len(_limits) == 1:
                _limits[0].restore_original_limits()
                _limits.clear()
            else:
                _limits.pop()


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return the BLAS libraries of this process; finding them takes long, and only an import brings new ones."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
