"""DP-SGD on a grid equals the same algorithm written out for one model at a time; its batches and noise are right."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from scipy import stats

import seedscope as ss
from seedscope import (
    DPSGD,
    SGD,
    Dataset,
    Grid,
    Poisson,
    Records,
    SeedscopeError,
    Shuffled,
    WithoutReplacement,
    logistic,
    mlp,
    train,
)
from seedscope.core import Relation
from seedscope.mechanisms import Mechanism
from seedscope.mechanisms.guarantees import Conditions
from seedscope.models import Network
from seedscope.models.base import network_of
from seedscope.models.convolutional import CNN, ConvolutionLayer
from seedscope.planning.records import Norms
from seedscope.training import Sampling, poisson_capacity, sampling
from seedscope.training.dpsgd import parts as cutting
from seedscope.training.dpsgd.batches import Cutter, Parts, draw_batches
from seedscope.training.dpsgd.noise import noise_keys, normals_like
from seedscope.training.dpsgd.norms import People, rounded_up
from seedscope.training.dpsgd.parts import batch_parts
from seedscope.training.dpsgd.train import train_dpsgd
from seedscope.training.gradient.losses import log_loss
from seedscope.training.gradient.sgd import initial_parameters, train_sgd
from seedscope.training.schedules import Cosine, Momentum
from seedscope.training.streams import poisson_batches, subset_batches
from tests.helpers.present import present
from tests.helpers.small_data import images, table

SEEDS, NEIGHBOURS, INITS = np.array([3, 0]), np.array([-1, 4, 9]), ("fixed", "varied")
STEPS, ROWS = 6, 20
SMALL: dict[str, Any] = {
    "batch_size": 6,
    "steps": STEPS,
    "learning_rate": 0.7,
    "noise_multiplier": 0.8,
    "clipping_norm": 0.3,
}
RELATIONS = ("add_or_remove", "replace_one")


def arrays(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels as training wants them, the spare example last."""
    rows = np.concatenate([data.base.features, data.spare_example.features]).astype(np.float32)
    return rows, np.concatenate([data.base.labels, data.spare_example.labels]).astype(np.float32)


def trained(
    mechanism: DPSGD,
    network: Network,
    relation: Relation,
    data: Dataset,
    people: People | None = None,
    checkpoints: tuple[int, ...] = (2, STEPS),
) -> dict[str, np.ndarray]:
    """Return the records of the small grid."""
    rows, labels = arrays(data)
    return train_dpsgd(
        mechanism.private_steps(),
        network,
        relation,
        5,
        SEEDS,
        NEIGHBOURS,
        INITS,
        checkpoints,
        rows,
        labels,
        None,
        False,
        people,
    )


@cache
def gradient_of(network: Network) -> Callable[..., jax.Array]:
    """Return the gradient of one example's loss by the weights as a vector."""
    _, unravel = ravel_pytree(network.init(jax.random.key(0)))
    return jax.jit(jax.grad(lambda w, x, y: log_loss(network.apply(unravel(w), x[None]), y[None])[0]))


def one_model(
    mechanism: DPSGD,
    network: Network,
    relation: Relation,
    data: Dataset,
    seed: int,
    neighbour: int,
    init: str,
    people: Sequence[int] = (),
) -> tuple[list[np.ndarray], list[list[float]]]:
    """Return every state's weights and people's gradient norms of one model, trained example by example."""
    rows, labels = arrays(data)
    start = initial_parameters(network.init, 5, np.array([seed if init == "varied" else -1], np.int32))
    weights, _ = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], start))
    gradient = gradient_of(network)
    batches = draw_batches(mechanism.private_steps(), 5, np.array([seed]), len(rows) - 1, Parts(1, 1)).of_seed(0)
    states, norms, velocity = [], [], np.zeros(weights.size)
    for t, batch in enumerate(batches):
        states.append(np.asarray(weights, float))
        norms.append([float(np.linalg.norm(gradient(weights, rows[i], labels[i]))) for i in people])
        if neighbour in batch:
            instead = [len(rows) - 1] if relation == "replace_one" else []
            batch = np.array([i for i in batch if i != neighbour] + instead, int)
        total = np.zeros(weights.size)
        for i in batch:
            g = np.asarray(gradient(weights, rows[i], labels[i]), float)
            total += g * min(1.0, mechanism.clipping_norm / np.linalg.norm(g))
        draw = normals_like(network.init, jax.random.fold_in(noise_keys(5, np.array([seed]))[0], t))
        noise = mechanism.noise_scale * np.asarray(ravel_pytree(draw)[0], float) / mechanism.batch_size
        update = total / (mechanism.batch_size if mechanism.rule == "sum" else max(1, len(batch))) + noise
        velocity = update + (mechanism.momentum.decay * velocity if mechanism.momentum else 0.0)
        rate: Any = mechanism.learning_rate
        rate = rate.initial * (1 + np.cos(np.pi * t / STEPS)) / 2 if isinstance(rate, Cosine) else rate
        weights = jnp.asarray(weights - rate * velocity, weights.dtype)
    return [*states, np.asarray(weights)], norms


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.optimised),  # the engine's own proof: with the code that users run
        {"rule": "mean"},
        {"sampling": WithoutReplacement(), "momentum": Momentum(0.8)},
        {"sampling": Shuffled(), "learning_rate": Cosine(0.9)},
        {"batch_size": ROWS},
    ],
    ids=["poisson", "mean rule", "subsets with momentum", "shuffled with cosine", "everybody"],
)
def test_a_grid_equals_models_trained_one_at_a_time_example_by_example(
    relation: Relation, options: dict[str, Any]
) -> None:
    data, network = table(ROWS), network_of(mlp(4, "tanh"), (3,), 2)
    mechanism = DPSGD(**(SMALL | options))
    records = trained(mechanism, network, relation, data)
    places = product(enumerate(SEEDS), enumerate(NEIGHBOURS), enumerate(INITS))
    for (s, seed), (n, neighbour), (i, init) in places:
        states, _ = one_model(mechanism, network, relation, data, seed, neighbour, init)
        np.testing.assert_allclose(records["weights"][s, n, i], [states[2], states[-1]], atol=2e-5)


@pytest.mark.slow
def test_a_convolutional_network_with_several_classes_trains_like_its_slow_twin() -> None:
    data, network = images(ROWS, 6), CNN((ConvolutionLayer(2, 5, "same", 2),), activation="tanh").network((6, 6, 1), 3)
    mechanism = DPSGD(**SMALL)
    records = trained(mechanism, network, "replace_one", data)
    states, _ = one_model(mechanism, network, "replace_one", data, SEEDS[0], NEIGHBOURS[1], "varied")
    np.testing.assert_allclose(records["weights"][0, 1, 1, -1], states[-1], atol=2e-5)


@pytest.mark.parametrize("relation", RELATIONS)
def test_without_noise_and_clipping_it_is_sgd_on_the_same_batches(relation: Relation) -> None:
    data, network = table(ROWS), network_of(logistic(), (3,), 2)
    rows, labels = arrays(data)
    quiet = DPSGD(0.7, 6, STEPS, noise_multiplier=0.0, clipping_norm=np.inf, sampling=Shuffled())
    ours = trained(quiet, network, relation, data)
    sgd = train_sgd(SGD(0.7, 6, STEPS), network, relation, 5, SEEDS, NEIGHBOURS, INITS, (2, STEPS), rows, labels, None)
    np.testing.assert_allclose(ours["weights"], sgd["weights"], atol=1e-6)


@pytest.mark.parametrize("every", [1, 4])
def test_recorded_norms_are_those_of_the_states_that_were_passed_through(every: int) -> None:
    data, network = table(ROWS), network_of(mlp(4, "tanh"), (3,), 2)
    rows, labels = arrays(data)
    mechanism, chosen = DPSGD(**SMALL), [0, 4, 9, 11, 12]
    people = People(rows[chosen], labels[chosen], every)
    records = trained(mechanism, network, "add_or_remove", data, people)
    kept = [*range(0, STEPS, every), STEPS]
    assert records["gradient_norms"].shape == (2, 3, 2, len(kept), len(chosen)) == records["correct"].shape
    states, norms = one_model(mechanism, network, "add_or_remove", data, SEEDS[1], NEIGHBOURS[2], "fixed", chosen)
    np.testing.assert_allclose(records["gradient_norms"][1, 2, 0, :-1], np.array(norms)[kept[:-1]], rtol=1e-4)
    _, unravel = ravel_pytree(network.init(jax.random.key(0)))
    for slot, step in enumerate(kept):
        logits = network.apply(unravel(jnp.asarray(states[step], jnp.float32)), jnp.asarray(rows[chosen]))
        np.testing.assert_array_equal(records["correct"][1, 2, 0, slot], (logits > 0) == labels[chosen])


def test_recording_norms_changes_no_model() -> None:
    data, network = table(ROWS), network_of(mlp(4), (3,), 2)
    rows, labels = arrays(data)
    plain = trained(DPSGD(**SMALL), network, "add_or_remove", data)
    watched = trained(DPSGD(**SMALL), network, "add_or_remove", data, People(rows, labels, 2))
    np.testing.assert_allclose(plain["weights"], watched["weights"], atol=1e-6)


PARTS = {
    "model by model": ({"LEAST_ROWS": 2, "WORKING_SET": 1}, Parts(2, 2, one_by_one=True)),
    "equal parts": ({"LEAST_ROWS": 2, "WORKING_SET": 160}, Parts(2, 2)),
    "a first part and more": ({"FIRST_PART": 0.1, "LATER_PART": 3}, Parts(6, 3)),
}


@pytest.mark.parametrize(("settings", "parts"), PARTS.values(), ids=PARTS)
def test_how_a_batch_is_cut_into_parts_does_not_matter(
    settings: dict[str, float], parts: tuple[int, int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, network = table(ROWS), network_of(logistic(), (3,), 2)
    rows, labels = arrays(data)
    people = People(rows[:5], labels[:5], 4)
    whole = trained(DPSGD(**SMALL), network, "replace_one", data, people)
    for name, value in settings.items():
        monkeypatch.setattr(cutting, name, value)
    assert (
        batch_parts(network, DPSGD(**SMALL).private_steps(), (3,), len(SEEDS), len(NEIGHBOURS) * len(INITS), ROWS)
        == parts
    )
    cut = trained(DPSGD(**SMALL), network, "replace_one", data, people)
    for name in ("weights", "gradient_norms"):
        np.testing.assert_allclose(cut[name], whole[name], atol=1e-6)


def test_a_batch_larger_than_the_estimated_capacity_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = DPSGD(**SMALL)
    data, network = table(ROWS), network_of(logistic(), (3,), 2)
    before = trained(mechanism, network, "add_or_remove", data)["weights"]
    monkeypatch.setattr(sampling, "poisson_capacity", lambda batch_size, examples: 1)
    after = draw_batches(mechanism.private_steps(), 5, SEEDS, ROWS, Parts(1, 1))
    assert after.room == after.sizes.max() > mechanism.batch_size  # otherwise this shows nothing
    np.testing.assert_allclose(trained(mechanism, network, "add_or_remove", data)["weights"], before, atol=1e-6)


class TestBatches:
    def test_every_set_of_examples_is_a_poisson_batch_with_its_own_probability(self) -> None:
        q, examples, steps = 0.3, 4, 40_000
        drawn, sizes = poisson_batches(0, 0, examples, q, steps)
        present = np.zeros((steps, examples), int)
        present[np.repeat(np.arange(steps), sizes), drawn] = 1
        counts = np.bincount(present @ (1 << np.arange(examples)), minlength=1 << examples)
        members = np.array([bin(one).count("1") for one in range(1 << examples)])
        expected = steps * q**members * (1 - q) ** (examples - members)
        assert stats.chisquare(counts, expected).pvalue > 1e-3

    def test_poisson_batch_sizes_are_binomial_and_steps_independent(self) -> None:
        _, sizes = poisson_batches(1, 7, 1000, 0.02, 20_000)
        assert sizes.mean() == pytest.approx(20, abs=5 * np.sqrt(20 / 20_000))
        assert sizes.var() == pytest.approx(19.6, rel=0.05)
        assert abs(np.corrcoef(sizes[:-1], sizes[1:])[0, 1]) < 5 / np.sqrt(20_000)

    @pytest.mark.parametrize(("examples", "q"), [(50, 1.0), (5, 0.9), (10_000, 1e-4)])
    def test_poisson_batches_hold_each_example_at_most_once(self, examples: int, q: float) -> None:
        drawn, sizes = poisson_batches(0, 1, examples, q, 30)
        for batch in np.split(drawn, np.cumsum(sizes)[:-1]):
            assert len(np.unique(batch)) == len(batch)
            assert np.all((batch >= 0) & (batch < examples))
        assert q < 1 or np.all(sizes == examples)

    def test_seeds_draw_different_batches(self) -> None:
        first, second = (poisson_batches(0, seed, 100, 0.1, 20)[0] for seed in (0, 1))
        assert not np.array_equal(first[:20], second[:20])

    @pytest.mark.parametrize(("examples", "batch"), [(6, 3), (50, 2)])
    def test_subsets_are_uniform_and_without_repetition(self, examples: int, batch: int) -> None:
        batches = subset_batches(0, 0, examples, batch, 20_000)
        ordered = np.sort(batches, axis=1)
        assert np.all(ordered[:, 1:] > ordered[:, :-1])
        counts = np.unique(ordered, axis=0, return_counts=True)[1]
        assert len(counts) == comb(examples, batch)
        assert stats.chisquare(counts).pvalue > 1e-3

    def test_large_subsets_hold_each_example_once(self) -> None:
        for batch in (100, 400, 900, 1000):
            ordered = np.sort(subset_batches(0, 3, 1000, batch, 200), axis=1)
            assert ordered.shape == (200, batch)
            assert np.all(ordered[:, 1:] > ordered[:, :-1])
            assert 0 <= ordered.min() <= ordered.max() < 1000

    @pytest.mark.parametrize(("batch", "examples"), [(1, 1000), (8, 16), (128, 60_000), (2048, 50_000), (30, 30)])
    def test_capacity_is_exceeded_less_often_than_promised(self, batch: int, examples: int) -> None:
        capacity = poisson_capacity(batch, examples)
        assert stats.binom.sf(capacity, examples, batch / examples) <= 1e-12
        assert capacity <= examples

    @pytest.mark.parametrize("sampling", [Poisson(), WithoutReplacement(), Shuffled()])
    def test_every_step_cuts_out_its_own_batch_and_nothing_else(self, sampling: Sampling) -> None:
        mechanism = DPSGD(**SMALL, sampling=sampling)
        batches = draw_batches(mechanism.private_steps(), 5, SEEDS, ROWS, Parts(2, 3))
        cutter = Cutter(jnp.asarray(batches.drawn), jnp.asarray(batches.sizes), batches.room, spare=ROWS)
        for t in range(STEPS):
            for place, row in enumerate(np.asarray(cutter.at(t))):
                batch = batches.of_seed(place)[t]
                assert row.tolist() == batch.tolist() + [ROWS] * (batches.room - len(batch))


class TestNoise:
    seeds = np.arange(3000)

    def noise(self, steps: int = 1, **options: Any) -> np.ndarray:
        """Return what the noise did to the weights, in units of its standard deviation: gradients are negligible."""
        data, network = table(ROWS), network_of(logistic(), (3,), 2)
        rows, labels = arrays(data)
        mechanism = DPSGD(1.0, 5, steps, noise_multiplier=1e6, clipping_norm=0.5, **options)
        checkpoints = tuple(range(1, steps + 1))
        weights = train_dpsgd(
            mechanism.private_steps(), network, "add_or_remove", 0, self.seeds, np.array([-1, 2]), ("fixed",),
            checkpoints, rows, labels, None,
        )["weights"][:, :, 0]  # fmt: skip
        return weights / (1e6 * 0.5 / 5)

    def test_its_covariance_is_the_stated_one(self) -> None:
        draws = self.noise()[:, 0, 0]
        np.testing.assert_allclose(np.cov(draws.T), np.eye(4), atol=5 * np.sqrt(2 / len(draws)))
        np.testing.assert_allclose(draws.mean(0), 0, atol=5 / np.sqrt(len(draws)))
        assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-3

    def test_models_of_different_seeds_and_steps_have_independent_noise(self) -> None:
        draws = np.diff(self.noise(steps=2)[:, 0], axis=1, prepend=0)
        first, second = draws[:, 0], draws[:, 1]
        bound = 5 / np.sqrt(len(draws))
        assert np.all(np.abs(np.corrcoef(first.T, second.T)[:4, 4:]) < bound)
        assert np.all(np.abs(np.corrcoef(first[:-1].T, first[1:].T)[:4, 4:]) < bound)

    @pytest.mark.parametrize("at_once", [1 << 17, 0], ids=["steps ahead", "step by step"])
    def test_each_step_has_its_own_draw_however_many_are_drawn_at_once(
        self, at_once: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("seedscope.training.dpsgd.noise.NUMBERS_AT_ONCE", at_once)
        data, network = table(ROWS), network_of(logistic(), (3,), 2)
        mechanism = DPSGD(**(SMALL | {"steps": 40}))
        marks = (5, 16, 33, 40)  # training goes on from them; 16 steps are drawn at once
        records = trained(mechanism, network, "add_or_remove", data, checkpoints=marks)
        states, _ = one_model(mechanism, network, "add_or_remove", data, SEEDS[1], NEIGHBOURS[2], "varied")
        np.testing.assert_allclose(records["weights"][1, 2, 1], [states[mark] for mark in marks], atol=2e-5)

    def test_neighbours_of_one_seed_share_it(self) -> None:
        draws = self.noise()
        np.testing.assert_allclose(draws[:, 0], draws[:, 1], atol=1e-4)


class TestOnAPlan:
    mechanism = DPSGD(**SMALL)

    def test_models_do_not_depend_on_the_grid_around_them(self, tmp_path: Path) -> None:
        small = train(table(ROWS), self.mechanism, grid=Grid(seeds=2, neighbours=1))
        large = train(table(ROWS), self.mechanism, grid=Grid(seeds=9, neighbours=4), jobs=1)
        np.testing.assert_allclose(large.weights[:2, :2], small.weights, atol=1e-6)

    def test_a_stored_run_is_not_continued_with_noise_of_another_stream(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        call: dict[str, Any] = {"grid": Grid(seeds=2), "store": tmp_path / "store"}
        train(table(), DPSGD(**SMALL), **call)
        monkeypatch.setattr(DPSGD, "noise_stream", 99)
        with pytest.raises(SeedscopeError, match=r"belongs to another plan: noise stream.*99"):
            train(table(), DPSGD(**SMALL), **call)

    def test_a_stored_run_has_the_same_norms_as_one_in_memory(self, tmp_path: Path) -> None:
        records = Records(norms=Norms("train", every="epoch"))
        options: dict[str, Any] = {"grid": Grid(seeds=3, neighbours=2), "records": records}
        memory = train(table(ROWS), self.mechanism, **options)
        stored = train(table(ROWS), self.mechanism, **options, store=tmp_path / "run")
        assert stored.dataset["gradient_norms"].dims == ("seed", "neighbour", "init", "norm_step", "watched")
        assert stored.dataset["norm_step"].values.tolist() == [0, 3, 6]
        for name in ("gradient_norms", "correct", "weights"):
            np.testing.assert_array_equal(stored.dataset[name], memory.dataset[name])

    def test_half_precision_norms_are_never_below_the_full_ones(self) -> None:
        grid = Grid(seeds=2, neighbours=2)
        full, half = (
            train(table(ROWS), self.mechanism, grid=grid, records=Records(norms=Norms(precision=one))).dataset
            for one in ("float32", "float16")
        )
        assert half["gradient_norms"].dtype == np.float16
        assert np.all(half["gradient_norms"].values >= full["gradient_norms"].values)
        np.testing.assert_allclose(half["gradient_norms"], full["gradient_norms"], rtol=1e-3)

    def test_watched_rows_are_the_neighbours_in_their_order(self) -> None:
        ensemble = train(table(ROWS), self.mechanism, grid=Grid(2, 3), records=Records(norms=Norms()))
        np.testing.assert_array_equal(ensemble.dataset["watched_row"], ensemble.dataset["neighbour"][1:])
        assert set(ensemble.dataset["watched_part"].values) == {"neighbour"}

    @pytest.mark.parametrize(
        ("mechanism", "options", "message"),
        [
            (SGD(batch_size=4, steps=3), {"records": Records(norms=Norms("train"))}, "recorded for DPSGD only"),
            (DPSGD(batch_size=4, steps=3), {"records": Records(norms=Norms())}, "needs Grid"),
            (DPSGD(batch_size=ROWS + 1), {}, "batch_size must be at most the 20 training rows, got 21"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, mechanism: Mechanism, options: dict[str, Any], message: str) -> None:
        with pytest.raises(SeedscopeError, match=message):
            train(table(ROWS), mechanism, **options)


@example([65489.0])  # rounds to the largest number of half precision
@given(st.lists(st.floats(0, 1e5, width=32), min_size=1, max_size=20))
def test_rounding_up_to_half_precision_is_up_and_near(values: list[float]) -> None:
    given_values = np.array(values, np.float32)
    rounded = rounded_up(given_values, "float16").astype(float)
    assert np.all(rounded >= given_values)
    inside = (given_values > 1e-4) & (given_values < 6e4)
    assert np.all(rounded[inside] <= given_values[inside] * 1.001)


def test_calibrated_noise_gives_the_epsilon_that_was_asked_for() -> None:
    mechanism = DPSGD.calibrated(3.0, 1e-6, examples=5000, batch_size=64, steps=300, learning_rate=0.2)
    guarantee = mechanism.guarantee(Conditions(5000, None))
    assert 3.0 * (1 - 1e-5) <= float(present(guarantee.epsilon)) <= 3.0
    assert (guarantee.delta, guarantee.relation, present(guarantee.epsilon).kind) == (1e-6, "add_or_remove", "proved")
    assert (mechanism.learning_rate, mechanism.batch_size, mechanism.steps) == (0.2, 64, 300)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"sampling": Shuffled()}, "Poisson"),
        ({"sampling": WithoutReplacement()}, "Poisson"),
        ({"rule": "mean"}, "true batch size"),
        ({"noise_multiplier": 0.0}, "without noise"),
    ],
)
def test_no_guarantee_is_claimed_where_none_is_proved(options: dict[str, Any], word: str) -> None:
    guarantee = DPSGD(**options).guarantee(Conditions(5000, None))
    assert guarantee.epsilon is None
    assert word in guarantee.reason


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DPSGD(learning_rate=0), "learning_rate must be"),
        (lambda: DPSGD(noise_multiplier=np.inf), "noise_multiplier must be"),
        (lambda: DPSGD(clipping_norm=np.inf), "infinite without noise"),
        (lambda: DPSGD(rule="median"), "rule must be 'sum' or 'mean', got"),  # type: ignore[arg-type]
        (lambda: DPSGD.calibrated(1.0, 1e-5, examples=10, batch_size=11), "batch_size must be at most the 10"),
        (lambda: Norms("everybody"), "of must be 'neighbours', 'train', 'test'"),  # type: ignore[arg-type]
        (lambda: Norms(every=0), "every must be"),
        (lambda: Norms(precision="float8"), "precision must be"),  # type: ignore[arg-type]
    ],
)
def test_bad_values_are_refused_by_name(make: Callable[..., Any], message: str) -> None:
    with pytest.raises(SeedscopeError, match=message):
        make()


def test_a_mechanism_with_another_schedule_is_another_plan(tmp_path: Path) -> None:
    data, grid = table(ROWS), Grid(seeds=2)
    ss.train(data, DPSGD(**SMALL | {"learning_rate": Cosine(0.5)}), grid=grid, store=tmp_path / "run")
    with pytest.raises(SeedscopeError, match="belongs to another plan"):
        ss.train(data, DPSGD(**SMALL), grid=grid, store=tmp_path / "run")


def test_poisson_is_what_it_does_unless_asked_otherwise() -> None:
    assert DPSGD().sampling == Poisson()
