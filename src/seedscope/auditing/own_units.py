"""How far off any unbiased guess of a person's features is at least, each feature in its own units: years, mm, …"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seedscope.analyses.reconstruction import RecordBounds, information_on_grid
from seedscope.core import Kind, plain_list

SHOWN_FEATURES = 30  # of a report: those of which most can be known


@dataclass(frozen=True, eq=False)
class OwnUnits:
    """The least root mean squared error of an unbiased guess [person, feature], who knows everything else.

    `spreads` are the features' standard deviations, by which always guessing the mean is off. `people` are places on
    the person axis. `exposed` is the most exposed person's place among them and `name` their identifier; where both are
    None there is one row of errors, the same for everybody.
    """

    features: tuple[str, ...]
    errors: np.ndarray
    spreads: np.ndarray
    people: np.ndarray
    kind: Kind
    exposed: int | None = None
    name: str | None = None

    @property
    def personal(self) -> bool:
        """Whether people have numbers of their own."""
        return self.exposed is not None

    @property
    def shown(self) -> np.ndarray:
        """The most exposed person's errors, or everybody's [feature]."""
        row: np.ndarray = self.errors[self.exposed or 0]
        return row

    def few(self) -> OwnUnits:
        """Return only the features that vary, and of many those of which most can be known, in the table's order."""
        vary = np.flatnonzero(self.spreads > 0)
        order = vary[np.argsort(self.shown[vary] / self.spreads[vary], kind="stable")]
        kept = np.sort(order[:SHOWN_FEATURES])
        names = tuple(self.features[j] for j in kept)
        return replace(self, features=names, errors=self.errors[:, kept], spreads=self.spreads[kept])

    def as_dict(self) -> dict[str, Any]:
        """Return the most exposed person's errors, or everybody's, as plain values."""
        rows = zip(self.features, plain_list(self.shown), plain_list(self.spreads), strict=True)
        features = [{"feature": name, "error": error, "spread": spread} for name, error, spread in rows]
        return {"person": self.name, "kind": self.kind, "features": features}


def own_units(
    bounds: RecordBounds, errors: np.ndarray, people: np.ndarray, left: np.ndarray | None, kind: Kind
) -> OwnUnits:
    """Return people's errors in own units; those of one row are everybody's.

    Args:
        bounds: of the same features.
        errors: [person, feature], or one row.
        people: their places on the person axis.
        left: the share of uncertainty left about each, which tells who is the most exposed; None: all are alike.
        kind: of the errors.
    """
    exposed = None if left is None or not len(left) else int(np.argmin(left))
    return OwnUnits(bounds.features, errors, bounds.spreads, people, kind, exposed).few()


def errors_by_trace(bounds: RecordBounds, trace: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Return each feature's least error [person, feature] where only the trace of the information is known.

    No feature has more information than all together, I_ff ≤ Tr I; and what holds for everybody holds too.

    Args:
        bounds: of the features that were traced.
        trace: of each person's information about the scaled features.
        deviations: how many own units are one of each scaled feature.
    """
    steps = np.zeros(len(bounds.features)) if bounds.steps is None else bounds.steps
    own = np.sqrt(information_on_grid(trace[:, None] / deviations**2, steps))
    larger: np.ndarray = np.maximum(own, bounds.feature_error_lower[:1])
    return larger
