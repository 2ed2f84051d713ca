"""What a command names: an estimator as `module:name`, and a table or a named data set as X and y."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.core import SeedscopeError, require, unknown_name
from seedscope.datasets import Dataset, read_frame

TEST_MARKS = ("test", "true", "yes", "1", "1.0")


def load_estimator(text: str) -> Any:
    """Return what `module:name` names; a function or class without `fit` of its own is called for an estimator.

    >>> load_estimator("sklearn.tree:DecisionTreeClassifier")
    DecisionTreeClassifier()
    """
    module, _, name = text.partition(":")
    require(module and name, f"estimator must be module:name, such as my_module:pipeline, got {text!r}.", "estimator")
    found = _imported(module)
    if not hasattr(found, name):
        raise unknown_name(f"name in {module}", name, [one for one in dir(found) if not one.startswith("_")])
    named = getattr(found, name)
    return named() if isinstance(named, type) or (callable(named) and not hasattr(named, "fit")) else named


def _imported(module: str) -> Any:
    """Return a module, looked for in the current folder too."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(module)
    except Exception as error:  # whatever the module itself raises
        said = f"{type(error).__name__}: {error}"
        raise SeedscopeError(
            f"module {module!r} cannot be imported from here ({said}).", argument="estimator"
        ) from error


@dataclass(frozen=True, eq=False)
class Named:
    """Rows, labels, and what goes with them, as `audit_own` takes them."""

    X: Any
    y: np.ndarray
    test: np.ndarray | None
    groups: dict[str, np.ndarray]
    ids: np.ndarray | None
    name: str


def named_table(
    path: Path, target: str, groups: Sequence[str], test: str | None, id: str | None, drop_missing: bool
) -> Named:
    """Return a table's columns as they are: encoding them, and filling empty cells, is the user's own pipeline's."""
    frame, _ = read_frame(path)
    for role, column in [("target", target), *(("group", one) for one in groups), ("test column", test), ("id", id)]:
        if column is not None and column not in frame:
            raise unknown_name(role, column, list(frame.columns))
    frame = frame.dropna().reset_index(drop=True) if drop_missing else frame
    empty = [one for one in (target, *groups) if frame[one].isna().any()]
    require(not empty, f"column {empty[:1]} has empty cells; fill them first, or leave those rows out.", "drop_missing")
    aside = [one for one in (target, *groups, test, id) if one is not None]
    marks = None if test is None else np.isin(frame[test].astype(str).str.strip().str.lower(), TEST_MARKS)
    return Named(
        frame.drop(columns=aside),
        frame[target].to_numpy(),
        marks,
        {one: frame[one].to_numpy() for one in groups},
        None if id is None else frame[id].to_numpy(),
        path.stem,
    )


def named_set(data: Dataset) -> Named:
    """Return a named data set's encoded rows, a data frame where they are a table, with its own test part."""
    import pandas

    parts = (data.train, data.test)
    rows = np.concatenate([part.features for part in parts])
    X = pandas.DataFrame(rows, columns=list(data.feature_names)) if rows.ndim == 2 else rows.reshape(len(rows), -1)
    groups = {name: np.concatenate([part.groups[name] for part in parts]) for name in data.groups}
    labels = np.concatenate([part.labels for part in parts])
    is_test = np.arange(len(rows)) >= len(data.train)
    return Named(
        X, np.array(data.class_names)[labels], is_test, groups, np.concatenate([p.ids for p in parts]), data.name
    )
