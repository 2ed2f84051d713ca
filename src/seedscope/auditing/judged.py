"""A verdict on levels, or on a stored report, and its three blocks: measured, declared by you, what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from seedscope.auditing.facts import decided_without_privacy, facts, repeated_rows
from seedscope.auditing.intrinsic_people import most_exposed
from seedscope.auditing.levels import Level
from seedscope.auditing.policy import STATUS_WORDS, Check, Policy, read_policy
from seedscope.auditing.quantities import QUANTITIES
from seedscope.auditing.verdict import MEASURED, Case, KeyNumber, Outcome, Verdict, judge
from seedscope.auditing.words import guarantee_meaning
from seedscope.core import RELATION_WORDS, Number, number_or_none
from seedscope.datasets import Dataset
from seedscope.mechanisms import NOT_COVERED, only_if
from seedscope.planning import Preprocessing

OF_AN_AUDIT = "Models of an audit must not be released: their seeds are known. Train the one to publish apart."


def verdict_on(levels: Sequence[Level], policy: Policy | None = None, data: Dataset | None = None) -> Verdict:
    """Return the verdict on the levels of an audit under a policy, by default Seedscope's own."""
    rules = policy or read_policy()
    declared = rules.declared.get("accuracy_without_privacy")
    plain: Any = float(declared) if declared is not None else decided_without_privacy(data, levels[0].tested)
    twice = repeated_rows(data)
    found = judge([_case(level, levels, plain, twice) for level in levels], rules)
    level = levels[found.level]
    also = [one for one in (membership_sentence(level), group_sentence(level)) if one]
    numbers = tuple(one for one in (_privacy_number(level), *found.numbers) if one)
    return replace(found, sentences=(*found.sentences, *also), numbers=numbers)


def _case(level: Level, levels: Sequence[Level], plain: np.ndarray | float | None, repeated: Number | None) -> Case:
    """Return what is known of a level."""
    return Case(level.label, facts(level, levels, plain, repeated), level.broken)


def judge_report(report: Mapping[str, Any], policy: Policy | None = None) -> Verdict:
    """Return the verdict on a stored report under another policy; older reports have fewer quantities."""
    cases = [_stored_case(level, report) for level in report["levels"]]
    return judge(cases, policy)


def _stored_case(level: Mapping[str, Any], report: Mapping[str, Any]) -> Case:
    """Return what a report says of a level."""
    written = level.get("measured")
    if written is None:
        written = _older_facts(level)
    known = {name: None if one is None else Number.from_dict(one) for name, one in written.items()}
    mine = [one for one in report.get("alarms", []) if one.startswith(f"{level['label']}: ")]
    return Case(level["label"], known, tuple(mine))


def _older_facts(level: Mapping[str, Any]) -> dict[str, Any]:
    """Return the quantities of a report that was made before there were policies; its mean over people is none."""
    return {
        "epsilon": level["guarantee"]["epsilon"],
        "mean_advantage": level["attack_advantage"],
        "epsilon_shown": level["epsilon_lower"],
        "arbitrary": level["arbitrary_share"],
        "accuracy": level["accuracy"],
    }


def membership_sentence(level: Level) -> str:
    """Return what our attack showed of ε."""
    tests = level.membership
    if tests is None:
        return ""
    by_curve = "" if tests.set_mu_lower is None else f" (and μ at least {float(tests.set_mu_lower):.2f})"
    return (
        f"With {tests.held_out_seeds} held-out seeds our attack on whoever looked most exposed proves that ε is "
        f"at least {float(tests.set_epsilon_lower):.2f}{by_curve}; "
        f"this many seeds could prove {tests.ceiling:.2f} at most."
    )


def group_sentence(level: Level) -> str:
    """Return the groups between which arbitrariness differs, if any."""
    found = level.multiplicity.groups
    limit = 0.05 / max(1, len(found))
    uneven = [name for name, one in found.items() if one.p_value is not None and float(one.p_value) < limit]
    return f"Arbitrary decisions are not spread evenly by {', '.join(uneven)}." if uneven else ""


def _privacy_number(level: Level) -> KeyNumber | None:
    """Return the privacy that is bought: the guarantee's ε with its kind, or the intrinsic estimate."""
    epsilon = level.guarantee.epsilon
    if epsilon is not None:
        name = "Privacy guaranteed (ε)" if epsilon.kind == "proved" else "Privacy claimed (ε)"
        noted = epsilon.note or (only_if(level.guarantee.assumes) if level.guarantee.assumes else "")
        meaning = guarantee_meaning(epsilon.value, level.guarantee.delta)
        return KeyNumber(name, replace(epsilon, note=noted), meaning)
    worst = most_exposed(level)
    if worst is None:
        return None
    meaning = (
        "What the seed's own randomness would amount to for the person whom it hides least, were it Gaussian noise; an "
        "estimate, never a guarantee."
    )
    return KeyNumber("Most exposed person's intrinsic ε", worst, meaning)


def plain_verdict(found: Verdict, levels: Sequence[Level]) -> dict[str, Any]:
    """Return the verdict as plain values, with what was measured, what was declared, and what follows."""
    blocks = {"declared": declared(found, levels), "follows": follows(found, levels)}
    return plain_judgement(found) | blocks


def plain_judgement(found: Verdict) -> dict[str, Any]:
    """Return what a verdict says by itself, as plain values."""
    return {
        "tone": found.tone,
        "headline": found.headline,
        "sentences": list(found.sentences),
        "numbers": [_plain_key(one) for one in found.numbers],
        "level": found.level,
        "exit_code": found.exit_code,
        "policy": {"name": found.policy.name, "origin": found.policy.origin},
        "checks": [plain_check(one) for one in found.checks],
        "by_level": [_plain_outcome(one) for one in found.outcomes],
        "measured": measured(found.facts),
    }


def plain_facts(found: Mapping[str, Number | None]) -> dict[str, Any]:
    """Return the quantities of a level as plain values."""
    return {name: number_or_none(one) for name, one in found.items()}


def plain_check(check: Check) -> dict[str, Any]:
    """Return a rule and what came of it as plain values."""
    return {
        "quantity": check.rule.quantity,
        "title": check.quantity.title,
        "rule": check.rule.words,
        "status": check.status,
        "sentence": check.sentence,
        "source": check.rule.source,
        "enforced": check.rule.enforced,
        "number": number_or_none(check.number),
        "show": check.quantity.show,
    }


def _plain_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return what the policy says of a level as plain values."""
    return {
        "label": outcome.label,
        "tone": outcome.tone,
        "broken": [f"{one.quantity.title} ({STATUS_WORDS[one.status]})" for one in outcome.broken],
    }


def _plain_key(one: KeyNumber) -> dict[str, Any]:
    """Return one of the numbers at the top as plain values."""
    return {"name": one.name, "number": number_or_none(one.number), "meaning": one.meaning, "show": one.show}


def measured(found: Mapping[str, Number | None]) -> list[dict[str, Any]]:
    """Return the first block: the quantities that were measured or proved, with their kinds."""
    return [
        {
            "name": QUANTITIES[name].title,
            "number": number_or_none(found.get(name)),
            "meaning": QUANTITIES[name].meaning,
            "show": QUANTITIES[name].show,
        }
        for name in MEASURED
    ]


def declared(found: Verdict, levels: Sequence[Level]) -> list[dict[str, str]]:
    """Return the second block: what Seedscope cannot check and takes from whoever ran it."""
    level = levels[found.level]
    person = level.ensemble.description.data.persons is not None
    said = {
        "Neighbouring data": RELATION_WORDS[level.guarantee.relation],
        "A person is": "all rows of one person" if person else "a row of the table",
        "Preprocessing": preprocessing_words(level.ensemble.description.preprocessing),
        "δ": f"{level.guarantee.delta:.2g}" if level.guarantee.epsilon is not None else "none: nothing is claimed",
        "Attacker": "knows all other people's data, the training and its settings, and sees the final model",
    }
    own = {str(name).replace("_", " ").capitalize(): str(value) for name, value in found.policy.declared.items()}
    return [{"name": name, "value": value} for name, value in (said | own).items()]


def preprocessing_words(found: Preprocessing) -> str:
    """Return whether scaling and encoding are public, private or learned."""
    learned = [*(["the scaling"] if found.learned else []), *found.also_learned]
    if learned:
        rest = "what would follow from public knowledge is then an estimate"
        return f"learned from the training rows: {' and '.join(learned)}; {rest}"
    if any(found.spent):
        return f"private: noisy sums within public ranges, for ε = {found.spent[0]:.4g} of a row"
    return "public, not learned from the training rows"


def follows(found: Verdict, levels: Sequence[Level]) -> list[str]:
    """Return the third block: what the rules make of the two others, and what nothing covers."""
    kept = sum(one.status == "passed" for one in found.checks)
    alarms = sum(level.false_alarm for level in levels)
    said = [found.headline, f"{kept} of {len(found.checks)} rules of {found.policy.name!r} are kept."]
    if alarms:
        said.append(f"A right training would raise the alarm of a bug with probability at most {100 * alarms:.1f} %.")
    return [*said, OF_AN_AUDIT, *(f"Not covered: {one[0].lower()}{one[1:]}" for one in NOT_COVERED)]
