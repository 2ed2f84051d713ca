"""The white-box check of DP-SGD's single steps: every planted bug is caught, right implementations pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import seedscope as ss
from seedscope.analyses.membership.canary import TESTS, CanaryProblem, _noisy_sums, canary_check
from seedscope.core.errors import SeedscopeError


def textbook(problem: CanaryProblem, seed: int, bug: str = "", bias: bool = False, start: float = 0.0) -> np.ndarray:
    """Return the weights after every step of DP-SGD as in the textbook, with a bug planted where one is named."""
    draw = np.random.default_rng([seed, 5])
    rows = np.column_stack([problem.features, np.ones(len(problem.labels))]) if bias else problem.features
    size, C, noise = problem.batch_size, problem.clipping_norm, problem.noise_multiplier * problem.clipping_norm
    weights = [start * draw.uniform(-1, 1, rows.shape[1])]
    repeated = draw.normal(size=rows.shape[1])
    for _ in range(problem.steps):
        batch = draw.random(len(rows)) < problem.sampling_probability
        if bug == "fixed batches":
            batch = np.isin(np.arange(len(rows)), draw.permutation(len(rows))[:size])
        gradients = (1 / (1 + np.exp(-rows @ weights[-1])) - problem.labels)[:, None] * rows
        shortened = gradients * np.minimum(1, C / np.linalg.norm(gradients, axis=1, keepdims=True))
        summed = (gradients if bug == "clipping forgotten" else shortened)[batch].sum(0)
        if bug == "clipped after averaging":
            mean = gradients[batch].mean(0) * size
            summed = mean * min(1, C * size / np.linalg.norm(mean))
        fresh = {"noise forgotten": 0.0, "same noise in every step": noise * repeated}.get(
            bug, noise * draw.normal(size=rows.shape[1])
        )
        fresh = fresh * {"noise without clipping norm": 1 / C, "noise too small": 0.9}.get(bug, 1.0)
        true_size = max(1, batch.sum())
        update = {
            "all divided by the true size": (summed + fresh) / true_size,
            "sum divided by the true size": summed / true_size + fresh / size,
        }.get(bug, (summed + fresh) / size)
        weights.append(weights[-1] - problem.learning_rate * update)
    return np.array(weights, np.float32)


def later(problem: CanaryProblem, seed: int, first: int, **choices: Any) -> np.ndarray:
    """Return the same with seeds from a first one on."""
    return textbook(problem, first + seed, **choices)


BUGS = {
    "noise forgotten": "noise size",
    "noise too small": "noise size",
    "noise without clipping norm": "noise size",
    "same noise in every step": "fresh noise",
    "clipping forgotten": "clipping",
    "clipped after averaging": "batch size",
    "all divided by the true size": "batch size",
    "sum divided by the true size": "batch size",
    "fixed batches": "batch size",
}


@pytest.mark.parametrize("noise_multiplier", [0.5, 3.0])
@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_caught_at_the_stated_confidence(bug: str, noise_multiplier: float) -> None:
    found = canary_check(lambda problem, seed: textbook(problem, seed, bug), noise_multiplier=noise_multiplier)
    assert not found.passed
    assert BUGS[bug] in {one.name for one in found.failures}
    assert "FAILED" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_bugs_are_caught_for_every_seed_not_only_some(bug: str) -> None:
    for first in range(0, 16, 2):
        found = canary_check(partial(later, first=100 + first, bug=bug), steps=150)
        assert BUGS[bug] in {one.name for one in found.failures}, first


@pytest.mark.slow
def test_a_right_implementation_fails_no_more_often_than_stated() -> None:
    runs, confidence = 150, 0.9
    failed = sum(
        not canary_check(
            partial(later, first=2 * k, bias=k % 2 == 0, start=0.2 * (k % 3)),
            steps=60, confidence=confidence,
        ).passed
        for k in range(runs)
    )  # fmt: skip
    assert failed <= 24  # a share of 0.1 would give more with probability 0.01


@pytest.mark.slow
def test_p_values_of_a_right_implementation_are_spread_as_they_must() -> None:
    checks = [canary_check(partial(later, first=2 * k, bias=True), steps=60) for k in range(100)]
    for name in TESTS:
        p_values = np.array([check.number(name).value for check in checks])
        for level in (0.1, 0.5):
            assert (p_values <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / len(checks))


def engine(**changes: Any) -> Callable[[CanaryProblem, int], np.ndarray]:
    """Return Seedscope's own DP-SGD as an implementation, with changes to the mechanism."""

    def implementation(problem: CanaryProblem, seed: int) -> np.ndarray:
        few = problem.features[:2], problem.labels[:2]
        data = ss.from_arrays(problem.features, problem.labels, *few, norm_bound=10.0)
        settings = {
            "learning_rate": problem.learning_rate, "batch_size": problem.batch_size, "steps": problem.steps,
            "noise_multiplier": problem.noise_multiplier, "clipping_norm": problem.clipping_norm,
        }  # fmt: skip
        grid = ss.Grid(seeds=1, root_seed=seed, checkpoints=range(1, problem.steps + 1))
        mechanism = ss.DPSGD(**(settings | changes))
        trained = ss.train(data, mechanism, grid=grid, records=ss.Records(probes=()), jobs=1)
        weights: np.ndarray = trained.weights.values[0, 0, 0]
        return weights

    return implementation


def test_our_own_engine_passes() -> None:
    found = canary_check(engine())
    assert found.passed, str(found)
    assert found.steps == 2 * 299


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"noise_multiplier": 0.0}, "noise size"),
        ({"clipping_norm": 5.0, "noise_multiplier": 0.01}, "clipping"),
        ({"rule": "mean"}, "batch size"),
        ({"sampling": ss.Shuffled()}, "batch size"),
        ({"sampling": ss.WithoutReplacement()}, "batch size"),
    ],
)
def test_variants_of_our_engine_that_the_accounting_does_not_cover_fail(changes: dict[str, Any], name: str) -> None:
    found = canary_check(engine(**changes), steps=150)
    assert name in {one.name for one in found.failures}


def test_noise_that_ignores_the_seed_is_caught() -> None:
    found = canary_check(lambda problem, seed: textbook(problem, 0))
    assert [one.name for one in found.failures] == ["fresh noise"]


def test_sums_follow_from_the_weights_whether_or_not_the_start_is_there() -> None:
    problem = CanaryProblem.craft(1.0, 60)
    weights = textbook(problem, 0)
    whole, later = _noisy_sums(weights, problem, 0), _noisy_sums(weights[1:], problem, 0)
    np.testing.assert_array_equal(whole[1:], later)


def test_larger_noise_gets_more_rows_so_that_batches_still_show() -> None:
    for noise in (0.3, 2.0, 8.0):
        problem = CanaryProblem.craft(noise, 100)
        q = problem.sampling_probability
        assert (len(problem.labels) - 1) * q * (1 - q) >= 3.5 * noise**2
        assert problem.batch_size == q * len(problem.labels)


@pytest.mark.parametrize(
    ("options", "weights", "message"),
    [
        ({"steps": 10}, np.zeros((1, 1)), "steps must be a whole number of at least 50"),
        ({"runs": 1}, np.zeros((1, 1)), "runs must be a whole number of at least 2"),
        ({"noise_multiplier": 0.0}, np.zeros((1, 1)), "noise_multiplier must be a finite number above 0"),
        ({"confidence": 1.0}, np.zeros((1, 1)), "confidence must be in"),
        ({}, np.zeros((300, 7)), r"300 steps and 202 weights.*\(300, 7\)"),
        ({}, np.full((300, 202), np.nan), "weights must be finite"),
    ],
)
def test_wrong_use_is_one_sentence(options: dict[str, Any], weights: np.ndarray, message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        canary_check(lambda problem, seed: weights, **options)
