"""Every interval of this room holds the truth as often as it says: simulated where the truth is an integral."""

import numpy as np
import pytest
import scipy.integrate

from seedscope.analyses import reconstruction as rc
from seedscope.numerics import mean_interval, nonnegative_mean_interval
from tests.analyses.reconstruction.test_tilted_information import Law, Line

DRAWS = 400
CHANCE = 4 * np.sqrt(0.05 * 0.95 / DRAWS)  # how far below 95 % a share of this many draws may lie
PROBLEMS = [
    ("gamma", 0.8, 0.7),
    ("gaussian", 0.8, 0.7),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in [("gamma", 0.3, 0.7), ("gaussian", 0.4, -0.9)]),
]
CANDIDATES, PRIOR = (-0.9, 0.1, 0.7), np.array([0.3, 0.5, 0.2])


@pytest.mark.slow
@pytest.mark.parametrize(("law", "scale", "feature"), PROBLEMS)
def test_information_of_a_record_is_in_its_interval(law: Law, scale: float, feature: float) -> None:
    line = Line(law, scale)
    truth, rows = line.information(feature), line.at(feature)
    drawn = line.sample(feature, 100 * DRAWS).reshape(DRAWS, 100, 1)
    found = [rc.tilted_feature_information(rows, line.labels, one, line.penalty, law, scale) for one in drawn]
    covered = np.mean([one.lower[3, 0] <= truth <= one.upper[3, 0] for one in found])
    assert covered >= 0.95 - CHANCE


def test_with_few_models_information_has_no_upper_end() -> None:
    found = Line("gaussian", 0.8).estimate(0.7, 99)
    assert np.all(np.isinf(found.upper))
    assert np.all((found.lower > 0) & (found.lower <= found.value))


@pytest.mark.parametrize("runs", [2, 4, 10, 50])
@pytest.mark.parametrize("batches", [0.5, 2.0, 20.0])  # of a run that hold the record, on average
def test_trace_of_a_record_is_in_its_interval_and_not_always_in_students(batches: float, runs: int) -> None:
    draw = np.random.default_rng([runs, int(10 * batches)])
    held = draw.poisson(batches, size=(runs, DRAWS))
    traces = np.array([[draw.lognormal(size=count).sum() for count in run] for run in held])
    truth = batches * np.exp(0.5)
    found = rc.average_traces(traces, dimension=1)
    assert found.trace_lower is not None
    assert found.trace_upper is not None
    assert np.mean((found.trace_lower <= truth) & (truth <= found.trace_upper)) >= 0.95 - CHANCE
    lower, upper = mean_interval(traces, 0.95)
    if batches == 0.5 and runs < 50:
        assert np.mean((lower <= truth) & (truth <= upper)) < 0.95 - 2 * CHANCE


def test_a_record_that_no_run_used_may_still_have_leaked_anything() -> None:
    found = rc.average_traces(np.zeros((5, 1)), dimension=1)
    assert found.of(0).lower == 0.0
    assert found.of(0).upper == np.inf


def test_values_that_are_all_alike_have_a_short_interval() -> None:
    lower, upper = nonnegative_mean_interval(np.full(50, 0.3), 0.95)
    assert lower == pytest.approx(0.3, rel=1e-6)
    assert 0.3 < upper < 0.3 * (1 + 4 / 50) + 1e-6


def _densities(law: Law, scale: float) -> tuple[Line, np.ndarray, float]:
    """A problem, the densities of what is released for each candidate, and the best attacker's chance by an integral.

    The chance is about the candidate that the released weights are from: E max π_k p_k(w)/p_true(w), the same for all.
    """
    line = Line(law, scale)
    densities = np.array([line.density(z) for z in CANDIDATES])
    best = (PRIOR[:, None] * densities).max(axis=0)
    return line, densities, float(scipy.integrate.trapezoid(best, line.w))


def _logs(line: Line, densities: np.ndarray, released: np.ndarray) -> np.ndarray:
    """ln p_k(w) [..., candidate]."""
    return np.stack([np.interp(released, line.w, np.log(one + 1e-300)) for one in densities], axis=-1)


@pytest.mark.parametrize(("law", "scale"), [("gamma", 0.8), ("gamma", 0.4), ("gaussian", 0.8), ("gaussian", 2.0)])
@pytest.mark.parametrize("true", range(len(CANDIDATES)))
def test_success_by_the_density_is_in_its_interval(law: Law, scale: float, true: int) -> None:
    line, densities, success = _densities(law, scale)
    with np.errstate(divide="ignore"):
        loss = (
            float(np.max(np.log(densities + 1e-300) - np.log(densities[true] + 1e-300)[None]))
            if law == "gamma"
            else None
        )
    drawn = line.sample(CANDIDATES[true], 100 * DRAWS)[:, 0].reshape(DRAWS, 100)
    logs = _logs(line, densities, drawn)
    inside = []
    for ratios in logs - logs[..., [true]]:
        _, lower, upper = rc.density_success(ratios[:, None], PRIOR[None], largest_loss=loss)
        inside.append(lower[0] <= success <= upper[0])
    assert np.mean(inside) >= 0.95 - CHANCE


@pytest.mark.parametrize(("law", "scale"), [("gamma", 0.4), ("gaussian", 0.8)])
def test_success_by_releases_is_in_its_interval(law: Law, scale: float) -> None:
    line, densities, success = _densities(law, scale)
    draw, inside = np.random.default_rng(3), []
    samples = np.stack([line.sample(z, 200 * DRAWS, k)[:, 0] for k, z in enumerate(CANDIDATES)])
    for try_ in range(DRAWS):
        truth = draw.choice(len(PRIOR), 200, p=PRIOR)
        released = samples[truth, 200 * try_ + np.arange(200)]
        _, lower, upper = rc.posterior_success(_logs(line, densities, released)[:, None], PRIOR[None])
        inside.append(lower[0] <= success <= upper[0])
    assert np.mean(inside) >= 0.95 - CHANCE
