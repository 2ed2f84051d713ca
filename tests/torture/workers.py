"""Torture of whole commands with worker processes: local ones, threads, a Dask cluster, other environments."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.helpers.cluster import Cluster
from tests.torture.stores import Workshop
from tests.torture.tally import Tally

PATIENCE = 120.0
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {}, {"JAX_ENABLE_X64": "1"}, {"JAX_THREEFRY_PARTITIONABLE": "0"}, {"JAX_DEFAULT_PRNG_IMPL": "rbg"},
    {"JAX_RANDOM_SEED_OFFSET": "7"}, {"JAX_NUMPY_DTYPE_PROMOTION": "strict"},
    {"JAX_DEFAULT_MATMUL_PRECISION": "bfloat16"},
)  # fmt: skip


class Crew:
    """What trains a network's grid: commands, and a Dask cluster that is started when it is first needed."""

    def __init__(self, shop: Workshop) -> None:
        self.shop, self._truth = shop, ""
        self._cluster: Cluster | None = None

    @property
    def truth(self) -> str:
        """The checksum of what one process gives, undisturbed."""
        if not self._truth:
            self._truth = _said(self.start(self.shop.folder / "network", "1", {}))[0]
        return self._truth

    @property
    def cluster(self) -> Cluster | None:
        """A cluster of two workers, one of them with another environment; None where Dask is not installed."""
        try:
            import distributed  # noqa: F401
        except ImportError:
            return None
        if self._cluster is None:
            folder = self.shop.folder / "dask"
            folder.mkdir()
            self._cluster = Cluster(folder)
            self._cluster.add_worker()
            self._cluster.environment = {"JAX_ENABLE_X64": "1", "JAX_DEFAULT_PRNG_IMPL": "rbg"}
            self._cluster.add_worker()
            wait = f"from distributed import Client; Client({self._cluster.address!r}).wait_for_workers(2, timeout=60)"
            subprocess.run([sys.executable, "-c", wait], check=True, capture_output=True)
        return self._cluster

    def start(self, store: Path, how: str, environment: dict[str, str]) -> subprocess.Popen[str]:
        """Start a training in a process, and a group, of its own."""
        command = [sys.executable, "-m", "tests.torture.victim", str(store), how]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=os.environ | environment, start_new_session=True)  # fmt: skip

    def stop(self) -> None:
        """End the cluster."""
        if self._cluster is not None:
            self._cluster.stop()


def _said(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a process printed, and what it said on standard error; it may not take for ever."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return "hung", process.communicate()[1]
    return out.strip(), err


def mixed_workers(crew: Crew, draw: random.Random, tally: Tally) -> None:
    """One store is trained by processes, threads and a cluster in turn, each in another environment and killed."""
    kind, store = "mixed workers and environments", crew.shop.new()
    tally.add(kind, tries=1)
    for _ in range(draw.randrange(1, 3)):
        process = crew.start(store, _how(crew, draw), draw.choice(ENVIRONMENTS))
        time.sleep(draw.uniform(1, 5))
        _hurt(process, draw)
        tally.add(kind, kills=1)
        _said(process)
    how, environment = _how(crew, draw), draw.choice(ENVIRONMENTS)
    out, err = _said(crew.start(store, how, environment))
    story = f"{how.split(':')[0]} under {environment or 'nothing else'}"
    tally.add(kind, faults=bool(environment))
    _judge(out, err, crew.truth, kind, tally, story)
    shutil.rmtree(store, ignore_errors=True)


def _how(crew: Crew, draw: random.Random) -> str:
    """Return by whom a grid is trained."""
    kinds = ["1", "2", "4", "threads-2"]
    if crew.cluster is not None:
        kinds += [crew.cluster.address] * 2
    return draw.choice(kinds)


def _hurt(process: subprocess.Popen[str], draw: random.Random) -> None:
    """Kill a driver, with its workers or without them, or stop it for a moment first."""
    if process.poll() is None:
        if draw.random() < 0.3:
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(draw.uniform(0, 1))
        os.killpg(process.pid, signal.SIGKILL) if draw.random() < 0.5 else process.kill()


def _judge(out: str, err: str, truth: str, kind: str, tally: Tally, story: str) -> None:
    """Count how a training ended that had to give the truth."""
    if out == truth:
        return tally.add(kind, same_bits=1)
    if out == "hung":
        return tally.sin(kind, "hung", story)
    column = "tracebacks" if "Traceback" in err else "different" if out else "lost"
    return tally.sin(kind, column, f"{story}: {err[-1500:]}")


def killed_commands(crew: Crew, draw: random.Random, tally: Tally) -> None:
    """The command with two workers loses a worker, or is killed; the same command finishes, without a traceback."""
    kind, store = "commands with workers", crew.shop.new()
    command = [sys.executable, "-m", "seedscope", "train", "breast-cancer", "--mechanism", "objective",
               "--seeds", "400", "--neighbours", "6", "--jobs", "2", "--store"]  # fmt: skip
    tally.add(kind, tries=1)
    for place, harm in ((store, draw.choice(("driver", "worker", "stop", "terminate"))), (store, "")):
        process = subprocess.Popen([*command, str(place)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)  # fmt: skip
        if harm:
            time.sleep(draw.uniform(0.5, 4))
            tally.add(kind, kills=int(_harm(process, harm, draw)))
        out, err = _said(process)
        if "Traceback" in err or out == "hung":
            tally.sin(kind, "hung" if out == "hung" else "tracebacks", f"{harm or 'again'}: {err[-1500:]}")
    whole = crew.shop.folder / "command"
    if not whole.exists():
        subprocess.run([*command[:-3], "--jobs", "1", "--store", str(whole)], check=True, capture_output=True)
    same = _records(store) == _records(whole)
    tally.add(kind, same_bits=1) if same else tally.sin(kind, "different", "a command's store")
    shutil.rmtree(store, ignore_errors=True)


def _harm(process: subprocess.Popen[str], harm: str, draw: random.Random) -> bool:
    """Do something to a command or one of its workers; say whether there was still something to harm."""
    children = [int(one) for one in _children(process.pid) if _is_worker(one)]
    if process.poll() is not None or (harm in ("worker", "stop") and not children):
        return False
    if harm == "worker":
        os.kill(draw.choice(children), signal.SIGKILL)
    elif harm == "stop":
        one = draw.choice(children)
        os.kill(one, signal.SIGSTOP)
        time.sleep(draw.uniform(0, 2))
        os.kill(one, signal.SIGCONT)
    else:
        process.send_signal(signal.SIGKILL if harm == "driver" else signal.SIGTERM)
    return True


def _children(pid: int) -> list[str]:
    """Return the processes that a process has started."""
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def _is_worker(pid: str) -> bool:
    """Whether a process trains; loky's janitor, which complains of everything it did not see, is not ours to mend."""
    try:
        return b"LokyProcess" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _records(store: Path) -> dict[str, object]:
    """Return the checksums of everything that a store's markers vouch for."""
    from seedscope.storage.markers import read_marker

    found = {one.name: read_marker(one) for one in (store / "done").glob("*.json")}
    return {name: one and dict(one.checksums) for name, one in found.items()}
