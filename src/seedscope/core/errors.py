"""The one exception a user's own mistake raises, and the checks that raise it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


class SeedscopeError(ValueError):
    """A mistake that the caller can mend: one sentence with name, rule, value and remedy.

    Commands print the sentence and exit with code 2; a traceback is never shown for it. `argument` is the name of the
    argument that the remedy is about, where there is one: a command adds its own option for it.
    """

    def __init__(self, message: str = "", argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class DiskError(SeedscopeError):
    """A disk that is full, refuses, or cannot be read just now; nothing is said about what is on it."""


class OutOfMemoryError(SeedscopeError):
    """Something that does not fit into memory."""


class DamageError(SeedscopeError):
    """Files that are not what was written."""


class ClusterError(SeedscopeError):
    """A cluster that cannot be reached, has nobody in it, or was lost."""


class TrainingError(SeedscopeError):
    """Models that could not be trained though everything asked for was right."""


class SeedscopeWarning(UserWarning):
    """Something that a person should know though work goes on; commands print it as one line."""


def require(condition: Any, message: str, argument: str | None = None) -> None:
    """Raise `SeedscopeError(message, argument)` unless the condition holds: an array's everywhere, else Python's truth.

    So an empty list does not hold, while all of an empty array's values do.
    """
    holds = np.all(condition) if isinstance(condition, np.ndarray) else bool(condition)
    if not holds:
        raise SeedscopeError(message, argument)


def require_numbers(name: str, value: ArrayLike) -> np.ndarray:
    """Return the value as an array of floats, or raise where it is none of numbers: texts are not."""
    try:
        array = np.asarray(value)
        huge = array.dtype.kind == "O" and all(
            isinstance(item, Real) for item in array.ravel()
        )  # Python's own integers
        if array.dtype.kind in "USO" and not huge:
            raise TypeError
        return array.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise SeedscopeError(f"{name} must be a number, got {_shown(value)}.") from None


def require_type(name: str, value: Any, kind: type | tuple[type, ...], remedy: str) -> None:
    """Raise unless the value is of a kind; the remedy says how to come by one."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    wanted = " or ".join(wanted_kind.__name__ for wanted_kind in kinds)
    rule = f"{name} must be of type {wanted}, got {type(value).__name__} {_shown(value)}; {remedy}."
    require(isinstance(value, kinds), rule, argument=name)


def require_path(name: str, value: Any) -> None:
    """Raise unless the value is a file's or a folder's name."""
    require(isinstance(value, str | PathLike), f"{name} must be a path, got {_shown(value)}.", argument=name)


def require_positive(name: str, value: ArrayLike) -> None:
    """Raise unless every value is a finite number above 0."""
    array = require_numbers(name, value)
    require(np.isfinite(array) & (array > 0), f"{name} must be a finite number above 0, got {_shown(value)}.")


def require_probability(name: str, value: ArrayLike, *, closed: bool = False) -> None:
    """Raise unless every value is in (0, 1), or in [0, 1] if `closed`."""
    array = require_numbers(name, value)
    inside = (array >= 0) & (array <= 1) if closed else (array > 0) & (array < 1)
    require(inside, f"{name} must be in {'[0, 1]' if closed else '(0, 1)'}, got {_shown(value)}.")


def require_count(name: str, value: Any, at_least: int = 1) -> None:
    """Raise unless the value is a whole number of at least `at_least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    require(whole and value >= at_least, f"{name} must be a whole number of at least {at_least}, got {value!r}.")


def unknown_name(kind: str, name: object, known: Iterable[str]) -> SeedscopeError:
    """Return the error for a name that is not among the known ones, with the nearest one suggested."""
    names = [str(text) for text in known]
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    shown = ", ".join(" ".join(text.split()) for text in names[:30]) + (", …" if len(names) > 30 else "")
    return SeedscopeError(f"unknown {kind} {str(name)[:200]!r}.{hint} Known: {shown}.")


def _shown(value: ArrayLike) -> str:
    """Return a short text of the value for an error message."""
    try:
        text = " ".join(repr(value if np.ndim(value) == 0 else np.asarray(value)).split())
    except ValueError:  # rows of different lengths
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
