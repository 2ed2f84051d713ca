"""What the cells of a column mean: numbers in many spellings, dates, pairs, true/false, codes, words, empty cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seedscope.core import SeedscopeError
from seedscope.datasets import cells
from seedscope.datasets.columns import TIMES, Column, number_name, shown
from seedscope.datasets.reading import Problem

if TYPE_CHECKING:
    import pandas as pd

_MOST_SPELLINGS = 64  # of true and false; a column of more texts says something else

Forced = Literal["numeric", "category", "levels"]  # numbers; words; words of which each stands for itself
PLURAL = {"numbers": "numbers", "dates": "dates", "pairs": "pairs of numbers"}


def understand(
    column: pd.Series, forced: Forced | None = None, decimal: str | None = None, words: Sequence[str] = ()
) -> Column:
    """Return what a column holds; what keeps it from being used is its `problem`.

    Args:
        column: its cells, as texts or as pandas typed them.
        forced: read it as numbers, or as words, whatever it looks like.
        decimal: "." or ","; None tries both.
        words: further words for a missing value.

    >>> import pandas as pd
    >>> pressure = understand(pd.Series(["120/80", "135/85", "110/70"], name="pressure"))
    >>> pressure.kind, pressure.values.tolist()
    ('pairs of numbers', [[110.0, 70.0], [120.0, 80.0], [135.0, 85.0]])
    """
    from pandas.api.types import is_datetime64_any_dtype, is_timedelta64_dtype

    if is_datetime64_any_dtype(column.dtype) or is_timedelta64_dtype(column.dtype):
        return _from_days(str(column.name), _typed_days(column))
    codes, values = factorised(column)
    typed = all(isinstance(value, int | float | np.number | np.bool_) for value in values)
    if typed and forced not in ("category", "levels"):
        truth = all(isinstance(value, bool | np.bool_) for value in values)
        kind = "true/false" if truth and len(values) else "numbers"
        numbers = values.astype(np.float64)
        numbers[_typed_as_empty(values, words)] = np.nan
        return _numeric(str(column.name), kind, codes, numbers)
    return _from_texts(column, *_as_texts(codes, values, words), forced, decimal)


def read_alone(cells_of: pd.Series, column: Column, decimal: str) -> bool:
    """Say whether each number is what its own cell says with that decimal mark, whatever other rows have.

    >>> import pandas as pd
    >>> plain, sniffed = pd.Series(["1.234", "2"]), pd.Series(["1.234", "2,5"])
    >>> [read_alone(one, understand(one), ".") for one in (plain, sniffed)]
    [True, False]
    """
    codes, values = factorised(cells_of)
    if column.values.ndim > 1 or not all(
        isinstance(value, str | int | float | np.number | np.bool_) for value in values
    ):
        return False
    said = np.array([*(not _says_no_number(value) for value in values), False])[codes] & (column.codes >= 0)
    alone = np.array([*(_alone(value, decimal) for value in values), np.nan])[codes]
    return bool(np.array_equal(alone[said], column.values[column.codes[said]]))


def _says_no_number(cell: Any) -> bool:
    """Whether a cell is empty where numbers are expected; what it is filled with is then somebody's to say."""
    text = str(cell)
    return cells.is_empty(text) or text.strip().lower() in cells.EMPTY_AMONG_NUMBERS


def _alone(cell: Any, decimal: str) -> float:
    """Return a cell's number, NaN if it is not written as one."""
    return cells.number(cell.strip(), decimal) if isinstance(cell, str) else float(cell)


def empty_cells(column: pd.Series, words: Sequence[str] = ()) -> np.ndarray:
    """Return which cells of a column say nothing, taken as texts."""
    codes, values = factorised(column)
    longest = cells.longest_empty(words)
    plain = values.tolist()
    if set(map(type, plain)) == {str}:
        short = np.fromiter(map(len, map(str.strip, plain)), np.int64, len(plain)) <= longest
    else:
        short = np.array([isinstance(value, str) for value in plain], bool)
    empty: np.ndarray = np.zeros(len(values) + 1, bool)
    for place in np.flatnonzero(short):
        empty[place] = cells.is_empty(values[place], words)
    empty[:-1] |= _typed_as_empty(values, words)
    empty[-1] = True
    missing: np.ndarray = empty[codes]
    return missing


def _typed_as_empty(values: np.ndarray, words: Sequence[str]) -> np.ndarray:
    """Return which cells that are typed as numbers were given as words for a missing value."""
    given = {word.strip() for word in words}
    numbers = (isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)
    if not given:
        return np.zeros(len(values), bool)
    matches = [number and number_name(value) in given for number, value in zip(numbers, values, strict=True)]
    return np.array(matches, bool)


def factorised(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's place among the different cells (−1: empty), and these cells."""
    import pandas as pd
    from pandas.api.types import is_complex_dtype

    if is_complex_dtype(column.dtype):
        raise _unknown_type(column)
    try:
        codes, uniques = _categories(column) if column.dtype == "category" else pd.factorize(column)
    except TypeError:
        raise _unknown_type(column) from None
    values = np.asarray(uniques, dtype=object)
    if not all(issubclass(kind, _known_types()) for kind in set(map(type, values.tolist()))):
        raise _unknown_type(column)
    return codes, values


def _categories(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return a categorical column's places and categories, without those that no row has."""
    codes, values = column.cat.codes.to_numpy(), column.cat.categories.to_numpy(dtype=object)
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(values)))
    if len(used) == len(values):
        return codes, values
    place = np.full(len(values) + 1, -1, np.int32)
    place[used] = np.arange(len(used))
    return place[codes], values[used]


def _known_types() -> tuple[type, ...]:
    """Return the types of cells: numbers, texts, truth values and dates."""
    import datetime

    return (str, int, float, np.number, np.bool_, datetime.date, datetime.time)


def _text(value: Any) -> str:
    """Return a cell as text, as a person would have typed it."""
    import datetime

    if isinstance(value, float | np.floating):
        return number_name(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    return str(value).strip()


def texts_of(values: np.ndarray) -> list[str]:
    """Return cells as texts; plain texts, which a large table has millions of, need only be stripped."""
    plain = values.tolist()
    return list(map(str.strip, plain)) if set(map(type, plain)) == {str} else [_text(value) for value in values]


def _as_texts(codes: np.ndarray, values: np.ndarray, words: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return each row's place (−1: none) among the different texts, and these, empty ones left out."""
    texts, longest = texts_of(values), cells.longest_empty(words)
    distinct = sorted({text for text in texts if len(text) > longest or not cells.is_empty(text, words)})
    place = {text: index for index, text in enumerate(distinct)}
    return np.array([*(place.get(text, -1) for text in texts), -1], np.int32)[codes], distinct


def _from_texts(
    column: pd.Series, codes: np.ndarray, texts: list[str], forced: Forced | None, decimal: str | None
) -> Column:
    """Return what a column of texts holds."""
    name = str(column.name)
    folded = {text.lower() for text in texts} if len(texts) <= _MOST_SPELLINGS else {"anything"}
    if forced == "levels":
        return Column(name, "words", codes, np.array(texts, dtype=np.str_))
    if forced == "category" or not texts:
        return _words(name, "words" if texts else "empty", codes, texts)
    if folded <= {"true", "false"}:
        return _numeric(name, "true/false", codes, np.array([text.lower() == "true" for text in texts], float))
    if len(texts) == 1 and folded <= set(cells.TICKS) and np.any(codes < 0):
        return Column(name, "true/false", (codes >= 0).astype(int), np.array([0.0, 1.0]), "an empty cell means no")
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    kind, numbers, complaint = _best(texts, counts, decimal)
    if complaint:
        return Column(name, "dates", codes, np.array(texts), problem=_problem(name, complaint))
    if numbers is None or 2 * counts[numbers.known].sum() <= counts.sum():
        refused = forced == "numeric"
        problem = _strays(name, "numbers", column.index, codes, texts, np.ones(len(texts), bool)) if refused else None
        return replace(_words(name, "words", codes, texts), problem=problem)
    if kind == "numbers" and forced is None and cells.are_codes(texts):
        return replace(_words(name, "codes", codes, texts), note="a leading zero makes them codes")
    return _mostly(column, kind, codes, texts, numbers)


def _best(texts: list[str], counts: np.ndarray, decimal: str | None) -> tuple[str, cells.Numbers | None, str | None]:
    """Return the kind that most cells are, with their numbers, or the complaint about dates that cannot be told."""
    marks = (".", ",") if decimal is None else (decimal, "." if decimal == "," else ",")
    tries: list[tuple[str, Callable[[], cells.Numbers | str]]] = [
        *(("numbers", lambda mark=mark: _with_note(texts, mark)) for mark in marks),
        ("dates", lambda: cells.dates(texts)),
        ("pairs", lambda: cells.pairs(texts)),
    ]
    best: tuple[str, cells.Numbers | None] = ("words", None)
    most = 0
    for kind, attempt in tries:
        numbers = attempt()
        if isinstance(numbers, str):
            return kind, None, numbers
        rows = int(counts[numbers.known].sum())
        if rows > most and not (kind == "pairs" and len(texts) < 3):
            best, most = (kind, numbers), rows
        if rows == counts.sum():
            break
    return *best, None


def _with_note(texts: list[str], mark: str) -> cells.Numbers:
    """Return numbers read with a decimal mark, and a note if that is a comma that made a difference."""
    numbers = cells.numbers(texts, mark)
    decimal = mark == "," and any("," in text for text in texts)
    return replace(
        numbers, note="; ".join(filter(None, [numbers.note, "a comma separates decimals" if decimal else ""]))
    )


def _mostly(column: pd.Series, kind: str, codes: np.ndarray, texts: list[str], numbers: cells.Numbers) -> Column:
    """Return a column of numbers, in which other cells are words for a missing value, or a problem."""
    name, known = str(column.name), numbers.known
    strays = np.array(
        [
            not is_number and text.lower() not in cells.EMPTY_AMONG_NUMBERS
            for is_number, text in zip(known, texts, strict=True)
        ]
    )
    problem = _strays(name, PLURAL[kind], column.index, codes, texts, strays) if strays.any() else None
    empty = [repr(text) for text, is_number in zip(texts, known, strict=True) if not is_number]
    note = "; ".join(
        filter(None, [numbers.note, f"{', '.join(empty[:4])} read as empty" if empty and not problem else ""])
    )
    kind = TIMES if numbers.note == cells.CLOCK_NOTE else kind
    if numbers.values.ndim == 2:
        return _pairs(name, codes, numbers.values, known, note, problem)
    whole = _numeric(name, kind, np.where(known[codes], codes, -1) if not known.all() else codes, numbers.values)
    return replace(whole, note=note, problem=problem)


def _pairs(
    name: str, codes: np.ndarray, values: np.ndarray, known: np.ndarray, note: str, problem: Problem | None
) -> Column:
    """Return a column of pairs, its values in ascending order."""
    order = np.lexsort(values[known].T[::-1])
    place = np.full(len(values) + 1, -1)
    place[np.flatnonzero(known)[order]] = np.arange(len(order))
    return Column(name, PLURAL["pairs"], place[codes], values[known][order], note, problem)


def _numeric(name: str, kind: str, codes: np.ndarray, values: np.ndarray) -> Column:
    """Return a column of numbers, its values distinct and ascending."""
    known = ~np.isnan(values)
    distinct, order = np.unique(values[known], return_inverse=True)
    place = np.full(len(values) + 1, -1, np.int32)
    place[np.flatnonzero(known)] = order
    return Column(name, kind, place[codes], distinct)


def _from_days(name: str, days: np.ndarray) -> Column:
    """Return a column of dates that were typed as such."""
    codes = np.where(np.isnan(days), -1, np.arange(len(days)))
    return replace(_numeric(name, "dates", codes, days), note="dates become days since 1970-01-01")


def _typed_days(column: pd.Series) -> np.ndarray:
    """Return dates or durations in days, NaN where there is none."""
    import pandas as pd
    from pandas.api.types import is_timedelta64_dtype

    if is_timedelta64_dtype(column.dtype):
        return np.asarray(column.dt.total_seconds(), float) / 86400
    plain = column.dt.tz_localize(None) if getattr(column.dt, "tz", None) is not None else column
    return np.asarray((plain - pd.Timestamp("1970-01-01")).dt.total_seconds(), float) / 86400


def _words(name: str, kind: str, codes: np.ndarray, texts: list[str]) -> Column:
    """Return a column of words, those that differ in case or spaces only as one level."""
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    chosen = cells.spellings(dict(zip(texts, counts.tolist(), strict=True)))
    distinct = sorted(set(chosen.values()))
    place = {text: index for index, text in enumerate(distinct)}
    mapped = np.array([*(place[chosen[text]] for text in texts), -1], np.int32)[codes]
    return Column(name, kind, mapped, np.array(distinct, dtype=np.str_), cells.merged(chosen))


def _strays(name: str, kind: str, index: Any, codes: np.ndarray, texts: list[str], strays: np.ndarray) -> Problem:
    """Return the problem of a column of numbers in which some cells are something else."""
    odd = np.isin(codes, np.flatnonzero(strays))
    first = int(odd.argmax())
    more = f" (and {int(odd.sum()) - 1} other rows have text)" if odd.sum() > 1 else ""
    words = [text for text, stray in zip(texts, strays, strict=True) if stray]
    few = len(words) <= 5 and odd.mean() <= 0.2
    return Problem(
        f"column {shown(name)} holds {kind}, but row {index[first]} has {shown(texts[codes[first]])}{more}; if that "
        "means a missing value say so (missing), read the column as words (category), or leave it out (ignore).",
        {"missing": words, "drop_missing": True} if few else {"ignore": [name]},
        "missing",
    )


def _problem(name: str, complaint: str) -> Problem:
    """Return a complaint about a column as a problem that leaving it out solves."""
    return Problem(f"column {shown(name)} {complaint}, or leave it out.", {"ignore": [name]}, "ignore")


def _unknown_type(column: pd.Series) -> SeedscopeError:
    """Return the error for cells that are neither numbers nor text nor truth values."""
    return SeedscopeError(f"column {shown(column.name)} must hold numbers, text or true/false, got {column.dtype}.")
