"""What plain SGD's seed hides of each person audited, in a few numbers for the page."""

from __future__ import annotations

import numpy as np

from seedscope.analyses.intrinsic import PersonalPrivacy
from seedscope.analyses.membership import epsilon_lower, mu_lower
from seedscope.auditing.levels import Level
from seedscope.core import Number


def most_exposed(level: Level) -> Number | None:
    """Return the intrinsic ε of the person whom the seed hides least, with that person's own interval."""
    privacy = level.intrinsic_people
    if privacy is None:
        return None
    worst = int(np.argmax(privacy.mu))
    ends = (float(side[worst]) for side in (privacy.epsilon, privacy.epsilon_lower, privacy.epsilon_upper))
    value, lower, upper = ends
    return Number(value, "estimate", lower, upper, privacy.confidence, _note(level, privacy))


def _note(level: Level, privacy: PersonalPrivacy) -> str:
    """Return what was looked at, and whether the noise is Gaussian as the number supposes."""
    seen = f"the largest of {len(privacy.mu)} people, by {privacy.looked_at}"
    whole = level.intrinsic
    if whole is None or whole.gaussian_is_plausible:
        return seen
    return f"{seen}; not Gaussian: {whole.rejected_weights} of {whole.tested_weights} weights are rejected"


def plain_numbers(level: Level) -> dict[str, Number]:
    """Return the numbers about people: the most exposed, the median, and what an attack by projection shows."""
    privacy, worst = level.intrinsic_people, most_exposed(level)
    if privacy is None or worst is None:
        return {}
    median = Number(float(np.median(privacy.epsilon)), "estimate")
    return {"epsilon_most_exposed": worst, "epsilon_median_person": median, **_shown(privacy)}


def _shown(privacy: PersonalPrivacy) -> dict[str, Number]:
    """Return the largest ε and μ that held-out seeds show, for all people at once."""
    together = 1 - (1 - privacy.confidence) / len(privacy.mu)
    counts = (privacy.true_positives, privacy.held_out, privacy.false_positives, privacy.held_out)
    note = f"on {privacy.held_out} held-out seeds, for all {len(privacy.mu)} people at once"
    bounds = {
        "epsilon_lower_projection": epsilon_lower(*counts, together, privacy.delta),
        "mu_lower_projection": mu_lower(*counts, together),
    }
    return {
        name: Number(float(np.max(values)), "statistical", confidence=privacy.confidence, note=note)
        for name, values in bounds.items()
    }
