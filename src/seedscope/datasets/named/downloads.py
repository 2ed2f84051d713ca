"""Where data files are: the folder `SEEDSCOPE_DATA`, then the cache, then a download that fills the cache.

A file appears in the cache by a rename, complete and checked, or not at all.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.core import SeedscopeError, cache_folder, require, write_durably
from seedscope.datasets.named.originals import Original, Recipe

_PATIENCE = 30.0  # seconds without an answer


def data_folder() -> Path | None:
    """Return the folder that SEEDSCOPE_DATA names, or None if it is not set."""
    name = os.environ.get("SEEDSCOPE_DATA")
    if not name:
        return None
    require(Path(name).is_dir(), f"SEEDSCOPE_DATA must name a folder, got {name!r}; correct or unset it.")
    return Path(name)


def find(file: str) -> Path | None:
    """Return where the compact or original file is now, or None if it is in neither folder."""
    folders = [folder for folder in (data_folder(), cache_folder()) if folder is not None]
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def obtain(recipe: Recipe, file: str, force: bool = False) -> Path:
    """Return the path of a compact file: where it is already, or made from its originals.

    Originals that somebody placed by hand in either folder are used before anything is downloaded.
    """
    present = None if force else find(file)
    if present is not None:
        return present
    with _scratch(cache_folder()) as scratch:
        members: dict[str, bytes] = {}
        for original in recipe.originals:
            members |= _members(original, scratch, force)
        for name, content in recipe.convert(members).items():
            _place(cache_folder() / name, content)
    return cache_folder() / file


def _members(original: Original, scratch: Path, force: bool) -> dict[str, bytes]:
    """Return the checked members of an original that was placed by hand, or else is downloaded."""
    placed = None if force else find(original.file)
    try:
        if placed is None:
            _download(original.url, scratch / original.file)
        return original.read(placed or scratch / original.file)
    except SeedscopeError as error:
        what = f"the file {str(placed)!r} is of no use" if placed else f"the download from {original.url} failed"
        raise SeedscopeError(f"{what}: {str(error).rstrip('.')}. {_by_hand(original)}") from None


def _by_hand(original: Original) -> str:
    """Return the sentence that says how to do without the download."""
    members = " and ".join(member.identity for member in original.members)
    folder = str(cache_folder())
    return f"Get {original.file} by hand, with {members} inside, put it into the folder {folder!r} and try again."


def _download(url: str, path: Path) -> None:
    """Write what is at the address to the path, with a progress bar."""
    import requests
    from pooch import HTTPDownloader

    with _progress(path.name) as bar:
        try:
            HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=_PATIENCE)(url, str(path), None)
        except requests.RequestException as error:
            raise SeedscopeError(_network_reason(error)) from None
        except OSError as error:
            raise _cannot_write(path.parent.parent, error) from None


def _network_reason(error: Any) -> str:
    """Return in a few words why a download ended."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return "the server did not answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke off"
    return "no connection" if isinstance(error, requests.ConnectionError) else type(error).__name__


class _Bar:
    """What pooch expects of a progress bar, shown by rich."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    @property
    def total(self) -> int:
        """The size of the download, in bytes."""
        return int(self._progress.tasks[0].total or 0)

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size or None)

    def update(self, size: int) -> None:
        """Count bytes that have arrived."""
        self._progress.update(self._task, advance=size)

    def reset(self) -> None:
        """Start again from 0."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Nothing is left to do: the bar ends with its context."""


@contextmanager
def _progress(name: str) -> Iterator[_Bar]:
    """Yield a progress bar on the error stream; it shows only where a person is watching."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Bar(progress, progress.add_task(name, total=None))


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Yield a new folder inside the given one (so that a rename is possible); it is removed whatever happens."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-")
    except OSError as error:
        raise _cannot_write(folder, error) from None
    with scratch as name:
        yield Path(name)


def _place(path: Path, content: bytes) -> None:
    """Write the content under its final name, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, content)
    except OSError as error:
        raise _cannot_write(path.parent, error) from None


def _cannot_write(folder: Path, error: OSError) -> SeedscopeError:
    """Return the error for a folder that takes no files."""
    return SeedscopeError(
        f"cannot write to the cache {str(folder)!r}: {error.strerror or error}; name another with SEEDSCOPE_CACHE."
    )


def read_arrays(path: Path, *names: str) -> tuple[np.ndarray, ...]:
    """Return the named arrays of an .npz file; pickled content is refused."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return tuple(arrays[name] for name in names)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception | str) -> SeedscopeError:
    """Return the error for a data file that does not hold what it should."""
    reason = str(error).strip().splitlines()[0].rstrip(".")[:160] if str(error).strip() else type(error).__name__
    return SeedscopeError(f"data file {str(path)!r} is damaged ({reason}); remove it and fetch it again.")
