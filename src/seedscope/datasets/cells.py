"""What the cells of a table say: numbers as people write them, dates, pairs, yes and no, and words for a missing value.

Each function takes the distinct cells of a column as texts and says what each of them is, NaN where it is not that.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# Empty in every column; compared in lower case.
EMPTY_CELLS = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "#n/v", "nat")
# Empty where the other cells are numbers or dates; in a column of words each may be a level.
EMPTY_AMONG_NUMBERS = (
    "?", "-", "--", "---", ".", "..", "*", "none", "missing", "unknown", "unk", "n.a.", "n. a.", "n.d.", "nd", "k.a.",
    "k. a.", "not available", "not known", "not done", "unbekannt", "inconnu", "#value!", "#div/0!", "#ref!", "#num!",
    "#wert!",
)  # fmt: skip
YES_WORDS = ("yes", "y", "true", "t", "ja", "j", "oui", "sí", "si", "sim", "1")
NO_WORDS = ("no", "n", "false", "f", "nein", "non", "não", "nao", "0")
CLOCK_NOTE = "times of day become hours"
TICKS = ("x", "✓", "✔")  # where the other cells are empty, an empty one means no

_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
_GROUPED = {  # thousands set apart, by the mark that then separates decimals
    ".": re.compile(r"[+-]?[1-9]\d{0,2}([,'’\u00a0\u202f ]\d{3})+(\.\d+)?"),
    ",": re.compile(r"[+-]?[1-9]\d{0,2}([.'’\u00a0\u202f ]\d{3})+(,\d+)?"),
}
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d*,\d+)([eE][+-]?\d+)?")
_CODE = re.compile(r"^0\d+$", re.MULTILINE)
_BEFORE = r"[$€£¥]"
_AFTER = (
    r"%|‰|[$€£¥]|eur|usd|gbp|chf|kg|g|mg|µg|l|ml|dl|mm|cm|m|km|in|ft|lbs?|oz|years?|yrs?|y|jahre?|ans|months?|monate?"
    r"|weeks?|days?|d|tage?|h|hrs?|min|s|sec|ms|mmhg|bpm|°c|°f|mmol/l|mg/dl|g/dl|kcal|kb|mb|gb"
)
_WITH_UNIT = re.compile(rf"({_BEFORE})?\s*([+-]?[\d.,'’\u00a0\u202f ]*\d)\s*({_AFTER})?", re.IGNORECASE)
_PAIR = re.compile(r"(\d+(?:[.,]\d+)?)\s*/\s*(\d+(?:[.,]\d+)?)")
_TIME = r"(?:[T ]\s*(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*(?:Z|[+-]\d{2}:?\d{2})?)?"
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})" + _TIME)
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])\s?(\d{1,2})\2\s?(\d{4})" + _TIME)
_MONTH_NAMED = re.compile(r"(\d{1,2})[-. ]+([A-Za-z]{3})[a-z]*[-., ]+(\d{4})" + _TIME)
_SHORT_YEAR = re.compile(r"\d{1,2}([-/.])\d{1,2}\1\d{2}")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True)
class Numbers:
    """Distinct cells as numbers [cell] or pairs [cell, 2], NaN where one is not, and what a reader should know."""

    values: np.ndarray
    note: str = ""

    @property
    def known(self) -> np.ndarray:
        """Which cells are numbers."""
        known: np.ndarray = ~np.isnan(self.values if self.values.ndim == 1 else self.values.sum(1))
        return known


def is_empty(text: str, words: Iterable[str] = ()) -> bool:
    """Say whether a cell says nothing, or one of the words that the table's owner gave.

    >>> [is_empty(text) for text in ("", " n/a ", "0", "?")]
    [True, True, False, False]
    """
    return text.strip().lower() in EMPTY_CELLS or text.strip() in words


def longest_empty(words: Iterable[str] = ()) -> int:
    """Return how long a cell may be that says nothing: a longer one need not be looked at, if it was stripped.

    >>> longest_empty(), longest_empty(["not measured"])
    (4, 12)
    """
    return max(map(len, (*EMPTY_CELLS, *words)))


def numbers(texts: Sequence[str], decimal: str = ".") -> Numbers:
    """Return plain numbers, and numbers with thousands set apart or with one unit, read with that decimal mark.

    >>> numbers(["1,234.5", "7"]).values.tolist(), numbers(["1.234,5", "7"], decimal=",").values.tolist()
    ([1234.5, 7.0], [1234.5, 7.0])
    >>> numbers(["10%", "12.5 %"])
    Numbers(values=array([10. , 12.5]), note="the unit '%' is dropped")
    """
    plain = _all_plain(texts) if decimal == "." else None
    if plain is not None:
        return Numbers(plain)
    read = np.array([number(text, decimal) for text in texts])
    if not np.isnan(read).all() or not texts:
        return Numbers(read)
    return _without_unit(texts, decimal) or Numbers(read)


def _all_plain(texts: Sequence[str]) -> np.ndarray | None:
    """Return plain numbers, quickly, where all texts are; None where one is not."""
    try:
        return np.array(texts, dtype=object).astype(np.float64) if "_" not in "".join(texts) else None
    except ValueError:
        return None


def number(text: str, decimal: str) -> float:
    """Return one cell as a number, NaN if it is not one."""
    if decimal == "." and _PLAIN.fullmatch(text):
        return float(text)
    if _GROUPED[decimal].fullmatch(text):
        text = re.sub(r"[^\d.,+-]", "", text).replace("," if decimal == "." else ".", "")
    elif decimal == "." or not _DECIMAL_COMMA.fullmatch(text):
        return float("nan")
    return float(text.replace(",", "."))


def _without_unit(texts: Sequence[str], decimal: str) -> Numbers | None:
    """Return numbers that all have the same unit before or behind them, else None."""
    matches = [_WITH_UNIT.fullmatch(text) for text in texts]
    units = {(match[1] or "", (match[3] or "").lower()) for match in matches if match}
    if len(units) != 1 or units == {("", "")}:
        return None
    read = np.array([number(match[2].strip(), decimal) if match else np.nan for match in matches])
    unit = next(mark for pair in units for mark in pair if mark)
    return Numbers(read, f"the unit {unit!r} is dropped") if not np.isnan(read).all() else None


def are_codes(texts: Iterable[str]) -> bool:
    """Say whether whole numbers are codes rather than amounts: one of them has a leading zero, as 01069 has.

    >>> are_codes(["10115", "01069"]), are_codes(["0", "7", "0.5"])
    (True, False)
    """
    return _CODE.search("\n".join(texts)) is not None


def pairs(texts: Sequence[str]) -> Numbers:
    """Return pairs of numbers [cell, 2] such as a blood pressure's.

    >>> pairs(["120/80", "135/85"]).values.tolist()
    [[120.0, 80.0], [135.0, 85.0]]
    """
    matches = [_PAIR.fullmatch(text) for text in texts]
    read = [
        [float(match[side].replace(",", ".")) for side in (1, 2)] if match else [float("nan"), float("nan")]
        for match in matches
    ]
    return Numbers(np.array(read).reshape(-1, 2))


def dates(texts: Sequence[str]) -> Numbers | str:
    """Return dates as days since 1970-01-01 and times of day as hours; or why dates cannot be told.

    Day and month are told apart by a number above 12 somewhere in the column, or by dots between them.

    >>> dates(["31.12.1999", "1.1.2000"]).values.tolist()
    [10956.0, 10957.0]
    >>> dates(["03/04/2020"])
    'has dates such as 03/04/2020 in which day and month cannot be told apart; write them as 2020-12-31'
    """
    if all(_CLOCK.fullmatch(text) for text in texts):
        return Numbers(np.array([_hours(text) for text in texts]), CLOCK_NOTE)
    if short := next((text for text in texts if _SHORT_YEAR.fullmatch(text)), None):
        return f"has dates such as {short} whose year has two digits; write them as 1999-12-31"
    day_first = _day_first(texts)
    if day_first is None:
        example = next(text for text in texts if _YEAR_LAST.fullmatch(text))
        return f"has dates such as {example} in which day and month cannot be told apart; write them as 2020-12-31"
    days = np.array([_days(text, day_first) for text in texts])
    return Numbers(days, "dates become days since 1970-01-01" + (", the day first" if day_first else ""))


def _day_first(texts: Sequence[str]) -> bool | None:
    """Say whether dates that end with the year begin with the day; None if that cannot be told."""
    matches = [match for text in texts if (match := _YEAR_LAST.fullmatch(text))]
    if any(match[2] == "." or int(match[1]) > 12 for match in matches):
        return True
    return False if not matches or any(int(match[3]) > 12 for match in matches) else None


def _hours(text: str) -> float:
    """Return a time of day in hours."""
    hours, minutes, seconds = (int(part) for part in [*text.split(":"), "0"][:3])
    return hours + minutes / 60 + seconds / 3600


def _days(text: str, day_first: bool) -> float:
    """Return one date in days since 1970-01-01, NaN if it is none."""
    if match := _YEAR_FIRST.fullmatch(text):
        year, month, day, *time = match.groups()
    elif match := _YEAR_LAST.fullmatch(text):
        first, _, second, year, *time = match.groups()
        day, month = (first, second) if day_first else (second, first)
    elif (match := _MONTH_NAMED.fullmatch(text)) and match[2].lower() in _MONTHS:
        day, name, year, *time = match.groups()
        month = str(_MONTHS.index(name.lower()) + 1)
    else:
        return float("nan")
    try:
        date = datetime.date(int(year), int(month), int(day))
    except ValueError:
        return float("nan")
    hours, minutes, seconds = (float(part or 0) for part in time)
    return date.toordinal() - 719163 + (hours + (minutes + seconds / 60) / 60) / 24


def spellings(counts: Mapping[str, int]) -> dict[str, str]:
    """Return for every level the spelling that stands for it: those that differ in case or spaces are one level.

    Words for yes and no are one level each where a column has nothing else.

    >>> spellings({"Yes": 5, "yes": 2, "YES ": 1, "no": 4})
    {'Yes': 'Yes', 'yes': 'Yes', 'YES ': 'Yes', 'no': 'no'}
    """
    fold: Callable[[str], str] = _yes_or_no if _all_yes_or_no(counts) else folded
    usual: dict[str, str] = {}
    for name, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        usual.setdefault(fold(name), name.strip())
    return {name: usual[fold(name)] for name in counts}


def merged(chosen: Mapping[str, str]) -> str:
    """Return a note about levels with several spellings, empty where there are none.

    >>> merged({"Yes": "Yes", "yes": "Yes", "no": "no"})
    "'Yes', 'yes' are one level"
    """
    kinds = Counter(chosen.values())
    groups = [[repr(name) for name in chosen if chosen[name] == level] for level, count in kinds.items() if count > 1]
    shown = [", ".join(names[:4]) + (", …" if len(names) > 4 else "") + " are one level" for names in groups[:3]]
    return "; ".join(shown) + (f"; and {len(groups) - 3} more" if len(groups) > 3 else "")


def folded(name: str) -> str:
    """Return a level's name without what spelling may change."""
    return " ".join(name.casefold().split())


def yes_before_no(names: Sequence[str]) -> bool:
    """Say whether two levels are a word for yes and one for no, in the wrong order.

    >>> yes_before_no(("ja", "nein")), yes_before_no(("no", "yes")), yes_before_no(("Yes", "maybe"))
    (True, False, False)
    """
    return len(names) == 2 and folded(names[0]) in YES_WORDS and folded(names[1]) in NO_WORDS


def _yes_or_no(name: str) -> str:
    """Return yes or no for a word that means it."""
    return "yes" if folded(name) in YES_WORDS else "no"


def _all_yes_or_no(names: Iterable[str]) -> bool:
    """Say whether all names are words for yes or no, and both are there."""
    words = {folded(name) for name in names}
    return words <= {*YES_WORDS, *NO_WORDS} and bool(words & set(YES_WORDS)) and bool(words & set(NO_WORDS))
