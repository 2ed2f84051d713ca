"""Policies: read, refused in one sentence, and held against numbers on the safe side."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedscope.auditing.policy import Policy, Rule, parse_condition, read_policy
from seedscope.auditing.quantities import QUANTITIES
from seedscope.auditing.verdict import Case, judge
from seedscope.core import Number, SeedscopeError

ENDS = st.floats(0, 1, allow_nan=False)


def test_every_limit_of_the_default_policy_says_where_it_comes_from() -> None:
    policy = read_policy()
    assert {"advantage", "unseen", "arbitrary", "above_majority", "accuracy_cost"} <= {r.quantity for r in policy.rules}
    for rule in policy.rules:
        assert len(rule.source) > 40, rule.quantity
        assert "Our " in rule.source or "NIST" in rule.source
    assert not any(rule.enforced for rule in policy.rules)
    assert all(rule.enforced for rule in policy.enforced().rules)
    assert read_policy("default").rules == policy.rules


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (Number(0.05, "estimate"), "passed"),
        (Number(0.2, "estimate"), "failed"),
        (Number(0.05, "statistical", 0.0, 0.2, 0.95), "open"),
        (Number(0.15, "statistical", 0.05, 0.2, 0.95), "open"),
        (Number(0.3, "statistical", 0.2, 0.4, 0.95), "failed"),
        (Number(0.05, "statistical", 0.0, 0.08, 0.94), "open"),
        (Number(math.nan, "statistical", 0.0, math.nan, 0.95), "open"),
        (Number(0.1, "proved"), "passed"),
        (None, "open"),
    ],
)
def test_a_rule_is_kept_only_where_the_worse_end_keeps_to_it(number: Number | None, status: str) -> None:
    assert Rule("advantage", at_most=0.1).check(number).status == status
    assert Rule("advantage", at_most=0.1, needed=False).check(None).status == "passed"


@given(ENDS, ENDS, ENDS, st.sampled_from(["at_most", "at_least"]))
def test_worse_numbers_never_pass_where_better_do_not(first: float, second: float, limit: float, side: str) -> None:
    low, high = min(first, second), max(first, second)
    rule = Rule("arbitrary", **{side: limit})  # type: ignore[arg-type]
    order = ["passed", "open", "failed"]
    better, worse = (high, low) if side == "at_least" else (low, high)
    assert order.index(rule.check(Number(better, "estimate")).status) <= order.index(
        rule.check(Number(worse, "estimate")).status
    )
    whole = rule.check(Number((low + high) / 2, "estimate", low, high, 0.95)).status
    assert (whole == "passed") == (rule.check(Number(worse, "estimate")).status == "passed")


@pytest.mark.parametrize(
    ("condition", "holds", "not_holds"),
    [
        ("advantage>0.1", 0.2, 0.1),
        ("advantage >= 0.1", 0.1, 0.0999),
        ("accuracy<0.8", 0.7, 0.8),
        ("accuracy<=80%", 0.8, 0.81),
        ("epsilon > 1e0", 1.5, 1.0),
    ],
)
def test_a_condition_that_holds_breaks_its_rule(condition: str, holds: float, not_holds: float) -> None:
    rule = parse_condition(condition)
    assert rule.enforced
    assert rule.check(Number(holds, "estimate")).status == "failed"
    assert rule.check(Number(not_holds, "estimate")).status == "passed"


def test_what_is_not_known_breaks_a_condition() -> None:
    found = judge([Case("one", {})], Policy("none", ()).with_conditions(["advantage>0.1"]))
    assert (found.tone, found.exit_code) == ("talk", 1)


def test_no_policy_however_lax_releases_without_a_proof_or_an_attack() -> None:
    assert judge([Case("one", {"arbitrary": Number(0.0, "estimate")})], Policy("nothing", ())).tone == "talk"


def test_only_rules_that_were_asked_for_decide_the_exit_code() -> None:
    bad = Case("one", {"advantage": Number(0.9, "statistical", 0.8, 1.0, 0.95)})
    assert judge([bad]).exit_code == 0
    assert judge([bad], read_policy().enforced()).exit_code == 1
    assert judge([bad], read_policy().with_conditions(["advantage>0.95"])).exit_code == 1
    policy = read_policy().with_conditions(["advantage>1"])
    assert [one.quantity for one in policy.rules].count("advantage") == 1  # in the place of the policy's own
    assert judge([bad], read_policy().with_conditions(["advantage>1"])).exit_code == 0
    assert judge([Case("one", bad.facts, ("beaten",))]).exit_code == 3


@pytest.mark.parametrize("text", ["", "advantage", "advantage=0.1", "advantage>many", "advantage>1e", "0.1<advantage"])
def test_a_condition_that_is_none_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(SeedscopeError, match="a condition is a quantity"):
        parse_condition(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules = 3", "must be tables"),
        ("[rules]\nadvantage = 3", "must be a table"),
        ("[rules.advantag]\nat_most = 1", "Did you mean 'advantage'?"),
        ("[rules.advantage]\nmaximum = 1", "unknown key of the rule on advantage"),
        ("[rules.advantage]\nat_most = '1'", "must be a number"),
        ("[rules.advantage]\nat_most = true", "must be a number"),
        ("[rules.advantage]\nat_most = nan", "must be finite numbers"),
        ("[rules.advantage]\nat_most = 1\nlook = inf", "must be finite numbers"),
        ("[rules.advantage]\nneeded = 1\nat_most = 1", "must be true or false"),
        ("[rules.advantage]\nsource = 'x'", "needs either at_most or at_least"),
        ("[rules.advantage]\nat_most = 1\nat_least = 0", "needs either at_most or at_least"),
        ("[rules.advantage]\nat_most = 1\nby = 'luck'", "must be 'bound' or 'value'"),
        ("[rule.advantage]\nat_most = 1", "Did you mean 'rules'?"),
        ("[declared]\npurpose = ['a']", "must be texts or numbers"),
        ("name = ", "is not TOML"),
    ],
)
def test_a_wrong_policy_is_refused_in_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(SeedscopeError) as error:
        read_policy(file)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.argument == "policy"
    with pytest.raises(SeedscopeError, match="cannot read the policy"):
        read_policy(tmp_path / "missing.toml")


def test_every_quantity_has_words_and_can_be_printed() -> None:
    for one in QUANTITIES.values():
        assert one.meaning.endswith(".")
        assert one.title in one.sentence(Number(0.5, "statistical", 0.25, 0.75, 0.95))
    assert math.isclose(float(QUANTITIES["arbitrary"].shown(0.123)[:-2]), 12.3)
