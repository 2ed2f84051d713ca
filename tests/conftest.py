"""What decides which tests can run here, and what keeps them apart from the user's own files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # on a busy machine any case may take its time
settings.load_profile("patient")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LONGEST = (  # a worker takes a whole file: one of these at the end would keep a single core busy
    "dpsgd/test_train.py", "execution/test_run.py", "storage/test_fuzz.py", "commands/test_audit.py",
    "commands/test_commands.py", "gradient/test_sgd.py", "auditing/test_reported.py", "reproduce/test_multiplicity.py",
    "per_instance/test_from_ensemble.py", "intrinsic/test_privacy.py",
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


def _place(path: Path) -> int:
    """Return when a file's tests begin: the longest first."""
    name = "/".join(path.parts[-2:])
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


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
    items.sort(key=lambda item: _place(item.path))
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
