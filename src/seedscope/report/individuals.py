"""One row for everybody, as a CSV file that a spreadsheet can open safely."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.core import SeedscopeError
from seedscope.report.words import PERSON

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = {  # of the table of everyone, beside those of `words.PERSON`
    "id": "The person: the identifier column, or the row's number from 0.",
    "part": "train: the models learned from this row. test: they did not.",
    "label": "The true class.",
    "level": "The privacy level; each person has one row for each.",
    "epsilon": "The level's ε, proved or an estimate as epsilon_kind says; empty where nothing is claimed.",
    "epsilon_kind": "What the level's ε is: proved, or an estimate; empty where nothing is claimed.",
    "epsilon_tighter": "The same guarantee by a tighter accountant (privacy-loss distribution), for everybody; DP-SGD.",
    "delta": "The level's δ.",
    "predicted": "The class that most re-trained models decide.",
    "disagreement_lower": "The lower end of disagreement's interval, for all people of a part at once.",
    "advantage": "How far the best possible attack on this person's membership beats guessing, from 0 to 1.",
    "advantage_lower": "The best attack surely has at least this advantage, for all people at once.",
    "advantage_upper": "No attack has a larger advantage than this, for all people at once.",
    "uncertainty_left_lower": "The lower end of uncertainty_left's interval.",
    "uncertainty_left_upper": "The upper end of uncertainty_left's interval.",
    "rank_advantage": "The rank by the best attack's advantage; 1 is the most exposed.",
    "in_models": "1: the decisions are by models that learned from this row; 0: by models without it.",
    "disagreement_upper": "The upper end of disagreement's interval, for all people of a part at once.",
}


FORMULA_START = re.compile(r"^[=+\-@\t\r\n＝＋－＠]")


# Where a program splits cells elsewhere than at commas.
INNER_FORMULA = re.compile(r"([;\t\r\n|])([^\S;\t\r\n|]*[=+\-@＝＋－＠])")


PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def individuals_csv(individuals: pd.DataFrame) -> str:
    """Return everyone's row as CSV, no cell of which a spreadsheet takes for a formula."""
    safe = individuals.rename(columns=lambda name: safe_cell(str(name)))
    for column in safe.columns[[not _is_number(kind) for kind in safe.dtypes]]:
        safe[column] = _safe_column(safe[column])
    text: str = safe.to_csv(index=False, lineterminator="\n")
    return text


def _safe_column(column: pd.Series) -> pd.Series:
    """Return a column of texts whose cells are safe; each different one is looked at once, and kept once."""
    import pandas as pd

    codes, values = pd.factorize(column)
    safe = np.array([*map(safe_cell, values), None], dtype=object)
    return pd.Series(safe[codes], index=column.index)


def individuals_parquet(individuals: pd.DataFrame) -> bytes:
    """Return everyone's row as a Parquet file."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise SeedscopeError(
            "Parquet needs the parquet extra: pip install 'seedscope[parquet]'.", argument="parquet"
        ) from None
    content: bytes = individuals.to_parquet(index=False, engine="pyarrow")
    return content


def dictionary_csv(individuals: pd.DataFrame, kinds: Mapping[str, Any]) -> str:
    """Return a data dictionary of the table of everyone: each column's name, type, kind of number and meaning.

    Args:
        individuals: the table.
        kinds: for columns of numbers, of which kind they are, as the report's `people.kinds` has it.
    """
    import pandas as pd

    rows = [
        {
            "column": name,
            "type": "number" if _is_number(individuals[name].dtype) else "text",
            "kind": (kinds.get(_base(name)) or {}).get("kind", ""),
            "confidence": (kinds.get(_base(name)) or {}).get("confidence", ""),
            "meaning": _meaning(name),
        }
        for name in map(str, individuals.columns)
    ]
    return individuals_csv(pd.DataFrame(rows))


def _base(name: str) -> str:
    """Return the quantity that a column is about: ends of an interval are about the number between them."""
    if name.startswith("off_by_"):
        return "reconstruction"
    base = name.removesuffix("_lower").removesuffix("_upper")
    return base if base in ("disagreement", "advantage") else name


def _meaning(name: str) -> str:
    """Return what a column of the table of everyone means."""
    known = {quantity.name: quantity.meaning for quantity in PERSON} | COLUMNS
    if name.startswith("told_"):
        return _told(name.removeprefix("told_"))
    if name.startswith("off_by_"):
        return (
            f"An unbiased guess of {name.removeprefix('off_by_')} of this person is off by at least this, in own units."
        )
    if name.startswith("rank_"):
        return f"The place in the order of {name.removeprefix('rank_')}, 1 the most exposed; empty if all are alike."
    return f"The group by {name.removeprefix('group_')}." if name.startswith("group_") else known.get(name, "")


def _told(name: str) -> str:
    """Return what a column about a sensitive column means."""
    ends = {
        "_lower": "The lower end of that chance's interval, for all people at once: {}.",
        "_upper": "The upper end of that chance's interval, for all people at once: {}.",
        "_chance": "The chance to guess {} of this person without the model.",
        "_ceiling": "The largest chance to guess {} of this person that the guarantee allows.",
    }
    for end, words in ends.items():
        if name.endswith(end):
            return words.format(name.removesuffix(end))
    return f"The best attacker's chance to guess {name} of this person, who knows everything else."


def safe_cell(value: Any) -> Any:
    """Return a cell's value, what would be a formula preceded by an apostrophe, also after another separator.

    >>> [safe_cell(one) for one in ("=1+1", "@SUM(A1)", "-5", "age", -5, "a;=1+1")]
    ["'=1+1", "'@SUM(A1)", '-5', 'age', -5, "a;'=1+1"]
    """
    if not isinstance(value, str) or PLAIN_NUMBER.fullmatch(value):
        return value
    safe = INNER_FORMULA.sub(r"\1'\2", value)
    return f"'{safe}" if FORMULA_START.match(safe) else safe


def _is_number(kind: Any) -> bool:
    """Return whether a column of this type has only numbers or truth values."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return bool(is_numeric_dtype(kind) or is_bool_dtype(kind))
