"""Distances without the symmetries of a hidden layer: the same functions, against all orders, and known answers."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seedscope as ss
from seedscope.analyses import intrinsic
from seedscope.analyses.intrinsic.symmetry import AS_TRAINED, BALANCED, MATCHED
from seedscope.core.errors import SeedscopeError
from seedscope.training.gradient import score_block

LAYER = intrinsic.HiddenLayer(inputs=3, units=4, outputs=2)


def networks(count: int, seed: int = 0, layer: intrinsic.HiddenLayer = LAYER) -> np.ndarray:
    """Return weights [network, parameter]."""
    return np.random.default_rng(seed).normal(size=(count, layer.parameters))


def reordered(weights: np.ndarray, order: np.ndarray, layer: intrinsic.HiddenLayer = LAYER) -> np.ndarray:
    """Return a network with its hidden units in another order."""
    into, leaving, last = layer.by_unit(weights)
    return layer.joined(into[order], leaving[order], last)


def outputs_by_hand(weights: np.ndarray, row: np.ndarray, layer: intrinsic.HiddenLayer) -> np.ndarray:
    """Return what a ReLU network answers, written out."""
    first = weights[: layer.units * layer.inputs].reshape(layer.units, layer.inputs)
    rest = weights[layer.units * layer.inputs :]
    hidden = np.maximum(first @ row + rest[: layer.units], 0)
    second = rest[layer.units : -layer.outputs].reshape(layer.outputs, layer.units)
    answers: np.ndarray = second @ hidden + rest[-layer.outputs :]
    return answers


@pytest.mark.parametrize("classes", [2, 3])
def test_the_layout_is_that_of_trained_networks(classes: int) -> None:
    layer = intrinsic.HiddenLayer(inputs=3, units=4, outputs=1 if classes == 2 else classes)
    weights = networks(1, layer=layer)[0]
    network = ss.models.network_of(ss.mlp(4), (3,), classes)
    row = np.array([[0.3, -0.2, 0.9]], np.float32)
    scores = np.asarray(score_block(network, weights[None, None].astype(np.float32), (row, np.zeros(1)))["scores"])
    logits = outputs_by_hand(weights, row[0], layer)
    expected = 1 / (1 + np.exp(-logits[0])) if classes == 2 else np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(scores[0, 0, 0], expected, rtol=1e-4)


@given(st.integers(0, 2**31))
@settings(max_examples=25)
def test_balancing_and_reordering_leave_every_answer_as_it_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, row = networks(1, seed)[0], rng.normal(size=3)
    other = reordered(intrinsic.balanced(weights, LAYER), rng.permutation(4))
    np.testing.assert_allclose(outputs_by_hand(other, row, LAYER), outputs_by_hand(weights, row, LAYER), atol=1e-10)


def test_of_all_scales_the_balanced_one_is_the_shortest() -> None:
    weights = networks(1)[0]
    shortest = intrinsic.balanced(weights, LAYER)
    into, leaving, last = LAYER.by_unit(shortest)
    np.testing.assert_allclose(np.linalg.norm(into, axis=-1), np.linalg.norm(leaving, axis=-1))
    for scales in np.exp(np.random.default_rng(1).normal(size=(20, 4, 1))):
        scaled = LAYER.joined(into * scales, leaving / scales, last)
        assert np.linalg.norm(scaled) >= np.linalg.norm(shortest)
        np.testing.assert_allclose(intrinsic.balanced(scaled, LAYER), shortest)


def test_a_unit_that_nothing_leaves_is_nothing() -> None:
    into, leaving, last = LAYER.by_unit(networks(1)[0])
    leaving[2] = 0
    into_after, leaving_after, _ = LAYER.by_unit(intrinsic.balanced(LAYER.joined(into, leaving, last), LAYER))
    assert not into_after[2].any()
    assert not leaving_after[2].any()
    assert np.isfinite(into_after).all()


def test_matched_distances_are_the_least_over_all_orders() -> None:
    left, right = networks(3), networks(4, seed=1)
    orders = [np.array(order) for order in permutations(range(4))]
    slow = [[min(np.linalg.norm(one - reordered(two, order)) for order in orders) for two in right] for one in left]
    np.testing.assert_allclose(intrinsic.matched_distances(left, right, LAYER), slow)
    order = intrinsic.best_order(left[0], right[0], LAYER)
    assert np.linalg.norm(left[0] - reordered(right[0], order)) == pytest.approx(slow[0][0])


def shuffled_copies(noise: float, scales: float, seeds: int = 12) -> np.ndarray:
    """Return one function as weights [seed, dataset, parameter], its units shuffled and rescaled, with some noise."""
    rng, layer = np.random.default_rng(3), LAYER
    into, leaving, last = layer.by_unit(networks(1)[0])
    found = []
    for _ in range(seeds):
        order, scale = rng.permutation(4), np.exp(scales * rng.normal(size=(4, 1)))
        one = layer.joined((into * scale)[order], (leaving / scale)[order], last)
        found.append([one, one + noise * rng.normal(size=one.shape)])
    return np.array(found)


def test_networks_that_differ_by_names_and_scales_alone_are_no_distance_apart() -> None:
    found = intrinsic.without_symmetry(shuffled_copies(noise=1e-3, scales=0.5), LAYER)
    assert found.seed[AS_TRAINED].mean() > found.seed[MATCHED].mean() > 0.5
    np.testing.assert_allclose(found.seed[BALANCED], 0, atol=1e-6)
    assert found.variability[BALANCED] == pytest.approx(0, abs=1e-9)
    assert found.seed_exceeds_data(AS_TRAINED) > 0.9
    assert found.seed_exceeds_data(BALANCED) == 0


def test_aligning_never_widens_the_spread_and_leaves_the_effect_of_data() -> None:
    weights = networks(40).reshape(10, 4, -1)
    aligned = intrinsic.aligned(weights, LAYER)
    before, after = intrinsic.variability(weights).flat[0], intrinsic.variability(aligned).flat[0]
    assert after < before
    np.testing.assert_allclose(intrinsic.data_distances(aligned), intrinsic.data_distances(weights))
    np.testing.assert_allclose(np.sort(aligned, axis=-1), np.sort(weights, axis=-1))


def test_aligned_units_are_at_their_best_order_beside_the_mean() -> None:
    aligned = intrinsic.aligned(networks(40).reshape(10, 4, -1), LAYER)
    mean = aligned[:, 0].mean(axis=0)
    for weights in aligned[:, 0]:
        assert intrinsic.best_order(mean, weights, LAYER).tolist() == [0, 1, 2, 3]


def test_without_relu_only_the_order_is_free() -> None:
    found = intrinsic.without_symmetry(networks(12).reshape(6, 2, -1), LAYER, relu=False)
    assert list(found.seed) == [AS_TRAINED, MATCHED]
    assert (found.seed[MATCHED] <= found.seed[AS_TRAINED] + 1e-12).all()


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="weights must be 26 numbers"):
        intrinsic.balanced(np.zeros(25), LAYER)
