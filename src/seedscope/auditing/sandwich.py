"""Both sides of privacy: what an attack proves from below against what accounting says from above.

Three upper sides are kept apart: the ε *proved* for anybody, a person's own ε that holds *statistically* over the runs
drawn, and a person's own ε *estimated*. A lower bound above one of the first two means that the training is not what
its description says, or that an event of probability at most 1 − confidence has happened.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seedscope.analyses.membership import MembershipTests, seeds_needed
from seedscope.analyses.per_instance import PerInstancePrivacy


@dataclass(frozen=True)
class Sandwich:
    """One level's two sides.

    `holds` is None where nothing is proved under the attack's relation. `broken` says what is wrong, one sentence each;
    `beyond_estimate` counts the people for whom the attack proves more than their own estimate: then that is too low.
    `could_fail` is whether this many seeds could have shown a broken guarantee. A right training is called broken
    with probability at most `false_alarm`: each side that is statistical adds its 1 − confidence.
    """

    holds: bool | None
    could_fail: bool
    broken: tuple[str, ...]
    beyond_estimate: int
    sentence: str
    false_alarm: float


def make_sandwich(
    tests: MembershipTests,
    proved: float | None,
    own: PerInstancePrivacy | None,
    audited: np.ndarray,
    relation: str,
    assumes: tuple[str, ...] = (),
) -> Sandwich:
    """Return the sandwich of attacks on `audited` people, an ε proved under the same relation, and people's own ε.

    `assumes` is what would have to be public for that ε: where an attack beats it, this is what gives people away.
    """
    statistical, estimate = _own_bounds(own, audited)
    beyond_proof = _beyond_proof(tests, proved, assumes) or _beyond_curve(tests, proved, assumes)
    broken = (*beyond_proof, *_beyond_own_bound(tests, statistical))
    could_fail = proved is not None and (tests.ceiling > proved or _curve_could_fail(tests))
    beyond = int((tests.epsilon_lower_together > estimate).sum())
    holds = None if proved is None and np.isnan(statistical).all() else not broken
    sentence = " ".join(broken) or _held(tests, proved, could_fail, beyond, relation)
    sides = (proved is not None) + 2 * bool(np.isfinite(statistical).any())
    return Sandwich(holds, could_fail, broken, beyond, sentence, sides * (1 - tests.confidence))


def _own_bounds(own: PerInstancePrivacy | None, audited: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each audited person's own statistical and estimated ε; NaN, which nothing is above, where unknown."""
    statistical, estimate = np.full(len(audited), np.nan), np.full(len(audited), np.nan)
    if own is not None:
        place = {person: k for k, person in enumerate(own.people.tolist())}
        known = [(k, place[person]) for k, person in enumerate(audited.tolist()) if person in place]
        for row, recorded in known:
            statistical[row], estimate[row] = own.epsilon_statistical[recorded], own.epsilon[recorded]
    return statistical, estimate


def _beyond_proof(tests: MembershipTests, proved: float | None, assumes: tuple[str, ...]) -> list[str]:
    """Return what is wrong if the attack proves more than the guarantee."""
    lower = float(tests.set_epsilon_lower)
    if proved is None or lower <= proved:
        return []
    return [
        f"The attack proves, at {100 * tests.confidence:g} %, an ε of at least {lower:.2f}, but the guarantee says at "
        f"most {proved:.4g}: {_cause(assumes)}"
    ]


def _beyond_curve(tests: MembershipTests, proved: float | None, assumes: tuple[str, ...]) -> list[str]:
    """Return what is wrong if the attack's rates are beyond the guarantee's curve, though not beyond its one ε."""
    found = tests.set_curve
    if proved is None or found is None or not found.exceeded:
        return []
    return [
        f"The attack finds, at {100 * found.confidence:g} %, at least {100 * found.true_positive_lower:.1f} % of the "
        f"models with the most exposed person while it accuses at most {100 * found.false_positive_upper:.1f} % of "
        f"the others, and the guarantee's curve allows {100 * found.allowed:.1f} %: {_cause(assumes)}"
    ]


def _curve_could_fail(tests: MembershipTests) -> bool:
    """Whether an attack that is never wrong would have been beyond the guarantee's curve."""
    return tests.set_curve is not None and tests.perfect_exceeds


def _cause(assumes: tuple[str, ...]) -> str:
    """Return what an attack beyond the guarantee says about the training."""
    if assumes:
        return f"what gives people away is {' and '.join(assumes)}, learned from their rows; make it public."
    return "the training does not do what its accounting assumes (noise or clipping forgotten?)."


def _beyond_own_bound(tests: MembershipTests, statistical: np.ndarray) -> list[str]:
    """Return what is wrong if the attack proves more than people's own statistical bounds."""
    beyond = np.flatnonzero(tests.epsilon_lower_together > statistical)
    if not len(beyond):
        return []
    worst = beyond[(tests.epsilon_lower_together - statistical)[beyond].argmax()]
    return [
        f"For {len(beyond)} of the people audited the attack proves more than their own bound allows (an ε of at least "
        f"{tests.epsilon_lower_together[worst]:.2f} against {statistical[worst]:.2f}): gradients that were recorded "
        "are not those that were used, or noise is missing."
    ]


def _held(tests: MembershipTests, proved: float | None, could_fail: bool, beyond: int, relation: str) -> str:
    """Return what can be said when nothing is wrong."""
    if proved is None:
        said = f"Nothing is proved under the attack's relation ({relation}) that the attack could contradict."
    elif could_fail:
        shown = f"have shown {tests.ceiling:.2f}" if tests.ceiling > proved else "have shown rates beyond its curve"
        said = f"The attack proves nothing above the guarantee, though this many seeds could {shown}."
    else:
        more = 2 * seeds_needed(proved, tests.confidence)
        said = (
            f"This many seeds can show {tests.ceiling:.2f} at most, below the guarantee: a broken training could go "
            f"unnoticed. It would take {more:,} re-trainings with and without each person (neighbour models)."
        )
    if beyond:
        said += f" For {beyond} people the attack proves more than the estimate of their own ε, which is too low there."
    return said
