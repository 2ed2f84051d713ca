"""Losses drawn anew along recorded norms: right where nothing else varies, and an estimate everywhere."""

from typing import Any

import numpy as np
import pytest

from seedscope import DPSGD, Grid, Norms, Records, SeedscopeError, Shuffled, privacy_loss, train
from seedscope.accounting import trade_off
from seedscope.auditing.levels import _best_attacks
from tests.helpers.small_data import table

SETUP: dict[str, Any] = {"learning_rate": 0.5, "batch_size": 10, "steps": 20, "noise_multiplier": 1.2}


def test_gradients_that_are_always_clipped_have_the_guarantees_own_curve() -> None:
    found = privacy_loss.redrawn(
        np.ones((1, 100, 1)), noise_scale=1.5, sampling_probability=0.1, redraws=4000, confidence=0.999
    )
    curve = trade_off(noise_multiplier=1.5, sampling_probability=0.1, steps=100)
    assert found.advantage_lower[0] <= float(curve.advantage) <= found.advantage_upper[0]
    assert found.self_test.holds
    assert found.kind == "estimate"


def test_alarms_ring_at_their_own_confidence_and_not_at_that_of_the_intervals() -> None:
    options: dict[str, Any] = {"noise_scale": 1.0, "sampling_probability": 0.2, "confidence": 0.5}
    curve = trade_off(noise_multiplier=1.0, sampling_probability=0.2, steps=20)
    norms = np.ones((2, 20, 1))  # exactly as long as the guarantee allows: at 50 % some would ring
    right = [privacy_loss.redrawn(norms, seed=seed, curve=curve, **options) for seed in range(40)]
    assert not any(found.alarms for found in right)
    assert any(found.advantage_lower[0] > float(curve.advantage) for found in right)
    assert "clipping is off" in privacy_loss.redrawn(2 * norms, curve=curve, **options).alarms[0]


def test_a_state_stands_for_the_steps_until_the_next() -> None:
    norms = np.random.default_rng(0).uniform(0, 1, size=(3, 10, 4))
    options: dict[str, Any] = {"noise_scale": 1.0, "sampling_probability": 0.2, "redraws": 200, "seed": 1}
    spread = privacy_loss.redrawn(np.repeat(norms, 5, axis=1), **options)
    np.testing.assert_allclose(privacy_loss.redrawn(norms, every=5, **options).losses, spread.losses)


def test_few_runs_estimate_what_many_measure() -> None:
    records = Records(probes=(), norms=Norms(of="train"), losses_of="train")
    ensemble = train(table(), DPSGD(**SETUP), grid=Grid(seeds=300), records=records, jobs=1)
    measured, few = privacy_loss.everybody(ensemble), ensemble.dataset.isel(seed=slice(4))
    estimated = privacy_loss.everybody_redrawn(type(ensemble)(few), redraws=400)
    assert np.corrcoef(measured.advantage, estimated.advantage)[0, 1] > 0.8
    assert abs(measured.advantage.mean() - estimated.advantage.mean()) < 0.02
    assert estimated.people.tolist() == measured.people.tolist()
    assert "4 runs" in estimated.attacker


def test_an_audit_of_few_networks_has_an_estimate_for_those_whose_norms_it_knows() -> None:
    grid, records = Grid(seeds=8, neighbours=3), Records(norms=Norms(), losses_of="train")
    ensemble = train(table(), DPSGD(**SETUP), grid=grid, records=records, jobs=1)
    found = _best_attacks(ensemble, ensemble, None, 0.95)
    assert found.kind == "estimate"
    assert found.people.tolist() == ensemble.dataset["watched_person"].values.tolist()


def test_so_many_training_rows_are_the_same_for_norms_and_losses() -> None:
    records = Records(probes=(), norms=Norms(of=7), losses_of=7)
    dataset = train(table(), DPSGD(**SETUP), grid=Grid(seeds=2), records=records, jobs=1).dataset
    assert dataset["watched_row"].values.tolist() == dataset["loser_row"].values.tolist()
    assert len(set(dataset["loser_row"].values.tolist())) == 7


def test_what_cannot_be_redrawn_is_refused_and_says_why() -> None:
    without = train(table(), DPSGD(**SETUP), grid=Grid(seeds=2), records=Records(probes=()), jobs=1)
    with pytest.raises(SeedscopeError, match="no gradient norms"):
        privacy_loss.everybody_redrawn(without)
    records = Records(probes=(), norms=Norms(of="train"))
    shuffled = train(table(), DPSGD(**SETUP, sampling=Shuffled()), grid=Grid(seeds=2), records=records, jobs=1)
    with pytest.raises(SeedscopeError, match="Poisson"):
        privacy_loss.everybody_redrawn(shuffled)
    with pytest.raises(SeedscopeError, match=r"norms must be \[run, state, person\]"):
        privacy_loss.redrawn(np.ones((2, 3)), noise_scale=1.0, sampling_probability=0.5)
    with pytest.raises(SeedscopeError, match="a number of training rows"):
        Records(losses_of=0)
