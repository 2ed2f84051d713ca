"""BLAS has one thread while anybody wants that, and its own number before and after."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import joblib
import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

from seedscope import Grid, ObjectivePerturbation, train
from seedscope.core.threads import one_blas_thread
from tests.helpers.small_data import table

LIBRARIES = (np, scipy.linalg)  # each brings a BLAS of its own


def blas_threads() -> set[int]:
    """Return the numbers of threads of all BLAS libraries in this process."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _several_threads() -> Iterator[None]:
    """Let BLAS have more than one thread, also on a machine with one core."""
    with threadpool_limits(2, "blas"):
        yield


def test_the_limit_holds_within_and_only_there() -> None:
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            pass
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_threads_within_do_not_lift_it() -> None:
    def enter_and_leave() -> None:
        with one_blas_thread():
            found.append(blas_threads())

    found: list[set[int]] = []
    with one_blas_thread():
        other = threading.Thread(target=enter_and_leave)
        other.start()
        other.join()
        assert found == [{1}]
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_training_in_threads_leaves_the_users_number() -> None:
    seen: list[set[int]] = []
    with joblib.parallel_config("threading", n_jobs=2):
        train(table(), ObjectivePerturbation(), grid=Grid(seeds=8), progress=lambda *_: seen.append(blas_threads()))
    assert {1} in seen
    assert blas_threads() == {2}


def test_an_error_lifts_the_limit() -> None:
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert blas_threads() == {2}


def test_a_library_that_was_imported_later_is_limited_too() -> None:
    code = """
import numpy
from threadpoolctl import threadpool_info, threadpool_limits
from seedscope.core import one_blas_thread
with one_blas_thread():
    before = len(threadpool_info())
import scipy.linalg
threadpool_limits(2, "blas")
with one_blas_thread():
    found = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
print(before, *found)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, *found = map(int, shown.stdout.split())
    assert len(found) > before
    assert set(found) == {1}
