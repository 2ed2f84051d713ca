"""Images of the most and the least exposed people, and what an attacker who knows everything else makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from seedscope.analyses.reconstruction import attack_reconstructions
from seedscope.auditing.levels import Level
from seedscope.auditing.records import person_places
from seedscope.core import BASE, data_uri, last_step, varied_init
from seedscope.datasets import Dataset, FittedScaling, image_shape
from seedscope.storage import Ensemble

SHOWN = 4  # of the most exposed, and of the least
CHANNELS = (1, 3)  # that a picture can have
GUESSED = (
    "Each guess is made from one release by an attacker who knows all other records, every label and the training, and "
    "is cut at the darkest and the brightest pixel of the data; if rows were shortened their lengths count as known. "
    "Under it is the mean squared error of a pixel, the brightest being 1. Another release gives another guess."
)
NOT_GUESSED = "No guess is shown: it is made from logistic regression of two classes that is released with noise."


def pictures(levels: Sequence[Level], data: Dataset | None) -> dict[str, Any] | None:
    """Return images of people with the guesses at each level, as plain values; None where people are no images.

    Who is shown is chosen at the level that leaves the least of what is unknown about somebody.
    """
    shape = None if data is None else image_shape(data)
    chosen = _most_exposing(levels)
    if data is None or shape is None or shape[2] not in CHANNELS or chosen is None:
        return None
    people = _shown(chosen)
    rows = np.argsort(person_places(data))[np.searchsorted(np.sort(person_places(data)), people)]
    records = np.asarray(data.base.features, float)[rows].reshape(-1, *shape)
    ends = float(np.min(data.base.features)), float(np.max(data.base.features))
    guessed = [guesses for level in levels if (guesses := _guesses(level, data, rows, records, ends)) is not None]
    names = chosen.ensemble.texts("person_id")[people].tolist()
    exposed = ["most exposed"] * SHOWN + ["least exposed"] * SHOWN
    return {
        "people": [{"person": name, "exposed": words} for name, words in zip(names, exposed, strict=True)],
        "records": [data_uri(_between(record, ends)) for record in records],
        "guesses": guessed,
        "note": GUESSED if guessed else NOT_GUESSED,
    }


def _most_exposing(levels: Sequence[Level]) -> Level | None:
    """Return the level that leaves the least about somebody, if enough people have numbers of their own."""
    known = [
        (float(bounds.left[0].min()), k)
        for k, level in enumerate(levels)
        if (bounds := level.reconstruction) is not None and bounds.left is not None and len(bounds.people) >= 2 * SHOWN
    ]
    return levels[min(known)[1]] if known else None


def _shown(level: Level) -> np.ndarray:
    """Return the places on the person axis of the most exposed, then of the least."""
    bounds = level.reconstruction
    assert bounds is not None
    assert bounds.left is not None  # it was chosen by it
    order = np.argsort(bounds.left[0], kind="stable")
    people: np.ndarray = bounds.people[np.append(order[:SHOWN], order[-SHOWN:])]
    return people


def _guesses(
    level: Level, data: Dataset, rows: np.ndarray, records: np.ndarray, ends: tuple[float, float]
) -> dict[str, Any] | None:
    """Return one level's guesses of these rows of the base; None where its release cannot be attacked like this."""
    penalties = _penalties(level.ensemble, data)
    if penalties is None or data.classes != 2:
        return None
    released = last_step(varied_init(level.ensemble.dataset["weights"].sel(neighbour=BASE))).isel(seed=0).values
    fitted = level.ensemble.scaling.fit(data)
    raw = np.asarray(data.base.features, float)
    scaled = np.asarray(fitted.apply(raw), float).reshape(len(raw), -1)
    made = attack_reconstructions(scaled, data.base.labels, released, penalties, rows)
    unscaled = _unscaled(made, scaled[rows], raw.reshape(len(raw), -1)[rows], fitted)
    cut = np.clip(np.nan_to_num(unscaled, nan=ends[0], posinf=ends[1], neginf=ends[0]), *ends).reshape(records.shape)
    errors = (((cut - records) / (ends[1] - ends[0])) ** 2).mean(axis=(1, 2, 3))
    return {
        "label": level.label,
        "pictures": [data_uri(_between(guess, ends)) for guess in cut],
        "errors": errors.tolist(),
    }


def _penalties(ensemble: Ensemble, data: Dataset) -> np.ndarray | float | None:
    """Return λ of each weight of the mean loss, of a logistic regression that is released with noise; else None."""
    mechanism, conditions = ensemble.mechanism, ensemble.description.conditions
    objective = mechanism.noisy_objective(conditions)
    if objective is not None:
        penalties: np.ndarray = objective.penalties(len(data.feature_names) + 1) / len(data.base)
        return penalties
    regression = mechanism.regression(data, ensemble.scaling.fit(data))
    return None if regression is None else regression.l2


def _unscaled(guesses: np.ndarray, scaled: np.ndarray, raw: np.ndarray, fitted: FittedScaling) -> np.ndarray:
    """Return guesses of scaled rows in the data's own units, the lengths of shortened rows being known."""
    before = replace(fitted, norm_bound=None).apply(raw)
    long, short = (np.linalg.norm(rows, axis=1, keepdims=True) for rows in (before, scaled))
    longer = np.divide(long, short, out=np.ones_like(long), where=short > 0)
    unscaled: np.ndarray = guesses * longer * fitted.deviation + fitted.mean
    return unscaled


def _between(image: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    """Return an image's pixels as shares of the way from the darkest to the brightest of the data."""
    shares: np.ndarray = (image - ends[0]) / (ends[1] - ends[0])
    return shares
