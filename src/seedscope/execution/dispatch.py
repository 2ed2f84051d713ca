"""Sends chunks to workers through joblib and yields what comes back, in any order: records, or a failure that lasts.

Who works is the caller's choice: this process, local processes (the default), a Dask cluster, or whatever
`joblib.parallel_config` says. A chunk that fails is tried again elsewhere; a worker that dies takes nobody with it.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from typing import Any

from seedscope.core import OutOfMemoryError, SeedscopeError, one_blas_thread, private_folder, require
from seedscope.execution.worker import Failure, Outcome, attempt, prepare_worker, whereabouts
from seedscope.planning import Chunk, Plan
from seedscope.training import FiledJob, Job

ATTEMPTS = 3
HOPELESS = 20  # this many chunks failed alike and none was trained: the rest would fail as well
BACKLOG = 4  # this many finished chunks may wait to be written before no more are sent out
CRASHES_IN_A_ROW = 5
LOOK_EVERY = 5.0  # seconds between looks whether a cluster has grown
INSTALL = "pip install 'seedscope[cluster]'"

Run = Callable[[Iterable[Chunk], Mapping[Chunk, Failure]], Iterator[Outcome]]


def outcomes(plan: Plan, chunks: list[Chunk], jobs: int | None, strict: bool = False) -> Generator[Outcome]:
    """Yield every chunk with its records or its lasting failure; `jobs` None leaves it to joblib's configuration.

    Where the first chunks all fail alike, the rest is not tried and not yielded.
    """
    if not chunks:
        return
    trained, failed = False, dict[Chunk, Failure]()
    with _team(plan, len(chunks), jobs, strict) as run:
        for attempts_left in reversed(range(ATTEMPTS)):
            again: dict[Chunk, Failure] = {}
            for chunk, outcome in run(failed or chunks, failed):
                if not isinstance(outcome, Failure):
                    trained = True
                elif attempts_left and not outcome.lasting:
                    again[chunk] = outcome
                    if not trained and _hopeless(again):
                        yield from again.items()
                        return
                    continue
                yield chunk, outcome
            if not again:
                return
            failed = again


def _hopeless(failed: Mapping[Chunk, Failure]) -> bool:
    """Whether many chunks failed with one and the same error, and not just on one bad worker of several."""
    if len(failed) < HOPELESS:
        return False
    places = {failure.where.split(",")[0] for failure in failed.values()}  # the machine, or a worker of a cluster
    this_machine = whereabouts().split(",")[0]
    return len({failure.error for failure in failed.values()}) == 1 and (len(places) > 1 or places == {this_machine})


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Let everything within train on the Dask cluster whose scheduler has this address; None changes nothing."""
    if address is None:
        yield
        return
    missing = find_spec("distributed") is None
    require(not missing, f"a cluster needs the cluster extra; install it with: {INSTALL}.")
    from joblib import parallel_config

    from seedscope.execution.cluster import ClusterBackend, connected  # extra

    with connected(address) as client, parallel_config(ClusterBackend(client=client), n_jobs=-1):
        yield


def configured_workers() -> int | None:
    """Return how many workers joblib's configuration gives; None where nobody has configured it."""
    import joblib

    backend, jobs = joblib.parallel.get_active_backend()
    if not _is_configured():
        return None if jobs is None else joblib.effective_n_jobs(jobs)
    workers: int = backend.effective_n_jobs(backend.default_n_jobs if jobs is None else jobs)
    return workers


def _is_configured() -> bool:
    """Whether a backend was chosen: otherwise what joblib would use follows a stated preference."""
    from joblib.parallel import get_active_backend

    kinds = {type(get_active_backend(prefer=preference)[0]) for preference in ("threads", "processes")}
    return len(kinds) == 1


@contextmanager
def _team(plan: Plan, chunks: int, jobs: int | None, strict: bool) -> Iterator[Run]:
    """Yield the function that runs chunks where the configuration says, or in processes where it says nothing."""
    import joblib

    backend = joblib.parallel.get_active_backend()[0]
    if not _is_configured():
        team = _here(plan) if jobs == 1 or chunks <= 1 else _processes(plan, min(jobs or 1, chunks))
    elif find_spec("distributed") and _is_dask(backend):
        team = _cluster(plan, backend, strict)
    elif getattr(backend, "uses_threads", False) or (jobs or configured_workers()) == 1:
        team = _shared_memory(plan, jobs)
    else:
        team = _configured(plan, jobs)
    with team as run:
        yield run


def _is_dask(backend: Any) -> bool:
    """Whether this is joblib's Dask backend."""
    from joblib._dask import DaskDistributedBackend

    return isinstance(backend, DaskDistributedBackend)


@contextmanager
def _here(plan: Plan) -> Iterator[Run]:
    """Train in this process, one chunk after another."""
    yield lambda chunks, _: (attempt(plan.job, chunk, *plan.chunk_coordinates(chunk)) for chunk in chunks)


@contextmanager
def importing_nothing_here() -> Iterator[None]:
    """Let processes that start within find no modules in the current folder: a stray types.py there would end them.

    joblib starts them with `python -m`, which looks there first; what this process can import they can import all the
    same, as they are told its own path.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


@contextmanager
def _processes(plan: Plan, jobs: int) -> Iterator[Run]:
    """Train in local processes that end with this one; each further attempt has fresh ones."""
    attempts = count()

    def run(chunks: Iterable[Chunk], _: Mapping[Chunk, Failure]) -> Iterator[Outcome]:
        options = {"backend": "loky", "initializer": prepare_worker, "initargs": (os.getpid(), next(attempts))}
        return _surviving(plan, job, chunks, {"n_jobs": max(2, jobs), **options})

    with importing_nothing_here(), private_folder() as folder:
        job = FiledJob.write(plan.job, folder)
        yield run


@contextmanager
def _configured(plan: Plan, jobs: int | None) -> Iterator[Run]:
    """Train as `joblib.parallel_config` says, with arrays in files that the workers read."""
    with private_folder() as folder:
        job = FiledJob.write(plan.job, folder)
        yield lambda chunks, _: _surviving(plan, job, chunks, _number(jobs) | _kind_of_results())


@contextmanager
def _shared_memory(plan: Plan, jobs: int | None) -> Iterator[Run]:
    """Train in threads of this process, as `joblib.parallel_config` says."""
    with one_blas_thread():
        yield lambda chunks, _: iter(Stream(plan, plan.job, chunks, _number(jobs)))


@contextmanager
def _cluster(plan: Plan, backend: Any, strict: bool) -> Iterator[Run]:
    """Train on a Dask cluster, where the job is delivered once to every worker, also to those that come later."""
    from seedscope.execution.cluster import ClusterBackend, delivered, workers_but  # extra

    client = backend.client

    def run(chunks: Iterable[Chunk], failed: Mapping[Chunk, Failure]) -> Iterator[Outcome]:
        elsewhere = workers_but(client, {failure.where for failure in failed.values()})
        chosen = ClusterBackend(client=client, **(backend.submit_kwargs | elsewhere))
        options = {"backend": chosen, "pre_dispatch": "2*n_jobs"}  # each worker has the next chunk at hand
        return iter(Stream(plan, plan.job.fingerprint, chunks, options, chosen.has_grown))

    with delivered(client, plan.job, strict):
        yield run


def _kind_of_results() -> dict[str, Any]:
    """Return joblib's option for backends that give all results of a wave at once."""
    from joblib.parallel import get_active_backend

    return {} if get_active_backend()[0].supports_return_generator else {"return_as": "list"}


def _number(jobs: int | None) -> dict[str, Any]:
    """Return joblib's option for a number of workers; None leaves it to the configuration."""
    return {} if jobs is None else {"n_jobs": jobs}


class Stream:
    """The outcomes of chunks in the order in which joblib's workers finish them.

    Chunks are sent out in waves. Within a wave joblib sends one as another finishes, whether or not results are used;
    so a wave ends when finished chunks pile up here, or when a cluster has grown, and the next begins after it.
    """

    def __init__(
        self,
        plan: Plan,
        job: Job | FiledJob | str,
        chunks: Iterable[Chunk],
        options: dict[str, Any],
        has_grown: Callable[[], bool] = lambda: False,
    ):
        self.waiting, self.away = deque(chunks), dict[Chunk, None]()
        self._plan, self._job, self._options, self._has_grown = plan, job, options, has_grown
        self._parallel: Any = None
        self._taken, self._over, self._looked = 0, False, time.monotonic()

    def __iter__(self) -> Iterator[Outcome]:
        while self.waiting:
            yield from self._wave()

    def _wave(self) -> Iterator[Outcome]:
        """Yield the outcomes of chunks that are sent out until the wave is over."""
        from joblib import Parallel

        common = {"return_as": "generator_unordered", "pre_dispatch": "1.5*n_jobs", "batch_size": 1, "max_nbytes": None}
        self._parallel, self._taken, self._over = Parallel(**(common | self._options)), 0, False
        with _closing_quietly(self._parallel(self._tasks())) as results:
            for chunk, outcome in results:
                self._taken += 1
                self.away.pop(chunk, None)
                self._look()
                yield chunk, outcome

    def _tasks(self) -> Iterator[Any]:
        """Yield joblib's tasks; threads of joblib ask for the next one."""
        from joblib import delayed

        while self.waiting and not self._over and self._parallel.n_completed_tasks - self._taken <= BACKLOG:
            chunk = self.waiting.popleft()
            self.away[chunk] = None
            yield delayed(attempt)(self._job, chunk, *self._plan.chunk_coordinates(chunk))

    def _look(self) -> None:
        """End the wave if there are more workers than it was made for."""
        if time.monotonic() - self._looked > LOOK_EVERY:
            self._looked, self._over = time.monotonic(), self._has_grown()


@contextmanager
def _closing_quietly(results: Any) -> Iterator[Any]:
    """Yield joblib's results; when a run is stopped, joblib need not tell that it has given chunks up."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if hasattr(results, "close"):
                results.close()


def _surviving(plan: Plan, job: FiledJob, chunks: Iterable[Chunk], options: dict[str, Any]) -> Iterator[Outcome]:
    """Yield outcomes even if processes are killed: what was under way is sent again, at last each chunk on its own."""
    waiting, alone, suspected, crashes = list(chunks), list[Chunk](), Counter[Chunk](), 0
    while waiting:
        stream = Stream(plan, job, waiting, options)
        try:
            for outcome in stream:
                crashes = 0
                yield outcome
            break
        except BrokenProcessPool as error:
            crashes += 1
            if crashes == CRASHES_IN_A_ROW:
                raise _killed(error) from None
            suspected.update(list(stream.away))
            alone += [chunk for chunk in stream.away if suspected[chunk] >= ATTEMPTS - 1]
            waiting = [chunk for chunk in stream.away if suspected[chunk] < ATTEMPTS - 1] + list(stream.waiting)
    for chunk in alone:
        try:
            yield from Stream(plan, job, [chunk], options)
        except BrokenProcessPool:
            yield chunk, Failure("its process was killed every time, likely for lack of memory", "this machine", True)


def _killed(error: BaseException) -> SeedscopeError:
    """Return the sentence for processes that die whatever they train."""
    return OutOfMemoryError(
        f"worker processes were killed {CRASHES_IN_A_ROW} times in a row, likely for lack of memory "
        f"({type(error).__name__}); run the same again with fewer jobs: finished chunks of a store are kept."
    )
