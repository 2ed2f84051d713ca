"""A Dask cluster as joblib's workers: reached, given the job once, and heard of when something there is lost."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import queue
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from distributed import Client, Worker, WorkerPlugin
from distributed.comm.addressing import get_address_host_port
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker
from joblib._dask import DaskDistributedBackend

from seedscope.core import ClusterError, SeedscopeError, SeedscopeWarning
from seedscope.execution import worker as workers
from seedscope.execution.self_test import self_test
from seedscope.execution.worker import Failure, failure
from seedscope.planning import environment, software_versions
from seedscope.training import Job

_resting: dict[str, Any] = {}  # by worker: what looks at its stack a hundred times a second when there is no job
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of the C library's malloc.h
KEPT = 32 << 20  # bytes; what the C library itself comes to
LOOK_FOR_LOSS = 0.5  # seconds between looks whether the client was closed
SILENCE = 60  # seconds after which a worker that has stopped is given up; Dask itself waits for five minutes
PATIENCE = 10  # seconds to wait for a scheduler, and for its first worker


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Yield a client of the scheduler at an address such as tcp://10.0.0.1:8786; raise where none answers.

    Where this machine reaches the workers, results come from them and not through the scheduler.
    """
    client = _client(address)
    if isinstance(client, str):
        gc.collect()  # closes what was half made; while another client starts, it would wait for itself
        raise ClusterError(
            f"cannot reach a Dask scheduler at {address} ({client}); start one with 'dask scheduler', or check the "
            "address."
        )
    with client:
        if client.direct_to_workers is None and any(map(_answers, list(_cores(client))[:1])):
            client.direct_to_workers = True
        yield client


def _client(address: str) -> Client | str:
    """Return a client of the scheduler at the address, or why there is none.

    A port that accepts and then says nothing Dask understands would keep Dask waiting for ever: so that it cannot, the
    client is made in a thread that is left behind.
    """
    answers: queue.Queue[Client | str] = queue.Queue()
    threading.Thread(target=lambda: answers.put(_made(address)), daemon=True).start()
    try:
        return answers.get(timeout=2 * PATIENCE)
    except queue.Empty:
        return f"what answers there has not spoken Dask's protocol for {2 * PATIENCE} s"


def _made(address: str) -> Client | str:
    """Return a client, or the reason why Dask makes none."""
    try:
        return Client(address, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # Dask's, the network's, the encryption's
        return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def _answers(worker: str) -> bool:
    """Whether a connection to a worker's address opens: behind a firewall it does not."""
    try:
        socket.create_connection(get_address_host_port(worker), PATIENCE / 5).close()
    except OSError:
        return False
    return True


class ClusterBackend(DaskDistributedBackend):  # type: ignore[misc]  # joblib has no types
    """joblib's Dask backend, which here also tells of a chunk whose workers died and of a scheduler that is gone."""

    cores: int

    def __init__(self, client: Client, **options: Any):
        super().__init__(client=client, wait_for_workers_timeout=PATIENCE, **options)

    def effective_n_jobs(self, n_jobs: int | None = None) -> int:
        """Return the cluster's cores, at least 2: with one job joblib would work in this process."""
        with _needed(self.client):
            try:
                cores = super().effective_n_jobs(n_jobs)
            except TimeoutError:
                raise _without_workers(self.client.scheduler.address) from None
        self.cores = max(2, cores)
        return self.cores

    def has_grown(self) -> bool:
        """Whether there are more cores than when chunks were last sent out."""
        return sum(_cores(self.client).values()) > self.cores

    def submit(self, func: Any, callback: Any = None) -> Future[Any]:
        """Send a chunk out; one whose workers were killed comes back as its failure."""
        future: Future[Any] = super().submit(func, callback)
        chunk = func.items[0][1][1]
        future.add_done_callback(partial(_tell_of_death, chunk, callback))
        return future

    def start_call(self) -> None:
        """Begin to collect results, and to look whether the client still has a scheduler."""
        super().start_call()
        self.client.loop.add_callback(self._tell_of_loss)

    async def _tell_of_loss(self) -> None:
        """Hand joblib nothing for chunks that were under way when Dask closed the client: they would never come.

        Meanwhile have the scheduler give up workers that have been silent for too long.
        """
        looked = time.monotonic()
        while self._continue:
            if self.client.status == "closed":
                for callback in list(self._callbacks.values()):
                    callback(None)
            elif time.monotonic() - looked > SILENCE / 4:
                looked = time.monotonic()
                await self._give_up_silent()
            await asyncio.sleep(LOOK_FOR_LOSS)

    async def _give_up_silent(self) -> None:
        """Have silent workers' chunks trained by others, and name the workers."""
        try:
            silent = await asyncio.wait_for(self.client.run_on_scheduler(_remover(SILENCE)), PATIENCE)
        except Exception:  # the scheduler has gone or is busy: the next look will tell
            return
        for address in silent:
            self.client.rpc.remove(address)  # a result that is being fetched from there would never come
            warnings.warn(
                f"the worker {address} has not been heard of for {SILENCE} s; its chunks are trained by others.",
                SeedscopeWarning,
                stacklevel=2,
            )

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return a chunk's outcome, or raise where the scheduler has gone and took it along."""
        if isinstance(out, BaseException) or out is None:
            raise lost(self.client)
        return super().retrieve_result_callback(out)


def _tell_of_death(chunk: Any, callback: Any, future: Future[Any]) -> None:
    """Hand joblib the failure of a chunk that Dask has given up; joblib itself would wait for it for ever."""
    if (error := future.exception()) is None:
        return
    told = failure(error, "the cluster")
    if isinstance(error, KilledWorker):
        where = str(getattr(error.last_worker, "address", "the cluster"))
        told = Failure("its workers died every time, likely for lack of memory", where, lasting=True)
    callback([(chunk, told)])


@contextmanager
def _needed(client: Client) -> Iterator[None]:
    """Say in one sentence that the scheduler has gone, whatever Dask raises then."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or client.scheduler is None:
            raise lost(client) from None
        raise


def _cores(client: Client) -> dict[str, int]:
    """Return how many cores each worker has."""
    with _needed(client):
        cores: dict[str, int] = client.ncores()
        return cores


def _without_workers(address: str) -> SeedscopeError:
    """Return the sentence for a cluster that nobody has joined."""
    return ClusterError(
        f"no worker has joined the cluster at {address}; start some with 'dask worker {address} --nthreads 1'."
    )


def lost(client: Client) -> SeedscopeError:
    """Return the sentence for a scheduler that stopped while it was needed."""
    return ClusterError(
        f"lost the Dask scheduler at {client.scheduler.address if client.scheduler else 'its address'}; start it and "
        "run the same again: finished chunks of a store are kept."
    )


def _remover(limit: float) -> Any:
    """Return the function that removes silent workers; made here, it is sent whole: a scheduler may lack Seedscope."""

    async def remove(dask_scheduler: Any) -> list[str]:
        import time

        late = [
            worker.address
            for worker in dask_scheduler.workers.values()
            if worker.last_seen and time.time() - worker.last_seen > limit
        ]
        for address in late:
            await dask_scheduler.remove_worker(address, stimulus_id=f"seedscope-silent-{time.time()}", close=False)
        return late

    return remove


def _guard(client_id: str, delivery: str) -> Any:
    """Return a scheduler's plugin that drops a delivered job when the client that brought it has gone, however it went.

    Its class is made here so that it is sent whole: a scheduler may lack Seedscope.
    """
    from distributed.diagnostics.plugin import SchedulerPlugin

    class Guard(SchedulerPlugin):
        """Drops a job with its client."""

        name = f"guard-{delivery}"

        def remove_client(self, scheduler: Any, client: str) -> None:
            import asyncio

            if client == client_id:
                self.dropping = asyncio.ensure_future(self.drop(scheduler))

        async def drop(self, scheduler: Any) -> None:
            await scheduler.unregister_worker_plugin(None, name=delivery)
            await scheduler.unregister_scheduler_plugin(self.name)

    return Guard()


def keep_freed_memory() -> None:
    """Let this process keep some memory that it frees, as the C library learns to do by itself.

    Dask's nanny forbids it; then every large array is new memory to the system.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_THRESHOLD, KEPT)
        library.mallopt(M_TRIM_THRESHOLD, 2 * KEPT)


class Delivery(WorkerPlugin):
    """Brings a job to every worker of a cluster, also to those that join later or start again."""

    def __init__(self, job: Job, strict: bool = False):
        versions = {name: version for name, version in software_versions().items() if name != "python"}
        self.name, self._job = f"seedscope-{job.fingerprint}", job
        self._expected = workers.Expected(versions, self_test(job.model is not None), environment(), strict)

    def setup(self, worker: Worker) -> None:
        """Keep the job in the worker's process, which meanwhile does not look at its own stack all the time."""
        workers.deliver(self._job, self._expected)
        keep_freed_memory()
        if profiler := worker.periodic_callbacks.pop("profile", None):
            profiler.stop()
            _resting[worker.address] = profiler

    def teardown(self, worker: Worker) -> None:
        """Drop the job."""
        workers.forget(self._job.fingerprint)
        if not workers.has_jobs() and (profiler := _resting.pop(worker.address, None)):
            worker.periodic_callbacks["profile"] = profiler
            profiler.start()


@contextmanager
def delivered(client: Client, job: Job, strict: bool = False) -> Iterator[None]:
    """Let the workers of a cluster have a job meanwhile."""
    delivery = Delivery(job, strict)
    guard = _guard(client.id, delivery.name)
    try:
        client.register_plugin(guard)
        client.register_plugin(delivery)
    except CommClosedError:
        raise lost(client) from None
    except Exception as error:  # whatever the workers' machines raise
        reason = failure(error).error
        raise ClusterError(
            f"the cluster's workers cannot be set up: {reason}; install the same Seedscope on every machine."
        ) from error
    try:
        yield
    finally:
        try:
            client.unregister_worker_plugin(delivery.name)
            client.unregister_scheduler_plugin(guard.name)
        except Exception as error:  # the cluster has gone: nothing is left to tidy up
            warnings.warn(f"the cluster was left untidied: {error}", ResourceWarning, stacklevel=2)


def workers_but(client: Client, avoided: set[str]) -> dict[str, Any]:
    """Return Dask's options to prefer workers that are not avoided, if there are any."""
    if not avoided:
        return {}
    welcome = [address for address in _cores(client) if address not in avoided]
    return {"workers": welcome, "allow_other_workers": True} if welcome else {}
