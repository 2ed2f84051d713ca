"""Does diffprivlib's logistic regression keep its ε? Its own code is asked; skipped, visibly, where it is absent.

What its `Vector` mechanism draws and adds is read from what it does, so the density of the released weight is known (as
in `test_calibration_is_private`), and its estimator is attacked as it comes. `docs/diffprivlib.md` shows these numbers.
"""

from __future__ import annotations

import inspect
import textwrap
import warnings
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

diffprivlib = pytest.importorskip("diffprivlib", reason="diffprivlib is not installed")

from diffprivlib.mechanisms import Vector  # noqa: E402
from diffprivlib.mechanisms import vector as vector_module  # noqa: E402

import seedscope as ss  # noqa: E402

SIZES = np.geomspace(1e-4, 1e3, 4000)
WEIGHTS = np.concatenate([-SIZES[::-1], SIZES])
ROWS = 400
Data = tuple[np.ndarray, np.ndarray]  # rows and labels


class Watched:
    """Stands in for the random numbers of a `Vector`, and remembers the scale that it was asked for."""

    scale = 0.0

    def standard_normal(self, shape: Any) -> np.ndarray:
        """Return ones."""
        return np.ones(shape)

    def gamma(self, shape: float, scale: float, size: int) -> np.ndarray:
        """Return ones; the scale is what is wanted."""
        self.scale = scale
        return np.ones(size)


def law(mechanism: type, epsilon: float, norm: float, dimension: int = 1) -> tuple[float, float]:
    """Return the scale of the tilt, and the penalty that is added to the sum of losses, as diffprivlib has them."""
    vector = mechanism(
        epsilon=epsilon, dimension=dimension, alpha=1.0, function_sensitivity=0.25, data_sensitivity=norm, n=ROWS
    )
    vector._rng = watched = Watched()
    noisy = vector.randomise(lambda weights: (0.0, np.zeros_like(weights)))
    added = noisy(np.ones(dimension))[1] - noisy(np.zeros(dimension))[1]
    return watched.scale, ROWS * float(added[0])


def worst_pair(norm: float) -> tuple[Data, Data]:
    """Return many short rows that pull together, and the same with one row of full length that pulls the other way."""
    rows, labels = np.full(ROWS, 0.005 * norm), np.ones(ROWS)
    other, turned = rows.copy(), labels.copy()
    other[0], turned[0] = norm, 0.0
    return (rows, labels), (other, turned)


def log_ratios(mechanism: type, epsilon: float, norm: float) -> np.ndarray:
    """Return how much likelier the second data set makes released weights (no intercept), at `WEIGHTS`."""
    scale, extra = law(mechanism, epsilon, norm)
    logarithms = []
    for rows, labels in worst_pair(norm):
        scores = 0.5 + 0.5 * np.tanh(WEIGHTS[:, None] * rows / 2)
        tilts = (scores - labels) @ rows + (1 + extra) * WEIGHTS
        logarithms.append(-np.abs(tilts) / scale + np.log((scores * (1 - scores)) @ rows**2 + 1 + extra))
    ratios: np.ndarray = logarithms[1] - logarithms[0]
    return ratios


def largest_log_ratio(mechanism: type, epsilon: float, norm: float) -> float:
    """Return the largest of them, either way."""
    return float(np.abs(log_ratios(mechanism, epsilon, norm)).max())


@pytest.mark.parametrize(
    ("epsilon", "norm", "reached"), [(0.5, 7, 0.72), (0.5, 20, 1.34), (0.5, 100, 2.61), (1, 20, 1.98)]
)
def test_rows_longer_than_one_break_its_epsilon(epsilon: float, norm: float, reached: float) -> None:
    found = largest_log_ratio(Vector, epsilon, norm)
    assert found > epsilon
    assert found == pytest.approx(reached, abs=0.01)


def test_rows_of_norm_one_do_not() -> None:
    assert largest_log_ratio(Vector, 0.5, 1.0) < 0.5


def mended() -> type:
    """Return `Vector` with the two lines of docs/diffprivlib.md in place of its own."""
    code = textwrap.dedent(inspect.getsource(Vector.randomise))
    for wrong in ("self.data_sensitivity / self.alpha", "self.data_sensitivity / np.expm1"):
        assert code.count(wrong) == 1, "diffprivlib has changed: is it mended?"
        code = code.replace(wrong, wrong.replace("self.data_sensitivity", "self.data_sensitivity ** 2"))
    names = dict(vars(vector_module))
    exec(code, names)
    return type("Mended", (Vector,), {"randomise": names["randomise"]})


@pytest.mark.parametrize("norm", [1.0, 7.0, 20.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.5])
def test_with_two_lines_mended_it_is_kept(epsilon: float, norm: float) -> None:
    assert largest_log_ratio(mended(), epsilon, norm) <= epsilon


def test_an_intercept_without_a_penalty_breaks_every_epsilon() -> None:
    epsilon, norm = 2.5, 1.0
    scale, extra = law(Vector, epsilon, np.hypot(norm, 1), dimension=2)
    assert extra == 0  # so that nothing holds the intercept
    rows = np.column_stack([np.zeros(ROWS), np.ones(ROWS)])
    other = rows.copy()
    other[0, 0] = norm

    def log_density(points: np.ndarray, table: np.ndarray) -> np.ndarray:
        scores = 1 / (1 + np.exp(-points @ table.T))
        tilts = (scores - 1) @ table + points * [1.0, 0.0]
        hessians = np.einsum("mi,ij,ik->mjk", scores * (1 - scores), table, table) + np.diag([1.0, 0.0])
        found: np.ndarray = -np.linalg.norm(tilts, axis=1) / scale + np.linalg.slogdet(hessians)[1]
        return found

    far = np.array([10.0, 20.0, 30.0])
    points = np.column_stack([-far / norm, far])  # where the one row is undecided and all others are not
    ratios = log_density(points, other) - log_density(points, rows)
    assert ratios[1] > epsilon
    assert np.all(np.diff(ratios) > 5)  # and so on: no ε bounds it


def released(data: Data, epsilon: float, norm: float, fits: int) -> np.ndarray:
    """Return the weights of fits of diffprivlib's own estimator."""
    rows, labels = data[0][:, None], data[1].copy()
    labels[1] = 0.0  # it wants two classes
    make = diffprivlib.models.LogisticRegression
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        models = [
            make(epsilon=epsilon, data_norm=norm, fit_intercept=False, tol=1e-8, random_state=seed).fit(rows, labels)
            for seed in range(fits)
        ]
    return np.array([one.coef_[0, 0] for one in models])


@pytest.mark.slow
def test_its_estimator_as_it_comes_loses_to_an_attack() -> None:
    epsilon, norm, fits = 0.5, 100.0, 1200
    accused = WEIGHTS[log_ratios(Vector, epsilon, norm) > epsilon]
    hits = []
    for data in worst_pair(norm):
        weights = released(data, epsilon, norm, fits)
        hits.append(int(((accused.min() < weights) & (weights < accused.max())).sum()))
    lower = ss.membership.epsilon_lower(hits[1], fits, hits[0], fits, 0.99)
    assert float(lower) > epsilon
