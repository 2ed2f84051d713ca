"""Deletion requests, one after another: for how long may the released model stay? (GLA §5.4)

P = A(D_0) is the law of the released model, A(D_t) that of training on what is left after t requests. The first request
costs D_α(P‖A(D_1)); a later one, for every γ > α (Hölder's inequality; Mironov 2017, Proposition 11),

    D_α(P‖A(D_t)) ≤ (α(γ−1)/(γ(α−1))) · D_γ(P‖A(D_{t−1})) + D_{α(γ−1)/(γ−α)}(A(D_{t−1})‖A(D_t)),

the first term bounded in the same way. The smallest over all γ counts; GLA take γ = 2α, so that orders double with each
request. A request that breaks the budget means training again, after which P is the law of the new model. The promise
holds for requests that were chosen without seeing the model.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import Kind, Number, require, require_positive

GRID = 400  # orders at which a chain of requests is bounded
KNOWN, LARGEST_RATIO, MOST_DOUBLINGS = 33, 4.0, 3  # orders of a person's divergence, and how far they reach


@dataclass(frozen=True, eq=False)
class Divergence:
    """A person's Rényi divergence D_α(trained with‖without) at some orders; in between the next larger order counts.

    >>> curve = Divergence([2.0, 4.0], [0.1, 0.3])
    >>> curve.at(3.0), curve.at(5.0)
    (0.3, inf)
    """

    orders: ArrayLike
    values: ArrayLike
    kind: Kind = "estimate"

    def __post_init__(self) -> None:
        orders, values = np.asarray(self.orders, float), np.asarray(self.values, float)
        require(orders.shape == values.shape and orders.ndim == 1, "orders and values must be of one length.")
        require(np.all(np.diff(orders) > 0), "orders must rise.")
        require(values >= 0, "divergences must be at least 0 and not NaN.")
        largest_below = np.maximum.accumulate(values)  # a divergence grows with its order: a bound may not fall
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "values", largest_below)

    def at(self, order: float) -> float:
        """Return a bound at the order: the value at the smallest order given that is not below it."""
        return float(self.at_all(np.array([order]))[0])

    def at_all(self, orders: np.ndarray) -> np.ndarray:
        """Return bounds at orders of any shape, infinite beyond the largest one given."""
        places = np.searchsorted(np.asarray(self.orders), orders * (1 - 1e-12))
        bounds: np.ndarray = np.append(np.asarray(self.values), np.inf)[places]
        return bounds


@dataclass(frozen=True)
class Decision:
    """What happens to one request: whether the model stays, and the divergence from training without the person.

    `divergence` is D_α(released model‖trained on what is left) if it stays; after training again it is 0 and
    `refused` the value that was too large.
    """

    person: Hashable
    kept: bool
    divergence: Number
    refused: float | None = None


@dataclass(frozen=True, eq=False)
class UnlearningSchedule:
    """Which deletion requests can be honoured without training again, within a budget β at order α.

    `kept` are the divergences of the requests since the model was last trained. The schedule is a value: `request`
    returns the decision and the schedule after it.

    >>> orders = orders_needed(2.0, requests=3)
    >>> curve = Divergence(orders, 0.01 * orders)                      # Gaussian: two of them are truly 4 · 0.02 apart
    >>> schedule = UnlearningSchedule(order=2.0, budget=0.1)
    >>> decision, schedule = schedule.request("Ada", curve)
    >>> decision.kept, float(decision.divergence)
    (True, 0.02)
    >>> decision, schedule = schedule.request("Ben", curve)
    >>> decision.kept, round(float(decision.divergence), 3)
    (True, 0.082)
    >>> decision, schedule = schedule.request("Cem", curve)
    >>> decision.kept, len(schedule.kept)
    (False, 0)

    GLA §5.4, with the factor of the triangle inequality, and free Hölder constants.
    """

    order: float
    budget: float
    kept: tuple[Divergence, ...] = ()

    def __post_init__(self) -> None:
        require(1 < self.order < np.inf, f"order must be a finite number above 1, got {self.order}.")
        require_positive("budget", self.budget)

    def divergence(self) -> float:
        """Return the bound on D_α(released model‖trained on what is left) at the schedule's order."""
        if not self.kept:
            return 0.0
        if len(self.kept) == 1:
            return self.kept[0].at(self.order)
        orders = _order_grid(self.order, max(float(np.max(kept.orders)) for kept in self.kept))
        bounds = self.kept[0].at_all(orders)
        for later in self.kept[1:]:
            bounds = _one_more(orders, bounds, later)
        return float(bounds[0])

    def request(self, person: Hashable, divergence: Divergence) -> tuple[Decision, UnlearningSchedule]:
        """Return what happens to a request, and the schedule after it."""
        after = replace(self, kept=(*self.kept, divergence))
        total = after.divergence()
        kind: Kind = "proved" if all(kept.kind == "proved" for kept in after.kept) else "estimate"
        if total <= self.budget:
            return Decision(person, True, Number(total, kind)), after
        return Decision(person, False, Number(0.0, "proved"), total), replace(self, kept=())


def _order_grid(order: float, largest: float) -> np.ndarray:
    """Return the orders at which a chain of requests is bounded: the wanted one, and more up to the largest known."""
    return np.append(order, order * np.geomspace(1.01, max(largest / order, 1.02), GRID - 1))


def _one_more(orders: np.ndarray, bounds: np.ndarray, later: Divergence) -> np.ndarray:
    """Return the bounds at rising orders after one more request: for each order the best of all larger ones γ."""
    alpha, gamma = orders[:, None], orders[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        factor, paired = alpha * (gamma - 1) / (gamma * (alpha - 1)), alpha * (gamma - 1) / (gamma - alpha)
        total = factor * bounds + later.at_all(paired)
    smallest: np.ndarray = np.where(gamma > alpha, total, np.inf).min(axis=1) * (1 + 1e-12)
    return smallest


def unlearning_decisions(
    requests: Sequence[tuple[Hashable, Divergence]], order: float, budget: float
) -> tuple[Decision, ...]:
    """Return the decision for each request (person, divergence), in the order in which they came.

    >>> curve = Divergence([2.0, 4.0], [0.1, 0.2])
    >>> [one.kept for one in unlearning_decisions([("Ada", curve), ("Ben", curve)], order=2.0, budget=0.45)]
    [True, False]
    """
    schedule, decisions = UnlearningSchedule(order, budget), []
    for person, divergence in requests:
        decision, schedule = schedule.request(person, divergence)
        decisions.append(decision)
    return tuple(decisions)


def orders_needed(order: float, requests: int) -> np.ndarray:
    """Return orders at which to know divergences when this many requests in a row may be kept, the wanted one first.

    >>> orders_needed(2.0, requests=1).tolist(), len(orders_needed(2.0, requests=3))
    ([2.0], 33)
    """
    if requests == 1:
        return np.array([order])
    largest = order * LARGEST_RATIO ** min(requests, MOST_DOUBLINGS)
    return np.append(order, np.geomspace(order * 1.05, largest, KNOWN - 1))
