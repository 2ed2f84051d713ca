"""Output perturbation exactly: true refits, the known bound, and quadrature."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from seedscope import OutputPerturbation, SeedscopeError, load
from seedscope.analyses.privacy_loss import output_perturbation
from seedscope.numerics import LogisticProblem

DRAW = np.random.default_rng(0)
ROWS = np.column_stack([DRAW.normal(size=(200, 4)) / 3, np.ones(200)])
LABELS = (ROWS @ np.array([1.0, -2.0, 0.5, 0.0, 0.3]) + DRAW.normal(size=200) > 0).astype(float)
SPARE = (np.array([0.5, 0.1, -0.2, 0.3, 1.0]), 1.0)
L2, NOISE = 0.01, 0.3


def refitted(person: int, relation: str) -> np.ndarray:
    """Return the minimiser on the data without a person, fitted from the start, to the last digits."""
    row, label = SPARE if relation == "replace_one" else (np.zeros(5), 0.0)
    problem = LogisticProblem(ROWS, LABELS, np.full(5, L2)).with_row(person, row, label)
    theta: np.ndarray = problem.minimise(np.zeros(5)).weights[0]
    for _ in range(3):
        s = 1 / (1 + np.exp(-problem.rows @ theta))
        gradient = (s - problem.labels) @ problem.rows / 200 + L2 * theta
        hessian = (problem.rows * (s * (1 - s))[:, None]).T @ problem.rows / 200 + L2 * np.eye(5)
        theta = theta - np.linalg.solve(hessian, gradient)
    return theta


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_everybodys_move_is_that_of_a_true_refit(relation: Any) -> None:
    found = output_perturbation(ROWS, LABELS, L2, NOISE, relation=relation, spare=SPARE)
    base = LogisticProblem(ROWS, LABELS, np.full(5, L2))
    theta = base.minimise(np.zeros(5)).weights[0]
    for _ in range(2):
        s = 1 / (1 + np.exp(-ROWS @ theta))
        hessian = (ROWS * (s * (1 - s))[:, None]).T @ ROWS / 200 + L2 * np.eye(5)
        theta = theta - np.linalg.solve(hessian, (s - LABELS) @ ROWS / 200 + L2 * theta)
    moves = np.array([np.linalg.norm(refitted(person, relation) - theta) for person in range(200)])
    np.testing.assert_allclose(found.mu.value, moves / NOISE, rtol=1e-6)
    assert found.error.max() < 1e-6
    assert found.kind == "proved"


def minimiser(rows: np.ndarray, labels: np.ndarray, l2: float) -> np.ndarray:
    """Return the minimiser by Newton's method with short steps, to the last digits."""
    theta = np.zeros(rows.shape[1])
    for _ in range(60):
        s = 1 / (1 + np.exp(-rows @ theta))
        hessian = (rows * (s * (1 - s))[:, None]).T @ rows / len(rows) + l2 * np.eye(len(theta))
        step = np.linalg.solve(hessian, (s - labels) @ rows / len(rows) + l2 * theta)
        theta = theta - step / max(1.0, float(np.linalg.norm(step)))
    return theta


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize(
    ("count", "length", "l2", "noise"),
    [(20, 1.4, 10.0, 1.0), (10, 1.4, 1.0, 1e6), (20, 5.0, 0.01, 1.0), (50, 5.0, 0.01, 1.0)],
    ids=["stiff", "loud", "few people", "long rows"],  # the last two: steps with θ's own Hessian do not converge
)
def test_the_certified_error_holds_and_is_small(
    relation: Any, count: int, length: float, l2: float, noise: float
) -> None:
    draw = np.random.default_rng(0)
    rows = np.column_stack([draw.normal(size=(count + 1, 3)), np.ones(count + 1)])
    rows *= length / np.linalg.norm(rows, axis=1, keepdims=True)
    labels = (rows[:, 0] + draw.normal(size=count + 1) > 0).astype(float)
    (rows, row), (labels, label) = (rows[:-1], rows[-1]), (labels[:-1], labels[-1])
    found = output_perturbation(rows, labels, l2, noise, relation=relation, spare=(row, label))
    theta, put = minimiser(rows, labels, l2), row if relation == "replace_one" else 0 * row
    for person in range(count):
        chosen = np.arange(count) == person
        refit = minimiser(np.where(chosen[:, None], put, rows), np.where(chosen, label, labels), l2)
        off = abs(np.linalg.norm(refit - theta) / noise - found.ratio[person])
        assert off <= found.error[person] + 1e-14 / (l2 * noise)
    assert found.error.max() <= 2e-8


def test_nobody_moves_the_minimiser_further_than_its_sensitivity() -> None:
    R = float(np.linalg.norm(ROWS, axis=1).max())
    found = output_perturbation(ROWS, LABELS, L2, NOISE, R, relation="add_or_remove")
    assert found.mu.upper.max() <= R / (200 * L2 * NOISE)


def test_everything_follows_from_the_ratio() -> None:
    found = output_perturbation(ROWS, LABELS, L2, NOISE)
    mu = found.mu.value
    np.testing.assert_allclose(found.advantage, 2 * norm.cdf(mu / 2) - 1, rtol=1e-9)
    np.testing.assert_allclose(found.true_positive_rate(0.01).value, norm.cdf(norm.ppf(0.01) + mu), rtol=1e-9)
    assert np.all(found.delta(1.0).value <= found.advantage)
    assert np.all(found.epsilon(1e-5).lower <= found.epsilon(1e-5).upper)
    np.testing.assert_allclose(found.alone().value, found.advantage)


def test_an_ensemble_of_output_perturbation_is_exact_for_everybody() -> None:
    from seedscope import Grid, privacy_loss, train

    data = load("breast-cancer")
    ensemble = train(data, OutputPerturbation(2.0, 1e-5), grid=Grid(seeds=2), jobs=1)
    found = privacy_loss.everybody(ensemble, data=data)
    assert len(found.people) == len(data.base)
    limit = ensemble.mechanism.trade_off(ensemble.description.conditions)
    assert limit is not None
    assert float(found.largest) <= float(limit.advantage)
    with pytest.raises(SeedscopeError, match="give data="):
        privacy_loss.everybody(ensemble)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: output_perturbation(ROWS, LABELS, 0.0, 1.0), "l2 must be"),
        (lambda: output_perturbation(ROWS, LABELS, 0.1, 0.0), "noise_scale must be"),
        (lambda: output_perturbation(ROWS, 2 * LABELS, 0.1, 1.0), "labels must be"),
        (lambda: output_perturbation(ROWS, LABELS, 0.1, 1.0, relation="replace_one"), "needs spare"),
        (lambda: output_perturbation(ROWS, LABELS, 0.1, 1.0, 0.5), "norm_bound must be"),
    ],
)
def test_a_mistake_is_named(call: Callable[..., Any], words: str) -> None:
    with pytest.raises(SeedscopeError, match=words):
        call()
