"""A table file as a data frame: CSV (also gzipped) and Parquet, or a sentence that says why it cannot be read."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from seedscope.datasets.columns import shown
from seedscope.errors import SeedscopeError, require

if TYPE_CHECKING:
    import pandas as pd

EMPTY_CELLS = ("", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "null", "NULL")
_FOREIGN_STARTS = {
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"\xd0\xcf\x11\xe0": "a spreadsheet",
    b"%PDF": "a PDF document",
}


def read_frame(path: str | Path) -> tuple[pd.DataFrame, str]:
    """Return the table of a CSV or Parquet file, and a line that says where it came from.

    The file is read once, so a pipe works too.
    """
    path = Path(path)
    content = _content(path)
    source = f"{path.name}, SHA-256 {hashlib.sha256(content).hexdigest()}"
    if content.startswith(b"\x1f\x8b"):
        content = _unzipped(path, content)
    frame = _parquet(path, content) if content.startswith(b"PAR1") else _csv(path, content)
    frame.columns = [str(name) for name in frame.columns]
    _require_good_names(path, list(frame.columns))
    require(len(frame) > 0, f"{_file(path)} has a header but no rows.")
    return frame, source


def _content(path: Path) -> bytes:
    """Return the file's bytes."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise SeedscopeError(f"{_file(path)} does not exist.") from None
    except IsADirectoryError:
        raise SeedscopeError(f"{_file(path)} is a folder; name the table inside it.") from None
    except (OSError, ValueError) as error:
        raise SeedscopeError(f"{_file(path)} cannot be read: {_reason(error)}.") from None
    require(len(content.strip()) > 0, f"{_file(path)} is empty.")
    return content


def _unzipped(path: Path, content: bytes) -> bytes:
    """Return the content of a gzipped file."""
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        raise SeedscopeError(f"{_file(path)} is a damaged gzip file.") from None


def _parquet(path: Path, content: bytes) -> pd.DataFrame:
    """Return the table of a Parquet file."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise SeedscopeError(
            f"{_file(path)} is a Parquet file, which needs the parquet extra: pip install 'seedscope[parquet]'."
        ) from None
    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(content), engine="pyarrow").reset_index(drop=True)
    except Exception as error:  # pyarrow's own errors have no common base
        raise SeedscopeError(f"{_file(path)} is not a readable Parquet file: {_reason(error)}.") from None


def _csv(path: Path, content: bytes) -> pd.DataFrame:
    """Return the table of a CSV file in UTF-8, separated by commas."""
    import pandas as pd

    _require_text(path, content)
    header = _parsed(path, content, header=None, nrows=1, dtype=str, keep_default_na=False)
    names = [str(name).strip() for name in header.iloc[0]]
    _require_good_names(path, names)
    frame = _parsed(path, content, keep_default_na=False, na_values=list(EMPTY_CELLS), low_memory=False)
    require(len(frame.columns) == len(names), f"{_file(path)} has rows with more cells than its header has names.")
    frame.columns = pd.Index(names)
    return frame


def _parsed(path: Path, content: bytes, **options: object) -> pd.DataFrame:
    """Return what pandas reads, its complaints turned into sentences."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(io.BytesIO(content), index_col=False, skipinitialspace=True, **options)
        except pd.errors.ParserWarning:
            raise SeedscopeError(f"{_file(path)} has rows with more cells than its header has names.") from None
        except pd.errors.EmptyDataError:
            raise SeedscopeError(f"{_file(path)} is empty.") from None
        except (pd.errors.ParserError, ValueError) as error:
            raise SeedscopeError(f"{_file(path)} is not a table: {_parser_complaint(error)}.") from None


def _parser_complaint(error: Exception) -> str:
    """Return in words what the CSV parser found."""
    cells = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if cells:
        return "line {1} has {2} cells where {0} were expected".format(*cells.groups())
    quote = re.search(r"EOF inside string starting at row (\d+)", str(error))
    return f"a quotation mark near line {int(quote[1]) + 1} is never closed" if quote else _reason(error)


def _require_text(path: Path, content: bytes) -> None:
    """Raise unless the content is UTF-8 text."""
    for start, kind in _FOREIGN_STARTS.items():
        require(not content.startswith(start), f"{_file(path)} is {kind}, not a table; save it as CSV in UTF-8.")
    require(b"\0" not in content, f"{_file(path)} is a binary file, not a table.")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SeedscopeError(
            f"{_file(path)} is not UTF-8 text (byte {content[error.start]:#04x} in line {line}); save it as UTF-8."
        ) from None


def _require_good_names(path: Path, names: list[str]) -> None:
    """Raise unless every column has a name of its own."""
    if len(names) == 1:
        separator = next((mark for mark in ";\t|" if mark in names[0]), None)
        remedy = f"; is it separated by {separator!r}? Save it with commas" if separator else ""
        raise SeedscopeError(f"{_file(path)} has one column only{remedy}.")
    for place, name in enumerate(names):
        require(
            name != "",
            f"column {place + 1} of {_file(path)} has no name; name it (a row number may serve as --id) or remove it.",
        )
    doubles = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
    require(not doubles, f"{_file(path)} has more than one column named {shown(doubles[0]) if doubles else ''}.")


def _file(path: Path) -> str:
    """Return the file's name for a sentence."""
    text = str(path)
    return "file " + repr(text if len(text) <= 200 else "…" + text[-199:])


def _reason(error: Exception) -> str:
    """Return the first line of an error's text, shortened."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.strip().splitlines()[0].rstrip(".")[:160]
