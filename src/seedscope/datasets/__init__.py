"""Data: embedded sets, the papers' sets, and anybody's table.

`load(name)` gives a named set, `read_table(path, target=…)` a table, `from_frame` and `from_arrays` what is in memory
already; each returns a `Dataset`.
"""

from seedscope.datasets.arrays import from_arrays
from seedscope.datasets.categories import Category, category_columns, few_valued, not_continuous
from seedscope.datasets.dataset import Dataset, Part
from seedscope.datasets.dictionary import Dictionary, parse_dictionary, read_dictionary
from seedscope.datasets.fill_values import Imputation, PrivateValues, TypicalValues
from seedscope.datasets.named.catalogue import Description, describe, fetch, load, names
from seedscope.datasets.persons import MOST_ROWS, with_persons
from seedscope.datasets.pixels import image_shape
from seedscope.datasets.plain_tables import PlainTable, read_plain_table
from seedscope.datasets.reading import ColumnReading, Reading, TableError
from seedscope.datasets.scaling import (
    Bounded,
    FittedScaling,
    Imputed,
    PrivateMoments,
    Scaling,
    Standardised,
    Unscaled,
    default_scaling,
    scaling_from,
    with_imputation,
)
from seedscope.datasets.table_files import read_frame
from seedscope.datasets.tables import from_frame, read_table

__all__ = [
    "MOST_ROWS",
    "Bounded",
    "Category",
    "ColumnReading",
    "Dataset",
    "Description",
    "Dictionary",
    "FittedScaling",
    "Imputation",
    "Imputed",
    "Part",
    "PlainTable",
    "PrivateMoments",
    "PrivateValues",
    "Reading",
    "Scaling",
    "Standardised",
    "TableError",
    "TypicalValues",
    "Unscaled",
    "category_columns",
    "default_scaling",
    "describe",
    "fetch",
    "few_valued",
    "from_arrays",
    "from_frame",
    "image_shape",
    "load",
    "names",
    "not_continuous",
    "parse_dictionary",
    "read_dictionary",
    "read_frame",
    "read_plain_table",
    "read_table",
    "scaling_from",
    "with_imputation",
    "with_persons",
]
