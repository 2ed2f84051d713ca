"""Privacy losses recorded while DP-SGD trains: the slow obvious way beside it, and bugs that they bring to light."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from seedscope import (
    DPSGD,
    Cosine,
    Grid,
    Momentum,
    Records,
    SeedscopeError,
    Shuffled,
    Unscaled,
    from_arrays,
    mlp,
    privacy_loss,
    train,
    train_until,
)
from seedscope.analyses.privacy_loss import SampledLoss
from seedscope.models import logistic, network_of
from seedscope.planning import make_plan
from seedscope.training.dpsgd.elementary import exponential, logarithm
from seedscope.training.dpsgd.noise import Noise, noise_keys, normals_like
from seedscope.training.dpsgd.privacy_losses import Scales, log_mixture, network_pulls
from seedscope.training.dpsgd.unit_losses import Columns, columns_of, sparse_rows, unit_of, unit_pulls
from seedscope.training.gradient import log_loss
from tests.helpers.small_data import table

SETUP: dict[str, Any] = {"learning_rate": 1.0, "batch_size": 10, "steps": 12, "noise_multiplier": 1.5}
RECORDS = Records(probes=(), losses_of="train")
SEEDS = 300


def audited(model: Any = None, seeds: int = SEEDS, **changes: Any) -> SampledLoss:
    """Return everybody's privacy after training on a small table."""
    found = train(table(), DPSGD(**(SETUP | changes)), model=model, grid=Grid(seeds=seeds), records=RECORDS, jobs=1)
    loss = privacy_loss.everybody(found)
    assert isinstance(loss, SampledLoss)
    return loss


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("model", [logistic(), pytest.param(mlp(4), marks=pytest.mark.slow)])
def test_pulls_are_products_with_each_persons_clipped_gradient(model: Any, smooth: bool) -> None:
    network = network_of(model, (3,), 2)
    draw = np.random.default_rng(0)
    rows, labels = jnp.asarray(draw.normal(size=(7, 3)), jnp.float32), jnp.asarray([0.0, 1, 1, 0, 1, 0, 0])
    parameters = network.init(jax.random.key(1))
    normals = normals_like(network.init, jax.random.key(2))

    def loss(where: Any, row: jax.Array, label: jax.Array) -> jax.Array:
        return log_loss(network.apply(where, row[None]), label[None])[0]

    if model == logistic():
        columns = Columns(columns_of(parameters), columns_of(normals), 1)
        pulls, _ = unit_pulls(unit_of(rows, labels), columns, smooth, Scales(0.4, 1.0))
        found = jax.tree.map(lambda one: one[:, 0], pulls)
    else:
        found = network_pulls(network, smooth, 0.4, normals, parameters, normals, (rows, labels))
        np.testing.assert_allclose(found.shared, found.products)  # the noise itself stands in for another's gradient
    flat = ravel_pytree
    for k in range(7):
        gradient = flat(jax.grad(loss)(parameters, rows[k], labels[k]))[0]
        norm = float(jnp.linalg.norm(gradient))
        factor = 1 / (jax.nn.gelu(norm / 0.4 - 1, approximate=False) + 1) if smooth else min(1.0, 0.4 / norm)
        np.testing.assert_allclose(found.products[k], factor * flat(normals)[0] @ gradient, rtol=2e-4, atol=1e-6)
        np.testing.assert_allclose(found.squares[k], (factor * norm) ** 2, rtol=2e-4)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("model", [logistic(), pytest.param(mlp(2), marks=pytest.mark.slow)])
def test_a_runs_losses_are_the_sum_over_steps_written_out(model: Any, relation: Any) -> None:
    data, steps = table(), 6
    schedule = Cosine(1.0) if relation == "replace_one" else 1.0
    setup = SETUP | {"steps": steps, "learning_rate": schedule}
    mechanism = DPSGD(**setup, clipping_norm=0.5, momentum=Momentum(0.5))
    grid = Grid(seeds=2, checkpoints=tuple(range(1, steps + 1)), relation=relation)
    ensemble = train(data, mechanism, model=model, grid=grid, records=RECORDS, jobs=1)
    standing = DPSGD(**setup | {"learning_rate": 1e-30})
    still = train(data, standing, model=model, grid=Grid(seeds=2), records=Records(probes=()), jobs=1)
    root = make_plan(data, mechanism, model, grid=grid, records=RECORDS).job.noise_seed
    network, q, sigma = network_of(model, (3,), 2), 10 / 40, 1.5 * 0.5
    _, unravel = ravel_pytree(network.init(jax.random.key(0)))
    scaling = ensemble.scaling.fit(data)
    rows = np.vstack([scaling.apply(data.base.features), scaling.apply(data.spare_example.features)])
    labels = np.append(data.base.labels, data.spare_example.labels).astype(np.float32)

    def loss(flat: jax.Array, row: jax.Array, label: jax.Array) -> jax.Array:
        return log_loss(network.apply(unravel(flat), row[None]), label[None])[0]

    gradients_at = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))
    for seed in range(2):
        after = ensemble.weights.isel(seed=seed, neighbour=0, init=-1).values
        states = np.vstack([still.weights.isel(seed=seed, neighbour=0, init=-1, step=-1).values, after[:-1]])
        drawn, sizes = mechanism.sampling.draw(0, seed, 40, 10, steps)
        batches, total = np.split(drawn, np.cumsum(sizes))[:-1], np.zeros(40)
        for t in range(steps):
            key = jax.random.fold_in(noise_keys(root, np.array([seed]))[0], t)
            normals = np.asarray(ravel_pytree(normals_like(network.init, key))[0]).astype(np.float64)
            every = np.asarray(gradients_at(states[t].astype(np.float32), rows.astype(np.float32), labels), float)
            every *= np.minimum(1, 0.5 / np.linalg.norm(every, axis=1))[:, None]
            own, other = every[:40], every[40]
            y = sigma * normals + np.isin(np.arange(40), batches[t])[:, None] * own
            total += np.log(1 - q + q * np.exp((np.sum(y * own, 1) - np.sum(own**2, 1) / 2) / sigma**2))
            if relation == "replace_one":
                total -= np.log(1 - q + q * np.exp((y @ other - np.sum(other**2) / 2) / sigma**2))
        recorded = ensemble.dataset["privacy_losses"].isel(seed=seed, neighbour=0, init=-1).values
        np.testing.assert_allclose(recorded, total, rtol=2e-3, atol=2e-4)


def test_exponentials_and_logarithms_are_those_of_single_precision() -> None:
    exponents = np.concatenate([np.linspace(-86.9, 88, 40_001), np.linspace(-1, 1, 20_001)]).astype(np.float32)
    found = np.asarray(jax.jit(exponential)(exponents), float)
    far = np.maximum(np.abs(exponents), 1)  # an exponent's own rounding
    np.testing.assert_array_less(np.abs(found / np.exp(exponents.astype(float)) - 1) / far, 1.5e-7)
    numbers = np.concatenate([found, np.linspace(0.5, 2, 40_001)]).astype(np.float32)
    exact = np.log(numbers.astype(float))
    found = np.asarray(jax.jit(logarithm)(numbers), float)
    np.testing.assert_array_less(np.abs(found - exact), 1.5e-7 * np.maximum(np.abs(exact), 1e-30))
    assert float(exponential(jnp.float32(-1e30))) == float(exponential(jnp.float32(-87.0)))


@pytest.mark.parametrize("rate", [0.001, 0.3, 0.999, 1.0])
def test_the_loss_of_a_mixture_is_right_however_far_out(rate: float) -> None:
    exponents = np.concatenate([np.linspace(-300, 300, 601), np.linspace(-2, 2, 401)])
    exact = np.logaddexp(np.log1p(-rate) if rate < 1 else -np.inf, np.log(rate) + exponents)
    found = np.asarray(jax.jit(partial(log_mixture, rate=rate))(exponents.astype(np.float32)), float)
    np.testing.assert_allclose(found, exact, rtol=3e-7, atol=3e-7)
    assert np.isnan(jax.jit(partial(log_mixture, rate=rate))(jnp.float32([np.nan])))


def categories(draw: np.random.Generator, people: int) -> np.ndarray:
    """Return rows of a table: two numbers, and three categories in columns of their own, standardised."""
    rows = np.hstack([draw.normal(size=(people, 2)), *(np.eye(9)[draw.integers(0, 9, people)] for _ in range(3))])
    rows[:, 2:] = (rows[:, 2:] - 1 / 9) / 0.3
    return (rows / 4).astype(np.float32)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_rows_by_what_is_unusual_in_them_give_the_losses_of_whole_rows(
    relation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    features, labels = categories(draw, 61), np.arange(61) % 2
    assert sparse_rows(features[None]) is not None
    data = from_arrays(features[:53], labels[:53], features[53:], labels[53:])
    grid = Grid(seeds=3, relation=relation)

    def losses() -> np.ndarray:
        found = train(data, DPSGD(**SETUP), grid=grid, records=RECORDS, scaling=Unscaled(), jobs=1)
        return np.asarray(found.dataset["privacy_losses"])

    monkeypatch.setattr("seedscope.training.dpsgd.train.NUMBERS_AT_ONCE", 48)  # 16 people at once, the last filled up
    by_entries = losses()
    seen = []
    monkeypatch.setattr("seedscope.training.dpsgd.train.sparse_rows", lambda rows: seen.append(sparse_rows(rows)))
    whole = losses()  # as the list's `append` gives nothing
    assert seen[0] is not None
    np.testing.assert_allclose(by_entries, whole, rtol=1e-4, atol=1e-5)


@settings(max_examples=15)  # each shape is compiled
@given(st.sampled_from([1, 7]), st.sampled_from([3, 40]), st.integers(0, 2**31))
def test_rows_by_what_is_unusual_in_them_are_the_rows(people: int, features: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = np.where(draw.random((2, people, features)) < 0.1, draw.normal(size=(2, people, features)), 0.25)
    rows = rows.astype(np.float32)
    found = sparse_rows(rows)
    if found is None:
        return
    table = np.vstack([np.eye(features), np.zeros(features)]).astype(np.float32)
    products = jax.vmap(lambda block: block.times(jnp.asarray(table)))(found)
    np.testing.assert_allclose(products, rows, atol=1e-6)
    np.testing.assert_allclose(found.squares(), (rows.astype(float) ** 2).sum(-1) + 1, rtol=1e-5)


@pytest.mark.slow
def test_a_replace_one_grid_passes_its_self_test() -> None:
    grid = Grid(seeds=100, relation="replace_one")
    found = privacy_loss.everybody(train(table(), DPSGD(**SETUP), grid=grid, records=RECORDS, jobs=1))
    assert found.relation == "replace_one"
    assert found.alarms == ()


@pytest.mark.parametrize("changes", [{}, {"momentum": Momentum(0.9, nesterov=True)}, {"clipping_norm": 0.3}])
def test_a_correct_run_passes_and_stays_within_its_curve(changes: dict[str, Any]) -> None:
    found = audited(**changes)
    assert found.alarms == ()
    assert "sees every step" in found.attacker
    assert len(found.people) == 40


@pytest.mark.slow
def test_a_network_passes_too() -> None:
    assert audited(mlp(4), seeds=100).alarms == ()


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["half of the noise", "noise reused", "clipping off"])
def test_a_planted_bug_rings_the_alarm(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug == "clipping off":
        for module in ("per_example", "unit_losses"):
            monkeypatch.setattr(f"seedscope.training.dpsgd.{module}.clipped_slopes", lambda slopes, bounds: slopes)
    else:
        right = Noise.at

        def wrong(self: Noise, drawn: Any, t: Any) -> Any:
            normals, ahead = right(self, drawn, t)
            if bug == "half of the noise":
                return jax.tree.map(lambda one: one / 2, normals), ahead
            return self._draw(self.keys[0]), ahead

        monkeypatch.setattr(Noise, "at", wrong)
    jax.clear_caches()
    try:
        changes: dict[str, Any] = {
            "noise_multiplier": 0.5,
            "steps": 24,
            "clipping_norm": 0.05 if bug == "clipping off" else 1.0,
        }
        assert audited(**changes).alarms
    finally:
        jax.clear_caches()


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"sampling": Shuffled()}, "Poisson"), ({"noise_multiplier": 0.0}, "noise_multiplier"), ({"rule": "mean"}, "sum")],
)
def test_losses_of_other_trainings_are_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SeedscopeError, match=words):
        audited(**changes)


@pytest.mark.slow
def test_models_trained_until_enough_is_known_have_sides_that_hold_at_any_time() -> None:
    records = Records(losses_of="train", probes=("test",))
    found = train_until(table(), DPSGD(**SETUP), error=0.4, maximum=60, records=records, jobs=1)
    stopped = privacy_loss.everybody(found.ensemble)
    losses = found.ensemble.dataset["privacy_losses"].isel(init=-1, neighbour=0).values
    planned = privacy_loss.from_losses(losses)
    assert isinstance(stopped, SampledLoss)
    assert stopped.anytime
    assert np.all(stopped.advantage_upper >= planned.alone().upper)
