"""A user's own model as a mechanism: a name, words for the report, and a text that tells it from another."""

from __future__ import annotations

import hashlib
import inspect
import sys
from typing import Any

import numpy as np

from seedscope.integrations.seeding import seeded
from seedscope.integrations.training import packed

SHOWN = 300  # characters of an estimator on the page


def estimator_label(estimator: Any) -> str:
    """Return an estimator's name; a pipeline's is that of its last step, a search's that of what it searches.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> estimator_label(make_pipeline(StandardScaler(), SVC()))
    'SVC'
    """
    steps = getattr(estimator, "steps", None)
    if steps:
        return estimator_label(steps[-1][1])
    return type(estimator).__name__


def estimator_words(estimator: Any) -> str:
    """Return an estimator as it is written, on one line."""
    text = " ".join(repr(estimator).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def estimator_settings(estimator: Any) -> str:
    """Return a text that is equal for two estimators that are fitted alike; their random states are not among it."""
    import joblib

    plain = seeded(estimator, np.random.default_rng(0))
    try:
        digest = str(joblib.hash(plain))
    except Exception:  # such as a function without a name in it
        digest = hashlib.sha256(packed(plain)).hexdigest()[:32]
    return f"{type(estimator).__name__} {digest[:16]}, {_version(type(estimator))}"


def function_settings(function: Any) -> str:
    """Return a text that is equal for two functions with the same code; what they refer to is not among it."""
    try:
        code = inspect.getsource(function)
    except (OSError, TypeError):
        code = repr(getattr(function, "__code__", type(function)).__class__) + function_name(function)
    return f"{function_name(function)} {hashlib.sha256(code.encode()).hexdigest()[:16]}"


def function_name(function: Any) -> str:
    """Return a function's name."""
    name = str(getattr(function, "__name__", type(function).__name__))
    return "train" if name == "<lambda>" else name


def _version(kind: type) -> str:
    """Return the package that a class comes from, with its version where it has one."""
    package = kind.__module__.partition(".")[0]
    return f"{package} {getattr(sys.modules.get(package), '__version__', '')}".strip()
