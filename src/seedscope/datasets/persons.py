"""Whose each row is: people with several rows, how many count, and a test part that shares nobody with training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from seedscope.core import require
from seedscope.datasets.columns import Column
from seedscope.datasets.dataset import Dataset, Part
from seedscope.datasets.splits import stratified_split

MOST_ROWS = "the largest number of rows of a person"


def split_by_person(labels: np.ndarray, persons: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and test rows of a stratified draw of people, by the label of each one's first row.

    >>> train, test = split_by_person(np.array([0, 0, 1, 1] * 8), np.repeat(np.arange(16), 2), 0)
    >>> len(train), len(test)
    (24, 8)
    """
    _, first = np.unique(persons, return_index=True)
    _, tested = stratified_split(labels[first], seed)
    of_test = np.isin(persons, persons[first][tested])
    return np.flatnonzero(~of_test), np.flatnonzero(of_test)


def alone_with_a_level(columns: Iterable[Column], part: Part, whole: Part) -> int:
    """Return how many of a part's people are the only ones with a level of these columns, which are of the whole."""
    owners = whole.rows if whole.persons is None else whole.persons
    _, owner = np.unique(owners, return_inverse=True)
    alone = [owner[:0], *(_only_owners(column.codes, owner) for column in columns)]
    return int(np.isin(np.unique(np.concatenate(alone)), owner[np.isin(whole.rows, part.rows)]).sum())


def _only_owners(codes: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Return the owners of codes that nobody else has."""
    pairs = np.unique(np.stack([codes, owner], axis=1), axis=0)
    _, place, owners = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    alone: np.ndarray = pairs[place[owners == 1], 1]
    return alone


def with_persons(data: Dataset, most: int | None) -> Dataset:
    """Return the data with at most this many training rows of a person, a public number; None: as many as there are.

    Which rows stay depends on nobody else: the first ones of each person. A largest number that is taken from the rows
    is learned, even where it is 1: another person could have more.
    """
    if data.train.persons is None:
        require(most is None, "rows_per_person needs person: the column that says whose a row is.", argument="person")
        return data
    places = _place_among_own(data.train)
    if most is None:
        learned = tuple(dict.fromkeys([*data.learned, MOST_ROWS]))
        return replace(data, rows_per_person=int(places.max()) + 1, learned=learned)
    require(most >= 1, f"rows_per_person must be at least 1, got {most}.", argument="rows_per_person")
    kept = data.train.take(np.flatnonzero(places < most))
    return replace(data, train=kept, rows_per_person=most)


def _place_among_own(part: Part) -> np.ndarray:
    """Return for each row how many rows of the same person come before it."""
    persons = np.asarray(part.persons)
    order = np.argsort(persons, kind="stable")
    starts = np.concatenate([[True], np.diff(persons[order]) != 0])
    since = np.arange(len(order)) - np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    places = np.empty(len(order), int)
    places[order] = since
    return places
