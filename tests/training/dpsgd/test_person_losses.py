"""Privacy losses of people with several rows under DP-SGD: every subset of their rows written out beside it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import logsumexp

import seedscope as ss
from seedscope import DPSGD, Cosine, Grid, Momentum, Records, SeedscopeError, mlp, privacy_loss, train
from seedscope.analyses.privacy_loss import SampledLoss
from seedscope.commands.audit import _losses_of
from seedscope.datasets import Dataset
from seedscope.models import logistic, network_of
from seedscope.planning import make_plan
from seedscope.training import SUBSET_ROWS, FlatClipping, SmoothClipping
from seedscope.training.dpsgd.noise import Noise, noise_keys, normals_like
from seedscope.training.dpsgd.person_losses import Pulls, StandIn, person_losses
from seedscope.training.gradient import log_loss
from tests.helpers.small_data import given_scaling, table

SETUP: dict[str, Any] = {"learning_rate": 1.0, "batch_size": 10, "steps": 12, "noise_multiplier": 1.5}
RECORDS = Records(probes=(), losses_of="train")
OWNERS = np.random.default_rng(3).permutation(np.repeat(np.arange(17), [*[1, 2, 4] * 5, 1, 4]))

NETWORK = pytest.param(mlp(2), marks=pytest.mark.slow)


def of_persons(owners: np.ndarray = OWNERS, classes: int = 2, most: int | None = None) -> Dataset:
    """Return a small table of people with several rows each, in no order."""
    data = table(classes=classes)
    rows = int(np.bincount(owners).max()) if most is None else most
    return replace(data, train=replace(data.train, persons=owners), rows_per_person=rows)


def log_mixture(y: np.ndarray, pulls: np.ndarray, q: float, sigma: float) -> float:
    """Return ln of the density of y with the rows that pull, over that of noise alone: every subset written out."""
    terms = []
    for chosen in product([False, True], repeat=len(pulls)):
        g = pulls[np.array(chosen)].sum(0)
        chance = q ** sum(chosen) * (1 - q) ** (len(pulls) - sum(chosen))
        terms.append(np.log(chance) + (y @ g - g @ g / 2) / sigma**2)
    return float(logsumexp(terms))


@pytest.mark.parametrize("rate", [0.3, 0.01, 1e-6])
@pytest.mark.parametrize("size", [3, 8])
def test_a_steps_loss_is_the_mixture_over_subsets_written_out(size: int, rate: float) -> None:
    draw = np.random.default_rng(size)
    g, h = draw.normal(size=(size, 5)), draw.normal(size=5)
    for inside in (draw.random(size) < 0.5, np.zeros(size, bool), np.ones(size, bool)):
        noise = draw.normal(size=5)
        y = noise + inside @ g
        pulls = Pulls(jnp.asarray(g @ noise, jnp.float32), jnp.asarray(g @ g.T, jnp.float32))
        other = StandIn(jnp.float32(h @ noise), jnp.float32(h @ h), jnp.asarray(g @ h, jnp.float32))
        own = log_mixture(y, g, rate, 1.0)
        assert float(person_losses(pulls, jnp.asarray(inside), rate)) == pytest.approx(own, abs=1e-4, rel=1e-5)
        replaced = own - log_mixture(y, np.tile(h, (size, 1)), rate, 1.0)
        found = float(person_losses(pulls, jnp.asarray(inside), rate, other))
        assert found == pytest.approx(replaced, abs=1e-4, rel=1e-5)


@pytest.mark.parametrize("rate", [0.3, 0.01])
def test_of_many_rows_the_first_are_a_mixture_and_the_others_are_told(rate: float) -> None:
    draw = np.random.default_rng(11)
    g, h = draw.normal(size=(11, 5)), draw.normal(size=5)
    for inside in (draw.random(11) < 0.5, np.zeros(11, bool), np.ones(11, bool)):
        noise, told = draw.normal(size=5), inside & (np.arange(11) >= SUBSET_ROWS)
        y, moved = noise + inside @ g, told @ g
        pulls = Pulls(jnp.asarray(g @ noise, jnp.float32), jnp.asarray(g @ g.T, jnp.float32))
        own = log_mixture(y - moved, g[:SUBSET_ROWS], rate, 1.0) + y @ moved - moved @ moved / 2
        assert float(person_losses(pulls, jnp.asarray(inside), rate)) == pytest.approx(own, abs=1e-4, rel=1e-5)
        other = StandIn(jnp.float32(h @ noise), jnp.float32(h @ h), jnp.asarray(g @ h, jnp.float32))
        shift = told.sum() * h
        theirs = log_mixture(y - shift, np.tile(h, (SUBSET_ROWS, 1)), rate, 1.0) + y @ shift - shift @ shift / 2
        replaced = float(person_losses(pulls, jnp.asarray(inside), rate, other))
        assert replaced == pytest.approx(own - theirs, abs=1e-4, rel=1e-5)


def test_whoever_is_told_of_some_rows_gains_no_less() -> None:
    draw = np.random.default_rng(5)
    g, rate, steps = draw.normal(size=(10, 3)) / 3, 0.2, 2000
    inside, noise = draw.random((steps, 10)) < rate, draw.normal(size=(steps, 3))
    y = noise + inside @ g
    pulls = Pulls(jnp.asarray((noise @ g.T).T), jnp.asarray(np.repeat((g @ g.T)[..., None], steps, axis=-1)))
    told = np.asarray(person_losses(pulls, jnp.asarray(inside.T), rate))
    subsets = np.array(list(product([False, True], repeat=10)))
    sums, chances = subsets @ g, rate ** subsets.sum(1) * (1 - rate) ** (10 - subsets.sum(1))
    untold = logsumexp(y @ sums.T - (sums**2).sum(1) / 2, axis=1, b=chances)
    gains = [-np.expm1(-np.maximum(losses, 0)) for losses in (told, untold)]
    assert np.mean(gains[0]) > np.mean(gains[1])
    assert abs(np.exp(-told).mean() - 1) < 5 * np.exp(-told).std() / np.sqrt(steps)  # E e^−L = 1


def test_whoever_is_in_every_batch_has_the_loss_of_all_rows_together() -> None:
    g, noise = np.array([[3.0, 0.0], [4.0, 1.0], [5.0, 9.0]]), np.array([0.2, -0.1])
    pulls, gone = Pulls(jnp.asarray(g @ noise), jnp.asarray(g @ g.T)), jnp.zeros(3, bool)
    total = g.sum(0)
    assert float(person_losses(pulls, gone, 1.0)) == pytest.approx(noise @ total - total @ total / 2, rel=1e-6)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("model", [logistic(), NETWORK])
def test_a_runs_losses_are_the_sum_over_steps_written_out(model: Any, relation: Any) -> None:
    data, steps = of_persons(), 5
    setup = SETUP | {"steps": steps, "learning_rate": Cosine(1.0) if relation == "replace_one" else 1.0}
    mechanism = DPSGD(**setup, clipping_norm=0.5, momentum=Momentum(0.5))
    scaling = given_scaling(data)
    grid = Grid(seeds=2, neighbours=2, checkpoints=tuple(range(1, steps + 1)), relation=relation)
    given: dict[str, Any] = {"model": model, "scaling": scaling, "jobs": 1}
    ensemble = train(data, mechanism, grid=grid, records=RECORDS, **given)
    standing = DPSGD(**setup | {"learning_rate": 1e-30})
    still = train(data, standing, grid=Grid(seeds=2), records=Records(probes=()), **given)
    root = make_plan(data, mechanism, model, grid=grid, records=RECORDS, scaling=scaling).job.noise_seed
    network, q, sigma = network_of(model, (3,), 2), 10 / 40, 1.5 * 0.5
    _, unravel = ravel_pytree(network.init(jax.random.key(0)))
    fitted = ensemble.scaling.fit(data)
    rows = np.vstack([fitted.apply(data.base.features), fitted.apply(data.spare_example.features)]).astype(np.float32)
    labels = np.append(data.base.labels, data.spare_example.labels).astype(np.float32)

    def loss(flat: jax.Array, row: jax.Array, label: jax.Array) -> jax.Array:
        return log_loss(network.apply(unravel(flat), row[None]), label[None])[0]

    gradients_at = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))
    first_rows = ensemble.dataset["loser_row"].values
    assert len(first_rows) == data.base.people == 17
    for seed, place in product(range(2), range(3)):  # the base, and two data sets without somebody
        lacking = int(ensemble.dataset["neighbour"].values[place])
        after = ensemble.weights.isel(seed=seed, neighbour=place, init=-1).values
        states = np.vstack([still.weights.isel(seed=seed, neighbour=0, init=-1, step=-1).values, after[:-1]])
        drawn, sizes = mechanism.sampling.draw(0, seed, 40, 10, steps)
        batches, total = np.split(drawn, np.cumsum(sizes))[:-1], np.zeros(17)
        for t in range(steps):
            key = jax.random.fold_in(noise_keys(root, np.array([seed]))[0], t)
            normals = np.asarray(ravel_pytree(normals_like(network.init, key))[0]).astype(np.float64)
            every = np.asarray(gradients_at(states[t].astype(np.float32), rows, labels), float)
            every *= np.minimum(1, 0.5 / np.linalg.norm(every, axis=1))[:, None]
            for k, owner in enumerate(OWNERS[first_rows]):
                own = np.flatnonzero(owner == OWNERS)
                gone = lacking >= 0 and OWNERS[lacking] == owner
                y = sigma * normals + every[own[np.isin(own, batches[t]) & (not gone)]].sum(0)
                total[k] += log_mixture(y, every[own], q, sigma)
                if relation == "replace_one":
                    total[k] -= log_mixture(y, np.tile(every[40], (len(own), 1)), q, sigma)
        recorded = ensemble.dataset["privacy_losses"].isel(seed=seed, neighbour=place, init=-1).values
        np.testing.assert_allclose(recorded, total, rtol=2e-3, atol=3e-4)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("model", [logistic(), NETWORK])
def test_people_of_one_row_each_lose_what_their_rows_lose(model: Any, relation: Any) -> None:
    alone = of_persons(np.random.default_rng(0).permutation(40))
    given: dict[str, Any] = {"model": model, "grid": Grid(seeds=3, neighbours=2, relation=relation), "jobs": 1}
    given |= {"records": RECORDS, "scaling": given_scaling(alone)}
    for clipping in (FlatClipping(), SmoothClipping()):
        mechanism = DPSGD(**SETUP, clipping=clipping)
        plans = [
            make_plan(one, mechanism, **{k: v for k, v in given.items() if k != "jobs"}) for one in (alone, table())
        ]
        trained = [plan.mechanism.trainer(replace(plan.job, noise_key="")) for plan in plans]
        found, rows = (one(np.arange(3), plans[0].neighbours)["privacy_losses"] for one in trained)
        np.testing.assert_allclose(found, rows, rtol=1e-4, atol=1e-5)


def audited(seeds: int = 300, model: Any = None, classes: int = 2, relation: Any = None, **changes: Any) -> SampledLoss:
    """Return everybody's privacy after training on a small table of people with several rows."""
    data = of_persons(classes=classes)
    found = train(
        data, DPSGD(**(SETUP | changes)), model=model, grid=Grid(seeds=seeds, relation=relation), records=RECORDS,
        scaling=given_scaling(data), jobs=1,
    )  # fmt: skip
    loss = privacy_loss.everybody(found)
    assert isinstance(loss, SampledLoss)
    return loss


def test_a_correct_run_passes_its_self_test_and_more_rows_are_more_exposed() -> None:
    found = audited()
    assert found.alarms == ()
    assert found.self_test.holds
    assert abs(float(np.exp(-found.losses).mean()) - 1) < 0.03  # E e^−L = 1
    first = [int(np.flatnonzero(one == OWNERS)[0]) for one in dict.fromkeys(OWNERS.tolist())]
    sizes = np.bincount(OWNERS)[OWNERS[np.sort(first)]]
    assert np.median(found.advantage[sizes == 4]) > 1.5 * np.median(found.advantage[sizes == 1])


@pytest.mark.slow
@pytest.mark.parametrize("case", [{"relation": "replace_one"}, {"model": mlp(4)}, {"classes": 3}])
def test_other_relations_networks_and_classes_pass_too(case: dict[str, Any]) -> None:
    assert audited(seeds=100, **case).alarms == ()


@pytest.mark.slow
def test_forgotten_noise_rings_the_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Noise.at

    def halved(self: Noise, drawn: Any, t: Any) -> Any:
        normals, ahead = right(self, drawn, t)
        return jax.tree.map(lambda one: one / 2, normals), ahead

    monkeypatch.setattr(Noise, "at", halved)
    jax.clear_caches()
    try:
        assert not audited(noise_multiplier=0.5, steps=24).self_test.holds
    finally:
        jax.clear_caches()


@pytest.mark.slow
def test_people_of_many_rows_are_held_against_an_attacker_who_is_told_of_some() -> None:
    data = of_persons(np.repeat(np.arange(4), [9, 10, 10, 11]))
    ensemble = train(data, DPSGD(**SETUP), grid=Grid(200), records=RECORDS, scaling=given_scaling(data), jobs=1)
    exposed, few = privacy_loss.everybody(ensemble), audited(20)
    assert isinstance(exposed, SampledLoss)
    assert "told which batches hold a person's rows beyond the first 8" in exposed.attacker
    assert "told" not in few.attacker
    assert exposed.alarms == ()
    assert exposed.self_test.holds
    assert exposed.advantage.min() > np.median(few.advantage)


def test_the_audit_command_asks_for_the_losses_of_persons_where_they_are_known() -> None:
    many = of_persons(np.repeat(np.arange(4), [9, 10, 10, 11]))
    assert _losses_of(of_persons(), DPSGD(**SETUP)) == "train"
    assert _losses_of(many, DPSGD(**SETUP)) == "train"
    assert _losses_of(many, ss.ObjectivePerturbation(1.0)) == "train"
    assert _losses_of(of_persons(classes=3), ss.ObjectivePerturbation(1.0)) == "train"


def test_how_many_rows_are_allowed_does_not_matter_but_how_many_there_are() -> None:
    data = of_persons(most=20)
    assert make_plan(data, DPSGD(**SETUP), grid=Grid(seeds=2), records=RECORDS).lossy is not None


def test_losses_are_not_redrawn_for_people_of_several_rows() -> None:
    data = of_persons()
    records = Records(probes=(), norms=ss.Norms("train"))
    ensemble = train(data, DPSGD(**SETUP), grid=Grid(seeds=2), records=records, jobs=1)
    with pytest.raises(SeedscopeError, match="about single rows, and people have up to 4"):
        privacy_loss.everybody_redrawn(ensemble)
