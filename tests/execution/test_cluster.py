"""The same bits on a Dask cluster, whatever happens to its workers: a real scheduler and real worker processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from seedscope import SGD, Grid, ObjectivePerturbation, Records, mlp, train
from seedscope.core.errors import ClusterError, SeedscopeError, SeedscopeWarning
from seedscope.execution import dispatch
from seedscope.execution import worker as workers
from seedscope.planning import Plan
from seedscope.planning.chunks import ChunkShape
from seedscope.planning.plan import make_plan
from seedscope.storage.folder import open_store
from tests.helpers.cluster import Cluster
from tests.helpers.deadly import deadly
from tests.helpers.small_data import table
from tests.helpers.stores import bits, trained_in_memory

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.optimised]
SMALL_SGD = SGD(learning_rate=0.5, batch_size=8, steps=15)
GRID = Grid(seeds=24, neighbours=3)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler without workers."""
    started = Cluster(tmp_path)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler with two workers that nobody kills."""
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    started.add_worker(), started.add_worker()
    started.wait_for(2)
    yield started
    started.stop()


def plan_of_24_chunks() -> Plan:
    return make_plan(table(), SMALL_SGD, mlp(4), GRID, chunk=ChunkShape(2, 2))


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    """The records of the plan of 24 chunks, trained in this process."""
    return bits(trained_in_memory(plan_of_24_chunks()))


@pytest.fixture
def call(tmp_path: Path) -> dict[str, Any]:
    """The arguments that train the plan of 24 chunks."""
    open_store(tmp_path / "store", plan_of_24_chunks())
    return {"data": table(), "mechanism": SMALL_SGD, "model": mlp(4), "grid": GRID, "store": tmp_path / "store"}


def test_a_cluster_gives_the_bits_of_one_process(
    pair: Cluster, expected: dict[str, bytes], call: dict[str, Any]
) -> None:
    assert bits(train(cluster=pair.address, **call)) == expected


@pytest.mark.parametrize("jobs", [2, 4])
def test_local_workers_give_the_bits_of_one_process(
    jobs: int, expected: dict[str, bytes], call: dict[str, Any]
) -> None:
    assert bits(train(jobs=jobs, **call)) == expected


def test_joblibs_own_configuration_for_dask_is_used(
    pair: Cluster, expected: dict[str, bytes], call: dict[str, Any]
) -> None:
    from distributed import Client

    with Client(pair.address), joblib.parallel_config("dask"):
        assert bits(train(**call)) == expected


def test_a_model_of_ones_own_reaches_the_workers(pair: Cluster) -> None:
    model = (lambda key: np.zeros(3, np.float32), lambda weights, rows: rows @ weights)
    here, there = (
        train(table(), SMALL_SGD, model=model, grid=GRID, **where) for where in ({"jobs": 1}, {"cluster": pair.address})
    )
    assert bits(here) == bits(there)


def test_data_are_sent_once_to_each_worker_not_with_each_chunk(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import cloudpickle

    from seedscope.execution.cluster import ClusterBackend

    sizes = []
    submit = ClusterBackend.submit

    def measured(backend: Any, func: Any, callback: Any = None) -> Any:
        sizes.append(len(cloudpickle.dumps(func.items)))
        return submit(backend, func, callback)

    monkeypatch.setattr(ClusterBackend, "submit", measured)
    data = table(rows=20_000)
    train(data, ObjectivePerturbation(), grid=Grid(24), records=Records(probes=("test",)), cluster=pair.address)
    assert len(sizes) >= 4
    assert max(sizes) < 2000 < data.features.nbytes


def test_a_worker_killed_mid_run_changes_nothing(
    cluster: Cluster, expected: dict[str, bytes], call: dict[str, Any]
) -> None:
    victim, _ = cluster.add_worker(), cluster.add_worker()
    cluster.wait_for(2)
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if done and not killed:
            killed.append(done)
            victim.send_signal(signal.SIGKILL)

    found = train(cluster=cluster.address, progress=kill, **call)
    assert victim.wait() == -signal.SIGKILL
    assert 0 < killed[0] < found.models / 2
    assert bits(found) == expected


SPOILED = """
import sys, threading, time

def fail(*_):
    raise OSError("this machine's disk is broken")

def spoil():
    while not hasattr(worker := sys.modules.get("seedscope.execution.worker"), "train_chunk"):
        time.sleep(0.01)
    worker.train_chunk = fail

threading.Thread(target=spoil, daemon=True).start()
"""


def test_a_worker_that_fails_is_avoided_and_one_that_joins_late_gets_the_job(
    cluster: Cluster, expected: dict[str, bytes], call: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "LOOK_EVERY", 0.0)
    (cluster.folder / "sitecustomize.py").write_text(SPOILED)
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(cluster.folder))
        cluster.add_worker()  # it can train nothing
    cluster.add_worker()
    cluster.wait_for(2)
    joined: list[subprocess.Popen[bytes]] = []

    def join(done: int, total: int) -> None:
        if done and not joined:
            joined.append(cluster.add_worker())

    assert bits(train(cluster=cluster.address, progress=join, **call)) == expected
    assert joined


def test_workers_do_not_profile_themselves_while_they_have_a_job(cluster: Cluster) -> None:
    from distributed import Client

    from seedscope.execution.cluster import delivered

    def profiling(client: Client) -> list[bool]:
        found = client.run(lambda dask_worker: "profile" in dask_worker.periodic_callbacks)
        return list(found.values())

    cluster.add_worker()
    cluster.wait_for(1)
    with Client(cluster.address) as client:
        assert profiling(client) == [True]
        with delivered(client, plan_of_24_chunks().job):
            cluster.add_worker()
            cluster.wait_for(2)
            assert profiling(client) == [False, False]
        assert profiling(client) == [True, True]


def test_workers_keep_memory_that_they_free_though_dask_forbids_it() -> None:
    code = """
import ctypes, resource
import numpy as np
from seedscope.execution.cluster import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(1 << 20)  # 8 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
keep_freed_memory()
faults()
print(hasattr(ctypes.CDLL(None), "mallopt"), first, faults())
"""
    as_nannies_do = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536", "NUMPY_MADVISE_HUGEPAGE": "0"}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=as_nannies_do)
    possible, before, after = shown.stdout.split()
    if possible == "False":
        pytest.skip("the C library has no mallopt")
    assert int(before) > 20_000
    assert int(after) < 1_000


def test_a_chunk_that_kills_every_worker_is_named_while_the_others_finish(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dispatch, "attempt", deadly(workers.attempt, "1-0"))
    for _ in range(6):
        cluster.add_worker()
    cluster.wait_for(6)
    path = tmp_path / "store"
    with pytest.raises(SeedscopeError, match=r"chunk 1-0 \(.*\): its workers died every time"):
        train(table(), ObjectivePerturbation(), grid=Grid(24), cluster=cluster.address, store=path)
    assert len(list((path / "done").glob("*.json"))) == 3


@pytest.mark.parametrize("look_every", [0.0, 60.0], ids=["when-looking", "when-waiting"])
def test_a_scheduler_that_is_lost_is_one_sentence_and_the_run_can_go_on(
    cluster: Cluster,
    expected: dict[str, bytes],
    call: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    look_every: float,
) -> None:
    monkeypatch.setattr(dispatch, "LOOK_EVERY", look_every)
    cluster.add_worker()
    cluster.wait_for(1)

    def kill(done: int, total: int) -> None:
        if done:
            cluster.scheduler.kill()

    with pytest.raises(SeedscopeError, match=r"lost the Dask scheduler .*: finished chunks of a store are kept"):
        train(cluster=cluster.address, progress=kill, **call)
    seen = []
    assert bits(train(progress=lambda *one: seen.append(one), **call)) == expected
    assert seen[0][0] > 0


def test_a_client_that_dask_has_closed_is_a_lost_scheduler(pair: Cluster) -> None:
    from distributed import Client

    from seedscope.execution.cluster import ClusterBackend

    client = Client(pair.address, set_as_default=False)
    backend = ClusterBackend(client)
    assert backend.effective_n_jobs() == 2
    client.close()
    for asked in (backend.has_grown, backend.effective_n_jobs):
        with pytest.raises(SeedscopeError, match="lost the Dask scheduler"):
            asked()


def test_a_chunk_that_dask_never_answers_is_given_up_when_it_has_closed_the_client(pair: Cluster) -> None:
    from distributed import Client

    from seedscope.execution.cluster import ClusterBackend

    told: list[object] = []
    with Client(pair.address, set_as_default=False) as client:
        backend = ClusterBackend(client)
        backend.start_call()
        backend._callbacks["sent out too late"] = told.append
        client.loop.add_callback(client._close)  # as Dask itself does when it cannot reconnect
        end = time.monotonic() + 20
        while not told and time.monotonic() < end:
            time.sleep(0.05)
        backend._continue = False
        with pytest.raises(SeedscopeError, match="lost the Dask scheduler"):
            backend.retrieve_result_callback(told[0])


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "tcp://", ""])
def test_a_cluster_that_cannot_be_reached_is_one_sentence_and_leaves_no_client(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    from distributed import Client

    from seedscope.execution import cluster as module

    class WatchedClient(Client):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            made.append(weakref.ref(self))
            super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]

    made: list[weakref.ref[Client]] = []
    monkeypatch.setattr(module, "PATIENCE", 1)
    monkeypatch.setattr(module, "Client", WatchedClient)
    with pytest.raises(SeedscopeError, match="cannot reach a Dask scheduler at"):
        train(table(), ObjectivePerturbation(), grid=Grid(4), cluster=address)
    assert [one() for one in made] == [None]


def test_a_cluster_without_workers_is_one_sentence(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from seedscope.execution import cluster as module

    monkeypatch.setattr(module, "PATIENCE", 2)
    with pytest.raises(SeedscopeError, match="no worker has joined the cluster at tcp://"):
        train(table(), ObjectivePerturbation(), grid=Grid(4), cluster=cluster.address)


def test_the_command_says_in_one_sentence_that_a_cluster_cannot_be_reached(tmp_path: Path) -> None:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    arguments = ["-m", "seedscope", "train", "--seeds", "4", "--cluster", address, "--store", str(tmp_path / "store")]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 6
    assert f"seedscope: cannot reach a Dask scheduler at {address}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_accepts_and_is_not_dasks_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from seedscope.execution import cluster as clusters

    monkeypatch.setattr(clusters, "PATIENCE", 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ClusterError, match=r"cannot reach a Dask scheduler at tcp://127.0.0.1:\d+ \(.*\); start one"),
    ):
        train(table(), SMALL_SGD, grid=GRID, cluster=f"tcp://127.0.0.1:{silent.getsockname()[1]}")


def test_a_web_server_is_no_scheduler_and_that_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from seedscope.execution import cluster as clusters

    monkeypatch.setattr(clusters, "PATIENCE", 2)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(
            ClusterError, match=r"cannot reach a Dask scheduler at tcp://127.0.0.1:\d+ \(.*\); start one"
        ):
            train(table(), SMALL_SGD, grid=GRID, cluster=f"tcp://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()


def test_a_worker_that_stops_answering_is_given_up_and_changes_nothing(
    cluster: Cluster, expected: dict[str, bytes], call: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from seedscope.execution import cluster as clusters

    monkeypatch.setattr(clusters, "SILENCE", 4)
    victim, _ = cluster.add_worker(), cluster.add_worker()
    cluster.wait_for(2)
    stopped: list[int] = []

    def stop(done: int, total: int) -> None:
        if done and not stopped:
            stopped.append(done)
            victim.send_signal(signal.SIGSTOP)

    with pytest.warns(SeedscopeWarning, match=r"the worker tcp://.* has not been heard of for 4 s"):
        found = train(cluster=cluster.address, progress=stop, **call)
    assert bits(found) == expected


KILLED = """
import os, sys
from tests.execution.test_cluster import plan_of_24_chunks
from seedscope.execution.cluster import connected, delivered
with connected(sys.argv[1]) as client, delivered(client, plan_of_24_chunks().job):
    print("delivered", flush=True)
    os._exit(9)
"""


def test_a_killed_driver_leaves_no_rows_with_the_scheduler_or_its_workers(pair: Cluster) -> None:
    from distributed import Client

    shown = subprocess.run([sys.executable, "-c", KILLED, pair.address], capture_output=True, text=True, check=False)
    assert shown.stdout == "delivered\n", shown.stderr
    with Client(pair.address, set_as_default=False) as client:
        for _ in range(100):
            kept = client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.worker_plugins])
            jobs = client.run(lambda: __import__("seedscope.execution.worker").execution.worker.has_jobs())
            if not any("seedscope" in one for one in kept) and not any(jobs.values()):
                return
            time.sleep(0.1)
    raise AssertionError((kept, jobs))


def test_what_is_private_in_joblib_is_still_where_it_is_used() -> None:
    from concurrent.futures.process import BrokenProcessPool

    from joblib._dask import DaskDistributedBackend
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    used = ("submit", "start_call", "effective_n_jobs", "retrieve_result_callback")
    lacking = [name for name in used if not hasattr(DaskDistributedBackend, name)]
    assert not lacking, f"joblib {joblib.__version__}: its Dask backend has no {lacking} any more"
    assert issubclass(TerminatedWorkerError, BrokenProcessPool)
