"""What is computed against what is tried: shadow models by the thousand, and both sides of the most exposed person."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from seedscope import (
    DPSGD,
    GaussianObjectivePerturbation,
    Grid,
    ObjectivePerturbation,
    Records,
    from_arrays,
    load,
    privacy_loss,
    train,
)
from seedscope.numerics import clopper_pearson
from tests.helpers.small_data import given_scaling, table

SHADOWS = 5000


def attacked(mechanism: Any, data: Any) -> tuple[float, float, float, float]:
    """Return both ends of a tried attack's advantage on person 0, and of the computed one."""
    grid, records = Grid(seeds=SHADOWS, people=[0], init="fixed"), Records(probes=(), losses_of="train")
    ensemble = train(data, mechanism, grid=grid, records=records, scaling=given_scaling(data), jobs=1)
    weights = ensemble.weights.isel(init=-1, step=-1).values  # [seed, with or without, weight]
    half = SHADOWS // 2
    made = PolynomialFeatures(3), StandardScaler(), LogisticRegression(max_iter=2000)
    seen = made[1].fit_transform(made[0].fit_transform(weights[:half].transpose(1, 0, 2).reshape(2 * half, -1)))
    made[2].fit(seen, np.repeat([1, 0], half))
    accused = [made[2].predict(made[1].transform(made[0].transform(weights[half:, k]))).sum() for k in (0, 1)]
    (true_low, true_high), (false_low, false_high) = (clopper_pearson(int(one), half, 0.99) for one in accused)
    found = privacy_loss.everybody(ensemble)
    place = int(np.flatnonzero(ensemble.dataset["loser_row"].values == 0)[0])
    sides = found.alone(0.99)
    computed = float(sides.lower[place]), float(sides.upper[place])
    return float(true_low - false_high), float(true_high - false_low), *computed


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        ObjectivePerturbation(6.0),
        # one step from a known point, so that whoever sees the end has seen every step
        DPSGD(1.0, 12, 1, noise_multiplier=0.7, clipping_norm=1.0),
    ],
)
def test_a_brute_force_attack_reaches_the_computed_advantage(mechanism: Any) -> None:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(20, 1)) * 0.3
    labels = (rows[:, 0] > 0).astype(int)
    rows[0], labels[0] = 1.0, 0
    data = from_arrays(rows[:16], labels[:16], rows[16:], [0, 1, 0, 1], norm_bound=1.0)
    tried_lower, tried_upper, lower, upper = attacked(mechanism, data)
    assert lower > 0.05
    assert tried_lower <= upper  # nothing that is tried beats what is computed
    assert tried_upper >= lower  # and it is reached


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [ObjectivePerturbation(8.0), GaussianObjectivePerturbation(8.0, 1e-5)])
def test_the_most_exposed_persons_two_sides_are_within_a_third(mechanism: Any) -> None:
    records = Records(probes=(), losses_of="train")  # as many models as an audit trains by default
    found = train(load("breast-cancer"), mechanism, grid=Grid(seeds=1000), records=records)
    largest = privacy_loss.everybody(found).largest
    assert largest.lower is not None
    assert largest.upper is not None
    assert largest.upper < 1.3 * largest.lower


@pytest.mark.slow
def test_a_correct_training_rings_no_alarm_in_two_hundred() -> None:
    mechanism = DPSGD(1.0, 10, 12, noise_multiplier=1.5)
    runs = train(table(), mechanism, grid=Grid(seeds=200 * 40), records=Records(probes=(), losses_of="train"), jobs=1)
    losses = runs.dataset["privacy_losses"].isel(init=-1, neighbour=0).values
    curve = privacy_loss.claimed_curve(runs)
    for part in np.split(losses, 200):
        assert privacy_loss.from_losses(part, curve=curve).alarms == ()
