"""What the two papers trained: data, models, hyper-parameters and the sizes of their grids."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

import seedscope as ss
from seedscope.datasets import Part
from seedscope.reproduce.comparison import paper_numbers

BINARY = ("mnist-binary", "adult", "forest", "cifar2")
IMAGES, ATTACKED, DIGITS = "mnist", "cifar10-small", "digits"
KNOWN = (*BINARY, IMAGES, DIGITS, ATTACKED)
CONVERGENCE = "Validation stop"
DROPOUT = 0.2  # of hidden units: in the authors' code, in neither paper (erratum 11)
PUBLISHED = {
    (row["place"], row["data"], row["setting"], row["quantity"]): float(row["value"])
    for row in paper_numbers("intrinsic")
}


@dataclass(frozen=True)
class Size:
    """How many seeds and data sets, the base among them, a grid has; each is trained with both initialisations."""

    seeds: int
    datasets: int

    @property
    def models(self) -> int:
        """How many models that is."""
        return 2 * self.seeds * self.datasets


SMALL = {"logistic": Size(40, 30), "mlp": Size(20, 16), "cnn": Size(4, 2)}


@dataclass(frozen=True)
class Setting:
    """One grid of a paper: what is trained on which data, and the size that the paper had."""

    data: str
    model: str  # "logistic", "mlp" or "cnn"
    learning_rate: float
    batch_size: int
    steps: int
    paper: Size
    hidden: int = 10
    features: str = ""  # another reduction of the images than the data set's own

    @property
    def name(self) -> str:
        """The name of the grid, and of the folder of its models."""
        return "-".join(filter(None, (self.data, self.features, self.model)))

    @property
    def mechanism(self) -> ss.SGD:
        """How it is trained."""
        return ss.SGD(self.learning_rate, self.batch_size, self.steps)

    @property
    def network(self) -> Any:
        """The model that is trained."""
        return {"logistic": ss.logistic(), "mlp": ss.mlp(self.hidden, dropout=DROPOUT), "cnn": ss.small_cnn()}[
            self.model
        ]

    @property
    def comparable_with_ip2(self) -> bool:
        """Whether IP2 used the same features: its CIFAR2 is an embedding by a ResNet."""
        return self.data != "cifar2"

    def size(self, scale: str) -> Size:
        """Return the size of the grid at a scale, "small" or "paper"."""
        return self.paper if scale == "paper" else SMALL[self.model]

    def published_bound(self, examples: int) -> float:
        """Return the sensitivity bound as the papers count it, with a fraction of an epoch: no bound (erratum 7)."""
        epochs = self.steps * self.batch_size / (examples + 1)  # they count the spare row
        return 2 * epochs * math.sqrt(2) * self.learning_rate / self.batch_size

    def load(self) -> ss.Dataset:
        """Return the data, prepared as in the paper."""
        return _loaded(self.data, self.features, self.model == "cnn")


@lru_cache(maxsize=3)
def _loaded(name: str, features: str, validation: bool) -> ss.Dataset:
    """Return a data set; several parts of the study look at the same."""
    if validation:
        return ss.load(name, validation=True)
    return ss.load(name, features=features) if features else ss.load(name)


# IP1 Table 2 (CIFAR2 by principal components), sizes of IP2 Table 3. The papers' grids are ragged: its seeds and data
# sets are averages. Ours are full, with at least as many seeds, data sets and models.
SETTINGS = (
    Setting("mnist-binary", "logistic", 0.5, 32, 1850, Size(100, 99)),
    Setting("mnist-binary", "mlp", 0.5, 32, 4750, Size(138, 36)),
    Setting("adult", "logistic", 0.5, 32, 3400, Size(126, 102)),
    Setting("adult", "mlp", 0.5, 32, 1850, Size(101, 56), hidden=8),
    Setting("forest", "logistic", 1.0, 50, 8400, Size(160, 65)),
    Setting("forest", "mlp", 0.5, 50, 3500, Size(101, 56)),
    Setting("cifar2", "logistic", 0.5, 32, 2000, Size(103, 49)),
    Setting("cifar2", "mlp", 0.5, 32, 2500, Size(124, 40)),
)
# IP1 Table 5: the same as the first with other features. The paper does not say how its models are spread.
VARIANTS = (
    Setting("mnist-binary", "logistic", 0.5, 32, 1850, Size(100, 74), features="random-projection"),
    Setting("mnist-binary", "logistic", 0.5, 32, 1850, Size(50, 50), features="crop"),
)
CONVOLUTIONAL = Setting(IMAGES, "cnn", 0.1, 32, 1000, Size(40, 40))  # IP1 D.3


@dataclass(frozen=True)
class Attack:
    """The membership attack of IP2 §8: this many models of one network, attacked at several steps."""

    data: str = ATTACKED
    learning_rate: float = 0.1
    batch_size: int = 32
    steps: tuple[int, ...] = (2000, 4000, 8000)
    seeds: int = 1000
    network: Any = field(default_factory=ss.small_vgg)  # IP2 Table 8
    rows: int = 13_500  # of the training part that are trained on; those left out are non-members, with the test part

    def load(self) -> ss.Dataset:
        """Return the data: the first training rows, which are in no order, and everybody else as test part."""
        data = ss.load(self.data)
        parts = data.train.take(slice(self.rows, None)), data.test
        others = Part(
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.rows for part in parts]),
        )
        return replace(data, train=data.train.take(slice(self.rows)), test=others)


# One of the paper's T on a few networks: what the paper has a thousand of, and one core takes two minutes for each.
FEW_NETWORKS = Attack(steps=(2000,), seeds=8)
# The same attack in seconds: few digits of 8 × 8 pixels, which come with the library, learned by heart.
SMALL_ATTACK = Attack(DIGITS, 0.1, 32, (100, 400, 1600), 200, ss.mlp(64), rows=300)
