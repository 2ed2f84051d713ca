"""The two neighbour relations, in code and in words, and the coordinate of the data set itself."""

from __future__ import annotations

from typing import Literal

Relation = Literal["replace_one", "add_or_remove"]
RELATIONS: tuple[Relation, ...] = ("replace_one", "add_or_remove")
RELATION_WORDS: dict[Relation, str] = {
    "replace_one": "one person replaced by another (replace-one)",
    "add_or_remove": "one person added or taken out (add-or-remove)",
}
DELTA = 1e-6  # unless another is given: a public constant, as what follows from the number of rows would tell it
BASE = -1  # the neighbour coordinate of the data set itself
