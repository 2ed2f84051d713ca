"""Deletion requests, one after another: for how long may the released model stay? (GLA §5.4)

P is the law of the released model, A(D_t) that of training on what is left after t requests. The model is kept while

    ((2α−1)/(2α−2)) · D_{2α}(P‖A(D_{t−1})) + D_{2α−1}(A(D_{t−1})‖A(D_t)) ≤ β,

the first term bounded in the same way at twice the order. A request that breaks the budget means training again, after
which P is the law of the new model. The promise holds for requests that were chosen without seeing the model.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from seedscope.core import Kind, Number, require, require_positive


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
        place = int(np.searchsorted(np.asarray(self.orders), order * (1 - 1e-12)))
        values = np.asarray(self.values)
        return float(values[place]) if place < len(values) else float("inf")


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

    >>> curve = Divergence([3.0, 7.0, 15.0], [0.1, 0.25, 0.6])
    >>> schedule = UnlearningSchedule(order=2.0, budget=0.6)
    >>> decision, schedule = schedule.request("Ada", curve)
    >>> decision.kept, float(decision.divergence)
    (True, 0.1)
    >>> decision, schedule = schedule.request("Ben", curve)        # 1.5 · D_7 + D_3
    >>> decision.kept, round(float(decision.divergence), 3)
    (True, 0.475)
    >>> decision, schedule = schedule.request("Cem", curve)
    >>> decision.kept, len(schedule.kept)
    (False, 0)

    GLA §5.4, with the factor that the triangle inequality of Mironov 2017, Corollary 4 gives.
    """

    order: float
    budget: float
    kept: tuple[Divergence, ...] = ()

    def __post_init__(self) -> None:
        require(1 < self.order < np.inf, f"order must be a finite number above 1, got {self.order}.")
        require_positive("budget", self.budget)

    def divergence(self, order: float | None = None) -> float:
        """Return the bound on D_α(released model‖trained on what is left) at an order, by default the schedule's."""
        alpha = self.order if order is None else order
        if not self.kept:
            return 0.0
        *earlier, last = self.kept
        here = last.at(2 * alpha - 1)
        if not earlier:
            return here
        before = replace(self, kept=tuple(earlier)).divergence(2 * alpha)
        return (2 * alpha - 1) / (2 * alpha - 2) * before + here

    def request(self, person: Hashable, divergence: Divergence) -> tuple[Decision, UnlearningSchedule]:
        """Return what happens to a request, and the schedule after it."""
        after = replace(self, kept=(*self.kept, divergence))
        total = after.divergence()
        kind: Kind = "proved" if all(one.kind == "proved" for one in after.kept) else "estimate"
        if total <= self.budget:
            return Decision(person, True, Number(total, kind)), after
        return Decision(person, False, Number(0.0, "proved"), total), replace(self, kept=())


def unlearning_decisions(
    requests: Sequence[tuple[Hashable, Divergence]], order: float, budget: float
) -> tuple[Decision, ...]:
    """Return the decision for each request (person, divergence), in the order in which they came.

    >>> curve = Divergence([3.0], [0.1])
    >>> [one.kept for one in unlearning_decisions([("Ada", curve), ("Ben", curve)], order=2.0, budget=1.0)]
    [True, False]
    """
    schedule, decisions = UnlearningSchedule(order, budget), []
    for person, divergence in requests:
        decision, schedule = schedule.request(person, divergence)
        decisions.append(decision)
    return tuple(decisions)


def orders_needed(order: float, requests: int) -> np.ndarray:
    """Return the orders at which divergences are looked up when this many requests in a row are kept.

    >>> orders_needed(2.0, requests=3).tolist()
    [3.0, 7.0, 15.0]
    """
    return 2.0 ** np.arange(1, requests + 1) * order - 1
