"""From steps to a whole run: composition by the *expected* divergence of each step (GLA Theorem 3.3).

With n steps, the Hölder constant p and i counting from the last step back,

    α_i = 1 + (p/(p−1))^i (α−1),   t_i = p (α_i − 1),   contribution_i = (1/t_i) ln E exp(t_i · D_{α_i}),

the expectation over the states that independent runs have reached just before the step. Orders grow towards the
first step; the temperature t makes it an average that leans towards the largest divergences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import sampled_gaussian_rdp
from seedscope.core import Number, require, require_positive, require_probability

HOLDER_PER_STEP = 3.0  # GLA Fact 3.4: p = 3n keeps all orders below 2α
HOLDERS_PER_STEP = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0, 100.0)
LARGE_EXPONENT = 600.0  # below, exponentials are numbers as they are
LARGEST_ORDER = 1e6  # beyond, a composition is worth nothing


@dataclass(frozen=True, eq=False)
class Composition:
    """The divergence of a whole run at one order: its total, and what each step contributes, the first step first.

    `total` is an estimate from the runs; `statistical` holds at its confidence over their draw. `baseline` is the
    data-independent divergence, where the clipping norm is known; neither of the others exceeds it.
    """

    total: Number
    contributions: np.ndarray
    order: float
    holder: float
    step_orders: np.ndarray
    baseline: Number | None = None
    statistical: Number | None = None


def default_holder(steps: int) -> float:
    """Return the Hölder constant of the paper, 3n, at least 3."""
    return HOLDER_PER_STEP * max(1, steps)


def step_orders(order: float, holder: float, steps: int) -> np.ndarray:
    """Return the order α_i at which each step's divergence enters, the first step first.

    >>> step_orders(8.0, holder=9.0, steps=3).round(4).tolist()
    [9.8594, 8.875, 8.0]
    """
    return _orders_at(np.arange(steps)[::-1], order, holder)


def compose_expected(
    sensitivities: ArrayLike,
    noise_scale: float,
    sampling_probability: float,
    order: float,
    holder: float | None = None,
    *,
    clipping_norm: float | None = None,
    confidence: float | None = None,
    people: int = 1,
) -> Composition:
    """Return the Rényi divergence of a run for one person, from their clipped gradient norms along independent runs.

    It bounds D_α(P‖Q) for runs drawn from P: on the data with x* for (with‖without), without x* for (without‖with).
    Report the larger of the two.

    Args:
        sensitivities: [run, step], norms of x*'s clipped gradient at the states just before each step.
        noise_scale: standard deviation of the noise on the sum, in the same units.
        sampling_probability: q in [0, 1].
        order: α > 1 of the result.
        holder: the Hölder constant p > 1; by default 3n; infinite means the worst run at every step.
        clipping_norm: gives `baseline`, which caps the totals, and is needed for a confidence.
        confidence: asks for `statistical`, in (0, 1); order and holder must then be fixed before seeing the runs.
        people: how many people (and directions) the confidence covers at once.

    >>> norms = np.full((5, 100), 0.5)                            # five runs that agree
    >>> composed = compose_expected(norms, noise_scale=1.0, sampling_probability=0.01, order=4.0)
    >>> bool(float(composed.total) == composed.contributions.sum())
    True
    >>> bool(float(composed.total) > 100 * sampled_gaussian_rdp(0.5, 1.0, 0.01, 4.0))      # the price: larger orders
    True

    GLA Theorem 3.3, with the exponent of its proof (pα/(p−1) − 1/(p−1)).
    """
    s = _checked_runs(sensitivities, clipping_norm)
    p = default_holder(s.shape[1]) if holder is None else holder
    contributions = expected_contributions(s, noise_scale, sampling_probability, order, p)
    total = float(contributions.sum())
    if clipping_norm is None:
        require(confidence is None, "a confidence needs clipping_norm: it bounds what unseen runs can do.")
        return Composition(Number(total, "estimate"), contributions, order, p, step_orders(order, p, s.shape[1]))
    baseline = s.shape[1] * float(sampled_gaussian_rdp(clipping_norm, noise_scale, sampling_probability, order))
    statistical = None
    if confidence is not None:
        bounds = statistical_contributions(
            s, noise_scale, sampling_probability, order, p, clipping_norm, confidence, people
        )
        statistical = Number(min(float(bounds.sum()), baseline), "statistical", confidence=confidence)
    orders = step_orders(order, p, s.shape[1])
    capped = Number(min(total, baseline), "estimate")
    return Composition(capped, contributions, order, p, orders, Number(baseline, "proved"), statistical)


def expected_contributions(
    sensitivities: ArrayLike,
    noise_scale: float,
    sampling_probability: float,
    order: float,
    holder: float,
    steps_before_last: ArrayLike | None = None,
) -> np.ndarray:
    """Return each step's contribution [..., step] for sensitivities [..., run, step].

    `steps_before_last` [step] says which steps they are, where not all steps of the run are given.

    >>> expected_contributions([[0.0, 0.3], [0.0, 0.3]], 1.0, 0.1, 2.0, holder=6.0).round(6).tolist()
    [0.0, 0.000941]
    """
    s = np.asarray(sensitivities, float)
    back = np.arange(s.shape[-1])[::-1] if steps_before_last is None else np.asarray(steps_before_last)
    orders = _checked_orders(order, holder, back)
    divergences = sampled_gaussian_rdp(s, noise_scale, sampling_probability, orders)
    if np.isinf(holder):
        largest: np.ndarray = divergences.max(axis=-2)
        return largest
    t = holder * (orders - 1)
    return mean_exponential(divergences, t, axis=-2)


def runs_needed(order: float, baseline: float, baseline_at_twice: float, error: float, failure: float) -> float:
    """Return how many runs make the mean of exp(t·D) come within c·e^(3(α−1)ε) of its expectation, but with chance J.

    `l ≥ ln(2/J)/(2c²)·e^(6(2α−1)ε' − 6(α−1)ε)`, for the Hölder constant 3n; infinite where that overflows.

    Args:
        order: α.
        baseline: ε, the data-independent divergence of the run at α.
        baseline_at_twice: ε', the same at 2α.
        error: c.
        failure: J, in (0, 1).

    >>> step = sampled_gaussian_rdp(1.0, 4.0, 0.05, [8.0, 16.0])
    >>> f"{runs_needed(8.0, 200 * step[0], 200 * step[1], error=0.1, failure=0.05):.1e}"
    '2.6e+10'

    GLA Fact 3.5, which prints `−ln(J)/c²·e^(6(α−1)ε − 3(2α−1)ε')`: a sign and a square are missing.
    """
    require(1 < order < np.inf, f"order must be a finite number above 1, got {order}.")
    require_positive("error", error)
    require_probability("failure", failure)
    exponent = 6 * (2 * order - 1) * baseline_at_twice - 6 * (order - 1) * baseline
    with np.errstate(over="ignore"):
        return float(np.exp(exponent + np.log(np.log(2 / failure) / (2 * error**2))))


def statistical_contributions(
    sensitivities: ArrayLike,
    noise_scale: float,
    sampling_probability: float,
    order: float,
    holder: float,
    clipping_norm: float,
    confidence: float,
    people: int = 1,
) -> np.ndarray:
    """Return upper bounds [..., step] on the true contributions that hold together with the given confidence.

    Hoeffding's inequality on f = exp(t_i D_{α_i}), which lies in [1, F_i]. With l runs it helps only where
    t_i·D_{α_i}(C) is at most about ln l, so for low orders and much noise; elsewhere it is the worst case.

    METHODS: `min(D_{α_i}(C), (1/t_i) ln(mean f + (F_i − 1)·√(ln(2n/ρ)/2l)))`, ρ = (1 − confidence)/people.
    """
    require_probability("confidence", confidence)
    s = np.asarray(sensitivities, float)
    runs, steps = s.shape[-2:]
    orders = _checked_orders(order, holder, np.arange(steps)[::-1])
    worst = sampled_gaussian_rdp(clipping_norm, noise_scale, sampling_probability, orders)
    means = expected_contributions(s, noise_scale, sampling_probability, order, holder)
    width = hoeffding_width(runs, steps * people, confidence)
    return upper_contributions(means, worst, holder * (orders - 1), width)


def hoeffding_width(runs: int, statements: int, confidence: float) -> float:
    """Return √(ln(2k/ρ)/2l): how far k means of l runs may be from their expectations, in units of their range."""
    return float(np.sqrt(np.log(2 * statements / (1 - confidence)) / (2 * runs)))


def upper_contributions(means: np.ndarray, worst: np.ndarray, t: np.ndarray, width: float) -> np.ndarray:
    """Return upper bounds of contributions: estimates widened, but not beyond the worst case."""
    if np.isinf(t).any():
        return np.broadcast_to(worst, means.shape)  # a largest value cannot be bounded from samples
    with np.errstate(divide="ignore"):
        log_range = t * worst + np.log(-np.expm1(-t * worst))
    upper: np.ndarray = np.minimum(worst, np.logaddexp(t * means, log_range + np.log(width)) / t)
    return upper


def best_holder(
    sensitivities: ArrayLike,
    noise_scale: float,
    sampling_probability: float,
    order: float,
    holders_per_step: ArrayLike = HOLDERS_PER_STEP,
) -> float:
    """Return the Hölder constant with the smallest estimated total for sensitivities [run, step].

    A small constant averages more, a large one keeps orders low. Chosen on the same runs the total is still an
    estimate; a statement with a confidence needs the constant fixed beforehand.

    >>> agreeing = np.full((4, 50), 0.5)
    >>> best_holder(agreeing, 1.0, 0.01, 4.0)                # nothing to average: keep the orders low
    5000.0
    """
    s = _checked_runs(sensitivities, None)
    candidates = [max(share * s.shape[1], 1.5) for share in np.atleast_1d(np.asarray(holders_per_step, float))]
    possible = [p for p in candidates if step_orders(order, p, s.shape[1])[0] <= LARGEST_ORDER]
    require(possible, "holders_per_step must leave orders below 1e6: give larger ones.")
    totals = [expected_contributions(s, noise_scale, sampling_probability, order, p).sum() for p in possible]
    return float(possible[int(np.argmin(totals))])


def mean_exponential(values: np.ndarray, t: np.ndarray, axis: int) -> np.ndarray:
    """Return (1/t) ln mean exp(t·values) along an axis for values of at least 0, to the last digits; t per value axis.

    As ln(1 + mean(e^(t·v) − 1)), which keeps the digits of tiny values, unless that overflows.

    >>> f"{mean_exponential(np.array([1e-20, 3e-20]), np.float64(5.0), axis=0):.6e}"
    '2.000000e-20'
    """
    largest = values.max(axis=axis)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        small = np.log1p(np.expm1(t * values).mean(axis=axis)) / t
        below = np.expm1(t * (values - np.expand_dims(largest, axis))).mean(axis=axis)
        large = largest + np.log1p(below) / t
    mean: np.ndarray = np.minimum(np.where(t * largest < LARGE_EXPONENT, small, large), largest)
    return mean


def _checked_runs(sensitivities: ArrayLike, clipping_norm: float | None) -> np.ndarray:
    """Return sensitivities [run, step], checked."""
    s = np.asarray(sensitivities, float)
    require(s.ndim == 2 and s.size > 0, f"sensitivities must be [run, step] and not empty, got shape {s.shape}.")
    if clipping_norm is not None:
        require_positive("clipping_norm", clipping_norm)
        within = s <= clipping_norm * (1 + 1e-5)
        require(within, f"sensitivities must be clipped norms of at most {clipping_norm:g}; clip them first.")
        s = np.minimum(s, clipping_norm)
    return s


def _orders_at(back: np.ndarray, order: float, holder: float) -> np.ndarray:
    """Return α_i at i = `back` steps before the last."""
    orders: np.ndarray = 1 + np.exp(-back * np.log1p(-1 / holder)) * (order - 1)
    return orders


def _checked_orders(order: float, holder: float, back: np.ndarray) -> np.ndarray:
    """Return the orders at this many steps before the last, after checking order and Hölder constant."""
    require(1 < order < np.inf, f"order must be a finite number above 1, got {order}.")
    require(holder > 1, f"holder must be above 1, got {holder}.")
    with np.errstate(over="ignore"):
        orders = _orders_at(back, order, holder)
    steps = int(back.max()) + 1
    require(
        orders <= LARGEST_ORDER,
        f"holder {holder:g} is too small for {steps} steps: orders grow to {orders.max():.3g}; take about {3 * steps}.",
    )
    return orders
