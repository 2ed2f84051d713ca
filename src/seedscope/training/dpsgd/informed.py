"""DP-SGD as an informed attacker sees it: how probable each candidate for a record makes a run, for any network.

The attacker knows all other rows, their batches and the starting point, and sees every noisy sum. Of a step
`y = ξ + B g` is left: noise, and the clipped gradient of the person's true record if it was drawn (B). A candidate of
gradient g_k explains it by `ln(1 − q + q·exp((⟨y, g_k⟩ − ‖g_k‖²/2)/σ²))` more than nobody would. Momentum and schedules
only see the noisy sums. Each person has runs of their own, with another true record drawn for each; all people of a
release share the others' batches, the noise and the starting point, as neighbours of one seed do.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.core import require
from seedscope.models import Network, Parameters
from seedscope.training import Schedule, transformation
from seedscope.training.dpsgd.batches import Cutter, draw_batches
from seedscope.training.dpsgd.noise import Noise, noise_keys
from seedscope.training.dpsgd.parts import batch_parts
from seedscope.training.dpsgd.per_example import examples, flat_factors, known_of_rows, smooth_factors
from seedscope.training.dpsgd.privacy_losses import Scales, log_mixture
from seedscope.training.dpsgd.steps import PrivateSteps
from seedscope.training.dpsgd.sums import Data, Dials, PrivateJob, batch_sum, noisy_update, probe_keys
from seedscope.training.gradient import starting_points


class Suspects(NamedTuple):
    """People's places among the rows, and their candidates' rows [person, candidate, ...] and labels."""

    people: Any
    rows: Any
    labels: Any


def informed_releases(
    private: PrivateSteps,
    network: Network,
    rows: np.ndarray,
    labels: np.ndarray,
    suspects: Suspects,
    truth: np.ndarray,
    root_seed: int,
    init: str = "varied",
) -> np.ndarray:
    """Return ln p_k up to a constant for each release, [release, person, candidate].

    Args:
        private: the steps; Poisson batches, the sum rule and noise.
        network: that they train.
        rows, labels: all training rows as training sees them.
        suspects: whose record is guessed among which candidates.
        truth: which candidate each release was trained on, [release, person].
        root_seed: of batches, noise and starting points.
        init: "varied" starts every release elsewhere, "fixed" all at one point.
    """
    require(private.noise_multiplier > 0, "without noise every candidate is told from every other: add noise.")
    asked = Suspects(*(np.asarray(values) for values in suspects))
    asked = Suspects(asked.people.astype(np.int32), asked.rows.astype(np.float32), asked.labels.astype(np.float32))
    padded = np.concatenate([rows, np.zeros_like(rows[:1])]).astype(np.float32)  # what batches are filled up with
    classes = np.append(labels, 0).astype(np.float32)
    release = partial(_one_release, private, network, padded, classes, asked, root_seed, init)
    return np.stack([release(number, true) for number, true in enumerate(np.asarray(truth, np.int32))])


def operations(
    private: PrivateSteps, network: Network, shape: tuple[int, ...], examples: int, candidates: int
) -> float:
    """Return about how many floating-point operations a release about one person takes."""
    parameters = jax.eval_shape(network.init, jax.random.key(0))
    cost = jax.jit(network.apply).lower(parameters, jax.ShapeDtypeStruct((1, *shape), np.float32)).cost_analysis()
    rows = private.drawn_size(examples) + 2 * candidates
    assert cost is not None
    return float(3 * cost["flops"] * rows * private.steps)  # a backward pass takes about two forward ones


def _one_release(
    private: PrivateSteps, network: Network, rows: np.ndarray, labels: np.ndarray, suspects: Suspects, root_seed: int,
    init: str, number: int, truth: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return one release's log-likelihoods [person, candidate]."""
    seeds, count, people = np.array([number], np.int32), len(rows) - 1, len(suspects.people)
    parts = batch_parts(network, private, rows.shape[1:], 1, people, count)
    batches = draw_batches(private, root_seed, seeds, count, parts)
    plain, numbers = private.at_one()
    job = PrivateJob(network, plain, "add_or_remove", parts, batches.room, False, 1)
    start = starting_points(network.init, root_seed, seeds, people, (init,))
    rate, keys = private.batch_size / private.sampling_size(count), noise_keys(root_seed, seeds)
    drawn, sizes = batches.drawn, batches.sizes
    return np.asarray(_explained(job, rate, Dials(*numbers), start, rows, labels, drawn, sizes, keys, suspects, truth))


@partial(jax.jit, static_argnums=(0, 1))
def _explained(
    job: PrivateJob, rate: float, dials: Dials, parameters: Parameters, rows: jax.Array, labels: jax.Array,
    drawn: jax.Array, sizes: jax.Array, keys: jax.Array, suspects: Suspects, truth: jax.Array,
) -> jax.Array:  # fmt: skip
    """Return the log-likelihoods [person, candidate] after all steps; everybody's own model, trained side by side."""
    scheduled = job.private.learning_rate
    step_size = scheduled if isinstance(scheduled, Schedule) else dials.learning_rate
    optimizer = transformation(step_size, job.private.momentum, job.private.steps, job.private.l2)
    noise, spare, people = Noise(job.network.init, keys, len(sizes)), len(rows) - 1, suspects.people
    data = Data(rows, labels, known_of_rows(job.network, rows, job.private.clipping.smooth))
    batches, later_parts = Cutter(drawn, sizes, job.room, spare), job.parts.needed(sizes)
    explain = partial(_step, job, Scales(dials.clipping_norm, dials.noise_scale), rate)

    def step(t: jax.Array, state: Any) -> Any:
        parameters, carried, ahead, logs = state
        batch, (normals, ahead) = batches.at(t), noise.at(ahead, t)
        others = batch_sum(job, dials, parameters, data, batch, later_parts[t], people, probe_keys(keys, t))
        inside = jnp.zeros(spare + 1, bool).at[batch[0]].set(True)[people]
        each = jax.vmap(explain, (0, None, 0, 0, 0, 0))
        alone, draws = (jax.tree.map(lambda leaf: leaf[0], tree) for tree in (parameters, normals))
        own, gained = each(alone, draws, suspects.rows, suspects.labels, truth, inside)
        total = jax.tree.map(lambda rest, extra: rest + extra[None], others.gradient, own)
        noisy = noisy_update(job, dials, total, batch, spare, people, normals)
        updates, carried = optimizer.update(noisy, carried, parameters)
        return jax.tree.map(jnp.add, parameters, updates), carried, ahead, logs + gained

    nothing = jnp.zeros(suspects.labels.shape, jnp.float32)
    start = (parameters, optimizer.init(parameters), noise.empty(), nothing)
    logs: jax.Array = jax.lax.fori_loop(0, job.private.steps, step, start)[-1]
    return logs


def _step(
    job: PrivateJob, scales: Scales, rate: float, parameters: Parameters, normals: Parameters, rows: jax.Array,
    labels: jax.Array, truth: jax.Array, inside: jax.Array,
) -> tuple[Parameters, jax.Array]:  # fmt: skip
    """Return what one person adds to the sum, and how well each candidate explains what is then seen [candidate].

    The gradients' sum Σ w_k g_k is linear in w, so its transpose makes of what is seen the products ⟨y, g_k⟩.
    """
    examined = examples(job.network, parameters, rows, labels)
    shorten = smooth_factors if job.private.clipping.smooth else flat_factors
    factors = shorten(examined.norms, scales.clipping_norm)
    own, along = jax.vjp(examined.weighted_sum, factors * (jnp.arange(len(labels)) == truth) * inside)
    seen = jax.tree.map(lambda draw, pull: scales.noise_scale * draw + pull, normals, own)
    products, squares = factors * along(seen)[0], (factors * examined.norms) ** 2
    return own, log_mixture((products - squares / 2) / scales.noise_scale**2, rate)
