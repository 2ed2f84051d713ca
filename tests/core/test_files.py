"""Files are whole or absent, several of them together, also where folders cannot be brought to the disk."""

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from seedscope.core import cache_folder, files, synchronise, write_durably, write_together
from seedscope.execution.worker import compilation_cache


@pytest.mark.parametrize(("content", "expected"), [("ε\n", b"\xce\xb5\n"), (b"\r\n\x00", b"\r\n\x00")])
def test_texts_are_written_as_utf_8_and_bytes_as_they_are(
    tmp_path: Path, content: str | bytes, expected: bytes
) -> None:
    write_durably(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == expected
    assert os.listdir(tmp_path) == ["file"]


def full(*_: object) -> NoReturn:
    """Stand for a disk without space."""
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_cannot_be_completed_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_durably(tmp_path / "a", "first")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_durably(tmp_path / "a", "second")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a", "first")]


def test_of_files_written_together_none_appears_before_all_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []

    def second_is_full(descriptor: int) -> None:
        done.append(descriptor)
        if len(done) == 2:
            full()

    monkeypatch.setattr(os, "fsync", second_is_full)
    with pytest.raises(OSError, match="No space"):
        write_together(tmp_path, {"a": "1", "b": "2"})
    assert os.listdir(tmp_path) == []
    assert write_together(tmp_path, {"a": "1", "b": "2"}) == [tmp_path / "a", tmp_path / "b"]


def test_on_windows_files_are_brought_to_the_disk_and_folders_are_left_to_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, real = [], os.open

    def as_windows(path: str, flags: int, *rest: Any) -> int:
        if Path(path).is_dir() or not flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        opened.append(Path(path))
        return real(path, flags, *rest)

    (tmp_path / "file").touch()
    monkeypatch.setattr(files, "WINDOWS", True)
    monkeypatch.setattr(os, "open", as_windows)
    synchronise(tmp_path / "file")
    synchronise(tmp_path)
    assert opened == [tmp_path / "file"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SEEDSCOPE_CACHE": "/elsewhere"}, "/elsewhere"),
        ({"SEEDSCOPE_CACHE": "", "XDG_CACHE_HOME": "/caches"}, "/caches/seedscope"),
        ({"SEEDSCOPE_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/home/somebody"}, "/home/somebody/.cache/seedscope"),
    ],
)
@pytest.mark.skipif("sys.platform != 'linux'", reason="other systems have other places")
def test_there_is_one_cache_for_downloads_and_what_is_compiled(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)
    assert compilation_cache() == Path(expected) / "compiled"
