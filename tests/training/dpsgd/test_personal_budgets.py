"""Budgets of everybody's own: nobody spends more, whoever has spent theirs leaves the sum, and without a limit nothing
changes."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seedscope import (
    DPSGD,
    Ensemble,
    Grid,
    Norms,
    Records,
    SeedscopeError,
    Shuffled,
    SmoothClipping,
    per_instance,
    train,
    train_until,
)
from seedscope.accounting import dpsgd_epsilon, personal_budget, rdp_to_epsilon, sampled_gaussian_rdp
from seedscope.mechanisms import Conditions, mechanism_from
from seedscope.models import logistic, network_of
from seedscope.training.dpsgd.train import train_dpsgd
from tests.helpers.command_line import run
from tests.helpers.small_data import table

FREE = DPSGD(1.0, batch_size=8, steps=60, noise_multiplier=1.5, clipping_norm=0.5, delta=1e-5)
LIMITED = replace(FREE, personal_budget=3.0)


@pytest.fixture(scope="module")
def limited() -> Ensemble:
    """Return models whose people have a budget that most of them reach, with everybody's norms."""
    return train(table(), LIMITED, grid=Grid(seeds=3, neighbours=2), records=Records(norms=Norms("train")))


def trained(private: Any, rows: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Return the records of some models, noise keyed by a number."""
    network = network_of(logistic(), rows.shape[1:], 2)
    seeds, neighbours = np.arange(3), np.array([-1, 4])
    return train_dpsgd(
        private, network, "add_or_remove", 0, seeds, neighbours, ("varied",), (60,), rows, labels, None, noise_seed=7
    )


def rows_of(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels, the spare example last."""
    draw = np.random.default_rng(seed)
    return draw.normal(size=(41, 3)).astype(np.float32), (draw.random(41) < 0.5).astype(np.float32)


def test_what_is_spent_follows_the_filter_written_out(limited: Ensemble) -> None:
    order, limit = LIMITED.budget(40)
    norms = limited.dataset["gradient_norms"].values[:, :, 0, :-1]
    spent = limited.dataset["spent_divergences"].values[:, :, 0]
    costs = sampled_gaussian_rdp(np.minimum(norms / 0.5, 1.0), 1.5, 0.2, order)
    total, left_out = np.zeros(spent.shape), 0
    for t in range(LIMITED.steps):
        able = total + costs[:, :, t] <= limit
        total += np.where(able, costs[:, :, t], 0.0)
        left_out += int((~able).sum())
    assert left_out > 0
    np.testing.assert_allclose(spent, total, rtol=0.05)
    assert np.all(spent <= limit)


@pytest.mark.slow
def test_nobodys_accounted_epsilon_exceeds_the_budget_in_a_thousand_runs() -> None:
    many = train(table(), replace(LIMITED, steps=40, personal_budget=2.0), grid=Grid(seeds=1000))
    order, limit = replace(LIMITED, personal_budget=2.0).budget(40)
    spent = many.dataset["spent_divergences"].values.astype(float)
    assert spent.shape == (1000, 1, 1, 40)
    assert np.all(rdp_to_epsilon(spent[..., None], [order], 1e-5) <= 2.0)
    assert spent.max() > 0.9 * limit  # some came near it
    assert float(dpsgd_epsilon(1.5, 0.2, 40, 1e-5)) > 2.0  # and without the filter it would have been more


@pytest.mark.optimised
def test_a_budget_that_nobody_reaches_leaves_every_bit_as_it_is() -> None:
    rows, labels = rows_of(0)
    free = trained(FREE.private_steps(), rows, labels)
    rich = trained(replace(FREE, personal_budget=1e6).private_steps(40), rows, labels)
    np.testing.assert_array_equal(free["weights"], rich["weights"])
    assert DPSGD(personal_budget=math.inf) == DPSGD()
    assert "personal_budget" not in DPSGD().describe()  # so noise and stores stay what they were


def test_whoever_has_nothing_left_is_not_in_the_sum() -> None:
    """With a budget below the cost of any step only noise is left: other rows give the same weights."""
    poor = replace(FREE.private_steps(), budget=(2.0, 1e-12))
    one, other = (trained(poor, *rows_of(seed)) for seed in (1, 2))
    np.testing.assert_array_equal(one["weights"], other["weights"])
    assert np.all(one["spent_divergences"] == 0)
    free = trained(FREE.private_steps(), *rows_of(1))
    assert not np.array_equal(one["weights"], free["weights"])


def test_a_run_without_a_person_spends_for_the_others_what_its_models_say(limited: Ensemble) -> None:
    assert np.all(np.isfinite(limited.dataset["spent_divergences"].values))
    assert limited.dataset["spender_person"].shape == (40,)
    found = per_instance.per_instance_privacy(limited, orders=(2.0, 4.0))  # norms are still those of people
    assert np.all(found.epsilon <= float(found.epsilon_baseline))


def test_the_guarantee_is_the_budget_where_that_is_smaller(limited: Ensemble) -> None:
    assert limited.guarantee.epsilon is not None
    kind = limited.guarantee.epsilon.kind
    assert float(limited.guarantee.epsilon) == 3.0
    assert "left out before they exceed a budget" in limited.guarantee.reason
    generous = train(table(), replace(FREE, steps=5, personal_budget=50.0), grid=Grid(seeds=1))
    assert float(generous.guarantee.epsilon or 0) == pytest.approx(float(dpsgd_epsilon(1.5, 0.2, 5, 1e-5)))
    assert kind == (generous.guarantee.epsilon or limited.guarantee.epsilon).kind


def test_a_budget_is_written_down_and_read_back() -> None:
    assert mechanism_from(json.loads(json.dumps(LIMITED.describe()))) == LIMITED


def test_the_order_is_the_one_at_which_full_norms_last_longest() -> None:
    order, divergence = personal_budget(2.0, 1e-5, 1.0, 0.05)
    lasts = divergence / float(sampled_gaussian_rdp(1.0, 1.0, 0.05, order))
    assert float(rdp_to_epsilon([divergence], [order], 1e-5)) <= 2.0
    for other in (1.5, 2.0, 4.0, 8.0, 20.0):
        left = 2.0 - np.log1p(-1 / other) + (np.log(1e-5) + np.log(other)) / (other - 1)
        assert left / float(sampled_gaussian_rdp(1.0, 1.0, 0.05, other)) <= lasts * (1 + 1e-6)
    steps = math.floor(lasts)  # as many full steps as plain accounting allows
    assert float(dpsgd_epsilon(1.0, 0.05, steps, 1e-5)) <= 2.0 < float(dpsgd_epsilon(1.0, 0.05, steps + 2, 1e-5))


@pytest.mark.parametrize(
    ("mechanism", "options", "message"),
    [
        (replace(LIMITED, sampling=Shuffled()), {}, "personal_budget needs a proved guarantee"),
        (replace(LIMITED, clipping=SmoothClipping()), {}, "flatly clipped"),
        (replace(LIMITED, personal_budget=1e-4), {}, "allows nothing"),
        (LIMITED, {"relation": "replace_one"}, "about add_or_remove"),
    ],
)
def test_what_a_filter_does_not_cover_is_refused(mechanism: DPSGD, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        train(table(), mechanism, grid=Grid(seeds=2, **options))


def test_losses_and_bad_budgets_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="people leave the sum"):
        train(table(), LIMITED, grid=Grid(seeds=2), records=Records(losses_of="train"))
    with pytest.raises(SeedscopeError, match="personal_budget must be above 0"):
        replace(LIMITED, personal_budget=0.0)


@pytest.mark.parametrize("budget", [0.2, 3.0, 1e6])
def test_a_budget_lowers_the_ceiling_of_every_reconstruction_to_what_its_epsilon_allows(budget: float) -> None:
    """Success is an event: at most e^ε as likely with a person as without plus δ, and so is failure the other way."""
    conditions, priors = Conditions(40, None), np.array([0.0, 0.01, 0.5, 0.9, 1.0])
    free, found = (replace(FREE, personal_budget=one).success_upper(priors, conditions) for one in (math.inf, budget))
    spent = min(budget, float(FREE.guarantee(conditions).epsilon or 0))
    for prior, plain, upper in zip(priors, free, found, strict=True):
        by_budget = min(math.exp(spent) * prior + 1e-5, 1 - math.exp(-spent) * (1 - prior - 1e-5))
        assert upper == pytest.approx(min(plain, by_budget))
    assert found[2] < free[2] or budget > 0.2
    np.testing.assert_array_less(priors - 1e-9, found)


@pytest.mark.slow
def test_until_a_disagreement_is_known_there_are_no_stand_ins_of_people_who_leave() -> None:
    found = train_until(table(), replace(LIMITED, steps=5), error=0.4, jobs=1)
    assert "spent_divergences" in found.ensemble.dataset


def test_train_takes_a_personal_budget(tmp_path: Any) -> None:
    place = str(tmp_path / "run")
    options = ["--mechanism", "dpsgd", "--epsilon", "4", "--personal-budget", "1.5", "--seeds", "2", "--steps", "30"]
    done = run("train", "breast-cancer", *options, "--store", place, "--jobs", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = Ensemble.open(place)
    assert float(found.guarantee.epsilon or 0) == 1.5
    assert "spent_divergences" in found.dataset
    foreign = run("train", "breast-cancer", "--mechanism", "output", "--personal-budget", "1")
    assert foreign.returncode == 2
