"""Data: embedded sets, the papers' sets, and anybody's table.

`load(name)` gives a named set, `read_table(path, target=…)` a table, `from_frame` and `from_arrays` what is in memory
already; each returns a `Dataset`.
"""

from seedscope.datasets.arrays import from_arrays
from seedscope.datasets.catalogue import Description, describe, fetch, load, names
from seedscope.datasets.dataset import Dataset, Part
from seedscope.datasets.tables import from_frame, read_table

__all__ = [
    "Dataset",
    "Description",
    "Part",
    "describe",
    "fetch",
    "from_arrays",
    "from_frame",
    "load",
    "names",
    "read_table",
]
