"""The informed attacker on DP-SGD of networks: likelihoods by their definition, calibration, and its limits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import seedscope as ss
from seedscope.core import SeedscopeError
from seedscope.models import Model, model_named, network_of
from seedscope.training.dpsgd import PrivateSteps, Suspects, informed_releases, operations
from seedscope.training.dpsgd.batches import Parts, draw_batches
from seedscope.training.dpsgd.noise import noise_keys, normals_like
from seedscope.training.gradient import log_loss, starting_points

ROWS, PERSON, SEED = 14, 4, 3


def table(classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.normal(size=(ROWS, 3)).astype(np.float32), np.arange(ROWS) % classes


def suspects(classes: int = 2, candidates: int = 3) -> Suspects:
    draw = np.random.default_rng(1)
    return Suspects([PERSON], draw.normal(size=(1, candidates, 3)), draw.integers(0, classes, (1, candidates)))


def gelu(x: float) -> float:
    return float(jax.nn.gelu(x, approximate=False))


def slow_release(private: PrivateSteps, network: Any, classes: int, truth: int, init: str) -> np.ndarray:
    """One release about one person, row by row, with likelihoods from normal densities, in double precision."""
    (rows, labels), asked = table(classes), suspects(classes)
    seeds = np.zeros(1, np.int32)
    start = starting_points(network.init, SEED, seeds, 1, (init,))
    weights, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0, 0], start))
    w, velocity, C = np.asarray(weights, float), np.zeros(len(weights)), private.clipping_norm
    sigma, q, decay = private.noise_multiplier * C, private.batch_size / ROWS, getattr(private.momentum, "decay", 0.0)
    slope = jax.grad(lambda w, x, y: log_loss(network.apply(unravel(w), x[None]), y[None])[0])

    def gradient(x: np.ndarray, y: float) -> np.ndarray:
        g = np.asarray(slope(jnp.float32(w), jnp.float32(x), jnp.float32(y)), float)
        length = float(np.linalg.norm(g)) / C
        clipped: np.ndarray = g / ((1 + gelu(length - 1)) if private.clipping.smooth else max(1.0, length))
        return clipped

    logs, key = np.zeros(asked.labels.shape[1]), noise_keys(SEED, seeds)[0]
    for t, batch in enumerate(draw_batches(private, SEED, seeds, ROWS, Parts(1, 1)).of_seed(0)):
        others = sum((gradient(rows[j], labels[j]) for j in batch if j != PERSON), np.zeros_like(w))
        each = [gradient(x, y) for x, y in zip(asked.rows[0], asked.labels[0], strict=True)]
        normals = np.asarray(ravel_pytree(normals_like(network.init, jax.random.fold_in(key, t)))[0], float)
        seen = (PERSON in batch) * each[truth] + sigma * normals
        without = np.exp(-(seen @ seen) / (2 * sigma**2))
        for k, g in enumerate(each):
            with_it = np.exp(-((seen - g) @ (seen - g)) / (2 * sigma**2))
            logs[k] += np.log(((1 - q) * without + q * with_it) / without)
        velocity = decay * velocity + (others + seen) / private.batch_size
        w = w - 0.5 * velocity
    return logs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "classes", "init", "options"),
    [
        (ss.mlp(4), 2, "fixed", {"momentum": ss.Momentum(0.5)}),
        pytest.param(ss.logistic(), 2, "varied", {}, marks=pytest.mark.slow),
        pytest.param(ss.mlp((4, 3), "tanh"), 3, "varied", {"clipping": ss.SmoothClipping()}, marks=pytest.mark.slow),
    ],
)
def test_likelihoods_of_a_run_are_those_of_mixtures_of_normals(
    model: Model, classes: int, init: str, options: dict[str, Any]
) -> None:
    private = ss.DPSGD(0.5, 6, 5, 0.9, 0.7, **options).private_steps()
    network = network_of(model, (3,), classes)
    found = informed_releases(private, network, *table(classes), suspects(classes), np.array([[2]]), SEED, init)
    slow = slow_release(private, network, classes, 2, init)
    assert np.ptp(slow) > 0.05
    np.testing.assert_allclose(found[0, 0], slow, atol=2e-5)


@pytest.mark.slow
def test_a_networks_posterior_is_calibrated_so_that_its_mean_is_the_share_of_right_guesses() -> None:
    rows, labels = table()
    truth = np.random.default_rng(0).integers(0, 2, (600, 2))
    asked = Suspects([1, PERSON], np.repeat(rows[[1, PERSON]][:, None], 2, axis=1), [[0, 1], [0, 1]])
    private = ss.DPSGD(0.5, 7, 10, 1.2).private_steps()
    logs = informed_releases(private, network_of(ss.mlp(3), (3,), 2), rows, labels, asked, truth, SEED)
    success, lower, upper = ss.reconstruction.posterior_success(logs, np.full((2, 2), 0.5))
    right = (logs.argmax(axis=2) == truth).mean(axis=0)
    assert np.all(right > 0.7)
    np.testing.assert_allclose(right, success, atol=0.05)
    assert np.all((lower <= success) & (success <= upper))


def test_work_grows_with_steps_and_noise_is_needed() -> None:
    network, rows = network_of(ss.mlp(4), (3,), 2), 100
    short, long = (operations(ss.DPSGD(0.5, 10, n).private_steps(), network, (3,), rows, 5) for n in (5, 50))
    assert long == pytest.approx(10 * short)
    quiet = ss.DPSGD(0.5, 6, 5, noise_multiplier=0.0).private_steps()
    with pytest.raises(SeedscopeError, match="without noise"):
        informed_releases(quiet, network, *table(), suspects(), np.array([[0]]), SEED)


@pytest.mark.parametrize("model", [ss.logistic(), ss.mlp((8, 4), "tanh"), ss.small_cnn(), ss.tanh_cnn(), ss.resnet20()])
def test_a_model_is_made_again_from_its_name(model: Model) -> None:
    assert model_named(repr(model)) == model


@pytest.mark.parametrize("name", ["Custom(name='mine')", "3", "MLP(hidden=(0,))", "__import__('os')", "Logistic(", ""])
def test_other_names_are_no_models(name: str) -> None:
    with pytest.raises(SeedscopeError, match="must be"):
        model_named(name)
