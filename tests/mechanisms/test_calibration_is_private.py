"""Is objective perturbation's ε true? The released weights' density is known, so the answer is computed, not sampled.

The weights w solve `gradient of the penalised sum of losses + b = 0`, and b has density ∝ exp(−‖b‖/scale). By a change
of variables the density of w is ∝ exp(−‖b(w)‖/scale)·det H(w), H the Hessian: its logarithm is compared between data
sets that differ in one row. In one dimension (rows of one number, no bias) a fine grid of weights covers everything.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from numpy.typing import ArrayLike

from seedscope import Chaudhuri, Diffprivlib062, ObjectivePerturbation
from seedscope.mechanisms.guarantees import Conditions
from seedscope.numerics import LogisticProblem
from seedscope.training.convex import with_bias

SIZES = np.geomspace(1e-4, 1e3, 1500)
WEIGHTS = np.concatenate([-SIZES[::-1], [0.0], SIZES])[:, None]


Labelled = tuple[np.ndarray, np.ndarray]  # rows and labels


def log_density(
    weights: np.ndarray, rows: np.ndarray, labels: np.ndarray, penalty: np.ndarray, scale: float
) -> np.ndarray:
    """Return the log density [weight vector] of released weights [weight vector, column], up to a constant."""
    margins = weights @ rows.T
    scores = 0.5 + 0.5 * np.tanh(margins / 2)
    tilts = -((scores - labels) @ rows + len(rows) * penalty * weights)
    hessians = np.einsum("mi,ij,ik->mjk", scores * (1 - scores), rows, rows) + len(rows) * np.diag(penalty)
    density: np.ndarray = -np.linalg.norm(tilts, axis=1) / scale + np.linalg.slogdet(hessians)[1]
    return density


def largest_log_ratio(
    mechanism: ObjectivePerturbation,
    bound: float,
    neighbours: Iterable[tuple[Labelled, Labelled]],
    weights: np.ndarray = WEIGHTS,
) -> float:
    """Return the largest |log density ratio| over weights and pairs of (rows, labels) that differ in one row."""
    largest = 0.0
    for (rows, labels), (other_rows, other_labels) in neighbours:
        tilt = mechanism.tilt(Conditions(len(rows), bound, width=rows.shape[1]))
        penalty = np.full(rows.shape[1], tilt.penalty)
        one = log_density(weights, rows, labels, penalty, tilt.scale)
        other = log_density(weights, other_rows, other_labels, penalty, tilt.scale)
        largest = max(largest, float(np.abs(one - other).max()))
    return largest


def neighbours_on_a_line(bound: float, pairs: int = 60) -> Iterator[tuple[Labelled, Labelled]]:
    """Yield neighbours with rows in [−bound, bound]: the worst that are known, and random ones.

    The worst: many rows so short that they bend nothing, but pull together; one row of full length bends much, and if
    it pulls the other way, it makes the tilt that is needed smaller as well.
    """
    draw = np.random.default_rng(0)
    for length in (0.0, 0.005 * bound):
        short = np.full((400, 1), length), np.ones(400)
        for label in (0.0, 1.0):
            yield short, replaced(short, [bound], label)
    for _ in range(pairs):
        size = int(draw.integers(1, 60))
        rows = draw.uniform(-bound, bound, (size, 1)) * draw.random()
        data = rows, draw.integers(0, 2, size).astype(float)
        yield data, replaced(data, draw.choice([-bound, bound], 1), float(draw.integers(0, 2)))


def replaced(data: Labelled, row: ArrayLike, label: float) -> Labelled:
    """Return the rows and labels with the first ones exchanged."""
    rows, labels = data[0].copy(), data[1].copy()
    rows[0], labels[0] = row, label
    return rows, labels


@pytest.mark.slow
@pytest.mark.parametrize("bound", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.5])
def test_the_published_calibration_keeps_epsilon(bound: float, epsilon: float) -> None:
    mechanism = ObjectivePerturbation(epsilon, calibration=Chaudhuri())
    assert largest_log_ratio(mechanism, bound, neighbours_on_a_line(bound)) <= epsilon


@pytest.mark.parametrize(("bound", "reached"), [(7.0, 0.70), (20.0, 1.35)])
def test_diffprivlibs_constants_break_epsilon_where_rows_are_long(bound: float, reached: float) -> None:
    mechanism = ObjectivePerturbation(0.5, calibration=Diffprivlib062())
    found = largest_log_ratio(mechanism, bound, neighbours_on_a_line(bound))
    assert found > 0.5
    assert found == pytest.approx(reached, abs=0.02)


def test_diffprivlibs_constants_keep_epsilon_where_rows_are_short() -> None:
    mechanism = ObjectivePerturbation(0.5, calibration=Diffprivlib062())
    assert largest_log_ratio(mechanism, 1.0, neighbours_on_a_line(1.0)) <= 0.5


@pytest.mark.parametrize("bound", [1.0, 5.0, 20.0])
def test_the_published_calibration_keeps_epsilon_with_a_bias_column(bound: float) -> None:
    draw, pairs = np.random.default_rng(1), []
    for _ in range(40):
        size = int(draw.integers(1, 30))
        rows = with_bias(draw.uniform(-bound, bound, (size, 1)))
        data = rows, draw.integers(0, 2, size).astype(float)
        pairs.append((data, replaced(data, [draw.choice([-bound, bound]), 1.0], float(draw.integers(0, 2)))))
    weights = draw.normal(size=(2000, 2)) * draw.choice([0.01, 0.1, 1.0, 10.0], (2000, 1))
    mechanism = ObjectivePerturbation(1.0)
    assert largest_log_ratio(mechanism, float(np.hypot(bound, 1)), pairs, weights) <= 1.0


def test_the_density_is_one() -> None:
    rows, labels = np.array([[0.3], [-2.0], [1.1]]), np.array([1.0, 0.0, 0.0])
    tilt = ObjectivePerturbation(1.0).tilt(Conditions(3, 2.0, width=1))
    grid = np.sinh(np.linspace(-9, 9, 200_001))
    log_values = log_density(grid[:, None], rows, labels, np.array([tilt.penalty]), tilt.scale)
    assert np.trapezoid(np.exp(log_values) / (2 * tilt.scale), grid) == pytest.approx(1.0, abs=1e-4)


def test_the_solver_releases_the_weights_that_the_density_is_about() -> None:
    draw = np.random.default_rng(2)
    rows, labels = draw.uniform(-3, 3, (12, 1)), draw.integers(0, 2, 12).astype(float)
    penalty, tilts = np.array([0.05]), draw.normal(size=(30, 1))
    solution = LogisticProblem(rows, labels, penalty).minimise(tilts)
    scores = 1 / (1 + np.exp(-solution.weights @ rows.T))
    from_weights = -((scores - labels) @ rows / 12 + penalty * solution.weights)
    np.testing.assert_allclose(from_weights, tilts, atol=1e-5)
