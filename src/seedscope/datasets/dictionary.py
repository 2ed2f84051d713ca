"""What is known of a table's columns without looking at its rows: a data dictionary of ranges and levels.

With it, scaling and encoding are public, and what is proved of a mechanism is proved of the whole pipeline. A number
beyond its range is cut to it when rows are scaled, and a word that is not among a column's levels (upper and lower case
count alike) is none of them. Each cell is read by itself: what other rows hold must not matter.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.core import SeedscopeError, require, unknown_name
from seedscope.datasets.cells import folded
from seedscope.datasets.columns import Column, Encoded, features, shown
from seedscope.datasets.unpacking import require_memory

Range = tuple[float, float]
CATEGORIES, COLUMNS, WRITING = "the category levels", "the columns left out", "the way numbers are written"
COPIES = 2  # of the features in memory: as they are read, and scaled while models are trained
ROWS_AT_ONCE = 1 << 12  # whose features fit the processor's cache


@dataclass(frozen=True)
class Dictionary:
    """The least and the largest value of columns of numbers, the levels of columns of words, values of empty cells."""

    bounds: Mapping[str, Range] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fill: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", {name: _range(name, ends) for name, ends in self.bounds.items()})
        object.__setattr__(self, "levels", {name: _levels(name, words) for name, words in self.levels.items()})

    @property
    def columns(self) -> set[str]:
        """The columns that it knows."""
        return {*self.bounds, *self.levels}

    def joined(self, other: Dictionary) -> Dictionary:
        """Return both; where they differ the other one holds."""
        both = ((self.bounds, other.bounds), (self.levels, other.levels), (self.fill, other.fill))
        return Dictionary(*({**first, **second} for first, second in both))  # type: ignore[arg-type]

    def require_known(self, columns: Iterable[str]) -> None:
        """Raise where it names a column that the table does not have."""
        known = [str(column) for column in columns]
        for name in sorted(self.columns - set(known)):
            raise unknown_name("column with bounds or levels", name, known)


@dataclass(frozen=True, eq=False)
class Encoding:
    """Columns as features: names, values [row, feature], public ranges (None: not all known), and what was learned.

    `places` are the features of each column, `categories` those of the columns that have levels.
    """

    names: tuple[str, ...]
    values: np.ndarray
    ranges: tuple[Range, ...] | None
    learned: tuple[str, ...]
    places: Mapping[str, range]
    categories: tuple[tuple[int, ...], ...]

    def holes(self, columns: Iterable[Column]) -> np.ndarray:
        """Return which features [row, feature] of these columns come from an empty cell."""
        empty = np.zeros(self.values.shape, bool)
        for column in columns:
            empty[:, self.places[column.name]] = (column.codes < 0)[:, None]
        return empty


def encoded(columns: Sequence[Column], dictionary: Dictionary, rows: np.ndarray) -> Encoding:
    """Return columns as features of these rows in their order, as the dictionary says, or by what the rows have."""
    require_memory(_size_in_words(columns), COPIES * 8 * _cells(columns, dictionary))
    parts = [_one(column, dictionary) for column in columns]
    lacking = [column.name for column, (_, ranges) in zip(columns, parts, strict=True) if ranges is None]
    first = shown(lacking[0]) if lacking else ""
    lacks = f"column {first} has no bounds; give every column of numbers a least and a largest value."
    require(not (dictionary.bounds and lacking), lacks, argument="bounds")
    ranges = None if lacking else tuple(own_range for _, own_ranges in parts for own_range in own_ranges or ())
    words = bool(learned_levels(columns, dictionary))
    names = tuple(name for part, _ in parts for name in part.names)
    ends = np.cumsum([0, *(len(part.names) for part, _ in parts)]).tolist()
    places = {column.name: range(ends[k], ends[k + 1]) for k, column in enumerate(columns)}
    levels = [column.name for column in columns if _has_levels(column) and column.name not in dictionary.bounds]
    categories = tuple(tuple(places[name]) for name in levels)
    values = _side_by_side([part for part, _ in parts], rows)
    return Encoding(names, values, ranges, (CATEGORIES,) if words else (), places, categories)


def _cells(columns: Sequence[Column], dictionary: Dictionary) -> int:
    """Return how many numbers the features will be."""
    levels = [dictionary.levels.get(column.name, column.values) for column in columns if not column.is_numeric]
    numeric = sum(column.values.ndim for column in columns if column.is_numeric)
    return sum(len(column.codes) for column in columns[:1]) * (numeric + sum(map(len, levels)))


def _size_in_words(columns: Sequence[Column]) -> str:
    """Return how large the table is."""
    return f"a table of {len(columns[0].codes) if columns else 0:,} rows and {len(columns)} columns to learn from"


def _side_by_side(parts: Sequence[Encoded], rows: np.ndarray) -> np.ndarray:
    """Return all features of these rows in one array [row, feature]."""
    ends = np.cumsum([0, *(len(part.names) for part in parts)]).tolist()
    values = np.empty((len(rows), ends[-1]))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        for place, part in enumerate(parts):
            values[block, ends[place] : ends[place + 1]] = part.lines[part.codes[rows[block]]]
    return values


def _one(column: Column, dictionary: Dictionary) -> tuple[Encoded, tuple[Range, ...] | None]:
    """Return one column's features and their ranges; None where these are not known."""
    if column.name in dictionary.levels:
        part = _declared(column, dictionary.levels[column.name])
        return part, ((0.0, 1.0),) * len(part.names)
    part, known = features(column), dictionary.bounds.get(column.name)
    if known is None:
        return part, ((0.0, 1.0),) * len(part.names) if _has_levels(column) else None
    words = f"bounds of {shown(column.name)} are for numbers, and the column holds {column.kind}"
    require(column.is_numeric, f"{words}; correct its cells, or give its levels.", argument="bounds")
    return part, (known,) * len(part.names)


def learned_levels(columns: Iterable[Column], dictionary: Dictionary) -> list[Column]:
    """Return the columns whose levels are those that the rows have."""
    return [column for column in columns if _has_levels(column) and column.name not in dictionary.columns]


def _has_levels(column: Column) -> bool:
    """Whether a column holds words, or truth values: which ones there are is learned unless it is declared."""
    return not column.is_numeric or column.kind == "true/false"


def _declared(column: Column, levels: tuple[str, ...]) -> Encoded:
    """Return a 0/1 feature for each declared level (one for two), whatever levels the rows have."""
    kept = levels[1:] if len(levels) == 2 else levels
    texts = [*map(folded, column.levels.names), ""]  # the last for an empty cell
    lines = np.array([[float(text == folded(level)) for level in kept] for text in texts])
    return Encoded(tuple(f"{column.name}={level}" for level in kept), lines, column.codes)


def read_dictionary(path: str | Path) -> Dictionary:
    """Return the dictionary in a TOML file: a column's [least, largest] value, or a list of its levels.

    A file may say `age = [0, 120]` and `colour = ["blue", "green", "red"]`; with a value for empty cells
    `age = { known = [0, 120], fill = 45 }`.
    """
    try:
        entries = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SeedscopeError(f"the data dictionary {path} cannot be read: {error}.", argument="bounds") from None
    except tomllib.TOMLDecodeError as error:
        raise SeedscopeError(f"the data dictionary {path} is not TOML: {error}.", argument="bounds") from None
    fill = {name: _declared_fill(name, entry) for name, entry in entries.items() if isinstance(entry, dict)}
    entries = {name: entry["known"] if isinstance(entry, dict) else entry for name, entry in entries.items()}
    words: dict[str, Any] = {name: entry for name, entry in entries.items() if _has_words(entry)}
    numbers: dict[str, Any] = {name: entry for name, entry in entries.items() if name not in words}
    return Dictionary(numbers, words, fill)


def _declared_fill(name: str, entry: dict[str, Any]) -> str:
    """Return the value that a dictionary gives a column's empty cells, as a text; raise where it is none of its own."""
    rule = f"{shown(name)} must be a range, a list of levels, or {{ known = …, fill = … }}, got {entry!r}."
    require(set(entry) == {"known", "fill"}, rule, argument="bounds")
    known, value = entry["known"], entry["fill"]
    if _has_words(known):
        within = isinstance(value, str) and folded(value) in set(map(folded, known))
        require(within, f"fill of {shown(name)} must be one of its levels, got {value!r}.", argument="bounds")
        return str(value)
    low, high = _range(name, known)
    within = _is_number(value) and low <= value <= high
    require(within, f"fill of {shown(name)} must be a number within {low:g} and {high:g}, got {value!r}.", "bounds")
    return repr(value)


def _has_words(entry: Any) -> bool:
    """Whether an entry is a list with a word in it."""
    return isinstance(entry, list) and any(isinstance(word, str) for word in entry)


def parse_dictionary(bounds: Iterable[str] = (), levels: Iterable[str] = ()) -> Dictionary:
    """Return the dictionary of texts: `age:0:120` or the name of a TOML file, and `colour:blue,green,red`.

    >>> parse_dictionary(["age:0:120"], ["colour:blue,green,red"])
    Dictionary(bounds={'age': (0.0, 120.0)}, levels={'colour': ('blue', 'green', 'red')}, fill={})
    """
    joined = Dictionary()
    for text in bounds:
        given = read_dictionary(text) if text.endswith(".toml") else Dictionary(dict([_parsed_bounds(text)]))
        joined = joined.joined(given)
    return joined.joined(Dictionary(levels=dict(map(_parsed_levels, levels))))


def _parsed_bounds(text: str) -> tuple[str, Any]:
    """Return the column and the range of COLUMN:LEAST:LARGEST."""
    parts = text.rsplit(":", 2)
    try:
        column, low, high = parts
        return column, (float(low), float(high))
    except ValueError:
        rule = f"bounds must be COLUMN:LEAST:LARGEST or a .toml file, got {text!r}."
        raise SeedscopeError(rule, argument="bounds") from None


def _parsed_levels(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the column and the levels of COLUMN:LEVEL,LEVEL,…"""
    column, mark, names = text.partition(":")
    require(mark and column, f"levels must be COLUMN:LEVEL,LEVEL,…, got {text!r}.", argument="levels")
    return column, tuple(name.strip() for name in names.split(","))


def _range(name: str, given: Any) -> Range:
    """Return a range of two finite numbers, the first below the second, or raise."""
    rule = f"bounds of {shown(name)} must be two finite numbers, the smaller first, got {given!r}."
    numbers = isinstance(given, list | tuple) and len(given) == 2 and all(_is_number(end) for end in given)
    require(bool(numbers) and given[0] < given[1], rule, argument="bounds")
    return float(given[0]), float(given[1])


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _levels(name: str, given: Any) -> tuple[str, ...]:
    """Return two or more different words, or raise."""
    words = isinstance(given, list | tuple) and all(isinstance(word, str) and word for word in given)
    good = bool(words) and len(set(map(folded, given))) == len(given) >= 2
    require(good, f"levels of {shown(name)} must be two or more different words, got {given!r}.", argument="levels")
    return tuple(given)
