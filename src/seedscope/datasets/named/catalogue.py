"""The data sets that have a name: what each is, its size and terms, and how it is built.

A new set is one entry here, one function that builds it, and, if it is downloaded, one recipe in `originals`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seedscope.core import SeedscopeError, unknown_name
from seedscope.datasets.dataset import Dataset
from seedscope.datasets.named import downloads as storage
from seedscope.datasets.named import image_sets, originals, small_sets, tabular_sets

_UCI = "UCI, CC BY 4.0"
_CIFAR = "cite Krizhevsky 2009"


@dataclass(frozen=True)
class Entry:
    """A named set: its summary, rows (train, validation, test), features and terms, and how it is built.

    `file` is the compact file that `build` reads and `recipe` the name of the recipe that makes it; for a set that is
    always there both are empty, and `at_hand` says why.
    """

    name: str
    summary: str
    rows: tuple[int, int, int]
    features: tuple[int, ...]
    terms: str
    build: Callable[..., Dataset]
    file: str = ""
    recipe: str = ""
    at_hand: str = ""

    @property
    def source(self) -> str:
        """Where the set's file comes from, in words."""
        return f"{self.file}, made from " + ", ".join(
            original.url for original in originals.RECIPES[self.recipe].originals
        )

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options that `load` takes for this set."""
        parameters = inspect.signature(self.build).parameters.values()
        return tuple(parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Description:
    """What a list of data sets shows: `rows` are train, validation and test; `where` is the place the set is now."""

    name: str
    summary: str
    rows: tuple[int, int, int]
    features: tuple[int, ...]
    terms: str
    where: str
    options: tuple[str, ...]


_ENTRIES = (
    Entry(
        "breast-cancer",
        "tumours, malignant or benign",
        (426, 0, 143),
        (30,),
        _UCI,
        small_sets.breast_cancer,
        at_hand="embedded",
    ),
    Entry(
        "digits", "handwritten digits, 8 × 8 pixels", (1347, 0, 450), (64,), _UCI, small_sets.digits, at_hand="embedded"
    ),
    Entry(
        "digits-binary", "the digits 3 and 8", (267, 0, 90), (64,), _UCI, small_sets.digits_binary, at_hand="embedded"
    ),
    Entry(
        "synthetic", "two Gaussian clouds", (2000, 0, 20_000), (2,), "none", small_sets.synthetic, at_hand="generated"
    ),
    Entry(
        "mnist",
        "handwritten digits, images",
        (60_000, 0, 10_000),
        (28, 28, 1),
        "CC BY-SA 3.0",
        image_sets.mnist,
        "mnist.npz",
        "mnist",
    ),
    Entry(
        "mnist-binary",
        "the digits 3 and 5, reduced",
        (10_397, 1_155, 1_902),
        (50,),
        "CC BY-SA 3.0",
        image_sets.mnist_binary,
        "mnist.npz",
        "mnist",
    ),
    Entry(
        "adult",
        "census, income above 50,000",
        (29_305, 3_256, 16_281),
        (100,),
        _UCI,
        tabular_sets.adult,
        "adult.csv.gz",
        "adult",
    ),
    Entry(
        "forest",
        "forest cover, spruce or pine",
        (378_783, 42_086, 74_272),
        (49,),
        _UCI,
        tabular_sets.forest,
        "covtype.npz",
        "covertype",
    ),
    Entry(
        "cifar2",
        "airplanes and birds",
        (9_000, 1_000, 2_000),
        (50,),
        _CIFAR,
        image_sets.cifar2,
        "cifar2.npz",
        "cifar10",
    ),
    Entry(
        "cifar10-small",
        "a part of CIFAR-10, images",
        (15_000, 0, 3_000),
        (32, 32, 3),
        _CIFAR,
        image_sets.cifar10_small,
        "cifar10-small.npz",
        "cifar10",
    ),
    Entry(
        "credit",
        "credit applications, approved",
        (489, 0, 164),
        (46,),
        _UCI,
        tabular_sets.credit,
        "uci/credit-approval.csv",
        "credit",
    ),
    Entry(
        "contraception",
        "couples without contraception",
        (1_104, 0, 369),
        (9,),
        _UCI,
        tabular_sets.contraception,
        "uci/contrac.csv",
        "contraception",
    ),
    Entry(
        "mammography",
        "masses, malignant or benign",
        (622, 0, 208),
        (5,),
        _UCI,
        tabular_sets.mammography,
        "uci/mammo.csv",
        "mammography",
    ),
    Entry(
        "dermatology",
        "skin diseases, psoriasis or not",
        (268, 0, 90),
        (34,),
        _UCI,
        tabular_sets.dermatology,
        "uci/dermatology.csv",
        "dermatology",
    ),
    Entry(
        "german-credit",
        "loans, good or bad",
        (750, 0, 250),
        (59,),
        _UCI,
        tabular_sets.german_credit,
        "uci/german-credit.csv",
        "german-credit",
    ),
    Entry(
        "heart",
        "heart disease, Cleveland",
        (222, 0, 75),
        (13,),
        _UCI,
        tabular_sets.heart,
        "uci/heart-cleveland.csv",
        "heart",
    ),
)
CATALOGUE = {entry.name: entry for entry in _ENTRIES}


def names() -> tuple[str, ...]:
    """Return the names that `load` knows.

    >>> names()[:4]
    ('breast-cancer', 'digits', 'digits-binary', 'synthetic')
    """
    return tuple(CATALOGUE)


def load(name: str, **options: Any) -> Dataset:
    """Return a named data set, prepared as the paper that uses it did.

    What is not there yet is downloaded once, checked, and kept in the cache. `names()` lists the sets, `describe(name)`
    says where one is and which options it takes (`load("mnist-binary", features="crop")`).

    >>> load("breast-cancer")
    Dataset('breast-cancer': 426 train, 143 test, 30 features, 2 classes)
    """
    entry = _entry(name)
    for option in options:
        if option not in entry.options:
            raise unknown_name(f"option of {name}", option, entry.options or ("none",))
    path = storage.obtain(originals.RECIPES[entry.recipe], entry.file) if entry.file else None
    data = entry.build(path, **options)
    _require_whole(entry, data, path)
    return replace(data, source=entry.source) if entry.file else data


def describe(name: str) -> Description:
    """Return what the named set is, how large, on which terms, and where it is now.

    >>> describe("synthetic").where
    'generated'
    """
    entry = _entry(name)
    place = storage.find(entry.file) if entry.file else None
    where = entry.at_hand or (str(place) if place else "not fetched")
    return Description(entry.name, entry.summary, entry.rows, entry.features, entry.terms, where, entry.options)


def fetch(name: str, force: bool = False) -> Path:
    """Return the path of the named set's file, downloaded first if it is not there (or with `force`, in any case)."""
    entry = _entry(name)
    if not entry.file:
        raise SeedscopeError(f"data set {name!r} is always there; nothing has to be fetched.")
    return storage.obtain(originals.RECIPES[entry.recipe], entry.file, force)


def _entry(name: str) -> Entry:
    """Return the set's entry; raise if the name is unknown."""
    if name not in CATALOGUE:
        raise unknown_name("data set", name, CATALOGUE)
    return CATALOGUE[name]


def _require_whole(entry: Entry, data: Dataset, path: Path | None) -> None:
    """Raise if a file has more or fewer rows than the set."""
    rows = len(data.train) + len(data.test) + (len(data.validation) if data.validation else 0)
    if path is not None and rows != sum(entry.rows):
        raise storage.damaged(path, f"{rows} rows where {sum(entry.rows)} are expected")
