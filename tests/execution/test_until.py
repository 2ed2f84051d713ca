"""Training until it is known well enough: when it stops, what it keeps, and that its confidence holds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seedscope import SGD, Chaudhuri, Dataset, Grid, ObjectivePerturbation, Records, SeedscopeError, train, train_until
from seedscope.analyses.multiplicity import disagreement_interval, models_needed_exact
from seedscope.auditing.levels import examine
from seedscope.core import SeedscopeWarning
from seedscope.datasets import from_arrays
from seedscope.execution import Estimate, measure_cost
from seedscope.execution import until as adaptive
from seedscope.storage.ensemble import Ensemble
from tests.helpers.small_data import table

Grow = Callable[..., tuple[Any, np.ndarray]]


def clear_data() -> Dataset:
    """Return two classes that no noise of a large ε confuses."""
    draw = np.random.default_rng(0)
    labels = np.arange(208) % 2
    features = np.column_stack([np.where(labels == 1, 0.9, -0.9), 0.1 * draw.normal(size=208)])
    return from_arrays(features[:200], labels[:200], features[200:], labels[200:], norm_bound=2.0)


@pytest.fixture
def without_training(monkeypatch: pytest.MonkeyPatch) -> Grow:
    """Return a function that grows simulated models, deciding 1 with the given chances, instead of training them."""

    def grow(chances: np.ndarray, goal: adaptive.Goal, step: int, seed: int) -> tuple[Any, np.ndarray]:
        draw = np.random.default_rng(seed)
        decided = draw.random((goal.latest, len(chances))) < chances
        monkeypatch.setattr(adaptive, "decision_counts", lambda seeds, first: decided[first:seeds].sum(0)[None])
        grown: Any = lambda seeds, expected: seeds  # noqa: E731
        return adaptive._grow(grown, step, goal), decided

    return grow


def goal_of(error: float, confidence: float, examples: int, maximum: int | None = None) -> adaptive.Goal:
    """Return the goal for this many examples."""
    return adaptive._checked_goal(error, confidence, maximum, examples, Grid(), Records())


def test_clear_decisions_stop_at_the_first_look() -> None:
    data = clear_data()
    found = train_until(data, ObjectivePerturbation(50.0), error=0.2)
    earliest, latest = adaptive.seeds_needed(0.2, 0.95, len(data.test), surrogate=True)
    assert found.reached
    assert earliest <= found.seeds < 1.1 * earliest < latest
    assert found.error.value <= 0.2
    assert found.error.kind == "statistical"


@pytest.mark.slow
def test_undecided_models_are_trained_to_the_fixed_plan_and_no_further() -> None:
    data = table(columns=2)
    found = train_until(data, ObjectivePerturbation(0.05, calibration=Chaudhuri()), error=0.3)
    assert found.reached
    assert found.seeds <= adaptive.seeds_needed(0.3, 0.95, len(data.test), surrogate=True)[1]


def test_the_latest_number_of_seeds_costs_little_more_than_a_fixed_plan() -> None:
    for error, examples in ((0.05, 100), (0.1, 10_000)):
        _, latest = adaptive.seeds_needed(error, 0.95, examples)
        assert models_needed_exact(error, 0.95, examples) <= latest <= 1.2 * models_needed_exact(error, 0.95, examples)


@pytest.mark.slow
def test_grown_models_are_those_of_one_large_training() -> None:
    data, mechanism = table(), ObjectivePerturbation(1.0)
    found = train_until(data, mechanism, error=0.4)
    whole = train(data, mechanism, grid=Grid(found.seeds))
    np.testing.assert_allclose(found.ensemble.weights, whole.weights, rtol=1e-5)


@pytest.mark.slow
def test_what_is_stored_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, mechanism = table(), ObjectivePerturbation(1.0)
    first = train_until(data, mechanism, error=0.4, store=tmp_path / "store")
    monkeypatch.setattr("seedscope.execution.worker.train_chunk", lambda *_: pytest.fail("trained again"))
    again = train_until(data, mechanism, error=0.4, store=tmp_path / "store")
    assert again.seeds == first.seeds
    assert Ensemble.open(tmp_path / "store").dataset.sizes["seed"] == first.seeds


def test_an_ensemble_knows_that_it_was_looked_at_and_its_intervals_are_the_anytime_ones(tmp_path: Path) -> None:
    data, mechanism = clear_data(), ObjectivePerturbation(50.0)
    found = train_until(data, mechanism, error=0.2, store=tmp_path / "store")
    latest = adaptive.seeds_needed(0.2, 0.95, len(data.test), surrogate=True)[1]
    stored = Ensemble.open(tmp_path / "store")
    assert (found.ensemble.latest, stored.latest) == (latest, latest)
    counts = adaptive.decision_counts(stored)
    expected = disagreement_interval(counts[0], found.seeds, 0.975, len(data.test), anytime=True)
    np.testing.assert_array_equal((examine(stored).multiplicity.lower, examine(stored).multiplicity.upper), expected)
    assert train(data, mechanism, grid=Grid(5)).latest is None


@pytest.mark.slow
def test_a_limit_that_is_too_small_is_said_and_can_be_raised(tmp_path: Path) -> None:
    data, mechanism = table(), ObjectivePerturbation(0.2, calibration=Chaudhuri())
    short = train_until(data, mechanism, error=0.15, maximum=40, store=tmp_path / "store")
    assert (short.seeds, short.reached) == (40, False)
    assert short.error.value > 0.15
    assert train_until(data, mechanism, error=0.15, store=tmp_path / "store").reached


def test_beyond_two_classes_each_class_against_the_rest_is_known() -> None:
    data = table(classes=3)
    found = train_until(data, SGD(steps=5, batch_size=8), error=0.6, grid=Grid(init="varied"))
    counts = adaptive.decision_counts(found.ensemble)
    assert counts.shape == (3, len(data.test))
    np.testing.assert_array_equal(counts.sum(0), found.seeds)
    assert found.reached


def test_only_new_seeds_are_counted() -> None:
    ensemble = train(table(), ObjectivePerturbation(1.0), grid=Grid(9))
    parts = adaptive.decision_counts(ensemble) - adaptive.decision_counts(ensemble, 4)
    np.testing.assert_array_equal(parts[0], (ensemble.base_scores()[:4] > 0.5).sum(0))


def test_progress_ends_with_all_models_done() -> None:
    seen = []
    found = train_until(clear_data(), ObjectivePerturbation(50.0), error=0.3, progress=lambda *now: seen.append(now))
    assert seen[-1][0] == found.seeds
    assert all(done <= total for done, total in seen)


@pytest.mark.parametrize("chances", [(0.0, 0.0), (0.01, 0.99), (0.5, 0.5), (0.0, 0.3)])
def test_errors_hold_with_the_confidence_although_it_looks_often(
    without_training: Grow, chances: tuple[float, ...]
) -> None:
    each, goal, runs = np.array(chances), goal_of(0.25, 0.8, 2), 200
    truth = 4 * each * (1 - each)
    wrong = 0
    for seed in range(runs):
        found, decided = without_training(each, goal, step=1, seed=seed)
        share = decided[: found.seeds].mean(0)
        estimate = np.minimum(4 * share * (1 - share) * found.seeds / (found.seeds - 1), 1)
        wrong += bool(np.any(np.abs(estimate - truth) > goal.error))
        assert found.reached
    assert wrong / runs <= 0.2


def test_it_stops_at_the_first_look_that_suffices(without_training: Grow) -> None:
    goal = goal_of(0.05, 0.9, 1)
    found, decided = without_training(np.array([0.004]), goal, step=10, seed=3)
    assert goal.earliest < found.seeds < goal.latest
    looks = np.arange(-(-goal.earliest // 10) * 10, found.seeds + 1, 10)
    errors = [goal.largest_error(decided[:look].sum(0), look) for look in looks]
    assert errors[-1] <= 0.05
    skipped = int(adaptive.GROWTH * found.seeds / 10) + 1  # looks that growth by whole shares leaves out
    assert min(errors[:-skipped]) > 0.05


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"grid": Grid(init="both")}, "independent"),
        ({"records": Records(probes=())}, "test"),
        ({"maximum": 1}, "maximum"),
        ({"error": 0.0}, "error"),
        ({"confidence": 1.0}, "confidence"),
        ({"jobs": 0}, "jobs"),
    ],
)
def test_what_cannot_be_aimed_at_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SeedscopeError, match=words):
        train_until(table(), SGD(steps=2), **({"error": 0.5} | options))


@pytest.mark.slow
def test_it_takes_what_train_takes_and_announces_and_verifies_once(tmp_path: Path) -> None:
    seen: list[Estimate] = []
    options: Any = {"error": 0.3, "store": tmp_path / "store", "jobs": 1}
    first = train_until(table(), ObjectivePerturbation(8.0), announce=seen.append, **options)
    assert len(seen) == 1
    assert seen[0].models > 0
    chunk = next((tmp_path / "store" / "models.zarr" / "weights" / "c").rglob("0"))
    while chunk.is_dir():
        chunk = next(chunk.iterdir())
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    with pytest.warns(SeedscopeWarning, match="set aside"):
        again = train_until(table(), ObjectivePerturbation(8.0), verify=True, **options)
    np.testing.assert_array_equal(again.ensemble.weights, first.ensemble.weights)
    with pytest.raises(SeedscopeError, match="leave it out with a cluster"):
        train_until(table(), ObjectivePerturbation(8.0), error=0.3, jobs=1, cluster="tcp://127.0.0.1:1")


def test_a_costs_chunks_stay_within_the_memory() -> None:
    with pytest.raises(SeedscopeError, match="memory must be at least"):
        measure_cost(table(), ObjectivePerturbation(8.0), models=10, memory="1MiB")
