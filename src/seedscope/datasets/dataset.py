"""The data a model is trained on: encoded rows in parts, the spare example, and where they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from seedscope.core import require
from seedscope.datasets.fill_values import Imputation
from seedscope.datasets.reading import Reading


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a data set: features [row, ...], labels [row], identifiers, groups and places in the original.

    `persons` [row] numbers the people whose rows they are; None where every row is a person. `holes` [row, feature]
    are the cells that were empty and whose values come from the rows; None where there are none.
    """

    features: np.ndarray
    labels: np.ndarray
    ids: np.ndarray
    rows: np.ndarray
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    persons: np.ndarray | None = None
    holes: np.ndarray | None = None

    def __post_init__(self) -> None:
        sizes = {len(self.features), len(self.labels), len(self.ids), len(self.rows)}
        sizes |= set() if self.persons is None else {len(self.persons)}
        sizes |= {len(values) for values in self.groups.values()}
        require(len(sizes) == 1, f"features, labels, ids, rows and groups must be of one length, got {sorted(sizes)}.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def people(self) -> int:
        """How many people the rows are of."""
        return len(self) if self.persons is None else len(np.unique(self.persons))

    @property
    def most_rows(self) -> int:
        """The largest number of rows that one person has."""
        return 1 if self.persons is None else int(np.unique(self.persons, return_counts=True)[1].max(initial=1))

    def take(self, index: np.ndarray | slice) -> Part:
        """Return the rows that the index selects, in its order."""
        groups = {name: values[index] for name, values in self.groups.items()}
        persons, holes = (None if values is None else values[index] for values in (self.persons, self.holes))
        return Part(self.features[index], self.labels[index], self.ids[index], self.rows[index], groups, persons, holes)

    @property
    def unfilled(self) -> np.ndarray:
        """The features as preprocessing gets them: NaN where a cell was empty that is filled by what rows have."""
        return self.features if self.holes is None else np.where(self.holes, np.nan, self.features)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training part, a test part, and the spare example `x_0` that replaces a person in a neighbouring data set.

    Features are encoded but not scaled: a mechanism scales them when it trains. `spare` names the part and the index
    of `x_0`; where it is a training row, it is taken out of the data that models are trained on (`base`).
    `norm_bound` is the largest row norm that the preprocessing guarantees, or None where it guarantees none.
    `reading` says how a table's columns became features, where the data came from one.

    `ranges` are the features' least and largest values by public knowledge, never by looking at the rows. `learned`
    says in words what the encoding took from the rows. No person has more than `rows_per_person` training rows.
    `alone` counts the training people who are the only ones with a level of a category whose levels are learned: the
    features themselves tell that they are there. `drawn_test` is whether the test part was drawn here, rather than
    given. Where empty cells are filled by what the rows have, `imputation` is the rule: preprocessing fills them anew
    for every neighbouring data set, and `features` have the values that the training part gives.
    """

    name: str
    train: Part
    test: Part
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    source: str
    validation: Part | None = None
    norm_bound: float | None = None
    spare: tuple[str, int] = ("test", 0)
    reading: Reading | None = None
    ranges: tuple[tuple[float, float], ...] | None = None
    learned: tuple[str, ...] = ()
    rows_per_person: int = 1
    alone: int = 0
    drawn_test: bool = False
    imputation: Imputation | None = None

    def __post_init__(self) -> None:
        require(self.spare[0] in ("train", "test"), f"spare must name 'train' or 'test', got {self.spare[0]!r}.")
        require(len(self.class_names) >= 2, f"labels must have at least two classes, got {list(self.class_names)}.")

    @property
    def features(self) -> np.ndarray:
        """The training part's features."""
        return self.train.features

    @property
    def labels(self) -> np.ndarray:
        """The training part's labels, 0 … classes − 1."""
        return self.train.labels

    @property
    def test_features(self) -> np.ndarray:
        """The test part's features."""
        return self.test.features

    @property
    def test_labels(self) -> np.ndarray:
        """The test part's labels."""
        return self.test.labels

    @property
    def groups(self) -> Mapping[str, np.ndarray]:
        """The training part's groups, by name."""
        return self.train.groups

    @property
    def ids(self) -> np.ndarray:
        """The training part's row identifiers."""
        return self.train.ids

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.train.features.shape[1:]

    @cached_property
    def base(self) -> Part:
        """The rows `D` that models are trained on: the training part without the spare example."""
        part, index = self.spare
        return self.train.take(np.delete(np.arange(len(self.train)), index)) if part == "train" else self.train

    @cached_property
    def spare_example(self) -> Part:
        """The spare example `x_0`, as a part of one row."""
        part, index = self.spare
        spare: Part = getattr(self, part).take(slice(index, index + 1))
        return spare

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of everything that can change a trained model or what is reported about a person."""
        digest = self._digest((self.train, self.test))
        for part in (self.train, self.validation, self.test):
            if part is not None:
                digest.update(repr(tuple(part.groups)).encode())
                _add(digest, part.rows)
                for more in (part.persons, part.holes):
                    if more is not None:
                        _add(digest, more)
        if self.validation is not None:
            _add_part(digest, self.validation)
        return digest.hexdigest()[:16]

    @cached_property
    def former_fingerprint(self) -> str:
        """The checksum by which older versions knew the data: without validation rows, row numbers, groups' names."""
        return self._digest((self.train, self.test)).hexdigest()[:16]

    def _digest(self, parts: Iterable[Part]) -> hashlib._Hash:
        """Return the checksum so far of names and parts."""
        digest = hashlib.sha256(repr((self.name, self.feature_names, self.class_names, self.spare)).encode())
        for part in parts:
            _add_part(digest, part)
        return digest

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.train.features.shape[1:]))
        rows = f"{len(self.train)} train, {len(self.test)} test"
        return f"Dataset({self.name!r}: {rows}, {shape} features, {self.classes} classes)"


def _add_part(digest: hashlib._Hash, part: Part) -> None:
    """Add a part's rows, labels, identifiers and groups to a checksum."""
    for values in (part.features, part.labels):
        _add(digest, values)
    for texts in (part.ids, *part.groups.values()):
        digest.update("\0".join(map(str, texts.tolist())).encode())


def _add(digest: hashlib._Hash, values: np.ndarray) -> None:
    """Add an array to a checksum: its shape, its type and its values."""
    digest.update(str((values.shape, values.dtype)).encode())
    digest.update(np.ascontiguousarray(values).view(np.uint8).data)
