"""What decides which tests can run here, and what keeps them apart from the user's own files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LONGEST = (  # a worker takes a whole file: one of these at the end would keep a single core busy
    "test_dpsgd.py", "test_run.py", "test_fuzz.py", "test_audit_command.py", "test_commands.py", "test_training.py",
    "test_audit_report.py", "test_multiplicity_study.py", "test_per_instance_ensemble.py", "test_intrinsic_privacy.py",
)  # fmt: skip
NEEDS: dict[str, tuple[tuple[str, Callable[[], object]], ...]] = {
    "paper_data": (("SEEDSCOPE_DATA does not name a folder with the real data sets", lambda: _set("SEEDSCOPE_DATA")),),
    "browser": (
        ("no chromium on the path", lambda: any(map(shutil.which, BROWSERS))),
        ("SEEDSCOPE_SLOW is not set", lambda: _set("SEEDSCOPE_SLOW")),
    ),
    "cluster": (
        ("the cluster extra is not installed", lambda: find_spec("distributed")),
        ("SEEDSCOPE_SLOW is not set", lambda: _set("SEEDSCOPE_SLOW")),
    ),
    "slow": (("SEEDSCOPE_SLOW is not set", lambda: _set("SEEDSCOPE_SLOW")),),
}


def _set(variable: str) -> bool:
    """Whether an environment variable is set to something."""
    return bool(os.environ.get(variable))


def pytest_configure(config: pytest.Config) -> None:
    """Let all tests, and the next run, share what JAX compiles."""
    if (cache := getattr(config, "cache", None)) is None:
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache.mkdir("compiled")))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, visibly, the tests whose surroundings are missing; begin with the files that take longest."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    for marker, needs in NEEDS.items():
        missing = [reason for reason, is_here in needs if not is_here()]
        if not missing:
            continue
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=missing[0]))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep downloads and what else is cached out of the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEEDSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
