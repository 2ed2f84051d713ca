"""Both sides of privacy: honest training never crosses them, forgotten noise and forgotten clipping do, loudly."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import seedscope as ss
from seedscope.accounting import trade_off
from seedscope.analyses.membership import epsilon_lower, likelihood_ratio_tests, seeds_needed
from seedscope.auditing.audit import audit
from seedscope.auditing.sandwich import make_sandwich
from seedscope.mechanisms.guarantees import Conditions
from seedscope.report import render_page

PERSON = 0  # stands alone in the last feature


def outlier_data(reach: float = 1.0) -> ss.Dataset:
    """Return two classes, and one person who alone has the last feature, as large as `reach`."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 90)
    features = np.column_stack([draw.normal(size=(90, 2)) * 0.2 + np.where(labels, 0.4, -0.4)[:, None], np.zeros(90)])
    features[PERSON], labels[PERSON] = [0.0, 0.0, reach], 1
    return ss.from_arrays(features[:60], labels[:60], features[60:], labels[60:], norm_bound=max(2.0, reach))


HONEST = ss.DPSGD.calibrated(
    0.8, 1e-4, examples=60, batch_size=20, steps=30, learning_rate=2.0, clipping_norm=0.5
)  # fmt: skip
GRID = ss.Grid(seeds=80, people=[PERSON, 1, 2, 3], init="fixed")
RECORDS = ss.Records(norms=ss.Norms())


def trained(data: ss.Dataset, mechanism: ss.DPSGD) -> ss.Ensemble:
    """Return models with and without four people, gradient norms recorded."""
    return ss.train(data, mechanism, grid=GRID, records=RECORDS, jobs=1)


def claimed(ensemble: ss.Ensemble, mechanism: ss.DPSGD) -> ss.Ensemble:
    """Return the ensemble with a description that says it was trained by this mechanism."""
    guarantee = mechanism.guarantee(Conditions(60, 2.0))
    described = replace(ensemble.description, described_mechanism=mechanism.describe(), guarantee=guarantee)
    return ss.Ensemble(ensemble.dataset.assign_attrs(description=described.text()))


@pytest.fixture(scope="module")
def honest() -> ss.Ensemble:
    return trained(outlier_data(), HONEST)


@pytest.fixture(scope="module")
def found(honest: ss.Ensemble) -> ss.Audit:
    return audit(honest)


@pytest.fixture(scope="module")
def noiseless() -> ss.Ensemble:
    return claimed(trained(outlier_data(), replace(HONEST, noise_multiplier=0.0)), HONEST)


def test_honest_training_keeps_both_sides_apart(found: ss.Audit) -> None:
    level = found.levels[0]
    assert level.sandwich is not None
    assert level.sandwich.holds is True
    assert level.sandwich.could_fail
    assert not level.broken
    assert level.membership is not None
    assert level.per_instance is not None
    assert np.all(level.membership.epsilon_lower_together <= level.per_instance.epsilon_statistical)


def test_forgotten_noise_is_caught_and_loud_everywhere(noiseless: ss.Ensemble) -> None:
    found = audit(noiseless)
    report = found.as_dict()
    assert found.levels[0].sandwich is not None
    assert found.levels[0].sandwich.holds is False
    assert found.verdict.headline.startswith("Stop")
    assert "bug" in found.verdict.headline
    assert found.verdict.tone == "stop"
    assert len(report["alarms"]) >= 1
    assert report["levels"][0]["sandwich"]["holds"] is False
    assert "An attack beats what is claimed." in render_page(report)
    assert report["alarms"][0] in f"ε = 0.8: {found.verdict.sentences[0]}"


def test_forgotten_clipping_is_caught() -> None:
    unclipped = replace(HONEST, clipping_norm=1e4, noise_multiplier=HONEST.noise_scale / 1e4)
    assert unclipped.noise_scale == pytest.approx(HONEST.noise_scale)
    data = outlier_data(reach=100.0)
    assert audit(claimed(trained(data, unclipped), HONEST)).levels[0].broken
    assert not audit(trained(data, HONEST)).levels[0].broken


@pytest.mark.slow
def test_a_bug_at_one_level_is_the_verdict_on_all(noiseless: ss.Ensemble) -> None:
    weaker = ss.train(outlier_data(), replace(HONEST, noise_multiplier=4.0), grid=GRID, jobs=1)
    found = audit(weaker, noiseless)
    assert found.verdict.level == 1
    assert found.verdict.headline.startswith("Stop, ε = 0.8")
    assert not audit(weaker).verdict.headline.startswith("Stop")


def test_an_attack_under_another_relation_contradicts_nothing() -> None:
    replaced = replace(GRID, relation="replace_one")
    quiet = replace(HONEST, noise_multiplier=0.0)
    ensemble = ss.train(outlier_data(), quiet, grid=replaced, jobs=1)
    level = audit(claimed(ensemble, HONEST)).levels[0]
    assert level.sandwich is not None
    assert level.sandwich.holds is None
    assert "replace-one" in level.sandwich.sentence
    assert level.true_positive_limit(np.array([0.1])) is None


def test_each_upper_side_keeps_its_kind_and_order(found: ss.Audit) -> None:
    report = found.as_dict()
    people, level = report["people"], report["levels"][0]
    columns = people["levels"][0]
    known = [k for k, one in enumerate(columns["epsilon_estimate"]) if one is not None]
    assert len(known) == 4
    for k in known:
        assert columns["epsilon_lower"][k] <= columns["epsilon_upper"][k]
        own = columns["epsilon_statistical"][k] or level["epsilon_tighter"]["value"]
        assert columns["epsilon_estimate"][k] <= own < columns["epsilon_upper"][k]
    kinds = {name: one["kind"] for name, one in people["kinds"].items()}
    assert kinds["epsilon_estimate"] == "estimate"
    assert kinds["epsilon_statistical"] == kinds["epsilon_lower"] == "statistical"
    assert kinds["epsilon_upper"] == level["guarantee"]["epsilon"]["kind"] == "proved"
    assert level["sandwich"]["largest_estimate"]["kind"] == "estimate"
    assert level["sandwich"]["relation"].endswith("(add-or-remove)")


def test_what_a_tighter_accountant_gives_everybody_is_said_once_and_is_nobodys_own(found: ss.Audit) -> None:
    level, report, own = found.levels[0], found.as_dict(), found.levels[0].per_instance
    assert own is not None
    told = report["levels"][0]["epsilon_tighter"]
    pld = float(own.epsilon_baseline_pld)
    assert (told["value"], told["kind"]) == (pytest.approx(pld), "proved")
    assert "privacy-loss distribution" in told["note"]
    assert told["note"] in render_page(report)
    capped = own.epsilon_statistical >= pld
    assert capped.any()  # 80 runs are too few for a bound of their own
    table = found.individuals.iloc[own.people]
    np.testing.assert_array_equal(table["epsilon_statistical"].isna(), capped)
    assert np.allclose(table["epsilon_tighter"], pld)
    assert "nobody's own" in report["levels"][0]["sandwich"]["largest_statistical"]["note"]
    unproved = replace(level.guarantee, epsilon=ss.Number(0.8, "estimate"))
    presumed = SimpleNamespace(guarantee=unproved, trade_off=level.trade_off, _adds_noise_to_sums=True)
    found_kind = vars(type(level))["epsilon_tighter"].func(presumed)
    assert found_kind.kind == "estimate"


def test_a_bound_of_ones_own_stays() -> None:
    some = SimpleNamespace(epsilon_statistical=np.array([0.3, 0.7, np.nan]), epsilon_everybody=0.7)
    own = ss.per_instance.PerInstancePrivacy.own_statistical.fget(some)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(own, [0.3, np.nan, np.nan])


def test_few_runs_are_said_wherever_own_estimates_are_shown(found: ss.Audit) -> None:
    report = found.as_dict()
    said = "from 80 runs, so often below the true divergence"
    assert said in report["levels"][0]["sandwich"]["largest_estimate"]["note"]
    assert said in report["people"]["kinds"]["epsilon_estimate"]["note"]
    assert said in render_page(report)


def test_whose_gradients_stand_out_has_the_largest_own_epsilon(found: ss.Audit) -> None:
    own = found.levels[0].per_instance
    assert own is not None
    assert own.epsilon.argmax() == 0
    assert found.individuals["rank_epsilon_estimate"][int(own.people[0])] < 2  # ties share a rank


def test_the_ceiling_is_what_perfect_attacks_on_so_many_seeds_prove() -> None:
    perfect = np.tile([[0.01], [0.011]], (50, 1)), np.tile([[5.0], [5.1]], (50, 1))
    tests = likelihood_ratio_tests(*perfect)
    assert tests.held_out_seeds == 50
    assert tests.ceiling == pytest.approx(2.57, abs=5e-3)
    assert float(tests.set_epsilon_lower) == tests.ceiling


def test_so_many_seeds_as_needed_and_not_one_fewer() -> None:
    for epsilon in (0.1, 1.0, 2.57, 4.0):
        needed = seeds_needed(epsilon)
        assert epsilon_lower(needed, needed, 0, needed, 0.95) > epsilon
        assert epsilon_lower(needed - 1, needed - 1, 0, needed - 1, 0.95) <= epsilon if needed > 1 else True


def fake_tests(lower: list[float], most_exposed: float, ceiling: float = 2.57) -> Any:
    """Return what a sandwich reads of membership tests."""
    number = ss.Number(most_exposed, "statistical", confidence=0.95)
    together = np.array(lower)
    return SimpleNamespace(
        set_epsilon_lower=number, epsilon_lower_together=together, ceiling=ceiling, confidence=0.95, set_curve=None,
        perfect_exceeds=False,
    )  # fmt: skip


def test_rates_beyond_the_curve_ring_the_alarm_where_the_epsilon_test_is_blind() -> None:
    # ε = 8 at δ = 1e-5 is far above the ceiling of 50 seeds, but its Gaussian curve allows few of the true positives
    curve = trade_off(mu=1.6)
    assert float(curve.epsilon(1e-5)) > 5
    perfect = np.tile([[0.01], [0.011]], (50, 1)), np.tile([[5.0], [5.1]], (50, 1))
    tests = likelihood_ratio_tests(*perfect, delta=1e-5, curve=curve)
    found = make_sandwich(tests, float(curve.epsilon(1e-5)), None, np.arange(1), "add-or-remove")
    assert "the guarantee's curve allows" in found.broken[0]
    honest = likelihood_ratio_tests(perfect[0], perfect[0], delta=1e-5, curve=curve)
    held = make_sandwich(honest, float(curve.epsilon(1e-5)), None, np.arange(1), "add-or-remove")
    assert held.broken == ()
    assert held.could_fail
    assert "rates beyond its curve" in held.sentence


def fake_own(estimate: list[float], statistical: list[float]) -> Any:
    """Return what a sandwich reads of people's own privacy."""
    people = np.arange(len(estimate))[::-1] + 10
    return SimpleNamespace(
        people=people, epsilon=np.array(estimate[::-1]), epsilon_statistical=np.array(statistical[::-1])
    )  # fmt: skip


def test_a_persons_own_statistical_bound_can_be_broken_too() -> None:
    found = make_sandwich(fake_tests([0.1, 0.9], 0.9), 2.0, fake_own([0.2, 0.3], [0.5, 0.6]), np.array([10, 11]), "x")
    assert found.holds is False
    assert len(found.broken) == 1
    assert "0.90 against 0.60" in found.broken[0]


def test_more_than_an_estimate_is_no_bug_but_said() -> None:
    found = make_sandwich(fake_tests([0.4, 0.1], 0.4), 2.0, fake_own([0.2, 0.3], [0.5, 0.6]), np.array([10, 11]), "x")
    assert found.holds is True
    assert found.beyond_estimate == 1
    assert "too low" in found.sentence


def test_too_few_seeds_to_notice_a_bug_is_said_with_how_many_it_takes() -> None:
    found = make_sandwich(fake_tests([0.0], 0.0), 4.0, None, np.array([10]), "x")
    assert found.holds is True
    assert not found.could_fail
    assert f"{2 * seeds_needed(4.0):,} re-trainings" in found.sentence


def test_unknown_own_bounds_break_nothing() -> None:
    nothing = fake_own([np.nan, np.nan], [np.nan, np.nan])
    found = make_sandwich(fake_tests([1.0, 1.0], 1.0), None, nothing, np.array([10, 11]), "replace-one")
    assert found.holds is None
    assert found.broken == ()
