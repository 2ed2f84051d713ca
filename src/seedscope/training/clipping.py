"""How a per-example gradient is shortened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from seedscope.accounting import SMOOTH_CLIPPING_BOUND
from seedscope.core import Described


class Clipping(Described):
    """Base of the ways to clip."""

    largest_norm: ClassVar[float]  # of a clipped gradient, in units of C
    smooth: ClassVar[bool] = False


@dataclass(frozen=True)
class FlatClipping(Clipping):
    """A gradient longer than the clipping norm C is shortened to C."""

    largest_norm: ClassVar[float] = 1.0


@dataclass(frozen=True)
class SmoothClipping(Clipping):
    """A gradient g becomes g/(GELU(‖g‖/C − 1) + 1): differentiable, and hardly longer than C (BR §6.2).

    Fisher information about an example needs it: flat clipping has a kink.
    """

    largest_norm: ClassVar[float] = SMOOTH_CLIPPING_BOUND
    smooth: ClassVar[bool] = True
