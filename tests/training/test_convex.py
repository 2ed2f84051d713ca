"""Output and objective perturbation: their minimisers, their sensitivity, and the noise that they draw."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from seedscope import (
    SGD,
    AugmentedOutputPerturbation,
    Dataset,
    Diffprivlib062,
    Ensemble,
    Grid,
    ObjectivePerturbation,
    OutputPerturbation,
    Records,
    Standardised,
    train,
)
from seedscope.core import Relation
from seedscope.mechanisms import Calibration, Mechanism
from seedscope.mechanisms.guarantees import Conditions
from seedscope.numerics import logistic as solvers
from seedscope.planning import make_plan
from seedscope.training import Job
from seedscope.training.convex import ConvexTrainer, with_bias
from seedscope.training.streams import normals
from tests.helpers.small_data import given_scaling, table

NOISELESS = [
    OutputPerturbation(noise_scale=0.0, l2=0.02),
    OutputPerturbation(epsilon=math.inf, l2=0.02),
    ObjectivePerturbation(epsilon=math.inf, l2=0.02),
]


def scaled(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows (spare example last) as training sees them, and their labels."""
    rows = np.concatenate([data.base.features, data.spare_example.features])
    return Standardised().fit(data).apply(rows), np.concatenate([data.base.labels, data.spare_example.labels])


def scikit_learn_solution(rows: np.ndarray, labels: np.ndarray, l2: float, regularise_bias: bool = True) -> np.ndarray:
    """Return the minimiser of mean log-loss + (l2/2)‖w‖², the bias last."""
    model = LogisticRegression(C=1 / (l2 * len(rows)), fit_intercept=not regularise_bias, tol=1e-10, max_iter=10_000)
    model.fit(with_bias(rows) if regularise_bias else rows, labels)
    return model.coef_[0] if regularise_bias else np.append(model.coef_[0], model.intercept_)


def trainer_for(
    mechanism: Any, rows: np.ndarray, labels: np.ndarray, relation: Relation = "replace_one", bound: float = 1.0
) -> Any:
    """Return the trainer for rows, the spare example last."""
    conditions = Conditions(len(rows) - 1, math.hypot(bound, 1), width=rows.shape[1] + 1)
    job = Job(
        "",
        mechanism,
        None,
        2,
        conditions.norm_bound,
        relation,
        0,
        ("fixed",),
        (0,),
        False,
        rows,
        labels,
        rows[:0],
        labels[:0],
    )
    return ConvexTrainer(job, mechanism.release(conditions)), conditions


@pytest.mark.parametrize("mechanism", NOISELESS, ids=["output", "output, infinite epsilon", "objective"])
@pytest.mark.parametrize("memory", ["Hessians fit", "Hessians do not fit"])
def test_without_noise_a_mechanism_is_scikit_learns_logistic_regression(
    mechanism: Mechanism, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if memory == "Hessians do not fit":
        monkeypatch.setattr(solvers, "OUTER_WIDTH", 0)
    data = table(rows=120, columns=4)
    rows, labels = scaled(data)
    ensemble = train(data, mechanism, grid=Grid(seeds=2, neighbours=2, root_seed=3), scaling=given_scaling(data))
    for neighbour in ensemble.dataset.neighbour.values:
        own_rows, own_labels = rows[:-1].copy(), labels[:-1].copy()
        if neighbour >= 0:
            own_rows[neighbour], own_labels[neighbour] = rows[-1], labels[-1]
        theirs = scikit_learn_solution(own_rows, own_labels, 0.02)
        ours = ensemble.weights.sel(neighbour=neighbour).values.reshape(2, -1)
        np.testing.assert_allclose(ours, [theirs] * 2, atol=2e-5)


def test_a_removed_row_leaves_the_divisor_as_it_was() -> None:
    data = table(rows=60)
    rows, labels = scaled(data)
    grid = Grid(seeds=1, neighbours=3, relation="add_or_remove")
    ensemble = train(data, OutputPerturbation(noise_scale=0, l2=0.02), grid=grid, scaling=given_scaling(data))
    for neighbour in ensemble.dataset.neighbour.values[1:]:
        kept = np.delete(np.arange(60), neighbour)
        theirs = scikit_learn_solution(rows[kept], labels[kept], 0.02 * 60 / 59)  # the sum over 59, divided by 60
        np.testing.assert_allclose(ensemble.weights.sel(neighbour=neighbour).values.ravel(), theirs, atol=2e-5)


def test_diffprivlibs_objective_without_noise_leaves_the_bias_free() -> None:
    data = table(rows=80)
    rows, labels = scaled(data)
    mechanism = ObjectivePerturbation(epsilon=math.inf, calibration=Diffprivlib062())
    ours = train(data, mechanism, grid=Grid(seeds=1)).weights.values.ravel()
    np.testing.assert_allclose(ours, scikit_learn_solution(rows[:-1], labels[:-1], 1 / 80, False), atol=1e-4)


@pytest.mark.parametrize(("l2", "reached"), [(1e-3, 0.01), (0.1, 0.2), (3.0, 0.4)])
def test_no_replaced_row_moves_the_minimiser_beyond_the_sensitivity(l2: float, reached: float) -> None:
    draw = np.random.default_rng(0)
    mechanism, moved = OutputPerturbation(noise_scale=0, l2=l2), []
    for _ in range(12):
        rows = draw.normal(size=(31, 4))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        labels = (draw.random(31) < 0.5).astype(float)
        rows[-1], labels[-1] = -rows[0], 1.0 - labels[0]
        trainer, conditions = trainer_for(mechanism, rows, labels)
        weights = trainer.train(np.arange(1), np.arange(-1, 30))[0][0]
        moved.append(np.linalg.norm(weights[1:] - weights[0], axis=1).max())
    bound = mechanism.sensitivity(conditions)
    assert max(moved) <= bound
    assert max(moved) > reached * bound  # and it is not a bound on something else


def test_the_sensitivity_is_nearly_reached_where_regularisation_rules() -> None:
    rows = np.array([[1.0]] * 10 + [[1.0]])
    labels = np.array([1.0] * 10 + [0.0])
    mechanism = OutputPerturbation(noise_scale=0, l2=50.0)
    trainer, conditions = trainer_for(mechanism, rows, labels)
    base, other = trainer.train(np.arange(1), np.array([-1, 0]))[0][0]
    # At w ≈ 0 a row contributes (½ − y)·x̃: replacing one moves the gradient by ‖x̃‖/N, half the worst case 2R/N.
    assert np.linalg.norm(base - other) == pytest.approx(mechanism.sensitivity(conditions) / 2, rel=0.02)


def test_output_noise_is_normal_with_the_calibrated_scale() -> None:
    data = table(rows=60)
    mechanism = OutputPerturbation(epsilon=1.0, l2=0.05)
    ensemble = train(data, mechanism, grid=Grid(seeds=3000), records=Records(probes=()))
    noiseless = train(data, replace(mechanism, epsilon=math.inf), grid=Grid(seeds=1), records=Records(probes=()))
    noise = (ensemble.weights.values - noiseless.weights.values)[:, 0, 0, 0]
    scale = mechanism.noise(Conditions(60, math.sqrt(2)))
    assert stats.kstest(noise.ravel() / scale, "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(noise.T)[np.triu_indices(4, 1)]).max() < 0.08


def released_tilts(mechanism: Any, seeds: int) -> tuple[np.ndarray, Conditions]:
    """Return the tilts b that the released weights reveal: N times the gradient that they left, with opposite sign."""
    rows, labels = scaled(table(rows=60))
    trainer, conditions = trainer_for(mechanism, rows, labels)
    weights = trainer.train(np.arange(seeds), np.array([-1]))[0][:, 0]
    problem = trainer.problem
    residuals = 1 / (1 + np.exp(-weights @ problem.rows.T)) - problem.labels
    return -(residuals @ problem.rows + 60 * weights * problem.penalty), conditions


@pytest.mark.parametrize("epsilon", [0.05, 4.0])
@pytest.mark.parametrize(
    "calibration", [ObjectivePerturbation().calibration, Diffprivlib062()], ids=["ours", "diffprivlib"]
)
def test_the_tilts_norm_is_gamma_and_its_direction_uniform(epsilon: float, calibration: Calibration) -> None:
    mechanism = ObjectivePerturbation(epsilon, calibration=calibration)
    tilts, conditions = released_tilts(mechanism, 3000)
    norms = np.linalg.norm(tilts, axis=1)
    scale = mechanism.tilt(conditions).scale
    assert stats.kstest(norms, stats.gamma(4, scale=scale).cdf).pvalue > 1e-3
    directions = tilts / norms[:, None]
    # A coordinate of a uniform direction in 4 dimensions: (1 + u)/2 is Beta(3/2, 3/2).
    for column in directions.T:
        assert stats.kstest((1 + column) / 2, stats.beta(1.5, 1.5).cdf).pvalue > 1e-4
    assert np.abs(directions.mean(0)).max() < 0.04
    assert abs(np.corrcoef(norms, directions[:, 0])[0, 1]) < 0.08


def test_what_is_left_of_the_gradient_is_recorded_and_within_tolerance() -> None:
    ensemble = train(table(rows=60), ObjectivePerturbation(1.0), grid=Grid(seeds=50, neighbours=2))
    left = ensemble.dataset.residual_norms
    assert left.dims == ("seed", "neighbour", "init")
    assert float(left.max()) <= 1e-6 * math.sqrt(2) / 60


def test_scores_at_checkpoints_of_a_minimiser_are_those_at_its_only_one() -> None:
    grid = Grid(seeds=3, neighbours=1)
    last, every = (
        train(table(), ObjectivePerturbation(), grid=grid, records=Records(scores_at_checkpoints=at_checkpoints))
        for at_checkpoints in (False, True)
    )
    assert every.scores.dims == ("seed", "neighbour", "init", "step", "example")
    np.testing.assert_array_equal(every.scores[..., 0, :], last.scores)
    np.testing.assert_array_equal(every.losses[..., 0, :], last.losses)


PLAIN_SGD = SGD(learning_rate=0.5, batch_size=8, steps=20)


@pytest.fixture(scope="module")
def plain() -> Ensemble:
    grid = Grid(seeds=400, neighbours=1, init="both", checkpoints=[10])
    return train(table(), PLAIN_SGD, grid=grid, scaling=given_scaling(table()))


def augmented(intrinsic: float, **records: Any) -> tuple[AugmentedOutputPerturbation, Ensemble]:
    mechanism = AugmentedOutputPerturbation(PLAIN_SGD, 1.0, 1e-4, sensitivity=0.1, intrinsic_noise=intrinsic)
    grid = Grid(seeds=400, neighbours=1, init="both", checkpoints=[10])
    return mechanism, train(table(), mechanism, grid=grid, records=Records(**records), scaling=given_scaling(table()))


def test_augmentation_adds_normal_noise_of_the_lacking_variance(plain: Ensemble) -> None:
    mechanism, ensemble = augmented(intrinsic=0.2)
    noise = (ensemble.weights - plain.weights).values
    assert 0 < mechanism.added_noise() < mechanism.target_noise()
    assert stats.kstest(noise[:, 0, 0, 0].ravel() / mechanism.added_noise(), "norm").pvalue > 1e-3
    root = make_plan(table(), mechanism, scaling=given_scaling(table())).job.noise_seed
    expected = mechanism.added_noise() * normals(root, "augmentation", np.arange(400), 4)
    np.testing.assert_allclose(noise, np.broadcast_to(expected[:, None, None, None], noise.shape), atol=1e-5)


def test_no_noise_is_added_where_the_seeds_own_suffices(plain: Ensemble) -> None:
    mechanism, ensemble = augmented(intrinsic=10.0)
    assert mechanism.added_noise() == 0
    np.testing.assert_array_equal(ensemble.weights, plain.weights)


@pytest.mark.parametrize("at_checkpoints", [False, True])
def test_augmented_scores_are_those_of_the_noisy_weights(at_checkpoints: bool) -> None:
    data, (_, ensemble) = table(), augmented(intrinsic=0.0, probes=("test",), scores_at_checkpoints=at_checkpoints)
    rows = with_bias(Standardised().fit(data).apply(data.test_features))
    weights = ensemble.weights.values if at_checkpoints else ensemble.weights.values[..., -1, :]
    chances = 1 / (1 + np.exp(-weights.astype(float) @ rows.T))
    np.testing.assert_allclose(ensemble.scores, chances, atol=1e-5)
