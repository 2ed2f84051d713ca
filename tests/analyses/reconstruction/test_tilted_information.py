"""What a randomly tilted minimiser tells of each record: against derivatives of the density, and exact integrals."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import scipy.integrate
import scipy.special

import seedscope as ss
from seedscope.core import SeedscopeError

rc = ss.reconstruction
Law = Literal["gamma", "gaussian"]


def log_density(rows: np.ndarray, labels: np.ndarray, w: np.ndarray, penalty: float, law: Law, scale: float) -> float:
    """The log-density of releasing w, up to a constant, as the definition has it."""
    s = scipy.special.expit(rows @ w)
    tilt = -((s - labels) @ rows + penalty * w)
    hessian = (rows * (s * (1 - s))[:, None]).T @ rows + penalty * np.eye(len(w))
    norm = np.linalg.norm(tilt) / scale
    return float(np.linalg.slogdet(hessian)[1] - (norm**2 / 2 if law == "gaussian" else norm))


def with_bias(features: np.ndarray) -> np.ndarray:
    return np.column_stack([features, np.ones(len(features))])


@pytest.mark.parametrize("law", ["gamma", "gaussian"])
@pytest.mark.parametrize("shortened", [False, True])
def test_squared_scores_are_those_of_the_density_moved_by_hand(law: Law, shortened: bool) -> None:
    draw = np.random.default_rng(1)
    raw, labels, weights = draw.normal(size=(9, 3)), np.arange(9) % 2, draw.normal(size=(20, 4))

    def scaled(rows: np.ndarray) -> np.ndarray:
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.maximum(norms / 1.2, 1) if shortened else rows

    lengths = np.linalg.norm(raw, axis=1)
    assert 1 < (lengths > 1.2).sum() < 9
    found = rc.tilted_feature_information(
        scaled(raw), labels, weights, 0.7, law, 1.5, [0, 2], lengths if shortened else None
    )
    for record, (k, column) in [(0, (0, 0)), (5, (1, 2)), (8, (0, 0)), (3, (1, 2))]:
        squares = []
        for w in weights:
            ends = []
            for step in (1e-5, -1e-5):
                moved = raw.copy()
                moved[record, column] += step
                ends.append(log_density(with_bias(scaled(moved)), labels, w, 0.7, law, 1.5))
            squares.append(((ends[0] - ends[1]) / 2e-5) ** 2)
        assert found.value[record, k] == pytest.approx(np.mean(squares), rel=2e-3)
        spread = np.std(squares, ddof=1) / np.sqrt(20)
        factor = np.exp(2.093 * spread / np.mean(squares))
        assert found.value[record, k] / found.lower[record, k] == pytest.approx(factor, rel=2e-3)


class Line:
    """One person's feature z in [−1, 1] and no bias: everything by integrals over the released weight."""

    def __init__(self, law: Law, scale: float) -> None:
        self.rows, self.labels = np.array([[0.8], [-0.6], [0.3], [0.0]]), np.array([1, 0, 0, 1])
        self.law, self.scale, self.penalty = law, scale, 0.5
        self.w = np.linspace(-60, 60, 24_001)

    def at(self, z: float) -> np.ndarray:
        """The rows if the person's feature is z."""
        rows = self.rows.copy()
        rows[3] = z
        return rows

    def density(self, z: float) -> np.ndarray:
        """The density of the released weight, on the grid `w`, if the person's feature is z."""
        rows = self.at(z)
        s = scipy.special.expit(self.w[:, None] * rows[:, 0])
        tilt = np.abs((s - self.labels) @ rows[:, 0] + self.penalty * self.w) / self.scale
        hessian = (s * (1 - s)) @ rows[:, 0] ** 2 + self.penalty
        with np.errstate(under="ignore"):
            found = hessian * np.exp(-(tilt**2) / 2 if self.law == "gaussian" else -tilt)
        density: np.ndarray = found / scipy.integrate.trapezoid(found, self.w)
        return density

    def information(self, z: float) -> float:
        """The Fisher information about z."""
        score = (np.log(self.density(z + 1e-4) + 1e-300) - np.log(self.density(z - 1e-4) + 1e-300)) / 2e-4
        return float(scipy.integrate.trapezoid(score**2 * self.density(z), self.w))

    def sample(self, z: float, count: int, seed: int = 0) -> np.ndarray:
        """Released weights."""
        mass = np.cumsum(self.density(z))
        return np.interp(np.random.default_rng(seed).random(count), mass / mass[-1], self.w)[:, None]

    def estimate(self, z: float, count: int, seed: int = 0) -> rc.FeatureInformation:
        released = self.sample(z, count, seed)
        return rc.tilted_feature_information(self.at(z), self.labels, released, self.penalty, self.law, self.scale)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gamma", "gaussian"])
def test_information_is_the_integral(law: Law) -> None:
    line = Line(law, 0.8)
    assert line.estimate(0.7, 6000).value[3, 0] == pytest.approx(line.information(0.7), rel=0.08)


@pytest.mark.parametrize(("law", "scale"), [("gamma", 0.6), ("gaussian", 0.8), ("gaussian", 3.0)])
def test_no_attacker_beats_van_trees_and_it_is_near_the_posteriors_error(law: Law, scale: float) -> None:
    """The prior is normal; the attacker's error is the posterior variance, by integrals over prior and weights."""
    line, deviation = Line(law, scale), 0.3
    z = np.linspace(-5 * deviation, 5 * deviation, 121)
    prior = np.exp(-((z / deviation) ** 2) / 2)
    prior = prior / prior.sum()
    joint = prior[:, None] * np.array([line.density(one) for one in z])
    mass = joint.sum(0) + 1e-300
    mean = (z[:, None] * joint).sum(0) / mass
    error = float(scipy.integrate.trapezoid(((z[:, None] - mean) ** 2 * joint).sum(0), line.w))
    information = sum(weight * line.information(one) for one, weight in zip(z[::4], prior[::4] * 4, strict=True))
    bound = 1 / (information + 1 / deviation**2)
    assert bound <= error * (1 + 1e-3)
    assert error <= 1.5 * bound


def test_share_left_is_one_without_information_and_falls_with_it() -> None:
    data, draw = ss.load("breast-cancer"), np.random.default_rng(0)
    released = draw.normal(size=(30, 31))
    shares = []
    for epsilon in (0.5, 8.0):
        found = rc.record_bounds(data, ss.ObjectivePerturbation(epsilon), released=released)
        assert found.left is not None
        mean, lower, upper = found.left
        assert np.all((lower <= mean) & (mean <= upper) & (mean > 0) & (upper <= 1))
        assert len(np.unique(mean)) > 400  # everybody's own
        shares.append(mean)
        assert found.kind == "proved"
        assert np.ptp(found.feature_error_lower, axis=0).max() == 0  # and the proved bound is everybody's
    assert np.median(shares[1]) < np.median(shares[0])


def test_too_few_models_and_other_mistakes_are_refused() -> None:
    rows, labels = np.random.default_rng(0).normal(size=(6, 2)), np.arange(6) % 2
    with pytest.raises(SeedscopeError, match="at least 20 models are needed, got 3"):
        rc.tilted_feature_information(rows, labels, np.zeros((3, 3)), 1.0, "gamma", 1.0)
    with pytest.raises(SeedscopeError, match="law must be 'gamma' or 'gaussian', got 'laplace'"):
        rc.tilted_feature_information(rows, labels, np.zeros((20, 3)), 1.0, "laplace", 1.0)  # type: ignore[arg-type]
    with pytest.raises(SeedscopeError, match="scale"):
        rc.tilted_feature_information(rows, labels, np.zeros((20, 3)), 1.0, "gamma", 0.0)
