"""Objective perturbation by the density of what is released: against densities written out, and its own samples."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit

from seedscope import SGD, Grid, ObjectivePerturbation, Records, SeedscopeError, load, privacy_loss, train
from seedscope.analyses.privacy_loss import from_losses, objective_perturbation
from seedscope.numerics import LogisticProblem

ROWS, LABELS = np.array([[1.0], [0.6], [-0.8], [0.3], [0.9]]), np.array([1.0, 0.0, 0.0, 1.0, 1.0])
SPARE = (np.array([-0.7]), 1.0)


def density(w: float, rows: np.ndarray, labels: np.ndarray, l2: float, law: str, scale: float) -> float:
    """Return the density of the released weight in one dimension, by the change of variables, written out."""
    s = expit(rows[:, 0] * w)
    b = -float(np.sum((s - labels) * rows[:, 0]) + l2 * w)
    slope = float(np.sum(s * (1 - s) * rows[:, 0] ** 2) + l2)
    if law == "gamma":
        return float(np.exp(-abs(b) / scale) / (2 * scale) * slope)
    return float(np.exp(-(b**2) / (2 * scale**2)) / np.sqrt(2 * np.pi) / scale * slope)


def without(person: int, replaced: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the data without a person."""
    rows, labels = np.delete(ROWS, person, 0), np.delete(LABELS, person)
    return (np.vstack([rows, SPARE[0]]), np.append(labels, SPARE[1])) if replaced else (rows, labels)


@pytest.mark.parametrize("law", ["gamma", "gaussian"])
@pytest.mark.parametrize("replaced", [True, False])
def test_losses_are_the_log_ratios_of_densities_that_integrate_to_one(law: Any, replaced: bool) -> None:
    weights, spare = np.linspace(-3, 3, 7)[:, None], SPARE if replaced else None
    found = objective_perturbation(ROWS, LABELS, weights, l2=0.5, scale=1.3, law=law, spare=spare)
    for person in range(len(ROWS)):
        x, y = without(person, replaced)
        whole, _ = integrate.quad(density, -200, 200, (x, y, 0.5, law, 1.3), limit=400)
        assert whole == pytest.approx(1.0, abs=1e-6)
        exact = [
            np.log(density(w, ROWS, LABELS, 0.5, law, 1.3) / density(w, x, y, 0.5, law, 1.3)) for w in weights[:, 0]
        ]
        np.testing.assert_allclose(found[:, person], exact, atol=1e-10)


@pytest.mark.parametrize("law", ["gamma", "gaussian"])
def test_sampled_advantages_hold_the_integral_of_the_densities(law: Any) -> None:
    draw, l2, scale = np.random.default_rng(3), 0.5, 1.3
    tilts = draw.laplace(0, scale, 4000) if law == "gamma" else draw.normal(0, scale, 4000)
    weights = LogisticProblem(ROWS, LABELS, np.full(1, l2 / 5)).minimise(tilts[:, None] / 5).weights
    found = from_losses(objective_perturbation(ROWS, LABELS, weights, l2=l2, scale=scale, law=law))
    assert found.self_test.holds
    for person in range(len(ROWS)):
        x, y = without(person, False)

        def gap(w: float, x: np.ndarray = x, y: np.ndarray = y) -> float:
            return max(density(w, ROWS, LABELS, l2, law, scale) - density(w, x, y, l2, law, scale), 0.0)

        exact, _ = integrate.quad(gap, -60, 60, limit=800)
        assert found.advantage_lower[person] <= exact <= found.advantage_upper[person]
        assert found.advantage[person] == pytest.approx(exact, abs=0.02)


def test_in_several_dimensions_losses_are_determinants_and_densities_written_out() -> None:
    draw = np.random.default_rng(4)
    rows, labels = draw.normal(size=(12, 3)), draw.integers(0, 2, 12).astype(float)
    spare, w, l2 = (draw.normal(size=3), 0.0), draw.normal(size=(2, 3)), np.array([0.3, 0.4, 0.0])

    def log_density(one: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
        s = expit(x @ one)
        tilt = -((s - y) @ x + l2 * one)
        hessian = (x * (s * (1 - s))[:, None]).T @ x + np.diag(l2)
        return float(-np.linalg.norm(tilt) / 2.0 + np.linalg.slogdet(hessian)[1])

    found = objective_perturbation(rows, labels, w, l2=l2, scale=2.0, spare=spare)
    for person in range(12):
        x, y = rows.copy(), labels.copy()
        x[person], y[person] = spare
        exact = [log_density(one, rows, labels) - log_density(one, x, y) for one in w]
        np.testing.assert_allclose(found[:, person], exact, atol=1e-9)


def test_diffprivlibs_constants_at_a_large_norm_ring_the_alarm() -> None:
    # N rows of norm up to 20 in one dimension, ε = 0.5: diffprivlib has R where the proof needs R²
    epsilon, R = 0.5, 20.0
    extra = 0.25 * R / np.expm1(epsilon / 4) - 0.5
    scale, l2 = 2 * R / (epsilon / 2), 1 + extra
    rows, labels = np.array([[R], [0.1], [0.1]]), np.array([1.0, 1.0, 0.0])
    tilts = np.random.default_rng(5).laplace(0, scale, 4000)[:, None]
    weights = LogisticProblem(rows, labels, np.full(1, l2 / 3)).minimise(tilts / 3).weights
    losses = objective_perturbation(rows, labels, weights, l2=l2, scale=scale, spare=(np.array([0.1]), 0.0))
    assert "calibration is wrong" in " ".join(from_losses(losses, largest_loss=epsilon).alarms)


@pytest.mark.slow
def test_ours_never_exceeds_epsilon_in_a_million_samples() -> None:
    data, seen = load("breast-cancer"), 0
    for epsilon in (0.5, 2.0, 8.0):
        grid = Grid(seeds=800)
        ensemble = train(data, ObjectivePerturbation(epsilon), grid=grid, records=Records(losses_of="train"))
        losses = ensemble.dataset["privacy_losses"].values
        assert np.abs(losses).max() <= epsilon * (1 + 1e-6)
        seen += losses.size
    assert seen > 10**6


def test_recorded_losses_cover_everybody_within_the_guarantee() -> None:
    data = load("breast-cancer")
    ensemble = train(data, ObjectivePerturbation(2.0), grid=Grid(seeds=60), records=Records(losses_of="train"))
    found = privacy_loss.everybody(ensemble)
    assert len(found.people) == len(data.base)
    assert found.kind == "statistical"
    assert found.alarms == ()
    assert found.advantage_upper.max() <= np.tanh(1.0) + 1e-6
    assert "everything about the others" in found.attacker


def test_losses_that_cannot_be_are_refused_and_say_why() -> None:
    data = load("breast-cancer")
    with pytest.raises(SeedscopeError, match="SGD has none"):
        train(data, SGD(steps=5), grid=Grid(seeds=2), records=Records(losses_of="train"))
    with pytest.raises(SeedscopeError, match="losses_of='neighbours' needs"):
        train(data, ObjectivePerturbation(1.0), grid=Grid(seeds=2), records=Records(losses_of="neighbours"))
    with pytest.raises(SeedscopeError, match="losses_of must be"):
        Records(losses_of="test")  # type: ignore[arg-type]
    with pytest.raises(SeedscopeError, match=r"train with Records\(losses_of"):
        privacy_loss.everybody(train(data, ObjectivePerturbation(1.0), grid=Grid(seeds=2)))
