"""A plan's model where the user's own code is the model: a name, and nothing that our engine could train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OwnNetwork:
    """The name of a model that only the user's own code can make; it answers what a plan asks of a `Model`.

    It is not derived from one: that would load JAX, which nobody needs who trains with another library.
    """

    name: str

    @property
    def convex(self) -> bool:
        """Whether the training loss is convex: nobody knows here."""
        return False

    def identity(self, shape: Any, classes: int) -> str:
        """Return a text that is equal for two models exactly if they train alike."""
        return self.name

    def __repr__(self) -> str:
        return self.name
