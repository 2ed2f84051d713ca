"""One, two, four workers, threads and a Dask cluster, under each variable that once changed models: the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.optimised]
VARIABLES = {
    "JAX_ENABLE_X64": "1",
    "JAX_THREEFRY_PARTITIONABLE": "0",
    "JAX_DEFAULT_PRNG_IMPL": "rbg",
    "JAX_RANDOM_SEED_OFFSET": "7",
}
CODE = """
import sys
from tests.torture.victim import main
for number, how in enumerate(sys.argv[2:]):
    main(f"{sys.argv[1]}/{number}", how)
"""


def checksums(folder: Path, kinds: list[str], **variables: str) -> list[str]:
    """Return the checksum of a network's grid trained by each kind of worker, in a process with these variables."""
    command = [sys.executable, "-c", CODE, str(folder), *kinds]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers: one as the driver without variables, one with all of them."""
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    started.add_worker()
    started.environment = dict(VARIABLES)
    started.add_worker()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    return checksums(tmp_path_factory.mktemp("plain"), ["1"])[0]


@pytest.mark.parametrize("variable", VARIABLES)
def test_whoever_trains_under_whatever_variable_gives_the_same_bits(
    variable: str, expected: str, cluster: Cluster, tmp_path: Path
) -> None:
    kinds = ["1", "2", "4", "threads-2", cluster.address]
    assert checksums(tmp_path, kinds, **{variable: VARIABLES[variable]}) == [expected] * len(kinds)
