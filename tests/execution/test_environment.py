"""The same models whatever a notebook or the environment set, and a word where a machine differs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from seedscope import SGD, Grid, ObjectivePerturbation, mlp, train
from seedscope.core import SeedscopeError, SeedscopeWarning
from seedscope.execution import run
from seedscope.execution import worker as workers
from seedscope.execution.self_test import self_test
from seedscope.planning import environment, software_versions
from seedscope.training import trainers
from tests.helpers.small_data import table
from tests.helpers.stores import bits

CHANGED = [("jax_enable_x64", True), ("jax_threefry_partitionable", False), ("jax_default_prng_impl", "rbg"),
           ("jax_random_seed_offset", 7), ("jax_numpy_rank_promotion", "raise")]  # fmt: skip


def trained() -> dict[str, bytes]:
    """Return the bits of a small grid, prepared anew."""
    trainers._trainers.clear()
    return bits(train(table(), SGD(batch_size=8, steps=5), model=mlp(3), grid=Grid(2, 1), jobs=1))


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    return trained()


@pytest.fixture(params=CHANGED, ids=lambda one: str(one[0]))
def _changed(request: pytest.FixtureRequest) -> Iterator[None]:
    """A setting of JAX that somebody changed before."""
    name, value = request.param
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    jax.clear_caches()
    yield
    jax.config.update(name, before)
    jax.clear_caches()


@pytest.mark.usefixtures("_changed")
def test_settings_of_jax_do_not_change_a_model(expected: dict[str, bytes]) -> None:
    assert trained() == expected


def test_a_store_of_another_environment_is_grown_with_a_word_or_strictly_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call: dict[str, Any] = {"mechanism": ObjectivePerturbation(1.0), "store": tmp_path / "store", "jobs": 1}
    train(table(), grid=Grid(2), **call)
    other = environment() | {"jaxlib": "0.0.1"}
    for module in (run, workers):
        monkeypatch.setattr(module, "environment", lambda: other)
    with pytest.raises(SeedscopeError, match=r"not all of one environment \(jaxlib: .* and 0\.0\.1\)"):
        train(table(), grid=Grid(4), strict=True, **call)
    with pytest.warns(SeedscopeWarning, match=r"not all of one environment \(jaxlib"):
        train(table(), grid=Grid(4), **call)


GROWN = """
import sys
from pathlib import Path
from seedscope import Grid, ObjectivePerturbation, train
from tests.helpers.small_data import table
train(table(), ObjectivePerturbation(1.0), grid=Grid(int(sys.argv[2])), store=Path(sys.argv[1]), jobs=1, strict=True)
"""


@pytest.mark.slow
def test_flags_of_the_compiler_are_another_environment(tmp_path: Path) -> None:
    def grown(seeds: int, flags: str) -> subprocess.CompletedProcess[str]:
        given = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)}
        call = [sys.executable, "-c", GROWN, str(tmp_path / "store"), str(seeds)]
        return subprocess.run(call, env=given, capture_output=True, text=True, check=False)

    assert grown(2, "").returncode == 0
    refused = grown(4, "--xla_cpu_enable_fast_math=true")
    assert refused.returncode != 0
    assert "not all of one environment (XLA_FLAGS: " in refused.stderr
    assert grown(4, "").returncode == 0


def test_a_worker_with_other_bits_or_strictly_another_processor_gets_no_work() -> None:
    versions, answer, here = software_versions(), self_test(False), environment()
    workers.require_fit(workers.Expected(versions, answer, here, strict=True), False)
    workers.require_fit(workers.Expected(versions, answer, here | {"cpu": "another"}), False)
    with pytest.raises(RuntimeError, match="fails the self-test"):
        workers.require_fit(workers.Expected(versions, answer + 1, here | {"cpu": "another"}), False)
    with pytest.raises(RuntimeError, match=r"the worker has cpu .*, not another"):
        workers.require_fit(workers.Expected(versions, answer, here | {"cpu": "another"}, strict=True), False)
