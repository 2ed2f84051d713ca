"""One dimension, two data sets, densities that are known: truths by quadrature lie inside, over 1,000 repetitions."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from seedscope import SeedscopeError
from seedscope.analyses.privacy_loss import from_losses, objective_perturbation, output_perturbation
from seedscope.analyses.privacy_loss.sampled import SampledLoss
from seedscope.numerics import LogisticProblem

REPETITIONS, RUNS, LEVEL = 1000, 100, 0.9
ROWS, LABELS = np.array([[1.5], [0.6], [-0.8], [0.3]]), np.array([1.0, 0.0, 0.0, 1.0])
GRID = np.linspace(-60, 60, 240_001)


class Truth(NamedTuple):
    """What the best attack achieves, from two densities on a grid."""

    advantage: float
    delta: float  # at ε = 0.5
    rate: float  # at a false-positive rate of 0.1


def truth(p: np.ndarray, q: np.ndarray, step: float) -> Truth:
    """Return the truth by quadrature: the most likely places are accused first."""
    order = np.argsort(-(np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300))))
    accused, reached = np.cumsum(q[order]) * step, np.cumsum(p[order]) * step
    gains = [float(np.maximum(p - growth * q, 0).sum() * step) for growth in (1.0, np.exp(0.5))]
    return Truth(gains[0], gains[1], float(np.interp(0.1, accused, reached)))


def released(rows: np.ndarray, labels: np.ndarray, l2: float, law: str, scale: float) -> np.ndarray:
    """Return the density of objective perturbation's weight on the grid, by the change of variables."""
    s = expit(GRID[:, None] * rows[:, 0])
    tilt = -((s - labels) @ rows[:, 0] + l2 * GRID)
    slope = (s * (1 - s)) @ rows[:, 0] ** 2 + l2
    density = np.exp(-np.abs(tilt) / scale) / (2 * scale) if law == "gamma" else norm.pdf(tilt, scale=scale)
    found: np.ndarray = density * slope
    return found


def objective(law: str) -> tuple[np.ndarray, Truth]:
    """Return sampled losses [run, repetition] of the first person, and the truth about them."""
    l2, scale, draw = 0.5, 1.3, np.random.default_rng(1)
    count = RUNS * REPETITIONS
    tilts = draw.laplace(0, scale, count) if law == "gamma" else draw.normal(0, scale, count)
    weights = GRID[::60]  # fine enough to read the losses of all minimisers off a table
    table = objective_perturbation(ROWS, LABELS, weights[:, None], l2=l2, scale=scale, law=law)  # type: ignore[arg-type]
    losses = np.interp(_minimisers(tilts, l2), weights, table[:, 0])
    step = float(GRID[1] - GRID[0])
    known = truth(released(ROWS, LABELS, l2, law, scale), released(ROWS[1:], LABELS[1:], l2, law, scale), step)
    return losses.reshape(RUNS, REPETITIONS), known


def _minimisers(tilts: np.ndarray, l2: float) -> np.ndarray:
    """Return the minimisers of tilted sums: their tilt falls as they rise, so it is read backwards on the grid."""
    tilt = -((expit(GRID[:, None] * ROWS[:, 0]) - LABELS) @ ROWS[:, 0] + l2 * GRID)
    found: np.ndarray = np.interp(tilts, tilt[::-1], GRID[::-1])
    return found


def steps() -> tuple[np.ndarray, Truth]:
    """Return losses of DP-SGD in one dimension, gradients of 1 at three steps, and the truth by convolution."""
    q, sigma, count, draw = 0.3, 0.8, 3, np.random.default_rng(2)
    inside = draw.random((count, RUNS, REPETITIONS)) < q
    y = sigma * draw.standard_normal(inside.shape) + inside
    losses = np.log(1 - q + q * np.exp((y - 0.5) / sigma**2)).sum(0)
    axis, width = np.linspace(-8, 9, 1201, retstep=True)
    one = np.log(1 - q + q * np.exp((axis - 0.5) / sigma**2))
    without = norm.pdf(axis, scale=sigma) * width
    total, mass = one, without
    for _ in range(count - 1):
        total, mass = (total[:, None] + one).ravel(), (mass[:, None] * without).ravel()
        total, mass = _binned(total, mass)
    return losses, truth(mass * np.exp(total), mass, 1.0)


def _binned(values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a distribution on few values: means within fine bins."""
    edges = np.linspace(values.min(), values.max() + 1e-9, 4001)
    place = np.digitize(values, edges) - 1
    weight = np.bincount(place, mass, 4000)
    mean = np.bincount(place, mass * values, 4000) / np.maximum(weight, 1e-300)
    return mean[weight > 0], weight[weight > 0]


CASES: dict[str, Callable[[], tuple[np.ndarray, Truth]]] = {
    "objective, gamma": lambda: objective("gamma"),
    "objective, gaussian": lambda: objective("gaussian"),
    "DP-SGD": steps,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_truths_lie_inside_their_intervals_at_their_level(name: str) -> None:
    losses, known = CASES[name]()
    found: SampledLoss = from_losses(losses, LEVEL)
    sides = {
        "advantage": (found.alone(), known.advantage),
        "delta": (found.delta(0.5), known.delta),
        "rate": (found.true_positive_rate(0.1), known.rate),
    }
    for quantity, (interval, exact) in sides.items():
        missed = float(((interval.lower > exact) | (interval.upper < exact)).mean())
        assert missed <= 1 - LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / REPETITIONS), quantity
        assert float(interval.value.mean()) == pytest.approx(exact, abs=0.012), quantity


def test_output_perturbation_is_the_truth_itself() -> None:
    l2, noise = 0.2, 0.5
    found = output_perturbation(ROWS, LABELS, l2, noise)

    def minimiser(rows: np.ndarray, labels: np.ndarray) -> float:
        problem = LogisticProblem(rows, labels, np.full(1, l2))
        problem.__dict__["tolerance"] = 1e-13
        return float(problem.minimise(np.zeros(1)).weights[0, 0])

    taken_out = np.array([[0.0], *ROWS[1:]])  # the divisor stays
    step = float(GRID[1] - GRID[0])
    p, q = (norm.pdf(GRID, minimiser(rows, LABELS), noise) for rows in (ROWS, taken_out))
    known = truth(p, q, step)
    assert found.advantage[0] == pytest.approx(known.advantage, abs=1e-6)
    assert found.delta(0.5).value[0] == pytest.approx(known.delta, abs=1e-6)
    assert found.true_positive_rate(0.1).value[0] == pytest.approx(known.rate, abs=1e-4)


def test_losses_asked_of_nothing_random_say_why_there_are_none() -> None:
    with pytest.raises(SeedscopeError, match="scale must be"):
        objective_perturbation(ROWS, LABELS, np.zeros((1, 1)), l2=1.0, scale=0.0)
