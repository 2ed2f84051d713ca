"""Results as plain values that JSON has."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from seedscope.core.number import Number


def plain_values(value: Any, not_finite: Callable[[float], Any] = lambda _: None) -> Any:
    """Return the value made only of what JSON has: NumPy becomes Python, what is not finite becomes None.

    With `not_finite` it becomes what that makes of it.

    >>> plain_values({"rates": np.array([0.5, np.inf]), 3: (np.float32(1), "one")})
    {'rates': [0.5, None], '3': [1.0, 'one']}
    >>> plain_values([1, np.nan, -np.inf], not_finite=str)
    [1, 'nan', '-inf']
    """
    if isinstance(value, Mapping):
        return {str(key): plain_values(item, not_finite) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain_values(value.tolist(), not_finite)
    if isinstance(value, list | tuple):
        return [plain_values(item, not_finite) for item in value]
    return not_finite(value) if isinstance(value, float) and not math.isfinite(value) else value


def printable(text: str) -> str:
    """Return a text that a terminal shows and a file takes: what controls a terminal, or is no character, is escaped.

    >>> print(printable("age\\x1b[31m"), printable("caf\\udce9"))
    age\\x1b[31m caf\\udce9
    """
    kept = "\n\t"
    return "".join(
        character if character.isprintable() or character in kept else ascii(character)[1:-1] for character in text
    )


def without_places(text: str) -> str:
    """Return a path's last part, or an address's kind: where things lie is not the business of a report's readers.

    >>> without_places("/home/ada/patients.csv"), without_places("--at=runs/x"), without_places("tcp://10.0.0.1:8786")
    ('patients.csv', '--at=x', 'tcp://…')
    """
    option, equals, value = text.partition("=") if text.startswith("--") else ("", "", text)
    if "://" in value:
        value = value.split("://")[0] + "://…"
    elif "/" in value or "\\" in value:
        value = re.split(r"[/\\]", value.rstrip("/\\"))[-1]
    return printable(f"{option}{equals}{value}")


def plain_list(values: np.ndarray) -> list[Any]:
    """Return an array as a list of rounded numbers, None where it is not finite.

    >>> plain_list(np.array([1 / 3, np.nan, 2]))
    [0.333333, None, 2.0]
    """
    shortened: list[Any] = plain_values([float(f"{number:.6g}") for number in np.asarray(values, float)])
    return shortened


def number_or_none(number: Number | None) -> dict[str, Any] | None:
    """Return a number as plain values; a value that is not finite becomes null.

    >>> number_or_none(Number(math.inf, "proved", note="no bound"))
    {'value': None, 'kind': 'proved', 'note': 'no bound'}
    """
    return None if number is None else plain_values(number.as_dict() | {"value": number.value})


def as_read_back(value: Any) -> Any:
    """Return the value as JSON gives it back, so that what was written and what is meant compare equal.

    >>> as_read_back({"probes": ("test",), "size": np.int64(3), "bound": math.inf})
    {'probes': ['test'], 'size': 3, 'bound': inf}
    """
    return json.loads(
        json.dumps(value, default=lambda unknown: unknown.item() if isinstance(unknown, np.generic) else str(unknown))
    )
