"""A verdict on levels, or on a stored report, and its three blocks: measured, declared by you, what follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from seedscope.analyses.membership import MembershipTests
from seedscope.auditing.facts import decided_without_privacy, facts, repeated_rows
from seedscope.auditing.intrinsic_people import most_exposed
from seedscope.auditing.levels import Level
from seedscope.auditing.policy import STATUS_WORDS, Check, Policy, read_policy
from seedscope.auditing.quantities import QUANTITIES
from seedscope.auditing.verdict import MEASURED, Case, KeyNumber, Outcome, Verdict, judge
from seedscope.auditing.words import guarantee_meaning
from seedscope.core import RELATION_WORDS, Number, SeedscopeError, number_or_none, require
from seedscope.datasets import Dataset
from seedscope.mechanisms import NOT_COVERED, only_if
from seedscope.planning import Preprocessing

OF_AN_AUDIT = "Models of an audit must not be released: their seeds are known. Train the one to publish apart."


def verdict_on(levels: Sequence[Level], policy: Policy | None = None, data: Dataset | None = None) -> Verdict:
    """Return the verdict on the levels of an audit under a policy, by default Seedscope's own."""
    rules = policy or read_policy()
    plain: Any = _declared(rules, "accuracy_without_privacy")
    plain = decided_without_privacy(data, levels[0].tested) if plain is None else plain
    twice, alone, people = repeated_rows(data), 0 if data is None else data.alone, _declared(rules, "people")
    known = [facts(level, levels, plain, twice, alone, people) for level in levels]
    cases = [Case(level.label, measured, level.broken) for level, measured in zip(levels, known, strict=True)]
    verdict = judge(cases, rules)
    level = levels[verdict.level]
    also = [sentence for sentence in (membership_sentence(level.membership), group_sentence(level)) if sentence]
    numbers = tuple(number for number in (_privacy_number(level), *verdict.numbers) if number)
    return replace(verdict, sentences=(*verdict.sentences, *also), numbers=numbers)


def _declared(policy: Policy, name: str) -> float | None:
    """Return a number that the policy's owner declares; None where nothing is said."""
    said = policy.declared.get(name)
    try:
        number = None if said is None else float(said)
    except ValueError:
        raise SeedscopeError(f"{name}, which the policy declares, must be a number, got {said!r}.", "policy") from None
    plain = number is None or (math.isfinite(number) and number >= 0 and not isinstance(said, bool))
    require(plain, f"{name}, which the policy declares, must be a number of at least 0, got {said!r}.", "policy")
    return number


def judge_report(report: Mapping[str, Any], policy: Policy | None = None) -> Verdict:
    """Return the verdict on a stored report under another policy; older reports have fewer quantities."""
    cases = [_stored_case(level, report) for level in report["levels"]]
    return judge(cases, policy)


def _stored_case(level: Mapping[str, Any], report: Mapping[str, Any]) -> Case:
    """Return what a report says of a level."""
    written = level.get("measured")
    if written is None:
        written = _older_facts(level)
    known = {name: None if number is None else Number.from_dict(number) for name, number in written.items()}
    mine = [alarm for alarm in report.get("alarms", []) if alarm.startswith(f"{level['label']}: ")]
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


def membership_sentence(tests: MembershipTests | None) -> str:
    """Return what our attack showed of ε, or that it showed nothing."""
    if tests is None:
        return ""
    attack = f"With {tests.held_out_seeds} held-out seeds our attack on whoever looked most exposed"
    reach = f"this many seeds could prove {tests.ceiling:.2f} at most."
    if not _shows_something(tests.set_epsilon_lower, tests.set_mu_lower):
        return f"{attack} leaves it undecided whether anybody is exposed (ε and μ at least 0); {reach}"
    by_curve = "" if tests.set_mu_lower is None else f" (and μ at least {float(tests.set_mu_lower):.2f})"
    return f"{attack} proves that ε is at least {float(tests.set_epsilon_lower):.2f}{by_curve}; {reach}"


def _shows_something(*lower_bounds: Number | None) -> bool:
    """Return whether any of the lower bounds would be printed as more than 0."""
    return any(bound is not None and float(bound) >= 0.005 for bound in lower_bounds)


def group_sentence(level: Level) -> str:
    """Return the groups between which arbitrariness differs, if any."""
    attributes = level.multiplicity.groups
    limit = 0.05 / max(1, len(attributes))
    uneven = [
        name
        for name, attribute in attributes.items()
        if attribute.p_value is not None and float(attribute.p_value) < limit
    ]
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


def plain_verdict(verdict: Verdict, levels: Sequence[Level]) -> dict[str, Any]:
    """Return the verdict as plain values, with what was measured, what was declared, and what follows."""
    blocks = {"declared": declared(verdict, levels), "follows": follows(verdict, levels)}
    return plain_judgement(verdict) | blocks


def plain_judgement(verdict: Verdict) -> dict[str, Any]:
    """Return what a verdict says by itself, as plain values."""
    return {
        "tone": verdict.tone,
        "headline": verdict.headline,
        "sentences": list(verdict.sentences),
        "numbers": [_plain_key(number) for number in verdict.numbers],
        "level": verdict.level,
        "exit_code": verdict.exit_code,
        "policy": {"name": verdict.policy.name, "origin": verdict.policy.origin},
        "checks": [
            plain_check(check) | ({"ways_out": list(ways)} if ways else {})
            for check, ways in zip(verdict.checks, verdict.ways_out, strict=True)
        ],
        "by_level": [_plain_outcome(outcome) for outcome in verdict.outcomes],
        "measured": measured(verdict.facts),
    }


def plain_facts(numbers: Mapping[str, Number | None]) -> dict[str, Any]:
    """Return the quantities of a level as plain values."""
    return {name: number_or_none(number) for name, number in numbers.items()}


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
        "broken": [f"{rule.quantity.title} ({STATUS_WORDS[rule.status]})" for rule in outcome.broken],
    }


def _plain_key(key: KeyNumber) -> dict[str, Any]:
    """Return one of the numbers at the top as plain values."""
    return {"name": key.name, "number": number_or_none(key.number), "meaning": key.meaning, "show": key.show}


def measured(numbers: Mapping[str, Number | None]) -> list[dict[str, Any]]:
    """Return the first block: the quantities that were measured or proved, with their kinds."""
    return [
        {
            "name": QUANTITIES[name].title,
            "number": number_or_none(numbers.get(name)),
            "meaning": QUANTITIES[name].meaning,
            "show": QUANTITIES[name].show,
        }
        for name in MEASURED
    ]


def declared(verdict: Verdict, levels: Sequence[Level]) -> list[dict[str, str]]:
    """Return the second block: what Seedscope cannot check and takes from whoever ran it."""
    level = levels[verdict.level]
    person = level.ensemble.description.data.persons is not None
    said = {
        "Neighbouring data": RELATION_WORDS[level.guarantee.relation],
        "A person is": "all rows of one person" if person else "a row of the table",
        "Preprocessing": preprocessing_words(level.ensemble.description.preprocessing),
        "δ": f"{level.guarantee.delta:.2g}" if level.guarantee.epsilon is not None else "none: nothing is claimed",
        "Attacker": f"knows all other people's data, the training and its settings, and {_seen(level)}",
    }
    own = {str(name).replace("_", " ").capitalize(): str(value) for name, value in verdict.policy.declared.items()}
    return [{"name": name, "value": value} for name, value in (said | own).items()]


def _seen(level: Level) -> str:
    """Return what the attackers see whom a level is held against: one that was tried, and the best possible one."""
    steps = level.privacy_loss is not None and level.ensemble.mechanism.last_step > 0
    return "sees the final model" + (", the best possible one also every step of training" if steps else "")


def preprocessing_words(preprocessing: Preprocessing) -> str:
    """Return whether scaling and encoding are public, private or learned."""
    learned = [*(["the scaling"] if preprocessing.learned else []), *preprocessing.also_learned]
    if learned:
        rest = "what would follow from public knowledge is then an estimate"
        return f"learned from the training rows: {' and '.join(learned)}; {rest}"
    if any(preprocessing.spent):
        return f"private: noisy sums within public ranges, for ε = {preprocessing.spent[0]:.4g} of a row"
    return "public, not learned from the training rows"


def follows(verdict: Verdict, levels: Sequence[Level]) -> list[str]:
    """Return the third block: what the rules make of the two others, and what nothing covers."""
    kept = sum(check.status == "passed" for check in verdict.checks)
    alarms = sum(level.false_alarm for level in levels)
    said = [verdict.headline, f"{kept} of {len(verdict.checks)} rules of {verdict.policy.name!r} are kept."]
    if alarms:
        said.append(f"A right training would raise the alarm of a bug with probability at most {100 * alarms:.1f} %.")
    return [*said, OF_AN_AUDIT, *(f"Not covered: {sentence[0].lower()}{sentence[1:]}" for sentence in NOT_COVERED)]
