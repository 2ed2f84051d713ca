"""How results show themselves: in a line, and as a small table in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape
from typing import Any

from seedscope.core.number import Number


class Shown(ABC):
    """Base of results that say in a few words what they found: `repr` is a line, a notebook shows a table."""

    @abstractmethod
    def summary(self) -> Mapping[str, Any]:
        """Return what matters most, by name, in order."""

    def __repr__(self) -> str:
        said = ", ".join(f"{name} {_text(value)}" for name, value in self.summary().items())
        return f"{type(self).__name__}({said})"

    def _repr_html_(self) -> str:
        """The same as a table, for a notebook."""
        cells = [(escape(name), escape(_text(value))) for name, value in self.summary().items()]
        left = "style='text-align:left'"
        rows = "".join(f"<tr><th {left}>{name}</th><td {left}>{value}</td></tr>" for name, value in cells)
        return f"<table><caption>{escape(type(self).__name__)}</caption>{rows}</table>"


def _text(value: Any) -> str:
    """Return a value as people read it: numbers with their kind, counts with their thousands apart.

    >>> _text(1234), _text(Number(0.5, "estimate")), _text(None)
    ('1,234', '0.5 (estimate)', 'not known')
    """
    if isinstance(value, Number):
        return str(value)
    if value is None:
        return "not known"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
