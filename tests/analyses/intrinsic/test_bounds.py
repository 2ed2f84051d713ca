"""Bounds on what SGD can do, against runs of SGD and against counting."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedscope.analyses import intrinsic
from seedscope.core.errors import SeedscopeError


def batches(rng: np.random.Generator, examples: int, batch_size: int, steps: int) -> Iterator[np.ndarray]:
    """Yield the batches of shuffled epochs, the incomplete last batch of each dropped."""
    done = 0
    while True:
        order = rng.permutation(examples)
        for start in range(0, examples - batch_size + 1, batch_size):
            if done == steps:
                return
            yield order[start : start + batch_size]
            done += 1


def linear_sgd(features: np.ndarray, seed: int, batch_size: int, steps: int, learning_rate: float) -> np.ndarray:
    """Return the weights of SGD on the linear, hence convex and 0-smooth, loss −x·w."""
    weights = np.zeros(features.shape[1])
    for batch in batches(np.random.default_rng(seed), len(features), batch_size, steps):
        weights += learning_rate * features[batch].mean(axis=0)
    return weights


def moved_by_replacement(
    steps: int, examples: int = 10, batch_size: int = 3, learning_rate: float = 0.5, seeds: int = 20
) -> np.ndarray:
    """Return ‖A(r; D) − A(r; D_i)‖ [seed] where x_i of norm 1 is replaced by its opposite."""
    features = np.random.default_rng(0).normal(size=(examples, 2))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    neighbour = features.copy()
    neighbour[4] *= -1
    runs = [
        linear_sgd(features, seed, batch_size, steps, learning_rate)
        - linear_sgd(neighbour, seed, batch_size, steps, learning_rate)
        for seed in range(seeds)
    ]
    moved: np.ndarray = np.linalg.norm(runs, axis=1)
    return moved


@pytest.mark.parametrize("steps", [3, 4, 5, 9])
def test_sensitivity_bound_holds_and_is_reached_by_a_linear_loss(steps: int) -> None:
    bound = intrinsic.sgd_sensitivity_bound(steps, 10, 3, 0.5, lipschitz=1.0)
    assert moved_by_replacement(steps).max() == pytest.approx(bound, rel=1e-12)


def test_a_fractional_number_of_epochs_is_not_a_bound() -> None:
    fractional = 2 * (4 / 3) * 0.5 / 3  # the papers' 2kLη/B with k = T/(N//B)
    assert moved_by_replacement(steps=4).max() > fractional


def test_sensitivity_bound_of_the_papers_set_ups_counts_whole_epochs() -> None:
    found = intrinsic.sgd_sensitivity_bound(
        [1850, 3400, 8400], [10396, 29304, 378782], [32, 32, 50], [0.5, 0.5, 1], 2**0.5
    )
    epochs = np.array([6, 4, 2])
    np.testing.assert_allclose(found, 2 * epochs * 2**0.5 * np.array([0.5, 0.5, 1]) / [32, 32, 50])


def test_removing_one_example_halves_the_bound() -> None:
    replaced = intrinsic.sgd_sensitivity_bound(100, 64, 8, 0.1, 1.0)
    assert intrinsic.sgd_sensitivity_bound(100, 64, 8, 0.1, 1.0, relation="add_or_remove") == replaced / 2


@given(st.integers(1, 500), st.integers(10, 200), st.integers(1, 10))
def test_more_steps_never_lower_the_bound(steps: int, examples: int, batch_size: int) -> None:
    now, later = intrinsic.sgd_sensitivity_bound([steps, steps + 1], examples, batch_size, 0.1, 1.0)
    assert now <= later


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"convex": False}, "needs a convex loss"),
        ({"smoothness": 0.5, "learning_rate": 4.1}, "learning_rate ≤ 2/β = 4"),
        ({"batch_size": 101}, "batch_size must be at most the number of examples 100"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"lipschitz": 0}, "lipschitz must be a finite number above 0"),
        ({"relation": "replace"}, "Did you mean 'replace_one'"),
    ],
)
def test_a_failing_condition_is_named(options: dict[str, Any], message: str) -> None:
    setting = {"steps": 10, "examples": 100, "batch_size": 10, "learning_rate": 0.1, "lipschitz": 1.0} | options
    with pytest.raises(SeedscopeError, match=message):
        intrinsic.sgd_sensitivity_bound(**setting)


def test_learning_rate_of_exactly_two_over_beta_is_allowed() -> None:
    assert intrinsic.sgd_sensitivity_bound(1, 10, 1, 4.0, 1.0, smoothness=0.5) == 8.0


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_logistic_constants_bound_gradients_and_curvature(classes: int) -> None:
    rng = np.random.default_rng(classes)
    outputs = 1 if classes == 2 else classes
    largest_gradient = largest_curvature = 0.0
    for _ in range(500):
        x = np.append(rng.normal(size=2), 0)
        x = np.append(1.5 * x / np.linalg.norm(x), 1.0)  # norm bound 1.5, and the bias
        logits = 5 * rng.normal(size=outputs)
        p = 1 / (1 + np.exp(-logits)) if classes == 2 else np.exp(logits) / np.exp(logits).sum()
        target = np.eye(classes)[rng.integers(classes)] if classes > 2 else rng.integers(2)
        inner = np.diag(p) - np.outer(p, p) if classes > 2 else p * (1 - p) * np.ones((1, 1))
        largest_gradient = max(largest_gradient, float(np.linalg.norm(np.outer(p - target, x))))
        largest_curvature = max(largest_curvature, float(np.linalg.norm(np.kron(inner, np.outer(x, x)), 2)))
    lipschitz = float(intrinsic.logistic_lipschitz(1.5, classes=classes))
    smoothness = float(intrinsic.logistic_smoothness(1.5, classes=classes))
    assert 0.9 * lipschitz < largest_gradient <= lipschitz * (1 + 1e-12)
    assert 0.9 * smoothness < largest_curvature <= smoothness * (1 + 1e-12)


@pytest.mark.parametrize(("examples", "batch_size", "steps"), [(12, 1, 24), (12, 3, 4), (13, 4, 8), (11, 3, 7)])
def test_variability_bound_has_the_mean_and_variance_of_counted_mismatches(
    examples: int, batch_size: int, steps: int
) -> None:
    rng = np.random.default_rng(0)
    mismatches = []
    for _ in range(4000):
        pair = zip(batches(rng, examples, batch_size, steps), batches(rng, examples, batch_size, steps), strict=True)
        mismatches.append(sum(1 - len(np.intersect1d(a, b)) / batch_size for a, b in pair))
    step = 2 * 1.5 * 0.1
    found = intrinsic.sgd_variability_bound(steps, examples, batch_size, 0.1, 1.5)
    counted = step * np.array(mismatches)
    assert found.mean == pytest.approx(counted.mean(), abs=4 * counted.std() / np.sqrt(4000))
    assert found.variance == pytest.approx(counted.var(), rel=0.12)
    assert found.maximum == pytest.approx(step * steps)
    assert counted.max() <= found.maximum * (1 + 1e-12)


@given(st.integers(1, 5), st.integers(3, 300))
def test_variability_bound_for_single_examples_is_that_of_the_paper(passes: int, examples: int) -> None:
    found = intrinsic.sgd_variability_bound(passes * examples, examples, 1, 0.5, 1.0)
    assert found.maximum == pytest.approx(2 * passes * examples * 0.5)
    assert found.mean == pytest.approx(2 * passes * 0.5 * (examples - 1))
    assert found.variance == pytest.approx(passes)
    assert found.chebyshev == pytest.approx(min(1, 4 / (passes * (examples - 2) ** 2)))


def test_claim_2_holds_in_simulated_shuffles() -> None:
    examples, passes, trials = 8, 2, 3000
    rng = np.random.default_rng(1)
    fixed = np.array(
        [sum((rng.permutation(examples) == np.arange(examples)).sum() for _ in range(passes)) for _ in range(trials)]
    )
    found = intrinsic.sgd_variability_bound(passes * examples, examples, 1, 0.5, 1.0)
    bound = passes * examples - fixed  # 2Lη = 1
    share = np.mean(np.abs(bound - found.mean) >= (found.mean - found.sensitivity) / 2)
    assert share <= found.chebyshev


def test_two_seeds_on_a_linear_loss_stay_within_the_variability_bound() -> None:
    features = np.random.default_rng(0).normal(size=(10, 2))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    runs = np.array([linear_sgd(features, seed, 3, 5, 0.5) for seed in range(30)])
    maximum = intrinsic.sgd_variability_bound(5, 10, 3, 0.5, 1.0).maximum
    assert intrinsic.pairwise_distances(runs).max() <= maximum
