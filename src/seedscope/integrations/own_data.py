"""Data of any kind for a user's own training: models are fitted on rows of what the user gave, by their numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import SeedscopeError, require, unknown_name
from seedscope.datasets import Dataset, Part, from_arrays

Groups = Mapping[str, ArrayLike] | str | Sequence[str]


@dataclass(frozen=True, eq=False)
class OwnData(Dataset):
    """A data set whose features are only row numbers of a table that the user's own training is given.

    `checksum` is of that table, `width` the number of its columns.
    """

    checksum: str = ""
    width: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row of the table."""
        return (self.width,)

    def _digest(self, parts: Iterable[Part]) -> hashlib._Hash:
        """Return the checksum so far of names, parts and the table."""
        digest = super()._digest(parts)
        digest.update(self.checksum.encode())
        return digest


def own_data(
    table: Any,
    labels: ArrayLike,
    *,
    test: Any = None,
    groups: Groups | None = None,
    ids: ArrayLike | None = None,
    name: str = "own data",
    seed: int = 0,
) -> tuple[OwnData, Any, np.ndarray]:
    """Return the data set of row numbers, the whole table, and the labels as they were given.

    Args:
        table: rows of any kind: an array, a data frame of pandas or polars, a sparse matrix; None where only the
            user's own function knows them.
        labels: [row], any values.
        test: (table, labels) of the test part, or a truth value for each row that says whether it is of the test part;
            by default a stratified quarter is drawn from the seed.
        groups: by name, a value for each row, training rows first; or names of columns of the table.
        ids: identifiers, in the same order.
    """
    table, truth, is_test = _joined(_by_rows(table), np.asarray(labels), test)
    rows = np.arange(len(truth))
    if table is not None:
        count = row_count(table)
        require(count == len(truth), f"X has {count} rows, y has {len(truth)} labels; they must be as many.")
    order = rows if is_test is None else np.concatenate([rows[~is_test], rows[is_test]])
    given: dict[str, Any] = {"name": name, "seed": seed, "groups": _ordered(_group_values(groups, table), order)}
    given["ids"] = None if ids is None else np.asarray(ids)[order]
    parts: tuple[Any, ...] = (rows[:, None], truth)
    if is_test is not None:
        train, held_out = rows[~is_test], rows[is_test]
        parts = (train[:, None], truth[train], held_out[:, None], truth[held_out])
    return _as_own(from_arrays(*parts, **given), table), table, truth


def row_count(table: Any) -> int:
    """Return how many rows a table of any kind has."""
    return int(table.shape[0]) if hasattr(table, "shape") else len(table)


def _as_own(data: Dataset, table: Any) -> OwnData:
    """Return the data set with row numbers in the user's order, and the table's checksum."""
    import joblib

    width = 0 if table is None else int(np.prod(np.shape(table)[1:]))
    checksum = "" if table is None else str(joblib.hash(table))
    train, test = (_in_order(part) for part in (data.train, data.test))
    names = tuple(map(str, getattr(table, "columns", ()))) or tuple(f"x{k}" for k in range(width))
    return OwnData(
        data.name, train, test, names, data.class_names, "X and y that were given", checksum=checksum, width=width
    )


def _in_order(part: Part) -> Part:
    """Return a part whose rows are known by their numbers in the table."""
    numbers = part.features[:, 0].astype(int)
    named = np.array_equal(part.ids, part.rows)  # no identifiers were given
    return replace(part, rows=numbers, ids=numbers if named else part.ids)


def _joined(table: Any, labels: np.ndarray, test: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return the table and the labels with the test part, and which rows are of it; None where it is to be drawn."""
    require(labels.ndim == 1, f"y must be one label for each row, got shape {labels.shape}.")
    empty = labels != labels if labels.dtype.kind == "f" else np.array([_is_empty(label) for label in labels.tolist()])
    require(
        not np.any(empty),
        f"y has {np.sum(empty)} empty labels, the first in row {np.argmax(empty)}; leave those rows out.",
    )
    whole = labels.dtype.kind != "f" or bool(np.all(labels % 1 == 0))
    require(
        whole, "y must be classes, but has numbers that are not whole; is it a regression target? Cut it into classes."
    )
    if test is None:
        return table, labels, None
    if not isinstance(test, tuple):
        mask = np.asarray(test)
        right = mask.dtype == bool and mask.shape == labels.shape
        require(right, f"test must be (X_test, y_test), or True or False for each of the {len(labels)} rows of y.")
        return table, labels, mask
    require(len(test) == 2, f"test must be (X_test, y_test), got {len(test)} things.")
    others, truth = test[0], np.asarray(test[1])
    is_test = np.arange(len(labels) + len(truth)) >= len(labels)
    return _stacked(table, others), np.concatenate([labels, truth]), is_test


def _is_empty(label: Any) -> bool:
    """Whether a label is missing: None, not a number, or pandas' own mark."""
    return (
        label is None or type(label).__name__ in ("NAType", "NaTType") or (isinstance(label, float) and label != label)
    )


def _by_rows(table: Any) -> Any:
    """Return a table whose rows can be taken by their numbers: a sparse matrix of any format as one of rows."""
    return table.tocsr() if hasattr(table, "tocsr") else table


def _stacked(first: Any, second: Any) -> Any:
    """Return two tables of one kind as one."""
    second = _by_rows(second)
    same = type(first) is type(second)
    require(same, f"X_test must be of the kind of X, got {type(second).__name__} and {type(first).__name__}.")
    kind = type(first).__module__.partition(".")[0]
    if kind in ("pandas", "polars"):
        library = __import__(kind)
        return (
            library.concat([first, second], ignore_index=True) if kind == "pandas" else library.concat([first, second])
        )
    if kind == "scipy":
        from scipy.sparse import vstack

        return vstack([first, second], format="csr")
    return np.concatenate([np.asarray(first), np.asarray(second)])


def _group_values(groups: Groups | None, table: Any) -> dict[str, np.ndarray]:
    """Return the groups by name; names alone are of columns of the table."""
    if groups is None:
        return {}
    if isinstance(groups, Mapping):
        return {str(name): np.asarray(values) for name, values in groups.items()}
    names = [groups] if isinstance(groups, str) else list(groups)
    columns = [str(column) for column in getattr(table, "columns", ())]
    for name in names:
        if name not in columns:
            raise unknown_name("group: a column of X", name, columns) if columns else _no_columns(name)
    return {name: np.asarray(table[name]) for name in names}


def _no_columns(name: str) -> SeedscopeError:
    """Return the error that a table without named columns was asked for one."""
    return SeedscopeError(f"groups must be values by name: X has no column {name!r}, it is no data frame.")


def _ordered(groups: Mapping[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
    """Return the groups' values in an order of the rows; wrong lengths are left for the data set to refuse."""
    return {name: values[order] if len(values) == len(order) else values for name, values in groups.items()}
