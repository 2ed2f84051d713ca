"""Multinomial regression: many tilted objectives at once, where the classes' weights add up to 0."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax as scipy_softmax
from sklearn.linear_model import LogisticRegression

from seedscope import GaussianObjectivePerturbation, Grid, ObjectivePerturbation, OutputPerturbation, Records, train
from seedscope.core import SeedscopeError
from seedscope.mechanisms import Mechanism
from seedscope.numerics import LogisticProblem, SoftmaxProblem, Solution, softmax, zero_sum_basis
from seedscope.training.convex import linear_scores, with_bias
from tests.helpers.small_data import table


def drawn(classes: int, examples: int = 60, columns: int = 3) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Return rows with a bias column, labels and a generator."""
    draw = np.random.default_rng(classes)
    rows = with_bias(draw.normal(size=(examples, columns)))
    return rows, draw.integers(0, classes, examples), draw


@pytest.fixture(params=["exact", "conjugate gradients"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the Hessians of all models, and with conjugate gradients."""
    monkeypatch.setattr(softmax, "DIRECT_DIMENSION", 1000 if request.param == "exact" else 0)
    return str(request.param)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_the_basis_is_orthonormal_and_adds_up_to_zero(classes: int) -> None:
    basis = zero_sum_basis(classes)
    np.testing.assert_allclose(basis.T @ basis, np.eye(classes - 1), atol=1e-12)
    np.testing.assert_allclose(basis.sum(0), 0, atol=1e-12)


@pytest.mark.parametrize("classes", [3, 5])
def test_without_a_tilt_it_is_scikit_learns_multinomial_regression(classes: int) -> None:
    rows, labels, _ = drawn(classes)
    problem = SoftmaxProblem(rows, labels, np.full(4, 0.02), classes)
    theirs = LogisticRegression(C=1 / (0.02 * 60), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(rows, labels)
    found = problem.minimise(np.zeros(problem.width)).weights.reshape(classes, 4)
    np.testing.assert_allclose(found, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(found.sum(0), 0, atol=1e-8)


def slow_gradients(problem: SoftmaxProblem, found: Solution, tilts: np.ndarray) -> np.ndarray:
    """Return the norm of the gradient at each solution, model by model and row by row."""
    norms = []
    for weights, tilt in zip(found.weights, tilts, strict=True):
        gradient, W = problem.penalty * weights + tilt, weights.reshape(problem.classes, -1)
        for row, target in zip(problem.rows, problem.targets, strict=True):
            gradient = gradient + np.outer(scipy_softmax(W @ row) - target, row).ravel() / problem.examples
        norms.append(np.linalg.norm(gradient))
    return np.array(norms)


def test_tilted_minimisers_are_those_of_a_general_optimiser(path: str) -> None:
    rows, labels, draw = drawn(4)
    problem = SoftmaxProblem(rows, labels, np.full(4, 0.05), 4)
    assert (problem._outer is not None) == (path == "exact")
    tilts = problem.spread(draw.normal(size=(5, problem.dimension))) * np.array([[0.01], [0.1], [0.3], [1], [5]])
    found = problem.minimise(tilts)
    assert found.residual_norms.max() <= problem.tolerance
    np.testing.assert_allclose(slow_gradients(problem, found, tilts), found.residual_norms, atol=problem.tolerance / 10)

    def objective(flat: np.ndarray, tilt: np.ndarray) -> float:
        logits = rows @ flat.reshape(4, 4).T
        losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(60), labels]
        return float(losses.mean() + 0.025 * flat @ flat + tilt @ flat)

    for tilt, weights in zip(tilts, found.weights, strict=True):
        theirs = minimize(objective, np.zeros(16), (tilt,), tol=1e-10).x
        np.testing.assert_allclose(weights, theirs, atol=1e-3 * (1 + np.abs(theirs).max()))


HARD = {  # how columns are stretched, penalty, size of tilts
    "separable, tiny penalty": (1.0, 1e-8, 0.0),
    "tiny penalty": (1.0, 1e-12, 0.0),
    "big tilts": (1.0, 1e-3, 10.0),
    "huge tilts, small penalty": (1.0, 1e-6, 100.0),
    "long rows": (100.0, 1e-4, 5.0),
    "uneven columns": (np.logspace(-3, 3, 4), 1e-4, 0.1),
}


@pytest.mark.parametrize("case", HARD)
def test_the_tolerance_is_reached_on_hard_problems(case: str, path: str) -> None:
    stretch, penalty, size = HARD[case]
    rows, labels, draw = drawn(3)
    if case.startswith("separable"):
        labels = (rows[:, 0] > 0).astype(int) + (rows[:, 0] > 1)
    problem = SoftmaxProblem(stretch * rows, labels, np.full(4, penalty), 3)
    tilts = size * problem.spread(draw.normal(size=(8, problem.dimension)))
    found = problem.minimise(tilts)
    assert problem.tolerance == pytest.approx(1e-6 * np.linalg.norm(problem.rows, axis=1).max() / 60)
    assert (found.residual_norms <= problem.tolerance).all()
    np.testing.assert_allclose(slow_gradients(problem, found, tilts), found.residual_norms, atol=problem.tolerance)


def test_an_unbounded_objective_ends_in_a_sentence(path: str) -> None:
    rows, labels, _ = drawn(3)
    problem = SoftmaxProblem(rows, labels, np.array([0.01, 0.01, 0.01, 0.0]), 3)  # biases are free
    tilt = np.zeros((3, 4))
    tilt[:, 3] = 4.0, -2.0, -2.0  # and are pulled harder than all labels together can hold
    with pytest.raises(SeedscopeError, match=r"multinomial regression did not converge in \d+ Newton steps"):
        problem.minimise(tilt.ravel())


def test_hessians_are_those_of_the_rows_one_by_one() -> None:
    rows, labels, draw = drawn(4, examples=9)
    problem = SoftmaxProblem(rows, labels, np.arange(1.0, 5.0), 4)
    W = draw.normal(size=(4, 4))
    scores = np.stack([scipy_softmax(W @ row) for row in rows], axis=1)
    whole = np.diag(np.tile(np.arange(1.0, 5.0), 4))
    for row, s in zip(rows, scores.T, strict=True):
        whole += np.kron(np.diag(s) - np.outer(s, s), np.outer(row, row)) / 9
    step = problem.spread(draw.normal(size=(1, 12)))[0]
    reduced = problem._hessians(scores[None].astype(problem._kind))[0]
    np.testing.assert_allclose(reduced @ step[:12], (whole @ step)[:12], rtol=1e-4, atol=1e-5)


def test_two_classes_are_binary_regression_with_half_the_penalty() -> None:
    rows, labels, draw = drawn(2)
    two = SoftmaxProblem(rows, labels, np.full(4, 0.1), 2)
    free = draw.normal(size=(6, 4)) * 0.2
    each = two.minimise(two.spread(free)).weights.reshape(6, 2, 4)
    # v = w₁ − w₀: its penalty is half as large, and the tilt (z, −z)/√2 is −z/√2 of v.
    one = LogisticProblem(rows, labels, np.full(4, 0.05)).minimise(-free / math.sqrt(2)).weights
    np.testing.assert_allclose(each[:, 1] - each[:, 0], one, atol=1e-5)


def test_a_replaced_and_a_removed_row_are_other_problems() -> None:
    rows, labels, draw = drawn(3)
    problem = SoftmaxProblem(rows, labels, np.full(4, 0.1), 3)
    row = with_bias(draw.normal(size=(1, 3)))[0]
    replaced, removed = problem.with_row(7, row, 2.0), problem.with_row(7, np.zeros(4), 0.0)
    own_rows, own_labels = rows.copy(), labels.copy()
    own_rows[7], own_labels[7] = row, 2
    start, tilt = problem.minimise(np.zeros(12)).weights[0], problem.spread(draw.normal(size=(1, 8)))
    direct = SoftmaxProblem(own_rows, own_labels, np.full(4, 0.1), 3).minimise(tilt).weights
    np.testing.assert_allclose(replaced.minimise(tilt, start).weights, direct, atol=1e-5)
    left = SoftmaxProblem(np.delete(rows, 7, 0), np.delete(labels, 7), np.full(4, 0.1 * 60 / 59), 3)
    np.testing.assert_allclose(removed.minimise(tilt).weights, left.minimise(tilt * 60 / 59).weights, atol=1e-5)


@pytest.mark.parametrize(
    "mechanism",
    [ObjectivePerturbation(8.0), GaussianObjectivePerturbation(4.0, 1e-5), OutputPerturbation(4.0, 1e-5)],
    ids=lambda one: one.name,
)
def test_three_classes_are_trained_and_recorded_as_a_network_would(mechanism: Mechanism) -> None:
    data = table(rows=80, classes=3)
    ensemble = train(data, mechanism, grid=Grid(seeds=4, neighbours=2), records=Records(probes=("test",)), jobs=1)
    scores, weights = ensemble.scores.values, ensemble.weights.values
    assert scores.shape[-1] == 3
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)
    columns = data.features.shape[1]
    assert weights.shape[-1] == 3 * (columns + 1)
    kernel, bias = weights[..., : 3 * columns].reshape(*weights.shape[:-1], 3, columns), weights[..., 3 * columns :]
    np.testing.assert_allclose(bias.sum(-1), 0, atol=1e-5)
    rows = ensemble.scaling.fit(data).apply(data.test.features)
    logits = np.moveaxis(kernel @ rows.T, -1, -2) + bias[..., None, :]
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(
        scores[:, 0], expected[:, 0, :, 0], atol=1e-4
    )  # of the base: neighbours have their own scaling
    assert ensemble.guarantee.epsilon is not None


def test_softmax_losses_are_of_the_own_class() -> None:
    rows, labels, draw = drawn(3)
    weights = draw.normal(size=(2, 12))
    found = linear_scores(weights, rows[:, :-1], labels, classes=3)
    np.testing.assert_allclose(found["losses"][0], -np.log(found["scores"][0][np.arange(60), labels]), rtol=1e-4)
