"""How sure is a disagreement, and how many re-trainings make it sure: bounds, exact and anytime intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from seedscope.analyses.multiplicity.disagreement import disagreement_from_counts
from seedscope.core import require, require_count, require_positive, require_probability
from seedscope.numerics import clopper_pearson, confidence_sequence

_COUNTS = 2000  # this many are tried one by one; the error is smooth in them
_FEW_COUNTS = 40  # of a great many models this few are enough: the error is smoother still
_MANY = 1_000_000


def disagreement_error(models: ArrayLike, confidence: ArrayLike, examples: ArrayLike = 1) -> np.ndarray:
    """Return the largest error of the estimated disagreement of `examples` at once, with at least `confidence`.

    Known before any training, for any example, from Hoeffding's inequality:
    `1/(m−1) + 4m/(m−1)·η(1+η)` with `η = √(ln(2k/ρ)/2m)`, k examples, ρ = 1 − confidence.

    >>> float(disagreement_error(5000, 0.95).round(4))
    0.0785

    AD Propositions 4 and 5.
    """
    require_probability("confidence", confidence)
    m, k = np.asarray(models, float), np.asarray(examples, float)
    require(m >= 2, f"models must be at least 2, got {models!r}.")
    require(k >= 1, f"examples must be at least 1, got {examples!r}.")
    eta = np.sqrt(np.log(2 * k / (1 - np.asarray(confidence, float))) / (2 * m))
    error: np.ndarray = 1 / (m - 1) + 4 * m / (m - 1) * eta * (1 + eta)
    return error


def models_needed(error: float, confidence: float, examples: int = 1) -> int:
    """Return the smallest number of models for which the paper's bound on the error is at most `error`.

    It grows with the logarithm of the number of examples only.

    >>> models_needed(0.08, 0.95), models_needed(0.08, 0.95, examples=20_000)
    (4821, 17691)

    AD Equation 20.
    """
    _check_plan(error, confidence, examples)
    return first_enough(lambda m: bool(disagreement_error(m, confidence, examples) <= error))


def models_needed_exact(error: float, confidence: float, examples: int = 1) -> int:
    """Return a number of models for which the *exact* interval is within `error` of the estimate, whatever they decide.

    Found by bisection, so a slightly smaller number may do as well (the error is not quite monotone); beyond a million
    the normal approximation is raised by a thousandth until it is enough.
    `models_needed(…) - models_needed_exact(…)` says how many re-trainings the exact interval saves.

    >>> models_needed_exact(0.08, 0.95), models_needed(0.08, 0.95)
    (649, 4821)
    """
    _check_plan(error, confidence, examples)
    about = (float(ndtri(1 - (1 - confidence) / (2 * examples))) / error) ** 2  # by the normal approximation
    if about < _MANY:
        return first_enough(lambda models: _worst_error(models, confidence, examples) <= error)
    while _worst_error(models := int(about), confidence, examples) > error:
        about *= 1.001
    return models


def models_needed_anytime(error: float, confidence: float, examples: int = 1) -> int:
    """Return the fewest models after which every *anytime* interval can be within `error`: where all models agree.

    Before that, looking is of no use.

    >>> models_needed_anytime(0.08, 0.95)
    313
    """
    _check_plan(error, confidence, examples)
    return first_enough(lambda models: bool(interval_error(0, models, confidence, examples, anytime=True) <= error))


def disagreement_interval(
    positives: ArrayLike, models: ArrayLike, confidence: ArrayLike, examples: ArrayLike = 1, anytime: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return (lower, upper) of the true disagreement 4p(1−p): exact, simultaneous over `examples`.

    The exact (Clopper–Pearson) interval of p at level ρ/k is mapped to its *image*: the upper end is 1 if ½ lies
    inside. It holds with at least `confidence` for every p, also 0, ½ and 1.

    Args:
        positives: number of models that decide 1, any shape; all arguments broadcast.
        models: how many models there are.
        confidence: in (0, 1), for all `examples` together.
        examples: how many examples are looked at.
        anytime: use the confidence sequence, which may be looked at after every model; it is wider.

    >>> lower, upper = disagreement_interval([0, 250, 500], 1000, 0.95)
    >>> lower.round(3), upper.round(3)
    (array([0.   , 0.694, 0.996]), array([0.015, 0.803, 1.   ]))
    """
    return disagreement_image(*chance_interval(positives, models, confidence, examples, anytime))


def chance_interval(
    positives: ArrayLike, models: ArrayLike, confidence: ArrayLike, examples: ArrayLike = 1, anytime: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return (lower, upper) of the share p of all models that decide 1; the arguments are `disagreement_interval`'s.

    >>> lower, upper = chance_interval(250, 1000, 0.95)
    >>> float(lower.round(3)), float(upper.round(3))
    (0.223, 0.278)
    """
    require(np.asarray(examples) >= 1, f"examples must be at least 1, got {examples!r}.")
    require_probability("confidence", confidence)
    level = 1 - (1 - np.asarray(confidence, float)) / np.asarray(examples, float)
    interval = confidence_sequence if anytime else clopper_pearson
    s, m, level = np.broadcast_arrays(np.asarray(positives), np.asarray(models), level)
    few, back = np.unique(np.stack([s.ravel(), m.ravel(), level.ravel()]), axis=1, return_inverse=True)
    lower, upper = (end[back.ravel()].reshape(s.shape) for end in interval(few[0], few[1], few[2]))
    return lower[()], upper[()]


def interval_after_looks(
    positives: ArrayLike, models: int, confidence: float, examples: int, latest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (lower, upper) of the true disagreement where training went on until it was known, `latest` at most.

    Before that number the anytime interval counts, at it the exact one: each at half of what the confidence leaves, so
    that together they keep it however often one looked.

    >>> lower, upper = interval_after_looks([0, 250], 1000, 0.95, examples=2, latest=5000)
    >>> lower.round(3), upper.round(3)
    (array([0.   , 0.635]), array([0.033, 0.852]))
    """
    return disagreement_interval(positives, models, half_risk(confidence), examples, anytime=models < latest)


def half_risk(confidence: float) -> float:
    """Return the confidence of something that may fail half as often.

    >>> half_risk(0.95)
    0.975
    """
    return (1 + confidence) / 2


def interval_error(
    positives: ArrayLike, models: int, confidence: float, examples: int = 1, anytime: bool = False
) -> np.ndarray:
    """Return how far the true disagreement can be from the estimate (clipped to 1), by the exact interval.

    With `anytime=True` one may train until the largest of these is small enough, and stop.

    >>> interval_error([0, 50, 100], 100, 0.95).round(3)
    array([0.14 , 0.041, 0.14 ])
    """
    estimate = np.minimum(disagreement_from_counts(positives, models), 1.0)
    lower, upper = disagreement_interval(positives, models, confidence, examples, anytime)
    error: np.ndarray = np.maximum(estimate - lower, upper - estimate)
    return error


def _worst_error(models: int, confidence: float, examples: int) -> float:
    """Return the largest error over all counts of positive decisions; over those near the worst where they are many."""

    def largest(counts: np.ndarray) -> tuple[float, float]:
        errors = interval_error(counts, models, confidence, examples)
        return float(errors.max()), float(counts[errors.argmax()])

    low, high = 0, models // 2  # the other half mirrors it
    tried = _COUNTS if models <= _MANY else _FEW_COUNTS
    while high - low > tried:
        _, worst = largest(np.linspace(low, high, tried).round())
        reach = 2 * (high - low) / tried
        low, high = max(low, int(worst - reach)), min(high, int(worst + reach))
    return largest(np.arange(low, high + 1))[0]


def disagreement_image(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the image of the interval [low, high] of p under 4p(1−p): up to 1 where ½ lies inside.

    >>> tuple(float(end.round(2)) for end in disagreement_image(np.array(0.1), np.array(0.6)))
    (0.36, 1.0)
    """
    ends = 4 * low * (1 - low), 4 * high * (1 - high)
    return np.minimum(*ends), np.where((low <= 0.5) & (high >= 0.5), 1.0, np.maximum(*ends))


def _check_plan(error: float, confidence: float, examples: int) -> None:
    """Raise unless the arguments of a plan are in their ranges."""
    require_positive("error", error)
    require_probability("confidence", confidence)
    require_count("examples", examples)


def first_enough(enough: Callable[[int], bool]) -> int:
    """Return the first whole number from 2 on that is enough, for a property that stays true."""
    upper = 2
    while not enough(upper):
        upper *= 2
    lower = upper // 2
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if enough(middle) else (middle, upper)
    return upper
