"""A plan's model where the user's own code is the model: a name, and nothing that our engine could train."""

from __future__ import annotations

from dataclasses import dataclass

from seedscope.models import Model


@dataclass(frozen=True)
class OwnNetwork(Model):
    """The name of a model that only the user's own code can make."""

    name: str

    def __repr__(self) -> str:
        return self.name
