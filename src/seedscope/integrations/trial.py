"""A first model of the user's own, before the grid: how long it takes, whether seeds change it, and why it fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seedscope.core import SeedscopeError, require
from seedscope.integrations.own_data import OwnData
from seedscope.integrations.training import OwnTraining

MOST_PROBES = 1000  # training rows, beside the test part, on which seeds are compared
TRIES = 6  # seeds after which predictions that were all the same count as never varying
FAILURES = 3  # of the first seeds, after which the model itself is at fault
TEXT_COLUMNS = "OUS"  # kinds of arrays that hold text or mixed values


@dataclass(frozen=True)
class Trial:
    """What trying it said: seconds for one model, and whether another seed gave another model."""

    seconds: float
    varies: bool


def tried(training: OwnTraining, data: OwnData, label: str, root_seed: int) -> Trial:
    """Return how long one model takes and whether a second seed differs; an error says why it cannot be trained."""
    rows, test = (part.features[:, 0].astype(int) for part in (data.base, data.test))
    probes = np.concatenate([test, rows[:MOST_PROBES]])
    alone = replace(training, resample="none")
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(limits=1 if alone.code is not None else None):  # as in workers; its libraries are loaded
            seconds, varies = _compared(lambda seed: alone.model(root_seed, seed, rows, probes))
    except SeedscopeError:
        raise
    except Exception as error:
        raise failure(training.table, label, error) from error
    return Trial(seconds, varies)


def _compared(model: Callable[[int], np.ndarray]) -> tuple[float, bool]:
    """Return the seconds of the quickest model (the first one also loads libraries), and whether seeds differ.

    A seed that fails is passed over: the grid names it and keeps the others. Where the first ones all fail, the error
    is raised.
    """
    first, quickest, failures = None, np.inf, 0
    for seed in range(TRIES):
        start = time.perf_counter()
        try:
            scores = model(seed)
        except SeedscopeError:
            raise
        except Exception:  # whatever the user's own code raises
            failures += 1
            if first is None and failures == FAILURES:
                raise
            continue
        quickest = min(quickest, time.perf_counter() - start)
        if first is not None and not np.array_equal(first, scores):
            return quickest, True
        first = scores
    return quickest, False


def why_it_failed(training: OwnTraining, rows: np.ndarray, root_seed: int, seed: int) -> str:
    """Return the error of a seed that failed in a worker, by training it again here."""
    try:
        training.model(root_seed, seed, rows, rows[:2])
    except Exception as error:  # whatever the user's own code raises
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return "it did not fail when it was tried again; another machine, or too little memory?"


def failure(table: Any, label: str, error: Exception) -> SeedscopeError:
    """Return the sentence for a first model that could not be trained; text without an encoder has its remedy."""
    said = " ".join(str(error).split())[:300].removesuffix(".")
    columns = text_columns(table)
    about_text = any(word in said.lower() for word in ("convert string", "string", "object", "dtype", "category"))
    if not columns or not about_text:
        return SeedscopeError(f"{label} cannot be trained on these data: {type(error).__name__}: {said}.")
    named = ", ".join(repr(column) for column in columns[:5]) + (", …" if len(columns) > 5 else "")
    encoder = (
        f"make_column_transformer((OneHotEncoder(handle_unknown='ignore'), {columns[:5]}), remainder='passthrough')"
    )
    return SeedscopeError(
        f"{label} takes only numbers, but X has text in {named}; encode it: "
        f"`encoder = {encoder}` and `estimator = make_pipeline(encoder, {label}())`."
    )


def text_columns(table: Any) -> list[Any]:
    """Return the columns of a table that hold text or mixed values; numbers of columns where they have no names.

    >>> text_columns(np.array([["a", 1]], dtype=object))
    [0, 1]
    """
    if hasattr(table, "dtypes") and hasattr(table, "columns"):
        kinds = [str(kind).lower() for kind in table.dtypes]
        return [
            name
            for name, kind in zip(table.columns, kinds, strict=True)
            if any(word in kind for word in ("object", "str", "category", "categorical", "enum"))
        ]
    kind = getattr(getattr(table, "dtype", None), "kind", "")
    return list(range(table.shape[1])) if kind in TEXT_COLUMNS and kind else []


def require_varying(trial: Trial, label: str, resample: str) -> None:
    """Raise where neither the seed nor the sample could change anything."""
    require(
        trial.varies or resample == "bootstrap",
        f"{label} gives the same predictions for every seed: its training draws no random numbers. Ask what hangs on "
        "the sample instead: resample='bootstrap'.",
        argument="resample",
    )
