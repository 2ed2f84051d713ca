"""Fisher traces while training: exact Jacobians, unbiased directions, what is recorded and what refused."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import ndtr

import seedscope as ss
from seedscope import (
    DPSGD,
    Grid,
    Records,
    SeedscopeError,
    SmoothClipping,
    logistic,
    mlp,
    reconstruction,
    tanh_cnn,
    train,
)
from seedscope.core import Relation
from seedscope.mechanisms import Mechanism
from seedscope.mechanisms.guarantees import Conditions
from seedscope.models import MLP, Network, as_model
from seedscope.models.base import parameter_count
from seedscope.models.convolutional import CNN, ConvolutionLayer, StridedLayer
from seedscope.models.layers import pooled
from seedscope.models.networks import equinox_network
from seedscope.models.residual import GroupNorm
from seedscope.models.smoothness import kinks
from seedscope.planning.plan import make_plan
from seedscope.training.dpsgd import parts
from seedscope.training.dpsgd.batches import Parts, draw_batches
from seedscope.training.dpsgd.block import train_block
from seedscope.training.dpsgd.leakage import smoothly_clipped_sum, step_information, step_spectral_norms
from seedscope.training.dpsgd.per_example import clipped_sum, smooth_factors
from seedscope.training.dpsgd.sums import probe_keys
from seedscope.training.dpsgd.train import train_dpsgd
from seedscope.training.gradient.losses import log_loss
from seedscope.training.gradient.sgd import initial_parameters
from tests.helpers.present import present
from tests.helpers.small_data import batch_of, images, table

pytestmark = pytest.mark.slow  # compiles many networks

CLIPPING = 0.4


class _Normalised(eqx.Module):
    """A smooth network with a scale and a shift per channel."""

    first: eqx.nn.Linear
    norm: GroupNorm
    last: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.first, self.last = eqx.nn.Linear(6, 8, key=key), eqx.nn.Linear(8, 3, key=key)
        self.norm = GroupNorm(2, 1)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(jnp.tanh(self.norm(self.first(x).reshape(2, 2, 2))).reshape(-1))


class _FromScalar(eqx.Module):
    """A smooth network whose first layer takes a scalar."""

    first: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.first, self.last = eqx.nn.Linear("scalar", 4, key=key), eqx.nn.Linear(4, "scalar", key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(jnp.tanh(self.first(x[0])))


class _Bare(eqx.Module):
    """A network with a parameter outside of any layer: its gradients are held one by one."""

    layer: eqx.nn.Linear
    scale: jax.Array

    def __init__(self, key: jax.Array) -> None:
        self.layer, self.scale = eqx.nn.Linear(4, "scalar", key=key), jnp.array(0.7)

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(self.scale * x) @ self.layer.weight[0] + self.scale * self.layer(x)


STRIDED = CNN((StridedLayer(3, 4, "same", 2, stride=2),), hidden=(5,), activation="tanh", pool="average")
GHOST = CNN((ConvolutionLayer(16, 3), ConvolutionLayer(24, 3, "same")), activation="sigmoid", pool="average")
POOLED = CNN((ConvolutionLayer(3, 5, "same", 2), ConvolutionLayer(16, 5, "same", 2)), activation="tanh")
CASES = {
    "logistic": (logistic().network((7,), 2), (7,), 2),
    "mlp": (mlp((5, 4), "tanh").network((7,), 3), (7,), 3),
    "strided": (STRIDED.network((9, 9, 2), 3), (9, 9, 2), 3),
    "ghost norm": (GHOST.network((5, 5, 2), 3), (5, 5, 2), 3),
    "pooled": (POOLED.network((9, 8, 2), 3), (9, 8, 2), 3),
    "normalised": (equinox_network(_Normalised), (6,), 3),
    "scalar input": (equinox_network(_FromScalar), (1,), 2),
    "held one by one": (equinox_network(_Bare), (4,), 2),
}


@pytest.fixture
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@partial(jax.jit, static_argnums=0)
def slow_clipped_gradient(network: Network, parameters: Any, row: jax.Array, label: jax.Array) -> jax.Array:
    """One example's smoothly clipped gradient, written out."""
    gradient = jax.grad(lambda p: log_loss(network.apply(p, row[None]), jnp.asarray(label)[None])[0])(parameters)
    g = ravel_pytree(gradient)[0]
    x = jnp.linalg.norm(g) / CLIPPING - 1
    clipped: jax.Array = g / (x * jax.scipy.special.ndtr(x) + 1)
    return clipped


@partial(jax.jit, static_argnums=0)
def exact_change(
    network: Network, parameters: Any, row: jax.Array, label: jax.Array, direction: jax.Array
) -> jax.Array:
    """The derivative of the clipped gradient along a direction of the example."""
    change: jax.Array = jax.jvp(lambda z: slow_clipped_gradient(network, parameters, z, label), (row,), (direction,))[1]
    return change


@partial(jax.jit, static_argnums=0)
def exact_trace(network: Network, parameters: Any, row: jax.Array, label: jax.Array) -> jax.Array:
    """‖∂g̃/∂z‖_F² from the whole Jacobian."""
    return jnp.sum(jax.jacrev(lambda z: slow_clipped_gradient(network, parameters, z, label))(row) ** 2)


@pytest.mark.parametrize("name", CASES)
def test_sum_and_reaction_equal_gradients_and_jacobians_written_out(name: str, double_precision: None) -> None:
    network, shape, classes = CASES[name]
    parameters, rows, labels, weights = batch_of(network, shape, classes, 4)
    directions = np.random.default_rng(1).normal(size=rows.shape)
    fast = jax.jit(lambda p, x, y, w, v: smoothly_clipped_sum(network, p, x, y, w, CLIPPING, v))
    total, squares = fast(parameters, rows, labels, weights, directions)
    each = [slow_clipped_gradient(network, parameters, *one) for one in zip(rows, labels, strict=True)]
    np.testing.assert_allclose(ravel_pytree(total)[0], weights @ np.array(each), rtol=1e-9, atol=1e-12)
    for row, label, direction, square in zip(rows, labels, directions, squares, strict=True):
        change = exact_change(network, parameters, row, label, direction)
        np.testing.assert_allclose(square, change @ change, rtol=1e-8)
    without = jax.jit(lambda p, x, y, w: clipped_sum(network, p, x, y, w, CLIPPING, smooth=True))(
        parameters, rows, labels, weights
    )
    np.testing.assert_allclose(ravel_pytree(without)[0], ravel_pytree(total)[0], rtol=1e-9, atol=1e-15)


def test_random_signs_are_unbiased_and_spread_as_stated(double_precision: None) -> None:
    """E‖Jv‖² is the trace, and its variance is twice the sum of squared off-diagonal entries of JᵀJ."""
    network, shape, classes = CASES["strided"]
    parameters, rows, labels, _ = batch_of(network, shape, classes, 1)
    jacobian = jax.jit(jax.jacrev(lambda z: slow_clipped_gradient(network, parameters, z, labels[0])))(rows[0])
    gram = np.einsum("pi,pj->ij", *2 * [np.asarray(jacobian).reshape(len(jacobian), -1)])
    draws = 4000
    signs = np.random.default_rng(2).choice([-1.0, 1.0], size=(draws, *shape))
    x, y, w = jnp.repeat(rows, draws, 0), jnp.repeat(labels, draws), jnp.ones(draws)
    _, squares = jax.jit(lambda v: smoothly_clipped_sum(network, parameters, x, y, w, CLIPPING, v))(signs)
    variance = 2 * (np.sum(gram**2) - np.sum(np.diag(gram) ** 2))
    assert abs(squares.mean() - np.trace(gram)) < 4 * np.sqrt(variance / draws)
    assert np.var(squares) == pytest.approx(variance, rel=0.15)
    assert np.sqrt(variance) / np.trace(gram) < 0.5  # far below one random coordinate's spread
    coordinates = gram.shape[0] * np.diag(gram)
    assert np.sqrt(variance) < np.std(coordinates)


def test_whole_information_and_its_largest_eigenvalue_agree_with_the_trace(double_precision: None) -> None:
    network, shape, classes = CASES["mlp"]
    parameters, rows, labels, _ = batch_of(network, shape, classes, 4)
    arguments = (network, parameters, jnp.asarray(rows), jnp.asarray(labels), CLIPPING, 0.5 * CLIPPING)
    matrices = np.asarray(step_information(*arguments))
    assert matrices.shape == (4, 7, 7)
    traces = [exact_trace(network, parameters, *one) for one in zip(rows, labels, strict=True)]
    np.testing.assert_allclose(np.trace(matrices, axis1=1, axis2=2), np.array(traces) / (0.5 * CLIPPING) ** 2)
    found = step_spectral_norms(*arguments, jax.random.key(3), iterations=300)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(matrices)[:, -1], rtol=1e-6)


def test_smooth_clipping_keeps_norms_below_its_bound_and_short_gradients_nearly_as_they_are() -> None:
    norms = jnp.linspace(1e-6, 100, 100_000)
    clipped = norms * smooth_factors(norms, 1.0)
    assert clipped.max() <= SmoothClipping.largest_norm == reconstruction.SMOOTH_CLIPPING_BOUND
    x = np.linspace(0, 5, 101)
    np.testing.assert_allclose(smooth_factors(jnp.asarray(x), 1.0), 1 / ((x - 1) * ndtr(x - 1) + 1), rtol=1e-5)


def test_smooth_clipping_costs_privacy_and_its_calibration_pays_for_it() -> None:
    setting = Conditions(1000, None)
    flat, smooth = (DPSGD(batch_size=50, steps=20, clipping=one) for one in (ss.FlatClipping(), SmoothClipping()))
    assert present(smooth.guarantee(setting).epsilon).value > present(flat.guarantee(setting).epsilon).value
    options: dict[str, Any] = {"examples": 1000, "batch_size": 50, "steps": 20, "clipping": SmoothClipping()}
    calibrated = DPSGD.calibrated(2.0, 1e-5, **options)
    assert present(calibrated.guarantee(setting).epsilon).value == pytest.approx(2.0, rel=1e-4)


# --- recorded while training ----------------------------------------------------------------------------------------

SEEDS, NEIGHBOURS, STEPS, ROWS = np.array([3, 0]), np.array([-1, 4]), 5, 20
SMALL: dict[str, Any] = {
    "batch_size": 6,
    "steps": STEPS,
    "learning_rate": 0.7,
    "noise_multiplier": 0.8,
    "clipping_norm": CLIPPING,
}


def slow_traces(
    mechanism: DPSGD,
    network: Network,
    rows: np.ndarray,
    labels: np.ndarray,
    weights_after: np.ndarray,
    seed: int,
    neighbour: int,
) -> np.ndarray:
    """Σ over steps whose batch holds an example of ‖∂g̃/∂z v‖²/(σC)² with exact Jacobians instead of v; [example]."""
    start = initial_parameters(network.init, 5, np.array([seed], np.int32))
    first, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], start))
    states = [first, *weights_after[:-1]]
    batches = draw_batches(mechanism.private_steps(), 5, np.array([seed]), len(rows) - 1, Parts(1, 1)).of_seed(0)
    found = np.zeros(len(rows) - 1)
    for batch, state in zip(batches, states, strict=True):
        for i in batch:
            if i != neighbour:
                found[i] += exact_trace(network, unravel(jnp.asarray(state)), rows[i], labels[i])
    return found / mechanism.noise_scale**2


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_recorded_traces_are_sums_over_the_steps_that_used_the_example(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one dimension every direction ±1 gives the exact trace."""
    data, network = table(ROWS), mlp(3, "tanh").network((1,), 2)
    rows = np.concatenate([data.base.features, data.spare_example.features]).astype(np.float32)[:, :1]
    labels = np.concatenate([data.base.labels, data.spare_example.labels]).astype(np.float32)
    mechanism, traced = DPSGD(**SMALL, clipping=SmoothClipping()), np.arange(ROWS)
    arguments = (
        mechanism.private_steps(),
        network,
        relation,
        5,
        SEEDS,
        NEIGHBOURS,
        ("varied",),
        tuple(range(1, STEPS + 1)),
        rows,
        labels,
    )
    records = train_dpsgd(*arguments, None, traced=traced)
    assert records["fisher_traces"].shape == (2, 2, 1, STEPS, ROWS)
    for s, n in np.ndindex(2, 2):
        slow = slow_traces(
            mechanism, network, rows, labels, records["weights"][s, n, 0], int(SEEDS[s]), int(NEIGHBOURS[n])
        )
        np.testing.assert_allclose(records["fisher_traces"][s, n, 0, -1], slow, rtol=2e-3, atol=1e-6)
        assert np.all(np.diff(records["fisher_traces"][s, n, 0], axis=0) >= 0)
    plain = train_dpsgd(*arguments, None)["weights"]
    np.testing.assert_allclose(records["weights"], plain, atol=1e-6)
    monkeypatch.setattr(parts, "LEAST_ROWS", 2)
    monkeypatch.setattr(parts, "WORKING_SET", 1)
    cut = train_dpsgd(*arguments, None, traced=traced)["fisher_traces"]
    np.testing.assert_allclose(cut, records["fisher_traces"], rtol=1e-3, atol=1e-6)


def test_other_noise_clipping_and_learning_rate_compile_nothing_new() -> None:
    data, network = table(ROWS), mlp(3, "tanh").network((3,), 2)
    rows = np.concatenate([data.base.features, data.spare_example.features]).astype(np.float32)
    labels = np.concatenate([data.base.labels, data.spare_example.labels]).astype(np.float32)

    def trained(**numbers: Any) -> dict[str, np.ndarray]:
        mechanism = DPSGD(batch_size=6, steps=3, clipping=SmoothClipping(), **numbers)
        relation: Relation = "add_or_remove"
        arguments = (
            mechanism.private_steps(),
            network,
            relation,
            5,
            SEEDS,
            NEIGHBOURS,
            ("varied",),
            (3,),
            rows,
            labels,
            None,
        )
        return train_dpsgd(*arguments, traced=np.arange(ROWS))

    first = trained(learning_rate=0.7, noise_multiplier=0.8, clipping_norm=CLIPPING)
    cache: Any = train_block
    compiled = cache._cache_size()
    other = trained(learning_rate=0.1, noise_multiplier=3.0, clipping_norm=2.0)
    assert cache._cache_size() == compiled
    assert not np.allclose(first["weights"], other["weights"])


def test_directions_differ_between_steps_and_seeds() -> None:
    keys = jax.random.split(jax.random.key(0), 2)
    drawn = [jax.random.rademacher(key, (64,)) for t in range(3) for key in probe_keys(keys, t)]
    assert len({tuple(np.asarray(one)) for one in drawn}) == 6


def test_traces_are_kept_in_the_ensemble_and_become_leakage() -> None:
    data = images(24, 9)
    model = CNN((StridedLayer(3, 4, "same", 2, stride=2),), activation="tanh", pool="average")
    mechanism = DPSGD(0.5, 8, 6, noise_multiplier=1.0, clipping=SmoothClipping())
    grid = Grid(3, 2, checkpoints=(3, 6))
    ensemble = train(data, mechanism, model=model, grid=grid, records=Records(fisher_traces="train"), jobs=1)
    traces = ensemble.dataset["fisher_traces"]
    assert traces.dims == ("seed", "neighbour", "init", "step", "traced")
    assert traces["traced_row"].values.tolist() == list(range(len(data.base)))
    values = traces.sel(neighbour=-1).isel(init=0, step=-1).values
    plain, proved, papers = (reconstruction.training_leakage(ensemble, one) for one in ("none", "proved", "estimate"))
    np.testing.assert_allclose(plain.dfil, values.mean(axis=0) / 81, rtol=1e-6)
    np.testing.assert_allclose(proved.trace, reconstruction.amplification_proved(1.0, 8 / 24) * plain.trace, rtol=1e-6)
    assert np.all(papers.trace <= plain.trace)
    exact = reconstruction.training_leakage(ensemble)
    np.testing.assert_allclose(exact.trace, reconstruction.amplification_exact(8 / 24, 1.0) * plain.trace, rtol=1e-6)
    assert np.all(exact.trace < proved.trace)
    assert "units that training saw" in exact.note
    with pytest.raises(SeedscopeError, match="no gradient norms"):
        reconstruction.training_leakage(ensemble, "own")
    assert present(plain.worst.lower) <= plain.worst.value
    early = reconstruction.training_leakage(ensemble, "none", step=3)
    assert np.all(early.trace <= plain.trace)
    with pytest.raises(SeedscopeError, match="checkpoint"):
        reconstruction.training_leakage(ensemble, step=4)


def test_a_records_own_norm_gives_its_own_smaller_factor() -> None:
    mechanism = DPSGD(0.5, 5, 4, noise_multiplier=1.0, clipping=SmoothClipping())
    records = Records(fisher_traces="train", norms=ss.Norms(of="train"))
    ensemble = train(table(ROWS), mechanism, grid=Grid(2), records=records, jobs=1)
    own, exact, plain = (reconstruction.training_leakage(ensemble, one) for one in ("own", "exact", "none"))
    assert np.all(own.trace <= exact.trace * (1 + 1e-9))
    assert own.trace.sum() < 0.99 * exact.trace.sum()
    recorded = ensemble.dataset.sel(neighbour=-1).isel(init=0)
    norms = recorded["gradient_norms"].values.astype(float)  # [run, state, record]
    clipped = norms / ((norms - 1) * ndtr(norms - 1) + 1)
    traces = recorded["fisher_traces"].isel(step=-1).values
    rate = 5 / len(table(ROWS).base)
    slow = [
        [traces[run, k] * reconstruction.amplification_exact(rate, 1.0, norm=min(clipped[run, :, k].max(), 1.1153))
         for k in range(traces.shape[1])]
        for run in range(2)
    ]  # fmt: skip
    np.testing.assert_allclose(own.trace, np.mean(slow, axis=0), rtol=2e-3)  # by the next entry of a table
    assert np.all(own.trace >= np.mean(slow, axis=0) * (1 - 1e-9))
    assert np.all(own.trace <= plain.trace)


def test_traces_of_private_columns_are_those_of_the_matrix_restricted_to_them() -> None:
    """One step on everybody from one point, many seeds: the trace over columns 0 and 2 of the whole information."""
    data = table(ROWS)
    mechanism = DPSGD(0.5, len(data.base), 1, noise_multiplier=1.0, clipping=SmoothClipping())
    named = (data.feature_names[0], 2)
    grid = Grid(300, init="fixed")
    ensemble = train(data, mechanism, grid=grid, records=Records(fisher_traces="train", private=named), jobs=1)
    assert ensemble.description.records["private"] == [0, 2]
    plan = make_plan(data, mechanism, None, grid)
    network = plan.model.network(data.shape, 2)
    start = initial_parameters(network.init, 0, np.array([-1], np.int32))
    rows = jnp.asarray(plan.fitted_scaling.apply(data.base.features), jnp.float32)
    first = jax.tree.map(lambda leaf: leaf[0], start)
    whole = step_information(network, first, rows, jnp.asarray(data.base.labels, jnp.float32), 1.0, 1.0)
    expected = np.asarray(whole)[:, [0, 2], [0, 2]].sum(axis=1)
    found = reconstruction.training_leakage(ensemble, "none")
    assert found.dimension == 2
    np.testing.assert_allclose(found.trace, expected, rtol=0.25)
    assert np.mean(found.trace / expected) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("private", "message"),
    [
        ((), "at least one column"),
        (("nothing",), "unknown private column"),
        ((99,), "private columns must be between 0 and"),
        ((0, 0), "once"),
    ],
)
def test_private_columns_that_are_not_there_are_refused(private: tuple[Any, ...], message: str) -> None:
    mechanism = DPSGD(0.5, 5, 2, noise_multiplier=1.0, clipping=SmoothClipping())
    with pytest.raises(SeedscopeError, match=message):
        make_plan(table(ROWS), mechanism, None, Grid(1), Records(fisher_traces="train", private=private))
    with pytest.raises(SeedscopeError, match="not asked for"):
        Records(private=(0,))


def test_ensembles_without_traces_and_shuffled_batches_are_refused() -> None:
    options: dict[str, Any] = {"batch_size": 5, "steps": 4, "clipping": SmoothClipping()}
    plain = train(table(ROWS), DPSGD(**options), grid=Grid(1), jobs=1)
    with pytest.raises(SeedscopeError, match="no Fisher traces"):
        reconstruction.training_leakage(plain)
    shuffled, records = DPSGD(**options, sampling=ss.Shuffled()), Records(fisher_traces="train")
    ensemble = train(table(ROWS), shuffled, grid=Grid(1), records=records, jobs=1)
    with pytest.raises(SeedscopeError, match=r"Shuffled\(\) batches have no amplification"):
        reconstruction.training_leakage(ensemble)
    assert reconstruction.training_leakage(ensemble, "none").worst.lower is None


def test_stores_without_traces_keep_their_identity() -> None:
    assert "fisher_traces" not in make_plan(table(ROWS), DPSGD(batch_size=4)).identity()["records"]


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "model", "message"),
    [
        (DPSGD(batch_size=4, clipping=SmoothClipping()), mlp((4, 3)), "relu after dense layer 1"),
        (DPSGD(batch_size=4), mlp(4, "tanh"), "SmoothClipping"),
        (
            DPSGD(batch_size=4, clipping=SmoothClipping(), noise_multiplier=0.0),
            mlp(4, "tanh"),
            "noise_multiplier above 0",
        ),
        (DPSGD(batch_size=4, clipping=SmoothClipping(), rule="mean"), mlp(4, "tanh"), "rule='sum'"),
        (ss.SGD(batch_size=4), mlp(4, "tanh"), "DPSGD only"),
    ],
)
def test_what_has_no_fisher_information_is_refused(mechanism: Mechanism, model: MLP, message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        train(table(ROWS), mechanism, model=model, records=Records(fisher_traces="train"), jobs=1)


def test_nobody_to_trace_and_unknown_parts_are_named() -> None:
    mechanism = DPSGD(batch_size=4, clipping=SmoothClipping())
    with pytest.raises(SeedscopeError, match="there are none"):
        train(table(ROWS), mechanism, model=logistic(), records=Records(fisher_traces="neighbours"), jobs=1)
    with pytest.raises(SeedscopeError, match="fisher_traces must be"):
        Records(fisher_traces="test")  # type: ignore[arg-type]
    with pytest.raises(SeedscopeError, match="clipping must be"):
        DPSGD(clipping="smooth")  # type: ignore[arg-type]


def test_a_table_with_a_category_has_no_fisher_traces_and_the_feature_is_named() -> None:
    data = table(ROWS)
    data.base.features[:, 1] = np.arange(ROWS) % 2
    mechanism = DPSGD(batch_size=4, clipping=SmoothClipping())
    with pytest.raises(SeedscopeError, match=r"continuous, but feature '.*' has only the values 0, 1"):
        train(data, mechanism, model=logistic(), records=Records(fisher_traces="train"), jobs=1)


def test_kinks_are_named_by_layer() -> None:
    assert next(kinks(ss.lenet5(), (28, 28, 1), 10)) == "relu after convolution 1"
    average = CNN((ConvolutionLayer(2, 3, "same", 2),), activation="tanh")
    assert list(kinks(average, (8, 8, 1), 2)) == ["max pooling after convolution 1"]
    assert list(kinks(tanh_cnn(), (28, 28, 1), 10)) == []
    assert list(kinks(logistic(), (3,), 2)) == []
    rough = as_model(lambda key: eqx.nn.MLP(3, "scalar", 4, 1, key=key))
    assert "max after layer 1" in next(kinks(rough, (3,), 2))
    pooling = eqx.nn.MaxPool1d(2)
    pooled_rows = as_model((lambda key: jnp.zeros(2), lambda weights, rows: pooling(rows)[:, :2] @ weights))
    assert "reduce_window_max" in next(kinks(pooled_rows, (4,), 2))
    bent = as_model((lambda key: jnp.zeros(3), lambda weights, rows: jnp.where(rows > 0, rows, 0.1 * rows) @ weights))
    assert any("select_n" in kink for kink in kinks(bent, (3,), 2))
    smooth = as_model(lambda key: eqx.nn.MLP(3, "scalar", 4, 1, activation=jnp.tanh, key=key))
    assert list(kinks(smooth, (3,), 2)) == []
    soft = as_model((lambda key: jnp.zeros(3), lambda weights, rows: jax.nn.softplus(rows) @ weights))
    assert list(kinks(soft, (3,), 2)) == []
    for relu in (lambda z: z * (z > 0), lambda z: (z + jnp.sqrt(z * z)) / 2):  # written without a maximum
        hidden = as_model((lambda key: jnp.zeros(3), lambda weights, rows, relu=relu: relu(rows) @ weights))
        assert list(kinks(hidden, (3,), 2)) != []


# --- the networks ---------------------------------------------------------------------------------------------------


def test_the_papers_networks_have_their_sizes() -> None:
    assert parameter_count(tanh_cnn(), (28, 28, 1), 10) == 26_010
    assert parameter_count(ss.tanh_vgg(), (32, 32, 3), 10) == 550_570


@pytest.mark.parametrize("kind", ["max", "average"])
def test_overlapping_pooling_equals_windows_one_by_one(kind: str) -> None:
    image = np.random.default_rng(0).normal(size=(6, 5, 2))
    reduce = np.max if kind == "max" else np.mean
    slow = [[reduce(image[i : i + 3, j : j + 3], axis=(0, 1)) for j in range(0, 3, 2)] for i in range(0, 4, 2)]
    np.testing.assert_allclose(pooled(jnp.asarray(image), 3, kind, 2), slow, rtol=1e-6)
