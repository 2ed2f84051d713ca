"""A grid's models equal those that a plain NumPy loop trains one at a time, each on its own data set."""

from functools import cache, partial
from itertools import pairwise, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from seedscope import DPSGD, SGD, Grid, Records, Unscaled, logistic, mlp, train
from seedscope.core import Relation, SeedscopeError
from seedscope.models.base import Network
from seedscope.models.convolutional import CNN, ConvolutionLayer
from seedscope.models.dense_layers import dropout_masks
from seedscope.training.gradient import sgd as engine
from seedscope.training.gradient.sgd import flat, initial_parameters, mask_keys, observe, train_sgd
from seedscope.training.streams import shuffled_batches
from tests.helpers.small_data import images, table

SEEDS, NEIGHBOURS = np.array([4, 0, 7]), np.array([-1, *range(0, 22, 3)])
INITS, CHECKPOINTS = ("fixed", "varied"), (3, 4, 10)
SGD_SMALL = SGD(learning_rate=0.7, batch_size=5, steps=10)  # three epochs of four batches, the last one cut short
RELATIONS = ("replace_one", "add_or_remove")
MODELS = {
    "multinomial": (logistic(), 3, "tanh"),
    "relu": (mlp(4), 2, "relu"),
    "tanh": (mlp((4, 3), "tanh"), 3, "tanh"),
}


def layers_of(weights: np.ndarray, columns: int, model: Any, classes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return views (matrix [out, in], bias) into flat weights."""
    widths = (columns, *getattr(model, "hidden", ()), 1 if classes == 2 else classes)
    layers, at = [], 0
    for inputs, outputs in pairwise(widths):
        matrix = weights[at : at + inputs * outputs].reshape(outputs, inputs)
        bias = weights[at + inputs * outputs : at + (inputs + 1) * outputs]
        layers.append((matrix, bias))
        at += (inputs + 1) * outputs
    assert at == len(weights)
    return layers


def forward(
    layers: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray, activation: str
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the inputs of every layer and the logits [row, output]."""
    inputs = [rows]
    for matrix, bias in layers[:-1]:
        hidden = inputs[-1] @ matrix.T + bias
        inputs.append(np.tanh(hidden) if activation == "tanh" else np.maximum(hidden, 0))
    matrix, bias = layers[-1]
    return inputs, inputs[-1] @ matrix.T + bias


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Return class probabilities: [row, 1] for one logit, [row, class] for more."""
    if logits.shape[1] == 1:
        one: np.ndarray = 1 / (1 + np.exp(-logits))
        return one
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    shares: np.ndarray = exponentials / exponentials.sum(1, keepdims=True)
    return shares


def gradient(
    weights: np.ndarray, rows: np.ndarray, labels: np.ndarray, divisor: int, model: Any, classes: int, activation: str
) -> np.ndarray:
    """Return the gradient of the summed log-loss over the divisor, by backpropagation written out."""
    layers = layers_of(weights, rows.shape[1], model, classes)
    inputs, logits = forward(layers, rows, activation)
    truth = labels[:, None] if classes == 2 else np.eye(classes)[labels.astype(int)]
    slope, parts = (probabilities(logits) - truth) / divisor, list[np.ndarray]()
    for (matrix, _), given in zip(layers[::-1], inputs[::-1], strict=True):
        parts = [(slope.T @ given).ravel(), slope.sum(0), *parts]
        slope = (slope @ matrix) * (1 - given**2 if activation == "tanh" else given > 0)
    return np.concatenate(parts)


def train_alone(
    weights: np.ndarray,
    sgd: SGD,
    seed: int,
    neighbour: int,
    relation: Relation,
    rows: np.ndarray,
    labels: np.ndarray,
    model: Any,
    classes: int,
    activation: str,
) -> np.ndarray:
    """Return the weights after each step of one model on one data set that really lacks the neighbour's row."""
    rows, labels = rows.copy(), labels.copy()
    if neighbour >= 0 and relation == "replace_one":
        rows[neighbour], labels[neighbour] = rows[-1], labels[-1]
    steps = []
    for batch in shuffled_batches(0, int(seed), len(rows) - 1, sgd.batch_size, sgd.steps):
        kept = batch[batch != neighbour] if relation == "add_or_remove" else batch
        slope = gradient(weights, rows[kept], labels[kept], sgd.batch_size, model, classes, activation)
        weights = weights - sgd.learning_rate * slope
        steps.append(weights)
    return np.stack(steps)


def starting_weights(network: Network, seeds: np.ndarray) -> np.ndarray:
    """Return the flat initial weights [seed, init, parameter]."""
    starts = [initial_parameters(network.init, 0, one) for one in (np.full(len(seeds), -1), seeds)]
    return np.stack([np.asarray(flat(jax.tree.map(lambda leaf: leaf[:, None], start)))[:, 0] for start in starts], 1)


def network_with_plain_start(model: Any, shape: tuple[int, ...], classes: int) -> Network:
    """Return the model's network with initial weights that depend on the key but are quick to compile."""
    network = model.network(shape, classes)
    start, unravel = ravel_pytree(
        jax.tree.map(lambda leaf: np.zeros(leaf.shape), jax.eval_shape(network.init, jax.random.key(0)))
    )

    def init(key: jax.Array) -> Any:
        phase = (jax.random.key_data(key)[0] % 1000).astype(start.dtype)
        return unravel(jnp.sin(phase + jnp.arange(len(start), dtype=start.dtype)))

    return Network(init, network.apply)


@cache
def arrays(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels, the spare example last."""
    data = table(rows=22, classes=classes)
    rows = np.concatenate([data.base.features, data.spare_example.features])
    return rows, np.concatenate([data.base.labels, data.spare_example.labels]).astype(float)


def engine_and_loop(
    name: str, relation: Relation, precision: type[np.floating[Any]], sgd: SGD, checkpoints: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights [seed, neighbour, init, step, parameter] of the engine and of the plain loop."""
    model, classes, activation = MODELS[name]
    rows, labels = arrays(classes)
    network = network_with_plain_start(model, rows.shape[1:], classes)
    given = rows.astype(precision), labels.astype(precision)
    ours = train_sgd(sgd, network, relation, 0, SEEDS, NEIGHBOURS, INITS, checkpoints, *given, None)["weights"]
    starts, alone = starting_weights(network, SEEDS), np.empty(ours.shape)
    for i, j, k in product(range(len(SEEDS)), range(len(NEIGHBOURS)), range(len(INITS))):
        start = starts[i, k].astype(float)
        setting = (sgd, SEEDS[i], NEIGHBOURS[j], relation, rows, labels, model, classes, activation)
        alone[i, j, k] = train_alone(start, *setting)[np.array(checkpoints) - 1]
    return ours, alone


@pytest.mark.parametrize(("name", "relation"), [("relu", "replace_one"), ("tanh", "add_or_remove")])
def test_one_step_in_single_precision_equals_the_plain_gradient(name: str, relation: Relation) -> None:
    one_step = SGD(learning_rate=1.0, batch_size=20, steps=1)
    ours, alone = engine_and_loop(name, relation, np.float32, one_step, (1,))
    np.testing.assert_allclose(ours, alone, atol=1e-6)
    assert np.abs(alone[:, 1:] - alone[:, :1]).max() > 1e-3  # the neighbours' rows were drawn


@pytest.mark.optimised  # with the code that users run
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ["multinomial", "relu", "tanh"])
def test_trajectories_in_double_precision_equal_the_plain_loop(name: str, relation: Relation) -> None:
    with jax.enable_x64(True):
        ours, alone = engine_and_loop(name, relation, np.float64, SGD_SMALL, CHECKPOINTS)
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, alone, rtol=0, atol=1e-10)


@pytest.mark.optimised  # with the code that users run
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_logistic_grid_equals_the_plain_loop_after_many_steps(relation: Relation) -> None:
    data, sgd = table(rows=60, columns=5), SGD(learning_rate=0.5, batch_size=16, steps=400)
    grid = Grid(seeds=2, neighbours=3, relation=relation)
    ensemble = train(data, sgd, grid=grid, scaling=Unscaled())
    rows = np.concatenate([data.base.features, data.spare_example.features])
    labels = np.concatenate([data.base.labels, data.spare_example.labels]).astype(float)
    starts = starting_weights(logistic().network((5,), 2), np.arange(2))
    for seed, neighbour in product(range(2), ensemble.dataset.neighbour.values):
        setting = (sgd, seed, neighbour, relation, rows, labels, logistic(), 2, "tanh")
        alone = train_alone(starts[seed, 1].astype(float), *setting)[-1]
        ours = ensemble.weights.sel(seed=seed, neighbour=neighbour).values.ravel()
        np.testing.assert_allclose(ours, alone, atol=1e-4)


@pytest.mark.parametrize(("name", "at_checkpoints"), [("relu", False), ("multinomial", True)])
def test_scores_and_losses_are_those_of_the_recorded_weights(name: str, at_checkpoints: bool) -> None:
    model, classes, activation = MODELS[name]
    records = Records(probes=("test", "spare", "train", "neighbours"), scores_at_checkpoints=at_checkpoints)
    grid = Grid(seeds=2, neighbours=2, init="both", checkpoints=[3])
    data = table(rows=22, classes=classes)
    ensemble = train(data, SGD_SMALL, model=model, grid=grid, records=records, scaling=Unscaled())
    found = ensemble.dataset
    rows = {"test": data.test, "spare": data.spare_example, "train": data.base, "neighbour": data.base}
    places = list(zip(found.example_part.values, found.example_row.values, strict=True))
    probes = np.stack([rows[part].features[row] for part, row in places])
    labels = np.array([rows[part].labels[row] for part, row in places])
    np.testing.assert_array_equal(found.example_label, labels)
    for i, j, k, step in product(range(2), range(3), range(2), range(2) if at_checkpoints else [None]):
        weights = found.weights.values[i, j, k, -1 if step is None else step].astype(float)
        at = (i, j, k) if step is None else (i, j, k, step)
        chances = probabilities(forward(layers_of(weights, 3, model, classes), probes, activation)[1])
        np.testing.assert_allclose(found.scores.values[at], chances if classes > 2 else chances[:, 0], atol=1e-6)
        of_truth = (
            chances[np.arange(len(labels)), labels]
            if classes > 2
            else np.where(labels, chances[:, 0], 1 - chances[:, 0])
        )
        np.testing.assert_allclose(found.losses.values[at], -np.log(of_truth), atol=1e-5)


def test_scores_at_the_end_are_the_last_of_the_scores_at_checkpoints() -> None:
    grid = Grid(seeds=2, neighbours=2, checkpoints=[3])
    last, every = (
        train(table(), SGD_SMALL, grid=grid, records=Records(scores_at_checkpoints=at_checkpoints))
        for at_checkpoints in (False, True)
    )
    np.testing.assert_allclose(every.scores.isel(step=-1), last.scores, atol=1e-7)
    np.testing.assert_allclose(every.losses.isel(step=-1), last.losses, atol=1e-7)


def test_a_convolutional_grid_equals_models_trained_alone() -> None:
    model = CNN((ConvolutionLayer(2, 3, "same", 2),), activation="tanh")
    data, sgd = images(rows=13), SGD(learning_rate=0.3, batch_size=4, steps=7)
    with jax.enable_x64(True):
        rows = np.concatenate([data.base.features, data.spare_example.features]).astype(float)
        labels = np.concatenate([data.base.labels, data.spare_example.labels]).astype(float)
        network = network_with_plain_start(model, rows.shape[1:], 3)
        given = (np.array([2, 5]), np.array([-1, 0, 7]), ("varied",), (7,), rows, labels, None)
        together = train_sgd(sgd, network, "replace_one", 0, *given)["weights"]

        @jax.jit
        def loss_gradient(parameters: Any, batch: jax.Array, truth: jax.Array) -> Any:
            def loss(parameters: Any) -> jax.Array:
                logs = jax.nn.log_softmax(network.apply(parameters, batch))
                return -logs[np.arange(len(batch)), truth].mean()

            return jax.grad(loss)(parameters)

        for (i, seed), (j, neighbour) in product(enumerate((2, 5)), enumerate((-1, 0, 7))):
            own_rows, own_labels = rows.copy(), labels.astype(int)
            if neighbour >= 0:
                own_rows[neighbour], own_labels[neighbour] = own_rows[-1], own_labels[-1]
            parameters = jax.tree.map(lambda leaf, i=i: leaf[i], initial_parameters(network.init, 0, np.array([2, 5])))
            for batch in shuffled_batches(0, seed, 13, 4, 7):
                slopes = loss_gradient(parameters, own_rows[batch], own_labels[batch])
                parameters = jax.tree.map(lambda w, g: w - 0.3 * g, parameters, slopes)
            alone = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(parameters)])
            np.testing.assert_allclose(together[i, j, 0, 0], alone, rtol=0, atol=1e-10)


def test_a_fixed_start_is_shared_by_all_seeds_and_a_varied_one_by_none() -> None:
    barely = SGD(learning_rate=1e-9, batch_size=5, steps=1)
    weights = train(table(), barely, grid=Grid(seeds=4, neighbours=1, init="both")).weights.values[:, :, :, 0]
    np.testing.assert_allclose(weights[:, :, 0], np.broadcast_to(weights[0, 0, 0], weights[:, :, 0].shape), atol=1e-6)
    assert np.abs(np.diff(weights[:, 0, 1, 0])).min() > 1e-4
    np.testing.assert_allclose(weights[:, 0, 1], weights[:, 1, 1], atol=1e-6)


def test_another_root_seed_gives_other_models() -> None:
    first, second = (train(table(), SGD_SMALL, grid=Grid(seeds=2, root_seed=root)).weights.values for root in (0, 1))
    assert np.abs(first - second).max() > 1e-2


@pytest.mark.optimised  # to the bit
@pytest.mark.parametrize("inits", [("varied",), INITS])
def test_seeds_without_neighbours_have_the_bits_of_data_sets_that_lack_nobody(
    inits: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, labels = (values.astype(np.float32) for values in arrays(2))
    network = logistic().network(rows.shape[1:], 2)
    given: Any = (SGD_SMALL, network, "replace_one", 0, SEEDS, np.array([-1]), inits, CHECKPOINTS, rows, labels, None)
    quick = train_sgd(*given)["weights"]
    slow = engine.train_block

    def with_nobody(job: Any, parameters: Any, *rest: Any) -> Any:
        assert rest[3] is None  # what makes it quick
        nobody = np.full(jax.tree.leaves(parameters)[0].shape[1], -1, np.int32)
        return slow(job, parameters, *rest[:3], nobody, *rest[4:])

    monkeypatch.setattr(engine, "train_block", with_nobody)
    np.testing.assert_array_equal(quick, train_sgd(*given)["weights"])


def dropping_alone(seed: int, neighbour: int, rows: np.ndarray, labels: np.ndarray, model: Any) -> np.ndarray:
    """Return the final weights of one model, its masks multiplied in by hand, on a data set that lacks a row."""
    network = model.network(rows.shape[1:], 2)
    start = initial_parameters(network.init, 0, np.array([seed]))
    weights: np.ndarray = np.asarray(flat(jax.tree.map(lambda leaf: leaf[:, None], start)))[0, 0].astype(float)
    key = mask_keys(0, np.array([seed], np.int32))[0]
    for step, batch in enumerate(shuffled_batches(0, seed, len(rows) - 1, 5, 10)):
        drawn = np.asarray(
            dropout_masks(jax.random.fold_in(key, step), len(batch) + 1, model.hidden, 1 - model.dropout)[0], float
        )
        masks = np.where((batch == neighbour)[:, None], drawn[-1], drawn[:-1])  # a mask is its example's own
        given = np.where(batch == neighbour, len(rows) - 1, batch)
        (first, bias), (last, shift) = layers_of(weights, rows.shape[1], model, 2)
        hidden = np.maximum(rows[given] @ first.T + bias, 0)
        slope = (probabilities(masks * hidden @ last.T + shift) - labels[given][:, None]) / len(batch)
        back = (slope @ last) * masks * (hidden > 0)
        parts = ((back.T @ rows[given]).ravel(), back.sum(0), (slope.T @ (masks * hidden)).ravel(), slope.sum(0))
        weights = weights - 0.7 * np.concatenate(parts)
    return weights


def test_dropout_multiplies_each_example_by_a_mask_of_its_own() -> None:
    rows, labels = arrays(2)
    model = mlp(4, dropout=0.4)
    network = model.network(rows.shape[1:], 2)
    given = rows.astype(np.float32), labels.astype(np.float32)
    lacking = np.array([-1, 3, 8])
    ours = train_sgd(SGD_SMALL, network, "replace_one", 0, SEEDS, lacking, ("varied",), (10,), *given, None)
    for (i, seed), (j, neighbour) in product(enumerate(SEEDS), enumerate(lacking)):
        alone = dropping_alone(int(seed), int(neighbour), rows, labels, model)
        np.testing.assert_allclose(ours["weights"][i, j, 0, 0], alone, rtol=1e-4, atol=1e-5)


def test_masks_leave_out_the_share_asked_for_and_keep_the_mean() -> None:
    masks = np.asarray(dropout_masks(jax.random.key(0), 2000, (50,), 0.8)[0])
    np.testing.assert_allclose(np.unique(masks), [0.0, 1.25], rtol=1e-5)  # the share is a whole number of 2⁻¹⁶
    assert abs(np.mean(masks == 0) - 0.2) < 5 * np.sqrt(0.16 / masks.size)
    assert abs(np.corrcoef(masks[:, :-1].ravel(), masks[:, 1:].ravel())[0, 1]) < 5 / np.sqrt(masks.size)


def test_every_hidden_layer_has_masks_of_its_own() -> None:
    first, second = dropout_masks(jax.random.key(0), 3000, (6, 4), 0.5)
    assert (first.shape, second.shape) == ((3000, 6), (3000, 4))
    together = np.corrcoef(np.concatenate([first, second], axis=1), rowvar=False)
    assert np.abs(together - np.eye(10)).max() < 5 / np.sqrt(3000)


def test_dropout_is_refused_where_training_would_not_have_it() -> None:
    with pytest.raises(SeedscopeError, match="dropout is for plain SGD"):
        train(table(rows=22), DPSGD(steps=2, batch_size=4), model=mlp(4, dropout=0.2), grid=Grid(seeds=2), jobs=1)


@pytest.mark.optimised  # to the bit
def test_a_neighbour_whose_row_equals_the_spare_example_is_the_base() -> None:
    rows, labels = (values.copy() for values in arrays(2))
    rows[6], labels[6] = rows[-1], labels[-1]
    network = logistic().network((3,), 2)
    given = (rows.astype(np.float32), labels.astype(np.float32), None)
    weights = train_sgd(SGD_SMALL, network, "replace_one", 0, SEEDS, np.array([-1, 6, 7]), INITS, (10,), *given)[
        "weights"
    ]
    np.testing.assert_array_equal(weights[:, 0], weights[:, 1])
    assert np.abs(weights[:, 0] - weights[:, 2]).max() > 1e-3


def test_scores_of_many_images_in_blocks_are_those_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network = CNN((ConvolutionLayer(2, 3, "same", 2),), hidden=(3,)).network((6, 6, 1), 3)
    rows = np.random.default_rng(0).random((11, 6, 6, 1), np.float32)
    parameters = initial_parameters(network.init, 0, np.arange(2))
    every = jax.tree.map(lambda leaf: leaf[:, None], parameters)
    labels = np.arange(11, dtype=np.float32) % 3
    at_once = jax.jit(partial(observe, network))(every, rows, labels)
    monkeypatch.setattr("seedscope.training.gradient.sgd.IMAGES_AT_ONCE", 4)
    in_blocks = jax.jit(partial(observe, network))(every, rows, labels)
    for name, values in at_once.items():
        np.testing.assert_allclose(in_blocks[name], values, atol=1e-6)
