"""Per-example gradients from layer inputs equal those that `vmap` holds one by one."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seedscope import logistic, mlp
from seedscope.models.base import Network, network_of, parameter_count
from seedscope.models.convolutional import CNN, ConvolutionLayer
from seedscope.models.layers import PatchConvolution
from seedscope.models.networks import equinox_network
from seedscope.models.residual import GroupNorm, ResNet, resnet20
from seedscope.training.dpsgd.path_sums import NORM_MARGIN
from seedscope.training.dpsgd.per_example import (
    Examples,
    _materialised,
    clipped_sum,
    examples,
    gradient_norms,
    known_of_rows,
    output_shapes,
)
from tests.helpers.small_data import batch_of

pytestmark = [pytest.mark.slow, pytest.mark.optimised]  # compiles many networks, as users do

CASES = {
    "logistic": (logistic(), (7,), 2),
    "multinomial": (logistic(), (7,), 3),
    "mlp": (mlp((5, 4)), (7,), 2),
    "convolutions": (CNN((ConvolutionLayer(3, 3, "same", 2), ConvolutionLayer(4, 2, "valid")), (5,)), (8, 8, 1), 3),
    "ghost norm": (CNN((ConvolutionLayer(16, 3), ConvolutionLayer(24, 3, "same"))), (5, 5, 2), 3),
    "tiles for pooling": (
        CNN((ConvolutionLayer(3, 5, "same", 2), ConvolutionLayer(16, 5, "same", 2)), (5,)),
        (9, 8, 2),
        3,
    ),
    "residual": (ResNet(blocks=1, channels=(4, 8), groups=2), (8, 8, 3), 3),
}


class _Tied(eqx.Module):
    """A network that calls a layer once and uses its weights once more."""

    layer: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.layer = eqx.nn.Linear(4, "scalar", key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.layer(x) + jnp.tanh(self.layer.weight[0] @ x)


class _FromScalar(eqx.Module):
    """A network whose first layer takes a scalar."""

    first: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.first, self.last = eqx.nn.Linear("scalar", 4, key=key), eqx.nn.Linear(4, 3, key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(jnp.tanh(self.first(x[0])))


class _Twice(eqx.Module):
    """A network that uses one layer twice."""

    layer: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.layer, self.last = eqx.nn.Linear(4, 4, key=key), eqx.nn.Linear(4, "scalar", key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(jnp.tanh(self.layer(jnp.tanh(self.layer(x)))))


class _OverTokens(eqx.Module):
    """A network that maps a layer over positions with a `vmap` of its own."""

    layer: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.layer = eqx.nn.Linear(2, 1, key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        return jax.vmap(self.layer)(x.reshape(2, 2)).sum()


class _Bare(eqx.Module):
    """A network with a parameter outside of any layer."""

    layer: eqx.nn.Linear
    scale: jax.Array

    def __init__(self, key: jax.Array) -> None:
        self.layer, self.scale = eqx.nn.Linear(4, "scalar", key=key), jnp.array(0.7)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.scale * self.layer(x)


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def compiled(way: Callable[..., Examples], network: Network) -> Any:
    """Return the compiled function (parameters, rows, labels, weights) → norms, logits and weighted sum."""

    def run(
        parameters: Any, rows: jax.Array, labels: jax.Array, weights: jax.Array
    ) -> tuple[jax.Array, jax.Array, Any]:
        passed = way(network, parameters, rows, labels)
        return passed.norms, passed.logits, passed.weighted_sum(weights)

    return jax.jit(run)


def assert_same(network: Network, shape: tuple[int, ...], classes: int) -> None:
    batch = batch_of(network, shape, classes)
    fast, slow = compiled(examples, network)(*batch), compiled(_materialised, network)(*batch)
    structures: list[Any] = [jax.tree.structure(one) for one in (fast[2], slow[2], batch[0])]
    assert structures[0] == structures[1] == structures[2]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), fast, slow)


@pytest.mark.parametrize("case", CASES)
def test_norms_and_weighted_sums_equal_those_of_gradients_held_one_by_one(case: str) -> None:
    model, shape, classes = CASES[case]
    network = model.network(shape, classes)
    parameters, rows, *_ = batch_of(network, shape, classes)
    assert output_shapes(network, parameters, rows[0]) is not None, "the fast way was not taken"
    assert_same(network, shape, classes)


def test_a_layer_whose_weights_are_used_beside_its_call_does_not_take_the_fast_way() -> None:
    network = equinox_network(_Tied)
    parameters, rows, *_ = batch_of(network, (4,), 2)
    assert output_shapes(network, parameters, rows[0]) is None
    assert_same(network, (4,), 2)


def test_a_dense_layer_may_take_a_scalar() -> None:
    network = equinox_network(_FromScalar)
    parameters, rows, *_ = batch_of(network, (1,), 3)
    assert output_shapes(network, parameters, rows[0]) is not None
    assert_same(network, (1,), 3)


def test_a_users_module_of_known_layers_takes_the_fast_way() -> None:
    network = equinox_network(lambda key: eqx.nn.MLP(4, "scalar", 5, 2, key=key))
    parameters, rows, *_ = batch_of(network, (4,), 2)
    assert output_shapes(network, parameters, rows[0]) is not None
    assert_same(network, (4,), 2)


@pytest.mark.parametrize("module", [_Twice, _OverTokens, _Bare])
def test_layers_that_the_formulas_do_not_cover_fall_back_to_gradients_one_by_one(module: type[eqx.Module]) -> None:
    network = equinox_network(module)
    parameters, rows, labels, weights = batch_of(network, (4,), 2)
    assert output_shapes(network, parameters, rows[0]) is None
    whole = jax.grad(lambda p: jnp.sum(weights * (jax.nn.softplus(z := network.apply(p, rows)) - labels * z)))(
        parameters
    )
    ours = examples(network, parameters, rows, labels).weighted_sum(weights)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), ours, whole)


def test_a_plain_pair_of_functions_works_too() -> None:
    network = Network(lambda key: {"w": jax.random.normal(key, (4,))}, lambda p, rows: jnp.tanh(rows) @ p["w"])
    parameters, rows, labels, _ = batch_of(network, (4,), 2)
    residual = jax.nn.sigmoid(network.apply(parameters, rows)) - labels
    norms, correct = gradient_norms(network, parameters, rows, labels)
    np.testing.assert_allclose(norms, np.abs(residual) * np.linalg.norm(np.tanh(rows), axis=1), rtol=1e-12)
    np.testing.assert_array_equal(correct, (network.apply(parameters, rows) > 0) == labels)


@pytest.mark.parametrize("case", CASES)
def test_no_clipped_gradient_is_longer_than_the_clipping_norm(case: str) -> None:
    model, shape, classes = CASES[case]
    network = model.network(shape, classes)
    parameters, rows, labels, weights = jax.tree.map(np.float32, batch_of(network, shape, classes))
    norms = np.asarray(compiled(examples, network)(parameters, rows, labels, weights)[0])
    limit, clip = float(np.median(norms)), jax.jit(partial(clipped_sum, network))
    for row, label, norm in zip(rows, labels, norms, strict=True):
        known = known_of_rows(network, row[None])
        clipped = clip(parameters, row[None], label[None], np.ones(1, np.float32), limit, known=known)
        length = np.sqrt(sum(np.sum(np.asarray(leaf, float) ** 2) for leaf in jax.tree.leaves(clipped)))
        assert length <= limit * (1 + 1e-5)
        assert length == pytest.approx(min(norm, limit), rel=1e-4)


@pytest.mark.parametrize("case", ["logistic", "multinomial", "mlp"])
def test_what_is_known_of_rows_before_training_changes_no_clipped_sum(case: str) -> None:
    model, shape, classes = CASES[case]
    network = model.network(shape, classes)
    batch = batch_of(network, shape, classes)
    norms, _, _ = compiled(_materialised, network)(*batch)
    for smooth in (False, True):
        known = known_of_rows(network, batch[1], smooth)
        for limit in (float(np.median(norms)), float(norms.max()) + 1, np.inf):
            clip = partial(clipped_sum, network, *batch, limit, smooth)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), clip(known), clip())


def test_a_zero_gradient_stays_zero_when_clipped() -> None:
    network = logistic().network((3,), 2)
    parameters = jax.tree.map(jnp.zeros_like, network.init(jax.random.key(0)))
    huge = jax.tree.map(lambda leaf: leaf + 1e6, parameters)
    clipped = clipped_sum(network, huge, jnp.ones((2, 3)), jnp.ones(2), jnp.ones(2), 1.0)
    assert all(np.all(np.asarray(leaf) == 0) for leaf in jax.tree.leaves(clipped))


def test_resnet20_has_the_known_number_of_parameters() -> None:
    assert parameter_count(resnet20(), (32, 32, 3), 10) == 272_474


def test_group_norm_equals_that_of_equinox() -> None:
    image = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4, 8)))
    theirs = eqx.nn.GroupNorm(2, 8)(image.transpose(2, 0, 1)).transpose(1, 2, 0)
    np.testing.assert_allclose(GroupNorm(8, 2)(image), theirs, rtol=1e-6)


def test_a_strided_convolution_keeps_every_other_position() -> None:
    image, key = jnp.asarray(np.random.default_rng(0).normal(size=(6, 6, 2))), jax.random.key(0)
    dense, strided = (PatchConvolution(2, 3, 3, "same", key, stride) for stride in (1, 2))
    np.testing.assert_allclose(strided(image), dense(image)[::2, ::2], rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 5])
def test_norms_of_confident_examples_keep_their_digits(classes: int) -> None:
    """At losses down to 1e-7 a recorded norm is within 2⁻¹² of the one in double precision: what recording adds."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(200, 4)).astype(np.float32)
    network = network_of(logistic(), (4,), classes)
    parameters = jax.tree.map(lambda leaf: leaf * 6, network.init(jax.random.key(0)))
    logits = np.asarray(network.apply(parameters, jnp.asarray(rows)))
    labels = ((logits > 0) if classes == 2 else logits.argmax(1)).astype(np.float32)
    norms, _ = gradient_norms(network, parameters, jnp.asarray(rows), jnp.asarray(labels))
    found = np.asarray(norms).astype(float)
    weights = [np.asarray(leaf, float) for leaf in jax.tree.leaves(parameters)]
    matrix, bias = sorted(weights, key=lambda leaf: -leaf.ndim)
    z = rows.astype(float) @ matrix.reshape(-1, 4).T + bias
    z = np.concatenate([np.zeros((200, 1)), z], axis=1) if classes == 2 else z
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    others = np.where(np.arange(p.shape[1]) == labels[:, None], 0.0, p)
    errors = others.sum(1) if classes == 2 else np.sqrt((others**2).sum(1) + others.sum(1) ** 2)
    exact = errors * np.sqrt((rows.astype(float) ** 2).sum(1) + 1)
    assert exact.min() < 1e-4
    assert np.abs(found / exact - 1).max() < NORM_MARGIN
