"""How well anybody could reconstruct each person's record from what was released, at one privacy level."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from seedscope import mechanisms, optimizers
from seedscope.analyses.reconstruction import RecordBounds, record_bounds
from seedscope.datasets.dataset import Dataset
from seedscope.ensemble import Ensemble
from seedscope.errors import require
from seedscope.number import Kind
from seedscope.scaling import Scaling, Standardised, Unscaled


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The least mean squared error of an unbiased guess of a record, features in standard deviations [person]."""

    people: np.ndarray
    error_lower: np.ndarray
    kind: Kind
    note: str


def reconstruction(ensemble: Ensemble, data: Dataset | None) -> Reconstruction:
    """Return the bound for everybody trained on; an error says why there is none."""
    mechanism = mechanism_of(ensemble.description["mechanism"])
    guarantee = ensemble.description["guarantee"]
    require(guarantee["epsilon"] is not None, f"no bound is proved: {guarantee['reason']}")
    require(data is not None, "it needs the rows themselves; give audit(…, data=…).")
    assert data is not None
    found = record_bounds(data, mechanism, scaling_of(ensemble.description["preprocessing"]["scaling"]))
    return Reconstruction(person_places(data), standardised_error(found), found.kind, found.note)


def standardised_error(bounds: RecordBounds) -> np.ndarray:
    """Return the least mean squared error about each record, features measured by their standard deviations.

    The harmonic mean over features, as the Fisher information has it: never above the mean of their own bounds.
    """
    vary = bounds.spreads > 0
    with np.errstate(divide="ignore"):
        return 1 / ((bounds.spreads[vary] / bounds.feature_error_lower[:, vary]) ** 2).mean(axis=1)


def scaling_of(text: str) -> Scaling:
    """Return the scaling that a description names; one that is not Seedscope's own is refused.

    >>> scaling_of("Standardised(norm_bound=2.0)")
    Standardised(norm_bound=2.0)
    """
    found = re.fullmatch(r"Standardised\(norm_bound=([0-9.e+-]+)\)", text)
    require(found or text == "Unscaled()", f"no bound is known for features scaled by {text}.")
    return Standardised(float(found.group(1))) if found else Unscaled()


def person_places(data: Dataset) -> np.ndarray:
    """Return the places on an ensemble's person axis of the rows that models are trained on."""
    parts = [part for part in (data.train, data.validation, data.test) if part is not None]
    return np.searchsorted(np.sort(np.concatenate([part.rows for part in parts])), data.base.rows)


def mechanism_of(description: dict[str, Any]) -> Any:
    """Return the mechanism that an ensemble's description describes.

    >>> mechanism_of(mechanisms.describe(mechanisms.DPSGD(steps=5))) == mechanisms.DPSGD(steps=5)
    True
    """
    name = description["type"]
    kind: Any = getattr(mechanisms, name, None) or getattr(optimizers, name)
    given = {one.name: description[one.name] for one in fields(kind) if one.init and one.name in description}
    return kind(**{key: _value(one) for key, one in given.items()})


def _value(value: Any) -> Any:
    """Return an option of a mechanism from its description."""
    if isinstance(value, dict) and "type" in value:
        return mechanism_of(value)
    return tuple(map(_value, value)) if isinstance(value, list) else value
