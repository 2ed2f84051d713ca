"""The batched Newton solver finds the minimisers that general-purpose optimisers find, to the tolerance it states."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from seedscope.core.errors import SeedscopeError
from seedscope.numerics import LogisticProblem, Solution
from seedscope.numerics import logistic as solvers


@pytest.fixture(params=["exact", "conjugate gradients"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the Hessians of all models, and with conjugate gradients."""
    monkeypatch.setattr(solvers, "OUTER_WIDTH", 1000 if request.param == "exact" else 0)
    return str(request.param)


def rows_and_labels(
    examples: int = 80, width: int = 5, seed: int = 0, separable: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with a bias column, and labels."""
    draw = np.random.default_rng(seed)
    rows = np.column_stack([draw.normal(size=(examples, width - 1)), np.ones(examples)])
    margins = rows @ draw.normal(size=width)
    labels = margins > 0 if separable else expit(margins) > draw.random(examples)
    return rows, labels.astype(float)


def objective(
    weights: np.ndarray, rows: np.ndarray, labels: np.ndarray, penalty: np.ndarray, tilt: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the tilted objective and its gradient, written out."""
    margins = rows @ weights
    value = np.mean(np.logaddexp(0, margins) - labels * margins) + 0.5 * penalty @ weights**2 + tilt @ weights
    return value, rows.T @ (expit(margins) - labels) / len(labels) + penalty * weights + tilt


def gradient_norms(problem: LogisticProblem, solution: Solution, tilts: np.ndarray) -> np.ndarray:
    """Return the norm of the gradient at each solution, computed afresh."""
    one = [
        objective(weights, problem.rows, problem.labels, problem.penalty, tilt)[1]
        for weights, tilt in zip(solution.weights, tilts, strict=True)
    ]
    norms: np.ndarray = np.linalg.norm(one, axis=1)
    return norms


def test_minimisers_are_those_of_scipy(path: str) -> None:
    rows, labels = rows_and_labels()
    penalty = np.array([0.1, 0.02, 0.05, 0.3, 0.01])
    tilts = np.random.default_rng(1).normal(scale=0.1, size=(12, 5))
    problem = LogisticProblem(rows, labels, penalty)
    assert (problem._outer is not None) == (path == "exact")
    ours = problem.minimise(tilts)
    for weights, tilt in zip(ours.weights, tilts, strict=True):
        theirs = minimize(objective, np.zeros(5), (rows, labels, penalty, tilt), jac=True, tol=1e-14)
        polished = theirs.x - np.linalg.solve(hessian(theirs.x, rows, penalty), theirs.jac)
        tolerance = 1e-8 + problem.tolerance / penalty.min()
        np.testing.assert_allclose(weights, polished, atol=tolerance)


def hessian(weights: np.ndarray, rows: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Return the Hessian of the mean objective."""
    scores = expit(rows @ weights)
    found: np.ndarray = (rows * (scores * (1 - scores) / len(rows))[:, None]).T @ rows + np.diag(penalty)
    return found


HARD = {
    "separable, tiny penalty": (rows_and_labels(separable=True), 1e-8, 0.0),
    "tiny penalty": (rows_and_labels(), 1e-12, 0.0),
    "big tilts": (rows_and_labels(), 1e-3, 10.0),
    "huge tilts, tiny penalty": (rows_and_labels(), 1e-6, 100.0),
    "long rows": ((100 * rows_and_labels()[0], rows_and_labels()[1]), 1e-4, 5.0),
    "uneven columns": ((rows_and_labels()[0] * np.logspace(-3, 3, 5), rows_and_labels()[1]), 1e-4, 0.1),
    "one class": ((rows_and_labels()[0], np.ones(80)), 1e-3, 0.5),
    "the same row twice a column": ((np.repeat(rows_and_labels()[0], 2, axis=1), rows_and_labels()[1]), 1e-3, 1.0),
}


@pytest.mark.parametrize("case", HARD)
def test_the_tolerance_is_reached_on_hard_problems(case: str, path: str) -> None:
    (rows, labels), penalty, size = HARD[case]
    tilts = size * np.random.default_rng(2).normal(size=(20, rows.shape[1]))
    problem = LogisticProblem(rows, labels, np.full(rows.shape[1], penalty))
    solution = problem.minimise(tilts)
    longest = np.linalg.norm(rows, axis=1).max()
    assert problem.tolerance == pytest.approx(1e-6 * longest / len(rows))
    assert (solution.residual_norms <= problem.tolerance).all()
    np.testing.assert_allclose(
        gradient_norms(problem, solution, tilts), solution.residual_norms, atol=problem.tolerance
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), penalty=st.floats(1e-8, 10), size=st.floats(0, 50), separable=st.booleans())
def test_the_tolerance_is_reached_on_any_problem(seed: int, penalty: float, size: float, separable: bool) -> None:
    rows, labels = rows_and_labels(30, 4, seed, separable)
    tilts = size * np.random.default_rng(seed).normal(size=(3, 4))
    problem = LogisticProblem(rows, labels, np.full(4, penalty))
    solution = problem.minimise(tilts)
    assert (gradient_norms(problem, solution, tilts) <= 2 * problem.tolerance).all()


def test_both_paths_find_the_same_minimisers(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = rows_and_labels(200, 8)
    tilts = np.random.default_rng(3).normal(scale=0.2, size=(150, 8))
    exact = LogisticProblem(rows, labels, np.full(8, 0.01))
    monkeypatch.setattr(solvers, "OUTER_WIDTH", 4)
    approximate = LogisticProblem(rows, labels, np.full(8, 0.01))
    assert exact._outer is not None
    assert approximate._outer is None
    np.testing.assert_allclose(approximate.minimise(tilts).weights, exact.minimise(tilts).weights, atol=1e-6)


def test_conjugate_gradients_solve_badly_conditioned_rows() -> None:
    scales = np.geomspace(1e-3, 1e3, 20)
    rows, labels = rows_and_labels(200, 20)
    problem = LogisticProblem(rows * scales, labels, np.full(20, 1e-5))
    assert problem._outer is None
    tilts = np.random.default_rng(5).normal(scale=1e-4, size=(8, 20))
    solution = problem.minimise(tilts)
    assert (gradient_norms(problem, solution, tilts) <= 2 * problem.tolerance).all()


def test_a_problem_with_a_row_replaced_is_a_fresh_problem(path: str) -> None:
    rows, labels = rows_and_labels()
    problem = LogisticProblem(rows, labels, np.full(5, 0.01))
    tilts = np.random.default_rng(4).normal(scale=0.1, size=(6, 5))
    for index, row, label in ((3, rows[9] * 2, 1.0), (0, np.zeros(5), 0.0), (79, rows[1], 0.0)):
        other_rows, other_labels = rows.copy(), labels.copy()
        other_rows[index], other_labels[index] = row, label
        fresh = LogisticProblem(other_rows, other_labels, np.full(5, 0.01)).minimise(tilts)
        ours = problem.with_row(index, row, label).minimise(tilts)
        np.testing.assert_allclose(ours.weights, fresh.weights, rtol=1e-10)
    np.testing.assert_array_equal(problem.rows, rows)
    np.testing.assert_array_equal(problem.labels, labels)


def test_a_replaced_row_leaves_the_first_problem_as_it_was(path: str) -> None:
    rows, labels = rows_and_labels()
    problem = LogisticProblem(rows, labels, np.full(5, 0.01))
    before = problem.minimise(np.zeros(5)).weights
    problem.with_row(3, rows[9] * 5, 1.0).minimise(np.zeros(5))
    np.testing.assert_array_equal(problem.minimise(np.zeros(5)).weights, before)


def test_the_start_does_not_matter(path: str) -> None:
    rows, labels = rows_and_labels()
    problem = LogisticProblem(rows, labels, np.full(5, 0.01))
    tilts = np.random.default_rng(5).normal(scale=0.1, size=(4, 5))
    from_zero = problem.minimise(tilts).weights
    for start in (np.full(5, 3.0), np.array([100.0, -100, 50, 0, -20])):
        np.testing.assert_allclose(problem.minimise(tilts, start).weights, from_zero, atol=1e-5)


def test_blocks_of_models_do_not_change_their_minimisers(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = rows_and_labels()
    problem = LogisticProblem(rows, labels, np.full(5, 0.01))
    tilts = np.random.default_rng(6).normal(scale=0.1, size=(100, 5))
    together = problem.minimise(tilts).weights
    monkeypatch.setattr(solvers, "BLOCK_ELEMENTS", 80 * 7)
    np.testing.assert_allclose(problem.minimise(tilts).weights, together, atol=1e-6)


def test_an_unbounded_objective_ends_in_a_sentence(path: str) -> None:
    rows, labels = rows_and_labels()
    problem = LogisticProblem(rows, labels, np.append(np.full(4, 0.01), 0.0))  # the bias is free
    tilt = np.array([0, 0, 0, 0, 2.0])  # and is pulled harder than all labels together can hold
    with pytest.raises(
        SeedscopeError, match=r"did not converge in \d+ Newton steps .*; use a larger l2 or scale the features"
    ):
        problem.minimise(tilt)
