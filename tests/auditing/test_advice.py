"""What another level would change: right, with its price, and undecided where it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seedscope.accounting import TradeOff, gaussian_noise_scale, trade_off
from seedscope.auditing.advice import advice
from seedscope.core import Number
from seedscope.mechanisms import Guarantee


@dataclass(frozen=True)
class Planted:
    """A level with planted numbers."""

    label: str
    claimed_epsilon: float
    accuracy: Number
    arbitrary_share: Number
    retrainings: int = 100

    @property
    def guarantee(self) -> Guarantee:
        """A guarantee without δ."""
        return Guarantee("replace_one", Number(self.claimed_epsilon, "proved"), 0.0, "planted")


class Curved(Planted):
    """A level whose guarantee is a Gaussian curve."""

    @property
    def trade_off(self) -> TradeOff:
        """The curve of Gaussian noise with this ε at δ = 10⁻⁵."""
        return trade_off(mu=1 / float(gaussian_noise_scale(1.0, self.claimed_epsilon, 1e-5)))


OTHERS = Number(0.9, "estimate"), Number(0.1, "statistical", 0.09, 0.11, 0.95)


def level(epsilon: float, arbitrary: float, accuracy: float = 0.9, width: float = 0.01) -> Planted:
    """Return a level whose share of arbitrary decisions is known to a width."""
    share = Number(arbitrary, "statistical", arbitrary - width, arbitrary + width, 0.95)
    return Planted(f"ε = {epsilon:g}", epsilon, Number(accuracy, "estimate"), share)


def test_a_level_with_fewer_arbitrary_decisions_is_a_gain_and_its_epsilon_the_price() -> None:
    (found,) = advice([level(0.5, 0.206), level(2, 0.066)], chosen=0)
    assert found.remedy == "Use ε = 2 instead of ε = 0.5"
    assert found.gains == ("6.6 % instead of 20.6 % are decided arbitrarily",)
    assert found.costs == ("no attack gains more than 77 % over guessing, instead of 25 %",)
    assert found.decided


def test_overlapping_intervals_are_undecided_and_equal_levels_say_nothing() -> None:
    (found,) = advice([level(1, 0.20, width=0.1), level(2, 0.15, width=0.1)], chosen=0)
    assert not found.decided
    assert found.models_needed == 1600  # intervals of ±0.1 overlap at a gap of 0.05: four times as narrow
    assert advice([level(1, 0.2), level(1, 0.2)], chosen=0) == []
    assert advice([level(1, 0.2)], chosen=0) == []


def test_the_limit_of_any_attack_is_the_curves_where_there_is_one() -> None:
    first, second = (Curved(f"ε = {epsilon:g}", epsilon, *OTHERS) for epsilon in (0.5, 2.0))
    (change,) = advice([second, first], chosen=0)
    limits = [math.ceil(100 * float(level.trade_off.advantage)) for level in (first, second)]
    assert limits[1] < 77  # which is what ε = 2 alone says
    assert change.gains == (f"no attack gains more than {limits[0]} % over guessing, instead of {limits[1]} %",)


def test_a_level_that_only_costs_is_no_advice() -> None:
    assert advice([level(1, 0.1), level(2, 0.2, accuracy=0.8)], chosen=0) == []
