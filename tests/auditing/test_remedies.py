"""Remedies for arbitrary decisions: what rules of several models decide, what they cost, and which is cheapest."""

import json
from dataclasses import replace
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import seedscope as ss
from seedscope.analyses.multiplicity import ABSTAINED, pooled_decisions, pooled_worth
from seedscope.auditing import PricedRemedies
from seedscope.auditing.released import certain_share, told_by_released
from seedscope.core import SeedscopeError
from seedscope.mechanisms import Conditions, Mechanism
from seedscope.report import render_comparison, render_page
from tests.helpers.command_line import run
from tests.helpers.present import present
from tests.helpers.small_data import table

CONDITIONS = Conditions(500, 2**0.5, width=6)


@pytest.fixture(scope="module")
def found() -> PricedRemedies:
    data = table(rows=120, norm_bound=1.0)
    return ss.price_remedies(data, ss.OutputPerturbation(8.0, 1e-4), together=[3], models=60, jobs=1, wanted=0.1)


def test_rules_decide_as_a_loop_over_groups_would() -> None:
    scores = np.random.default_rng(0).random((11, 7))
    for k in (2, 3):
        groups = [scores[k * g : k * g + k] for g in range(11 // k)]
        np.testing.assert_array_equal(pooled_decisions(scores, k, "average"), [one.mean(0) > 0.5 for one in groups])
        majority = [(one > 0.5).sum(0) > k / 2 for one in groups]
        np.testing.assert_array_equal(pooled_decisions(scores, k, "consensus"), majority)
        for got, one in zip(pooled_decisions(scores, k, "unanimous"), groups, strict=True):
            agreed = np.all((one > 0.5) == (one > 0.5)[:1], axis=0)
            np.testing.assert_array_equal(got, np.where(agreed, one[0] > 0.5, ABSTAINED))


def test_opposed_decisions_are_those_of_pairs_of_draws() -> None:
    decided = np.random.default_rng(1).integers(-1, 3, (9, 5))
    worth = pooled_worth(decided, np.zeros(5))
    for example in range(5):
        pairs = [(a, b) for a, b in combinations(decided[:, example], 2)]
        slow = 2 * np.mean([a != b and a >= 0 and b >= 0 for a, b in pairs])
        assert worth.opposed[example] == pytest.approx(slow)


def test_without_abstention_it_is_the_disagreement() -> None:
    decided = np.random.default_rng(2).random((50, 6)) < np.linspace(0, 1, 6)
    np.testing.assert_allclose(
        pooled_worth(decided.astype(int), np.zeros(6)).opposed, ss.multiplicity.disagreement(decided)
    )


def test_the_interval_of_the_arbitrary_share_covers() -> None:
    draw, missed = np.random.default_rng(3), 0
    chances = np.array([[0.1, 0.8, 0.1], [0.4, 0.4, 0.2], [0.05, 0.5, 0.45], [0.0, 0.3, 0.7]])  # abstain, 0, 1
    truth = np.mean(4 * chances[:, 1] * chances[:, 2] >= 0.5)
    for _ in range(300):
        decided = np.stack([draw.choice([-1, 0, 1], 80, p=one) for one in chances], axis=1)
        share = pooled_worth(decided, np.zeros(4), confidence=0.8).arbitrary_share
        missed += not (share.lower <= truth <= share.upper)
    assert missed / 300 <= 0.2 + 3 * sqrt(0.16 / 300)


def test_several_gaussian_releases_cost_what_their_squares_add_up_to() -> None:
    mechanism = ss.OutputPerturbation(1.0, 1e-5)
    epsilon, delta = mechanism.repeated(4, CONDITIONS)
    mu = 2 * mechanism.sensitivity(CONDITIONS) / mechanism.noise(CONDITIONS)
    spent = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert spent == pytest.approx(delta, rel=1e-6)
    assert mechanism.shared(4, CONDITIONS).repeated(4, CONDITIONS)[0] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("mechanism", [ss.ObjectivePerturbation(1.0), ss.GaussianObjectivePerturbation(1.0, 1e-5)])
def test_tilted_releases_add_up_and_are_shared_out_in_equal_parts(mechanism: ss.ObjectivePerturbation) -> None:
    delta = mechanism.guarantee(CONDITIONS).delta
    assert mechanism.repeated(3, CONDITIONS) == pytest.approx((3.0, 3 * delta))
    assert mechanism.shared(3, CONDITIONS).repeated(3, CONDITIONS) == pytest.approx((1.0, delta))


def test_runs_of_dpsgd_cost_what_one_run_of_all_their_steps_costs() -> None:
    mechanism = ss.DPSGD.calibrated(1.0, 1e-5, examples=500, batch_size=125, steps=40)
    long = ss.DPSGD(batch_size=125, steps=120, noise_multiplier=mechanism.noise_multiplier, delta=1e-5)
    assert mechanism.repeated(3, CONDITIONS)[0] == pytest.approx(float(long.guarantee(CONDITIONS).epsilon or 0))
    assert mechanism.shared(3, CONDITIONS).repeated(3, CONDITIONS)[0] == pytest.approx(1.0, rel=1e-3)


def test_averaging_gaussian_outputs_at_the_same_price_changes_nothing() -> None:
    mechanism = ss.OutputPerturbation(1.0, 1e-5)
    noise = mechanism.shared(9, CONDITIONS)
    penalty = mechanism.penalty(CONDITIONS)
    fixed = ss.OutputPerturbation(noise.epsilon, 1e-5, l2=penalty)
    assert fixed.noise(CONDITIONS) / 3 == pytest.approx(mechanism.noise(CONDITIONS), rel=1e-6)


def test_every_way_is_priced_and_the_cheapest_is_named(found: PricedRemedies) -> None:
    spent = {(one.title, one.spending): one.epsilon.value for one in found.remedies}
    assert spent["as it is", "as it is"] == pytest.approx(8.0)
    assert spent["abstain by the released model alone", "free"] == pytest.approx(8.0)
    assert spent["average of 3 models", "split"] == pytest.approx(8.0)
    assert spent["average of 3 models", "composed"] > 8.0 * sqrt(3) * 0.9
    assert spent["weaker privacy, 2 ε", "weaker"] == pytest.approx(16.0)
    for one in found.enough:
        assert one.arbitrary_share.value <= 0.1
        assert one.epsilon.value >= found.enough[0].epsilon.value - 1e-6
    assert found.enough[0].title in found.sentences[1]


@pytest.mark.parametrize(
    "mechanism",
    [ss.ObjectivePerturbation(2.0), ss.GaussianObjectivePerturbation(2.0, 1e-5), ss.OutputPerturbation(2.0, 1e-5),
     ss.DPSGD(batch_size=10, steps=5, noise_multiplier=2.0, delta=1e-5)],
    ids=["tilt", "Gaussian tilt", "output", "DP-SGD"],
)  # fmt: skip
@pytest.mark.parametrize("more", [{"rows_per_person": 3}, {"spent": (0.5, 0.0)}], ids=["persons", "private scaling"])
def test_no_level_follows_from_an_epsilon_that_is_not_the_mechanisms_own(
    mechanism: Mechanism, more: dict[str, Any]
) -> None:
    conditions = replace(CONDITIONS, **more)
    rule = "priced for one row per person and a scaling that spends nothing"
    with pytest.raises(SeedscopeError, match=rule):
        mechanism.at_level(3.0, 1e-5, conditions)
    with pytest.raises(SeedscopeError, match=rule):
        mechanism.shared(3, conditions)


def test_remedies_for_people_of_several_rows_are_refused_before_anything_is_trained() -> None:
    several = replace(table(rows=60, norm_bound=1.0), rows_per_person=3)
    with pytest.raises(SeedscopeError, match="got 3 rows per person"):
        ss.price_remedies(several, ss.ObjectivePerturbation(2.0), together=[3], models=10**9)


def test_every_price_has_the_kind_of_the_guarantee(found: PricedRemedies) -> None:
    assert {one.epsilon.kind for one in found.remedies} == {"proved"}
    learned = ss.price_remedies(table(rows=60), ss.ObjectivePerturbation(8.0), together=[2], models=8, jobs=1)
    assert {one.epsilon.kind for one in learned.remedies} == {"estimate"}
    assert learned.as_dict()["remedies"][0]["epsilon"]["kind"] == "estimate"


def test_abstention_leaves_fewer_arbitrary_decisions_and_more_undecided(found: PricedRemedies) -> None:
    by = {(one.title, one.spending): one for one in found.remedies}
    now, free = by["as it is", "as it is"], by["abstain by the released model alone", "free"]
    assert now.undecided.value == 0
    assert free.undecided.value > 0
    assert free.arbitrary_share.value <= now.arbitrary_share.value
    assert by["abstain unless 3 models agree", "composed"].arbitrary_share.value <= now.arbitrary_share.value


def test_what_no_model_results_of_is_left_out_by_name() -> None:
    data = table(rows=60, norm_bound=1.0)
    least = 1.2
    found = ss.price_remedies(data, ss.ObjectivePerturbation(least), together=[6], models=12, jobs=1)
    assert "least useful epsilon" in found.left_out["ε split over 6"]


def test_the_page_escapes_and_the_command_writes_it(found: PricedRemedies, tmp_path: Path) -> None:
    page = render_comparison(found.as_dict() | {"data": "<script>alert(1)</script>"}, "remedies")
    assert "<script" not in page
    out = tmp_path / "out"
    said = run("remedies", "breast-cancer", "--mechanism", "output", "--epsilon", "8", "--models", "30",
               "--together", "2", "--out", str(out), "--json")  # fmt: skip
    assert json.loads(said.stdout)["remedies"][0]["title"] == "as it is"
    assert {path.name for path in out.iterdir()} >= {"remedies.html", "remedies.json"}


@pytest.mark.parametrize(("arguments", "sentence"), [({"wanted": 1.0}, "wanted"), ({"together": [30]}, "together")])
def test_what_cannot_be_priced_is_refused(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(SeedscopeError, match=sentence):
        ss.price_remedies(table(norm_bound=1.0), ss.ObjectivePerturbation(4.0), models=10, **arguments)  # type: ignore[arg-type]


def test_an_audit_says_what_a_released_model_could_certify_by_itself() -> None:
    data = table(rows=80, norm_bound=1.0)
    ensemble = ss.train(data, ss.OutputPerturbation(8.0, 1e-4), grid=ss.Grid(20), jobs=1)
    audit = ss.audit(ensemble, data=data)
    told = present(audit.levels[0].certain)
    rows = np.column_stack([ensemble.scaling.fit(data).apply(data.test.features), np.ones(len(data.test))])
    noise = present(ensemble.mechanism.weight_noise(ensemble.description.conditions))
    shares = [
        ss.multiplicity.released_model_disagreement(rows @ one, np.linalg.norm(rows, axis=1), noise).certain().mean()
        for one in ensemble.weights.values[:, 0, 0, -1].astype(float)
    ]
    assert told.value == pytest.approx(np.mean(shares))
    report = audit.as_dict()
    assert report["levels"][0]["certain_share"]["value"] == pytest.approx(told.value)
    assert "can certify by itself" in render_page(report)


def test_models_of_three_classes_certify_too_and_their_scores_are_the_recorded_ones() -> None:
    data = table(rows=300, classes=3, norm_bound=1.0)
    ensemble = ss.train(data, ss.OutputPerturbation(30.0, 1e-4), grid=ss.Grid(20), jobs=1)
    found = present(told_by_released(ensemble, data))
    np.testing.assert_array_equal(found.decided, ensemble.base_scores().argmax(-1))
    assert present(certain_share(ensemble, data)).value == pytest.approx(found.certain().mean())


def test_a_tilted_model_certifies_nothing_by_itself() -> None:
    data = table(rows=80, norm_bound=1.0)
    tilted = ss.train(data, ss.ObjectivePerturbation(8.0), grid=ss.Grid(20), jobs=1)
    audit = ss.audit(tilted, data=data)
    assert audit.levels[0].certain is None
    assert "can certify by itself" not in render_page(audit.as_dict())
