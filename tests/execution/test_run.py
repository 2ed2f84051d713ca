"""A grid gives the same bits however it is run: grown, in another order, with more workers, killed and resumed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import joblib
import numpy as np
import pytest

from seedscope import SGD, Ensemble, Grid, ObjectivePerturbation, Records, mlp, train
from seedscope.core.errors import SeedscopeError, TrainingError
from seedscope.execution import dispatch
from seedscope.execution import worker as workers
from seedscope.execution.run import default_jobs, train_into
from seedscope.mechanisms import Mechanism
from seedscope.planning import Chunk, Plan
from seedscope.planning.chunks import ChunkShape
from seedscope.planning.plan import make_plan
from seedscope.storage.folder import open_store
from seedscope.storage.memory import MemoryStore
from seedscope.training import Arrays
from tests.helpers.deadly import deadly
from tests.helpers.present import present
from tests.helpers.small_data import images, table
from tests.helpers.stores import bits, trained_in_memory

pytestmark = pytest.mark.optimised  # it is about bits

SMALL_SGD = SGD(learning_rate=0.5, batch_size=8, steps=15)
RELU = mlp(4)  # networks with kinks show a changed rounding soonest


def test_a_grid_grown_from_50_to_100_seeds_leaves_the_first_50_bit_identical(tmp_path: Path) -> None:
    grid = Grid(seeds=50, neighbours=2, init="both", checkpoints=2)
    before = train(table(), SMALL_SGD, model=RELU, grid=grid, store=tmp_path / "grown")
    first, progress = bits(before), []
    after = train(
        table(), SMALL_SGD, model=RELU, grid=replace(grid, seeds=100), store=tmp_path / "grown",
        progress=lambda done, total: progress.append((done, total)),
    )  # fmt: skip
    assert after.weights.sizes["seed"] == 100
    assert bits(Ensemble(after.dataset.isel(seed=slice(50)))) == first
    assert progress[0][0] >= 36 * 3 * 2  # of 50 seeds in chunks of 13, three chunks stay and the fourth is filled up
    at_once = make_plan(table(), SMALL_SGD, RELU, replace(grid, seeds=100), chunk=ChunkShape(13, 3))
    fresh = trained_in_memory(at_once)
    assert bits(fresh) == bits(after)


def test_more_neighbours_leave_the_weights_bit_identical(tmp_path: Path) -> None:
    grid = Grid(seeds=6, neighbours=2)
    before = train(table(), SMALL_SGD, model=RELU, grid=grid, store=tmp_path / "grown").dataset.load()
    after = train(table(), SMALL_SGD, model=RELU, grid=replace(grid, neighbours=9), store=tmp_path / "grown").dataset
    kept = after.sel(neighbour=before.neighbour)
    assert kept.weights.values.tobytes() == before.weights.values.tobytes()
    assert np.isfinite(after.scores).all()
    # Scores are of more probe examples now, so only the examples' own numbers can be compared.
    np.testing.assert_allclose(kept.scores.isel(example=slice(before.sizes["example"])), before.scores, atol=1e-6)


def test_the_order_of_chunks_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(table(), SMALL_SGD, RELU, Grid(seeds=7, neighbours=4), chunk=ChunkShape(2, 2))
    forwards = trained_in_memory(plan)
    missing = MemoryStore.missing
    monkeypatch.setattr(MemoryStore, "missing", lambda store: missing(store)[::-1])
    assert bits(trained_in_memory(plan)) == bits(forwards)


def test_whatever_answers_like_a_store_can_be_trained_into() -> None:
    class Listed:
        """Records in a dictionary, by chunk."""

        path = None

        def __init__(self) -> None:
            self.kept: dict[Chunk, np.ndarray] = {}

        def missing(self) -> list[Chunk]:
            return [one for one in plan.shape.chunks(8, 1) if one not in self.kept]

        def write(
            self, chunk: Chunk, records: Arrays, seconds: float = 0.0, environment: Mapping[str, str] | None = None
        ) -> None:
            self.kept[chunk] = records["weights"]

        def environments(self) -> list[Mapping[str, str]]:
            return []

        def dataset(self) -> Any:
            return self.kept

        def diverged(self) -> list[int]:
            return []

        def chunk_seconds(self) -> None:
            return None

    plan = small_plan()
    found = train_into(Listed(), plan, 1)
    together = np.concatenate([found[one] for one in sorted(found, key=lambda one: one.seed_block)])
    np.testing.assert_array_equal(together, trained_in_memory(plan).weights)


def test_a_model_alone_is_the_model_in_its_grid() -> None:
    data, grid = table(), Grid(seeds=7, neighbours=4)
    together = train(data, SMALL_SGD, grid=grid)
    person = int(together.dataset.neighbour[3])
    alone = train(data, SMALL_SGD, grid=Grid(seeds=1, people=[person]))
    np.testing.assert_allclose(alone.weights[0, 1], together.weights[0, 3], atol=1e-5)


def test_workers_give_the_bits_of_this_process() -> None:
    grid, records = Grid(seeds=9, neighbours=3), Records(probes=("test",))
    lines = []
    for model in (RELU, (lambda key: np.zeros(3, np.float32), lambda weights, rows: rows @ weights)):
        alone, together = (
            train(
                table(),
                SMALL_SGD,
                model=model,
                grid=grid,
                records=records,
                jobs=jobs,
                progress=lambda *n: lines.append(n),
            )
            for jobs in (1, 2)
        )
        assert bits(alone) == bits(together)
    alone, together = (train(table(), ObjectivePerturbation(), grid=Grid(seeds=40), jobs=jobs) for jobs in (1, 2))
    assert bits(alone) == bits(together)
    assert lines[-1] == (36, 36)


def small_plan(seeds: int = 8) -> Plan:
    """A plan of four chunks."""
    return make_plan(table(), ObjectivePerturbation(), grid=Grid(seeds=seeds))


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    """The records of the small plan, trained in this process."""
    return bits(trained_in_memory(small_plan()))


def test_a_killed_worker_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, bytes]
) -> None:
    flag, attempt = tmp_path / "killed", workers.attempt

    def dying_once(*task: Any) -> Any:
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return attempt(*task)

    monkeypatch.setattr(dispatch, "attempt", dying_once)
    found = trained_in_memory(small_plan(), 2)
    assert flag.exists()
    assert bits(found) == expected


def test_a_chunk_that_kills_its_worker_every_time_is_named_while_the_others_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, bytes]
) -> None:
    path = tmp_path / "store"
    monkeypatch.setattr(dispatch, "attempt", deadly(workers.attempt, "1-0"))
    with pytest.raises(SeedscopeError, match=r"chunk 1-0 \(seeds 2–3, .*\): its process was killed every time"):
        train(table(), ObjectivePerturbation(), grid=Grid(seeds=8), store=path, jobs=2)
    monkeypatch.undo()
    assert [one.name for one in open_store(path, small_plan()).missing()] == ["1-0"]
    assert bits(train(table(), ObjectivePerturbation(), grid=Grid(seeds=8), store=path)) == expected


def test_workers_that_are_killed_every_time_end_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    def killed(*_: Any) -> NoReturn:
        raise TerminatedWorkerError

    monkeypatch.setattr(dispatch.Stream, "__iter__", killed)
    with pytest.raises(SeedscopeError, match=r"worker processes were killed 5 times in a row, .* with fewer jobs"):
        train(table(), ObjectivePerturbation(), grid=Grid(seeds=8), jobs=2)


def failing(times: Mapping[str, int], log: Path) -> Callable[..., Any]:
    """Return an attempt that fails at the named chunks this many times, and logs every attempt."""
    attempt = workers.attempt

    def attempt_or_fail(job: Any, chunk: Chunk, *coordinates: np.ndarray) -> Any:
        with open(log, "a") as file:
            file.write(f"{chunk.name}\n")
        if log.read_text().split().count(chunk.name) <= times.get(chunk.name, 0):
            return chunk, workers.failure(OSError("out of luck"))
        return attempt(job, chunk, *coordinates)

    return attempt_or_fail


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_chunk_is_tried_three_times_then_named_with_its_error_and_only_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, expected: dict[str, bytes]
) -> None:
    monkeypatch.setattr(dispatch, "attempt", failing({"0-0": 2, "2-0": 99}, tmp_path / "log"))
    call: dict[str, Any] = {"grid": Grid(seeds=8), "store": tmp_path / "store"}
    sentence = (
        r"1 of the grid's chunks could not be trained: chunk 2-0 \(seeds 4–5, data sets 0–0\): OSError: out of luck"
    )
    with pytest.raises(SeedscopeError, match=sentence) as raised:
        train(table(), ObjectivePerturbation(), jobs=jobs, **call)
    assert "The others are kept: run the same again to train only these." in str(raised.value)
    tried = (tmp_path / "log").read_text().split()
    assert {name: tried.count(name) for name in tried} == {"0-0": 3, "1-0": 1, "2-0": 3, "3-0": 1}
    monkeypatch.undo()
    seen = []
    found = train(table(), ObjectivePerturbation(), progress=lambda *one: seen.append(one), **call)
    assert seen == [(6, 8), (8, 8)]
    assert bits(found) == expected


@pytest.mark.parametrize("jobs", [1, 2])
def test_chunks_that_all_fail_alike_stop_the_run_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    plan = make_plan(table(), ObjectivePerturbation(), grid=Grid(seeds=200), chunk=ChunkShape(1, 1))
    names = [chunk.name for chunk in plan.shape.chunks(200, 1)]
    monkeypatch.setattr(dispatch, "attempt", failing(dict.fromkeys(names, 99), tmp_path / "log"))
    with pytest.raises(
        SeedscopeError, match=r"20 of .*: OSError: out of luck.* so 180 others were not tried"
    ) as raised:
        train_into(MemoryStore(plan), plan, jobs)
    assert "out of luck" in str(raised.value.__cause__)
    assert len((tmp_path / "log").read_text().split()) < 40


def test_results_that_are_not_written_yet_hold_up_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    made, held = [], []
    attempt = workers.attempt

    def counted(*task: Any) -> Any:
        made.append(1)
        return attempt(*task)

    monkeypatch.setattr(dispatch, "attempt", counted)
    plan = make_plan(table(), ObjectivePerturbation(), grid=Grid(seeds=200), chunk=ChunkShape(1, 1))
    store = MemoryStore(plan)
    with joblib.parallel_config("threading", n_jobs=2):
        for taken, (chunk, found) in enumerate(dispatch.outcomes(plan, store.missing(), None)):
            time.sleep(0.01)
            held.append(len(made) - taken)
            assert isinstance(found, workers.Trained)
            store.write(chunk, found.records)
    assert store.missing() == []
    assert max(held) <= dispatch.BACKLOG + 3 * 2 + 2


@pytest.mark.parametrize("backend", ["threading", "loky", "sequential"])
def test_whatever_joblib_is_configured_with_is_used_and_gives_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, backend: str, expected: dict[str, bytes]
) -> None:
    used = []
    parallel = dispatch.Stream._wave

    def watched(stream: Any) -> Any:
        used.append(type(joblib.parallel.get_active_backend()[0]).__name__)
        return parallel(stream)

    monkeypatch.setattr(dispatch.Stream, "_wave", watched)
    with joblib.parallel_config(backend, n_jobs=2):
        found = train(table(), ObjectivePerturbation(), grid=Grid(seeds=8))
    assert bits(found) == expected
    assert used[0].lower().startswith(backend)


def test_models_that_diverge_are_named_by_their_seeds_also_when_they_are_resumed(tmp_path: Path) -> None:
    wild = SGD(learning_rate=1e30, batch_size=8, steps=15)
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"training diverged: seeds 0, 1, 2, 3, 4 and 3 more .* are kept"):
            train(table(classes=3), wild, model=RELU, grid=Grid(seeds=8), store=tmp_path / "store")
    with pytest.raises(TrainingError, match="training diverged: seed 0 gave"):
        train(table(classes=3), wild, model=RELU, grid=Grid(seeds=1))


def test_a_worker_ends_soon_after_the_process_that_started_it_was_killed() -> None:
    worker = (
        "import os; from seedscope.execution.worker import leave_with; parent = os.getppid(); "
        "print(os.getpid(), flush=True); leave_with(parent)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as started:
        out = present(started.stdout)
        left = int(out.readline())
        started.kill()
        assert out.read() == b""  # the worker held the other end of the pipe until it ended
    assert not Path(f"/proc/{left}/cmdline").exists() or Path(f"/proc/{left}/cmdline").read_bytes() == b""


def test_a_worker_whose_parent_was_gone_before_it_could_ask_ends_too() -> None:
    worker = "import time; from seedscope.execution.worker import prepare_worker; prepare_worker(0); time.sleep(60)"
    assert subprocess.run([sys.executable, "-c", worker], timeout=50, check=False).returncode == 1


NURSERY = """
import os, random, signal, sys, time
path, tests, mechanism, seconds, kills = sys.argv[1:]
sys.path.insert(0, tests)
import seedscope.execution, seedscope.models, seedscope.training.gradient, xarray, zarr
from tests.helpers.small_data import table
from seedscope import SGD, Grid, ObjectivePerturbation, train

draw, end, found = random.Random(1), time.monotonic() + float(seconds), []
while time.monotonic() < end and len(found) < int(kills):
    grid = Grid(seeds=draw.choice([20, 60]), neighbours=draw.choice([1, 4]))
    heard, told = os.pipe()
    child = os.fork()  # which spares each run the imports
    if not child:
        train(table(), eval(mechanism), grid=grid, store=path, jobs=1, progress=lambda *_: os.write(told, b"."))
        os._exit(0)
    os.close(told)
    for _ in range(draw.randrange(5)):  # this many chunks may be finished first
        os.read(heard, 1)
    time.sleep(draw.uniform(0, 0.1))
    os.kill(child, signal.SIGKILL)
    os.close(heard)
    if os.waitpid(child, 0)[1] == signal.SIGKILL:
        found.append(len([name for name in os.listdir(path + "/done") if not name.startswith(".")]))
print(*found)
"""


@pytest.mark.parametrize(
    ("mechanism", "seconds", "kills"),
    [
        (ObjectivePerturbation(), 6, 4),
        pytest.param(SMALL_SGD, 90, 20, marks=pytest.mark.slow),
        pytest.param(ObjectivePerturbation(), 60, 20, marks=pytest.mark.slow),
    ],
    ids=["objective", "sgd", "objective 20 times"],
)
def test_a_run_that_is_killed_at_random_moments_resumes_to_the_same_bits(
    tmp_path: Path, mechanism: Mechanism, seconds: int, kills: int
) -> None:
    path, whole = tmp_path / "store", Grid(seeds=60, neighbours=4)
    plan = make_plan(table(), mechanism, grid=whole, chunk=ChunkShape(1, 2))  # 180 chunks
    expected = trained_in_memory(plan)
    open_store(path, plan)
    call = f"{type(mechanism).__name__}({'0.5, 8, 15' if isinstance(mechanism, SGD) else ''})"
    arguments = [str(path), str(Path(__file__).parents[2]), call, str(seconds), str(kills)]
    nursery = subprocess.run([sys.executable, "-c", NURSERY, *arguments], capture_output=True, text=True, check=False)
    assert nursery.returncode == 0, nursery.stderr[-2000:]
    killed = [int(chunks) for chunks in nursery.stdout.split()]
    assert len(killed) == kills or (kills < 20 and len(killed) >= 3)
    assert max(killed) > 0
    assert open_store(path, plan).verify() == []
    assert bits(train(table(), mechanism, grid=whole, store=path)) == bits(expected)


def test_progress_counts_models_from_what_is_done_to_all(tmp_path: Path) -> None:
    grid, seen = Grid(seeds=8, neighbours=2, init="both"), []
    train(table(), SMALL_SGD, grid=replace(grid, seeds=4), store=tmp_path / "store")
    train(table(), SMALL_SGD, grid=grid, store=tmp_path / "store", progress=lambda *counts: seen.append(counts))
    assert seen[0] == (24, 48)
    assert seen[-1] == (48, 48)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    seen.clear()
    train(table(), SMALL_SGD, grid=grid, store=tmp_path / "store", progress=lambda *counts: seen.append(counts))
    assert seen == [(48, 48)]


def test_a_small_grid_needs_no_workers_and_a_large_one_uses_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    small = make_plan(table(), SMALL_SGD, grid=Grid(seeds=10))
    large = make_plan(table(rows=2000, columns=50), SGD(steps=2000), grid=Grid(seeds=1000, neighbours=99))
    assert default_jobs(small, 4) == 1
    assert default_jobs(large, large.shape.count(1000, 100)) == 12


def test_chunks_of_large_grids_are_bounded_in_memory() -> None:
    for seeds in (2_000, 20_000):
        plan = make_plan(
            table(rows=2000, columns=50), SGD(steps=100), grid=Grid(seeds=seeds, neighbours=9, checkpoints=100)
        )
        numbers = 100 * plan.parameters * plan.shape.seeds * plan.shape.neighbours
        assert 4 * numbers <= 64 << 20


def test_a_worker_is_single_threaded_and_shares_what_it_compiles() -> None:
    code = """
import os
from seedscope.execution.worker import prepare_process
prepare_process()
import jax
print(os.environ["NPROC"], jax.config.jax_compilation_cache_dir)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment | {"SEEDSCOPE_CACHE": "/tmp/cache"},
    )
    assert shown.stdout == "1 /tmp/cache/compiled\n"


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"mechanism": SGD(batch_size=41)}, "batch_size must be at most the 40 training rows, got 41"),
        (
            {"grid": Grid(seeds=1, neighbours=41)},
            "neighbours must be at most 40, got 41: the data have 40 training rows",
        ),
        ({"grid": Grid(seeds=1, people=[40])}, r"people must be row indices from 0 to 39, got \[40\]"),
        ({"grid": Grid(seeds=1, checkpoints=[-1])}, r"checkpoints must be steps from 0 .* to 15, got \[-1\]"),
        ({"grid": Grid(seeds=1, checkpoints=[16])}, r"checkpoints must be steps from 0 .* to 15, got \[16\]"),
        ({"grid": Grid(seeds=1, checkpoints=0)}, "checkpoints must be a whole number of at least 1, got 0"),
        ({"jobs": 0}, "jobs must be a whole number of at least 1, got 0"),
        ({"mechanism": SGD}, r"mechanism must be one of Seedscope's, such as SGD\(\)"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(choices: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    choices = {"mechanism": SMALL_SGD, "grid": Grid(seeds=1), **choices}
    with pytest.raises(SeedscopeError, match=sentence) as raised:
        train(table(), choices.pop("mechanism"), store=tmp_path / "store", **choices)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("probes", ["test", ("tests",), ("test", "neighbour")])
def test_unknown_probes_are_refused(probes: Any) -> None:
    with pytest.raises(SeedscopeError, match="probes must be among test, spare, train, neighbours, got"):
        Records(probes=probes)


def test_images_train_with_the_default_scaling() -> None:
    ensemble = train(images(), SGD(batch_size=8, steps=3), grid=Grid(seeds=1), records=Records(probes=()))
    assert repr(ensemble.scaling) == "Unscaled()"
    assert ensemble.weights.sizes["parameter"] == 65 * 3


@pytest.mark.slow
def test_modules_in_the_current_folder_do_not_disturb_workers(tmp_path: Path) -> None:
    for name in ("types.py", "calendar.py", "seedscope.py"):
        (tmp_path / name).write_text("raise RuntimeError('imported from the current folder')")
    code = "import seedscope as s; e = s.train(s.load('breast-cancer'), s.SGD(steps=5), grid=s.Grid(40, 3), jobs=2)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{code}; print(e.models)"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == "160", done.stderr
