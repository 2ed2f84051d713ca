"""Text files of rows and separators, as programs of every country write them: encoding, separator, lines above it all.

What the file does not say is told from its first lines; each guess is a sentence, and an argument overrides it.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from seedscope.core import SeedscopeError, require

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_MARKS = {  # the longer mark first: UTF-32's begins like UTF-16's
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_BEGINNING = 1_000_000  # bytes, of which it is told how the text is laid out
_ROWS_AT_ONCE = 1 << 18  # what lies between a text and its table takes much more memory than either
_SAMPLE = 200  # lines from which the separator is told
_DECLARED = re.compile(r"\s*\"?sep=(.)\"?[ \t]*(\r\n|\n|\r)")  # by a first line


@dataclass(frozen=True)
class Layout:
    """How a text is laid out: its separator and how many lines stand above the header."""

    separator: str
    skipped: int = 0


def as_utf_8(file: str, content: bytes, encoding: str | None = None) -> tuple[bytes, list[str]]:
    """Return the text of a file as UTF-8, and a sentence where that is not its encoding.

    >>> content, said = as_utf_8("it", "größe".encode("latin-1"))
    >>> content.decode(), said
    ('größe', ['The file is read as Windows-1252 (Latin-1) text: it is not UTF-8.'])
    """
    if encoding is not None:
        return _encoded(_decoded_as(file, content, encoding)), [f"The file is read as {encoding} text, as asked."]
    marked = next((name for mark, name in _MARKS.items() if content.startswith(mark)), None)
    marked = marked or _unmarked_utf_16(content)
    if marked:
        said = [f"The file is read as {marked.upper()} text."] if marked != "utf-8-sig" else []
        return _encoded(_decoded_as(file, content, marked)), said
    require(b"\0" not in content, f"{file} is a binary file, not a table.")
    try:
        content.decode("utf-8")
        return content, []
    except UnicodeDecodeError:
        return _encoded(_western(content)), ["The file is read as Windows-1252 (Latin-1) text: it is not UTF-8."]


def parsed(file: str, content: bytes, separator: str | None = None) -> tuple[pd.DataFrame, list[str]]:
    """Return the table of a text in UTF-8, and sentences about how it is laid out.

    Every cell is a text; each column is categorical, so that equal cells are one text in memory.
    """
    declared = _DECLARED.match(_beginning(content))
    if declared is not None:
        content, separator = content[len(declared[0].encode()) :], separator or declared[1]
    require(_beginning(content).strip() or content.strip(), f"{file} is empty.")
    layout = _layout(_beginning(content), len(content) <= _BEGINNING, separator)
    frame = _frame(file, content, layout)
    said = [f"Cells are separated by {SEPARATORS.get(layout.separator, repr(layout.separator))}."]
    above = (
        f"The first {layout.skipped} lines are above the header"
        if layout.skipped > 1
        else "The first line is above the header"
    )
    return frame, (said if layout.separator != "," else []) + ([f"{above} and were skipped."] if layout.skipped else [])


def _beginning(content: bytes) -> str:
    """Return the first part of a text; a letter that is cut off is left out."""
    return content[:_BEGINNING].decode("utf-8", "ignore")


def _layout(text: str, whole: bool, separator: str | None) -> Layout:
    """Return the separator that splits most lines of a text's beginning alike, and the lines above the header."""
    lines = _first_lines(text, whole)
    sample = lines[:_SAMPLE] if '"' not in text[:100_000] else None
    tries = [_tried(text, lines, sample, candidate) for candidate in ([separator] if separator else SEPARATORS)]
    # A header is split by the separator and not by decimal commas, for which it would be a line above the table.
    return max(tries, key=lambda attempt: (attempt[0], -attempt[2].skipped, attempt[1]))[2]


def _first_lines(text: str, whole: bool) -> list[str]:
    """Return the lines of a text's beginning; the last one is left out where it may be cut off."""
    lines = text.splitlines()
    return lines if whole or len(lines) == 1 else lines[:-1]


def _tried(text: str, lines: list[str], sample: list[str] | None, separator: str) -> tuple[float, int, Layout]:
    """Return which share of lines a separator splits alike, into how many cells, and the layout that follows."""
    rows = _sample(text, sample, separator)
    widths = [len(row) for row in rows]
    usual = max(set(widths), key=lambda width: (widths.count(width), width)) if widths else 1
    first = next((place for place, row in enumerate(rows) if sum(cell.strip() != "" for cell in row) > 1), 0)
    alike = sum(width == usual for width in widths[first:]) / max(1, len(widths) - first)
    return (alike if usual > 1 else 0.0), usual, Layout(separator, _lines_above(lines, first) if usual > 1 else 0)


def _sample(text: str, lines: list[str] | None, separator: str) -> list[list[str]]:
    """Return the first rows that are not blank, split."""
    source = lines if lines is not None else io.StringIO(text[:500_000], newline="")
    try:
        rows = list(islice(csv.reader(source, delimiter=separator, skipinitialspace=True), _SAMPLE))
    except csv.Error:
        return []
    return [row for row in rows if any(cell.strip() for cell in row)]


def _lines_above(lines: list[str], rows: int) -> int:
    """Return how many lines the first rows, this many, that are not blank take."""
    seen = 0
    for place, line in enumerate(lines):
        if seen == rows:
            return place
        seen += bool(line.strip(' \t,;|"'))
    return 0


def _frame(file: str, content: bytes, layout: Layout) -> pd.DataFrame:
    """Return what pandas reads, all cells as texts, its complaints turned into sentences."""
    import pandas as pd

    too_long = f"{file} has rows with more cells than its header has names."
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            pieces = pd.read_csv(
                io.BytesIO(content), encoding="utf-8", header=None, index_col=False, skipinitialspace=True,
                dtype=object, sep=layout.separator, skiprows=layout.skipped, keep_default_na=False, na_filter=False,
                engine="c", low_memory=False, chunksize=_ROWS_AT_ONCE,
            )  # fmt: skip
            return _together(pieces)
        except pd.errors.ParserWarning:
            raise SeedscopeError(too_long) from None
        except pd.errors.EmptyDataError:
            raise SeedscopeError(f"{file} is empty.") from None
        except (pd.errors.ParserError, ValueError) as error:
            raise SeedscopeError(f"{file} is not a table: {_complaint(error, layout.skipped)}.") from None


def _together(pieces: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return one table of a text's pieces, whose first row has the names."""
    import pandas as pd

    names: list[str] = []
    columns: list[_Cells] = []
    for piece in pieces:
        if not columns:
            names = [str(name).strip() for name in piece.iloc[0]]
            columns = [_Cells() for _ in names]
            piece = piece.iloc[1:]
        for place, cells in enumerate(columns):
            cells.add(piece.iloc[:, place].to_numpy())
    frame = pd.concat([cells.column() for cells in columns], axis=1)
    frame.columns = pd.Index(names)
    return frame


@dataclass
class _Cells:
    """A column that is put together: each different text once, and each row's place among them."""

    places: dict[str, int] = field(default_factory=dict)
    codes: list[np.ndarray] = field(default_factory=list)

    def add(self, cells: np.ndarray) -> None:
        """Add a piece's cells."""
        import pandas as pd

        codes, texts = pd.factorize(cells)
        place = [self.places.setdefault(text, len(self.places)) for text in texts.tolist()]
        self.codes.append(np.array([*place, -1], np.int32)[codes])

    def column(self) -> pd.Series:
        """Return the whole column."""
        import pandas as pd

        texts = pd.Index(list(self.places), dtype=object)
        return pd.Series(pd.Categorical.from_codes(np.concatenate(self.codes), texts))


def _complaint(error: Exception, skipped: int) -> str:
    """Return in words what the parser found."""
    cells = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if cells:
        return f"line {cells[2]} has {cells[3]} cells where {cells[1]} were expected"
    quote = re.search(r"EOF inside string starting at row (\d+)", str(error))
    if quote:
        return f"a quotation mark near line {int(quote[1]) + 1 + skipped} is never closed"
    return str(error).strip().splitlines()[0].rstrip(".")[:160]


def _encoded(text: str) -> bytes:
    """Return a text as UTF-8; half letters, which some encodings have, are then refused where they are read."""
    return text.encode("utf-8", "surrogatepass")


def _decoded_as(file: str, content: bytes, encoding: str) -> str:
    """Return the text in a given encoding."""
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise SeedscopeError(f"encoding must be one that Python knows, such as 'latin-1', got {encoding!r}.") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SeedscopeError(
            f"{file} is not {encoding} text (byte {content[error.start]:#04x} in line {line})."
        ) from None


def _unmarked_utf_16(content: bytes) -> str | None:
    """Return which UTF-16 a file is that has no mark: every other byte of its beginning is 0."""
    start = content[:1000]
    for name, zeros, letters in (("utf-16-le", start[1::2], start[::2]), ("utf-16-be", start[::2], start[1::2])):
        if len(zeros) > 4 and zeros.count(0) > 0.7 * len(zeros) and letters.count(0) == 0:
            return name
    return None


def _western(content: bytes) -> str:
    """Return text of Western Europe's single-byte encodings."""
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:
        return content.decode("latin-1")
