"""One thread for BLAS where cores are shared out by other means; one thread also gives the same bits everywhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_limits: list[Any] = []  # one for each who is within; only the first is a true limit


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread.

    The limit is the whole process's: of several who want it, the first sets it and the last lifts it. OpenBLAS obeys
    only the thread that set its number first, so whoever starts threads that want the limit holds it around them.
    """
    from threadpoolctl import get_cached_controller

    with _lock:
        _limits.append(None if _limits else get_cached_controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            if len(_limits) == 1:
                _limits[0].restore_original_limits()
                _limits.clear()
            else:
                _limits.pop()
