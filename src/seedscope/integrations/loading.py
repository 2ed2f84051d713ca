"""What a command names: an estimator as `module:name`, and a named data set as X and y."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from seedscope.core import SeedscopeError, require, unknown_name
from seedscope.datasets import Dataset, PlainTable


def load_estimator(text: str) -> Any:
    """Return what `module:name` names; a function or class without `fit` of its own is called for an estimator.

    >>> load_estimator("sklearn.tree:DecisionTreeClassifier")
    DecisionTreeClassifier()
    """
    module, _, name = text.partition(":")
    require(module and name, f"estimator must be module:name, such as my_module:pipeline, got {text!r}.", "estimator")
    imported = _imported(module)
    if not hasattr(imported, name):
        raise unknown_name(
            f"name in {module}", name, [attribute for attribute in dir(imported) if not attribute.startswith("_")]
        )
    named = getattr(imported, name)
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


def named_set(data: Dataset) -> PlainTable:
    """Return a named data set's encoded rows, a data frame where they are a table, with its own test part."""
    import pandas

    parts = (data.train, data.test)
    rows = np.concatenate([part.features for part in parts])
    X = pandas.DataFrame(rows, columns=list(data.feature_names)) if rows.ndim == 2 else rows.reshape(len(rows), -1)
    groups = {name: np.concatenate([part.groups[name] for part in parts]) for name in data.groups}
    labels = np.concatenate([part.labels for part in parts])
    is_test = np.arange(len(rows)) >= len(data.train)
    return PlainTable(
        X, np.array(data.class_names)[labels], is_test, groups, np.concatenate([p.ids for p in parts]), data.name
    )
