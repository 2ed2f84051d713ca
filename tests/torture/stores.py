"""The stores that are tortured: two grids of one plan, what is done with them, and what they must hold."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from seedscope.execution.run import train
from seedscope.mechanisms import ObjectivePerturbation
from seedscope.planning import Grid, environment
from seedscope.storage import Ensemble, export_store, import_store, verify_store
from seedscope.storage.markers import read_marker
from tests.helpers.small_data import table
from tests.torture.forked import Ended, attempt

SMALL, LARGE = Grid(seeds=9, neighbours=1), Grid(seeds=12, neighbours=2)  # cut into chunks of the same shape
DATA, MECHANISM = table(), ObjectivePerturbation(epsilon=1.0)


def digest(ensemble: Ensemble) -> str:
    """Return a checksum of everything that is read of an ensemble: records, coordinates, types, axes."""
    found = hashlib.sha256()
    for name, one in sorted(ensemble.dataset.variables.items(), key=lambda pair: str(pair[0])):
        found.update(repr((name, one.dims, one.dtype.kind, one.shape)).encode())
        found.update(one.values.tobytes() if one.dtype.kind in "biuf" else repr(one.values.tolist()).encode())
    found.update(ensemble.dataset["scores"].sel(neighbour=-1).values.tobytes())
    return found.hexdigest()


def trained(store: Path, grid: Grid = LARGE, **options: Any) -> str:
    """Run the training, and return the checksum of what it gives."""
    return digest(train(DATA, MECHANISM, grid=grid, store=store, jobs=1, **options))


def opened(store: Path) -> str:
    """Open the ensemble and read all of it."""
    return digest(Ensemble.open(store))


def exported(store: Path) -> str:
    """Hand the store over as a file, and return what comes out of it."""
    with tempfile.TemporaryDirectory(dir=store.parent) as folder:
        export_store(store, Path(folder) / "a.zip")
        import_store(Path(folder) / "a.zip", Path(folder) / "again")
        return opened(Path(folder) / "again")


def verified(store: Path) -> bool:
    """Say whether everything in the store is what was written, and nothing is missing."""
    return verify_store(store).finished


def finished(store: Path, examples: int = 0) -> set[str]:
    """Return the chunks that have a marker, of a grid with at least this many probe examples."""
    found = (store / "done").glob("*.json") if (store / "done").is_dir() else ()
    markers = {one.name: read_marker(one) for one in found}
    return {name for name, one in markers.items() if one is not None and one.filled.examples >= examples}


class Workshop:
    """A folder for stores, undisturbed stores of both grids to copy, and what they hold."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        self.whole = {"small": folder / "small", "large": folder / "large"}
        _preload(folder / "first")
        self.small = _must(attempt(lambda: trained(self.whole["small"], SMALL)))
        shutil.copytree(self.whole["small"], self.whole["large"])
        self.large = _must(attempt(lambda: trained(self.whole["large"], LARGE)))
        marker = read_marker(next((self.whole["large"] / "done").iterdir()))
        assert marker is not None
        self.examples = marker.filled.examples  # of the large grid

    def new(self) -> Path:
        """Return a place for a store."""
        self.number += 1
        return self.folder / f"store-{self.number}"

    def copy(self, which: str = "large") -> Path:
        """Return a copy of an undisturbed store."""
        return shutil.copytree(self.whole[which], self.new())


def _preload(store: Path) -> None:
    """Import what a process imports that does all that is done here, so that those forked later need not."""
    did = attempt(lambda: (trained(store), exported(store), verified(store), sorted(sys.modules))[-1])
    for name in did.value if did.how == "done" else ():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    environment()


def _must(ended: Ended) -> str:
    """Return the value of work that has to be done."""
    if ended.how != "done":
        raise SystemExit(f"the undisturbed training failed: {ended}")
    return str(ended.value)
