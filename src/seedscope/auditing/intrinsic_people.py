"""What plain SGD's seed hides of each person audited, in a few numbers for the page."""

from __future__ import annotations

import numpy as np

from seedscope.analyses.intrinsic import PersonalPrivacy
from seedscope.analyses.membership import epsilon_lower, mu_lower
from seedscope.auditing.levels import Level
from seedscope.core import Number


def most_exposed(level: Level) -> Number | None:
    """Return the intrinsic ε of the person whom the seed hides least, with that person's own interval."""
    found = level.intrinsic_people
    if found is None:
        return None
    worst = int(np.argmax(found.mu))
    ends = (float(side[worst]) for side in (found.epsilon, found.epsilon_lower, found.epsilon_upper))
    value, lower, upper = ends
    return Number(value, "estimate", lower, upper, found.confidence, _note(level, found))


def _note(level: Level, found: PersonalPrivacy) -> str:
    """Return what was looked at, and whether the noise is Gaussian as the number supposes."""
    seen = f"the largest of {len(found.mu)} people, by {found.looked_at}"
    whole = level.intrinsic
    if whole is None or whole.gaussian_is_plausible:
        return seen
    return f"{seen}; not Gaussian: {whole.rejected_weights} of {whole.tested_weights} weights are rejected"


def plain_numbers(level: Level) -> dict[str, Number]:
    """Return the numbers about people: the most exposed, the median, and what an attack by projection shows."""
    found, worst = level.intrinsic_people, most_exposed(level)
    if found is None or worst is None:
        return {}
    median = Number(float(np.median(found.epsilon)), "estimate")
    return {"epsilon_most_exposed": worst, "epsilon_median_person": median, **_shown(found)}


def _shown(found: PersonalPrivacy) -> dict[str, Number]:
    """Return the largest ε and μ that held-out seeds show, for all people at once."""
    together = 1 - (1 - found.confidence) / len(found.mu)
    counts = (found.true_positives, found.held_out, found.false_positives, found.held_out)
    note = f"on {found.held_out} held-out seeds, for all {len(found.mu)} people at once"
    bounds = {
        "epsilon_lower_projection": epsilon_lower(*counts, together, found.delta),
        "mu_lower_projection": mu_lower(*counts, together),
    }
    return {
        name: Number(float(np.max(values)), "statistical", confidence=found.confidence, note=note)
        for name, values in bounds.items()
    }
