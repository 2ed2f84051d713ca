"""A Dask cluster for tests: a real scheduler and real worker processes on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

DASK = [sys.executable, "-m", "dask"]


class Cluster:
    """A scheduler and worker processes on this machine."""

    def __init__(
        self, folder: Path, options: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.options, self.environment = folder, options, dict(environment or {})
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", "s.json")
        while not (folder / "s.json").exists() or not (folder / "s.json").read_text().strip():
            time.sleep(0.05)
        self.address = json.loads((folder / "s.json").read_text())["address"]

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [*DASK, *arguments, *self.options, "--no-dashboard"]
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(command, cwd=self.folder, stderr=log, stdout=log, env=os.environ | self.environment)

    def add_worker(self, *more: str) -> subprocess.Popen[bytes]:
        """Start one worker."""
        one = self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--local-directory", "w", *more)
        self.workers.append(one)
        return one

    def wait_for(self, workers: int) -> None:
        """Wait until this many workers are there."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)

    def stop(self) -> None:
        """End all processes."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
