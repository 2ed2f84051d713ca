"""What an ε bounds, in sentences that need no mathematics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def plain_meanings(
    epsilon: float,
    advantage: float,
    true_positive_rates: Iterable[Mapping[str, Any]],
    reconstruction: Iterable[tuple[float, float]] = (),
) -> Iterator[str]:
    """Yield what a guarantee bounds, a sentence for each kind of attack.

    Args:
        epsilon: of the guarantee.
        advantage: the most that any membership attack gains over guessing.
        true_positive_rates: for false-positive rates, the most members that an attack can find (`at_most`).
        reconstruction: chances to guess a record without the model, and with it at most.

    >>> next(plain_meanings(1.0, 0.46, []))
    'no outcome is more probable than 2.72 times what it is without one person, plus δ'
    """
    factor = f"{math.exp(epsilon):.3g}" if epsilon < 700 else "∞"
    yield f"no outcome is more probable than {factor} times what it is without one person, plus δ"
    gained = 100 * advantage
    yield f"a membership attack finds at most {gained:.3g} points more of the members than it accuses of outsiders"
    for rate in true_positive_rates:
        accused, at_most = 100 * rate["false_positive_rate"], 100 * rate["at_most"]
        yield f"if it accuses {accused:g} % of outsiders, it finds at most {at_most:.3g} % of the members"
    for prior, most in reconstruction:
        yield (
            f"whoever would guess a record right {100 * prior:g} % of the time anyway "
            f"does so at most {100 * most:.3g} % of the time with the model"
        )
