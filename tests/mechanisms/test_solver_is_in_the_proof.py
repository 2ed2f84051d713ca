"""What the solver leaves is part of the guarantee; sampled losses; rules that look at public numbers only."""

import math
import re

import numpy as np
import pytest

from seedscope import DPSGD, GaussianObjectivePerturbation, Grid, ObjectivePerturbation, OutputPerturbation, train
from seedscope.accounting import gaussian_delta
from seedscope.core import RELATIONS, Relation, SeedscopeError
from seedscope.mechanisms import Conditions, Mechanism
from seedscope.numerics import LogisticProblem, newton
from tests.helpers.small_data import table

SETTING = Conditions(500, math.sqrt(2), width=11)
PROVED = [ObjectivePerturbation(1.0), GaussianObjectivePerturbation(1.0, 1e-5), OutputPerturbation(1.0, 1e-5)]


@pytest.mark.parametrize("mechanism", PROVED, ids=lambda one: one.name)
def test_a_loosened_solver_tolerance_is_noticed(mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "RESIDUAL", 0.1)
    with pytest.raises(SeedscopeError, match=r"the solver left a gradient of norm .*, and the guarantee counts with"):
        train(table(rows=200), mechanism, grid=Grid(seeds=20), jobs=1)


@pytest.mark.parametrize("mechanism", PROVED[:2], ids=lambda one: one.name)
def test_what_is_blurred_hides_any_two_solutions_within_the_residual(mechanism: Mechanism) -> None:
    tilt = mechanism.tilt(SETTING)  # type: ignore[attr-defined]
    moved = 2 * tilt.blur.residual / tilt.penalty
    if tilt.blur.noise.law == "gamma":
        assert moved / tilt.blur.noise.scale == pytest.approx(0.001 * 1.0)  # of ε
    else:
        assert gaussian_delta(moved, tilt.blur.noise.scale, 0.001) <= 1e-8 * (1 + 1e-6)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_million_sampled_losses_stay_within_the_pure_epsilon(relation: Relation) -> None:
    draw, epsilon, bound = np.random.default_rng(0), 1.0, math.sqrt(2)
    rows = draw.normal(size=(12, 1))
    rows = np.column_stack([np.clip(rows, -1, 1), np.ones(12)])
    labels, models = draw.integers(0, 2, 12).astype(float), 21_000 if relation == "replace_one" else 84_000
    tilt = ObjectivePerturbation(epsilon, relation=relation).tilt(Conditions(12, bound, width=2))
    weights = LogisticProblem(rows, labels, np.full(2, tilt.penalty)).minimise(
        tilt.tilt.draw(0, "test", np.arange(models), 2) / 12
    ).weights  # fmt: skip
    margins = weights @ rows.T
    scores = 1 / (1 + np.exp(-margins))
    tilts = -((scores - labels) @ rows + 12 * tilt.penalty * weights)
    bend = scores * (1 - scores)
    hessians = np.einsum("mi,ij,ik->mjk", bend, rows, rows) + 12 * tilt.penalty * np.eye(2)
    largest, count = 0.0, 0
    for person in range(12):
        for other, label in [(np.zeros(2), 0.0)] if relation == "add_or_remove" else [
            (np.array([x, 1.0]), y) for x in (-1.0, 1.0) for y in (0.0, 1.0)
        ]:  # fmt: skip
            score = 1 / (1 + np.exp(-weights @ other))
            changed = tilts + (scores[:, person] - labels[person])[:, None] * rows[person]
            changed = changed - (score - label)[:, None] * other
            others = hessians - bend[:, person, None, None] * np.outer(rows[person], rows[person])
            others = others + (score * (1 - score))[:, None, None] * np.outer(other, other)
            losses = tilt.tilt.log_density(tilts) - tilt.tilt.log_density(changed)
            losses += np.linalg.slogdet(hessians)[1] - np.linalg.slogdet(others)[1]
            largest, count = max(largest, float(np.abs(losses).max())), count + len(losses)
    assert largest <= epsilon
    assert count >= 1_000_000


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("classes", [2, 4])
def test_noise_and_regularisation_fall_in_epsilon(relation: Relation, classes: int) -> None:
    setting = Conditions(500, math.sqrt(2), classes=classes, width=11)
    for kind in (ObjectivePerturbation, GaussianObjectivePerturbation):
        tilts = [kind(epsilon, relation=relation).tilt(setting) for epsilon in np.geomspace(0.05, 20, 6)]
        assert (np.diff([one.scale for one in tilts]) < 0).all()
        assert (np.diff([one.penalty for one in tilts]) < 0).all()


def test_the_gaussian_curve_meets_its_delta_at_its_epsilon() -> None:
    for relation in RELATIONS:
        mechanism = GaussianObjectivePerturbation(1.0, 1e-5, relation=relation)
        assert mechanism.delta_at(np.array(1.0), SETTING) == pytest.approx(1e-5, rel=1e-6)
        assert mechanism.delta_at(np.array(1.0), SETTING) <= 1e-5


def test_too_small_an_epsilon_names_the_least_useful_one() -> None:
    with pytest.raises(SeedscopeError, match=r"least useful epsilon is about 0\.09"):
        ObjectivePerturbation(0.001).check(SETTING)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_least_useful_epsilon_of_output_perturbation_is_that_of_as_much_noise(relation: Relation) -> None:
    with pytest.raises(SeedscopeError, match=r"is too small for a model of .* rows") as refused:
        OutputPerturbation(0.001, 1e-5, relation=relation).check(SETTING)
    least = float(re.findall(r"least useful epsilon is about ([\d.]+)\.", str(refused.value))[0])
    OutputPerturbation(1.02 * least, 1e-5, relation=relation).check(SETTING)
    with pytest.raises(SeedscopeError, match="least useful"):
        OutputPerturbation(0.9 * least, 1e-5, relation=relation).check(SETTING)


def test_noise_that_outweighs_all_steps_is_refused_with_the_least_useful_epsilon() -> None:
    conditions = Conditions(1000, 1.0, width=3)
    with pytest.raises(SeedscopeError, match=r"steps of 10 rows can say; at most 100 .* least useful epsilon is about"):
        DPSGD(1.0, batch_size=10, steps=100, noise_multiplier=101.0).check(conditions)
    DPSGD(1.0, batch_size=10, steps=100, noise_multiplier=100.0).check(conditions)


def test_the_published_calibration_is_for_two_classes_and_replacing_only() -> None:
    from seedscope import Chaudhuri

    with pytest.raises(SeedscopeError, match="relation must be 'replace_one' with Chaudhuri"):
        ObjectivePerturbation(1.0, calibration=Chaudhuri(), relation="add_or_remove")
    with pytest.raises(SeedscopeError, match="is for two classes, the data have 3"):
        train(table(classes=3), ObjectivePerturbation(1.0, calibration=Chaudhuri()), grid=Grid(seeds=2))


def test_the_public_rule_of_dpsgd_knows_no_data() -> None:
    small, large = (DPSGD.public(Conditions(N, math.sqrt(2), width=31), 1.0, 1e-5) for N in (400, 40_000))
    assert (small.batch_size, large.batch_size) == (100, 1024)
    assert small.steps < large.steps <= 500
    assert small.guarantee(Conditions(400, math.sqrt(2), width=31)).epsilon is not None
    with pytest.raises(SeedscopeError, match="needs rows with a public norm bound"):
        DPSGD.public(Conditions(400, None, width=31), 1.0)
