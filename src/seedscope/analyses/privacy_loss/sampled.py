"""Everybody's privacy from losses that were sampled: means of bounded values over base runs, by betting.

With L drawn under P: `advantage = E(1 − e^−L)₊`, `δ(ε) = E(1 − e^(ε−L))₊`; accusing where L > t, the true-positive rate
is `P(L > t)` and the false-positive rate `E e^−L 1(L > t)`. Each is a mean of values in [0, 1] (or [0, e^−t]).

`E e^−L` is 1 (never more), so the advantage is `½E|1 − e^−L|` too, of which large values have no bound; from below none
is needed, and where most losses are small that mean has a quarter of the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from seedscope.accounting import TradeOff
from seedscope.analyses.privacy_loss.result import PrivacyLoss, Sides
from seedscope.core import Kind, Number, Relation, require, require_numbers, require_probability
from seedscope.numerics import betting_interval, betting_lower

ALARM = 0.999  # the confidence of what rings an alarm
LEAST_RUNS = 20
THRESHOLDS = np.array([-1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0])  # chosen beforehand
EPSILONS = np.concatenate([np.linspace(0, 4, 41), np.arange(4.5, 20.1, 0.5)])  # among which ε at δ is looked for
PILOT = 0.1  # the share of runs that says among whom the most exposed person is
CLEARLY = 1.5  # how many times less a quantity must vary to be preferred
COLUMNS = 1024  # people whose sides are worked on together
CAP_RUNS = 1000  # for which the self-test's cap is chosen where the number of runs was not fixed beforehand
CAPS = np.log([1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 40.0, 80.0])  # of e^−L in the self-test, logarithms
_TOLERANCE = 1e-6  # of single precision, in which losses are stored


@dataclass(frozen=True, eq=False)
class SelfTest:
    """Whether the losses can be those of the density that they claim: the mean of e^−L is 1.

    Values above `cap` count as the cap, which takes at most δ(ln cap) off the mean, so it must be in [`least`, 1].
    `mean` is over all people; `people` fail their own test. A wrong density, forgotten or reused noise shows here.
    """

    mean: Number
    least: float
    cap: float
    people: np.ndarray
    holds: bool

    @property
    def sentence(self) -> str:
        """What was found, in a sentence."""
        lower, upper = self.mean.lower or 0.0, self.mean.upper or 0.0
        mean_said = f"The mean of e^−L is {self.mean.value:.3f} [{lower:.3f}, {upper:.3f}], it must be in"
        mean_said += f" [{self.least:.3f}, 1]"
        return (
            f"{mean_said}: the losses pass."
            if self.holds
            else f"{mean_said}; {len(self.people):,} people fail it alone."
        )


@dataclass(frozen=True, eq=False, repr=False)
class SampledLoss(PrivacyLoss):
    """Everybody's privacy from sampled losses [run, person]."""

    losses: np.ndarray
    self_test: SelfTest
    anytime: bool = False  # whether the number of runs was not fixed beforehand

    false_alarm: ClassVar[float] = 2 * (1 - ALARM)  # by the self-test, and by the guarantee's curve

    @property
    def runs(self) -> int:
        """How many runs the losses are of."""
        return len(self.losses)

    def alone(self, confidence: float | None = None) -> Sides:
        level = self.confidence if confidence is None else confidence
        return Sides(self.advantage, *_sides(self.losses, level, 1.0, 1, self.anytime))

    def delta(self, epsilon: float, *, together: bool = False) -> Sides:
        require(epsilon >= 0, f"epsilon must be at least 0, got {epsilon!r}.")
        telling = self._telling(together)
        return Sides(_gain(self.losses - epsilon).mean(0), *self._interval(_gain(telling.losses - epsilon), telling))

    def true_positive_rate(self, false_positive_rate: float, *, together: bool = False) -> Sides:
        """Return the best attack's true-positive rate at a false-positive rate.

        From above `δ(t) + e^t·rate` for every t; from below what accusing above a t reaches that accuses few enough.
        Both over thresholds that were fixed beforehand, the error shared out among them.
        """
        require_probability("false_positive_rate", false_positive_rate, closed=True)
        telling = self._telling(together)
        shared = telling._replace(together=telling.together * 3 * len(THRESHOLDS))
        upper = np.ones(self.losses.shape[1])
        lower = np.full(self.losses.shape[1], float(false_positive_rate))
        for t in THRESHOLDS:
            over, reached, accused = self._at_threshold(float(t), shared)
            upper = np.minimum(upper, over + np.exp(t) * false_positive_rate)
            lower = np.maximum(lower, np.where(accused <= false_positive_rate, reached, 0.0))
        return Sides(self._best_rate(false_positive_rate), lower, np.maximum(upper, lower))

    def epsilon(self, delta: float, *, together: bool = False) -> Sides:
        """Return ε at δ: from above infinite where this many runs cannot bound so small a δ.

        On a grid of ε, scanned from the safe end of each side: it is wrong only if the interval of the one grid point
        next to the true ε is, so that no error has to be shared out.
        """
        require_probability("delta", delta)
        deltas = [self.delta(float(epsilon), together=together) for epsilon in EPSILONS]
        value, lower, upper = (
            np.array([getattr(number, side) for number in deltas]) for side in ("value", "lower", "upper")
        )
        least = np.append(0.0, EPSILONS)[np.argmin(np.vstack([lower > delta, np.zeros(lower.shape[1], bool)]), axis=0)]
        return Sides(_first_below(value, delta), least, _first_below(upper, delta))

    def _telling(self, together: bool) -> _Telling:
        """Return the losses that tell, and among how many the error is shared out."""
        if together:
            return _telling_of_all(self.losses, self.anytime)
        return _Telling(self.losses, np.ones(self.losses.shape[1]))

    def _interval(self, values: np.ndarray, telling: _Telling, largest: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Return both sides of the means of values that follow from the losses that tell."""
        return betting_interval(
            values, self.confidence, together=telling.together, largest=largest, anytime=self.anytime
        )

    def _at_threshold(self, t: float, telling: _Telling) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return δ(t) from above, and of accusing where L > t the rates: true from below, false from above."""
        losses, most = telling.losses, float(np.exp(-t))
        accused = np.where(losses > t, np.exp(-np.maximum(losses, t)), 0.0)
        over, reached = self._interval(_gain(losses - t), telling)[1], self._interval(losses > t, telling)[0]
        return over, reached, self._interval(accused, telling, most)[1]

    def _best_rate(self, rate: float) -> np.ndarray:
        """Return the estimate: accuse from the largest loss down until the false-positive rate is used up."""
        ordered = -np.sort(-self.losses, axis=0)
        false = np.cumsum(np.exp(-ordered), axis=0) / len(ordered)
        true = np.arange(1, len(ordered) + 1) / len(ordered)
        columns = range(ordered.shape[1])
        return np.array([np.interp(rate, np.append(0.0, false[:, k]), np.append(0.0, true)) for k in columns])


def from_losses(
    losses: ArrayLike,
    confidence: float = 0.95,
    *,
    people: ArrayLike | None = None,
    curve: TradeOff | None = None,
    largest_loss: float | None = None,
    relation: Relation | None = None,
    kind: Kind = "statistical",
    attacker: str = "",
    anytime: bool = False,
) -> SampledLoss:
    """Return everybody's privacy from their losses in independent runs on the data with them.

    Args:
        losses: [run, person], ln dP/dQ_i of what each run released.
        confidence: of the intervals.
        people: who they are; default their numbers.
        curve: the claimed guarantee, for the self-test and for alarms.
        largest_loss: the pure ε that no loss may exceed, where that is claimed.
        relation, kind, attacker: carried along.
        anytime: the number of runs was not fixed before the first was seen; intervals are wider then.

    For all people at once the error is shared out by exposure: the first tenth of the runs ranks people, half of the
    error goes to the first ranks, and the other runs tell. (With `anytime` it is shared out evenly.)

    >>> draws = np.random.default_rng(0).normal(0.5, 1.0, size=(2000, 3))     # Gaussian noise with μ = 1
    >>> found = from_losses(draws)
    >>> bool(np.all((found.advantage_lower < 0.3829) & (found.advantage_upper > 0.3829))), found.self_test.holds
    (True, True)
    """
    require_probability("confidence", confidence)
    values = np.asarray(losses)
    values = values if values.dtype == np.float32 else require_numbers("losses", losses)
    require(values.ndim == 2, f"losses must be an array [run, person], got shape {values.shape}.")
    require(
        len(values) >= LEAST_RUNS, f"losses of at least {LEAST_RUNS} runs are needed, got {len(values)}; train more."
    )
    require(not np.isnan(values).any(), "losses must not be NaN.")
    gain, count = _gain(values), values.shape[1]
    most = 1.0 if _beyond(values, largest_loss).size or largest_loss is None else -float(np.expm1(-largest_loss))
    lower, upper = _sides_of_all(values, confidence, most, anytime)
    test = _self_test(values, curve, anytime)
    who = np.arange(count) if people is None else np.asarray(people)
    alarms = _alarms(values, gain, test, curve, largest_loss, anytime)
    return SampledLoss(
        who, gain.mean(0), lower, upper, kind, confidence, relation, attacker, alarms, values, test, anytime
    )  # fmt: skip


def _sides_of_all(losses: np.ndarray, confidence: float, most: float, anytime: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides of the advantage that hold for all people at once."""
    telling = _telling_of_all(losses, anytime)
    return _sides(telling.losses, confidence, most, telling.together, anytime)


class _Telling(NamedTuple):
    """Losses [run, person] that tell, and for each person among how many like them the error would be shared out."""

    losses: np.ndarray
    together: np.ndarray


def _telling_of_all(losses: np.ndarray, anytime: bool) -> _Telling:
    """Return the losses that tell about all people at once: those after the pilot, which ranks people."""
    people = losses.shape[1]
    if anytime or people == 1:
        return _Telling(losses, np.full(people, float(people)))
    pilot = int(np.ceil(PILOT * len(losses)))
    return _Telling(losses[pilot:], 1 / shares_by_exposure(_gain(losses[:pilot]).mean(0)))


def shares_by_exposure(exposure: np.ndarray) -> np.ndarray:
    """Return each person's share of the error: half evenly, half as 1/rank, the most exposed first.

    >>> shares_by_exposure(np.array([0.1, 0.3, 0.2])).round(3)
    array([0.258, 0.439, 0.303])
    """
    ranks = np.empty(len(exposure))
    ranks[np.argsort(-exposure, kind="stable")] = np.arange(1, len(exposure) + 1)
    shares: np.ndarray = 0.5 / len(ranks) + 0.5 / (ranks * np.sum(1 / ranks))
    return shares


def _sides(
    losses: np.ndarray, confidence: float, most: float, together: ArrayLike, anytime: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides of the advantage, the error shared out; most: what (1 − e^−L)₊ cannot exceed."""
    each, ends = np.broadcast_to(np.asarray(together, float), losses.shape[1:]), np.empty((2, losses.shape[1]))
    for start in range(0, losses.shape[1], COLUMNS):
        block = slice(start, start + COLUMNS)
        part = np.asarray(losses[:, block], float)
        gain = np.minimum(_gain(part), most)
        upper = betting_interval(gain, confidence, together=each[block], largest=most, anytime=anytime)[1]
        lower = betting_lower(_steadier(part, gain), confidence, together=each[block], anytime=anytime)
        ends[:, block] = np.minimum(lower, upper), upper
    return ends[0], ends[1]


def _steadier(losses: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """Return of each run (1 − e^−L)₊, or ½|1 − e^−L| where that varied clearly less over the runs before it.

    Clearly, because its tail is longer: few runs make it look calmer than it is.
    """
    half = np.abs(np.expm1(-losses)) / 2
    calmer = CLEARLY * _variances(half) < _variances(gain)
    return np.where(np.vstack([np.zeros((1, losses.shape[1]), bool), calmer[:-1]]), half, gain)


def _variances(values: np.ndarray) -> np.ndarray:
    """Return the variances [run, column] of the values up to each run."""
    runs = np.arange(1, len(values) + 1)[:, None]
    variances: np.ndarray = np.cumsum(values**2, axis=0) / runs - (np.cumsum(values, axis=0) / runs) ** 2
    return variances


def _gain(losses: np.ndarray) -> np.ndarray:
    """Return (1 − e^−L)₊, values in [0, 1]."""
    gain: np.ndarray = -np.expm1(-np.maximum(losses, 0.0))
    return gain


def _first_below(values: np.ndarray, limit: float) -> np.ndarray:
    """Return the first ε from which on values [ε, person] stay at most at the limit; infinite for none."""
    above = values > limit
    after = np.where(above.any(0), len(EPSILONS) - np.argmax(above[::-1], axis=0), 0)
    return np.append(EPSILONS, np.inf)[after]


def _self_test(losses: np.ndarray, curve: TradeOff | None, anytime: bool = False) -> SelfTest:
    """Return the self-test at the confidence of alarms: half of the error for the mean over people, half for each."""
    cap, least = _cap(CAP_RUNS if anytime else len(losses), curve)
    values, level = np.exp(np.minimum(-losses, np.log(cap))), (1 + ALARM) / 2
    together = values.mean(1)
    low, high = (float(end) for end in betting_interval(together, level, largest=cap, anytime=anytime))
    lower, upper = betting_interval(values, level, together=values.shape[1], largest=cap, anytime=anytime)
    wrong = np.flatnonzero((lower > 1 + _TOLERANCE) | (upper < least - _TOLERANCE))
    holds = low <= 1 + _TOLERANCE and high >= least - _TOLERANCE and not len(wrong)
    return SelfTest(Number(float(together.mean()), "statistical", low, high, level), least, cap, wrong, holds)


def _cap(runs: int, curve: TradeOff | None) -> tuple[float, float]:
    """Return what e^−L is capped at, and the least mean that it then has by the guarantee; the pair that sees most."""
    if curve is None:
        return 10.0, 0.0
    taken = curve.delta(CAPS)
    best = int(np.argmin(taken + 5 * np.exp(CAPS) / runs))
    return float(np.exp(CAPS[best])), float(1 - taken[best])


def _beyond(losses: np.ndarray, largest: float | None) -> np.ndarray:
    """Return the people who have a loss beyond the pure ε."""
    if largest is None:
        return np.zeros(0, int)
    return np.flatnonzero((np.abs(losses) > largest * (1 + _TOLERANCE) + _TOLERANCE).any(0))


def _alarms(
    losses: np.ndarray, gain: np.ndarray, test: SelfTest, curve: TradeOff | None, largest: float | None, anytime: bool
) -> tuple[str, ...]:
    """Return what must not be overlooked: the training is not what its guarantee assumes."""
    alarms = [] if test.holds else [f"The privacy losses contradict themselves. {test.sentence}"]
    beyond = _beyond(losses, largest)
    if beyond.size:
        worst = float(np.abs(losses).max())
        alarms.append(
            f"The released models of {beyond.size:,} people are up to e^{worst:.3g} times likelier or less likely "
            f"because of them, and ε = {largest:.4g} allows e^{largest:.4g}: the calibration is wrong."
        )
    if curve is not None:
        lower = betting_interval(gain, ALARM, together=gain.shape[1], anytime=anytime)[0]
        limit = float(curve.advantage) * (1 + _TOLERANCE)
        if np.any(lower > limit):
            alarms.append(
                f"The best attack on {int((lower > limit).sum()):,} people surely has an advantage of up to "
                f"{lower.max():.3g}, and the guarantee allows {limit:.3g}: noise or clipping is not what it assumes."
            )
    return tuple(alarms)
