"""What GLA trained and looked at, and how much of it is done at each scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import seedscope as ss
from seedscope.models import ResNet

DELTA, CLIPPING_NORM, ORDER = 1e-5, 1.0, 8
EPSILON, BATCH_SIZE = 10.0, 128  # of the main cell, from which the others differ in one choice
ORDERS = (2, 4, 8, 16, 32, 64)
RUN_ORDERS = (1.5, 1.75, 2.0, 2.2, 2.4, 2.7, 3.0, 4.0, 8.0, 16.0, 32.0)  # over which a whole run's ε is minimised
HEADLINE_ORDERS = (2.0, 8.0, 32.0)  # at which a whole run's divergence is shown over the data-independent one
STATES_PER_EPOCH = 8  # at which norms are looked at: the first epoch spends most, and states change fast there
STAGES = ("initial", "middle", "final")

MODELS: dict[str, Callable[[], Any]] = {
    "LeNet-5": ss.lenet5,
    "tanh LeNet-5": lambda: replace(ss.lenet5(), activation="tanh", pool="average"),  # as the authors have it
    "small CNN": ss.small_cnn,
    "MLP": lambda: ss.mlp(64),
    "ResNet-20": ss.resnet20,
    "narrow ResNet-8": lambda: ResNet(blocks=1, channels=(8, 16, 32), groups=8),
    "small VGG": ss.small_vgg,
}


@dataclass(frozen=True)
class Cell:
    """Runs of one kind: a network, the ε that their noise is calibrated to, and the expected batch size."""

    model: str
    epsilon: float = EPSILON
    batch_size: int = BATCH_SIZE

    @property
    def name(self) -> str:
        """The cell in words that a folder can have."""
        return f"{self.model.lower().replace(' ', '-')}-eps{self.epsilon:g}-batch{self.batch_size}"


@dataclass(frozen=True)
class Sweep:
    """What is trained of one data set, and how much is looked at.

    `points` test rows are followed; `people` training rows are left out, one at a time, to see both directions;
    `batches` are sampled at each stage for the mean rule, of which `tuple_batches` on either side enter Theorem 3.6;
    its orders up to 64 are of the first `high_order_points`, from more batches of the main cell.
    """

    data: str
    rows: int | None  # the first training rows, this many; None: all
    epochs: int
    runs: int
    rate: float
    points: int
    people: int
    batches: int
    models: tuple[str, ...]
    epsilons: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    tuple_batches: int = 20
    high_order_points: int = 50

    @property
    def main(self) -> Cell:
        """The cell from which the others differ in one choice."""
        return Cell(self.models[0])

    @property
    def cells(self) -> list[Cell]:
        """Every cell once, the main one first."""
        varied = [replace(self.main, epsilon=epsilon) for epsilon in self.epsilons]
        varied += [replace(self.main, batch_size=batch_size) for batch_size in self.batch_sizes]
        varied += [replace(self.main, model=model) for model in self.models]
        return list(dict.fromkeys([self.main, *varied]))

    def load(self) -> ss.Dataset:
        """Return the data: the first training rows, and the followed points as test part, of which one is spare."""
        data = ss.load(self.data)
        train = data.train if self.rows is None else data.train.take(slice(self.rows))
        return replace(data, train=train, test=data.test.take(slice(self.points)), spare=("test", 0))

    def mechanism(self, cell: Cell, examples: int) -> ss.DPSGD:
        """Return the DP-SGD of a cell."""
        steps = round(self.epochs * examples / cell.batch_size)
        return ss.DPSGD.calibrated(
            cell.epsilon, DELTA, examples=examples, batch_size=cell.batch_size, steps=steps, learning_rate=self.rate,
            clipping_norm=CLIPPING_NORM,
        )  # fmt: skip


SWEEPS = {
    ("mnist", "small"): Sweep(
        "mnist", 2500, 8, 2, 1.0, 200, 2, 24, ("LeNet-5", "tanh LeNet-5", "MLP"), (1.0, 10.0, 100.0), (64, 128), 12, 12,
    ),
    ("mnist", "paper"): Sweep(
        "mnist", None, 10, 10, 0.5, 500, 10, 100, ("LeNet-5", "tanh LeNet-5", "small CNN", "MLP"),
        (1.0, 3.0, 10.0, 30.0, 100.0),
        (16, 32, 64, 128, 256, 512),
    ),
    ("cifar10-small", "small"): Sweep(
        "cifar10-small", 500, 3, 2, 1.0, 100, 0, 16, ("narrow ResNet-8",), (10.0,), (128,), 8, 8,
    ),
    ("cifar10-small", "paper"): Sweep(
        "cifar10-small", None, 200, 10, 0.5, 500, 0, 100, ("ResNet-20", "small VGG", "LeNet-5"),
        (1.0, 3.0, 10.0, 30.0, 100.0), (16, 32, 64, 128, 256),
    ),
}  # fmt: skip
