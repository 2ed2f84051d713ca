"""Many small matrix products at once: one thread per core, each with products of its own."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield function(item) for each item, in order, computed by one thread per core a few items ahead.

    NumPy's products split over all cores by themselves, but small ones then mostly wait for each other, above all where
    other programs run; so each product is kept on one core meanwhile. Results do not depend on the number of cores.

    >>> list(map_in_threads(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    if len(items) == 1:
        yield function(items[0])
        return
    cores = os.cpu_count() or 1
    waiting: deque[Future[Result]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(cores) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


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
