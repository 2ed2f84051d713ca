"""A table file as a data frame: separated text, Parquet, a spreadsheet, also compressed; or a sentence why not."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seedscope.core import SeedscopeError, in_bytes, require, unknown_name
from seedscope.datasets.columns import Column, shown
from seedscope.datasets.separated import as_utf_8, parsed
from seedscope.datasets.understanding import empty_cells, understand
from seedscope.datasets.unpacking import ZIP, most_bytes, require_memory, unpacked

if TYPE_CHECKING:
    import pandas as pd

CELLS_OF_TEXT = 12  # bytes of memory that a byte of a text table takes while it is read, as measured
DENSEST_PARQUET = 1000  # times its size: equal cells take next to nothing there
_FOREIGN_STARTS = {
    b"%PDF": "a PDF document",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"7z\xbc\xaf": "a 7z archive",
    b"SQLite format 3": "a database",
    b"$FL2": "an SPSS file",
}


@dataclass(frozen=True)
class FileOptions:
    """What the owner of a file says about it; None: it is told from the file."""

    separator: str | None = None
    encoding: str | None = None
    sheet: str | None = None


@dataclass(frozen=True, eq=False)
class TableFile:
    """A file's table, a line that says where it came from, and sentences about how it was read."""

    frame: pd.DataFrame
    source: str
    sentences: tuple[str, ...] = ()


def read_file(path: str | Path, options: FileOptions) -> TableFile:
    """Return the table of a file of separated text, of Parquet, or of a spreadsheet; each may be compressed.

    The file is read once, so a pipe works too.
    """
    path = Path(path)
    content = _content(path)
    source = f"{path.name}, SHA-256 {hashlib.sha256(content).hexdigest()}"
    frame, said = _table(_file(path), unpacked(_file(path), content), options)
    frame.columns = [str(name).strip() for name in frame.columns]
    frame = _named(_without_empty_edges(frame))
    _require_good_names(_file(path), list(frame.columns))
    require(len(frame) > 0, f"{_file(path)} has a header but no rows.")
    return TableFile(frame, source, tuple(said))


def read_frame(path: str | Path) -> tuple[pd.DataFrame, str]:
    """Return the table of a file with a type for each column, and a line that says where it came from.

    Columns of numbers are numbers (whole ones integers), true/false is boolean, anything else text; empty cells are
    missing values.
    """
    table = read_file(path, FileOptions())
    return table.frame.apply(lambda cells: typed(cells, understand(cells)), axis=0), table.source


def typed(cells: pd.Series, read: Column, words: Sequence[str] = ()) -> pd.Series:
    """Return a column's cells with the type of what it was read as; numbers among words stay texts, as they stand."""
    import pandas as pd

    if read.kind == "numbers" and read.problem is None:
        numbers = np.append(read.values, np.nan)[read.codes]
        whole = not read.missing and bool(np.all(np.abs(numbers) < 2**53)) and not np.any(numbers % 1)
        return pd.Series(numbers.astype(np.int64) if whole else numbers, index=cells.index)
    if read.kind == "true/false" and not read.missing:
        return pd.Series(read.values[read.codes] == 1, index=cells.index)
    texts = cells.astype(str) if cells.dtype == "category" else cells
    return texts.mask(without_value(cells, read, words), None)


def without_value(cells: pd.Series, read: Column, words: Sequence[str] = ()) -> np.ndarray:
    """Return which cells of a column are empty; in one with a problem only those that say nothing as texts."""
    empty: np.ndarray = read.codes < 0 if read.problem is None else empty_cells(cells, words)
    return empty


def _table(file: str, content: bytes, options: FileOptions) -> tuple[pd.DataFrame, list[str]]:
    """Return the table in uncompressed content, and sentences about how it was read."""
    if content.startswith(b"PAR1"):
        return _parquet(file, content), []
    if content.startswith((ZIP, b"\xd0\xcf\x11\xe0")):
        return _spreadsheet(file, content, options.sheet)
    for start, kind in _FOREIGN_STARTS.items():
        require(not content.startswith(start), f"{file} is {kind}, not a table; save it as CSV.")
    require(options.sheet is None, f"{file} is not a spreadsheet, so that it has no sheets.", argument="sheet")
    require_memory(file, CELLS_OF_TEXT * len(content))
    content, said = as_utf_8(file, content, options.encoding)
    frame, more = parsed(file, content, options.separator)
    return frame, said + more


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


def _parquet(file: str, content: bytes) -> pd.DataFrame:
    """Return the table of a Parquet file."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise SeedscopeError(
            f"{file} is a Parquet file, which needs the parquet extra: pip install 'seedscope[parquet]'."
        ) from None
    try:
        return _parquet_frame(file, content)
    except SeedscopeError:
        raise
    except Exception as error:  # pyarrow's own errors have no common base
        raise SeedscopeError(f"{file} is not a readable Parquet file: {_reason(error)}.") from None


def _parquet_frame(file: str, content: bytes) -> pd.DataFrame:
    """Return the table of a Parquet file, after what it says of its size; each text is held once, however often it is.

    A few bytes can stand for a billion equal rows.
    """
    from pyarrow import parquet, types

    opened = parquet.ParquetFile(io.BytesIO(content))
    known, groups = opened.metadata, range(opened.metadata.num_row_groups)
    size = max(8 * known.num_rows * known.num_columns, sum(known.row_group(k).total_byte_size for k in groups))
    require(
        size <= most_bytes(len(content), DENSEST_PARQUET),
        f"{file} holds {in_bytes(size)}, which does not fit; leave rows or columns out.",
    )
    texts = [field.name for field in opened.schema_arrow if types.is_string(field.type) or types.is_binary(field.type)]
    table = parquet.read_table(io.BytesIO(content), read_dictionary=texts)
    frame: pd.DataFrame = table.to_pandas(strings_to_categorical=False).reset_index(drop=True)
    return frame.astype(dict.fromkeys([name for name in texts if name in frame], object))


def _spreadsheet(file: str, content: bytes, sheet: str | None) -> tuple[pd.DataFrame, list[str]]:
    """Return a sheet of a spreadsheet, the first unless one is named, and a sentence where there are others."""
    try:
        import python_calamine  # noqa: F401
    except ImportError:
        raise SeedscopeError(
            f"{file} is a spreadsheet, which needs the excel extra: pip install 'seedscope[excel]'; or save it as CSV."
        ) from None
    import pandas as pd

    try:
        book = pd.ExcelFile(io.BytesIO(content), engine="calamine")
        names = [str(name) for name in book.sheet_names]
        if sheet is not None and sheet not in names:
            raise unknown_name("sheet", sheet, names)
        chosen = sheet or names[0]
        frame = pd.read_excel(book, sheet_name=chosen, dtype=object, keep_default_na=False, na_values=[""])
    except SeedscopeError:
        raise
    except Exception as error:  # calamine's own errors have no common base
        raise SeedscopeError(f"{file} is not a readable spreadsheet: {_reason(error)}; save it as CSV.") from None
    unread = [repr(name) for name in names if name != chosen]
    said = [f"The sheet {chosen!r} is read, not {', '.join(unread[:5])}."] if unread and sheet is None else []
    frame.columns = ["" if str(name).startswith("Unnamed: ") else name for name in frame.columns]
    return frame, said


def _without_empty_edges(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table without columns that have neither a name nor a value, and without blank rows."""
    blank = frame.isna() | (frame == "")
    named = [str(name) != "" for name in frame.columns]
    kept = [place for place, name in enumerate(named) if name or not blank.iloc[:, place].all()]
    rows = ~blank.all(axis=1)
    return frame.iloc[:, kept] if rows.all() else frame.loc[rows].iloc[:, kept].reset_index(drop=True)


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a name for columns that have none, such as a column of row numbers."""
    frame.columns = [str(name) or f"column {place}" for place, name in enumerate(frame.columns, start=1)]
    return frame


def _require_good_names(file: str, names: list[str]) -> None:
    """Raise unless there are several columns, and every one has a name of its own."""
    require(
        len(names) > 1,
        f"{file} has one column only; if its cells are separated by another mark, name that one.",
        "separator",
    )
    doubles = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
    several = ", ".join(shown(name) for name in doubles[:5])
    require(not doubles, f"{file} has more than one column named {several}; give each a name of its own.")


def _file(path: Path) -> str:
    """Return the file's name for a sentence."""
    text = str(path)
    return "file " + repr(text if len(text) <= 200 else "…" + text[-199:])


def _reason(error: Exception) -> str:
    """Return the first line of an error's text, shortened."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.strip().splitlines()[0].rstrip(".")[:160]
