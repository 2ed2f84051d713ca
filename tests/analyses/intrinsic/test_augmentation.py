"""Augmented output perturbation: the same draw for all levels, the papers' formulas, limits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from seedscope.accounting import gaussian_noise_scale
from seedscope.analyses import intrinsic
from seedscope.core.errors import SeedscopeError
from tests.helpers.present import present

Accuracy = Callable[[np.ndarray], np.ndarray]


def linear_task(
    models: int = 60, examples: int = 400, columns: int = 6, classes: int = 2, seed: int = 0
) -> tuple[np.ndarray, Accuracy, np.ndarray, np.ndarray]:
    """Return trained weights [model, parameter] and the accuracy function of a learnable linear task."""
    rng = np.random.default_rng(seed)
    features, outputs = rng.normal(size=(examples, columns)), 1 if classes == 2 else classes
    slopes, biases = rng.normal(size=(outputs, columns)), rng.normal(size=outputs)
    scores = features @ slopes.T + biases
    labels = (scores[:, 0] > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
    weights = np.append(slopes, biases) + 0.05 * rng.normal(size=(models, outputs * (columns + 1)))
    return weights, intrinsic.linear_accuracy(features, labels, classes=classes), features, labels


def utility(task: tuple[np.ndarray, Accuracy, *tuple[np.ndarray, ...]], **options: Any) -> intrinsic.AugmentedUtility:
    """Return the comparison at one usual setting."""
    weights, accuracy, *_ = task
    setting = {"sensitivity": 0.1, "noise_intrinsic": 0.2, "epsilon": 1.0, "delta": 1e-5} | options
    return intrinsic.augmented_utility(weights, accuracy, **setting)


@pytest.mark.parametrize("classes", [2, 4])
def test_accuracy_is_that_of_each_model_by_itself(classes: int) -> None:
    weights, accuracy, features, labels = linear_task(models=5, classes=classes)
    slow = []
    for model in weights:
        right = 0
        for row, label in zip(features, labels, strict=True):
            slopes, biases = model[: -(len(model) // 7)].reshape(-1, 6), model[-(len(model) // 7) :]
            scores = [part @ row + bias for part, bias in zip(slopes, biases, strict=True)]
            right += (int(scores[0] > 0) if classes == 2 else int(np.argmax(scores))) == label
        slow.append(right / len(labels))
    np.testing.assert_allclose(accuracy(weights), slow)


@pytest.mark.parametrize("classes", [2, 4])
def test_less_noise_is_between_full_noise_and_none(classes: int) -> None:
    found = utility(linear_task(classes=classes), noise_intrinsic=0.33)
    assert found.deterministic.mean() < found.augmented.mean() < found.noiseless.mean()
    assert 0 < present(found.share_of_gap).value < 1
    assert present(found.share_of_gap).kind == "estimate"


def test_without_intrinsic_noise_nothing_is_saved() -> None:
    found = utility(linear_task(), noise_intrinsic=0.0)
    np.testing.assert_array_equal(found.augmented, found.deterministic)
    assert present(found.share_of_gap).value == found.gain.value == 0
    assert found.p_value_gain == 0.5


def test_where_sgd_brings_enough_noise_the_whole_gap_is_closed() -> None:
    found = utility(linear_task(), noise_intrinsic=10.0)
    assert found.noise_augmented == 0
    np.testing.assert_array_equal(found.augmented, found.noiseless)
    assert present(found.share_of_gap).value == 1


def test_all_levels_use_the_same_draw() -> None:
    seen = []
    weights = np.zeros((4, 3))

    def noted(w: np.ndarray) -> np.ndarray:
        seen.append(w)
        return np.zeros(len(w))

    intrinsic.augmented_utility(
        weights,
        noted,
        sensitivity=1.0,
        noise_intrinsic=1.0,
        epsilon=1.0,
        delta=1e-5,
    )
    target = float(gaussian_noise_scale(1.0, 1.0, 1e-5))
    added = np.sqrt(target**2 - 1)
    assert not seen[0].any()
    np.testing.assert_allclose(seen[1] / target, seen[2] / added)


def test_p_values_are_those_of_the_paired_t_test() -> None:
    found = utility(linear_task(), noise_intrinsic=0.33)
    gain = ttest_rel(found.augmented, found.deterministic, alternative="greater").pvalue
    cost = ttest_rel(found.noiseless, found.deterministic, alternative="greater").pvalue
    assert found.p_value_gain == pytest.approx(gain)
    assert found.p_value_cost == pytest.approx(cost)


def test_the_papers_target_is_classical() -> None:
    found = utility(linear_task(models=3), formula="classical", epsilon=0.5, delta=9.25e-9, sensitivity=0.059)
    assert found.noise_target == pytest.approx(np.sqrt(2 * np.log(1.25 / 9.25e-9)) * 0.059 / 0.5)


def test_the_gap_is_not_shared_where_noise_costs_nothing() -> None:
    found = utility((np.zeros((5, 2)), lambda weights: np.full(len(weights), 0.5)))
    assert found.share_of_gap is None


@given(st.floats(0, 1e3), st.floats(0, 1e3))
def test_augmented_noise_and_own_noise_add_up_to_the_target(target: float, own: float) -> None:
    added = float(intrinsic.augmented_noise_scale(target, own))
    assert np.hypot(added, own) == pytest.approx(max(target, own), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number above 0"),
        ({"delta": 1}, r"delta must be in \(0, 1\)"),
        ({"formula": "clasical"}, "Did you mean 'classical'"),
        ({"noise_intrinsic": -1}, "at least 0"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        utility(linear_task(models=3), **options)


def test_weights_of_another_model_are_refused() -> None:
    accuracy = intrinsic.linear_accuracy(np.ones((4, 3)), np.zeros(4))
    with pytest.raises(SeedscopeError, match="must have 4 parameters, got 3"):
        accuracy(np.ones((2, 3)))


def test_two_models_are_too_few() -> None:
    with pytest.raises(SeedscopeError, match="at least 3 models, got 2"):
        utility(linear_task(models=2))


def test_anisotropic_noise_and_the_seeds_add_up_to_the_target_in_every_direction() -> None:
    mixing = np.random.default_rng(0).normal(size=(4, 4))
    covariance = mixing @ mixing.T
    target = 1.1 * float(np.sqrt(np.linalg.eigvalsh(covariance)[-1]))
    root = intrinsic.anisotropic_noise(target, covariance)
    np.testing.assert_allclose(root @ root.T + covariance, target**2 * np.eye(4), atol=1e-9)
    less = intrinsic.anisotropic_noise(0.5 * target, covariance)
    assert np.linalg.eigvalsh(less @ less.T + covariance)[0] >= (0.5 * target) ** 2 - 1e-9  # never below the target


def test_one_noise_vector_for_all_models_is_added_to_each() -> None:
    weights = np.random.default_rng(1).normal(size=(6, 2))
    draw = np.array([1.0, -2.0])
    seen: list[np.ndarray] = []

    def accuracy(models: np.ndarray) -> np.ndarray:
        seen.append(models)
        return np.asarray(models.mean(axis=1))

    found = intrinsic.augmented_utility(
        weights, accuracy, sensitivity=1.0, noise_intrinsic=0.1, epsilon=1.0, delta=1e-5, normal=draw
    )
    np.testing.assert_allclose(seen[1], weights + found.noise_target * draw)
    with pytest.raises(SeedscopeError, match="normal must have the shape"):
        intrinsic.augmented_utility(
            weights, accuracy, sensitivity=1.0, noise_intrinsic=0.1, epsilon=1.0, delta=1e-5, normal=[1.0]
        )
