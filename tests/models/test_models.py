"""Networks: their sizes, their initial weights, their convolutions, and networks that users bring."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import ArrayLike

from seedscope import SGD, Grid, lenet5, logistic, mlp, small_cnn, small_vgg, train
from seedscope.core.errors import SeedscopeError
from seedscope.models import Model, Network, as_model
from seedscope.models.base import parameter_count
from seedscope.models.convolutional import CNN, ConvolutionLayer, StridedLayer
from seedscope.models.layers import PatchConvolution, PooledConvolution, patches, pooled
from tests.helpers.small_data import table

TINY_CNN = CNN((ConvolutionLayer(3, 3, "same", 2), ConvolutionLayer(2, 2, "valid")), hidden=(5,), activation="tanh")


@pytest.mark.parametrize(
    ("model", "shape", "classes", "count"),
    [
        (logistic(), (50,), 2, 51),
        (logistic(), (50,), 10, 510),
        (mlp(), (50,), 2, 521),
        (mlp((10, 4)), (50,), 3, 510 + 44 + 15),
        (lenet5(), (28, 28, 1), 10, 61_706),
        (small_cnn(), (28, 28, 1), 10, 1_448),
        (small_vgg(), (32, 32, 3), 10, 82_554),
    ],
)
def test_parameter_counts_are_the_papers(model: Model, shape: tuple[int, ...], classes: int, count: int) -> None:
    assert parameter_count(model, shape, classes) == count


@pytest.mark.parametrize("model", [logistic(), mlp(4), TINY_CNN], ids=["logistic", "mlp", "cnn"])
def test_two_classes_have_one_logit_and_more_have_one_each(model: Model) -> None:
    shape = (6, 6, 1)
    for classes, logits in ((2, (5,)), (3, (5, 3))):
        network = model.network(shape, classes)
        parameters = jax.eval_shape(network.init, jax.random.key(0))
        assert jax.eval_shape(network.apply, parameters, jnp.zeros((5, *shape))).shape == logits


def started(network: Network, images: int) -> tuple[Any, np.ndarray]:
    """Return random parameters, and a batch of random 6×6 images."""
    draw = np.random.default_rng(0)
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    parameters = jax.tree.map(lambda leaf: draw.normal(scale=0.3, size=leaf.shape).astype(np.float32), shapes)
    return parameters, draw.normal(size=(images, 6, 6, 1)).astype(np.float32)


@pytest.mark.parametrize("model", [logistic(), mlp((7, 4)), TINY_CNN], ids=["logistic", "mlp", "cnn"])
def test_a_batch_is_its_examples_one_by_one(model: Model) -> None:
    network = model.network((6, 6, 1), 3)
    parameters, batch = started(network, images=4)
    apply = jax.jit(network.apply)
    alone = np.concatenate([apply(parameters, batch[i : i + 1]) for i in range(4)])
    np.testing.assert_allclose(apply(parameters, batch), alone, atol=1e-6)


@cache
def leaves(model: Model, shape: tuple[int, ...], classes: int) -> list[np.ndarray]:
    """Return the initial parameters over 300 keys: arrays [key, ...]."""
    init = model.network(shape, classes).init
    return [
        np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), 300)))
    ]


@pytest.mark.parametrize(
    ("model", "shape", "classes", "fans"),
    [
        (logistic(), (20,), 2, [21]),
        (mlp(6), (20,), 4, [26, 10]),
        (CNN((ConvolutionLayer(3, 3, "same", 2),)), (6, 6, 2), 3, [9 * (2 + 3), 27 + 3]),
    ],
    ids=["logistic", "mlp", "cnn"],
)
def test_initial_weights_are_glorot_uniform_and_biases_zero(
    model: Model, shape: tuple[int, ...], classes: int, fans: list[int]
) -> None:
    found = leaves(model, shape, classes)
    weights, biases = [one for one in found if one.ndim == 3], [one for one in found if one.ndim < 3]
    assert len(weights) == len(biases) == len(fans)
    for weight, fan in zip(weights, fans, strict=True):
        limit = np.sqrt(6 / fan)
        assert np.abs(weight).max() <= limit
        assert np.abs(weight).max() > 0.98 * limit
        assert float(weight.std()) == pytest.approx(limit / np.sqrt(3), rel=0.05)
        assert abs(float(weight.mean())) < 0.1 * limit
    assert all((bias == 0).all() for bias in biases)


def test_layers_of_one_network_start_independently() -> None:
    first, second = (one for one in leaves(mlp(6), (20,), 4) if one.ndim == 3)
    assert abs(np.corrcoef(first[:, 0, 0], second[:, 0, 0])[0, 1]) < 0.25


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_convolutions_as_patches_equal_the_librarys(kernel: int, padding: str) -> None:
    draw = np.random.default_rng(0)
    image, weight = (jnp.asarray(draw.normal(size=shape)) for shape in ((7, 9, 2), (kernel, kernel, 2, 3)))
    ours = jax.jit(patches, static_argnums=(1, 2))(image, kernel, padding) @ weight.reshape(-1, 3)
    dimensions = ("NHWC", "HWIO", "NHWC")
    theirs = jax.lax.conv_general_dilated(image[None], weight, (1, 1), padding.upper(), dimension_numbers=dimensions)[0]
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(("kind", "reduce"), [("max", np.max), ("average", np.mean)])
@pytest.mark.parametrize(("height", "width", "size"), [(6, 4, 2), (7, 5, 2), (7, 9, 3), (3, 3, 1)])
def test_pooling_equals_a_plain_loop(kind: str, reduce: Callable[..., Any], height: int, width: int, size: int) -> None:
    image = np.random.default_rng(0).normal(size=(height, width, 2)).astype(np.float32)
    ours = jax.jit(pooled, static_argnums=(1, 2))(image, size, kind)
    plain = np.empty((height // size, width // size, 2), np.float32)
    for i, j, k in np.ndindex(plain.shape):
        plain[i, j, k] = reduce(image[i * size : (i + 1) * size, j * size : (j + 1) * size, k])
    np.testing.assert_allclose(ours, plain, atol=1e-6)


def plain_tiny_cnn(parameters: Any, batch: jax.Array) -> jax.Array:
    """Return the logits of `TINY_CNN` by the library's convolution and pooling."""
    first, first_bias, second, second_bias, *dense = jax.tree.leaves(parameters)

    def convolved(x: jax.Array, weight: jax.Array, bias: jax.Array, kernel: int, padding: str) -> jax.Array:
        weight = weight.reshape(len(bias), kernel, kernel, -1).transpose(1, 2, 3, 0)
        return (
            jax.lax.conv_general_dilated(x, weight, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias
        )

    x = jnp.tanh(convolved(batch, first, first_bias, 3, "SAME"))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jnp.tanh(convolved(x, second, second_bias, 2, "VALID")).reshape(len(batch), -1)
    logits: jax.Array = jnp.tanh(x @ dense[0].T + dense[1]) @ dense[2].T + dense[3]
    return logits


def test_a_convolutional_network_and_its_gradient_equal_the_librarys() -> None:
    network = TINY_CNN.network((6, 6, 1), 3)
    parameters, batch = started(network, images=4)

    def loss_and_gradient(apply: Callable[[Any, Any], jax.Array]) -> Any:
        return jax.jit(jax.value_and_grad(lambda w: (apply(w, batch) ** 2).sum()))(parameters)

    found = loss_and_gradient(network.apply), loss_and_gradient(plain_tiny_cnn)
    for ours, theirs in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


class Branching(eqx.Module):
    """A module of a user, with a parameter of its own, a buffer of integers and a static choice."""

    linear: eqx.nn.Linear
    slope: jax.Array
    order: jax.Array
    activation: str = eqx.field(static=True)

    def __init__(self, key: jax.Array) -> None:
        self.linear = eqx.nn.Linear(3, "scalar", key=key)
        self.slope, self.order, self.activation = jnp.ones(()), jnp.array([2, 0, 1]), "tanh"

    def __call__(self, x: jax.Array) -> jax.Array:
        logit: jax.Array = self.slope * getattr(jnp, self.activation)(self.linear(x[self.order]))
        return logit


PAIR = (lambda key: {"w": jax.random.normal(key, (3,))}, lambda parameters, batch: batch @ parameters["w"])
OWN = {"pair": PAIR, "function": Branching, "module": Branching(jax.random.key(5))}


@pytest.mark.parametrize("kind", OWN)
def test_a_users_own_network_trains(kind: str) -> None:
    data, sgd = table(), SGD(learning_rate=0.5, batch_size=8, steps=30)
    ensemble = train(data, sgd, model=OWN[kind], grid=Grid(seeds=3, neighbours=2, init="fixed", checkpoints=[1]))
    early, late = (ensemble.weights.isel(step=step) for step in (0, 1))
    assert ensemble.weights.sizes["parameter"] == (3 if kind == "pair" else 5)
    assert np.isfinite(ensemble.losses).all()
    assert float(np.abs(late - early).max()) > 0.05


def test_an_integer_buffer_of_a_users_module_is_used_and_not_trained() -> None:
    network = as_model(Branching).network((3,), 2)
    parameters, row = network.init(jax.random.key(0)), np.array([[1.0, 2.0, 3.0]], np.float32)
    by_hand = jnp.tanh(row[0, [2, 0, 1]] @ parameters.linear.weight[0] + parameters.linear.bias[0])
    np.testing.assert_allclose(jax.jit(network.apply)(parameters, row)[0], by_hand, rtol=1e-6)
    assert all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(parameters))


def test_a_finished_module_starts_where_it_is() -> None:
    module = OWN["module"]
    grid = Grid(seeds=2, init="fixed")
    weights = train(table(), SGD(learning_rate=1e-12, batch_size=8, steps=1), model=module, grid=grid).weights
    start = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array))])
    np.testing.assert_allclose(weights.values.reshape(2, -1), [start] * 2, atol=1e-7)


def test_a_finished_module_has_no_varied_initial_points() -> None:
    with pytest.raises(SeedscopeError, match=r"one initial point: use Grid\(init='fixed'\) or pass a function"):
        train(table(), SGD(batch_size=8), model=OWN["module"], grid=Grid(seeds=2, init="varied"))


@pytest.mark.parametrize(
    ("layer", "name"),
    [(lambda: eqx.nn.BatchNorm(4, "batch", mode="batch"), "BatchNorm"), (lambda: eqx.nn.Dropout(0.5), "Dropout")],
)
def test_layers_that_mix_examples_or_draw_numbers_are_refused_by_name(layer: Callable[..., Any], name: str) -> None:
    def make(key: jax.Array) -> eqx.Module:
        return eqx.nn.Sequential([eqx.nn.Linear(3, 4, key=key), layer(), eqx.nn.Linear(4, "scalar", key=key)])

    with pytest.raises(SeedscopeError, match=f"must treat examples one by one, but it contains {name}"):
        as_model(make).network((3,), 2)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("logistic", "model must be a Seedscope model, an .init, apply. pair or a function"),
        (logistic, "model logistic fails on examples of shape"),
        (
            (lambda key: jnp.zeros((3, 1)), lambda w, x: x @ w),
            r"must give each example logits of shape \(\).*got \(1,\)",
        ),
        (
            (lambda key: jnp.zeros((3, 2)), lambda w, x: x @ w),
            r"must give each example logits of shape \(\).*got \(2,\)",
        ),
        ((lambda key: jnp.zeros(4), lambda w, x: x @ w), "fails on examples of shape"),
        ((lambda key: jnp.zeros(3, int), lambda w, x: x @ w), "only floating-point parameters"),
        (lambda key: 3, "fails on examples of shape"),
        (small_cnn(), "needs images"),
    ],
)
def test_what_is_not_a_network_for_the_data_is_refused(model: Any, sentence: str) -> None:
    with pytest.raises(SeedscopeError, match=sentence):
        train(table(), SGD(batch_size=8, steps=2), model=model, grid=Grid(seeds=1))


def test_images_too_small_for_the_network_are_refused() -> None:
    with pytest.raises(SeedscopeError, match="too small"):
        parameter_count(lenet5(), (8, 8, 1), 10)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: mlp(0), "hidden must be a whole number"),
        (lambda: mlp(10, "gelu"), "activation must be one of relu, tanh, sigmoid, got 'gelu'"),
        (lambda: CNN((), pool="min"), "pool must be 'max' or 'average'"),
    ],
)
def test_a_model_that_cannot_be_is_refused(make: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(SeedscopeError, match=sentence):
        make()


def identity(model: Any) -> str:
    return as_model(model).identity((3,), 2)


def scaled_pair(constant: ArrayLike) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a pair that captures a constant."""
    constant = jnp.asarray(constant, jnp.float32)
    return lambda key: jnp.zeros(3), lambda w, x: x @ (w * constant)


def test_the_identity_tells_apart_what_trains_differently() -> None:
    others = [
        logistic(),
        mlp(3),
        mlp(3, "tanh"),
        PAIR,
        (lambda key: {"w": 2 * jax.random.normal(key, (3,))}, PAIR[1]),
        (PAIR[0], lambda parameters, batch: jnp.tanh(batch @ parameters["w"])),
        scaled_pair([1, 2, 3]),
        scaled_pair([1, 2, 4]),
        Branching,
        OWN["module"],
    ]
    assert len({identity(one) for one in others}) == len(others)
    assert identity(scaled_pair([1, 2, 3])) == identity(scaled_pair([1, 2, 3]))


@pytest.mark.slow
def test_the_identity_of_a_users_network_is_the_same_in_another_process() -> None:
    code = """
import equinox as eqx, jax
from seedscope.models import as_model
make = lambda key: eqx.nn.MLP(3, "scalar", 4, 1, activation=jax.nn.relu, key=key)
print(as_model(make).identity((3,), 2))
"""
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with redirect_stdout(StringIO()) as here:
        exec(code, {})
    assert elsewhere.stdout == here.getvalue() != ""


@pytest.mark.parametrize(("padding", "size"), [("same", 9), ("valid", 12)])
@pytest.mark.parametrize(("kernel", "tile"), [(5, 2), (7, 2), (4, 3)])
@pytest.mark.parametrize("narrow", [True, False], ids=["narrow", "wide"])
def test_a_pooled_convolution_gives_the_largest_output_of_each_tile(
    padding: str, size: int, kernel: int, tile: int, narrow: bool
) -> None:
    image, key = np.random.default_rng(0).normal(size=(size, size + 1, 2)), jax.random.key(0)
    plain = PatchConvolution(2, 3, kernel, padding, key)
    tiled = PooledConvolution(2, 3, kernel, padding, key, tile, narrow)

    def with_gradient(function: Callable[[jax.Array], jax.Array]) -> tuple[jax.Array, jax.Array]:
        value, back = jax.vjp(function, jnp.asarray(image, jnp.float32))
        return value, back(jnp.cos(jnp.arange(value.size, dtype=value.dtype)).reshape(value.shape))[0]

    expected = jax.jit(lambda: with_gradient(lambda image: pooled(plain(image), tile, "max")))()
    found = jax.jit(lambda: with_gradient(lambda image: tiled.largest(tiled(image))))()
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("narrow", [True, False], ids=["narrow", "wide"])
def test_of_equal_outputs_of_a_tile_the_first_gets_the_gradient(narrow: bool) -> None:
    layer = PooledConvolution(1, 5, 5, "same", jax.random.key(0), 2, narrow)
    shape = (4, 5, 1, 1) if narrow else (1, 1, 4, 5)
    places = jax.grad(lambda values: layer.largest(values).sum())(jnp.zeros(shape)).reshape((4, -1))
    assert places.sum(1).tolist() == [5, 0, 0, 0]


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda: ConvolutionLayer(4, 3, "SAME"), "padding must be 'valid' or 'same', got 'SAME'"),  # type: ignore[arg-type]
        (lambda: ConvolutionLayer(4, 0), "kernel must be a whole number of at least 1, got 0"),
        (lambda: ConvolutionLayer(4, 3, pooling=0), "pooling must be a whole number of at least 1, got 0"),
        (lambda: StridedLayer(4, 3, stride=0), "stride must be a whole number of at least 1, got 0"),
    ],
)
def test_a_convolution_that_cannot_be_is_refused(layer: Callable[[], ConvolutionLayer], message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        layer()
