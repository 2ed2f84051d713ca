"""Power cuts, full disks and rotten bits: what is damaged is found, named, set aside and trained again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from seedscope import Ensemble, Grid, ObjectivePerturbation, OutputPerturbation, Records, train
from seedscope.core.errors import SeedscopeError, SeedscopeWarning
from seedscope.execution import worker as workers
from seedscope.execution.estimate import Estimate
from seedscope.execution.run import train_into
from seedscope.mechanisms import Mechanism
from seedscope.planning import Plan
from seedscope.planning.chunks import Chunk, ChunkShape
from seedscope.planning.plan import make_plan
from seedscope.storage.chunk_files import DamagedChunkError
from seedscope.storage.folder import open_store
from seedscope.training import Arrays, Job, train_chunk
from tests.helpers.small_data import table
from tests.helpers.stores import bits, chunk_file, cut, flip, trained_in_memory

pytestmark = pytest.mark.optimised  # it is about bits

MECHANISM, GRID, SHAPE = ObjectivePerturbation(epsilon=1.0), Grid(seeds=5, neighbours=3), ChunkShape(2, 2)


def plan_for(mechanism: Mechanism = MECHANISM) -> Plan:
    """Return a plan of 3 × 2 chunks."""
    return make_plan(table(), mechanism, grid=GRID, chunk=SHAPE)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Filled stores of two plans, to copy."""
    folder = tmp_path_factory.mktemp("stores")
    for name, mechanism in (("mine", MECHANISM), ("other", OutputPerturbation(epsilon=1.0))):
        plan = plan_for(mechanism)
        train_into(open_store(folder / name, plan), plan, 1)
    return folder


@pytest.fixture
def path(stores: Path, tmp_path: Path) -> Path:
    """A filled store of one's own."""
    return shutil.copytree(stores / "mine", tmp_path / "store")


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    return bits(trained_in_memory(plan_for()))


DAMAGE: dict[str, Callable[[Path, Path], object]] = {
    "truncated": lambda path, other: cut(chunk_file(path)),
    "bit-flipped": lambda path, other: flip(chunk_file(path)),
    "gone": lambda path, other: chunk_file(path).unlink(),
    "another plan's": lambda path, other: shutil.copy(chunk_file(other), chunk_file(path)),
    "another chunk's": lambda path, other: shutil.copy(chunk_file(path, chunk="0-0"), chunk_file(path)),
}
BAD_MARKERS: dict[str, Callable[[Path, Path], object]] = {
    "another plan's": lambda path, other: shutil.copy(other / "done" / "1-0.json", path / "done" / "1-0.json"),
    "another chunk's": lambda path, other: shutil.copy(path / "done" / "0-0.json", path / "done" / "1-0.json"),
    "cut off": lambda path, other: os.truncate(path / "done" / "1-0.json", 20),
    "half written": lambda path, other: (path / "done" / "1-0.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_reading_a_damaged_chunk_is_an_error_that_names_it_and_the_remedy(
    path: Path, stores: Path, damage: str
) -> None:
    DAMAGE[damage](path, stores / "other")
    ensemble = Ensemble.open(path)
    assert np.isfinite(ensemble.scores).all()
    with pytest.raises(DamagedChunkError, match=r"chunk 1-0 of the store .* is damaged \(weights .*with verify=True"):
        _ = ensemble.weights.values
    assert np.isfinite(ensemble.weights.isel(seed=slice(2))).all()  # the others can be read


@pytest.mark.parametrize("damage", DAMAGE)
def test_verify_sets_a_damaged_chunk_aside_and_trains_only_it(
    path: Path, stores: Path, expected: dict[str, bytes], damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    DAMAGE[damage](path, stores / "other")
    trained: list[int] = []

    def noted(job: Job, seeds: np.ndarray, neighbours: np.ndarray) -> Arrays:
        trained.append(seeds[0])
        return train_chunk(job, seeds, neighbours)

    monkeypatch.setattr(workers, "train_chunk", noted)
    with pytest.warns(
        SeedscopeWarning, match=r"chunk 1-0 of .* is damaged \(weights .*set aside in .*set-aside/1-0 and"
    ):
        found = train(table(), MECHANISM, grid=GRID, store=path, verify=True)
    assert trained == [2]
    assert bits(found) == expected
    assert (path / "set-aside" / "1-0" / "marker.json").exists()
    assert (path / "set-aside" / "1-0" / "scores").exists()
    assert bits(Ensemble.open(path)) == expected


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_ensemble_that_was_just_trained_mends_a_chunk_that_it_finds_damaged(
    path: Path, stores: Path, expected: dict[str, bytes], damage: str
) -> None:
    DAMAGE[damage](path, stores / "other")
    found = train(table(), MECHANISM, grid=GRID, store=path)
    with pytest.warns(SeedscopeWarning, match="chunk 1-0 of .* set aside"):
        assert bits(found) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bits(Ensemble.open(path)) == expected


@pytest.mark.parametrize("damage", BAD_MARKERS)
def test_a_chunk_without_a_good_marker_is_named_set_aside_and_trained_again(
    path: Path, stores: Path, expected: dict[str, bytes], damage: str
) -> None:
    BAD_MARKERS[damage](path, stores / "other")
    with pytest.raises(SeedscopeError, match=r"lacks 1 of its chunks, first 1-0; run the same training again"):
        Ensemble.open(path)
    said = "is half written" if damage == "half written" else "has a bad marker"
    with pytest.warns(SeedscopeWarning, match=f"chunk 1-0 of .* {said}: it was set aside in"):
        found = train(table(), MECHANISM, grid=GRID, store=path)
    assert bits(found) == expected


@pytest.mark.parametrize("name", ["seed", "neighbour", "example_part", "example_label", "person_id"])
def test_a_damaged_coordinate_is_named_and_mended_by_training(
    path: Path, expected: dict[str, bytes], name: str
) -> None:
    shutil.rmtree(path / "models.zarr" / name / "c")
    with pytest.raises(SeedscopeError, match=rf"{name} of the store .* is damaged; run the same training again"):
        Ensemble.open(path)
    train(table(), MECHANISM, grid=GRID, store=path)
    assert bits(Ensemble.open(path)) == expected


@pytest.mark.parametrize("file", ["zarr.json", "weights/zarr.json", "seed/zarr.json", "losses/zarr.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe", None])
def test_damaged_metadata_is_made_anew_by_training(
    path: Path, expected: dict[str, bytes], file: str, content: bytes | None
) -> None:
    place = path / "models.zarr" / file
    place.unlink() if content is None else place.write_bytes(content)
    train(table(), MECHANISM, grid=GRID, store=path)
    assert bits(Ensemble.open(path)) == expected


def test_an_ensemble_without_probes_is_kept_and_opened(tmp_path: Path) -> None:
    call: dict[str, Any] = {"grid": Grid(4, 2), "records": Records(probes=()), "store": tmp_path / "store"}
    trained = train(table(), MECHANISM, **call)
    assert trained.dataset.sizes["example"] == 0
    assert bits(Ensemble.open(tmp_path / "store")) == bits(trained) == bits(train(table(), MECHANISM, **call))


PARTS = [
    {"seed": 1},
    {"seed": [4, 0, 2]},
    {"neighbour": -1, "init": 0},
    {"seed": slice(1, 4, 2)},
    {"seed": [], "neighbour": [3, 1]},
    {"seed": slice(None, None, -1), "parameter": [2, 0]},
]


@pytest.mark.parametrize("key", PARTS)
def test_any_part_of_the_records_is_what_the_whole_says(path: Path, key: dict[str, Any]) -> None:
    lazy, whole = Ensemble.open(path).weights, Ensemble.open(path).weights.load()
    np.testing.assert_array_equal(lazy.isel(key), whole.isel(key))


def test_a_description_that_was_changed_is_noticed(path: Path) -> None:
    metadata = path / "models.zarr" / "zarr.json"
    metadata.write_text(metadata.read_text().replace('\\"epsilon\\": 1.0', '\\"epsilon\\": 7.0'))
    with pytest.raises(SeedscopeError, match=r"metadata of the store .* is not what was written \(the group differs\)"):
        Ensemble.open(path)


def test_a_plan_with_an_infinite_number_is_kept_as_valid_json(tmp_path: Path) -> None:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(constant)

    call: dict[str, Any] = {
        "mechanism": ObjectivePerturbation(epsilon=float("inf")),
        "grid": Grid(2),
        "store": tmp_path / "store",
    }
    train(table(), **call)
    plan = json.loads((tmp_path / "store" / "plan.json").read_text(), parse_constant=refuse)
    assert plan["identity"]["mechanism"]["epsilon"] == "inf"
    assert open_store(tmp_path / "store", make_plan(table(), call["mechanism"], grid=Grid(2))).missing() == []
    with pytest.raises(SeedscopeError, match=r"epsilon is inf, not 1\.0"):
        train(table(), **(call | {"mechanism": MECHANISM}))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 20 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", place], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted here; test_a_full_disk_is_one_sentence_and_loses_nothing stands in")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.slow
def test_a_disk_of_20_megabytes_that_fills_up_loses_nothing(small_disk: Path) -> None:
    data, records, grid = table(rows=20_000), Records(probes=("train", "test")), Grid(seeds=80)
    (small_disk / "ballast").write_bytes(bytes(10_000_000))
    call: dict[str, Any] = {"grid": grid, "records": records, "store": small_disk / "store", "memory": "430MB"}
    with pytest.raises(SeedscopeError, match=r"no space left .*: finished chunks are kept"):
        train(data, MECHANISM, **call)
    kept = sorted((small_disk / "store" / "done").iterdir())
    assert kept
    (small_disk / "ballast").unlink()
    seen = []
    found = train(data, MECHANISM, verify=True, progress=lambda *one: seen.append(one), **call)
    assert 0 < seen[0][0] < 80
    shape = open_store(small_disk / "store", make_plan(data, MECHANISM, grid=grid, records=records, chunk=ChunkShape(
        **found.description.grid.chunk))).plan.shape  # fmt: skip
    whole = make_plan(data, MECHANISM, grid=grid, records=records, chunk=shape)
    assert bits(found) == bits(trained_in_memory(whole))


@pytest.mark.slow
def test_a_command_with_workers_that_is_killed_at_random_moments_resumes_to_the_same_bits(tmp_path: Path) -> None:
    options = ["--steps", "300", "--seeds", "200", "--neighbours", "20", "--batch-size", "32"]
    command = [sys.executable, "-m", "seedscope", "train", "breast-cancer", *options]
    draw, reached = random.Random(0), list[int]()
    for _ in range(3):
        with subprocess.Popen(
            [*command, "--jobs", "2", "--store", str(tmp_path / "run")], stderr=subprocess.PIPE
        ) as run:
            done, before = tmp_path / "run" / "done", len(reached) and reached[-1]
            while run.poll() is None and (not done.exists() or len(list(done.glob("*.json"))) <= before):
                time.sleep(0.02)
            time.sleep(draw.uniform(0, 0.2))
            run.send_signal(signal.SIGKILL)
        reached.append(len(list(done.glob("*.json"))))
    assert reached == sorted(reached)
    for name in ("run", "whole"):
        subprocess.run([*command, "--jobs", "1", "--store", str(tmp_path / name)], check=True, capture_output=True)
    assert bits(Ensemble.open(tmp_path / "run")) == bits(Ensemble.open(tmp_path / "whole"))


MILLION = """
import os, re, sys, time
start = time.monotonic()
import seedscope as ss
data = ss.load("breast-cancer")
first = []
def seen(done, total):
    if not first:
        first.append(time.monotonic() - start)
        assert total == 1_000_000, total
    if time.monotonic() - start > 12:
        peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())  # rusage would count who started it
        print(first[0], int(peak[1]) / 2**20, done, flush=True)
        os._exit(0)
ss.train(data, ss.SGD(steps=300), grid=ss.Grid(seeds=10_000, neighbours=99), store=sys.argv[1], jobs=2, progress=seen)
"""


@pytest.mark.slow
def test_a_plan_of_a_million_models_starts_within_10_seconds_and_its_driver_stays_below_1_gib(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", MILLION, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    seconds, memory, done = map(float, shown.stdout.split())
    assert seconds < 10
    assert memory < 1
    assert done > 0


def test_memory_bounds_the_chunks_of_a_new_store_and_a_stored_shape_stays(tmp_path: Path) -> None:
    data, records = table(rows=5000), Records(probes=("train", "test"))
    call: dict[str, Any] = {"grid": Grid(seeds=40, neighbours=3), "records": records}
    roomy = make_plan(data, MECHANISM, **call)
    tight = make_plan(data, MECHANISM, **call, memory="409MiB")
    models = [one.shape.seeds * one.shape.neighbours for one in (roomy, tight)]
    assert models[1] < models[0]
    first = train(data, MECHANISM, store=tmp_path / "store", memory="409MiB", **call)
    assert first.description.grid.chunk == {"seeds": tight.shape.seeds, "neighbours": tight.shape.neighbours}
    again = train(data, MECHANISM, store=tmp_path / "store", memory="8GiB", **call)
    assert again.description.grid.chunk == first.description.grid.chunk


@pytest.mark.parametrize("memory", ["", "much", "-1GiB", "0", "1 apple", 0])
def test_memory_that_is_no_amount_is_one_sentence(memory: str | int) -> None:
    with pytest.raises(SeedscopeError, match="memory must be a number of bytes above 0 or like 2GiB"):
        make_plan(table(), MECHANISM, memory=memory)


def test_memory_that_is_too_little_says_how_much_is_needed() -> None:
    with pytest.raises(
        SeedscopeError, match=r"memory must be at least 40[12] MiB for a chunk of one model, got 100MiB"
    ):
        make_plan(table(), MECHANISM, memory="100MiB")


def test_the_estimate_says_models_bytes_and_time_and_what_is_left(tmp_path: Path) -> None:
    said: list[Estimate] = []
    call: dict[str, Any] = {"store": tmp_path / "store", "announce": said.append}
    train(table(), MECHANISM, grid=Grid(seeds=8), **call)
    train(table(), MECHANISM, grid=Grid(seeds=16), **call)
    train(table(), MECHANISM, grid=Grid(seeds=16), **call)
    assert [(one.models, one.of_models) for one in said] == [(8, 8), (8, 16), (0, 16)]
    assert said[0].bytes >= 8 * 4 * 4
    assert [one.measured for one in said] == [False, True, True]
    assert str(said[0]).startswith("8 models to train: at most ")
    assert str(said[1]).startswith("8 of 16 models to train: at most ")
    assert str(said[2]) == "16 models, all trained before."


def test_a_set_aside_chunk_is_not_taken_for_a_foreign_file(path: Path) -> None:
    (path / "done" / "2-1.json").unlink()
    with pytest.warns(SeedscopeWarning):
        train(table(), MECHANISM, grid=GRID, store=path)
    assert open_store(path, plan_for()).missing() == []
    assert [one.name for one in (path / "set-aside").iterdir()] == [Chunk(2, 1).name]


def test_setting_a_chunk_aside_again_keeps_every_earlier_copy(path: Path, expected: dict[str, bytes]) -> None:
    for bit in range(3):
        flip(chunk_file(path), bit=bit)
        with pytest.warns(SeedscopeWarning, match=rf"set-aside/1-0{f'.{bit + 1}' if bit else ''} and is trained again"):
            train(table(), MECHANISM, grid=GRID, store=path, verify=True)
    copies = [path / "set-aside" / name for name in ("1-0", "1-0.2", "1-0.3")]
    assert sorted((path / "set-aside").iterdir()) == copies
    files = [next(one for one in (copy / "weights").rglob("*") if one.is_file()) for copy in copies]
    assert len({one.read_bytes() for one in files}) == 3
    assert bits(Ensemble.open(path)) == expected
