"""Shows the examples of docstrings as code: a doctest needs no heading of its own in our docstrings."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*\n(?:.+\n)*)+", re.MULTILINE)  # from the first prompt to the next empty line


class Doctests(griffe.Extension):
    """Puts fences around the examples of every docstring."""

    def on_instance(self, *, node: ast.AST | griffe.ObjectNode, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of an object that was just read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    """Return a docstring whose examples are fenced code."""
    return EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}```\n", docstring + "\n")
