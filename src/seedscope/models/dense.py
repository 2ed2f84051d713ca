"""Logistic regression and networks of dense layers, as data: what they compute is in `dense_layers`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from seedscope.core import require_count, require_probability
from seedscope.models.base import Model, Network, Shape, require_activation


@dataclass(frozen=True)
class Logistic(Model):
    """Logistic regression with a bias; multinomial where there are more than two classes."""

    @property
    def convex(self) -> bool:
        return True

    def network(self, shape: Shape, classes: int) -> Network:
        from seedscope.models.dense_layers import dense_network  # JAX

        return dense_network(shape, (), classes, "relu")

    def parameters(self, shape: Shape, classes: int) -> int:
        return _dense_parameters(shape, (), classes)


@dataclass(frozen=True)
class MLP(Model):
    """A network of dense layers, by default with one hidden layer of 10 (IP1, IP2)."""

    hidden: tuple[int, ...] = (10,)
    activation: str = "relu"

    def __post_init__(self) -> None:
        for width in self.hidden:
            require_count("hidden", width)
        require_activation(self.activation)

    def network(self, shape: Shape, classes: int) -> Network:
        from seedscope.models.dense_layers import dense_network  # JAX

        return dense_network(shape, self.hidden, classes, self.activation)

    def parameters(self, shape: Shape, classes: int) -> int:
        return _dense_parameters(shape, self.hidden, classes)


@dataclass(frozen=True)
class DropoutMLP(MLP):
    """A network of dense layers that leaves out each hidden unit with the probability `dropout` while it trains.

    The mask is each example's own in each step and the same for all data sets of a seed; a released model has none. The
    authors of IP1 and IP2 train their networks with 0.2, which neither paper says.
    """

    dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        require_probability("dropout", self.dropout)

    @property
    def draws_masks(self) -> bool:
        return True

    def network(self, shape: Shape, classes: int) -> Network:
        from seedscope.models.dense_layers import with_dropout  # JAX

        return with_dropout(super().network(shape, classes), self.hidden, self.dropout)


def _dense_parameters(shape: Shape, hidden: Shape, classes: int) -> int:
    """Return how many weights and biases dense layers have; two classes have one logit."""
    widths = (math.prod(shape), *hidden, 1 if classes == 2 else classes)
    return sum((inputs + 1) * units for inputs, units in pairwise(widths))


def logistic() -> Logistic:
    """Return logistic regression: binary, or multinomial where there are more than two classes."""
    return Logistic()


def mlp(hidden: int | tuple[int, ...] = 10, activation: str = "relu", dropout: float = 0.0) -> MLP:
    """Return a dense network: one hidden layer of `hidden` units, or several for a tuple.

    With `dropout` each hidden unit is left out with that probability while training (plain SGD only).

    >>> mlp(10, dropout=0.2)
    DropoutMLP(hidden=(10,), activation='relu', dropout=0.2)
    """
    widths = hidden if isinstance(hidden, tuple) else (hidden,)
    return DropoutMLP(widths, activation, dropout) if dropout else MLP(widths, activation)
