"""Anybody's table as a `Dataset`: typed columns, a target, groups kept aside, and a test part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedscope.core import printable, require, require_path, unknown_name
from seedscope.datasets.choices import Choices, require_roles
from seedscope.datasets.dataset import Dataset
from seedscope.datasets.dictionary import Dictionary
from seedscope.datasets.imputation import RULES
from seedscope.datasets.table_files import FileOptions, read_file
from seedscope.datasets.table_steps import TableSteps

if TYPE_CHECKING:
    import pandas as pd

Names = str | Iterable[str]


def read_table(
    path: str | Path,
    *,
    target: str,
    groups: Names = (),
    test: str | None = None,
    id: str | None = None,
    drop_missing: bool = False,
    seed: int = 0,
    groups_as_features: bool = False,
    ignore: Names = (),
    features: Names = (),
    numeric: Names = (),
    category: Names = (),
    missing: Names = (),
    fill: Mapping[str, Any] | None = None,
    above: float | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
    person: str | None = None,
    rows_per_person: int | None = None,
    impute: str | None = None,
) -> Dataset:
    """Return the table in a file as a data set that can be audited; `.reading` says how each column was read.

    Numbers stay as they are (with a decimal comma, thousands set apart or a unit too), dates become days, pairs such as
    120/80 two numbers, true/false 1/0, and text one 0/1 feature per level (`colour=red`; a single one where there are
    two levels). Columns that identify rows, are empty or always the same are left out; whatever else cannot be encoded
    honestly is an error that names all such columns at once. Rows count from 0, the first row below the header.

    Args:
        path: a file of separated text with a header (CSV and its relatives, in any usual encoding), a Parquet file
            (extra `parquet`) or a spreadsheet (extra `excel`); each also gzipped or otherwise compressed.
        target: the column to predict; its classes are numbered in order, so class 1 of two is the larger one.
        groups: columns by which results are compared. At most 20 levels each; not features unless
            `groups_as_features`. Without a value a row is in the group "(missing)".
        test: a column that says which rows are the test part (test/true/yes/1); without it a stratified 25 % is drawn.
        id: a column of unique identifiers, taken as texts; without it a row is identified by its number.
        drop_missing: leave out rows with an empty cell, which are an error otherwise.
        seed: what the test part is drawn from.
        groups_as_features: whether models may also learn from the group columns.
        ignore: columns to leave out.
        features: the only columns to learn from; by default all that have no other role.
        numeric: columns to read as numbers, whatever they look like.
        category: columns to read as words, such as numbers that are codes.
        missing: further words for an empty cell, such as "-999".
        fill: by column, a value for its empty cells. A value that does not come from the data costs no privacy.
        above: with a target of numbers: class 1 is what is above this number.
        separator: the mark between cells; by default told from the file, as are decimal and encoding.
        decimal: the mark before decimals, "." or ",".
        encoding: of the text, such as "latin-1".
        sheet: of a spreadsheet, by default the first one.
        bounds: by column of numbers, its least and largest value, known without the table: then scaling is public.
            Where any column has them, all columns of numbers must.
        levels: by column of words, its levels, known without the table; a word that is not among them is none of them.
        person: a column that says whose a row is, where people have several: then a guarantee is a person's.
        rows_per_person: how many training rows of a person count at most, a public number; later ones are left out.
        impute: a rule for empty cells: "middle" takes the middle of a column's `bounds` and no level of words, which
            costs no privacy; "typical" the training rows' median or most frequent level, which turns an ε into an
            estimate; "private" a noisy mean or most frequent level, which costs ε and needs `bounds` and `levels`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "people.csv"
    ...     rows = [f"{a};{'fm'[a % 2]};{a % 7 / 2};{a // 2 % 2}".replace(".", ",") for a in range(20, 80)]
    ...     _ = path.write_text("age;sex;dose;ill\\n" + "\\n".join(rows))
    ...     data = read_table(path, target="ill", groups=["sex"])
    >>> data
    Dataset('people': 45 train, 15 test, 2 features, 2 classes)
    >>> dose = data.reading.columns[2]
    >>> dose.kind, dose.values, dose.became, dose.note
    ('numbers', '0 to 3', '1 feature', 'a comma separates decimals')
    """
    require_path("path", path)
    table = read_file(path, FileOptions(character(separator), encoding, sheet))
    return from_frame(
        table.frame, target=target, groups=groups, test=test, id=id, drop_missing=drop_missing, seed=seed,
        groups_as_features=groups_as_features, ignore=ignore, features=features, numeric=numeric, category=category,
        missing=missing, fill=fill, above=above, decimal=decimal, name=printable(stem(Path(path))),
        source=printable(table.source), read=table.sentences,
        bounds=bounds, levels=levels, person=person, rows_per_person=rows_per_person, impute=impute,
    )  # fmt: skip


def from_frame(
    frame: pd.DataFrame,
    *,
    target: str,
    groups: Names = (),
    test: str | None = None,
    id: str | None = None,
    drop_missing: bool = False,
    seed: int = 0,
    groups_as_features: bool = False,
    ignore: Names = (),
    features: Names = (),
    numeric: Names = (),
    category: Names = (),
    missing: Names = (),
    fill: Mapping[str, Any] | None = None,
    above: float | None = None,
    decimal: str | None = None,
    name: str = "table",
    source: str = "a data frame",
    read: tuple[str, ...] = (),
    bounds: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
    person: str | None = None,
    rows_per_person: int | None = None,
    impute: str | None = None,
) -> Dataset:
    """Return a pandas data frame as a data set; the arguments and rules are those of `read_table`."""
    require(decimal in (None, ".", ","), f"decimal must be '.' or ',', got {decimal!r}.", argument="decimal")
    choices = Choices(
        target, names_of(groups), test, id, drop_missing, seed, groups_as_features, names_of(ignore),
        names_of(features), names_of(numeric), names_of(category), names_of(missing), fill or {}, above, decimal,
        Dictionary(bounds or {}, {name: tuple(words) for name, words in (levels or {}).items()}), person,
        rows_per_person, impute,
    )  # fmt: skip
    if impute is not None and impute not in RULES:
        raise unknown_name("rule to impute by", impute, RULES)
    frame = frame.reset_index(drop=True)
    require_roles(frame, choices)
    return TableSteps(frame, choices).dataset(name, source, read)


def names_of(given: Names) -> tuple[str, ...]:
    """Return names as a tuple, each once."""
    listed = isinstance(given, str | Sequence) or (isinstance(given, Iterable) and not isinstance(given, Mapping))
    require(listed, f"columns are given by name, alone or in a list, got {given!r}.")
    return tuple(dict.fromkeys([given] if isinstance(given, str) else given))


def character(separator: str | None) -> str | None:
    """Return the separator as a character: tabs are hard to type."""
    mark = {"tab": "\t", "\\t": "\t"}.get(separator or "", separator)
    require(
        mark is None or len(mark) == 1, f"separator must be one character, or 'tab', got {separator!r}.", "separator"
    )
    return mark


def stem(path: Path) -> str:
    """Return the file's name without its endings: 'people' for people.csv.gz."""
    name = path.name
    for ending in (".gz", ".bz2", ".xz", ".zip", ".csv", ".tsv", ".txt", ".parquet", ".pq", ".xlsx", ".xls", ".ods"):
        name = name.removesuffix(ending)
    return name or path.name
