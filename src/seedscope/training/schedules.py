"""How the step size changes and what of earlier steps is carried on: frozen data that builds Optax transformations.

All of it is post-processing of the noisy gradient, so no guarantee depends on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from seedscope.core import Described, require, require_count, require_positive

if TYPE_CHECKING:
    import optax


class Schedule(Described, ABC):
    """Base of the learning rates that change from step to step."""

    @abstractmethod
    def schedule(self, steps: int) -> optax.Schedule:
        """Return the function step → learning rate for this many steps."""


@dataclass(frozen=True)
class Cosine(Schedule):
    """A learning rate that falls from `initial` to `final` along half a cosine."""

    written: ClassVar[tuple[str, ...]] = ("Cosine(0.5)",)

    initial: float
    final: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_rates(self.initial, self.final)

    def schedule(self, steps: int) -> optax.Schedule:
        """Return the function step → learning rate for this many steps."""
        import optax

        return optax.cosine_decay_schedule(self.initial, steps, self.final / self.initial)


@dataclass(frozen=True)
class Linear(Schedule):
    """A learning rate that goes from `initial` to `final` in a straight line."""

    written: ClassVar[tuple[str, ...]] = ("Linear(0.5)",)

    initial: float
    final: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_rates(self.initial, self.final)

    def schedule(self, steps: int) -> optax.Schedule:
        """Return the function step → learning rate for this many steps."""
        import optax

        return optax.linear_schedule(self.initial, self.final, steps)


@dataclass(frozen=True)
class Drops(Schedule):
    """A learning rate that is `initial` and is multiplied by a factor at each of `at` = ((step, factor), …)."""

    written: ClassVar[tuple[str, ...]] = ("Drops(0.5, ((100, 0.1),))",)

    initial: float
    at: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("initial", self.initial)
        object.__setattr__(self, "at", tuple((int(step), float(factor)) for step, factor in self.at))
        for step, factor in self.at:
            require_count("step of a drop", step)
            require_positive("factor of a drop", factor)

    def schedule(self, steps: int) -> optax.Schedule:
        """Return the function step → learning rate."""
        import optax

        return optax.piecewise_constant_schedule(self.initial, dict(self.at))


@dataclass(frozen=True)
class WarmUp(Schedule):
    """A learning rate that rises from 0 over the first `steps` steps and then follows `then`."""

    written: ClassVar[tuple[str, ...]] = ("WarmUp(100, then=0.5)",)

    steps: int
    then: float | Schedule

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("steps", self.steps)
        require_learning_rate("then", self.then)

    def schedule(self, steps: int) -> optax.Schedule:
        """Return the function step → learning rate for this many steps."""
        import optax

        after = schedule(self.then, max(1, steps - self.steps))
        return optax.join_schedules([optax.linear_schedule(0.0, float(after(0)), self.steps), after], [self.steps])


@dataclass(frozen=True)
class Momentum(Described):
    """Each step adds `decay` times the last one; `nesterov` looks one step ahead."""

    decay: float = 0.9
    nesterov: bool = False

    written: ClassVar[tuple[str, ...]] = ("Momentum(0.9)",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.decay < 1, f"decay must be in [0, 1), got {self.decay}.")


def schedule(learning_rate: float | Schedule, steps: int) -> optax.Schedule:
    """Return the function step → learning rate.

    >>> float(schedule(Cosine(0.5), steps=100)(100))
    0.0
    """
    import optax

    if isinstance(learning_rate, Schedule):
        return learning_rate.schedule(steps)
    return optax.constant_schedule(learning_rate)


def transformation(
    learning_rate: float | Schedule, momentum: Momentum | None, steps: int, l2: float = 0.0
) -> optax.GradientTransformationExtraArgs:
    """Return the Optax transformation from gradients to updates; it works on any number of models side by side.

    With `l2` its updates also need the weights, to which they add that share of the penalty ½‖w‖².
    """
    import optax

    rate = schedule(learning_rate, steps) if isinstance(learning_rate, Schedule) else learning_rate
    steps_taken = optax.sgd(rate) if momentum is None else optax.sgd(rate, momentum.decay, momentum.nesterov)
    return optax.chain(optax.add_decayed_weights(l2), steps_taken) if l2 else steps_taken


def require_learning_rate(name: str, learning_rate: float | Schedule) -> None:
    """Raise unless the learning rate is a schedule or a finite number above 0."""
    if not isinstance(learning_rate, Schedule):
        require_positive(name, learning_rate)


def _require_rates(initial: float, final: float) -> None:
    """Raise unless a rate starts above 0 and ends at 0 or above."""
    require_positive("initial", initial)
    require(final >= 0, f"final must be at least 0, got {final}.")
