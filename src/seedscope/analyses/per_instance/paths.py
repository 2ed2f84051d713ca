"""From steps to a whole run by one Hölder step: bounds from the *sum* of a run's step divergences, no order grows.

Along a run on P's data let s_j be the person's clipped norm before step j and `S_α = Σ_j D_α(s_j)`. Given what came
before it, step j has `E_P e^(r(α−1)·l_j) ≤ e^(r(α−1)·D_α'(s_j))`, l_j its privacy loss and `α' = 1 + r(α−1)`; so the
product of `e^(r(α−1)·(l_j − D_α'(s_j)))` over the steps has a mean of at most 1, and Hölder's inequality with r and
r' = r/(r−1) leaves

    D_α(P‖Q) ≤ (1/t) ln E_P exp(t·S_α'),     t = r'(α−1) = (α'−1)(α−1)/(α'−α).

The same sums bound a run whose person would be left out as soon as their sum reaches B (a Rényi filter), and that run
differs from the true one only where S_α > B:

    P(E) ≤ P̃(E) + P(S_α > B),     D_α(P̃‖Q) ≤ B.

Both need nothing but S [run, person, order], which training can add up by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import membership_advantage, rdp_to_epsilon, true_positive_rate
from seedscope.analyses.per_instance.composition import mean_exponential
from seedscope.core import Number, require, require_probability

PATH_ORDERS = (1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0, 64.0)
ROUNDING = 1e-12  # relative; above that of the means here, so that bounds round up
PEOPLE_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class PathComposition:
    """The divergence of a whole run at one order, from the sums of runs at the path order that gives the smallest.

    `total` is an estimate from the runs; `statistical` holds at its confidence over their draw, whichever path order
    was chosen. `baseline` is the data-independent divergence; neither of the others exceeds it.
    """

    total: Number
    order: float
    path_order: float
    baseline: Number | None = None
    statistical: Number | None = None


def compose_paths(
    path_divergences: ArrayLike,
    order: float,
    path_orders: ArrayLike,
    *,
    worst: ArrayLike | None = None,
    baseline: float | None = None,
    confidence: float | None = None,
    people: int = 1,
) -> PathComposition:
    """Return the Rényi divergence of a run for one person, from sums of step divergences along independent runs.

    Like `compose_expected` it bounds D_α(P‖Q) for runs drawn from P, by one Hölder step instead of one for each step:
    the orders at which steps are counted do not grow with their number.

    Args:
        path_divergences: [run, path order], each run's sum over its steps of the step's divergence at that order.
        order: α > 1 of the result.
        path_orders: orders α' > 1, one axis; those above α are tried, and the smallest result counts.
        worst: [path order], the data-independent sums, which no run exceeds; needed for a confidence.
        baseline: the data-independent divergence at `order`, which caps the result.
        confidence: asks for `statistical`, in (0, 1); the path orders must be fixed before seeing the runs.
        people: how many people (and directions) the confidence covers at once.

    >>> sums = np.full((5, 1), 0.3)                                  # five runs that agree
    >>> round(float(compose_paths(sums, order=2.0, path_orders=[2.2]).total), 12)
    0.3
    """
    sums, alphas = _checked(path_divergences, path_orders)
    require(1 < order < np.inf, f"order must be a finite number above 1, got {order}.")
    require(alphas.max() > order, f"path_orders must have one above the order {order:g}, got {alphas.tolist()}.")
    bounds = path_bounds(sums[:, None], alphas, order)[0]
    cap = np.inf if baseline is None else baseline
    statistical = None
    if confidence is not None:
        require(worst is not None, "a confidence needs worst: it bounds what unseen runs can do.")
        upper = path_upper_bounds(sums[:, None], alphas, order, np.asarray(worst, float), confidence, people)[0]
        statistical = Number(min(float(upper.min()), cap), "statistical", confidence=confidence)
    return PathComposition(
        total=Number(min(float(bounds.min()), cap), "estimate"),
        order=order,
        path_order=float(alphas[int(np.argmin(bounds))]),
        baseline=None if baseline is None else Number(baseline, "proved"),
        statistical=statistical,
    )


def paths_rdp(path_divergences: ArrayLike, path_orders: ArrayLike, orders: ArrayLike) -> np.ndarray:
    """Return everybody's estimated divergence of a whole run [person, order], the smallest over the path orders.

    path_divergences [run, person, path order]; infinite at orders that no path order is above.

    >>> sums = np.random.default_rng(0).uniform(0.1, 0.3, size=(10, 3, 2))
    >>> paths_rdp(sums, [2.0, 4.0], [1.5, 3.0]).shape
    (3, 2)
    """
    sums, alphas = _checked(path_divergences, path_orders)
    return _smallest(sums, lambda part, order: path_bounds(part, alphas, order), orders)


def paths_rdp_upper(
    path_divergences: ArrayLike,
    path_orders: ArrayLike,
    orders: ArrayLike,
    worst: ArrayLike,
    confidence: float,
    people: int | None = None,
) -> np.ndarray:
    """Return divergences [person, order] that hold for everybody, all orders and path orders with the confidence.

    worst [path order]: the data-independent sums. people: how many people and directions the confidence covers, by
    default those given. One event covers all orders α: it is about the law of the sums.
    """
    sums, alphas = _checked(path_divergences, path_orders)
    covered, most = sums.shape[1] if people is None else people, np.asarray(worst, float)
    return _smallest(
        sums, lambda part, order: path_upper_bounds(part, alphas, order, most, confidence, covered), orders
    )


def path_bounds(sums: np.ndarray, path_orders: np.ndarray, order: float) -> np.ndarray:
    """Return (1/t) ln mean exp(t·S) [person, path order], infinite where the path order is not above the order."""
    bounds = np.full(sums.shape[1:], np.inf)
    for place in np.flatnonzero(path_orders > order):
        t = temperature(order, float(path_orders[place]))
        bounds[:, place] = mean_exponential(sums[:, :, place], np.asarray(t), axis=0) * (1 + ROUNDING)
    return bounds


def path_upper_bounds(
    sums: np.ndarray, path_orders: np.ndarray, order: float, worst: np.ndarray, confidence: float, people: int
) -> np.ndarray:
    """Return upper bounds on (1/t) ln E exp(t·S) [person, path order] that hold together with the confidence."""
    require_probability("confidence", confidence)
    above = np.flatnonzero(path_orders > order)
    error = (1 - confidence) / (2 * people * len(path_orders))  # one half for the band, one for the largest run
    bounds = np.full(sums.shape[1:], np.inf)
    for place in above:
        t = temperature(order, float(path_orders[place]))
        ordered = np.sort(np.minimum(sums[:, :, place], worst[place]), axis=0)
        bounds[:, place] = _upper_exponential(ordered, t, worst[place], error)
    return bounds


def temperature(order: float, path_order: float) -> float:
    """Return t = (α'−1)(α−1)/(α'−α): how much the mean over runs leans towards the largest sums."""
    return (path_order - 1) * (order - 1) / (path_order - order)


def _upper_exponential(ordered: np.ndarray, t: float, worst: float, error: float) -> np.ndarray:
    """Return the smaller of two upper bounds on (1/t) ln E exp(t·S) from sums [run, person] in rising order.

    The law of S lies within a one-sided band (Dvoretzky, Kiefer, Wolfowitz, Massart): the lowest share w of the runs
    may in truth be at the worst. And at most a share u lies beyond the largest run (Clopper, Pearson).
    """
    runs = len(ordered)
    width = float(np.sqrt(np.log(1 / error) / (2 * runs)))
    weights = np.diff(np.maximum(np.arange(runs + 1) / runs - width, 0.0))
    with np.errstate(under="ignore"):
        relative = np.exp(t * (ordered - worst))
        band = weights @ relative + width
        beyond = chance_beyond(runs, 0, error)
        largest = beyond + (1 - beyond) * relative[-1]
    upper: np.ndarray = worst + np.log(np.minimum(np.minimum(band, largest) * (1 + ROUNDING), 1.0)) / t
    return np.asarray(np.maximum(upper, 0.0))


def chance_beyond(runs: int, exceeding: int, error: float) -> float:
    """Return what the chance of a sum above the (k+1)-th largest of l runs does not exceed, but with chance `error`.

    The chance beyond an order statistic is Beta(k+1, l−k), so a cut-off that the runs themselves give needs no
    correction: it is the Clopper–Pearson bound of k in l.

    >>> round(chance_beyond(100, 0, 0.05), 5)
    0.02951
    """
    from scipy.special import betaincinv

    require(0 <= exceeding < runs, f"exceeding must be a number of runs below {runs}, got {exceeding}.")
    return float(betaincinv(exceeding + 1, runs - exceeding, 1 - error)) * (1 + ROUNDING)


@dataclass(frozen=True, eq=False)
class CutOff:
    """What holds of everybody with a confidence, from the sums that all but a few runs stay below.

    `sums` [person, order] are the cut-offs B; `chance` bounds the chance of a run beyond them, for every person and
    order at once. All that follows is *statistical* at `confidence`, for the direction whose runs were given.
    """

    sums: np.ndarray
    orders: np.ndarray
    chance: float
    confidence: float

    def epsilon(self, delta: float) -> np.ndarray:
        """Return ε [person] at δ; infinite where the chance beyond the cut-off alone exceeds δ."""
        require_probability("delta", delta)
        left = delta - self.chance
        if left <= 0:
            return np.full(len(self.sums), np.inf)
        return np.asarray(rdp_to_epsilon(self.sums, self.orders, left))

    def membership_advantage(self) -> np.ndarray:
        """Return the largest advantage [person] of an attack on the person's membership."""
        advantage: np.ndarray = np.minimum(membership_advantage(self.sums, self.orders) + self.chance, 1.0)
        return advantage

    def true_positive_rate(self, false_positive_rate: ArrayLike) -> np.ndarray:
        """Return the largest true-positive rate [person, rate] of an attack at false-positive rates."""
        rates = np.atleast_1d(np.asarray(false_positive_rate, float))
        most: np.ndarray = np.minimum(true_positive_rate(self.sums[:, None], self.orders, rates) + self.chance, 1.0)
        return most


def cut_off(
    path_divergences: ArrayLike,
    path_orders: ArrayLike,
    confidence: float = 0.95,
    *,
    exceeding: int = 0,
    people: int | None = None,
) -> CutOff:
    """Return what the sums of independent runs say with a confidence: P(E) ≤ e^ε Q(E) + δ' + P(S_α > B).

    Args:
        path_divergences: [run, person, path order], each run's sum over its steps.
        path_orders: orders α > 1, one axis.
        confidence: for everybody and all orders at once.
        exceeding: how many runs lie above the cut-off; to be fixed before seeing the runs.
        people: how many people and directions the confidence covers; by default those given.

    An ε at δ needs about ln(1/ρ)/δ runs; the membership advantage needs some hundreds.

    >>> sums = np.random.default_rng(0).uniform(0.0, 0.02, size=(2000, 1, 1))
    >>> found = cut_off(sums, [2.0])
    >>> float(found.membership_advantage().round(3)[0]), float(found.epsilon(0.01).round(2)[0])
    (0.101, 3.4)

    Feldman & Zrnic 2021 (the filter).
    """
    require_probability("confidence", confidence)
    sums, alphas = _checked(path_divergences, path_orders)
    covered = (sums.shape[1] if people is None else people) * len(alphas)
    chance = chance_beyond(len(sums), exceeding, (1 - confidence) / covered)
    place = len(sums) - 1 - exceeding
    below = np.partition(sums, place, axis=0)[place] if exceeding else sums.max(axis=0)
    return CutOff(below * (1 + ROUNDING), alphas, chance, confidence)


def _smallest(sums: np.ndarray, bounds: Callable[[np.ndarray, float], np.ndarray], orders: ArrayLike) -> np.ndarray:
    """Return the smallest bound over the path orders [person, order], some people at a time."""
    alphas = np.atleast_1d(np.asarray(orders, float))
    require(alphas > 1, f"orders must be above 1, got {alphas.tolist()}.")
    smallest = np.empty((sums.shape[1], len(alphas)))
    for start in range(0, sums.shape[1], PEOPLE_AT_ONCE):
        part = slice(start, start + PEOPLE_AT_ONCE)
        for k, order in enumerate(alphas):
            smallest[part, k] = bounds(sums[:, part], float(order)).min(axis=-1)
    return smallest


def _checked(path_divergences: ArrayLike, path_orders: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return sums and path orders, checked."""
    sums, alphas = np.asarray(path_divergences, float), np.atleast_1d(np.asarray(path_orders, float))
    require(alphas.ndim == 1 and np.all(alphas > 1), f"path_orders must be one axis of numbers above 1, got {alphas}.")
    matched = sums.ndim >= 2 and sums.size > 0 and sums.shape[-1] == len(alphas)
    require(matched, f"path_divergences must have runs first and {len(alphas)} path orders last, got {sums.shape}.")
    require(np.isfinite(sums) & (sums >= 0), "path_divergences must be finite, at least 0 and not NaN.")
    return sums, alphas
