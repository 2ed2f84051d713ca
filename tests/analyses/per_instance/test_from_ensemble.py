"""Per-instance privacy of trained ensembles: directions, records, refusals, and the commands that use it."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seedscope import (
    DPSGD,
    Bounded,
    Ensemble,
    Grid,
    Norms,
    Number,
    Records,
    SeedscopeError,
    Shuffled,
    SmoothClipping,
    per_instance,
    train,
)
from seedscope.accounting import dpsgd_epsilon, path_epsilon, pld_epsilon, rdp_to_epsilon
from seedscope.analyses.per_instance.from_ensemble import TRAINING_ALONE
from seedscope.analyses.per_instance.paths import PATH_ORDERS
from seedscope.commands.account import account_for, least_noise
from seedscope.commands.unlearn import assumed, summarise
from tests.helpers.present import present
from tests.helpers.small_data import table

MECHANISM = DPSGD(1.0, batch_size=8, steps=30, noise_multiplier=1.5, clipping_norm=0.5, delta=1e-5)
ORDERS = (1.5, 2.0, 4.0, 8.0)


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    """Return models with and without three people."""
    return train(table(), MECHANISM, grid=Grid(seeds=6, neighbours=3, init="fixed"), records=Records(norms=Norms()))


@pytest.fixture(scope="module")
def everyone() -> Ensemble:
    """Return models whose norms of all training rows were recorded every five steps."""
    records = Records(norms=Norms("train", every=5))
    return train(table(), MECHANISM, grid=Grid(seeds=4, neighbours=2), records=records)


def test_both_directions_are_the_smaller_composition_of_their_own_runs(ensemble: Ensemble) -> None:
    found = per_instance.per_instance_privacy(ensemble, orders=ORDERS, holder=90.0)
    norms = ensemble.dataset["gradient_norms"].values[:, :, 0, :-1]
    assert found.both_directions.all()
    steps, paths = np.zeros((2, 3, len(ORDERS))), np.zeros((2, 3, len(ORDERS)))
    for person in range(3):
        for side, runs in enumerate((norms[:, 0, :, person], norms[:, person + 1, :, person])):
            s = per_instance.clipped(runs, 0.5)
            for k, order in enumerate(ORDERS):
                composed = per_instance.compose_expected(s, 0.75, 0.2, order, 90.0, clipping_norm=0.5)
                steps[side, person, k] = float(composed.total)
                cap = float(present(composed.baseline))
                sums_over = per_instance.path_sums(s[:, :, None] / 0.5, 1.5, 0.2, PATH_ORDERS)[:, 0]
                paths[side, person, k] = float(
                    per_instance.compose_paths(sums_over, order, PATH_ORDERS, baseline=cap).total
                )
    smaller = np.minimum(steps, paths)
    for side, rdp in enumerate((found.rdp_with, found.rdp_without)):
        assert np.all(smaller[side] * (1 - 1e-9) <= rdp)
        assert np.all(rdp <= 1.02 * smaller[side])
    np.testing.assert_allclose(found.by_paths, paths.max(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.by_steps, steps.max(axis=0), rtol=0.02)
    np.testing.assert_array_equal(found.rdp, np.maximum(found.rdp_with, found.rdp_without))


def test_nobody_is_worse_off_than_the_guarantee(ensemble: Ensemble) -> None:
    found = per_instance.per_instance_privacy(ensemble, orders=(2.0, 4.0, 6.0))
    baseline = float(dpsgd_epsilon(1.5, 0.2, 30, 1e-5))
    assert float(found.epsilon_baseline) == pytest.approx(baseline)
    assert np.all(found.epsilon <= baseline)
    assert np.all(found.epsilon <= found.epsilon_statistical)
    assert np.all(found.epsilon_statistical <= baseline)
    assert np.all(found.rdp <= found.baseline)
    expected = rdp_to_epsilon(found.rdp, found.orders, 1e-5)
    pld = pld_epsilon(1.5, 0.2, 30, 1e-5)
    assert float(found.epsilon_baseline_pld) == pytest.approx(pld)
    assert pld < baseline  # what a better accountant gives everybody is nobody's own
    np.testing.assert_allclose(found.epsilon, np.minimum(expected, pld))
    assert np.all((found.advantage_statistical > 0) & (found.advantage_statistical <= 1))


def test_the_guarantee_beside_it_is_proved_only_where_preprocessing_saw_no_rows(ensemble: Ensemble) -> None:
    learned = per_instance.per_instance_privacy(ensemble, orders=(2.0, 4.0))
    grid, ranges = Grid(seeds=2, neighbours=2), Bounded((-1.0,) * 3, (1.0,) * 3)
    known = train(table(), MECHANISM, grid=grid, scaling=ranges, records=Records(norms=Norms()))
    public = per_instance.per_instance_privacy(known, orders=(2.0, 4.0))
    for found, kind, note in ((learned, "estimate", TRAINING_ALONE), (public, "proved", "")):
        for number in (found.epsilon_baseline, found.epsilon_baseline_pld):
            assert (number.kind, number.note) == (kind, note)
        assert (TRAINING_ALONE in found.caveats()) == (kind == "estimate")


def test_a_persons_number_says_its_kind_and_bound(ensemble: Ensemble) -> None:
    number = per_instance.per_instance_privacy(ensemble, confidence=0.9).number(1)
    assert isinstance(number, Number)
    assert (number.kind, number.confidence) == ("estimate", 0.9)
    assert number.note == "from 6 runs, so often below the true divergence"
    assert present(number.lower) <= float(number) <= present(number.upper)


def test_the_best_of_several_holder_constants_is_at_most_each(ensemble: Ensemble) -> None:
    best = per_instance.per_instance_privacy(ensemble, orders=ORDERS).by_steps
    for holder in (90.0, 300.0, 3000.0):
        alone = per_instance.per_instance_privacy(ensemble, orders=ORDERS, holder=holder).by_steps
        assert np.all(best <= alone * (1 + 1e-12))


def test_attacks_are_bounded_for_each_person(ensemble: Ensemble) -> None:
    found = per_instance.per_instance_privacy(ensemble)
    rates = found.true_positive_rate([0.01, 0.1])
    assert rates.shape == (3, 2)
    assert np.all((rates > [0.01, 0.1]) & (rates < 1))
    assert np.all((found.membership_advantage() > 0) & (found.membership_advantage() < 1))
    assert found.memorisation(np.array([0.5, 0.7, 0.9])).shape == (3,)


def test_rows_that_no_run_lacks_have_one_direction_only(everyone: Ensemble) -> None:
    found = per_instance.per_instance_privacy(everyone)
    neighbours = everyone.dataset["neighbour"].values[1:]
    np.testing.assert_array_equal(np.flatnonzero(found.both_directions), np.sort(neighbours))
    assert np.isnan(found.epsilon_statistical).all()  # norms between the recorded states are not known
    lonely = int(np.flatnonzero(~found.both_directions)[0])
    assert found.number(lonely).note.startswith("one direction only; from 4 runs")
    assert np.isfinite(found.epsilon).all()


def test_test_rows_are_seen_by_runs_without_them() -> None:
    ensemble = train(table(), MECHANISM, grid=Grid(seeds=3), records=Records(norms=Norms("test")))
    found = per_instance.per_instance_privacy(ensemble)
    assert np.isnan(found.rdp_with).all()
    assert np.isfinite(found.rdp_without).all()


def test_shares_of_steps_and_contributions_follow_their_formulas(everyone: Ensemble) -> None:
    shares = per_instance.step_shares(everyone, order=4.0)
    norms = everyone.dataset["gradient_norms"].values[:, 0, 0]
    np.testing.assert_allclose(shares.shares, per_instance.step_share(norms, 0.5, 1.5, 0.2, 4.0))
    assert shares.steps.tolist() == [0, 5, 10, 15, 20, 25, 30]
    assert set(np.unique(shares.correct)) <= {0.0, 1.0}
    steps, contributions = per_instance.contribution_shares(everyone, order=4.0)
    assert steps.tolist() == [0, 5, 10, 15, 20, 25]
    whole = np.repeat(per_instance.clipped(norms[:, :6, 7], 0.5), 5, axis=1)
    composed = per_instance.compose_expected(whole, 0.75, 0.2, 4.0)
    baseline = float(per_instance.step_rdp(1.0, 1.5, 0.2, 4.0))
    np.testing.assert_allclose(contributions[7], composed.contributions[::5] / baseline, rtol=1e-9)


def test_deletion_requests_are_decided_from_recorded_norms(everyone: Ensemble) -> None:
    orders = per_instance.orders_needed(2.0, 2)
    found = per_instance.per_instance_privacy(everyone, orders=orders)
    requests = [(row, found.divergence(row)) for row in (3, 11)]
    decisions = per_instance.unlearning_decisions(requests, order=2.0, budget=100.0)
    assert [one.kept for one in decisions] == [True, True]
    assert float(decisions[0].divergence) == pytest.approx(found.rdp_with[3, 0])  # the first one's own divergence
    doubled = 1.5 * requests[0][1].at(4.0) + requests[1][1].at(3.0)
    assert found.rdp_with[3, 0] + found.rdp_with[11, 0] <= float(decisions[1].divergence) <= doubled
    report = summarise(decisions, 2.0, 100.0, found.runs, assumed(everyone, requests=2, continued=False))
    assert json.loads(json.dumps(report))["retrainings"] == 0
    assert "earlier" in report["assumes"]
    with pytest.raises(SeedscopeError, match="row 77 were not recorded"):
        found.divergence(77)


@pytest.mark.parametrize(
    ("mechanism", "options", "message"),
    [
        (
            replace(MECHANISM, sampling=Shuffled()),
            {},
            r"needs Poisson\(\) batches, the norms were recorded along Shuffled",
        ),
        (replace(MECHANISM, rule="mean"), {}, "rule='sum'"),
        (replace(MECHANISM, noise_multiplier=0.0), {}, "needs noise"),
        (MECHANISM, {"relation": "replace_one"}, "add_or_remove relation"),
    ],
)
def test_runs_that_the_theorems_do_not_cover_are_refused(
    mechanism: DPSGD, options: dict[str, Any], message: str
) -> None:
    ensemble = train(table(), mechanism, grid=Grid(seeds=2, **options), records=Records(norms=Norms("train", 10)))
    with pytest.raises(SeedscopeError, match=message):
        per_instance.per_instance_privacy(ensemble)


def test_an_ensemble_without_norms_is_refused() -> None:
    with pytest.raises(SeedscopeError, match="no gradient norms were recorded"):
        per_instance.per_instance_privacy(train(table(), MECHANISM, grid=Grid(seeds=2)))


@pytest.mark.parametrize("options", [{"delta": 1.0}, {"confidence": 1.0}, {"orders": [1.0]}, {"init": "other"}])
def test_bad_options_are_refused(ensemble: Ensemble, options: dict[str, Any]) -> None:
    with pytest.raises(SeedscopeError, match=next(iter(options))):
        per_instance.per_instance_privacy(ensemble, **options)


def test_an_account_is_the_guarantee_and_what_it_bounds() -> None:
    found = account_for(10_000, 100, 500, noise=1.2, delta=1e-5, relation="add_or_remove").as_dict()
    assert found["epsilon"]["rdp"] == pytest.approx(float(dpsgd_epsilon(1.2, 0.01, 500, 1e-5)))
    rates = [one["at_most"] for one in found["true_positive_rates"]]
    assert rates == sorted(rates)
    assert all(one["at_most"] >= one["false_positive_rate"] for one in found["true_positive_rates"])
    assert 0 < found["membership_advantage"] < 1


def test_an_account_from_epsilon_finds_the_least_noise() -> None:
    found = account_for(
        10_000, 100, 500, noise=least_noise(0.01, 500, "replace_one", 2.0), delta=1e-5, relation="replace_one"
    )
    assert found.epsilon["rdp"] == pytest.approx(2.0, rel=1e-4)
    assert found.noise_multiplier > 0


PATHS = (1.5, 2.0, 3.0, 8.0)


@pytest.fixture(scope="module")
def summed() -> Ensemble:
    """Return the models of `ensemble`, of whose norms only path sums were kept."""
    records = Records(norms=Norms(orders=PATHS))
    return train(table(), MECHANISM, grid=Grid(seeds=6, neighbours=3, init="fixed"), records=records)


def test_path_sums_of_training_are_those_of_its_norms(ensemble: Ensemble, summed: Ensemble) -> None:
    norms, sums = ensemble.dataset["gradient_norms"].values, summed.dataset["path_sums"].values
    np.testing.assert_array_equal(ensemble.weights.values, summed.weights.values)
    runs = norms.reshape(-1, *norms.shape[3:])[:, :-1]
    exact = per_instance.step_rdp(per_instance.clipped(runs, 0.5)[..., None] / 0.5, 1.5, 0.2, PATHS).sum(axis=1)
    found = np.moveaxis(sums.reshape(-1, *sums.shape[3:]), 1, 2)
    assert np.all(found >= exact * (1 - 1e-12))
    assert np.all(found <= exact * 1.02)


def test_path_sums_alone_give_everybodys_privacy(ensemble: Ensemble, summed: Ensemble) -> None:
    alone = per_instance.per_instance_privacy(summed, orders=(1.25, 2.0))
    assert np.isnan(alone.by_steps).all()
    np.testing.assert_array_equal(alone.rdp, alone.by_paths)
    norms = ensemble.dataset["gradient_norms"].values[:, 0, 0]
    sums = per_instance.path_sums(norms, 1.5, 0.2, PATHS, clipping_norm=0.5, steps=30)
    expected = np.minimum(per_instance.paths_rdp(sums, PATHS, (1.25, 2.0)), alone.baseline)
    np.testing.assert_allclose(alone.rdp_with, expected, rtol=1e-4)
    assert alone.both_directions.all()
    assert np.all(alone.epsilon <= alone.epsilon_statistical)
    with pytest.raises(SeedscopeError, match="only their path sums were recorded"):
        per_instance.step_shares(summed)


def test_path_sums_every_few_steps_are_estimates_only() -> None:
    records = Records(norms=Norms("train", every=7, orders=PATHS))
    found = per_instance.per_instance_privacy(train(table(), MECHANISM, grid=Grid(seeds=3), records=records))
    assert found.training.every == 7
    assert np.isnan(found.epsilon_statistical).all()
    assert np.isfinite(found.epsilon).all()


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (replace(MECHANISM, rule="mean"), "path sums need steps whose divergence is known"),
        (replace(MECHANISM, noise_multiplier=0.0), "path sums need steps"),
        (replace(MECHANISM, clipping=SmoothClipping()), "clips smoothly"),
    ],
)
def test_path_sums_are_refused_where_steps_have_no_known_divergence(mechanism: DPSGD, message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        train(table(), mechanism, grid=Grid(seeds=2), records=Records(norms=Norms("train", orders=PATHS)))


def test_orders_of_path_sums_must_rise() -> None:
    with pytest.raises(SeedscopeError, match="orders must be rising"):
        Norms(orders=(2.0, 1.5))


def test_a_runs_own_epsilon_is_that_of_its_path(ensemble: Ensemble) -> None:
    found = per_instance.run_epsilon(ensemble, place=1, run=2)
    norms = ensemble.dataset["gradient_norms"].values[2, 0, 0, :-1, 1]
    assert float(found) == pytest.approx(path_epsilon(np.minimum(norms / 0.5, 1.0), 1.5, 0.2, 1e-5))
    assert (found.kind, found.note) == ("estimate", "this run's, output-specific")
    assert float(found) <= pld_epsilon(1.5, 0.2, 30, 1e-5) * (1 + 1e-9)
