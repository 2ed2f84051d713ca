"""What a person's record might be, as an attacker sees it who knows everything else: a few values with their chances.

A sensitive column has levels (with the population's shares), numbers (the true one among others that people have, all
alike), or it is the label. The word "record" stands for all features at once: the true row among other people's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import require, require_count, unknown_name
from seedscope.datasets import Category, Dataset, category_columns

RECORD = "record"
LABEL = "label"
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Candidates:
    """The possible records of some people [person, candidate]: encoded rows, labels, chances, and which one is true.

    `people` are their places among the rows that models are trained on.
    """

    column: str
    people: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    prior: np.ndarray
    truth: np.ndarray

    @property
    def chance(self) -> np.ndarray:
        """The chance of the best guess without the model, [person]."""
        chance: np.ndarray = self.prior.max(axis=1)
        return chance


def candidates_for(
    data: Dataset, column: str, people: ArrayLike | None = None, count: int = 10, seed: int = 0
) -> Candidates:
    """Return what the sensitive column of these people might be.

    Args:
        data: a table or images; the attacker knows all of it but the column of the person.
        column: a column's name as the table has it (a category's, a number's or the target's), or "record" for all
            features at once.
        people: places among the rows that models are trained on; default everybody.
        count: how many candidates a number or a record has; a category has its levels.
        seed: of the draw of other people's values.

    >>> import seedscope as ss
    >>> found = candidates_for(ss.load("breast-cancer"), "label", people=[0, 1])
    >>> found.rows.shape, found.labels.tolist(), found.prior[0].round(2).tolist(), found.truth.tolist()
    ((2, 2, 30), [[0, 1], [0, 1]], [0.37, 0.63], [0, 0])
    """
    places = np.arange(len(data.base)) if people is None else np.asarray(people, int)
    require_count("candidates", count, at_least=2)
    if data.features.ndim > 2:
        return _of_images(data, column, places, count, seed)
    categories = {category.name: category for category in category_columns(data)}
    if column in categories:
        return _levels(data, categories[column], places)
    encoded = {j for category in categories.values() for j in category.columns}
    numbers = [name for j, name in enumerate(data.feature_names) if j not in encoded]
    if column in numbers:
        return _numbers(data, column, places, count, seed)
    if column in target_names(data):
        return _labels(data, column, places)
    if column == RECORD:
        return _records(data, places, count, seed)
    raise unknown_name("sensitive column", column, [*categories, *numbers, *target_names(data), RECORD])


def _of_images(data: Dataset, column: str, people: np.ndarray, count: int, seed: int) -> Candidates:
    """Return what an image or its label might be; images have no columns."""
    if column in target_names(data):
        return _labels(data, column, people)
    if column == RECORD:
        return _records(data, people, count, seed)
    raise unknown_name("sensitive column of images", column, [*target_names(data), RECORD])


def target_names(data: Dataset) -> list[str]:
    """Return by which names the label is known."""
    read = () if data.reading is None else data.reading.columns
    return [*(read_column.name for read_column in read if read_column.role == "target"), LABEL]


def _levels(data: Dataset, category: Category, people: np.ndarray) -> Candidates:
    """Return the levels of a category, with their shares as chances."""
    table = _Table.of(data)
    codes = category.codes(np.asarray(data.base.features))
    shares = np.bincount(codes, minlength=len(category.levels)) / len(codes)
    several = f"the prior of {category.name!r} has one value only: there is nothing to guess."
    require((shares > 0).sum() >= 2, several, argument="sensitive")
    columns, count = list(category.columns), len(category.levels)
    rows = np.repeat(table.raw[people][:, None], count, axis=1)
    rows[:, :, columns] = _encodings(category)
    prior = np.tile(shares, (len(people), 1))
    labels = _known_labels(data, people, count)
    return Candidates(category.name, people, table.prepared(rows, people), labels, prior, codes[people])


def _encodings(category: Category) -> np.ndarray:
    """Return the features of each level, [level, column]."""
    if category.values:
        return np.array(category.values)[:, None]
    return np.eye(len(category.levels))[:, int(category.reference) :]


def _numbers(data: Dataset, column: str, people: np.ndarray, count: int, seed: int) -> Candidates:
    """Return each person's own number among others that people have, all equally likely."""
    table, place = _Table.of(data), data.feature_names.index(column)
    known = np.unique(table.raw[:, place])
    few = f"the prior of {column!r} has one value only: there is nothing to guess."
    require(len(known) >= 2, few, argument="sensitive")
    size, draw = min(count, len(known)), np.random.default_rng(seed)
    rows = np.repeat(table.raw[people][:, None], size, axis=1)
    for k, person in enumerate(people):
        other_values = known[known != table.raw[person, place]]
        rows[k, 1:, place] = draw.choice(other_values, size - 1, replace=False)
    return _alike(data, column, people, table.prepared(rows, people), size)


def _records(data: Dataset, people: np.ndarray, count: int, seed: int) -> Candidates:
    """Return each person's own features among those of others who were not trained on, all equally likely."""
    other_rows = np.asarray(data.test.features, float)
    enough = f"candidates must be at most {len(other_rows) + 1}, one more than the test part has rows, got {count}."
    require(count <= len(other_rows) + 1, enough, argument="candidates")
    draw, own = np.random.default_rng(seed), np.asarray(data.base.features, float)[people]
    rows = np.repeat(own[:, None], count, axis=1)
    for k in range(len(people)):
        rows[k, 1:] = other_rows[draw.choice(len(other_rows), count - 1, replace=False)]
    return _alike(data, RECORD, people, rows, count)


def _alike(data: Dataset, column: str, people: np.ndarray, rows: np.ndarray, count: int) -> Candidates:
    """Return equally likely candidates, the first one true."""
    prior, truth = np.full((len(people), count), 1 / count), np.zeros(len(people), int)
    return Candidates(column, people, rows, _known_labels(data, people, count), prior, truth)


def _labels(data: Dataset, column: str, people: np.ndarray) -> Candidates:
    """Return the classes, with their shares as chances; the features are known."""
    labels = data.base.labels
    rows = np.repeat(np.asarray(data.base.features, float)[people][:, None], data.classes, axis=1)
    shares = np.bincount(labels, minlength=data.classes) / len(labels)
    every_class = np.tile(np.arange(data.classes), (len(people), 1))
    return Candidates(column, people, rows, every_class, np.tile(shares, (len(people), 1)), labels[people])


def _known_labels(data: Dataset, people: np.ndarray, count: int) -> np.ndarray:
    """Return everybody's own label for all their candidates."""
    return np.repeat(data.base.labels[people][:, None], count, axis=1)


@dataclass(frozen=True, eq=False)
class _Table:
    """The rows as they were before they were scaled to a norm, where they were: with ones in 0/1 columns.

    `norms` are those to which rows were scaled, NaN for rows that are as they were.
    """

    raw: np.ndarray
    norms: np.ndarray

    @classmethod
    def of(cls, data: Dataset) -> _Table:
        """Return the table of the rows that models are trained on."""
        rows = np.asarray(data.base.features, float)
        encoded = [j for category in category_columns(data) if not category.values for j in category.columns]
        ones = rows[:, encoded].max(axis=1) if encoded else np.ones(len(rows))
        scaled = (ones > 0) & (np.abs(ones - 1) > _ROUNDING)
        raw = rows / np.where(scaled, ones, 1.0)[:, None]
        return cls(raw, np.where(scaled, np.linalg.norm(rows, axis=1), np.nan))

    def prepared(self, rows: np.ndarray, people: np.ndarray) -> np.ndarray:
        """Return people's candidates [person, candidate, feature] as the data set prepares rows."""
        norms = self.norms[people][:, None, None]
        return np.where(np.isnan(norms), rows, norms * rows / np.linalg.norm(rows, axis=-1, keepdims=True))
