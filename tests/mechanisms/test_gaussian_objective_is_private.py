"""Is the (ε, δ) of objective perturbation true? The released weights' density is known, so δ(ε) is an integral.

With P and Q the laws of what is released on neighbouring data, `δ(ε) = ∫ (p − e^ε q)₊`. In one and two dimensions it is
summed over a grid of weights, in both directions, and must stay below the claimed curve: for the worst neighbours that
are known and for random ones, for both relations, for short and long rows, for two classes and for three.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit

from seedscope.accounting import (
    curvature_epsilon,
    curvature_l2,
    gaussian_objective_delta,
    gaussian_objective_noise_scale,
)
from seedscope.core import RELATIONS, Relation, SeedscopeError

Rows = tuple[np.ndarray, np.ndarray]  # rows [row, column] and labels


def line(data: Rows, bound: float, l2: float, scale: float, points: int = 1201) -> np.ndarray:
    """Return weights [point, 1] that hold all but a negligible part of what is released."""
    reach = (8 * scale + bound * (len(data[0]) + 1)) / l2
    return np.linspace(-reach, reach, points)[:, None]


def simplex_basis(classes: int) -> np.ndarray:
    """Return an orthonormal basis [class, classes − 1] of the vectors whose entries add up to 0."""
    return np.linalg.svd(np.eye(classes) - 1 / classes)[0][:, : classes - 1]


def log_density(weights: np.ndarray, data: Rows, l2: float, scale: float, counts: ArrayLike = 1.0) -> np.ndarray:
    """Return the log density [weights] of released binary weights [.., column]: p(b(w))·det H(w).

    `counts` says how often each row is there.
    """
    rows, labels = data
    sides = np.where(labels == 1, -1.0, 1.0)
    wrong = expit(sides * (weights @ rows.T))  # to full precision where a row is classified well beyond doubt
    tilts = (counts * sides * wrong) @ rows + l2 * weights
    hessians = np.einsum("mi,ij,ik->mjk", counts * wrong * (1 - wrong), rows, rows) + l2 * np.eye(rows.shape[1])
    constant = rows.shape[1] * np.log(np.sqrt(2 * np.pi) * scale)
    density: np.ndarray = -(tilts**2).sum(1) / (2 * scale**2) + np.linalg.slogdet(hessians)[1] - constant
    return density


def softmax_log_density(weights: np.ndarray, data: Rows, l2: float, scale: float, classes: int) -> np.ndarray:
    """Return the same for K classes and rows of one number: weights [.., classes − 1] in the basis of the simplex."""
    rows, labels = data
    basis = simplex_basis(classes)
    logits = (weights @ basis.T)[:, None, :] * rows[None, :, :]  # [weights, row, class]
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    scores /= scores.sum(-1, keepdims=True)
    pulls = scores - np.eye(classes)[labels.astype(int)]
    tilts = np.einsum("mik,i->mk", pulls, rows[:, 0]) @ basis + l2 * weights
    bent = np.einsum("mik,kl->mikl", scores, np.eye(classes)) - scores[..., :, None] * scores[..., None, :]
    hessians = basis.T @ np.einsum("mikl,i->mkl", bent, rows[:, 0] ** 2) @ basis + l2 * np.eye(classes - 1)
    constant = (classes - 1) * np.log(np.sqrt(2 * np.pi) * scale)
    density: np.ndarray = -(tilts**2).sum(1) / (2 * scale**2) + np.linalg.slogdet(hessians)[1] - constant
    return density


def delta(log_p: np.ndarray, log_q: np.ndarray, volumes: np.ndarray, epsilon: float) -> float:
    """Return ∫ (p − e^ε q)₊, the larger of both directions."""
    p, q = np.exp(log_p) * volumes, np.exp(log_q) * volumes
    return float(max(np.maximum(p - np.exp(epsilon) * q, 0).sum(), np.maximum(q - np.exp(epsilon) * p, 0).sum()))


def changed(data: Rows, relation: Relation, row: np.ndarray, label: float) -> Rows:
    """Return the neighbour: the first row replaced, or taken out."""
    rows, labels = data[0].copy(), data[1].copy()
    if relation == "add_or_remove":
        return np.concatenate([rows, row[None]]), np.append(labels, label)
    rows[0], labels[0] = row, label
    return rows, labels


def on_a_line(bound: float, relation: Relation, classes: int = 2, random: int = 6) -> Iterator[tuple[Rows, Rows]]:
    """Yield neighbours of rows in [−bound, bound]: nobody else there, everybody pulling one way, and random ones."""
    draw = np.random.default_rng(int(bound))
    for size, row, label in product((1, 9), (-bound, bound), (0.0, 1.0)):
        others = np.full((size, 1), -row if relation == "replace_one" else 0.0), np.full(size, label)
        yield others, changed(others, relation, np.array([row]), label)
        pulling = np.full((size, 1), 0.3 * bound), np.ones(size)
        yield pulling, changed(pulling, relation, np.array([row]), label)
    for _ in range(random):
        size = int(draw.integers(1, 9))
        data = draw.uniform(-bound, bound, (size, 1)), draw.integers(0, classes, size).astype(float)
        yield data, changed(data, relation, draw.choice([-bound, bound], 1), float(draw.integers(0, classes)))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bound", [1.0, 5.0, 20.0])
def test_no_neighbours_on_a_line_exceed_the_claimed_curve(bound: float, relation: Relation) -> None:
    for share, epsilon, noise in product((0.02, 0.3, 1.2), (0.3, 1.5), (0.6, 3.0)):  # 1.2: the determinant beyond ε
        l2, scale = float(curvature_l2(share * epsilon, bound)), noise * bound
        claimed = gaussian_objective_delta(epsilon, scale, l2, bound, relation)
        for data, other in on_a_line(bound, relation):
            weights = line(data, bound, l2, scale)
            logs = [log_density(weights, one, l2, scale) for one in (data, other)]
            volumes = np.full(len(weights), weights[1, 0] - weights[0, 0])
            assert np.exp(logs[0]).sum() * volumes[0] == pytest.approx(1, abs=1e-3)
            assert delta(logs[0], logs[1], volumes, epsilon) <= claimed * (1 + 1e-3)


def worst_in_the_plane(bound: float, relation: Relation, l2: float, scale: float, epsilon: float) -> float:
    """Return the true δ of neighbours that nearly reach the curve.

    Very many rows pull the weights far along the first axis. There is then no doubt about one who has the other label
    and lies a little against that axis, which costs the determinant nothing, and pulls with full length across it.
    """
    crowd, along = np.array([bound, 0.0]), 0.1 * bound
    across = np.sqrt(bound**2 - along**2)
    here, there = np.array([-along, across]), np.array([-along, -across])
    gone = np.zeros(2) if relation == "add_or_remove" else there
    far = brentq(lambda w: np.log(l2 * w) - np.log(1e30 * bound * expit(-bound * w)), 1 / bound, 500 / bound)
    first = far + np.linspace(-9, 9, 101) * scale / (l2 * (1 + bound * far))
    second = np.linspace(-1, 1, 601) * (9 * scale + bound) / l2
    grid = np.stack(np.meshgrid(first, second, indexing="ij"), -1).reshape(-1, 2)
    logs = [
        log_density(grid, (np.stack([crowd, one]), np.ones(2)), l2, scale, np.array([1e30, 1.0]))
        for one in (here, gone)
    ]
    volumes = np.full(len(grid), (first[1] - first[0]) * (second[1] - second[0]))
    assert np.exp(logs[0]) @ volumes == pytest.approx(1, abs=0.02)
    return delta(logs[0], logs[1], volumes, epsilon)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bound", [1.0, 5.0, 20.0])
def test_with_a_pull_five_per_cent_shorter_the_curve_is_exceeded(bound: float, relation: Relation) -> None:
    epsilon, scale, l2 = 3.0, 1.5 * bound, float(curvature_l2(0.01, bound))
    found = worst_in_the_plane(bound, relation, l2, scale, epsilon)
    assert found <= gaussian_objective_delta(epsilon, scale, l2, bound, relation)
    assert found > gaussian_objective_delta(epsilon, scale / 0.95, l2, bound, relation)


@pytest.mark.parametrize("bound", [1.0, 5.0, 20.0])
def test_the_determinants_cost_is_reached_by_a_row_that_nobody_else_bends_like(bound: float) -> None:
    l2 = 0.3 * bound**2
    hessian = l2 + 0.25 * bound**2  # at w = 0
    assert np.log(hessian / l2) == pytest.approx(float(curvature_epsilon(l2, bound)), rel=1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bound", [1.0, 5.0, 20.0])
def test_no_neighbours_in_the_plane_exceed_the_claimed_curve(bound: float, relation: Relation) -> None:
    draw, epsilon, longest = np.random.default_rng(3), 0.8, float(np.hypot(bound, 1))
    l2, scale = float(curvature_l2(0.2 * epsilon, longest)), 0.8 * longest
    claimed = gaussian_objective_delta(epsilon, scale, l2, longest, relation)
    for _ in range(6):
        size = int(draw.integers(1, 4))
        rows = np.column_stack([draw.uniform(-bound, bound, size), np.ones(size)])
        data = rows, draw.integers(0, 2, size).astype(float)
        last = np.array([draw.choice([-bound, bound]), 1.0])
        other = changed(data, relation, last, float(draw.integers(0, 2)))
        reach = (7 * scale + (size + 1) * longest) / l2
        axis = np.linspace(-reach, reach, 161)
        grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
        logs = [log_density(grid, one, l2, scale) for one in (data, other)]
        volumes = np.full(len(grid), (axis[1] - axis[0]) ** 2)
        assert np.exp(logs[0]) @ volumes == pytest.approx(1, abs=0.02)
        assert delta(logs[0], logs[1], volumes, epsilon) <= claimed * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bound", [1.0, 5.0, 20.0])
def test_no_neighbours_of_three_classes_exceed_the_claimed_curve(bound: float, relation: Relation) -> None:
    epsilon, reached = 0.8, 0.0
    for share, noise in ((0.2, 0.8), (0.01, 2.0)):
        l2, scale = float(curvature_l2(share * epsilon, bound, 3)), noise * bound
        claimed = float(gaussian_objective_delta(epsilon, scale, l2, bound, relation, classes=3))
        for data, other in on_a_line(bound, relation, classes=3, random=3):
            reach = (6 * scale + 1.5 * bound * (len(data[0]) + 1)) / l2
            axis = np.linspace(-reach, reach, 101)
            grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
            volumes = np.full(len(grid), (axis[1] - axis[0]) ** 2)
            logs = [softmax_log_density(grid, one, l2, scale, 3) for one in (data, other)]
            found = delta(logs[0], logs[1], volumes, epsilon)
            reached = max(reached, found / claimed)
            assert found <= claimed * (1 + 1e-3)
    assert reached > 0.2  # and it is not a bound on something else


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_no_softmax_hessian_changes_the_determinant_by_more(classes: int) -> None:
    draw, basis, l2, bound, largest = np.random.default_rng(0), simplex_basis(classes), 0.7, 1.3, 0.0
    for _ in range(300):
        scores = draw.dirichlet(np.full(classes, draw.choice([0.3, 1.0, 30.0])))
        bent = basis.T @ (np.diag(scores) - np.outer(scores, scores)) @ basis * bound**2
        largest = max(largest, np.linalg.slogdet(np.eye(classes - 1) + bent / l2)[1])
    bound_on_it = float(curvature_epsilon(l2, bound, classes))
    assert 0.97 * bound_on_it < largest <= bound_on_it


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("relation", RELATIONS)
def test_calibrated_noise_reaches_delta_and_not_more(relation: Relation, classes: int) -> None:
    epsilon, wanted = np.array([0.1, 1.0, 8.0]), np.array([[1e-3], [1e-9]])
    l2 = curvature_l2(0.3 * epsilon, 1.4, classes)
    scale = gaussian_objective_noise_scale(epsilon, wanted, l2, 1.4, relation, classes)
    found = gaussian_objective_delta(epsilon, scale, l2, 1.4, relation, classes)
    assert (found <= wanted).all()
    np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), rtol=1e-6)


def test_the_curve_falls_in_epsilon_and_noise_and_regularisation() -> None:
    epsilon = np.linspace(0, 4, 200)
    assert (np.diff(gaussian_objective_delta(epsilon, 1.0, 2.0, 1.5)) <= 0).all()
    assert (np.diff(gaussian_objective_delta(0.5, np.linspace(0.2, 9, 200), 2.0, 1.5)) <= 0).all()
    assert (np.diff(gaussian_objective_delta(0.5, 1.0, np.linspace(0.01, 9, 200), 1.5)) <= 0).all()


def test_an_impossible_question_is_refused() -> None:
    with pytest.raises(SeedscopeError, match=r"l2 must be so large that the determinant's 1\.38 is below epsilon"):
        gaussian_objective_noise_scale(1.0, 1e-5, l2=1.0, norm_bound=3.46)
    with pytest.raises(SeedscopeError, match="unknown relation"):
        gaussian_objective_delta(1.0, 1.0, 1.0, 1.0, relation="swap")  # type: ignore[arg-type]
