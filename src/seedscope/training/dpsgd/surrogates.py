"""Stand-ins for runs of DP-SGD on logistic regression: the same noise and batches, without a single gradient.

Around the run without noise on all rows, `w̄_{t+1} = w̄_t − (η/N) Σ c_j(w̄_t)`, c_j a person's clipped gradient, a run's
deviation u is nearly linear in what is random: `u_{t+1} = (I − ηJ_t) u_t − (η/qN)(e_t + σCξ_t)`, J_t the derivative of
the mean of the c_j, e_t = Σ_{batch} c_j − q Σ c_j and ξ_t the noise; a penalty adds λw to that mean and λI to J_t. That
is gradient descent on quadratics. Given batches and start, the noise's part of a score is normal, so how often
stand-ins decide 1 is a mean over batches and starts alone: few draws of them tell it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.special import expit, ndtr

from seedscope.models import network_of
from seedscope.numerics import betting_interval
from seedscope.training import FlatClipping, Job, KnownShares, Poisson, Surrogate
from seedscope.training.convex import with_bias
from seedscope.training.dpsgd.noise import noise_keys, normals_like
from seedscope.training.dpsgd.per_example import has_one_unit
from seedscope.training.dpsgd.steps import PrivateSteps
from seedscope.training.gradient import starting_points

LARGEST = 5e7  # numbers in the table of what everybody's presence in every batch moves
DRAWS, BLOCK = 3000, 100  # of batches for the shares; seeds worked on together
FIRST_OTHER = 1 << 30  # seeds from here on are no model's: their batches tell the shares
SHARE_RISK = 1e-4  # with which a share may be wrong, over all people


@dataclass(frozen=True, eq=False)
class StepsSurrogate(Surrogate):
    """Stand-ins `centre + start's part + batches' part + noise's part`; rows have their bias column."""

    job: Job
    private: PrivateSteps
    centre: np.ndarray
    from_start: np.ndarray  # [weight, weight]: what becomes of a start
    from_noise: np.ndarray  # [step, weight, weight]
    presence: np.ndarray  # [step, row, weight]: what a row in a step's batch moves at the end
    absent: np.ndarray  # [weight]: what the expected batches have moved, to be taken off
    rows: np.ndarray
    draws: int = DRAWS

    def decisions(self, seeds: np.ndarray) -> np.ndarray:
        places = np.asarray(seeds)
        parts = [places[i : i + BLOCK] for i in range(0, len(places), BLOCK)]
        weights = np.concatenate([self._quiet(part) + self._noisy(part) for part in parts])
        decided: np.ndarray = weights @ self.rows.T > 0
        return decided

    @cached_property
    def shares(self) -> KnownShares:
        lengths = np.sqrt(np.square(np.tensordot(self.rows, self.from_noise, (1, 1))).sum(axis=(1, 2)))
        chances = [
            ndtr(self._quiet(np.arange(first, first + BLOCK)) @ self.rows.T / np.maximum(lengths, 1e-300))
            for first in range(FIRST_OTHER, FIRST_OTHER + self.draws, BLOCK)
        ]
        drawn = np.concatenate(chances)
        low, high = betting_interval(drawn, 1 - SHARE_RISK, together=len(self.rows))
        share, variance = drawn.mean(axis=0), drawn.var(axis=0, ddof=1) / len(drawn)
        return KnownShares(share, share - low, high - share, SHARE_RISK, variance)

    def _quiet(self, seeds: np.ndarray) -> np.ndarray:
        """Return the stand-ins' weights [seed, weight] without the noise's part."""
        network = network_of(self.job.model, self.job.rows.shape[1:], self.job.classes)
        starts = starting_points(network.init, self.job.root_seed, seeds.astype(np.int32), 1, self.job.inits)
        flat = np.stack([_flat(jax.tree.map(lambda leaf, k=k: leaf[k, 0], starts)) for k in range(len(seeds))])
        moved = np.stack([self._by_batches(int(seed)) for seed in seeds])
        weights: np.ndarray = self.centre + flat @ self.from_start.T + moved - self.absent
        return weights

    def _by_batches(self, seed: int) -> np.ndarray:
        """Return what a seed's batches move [weight]."""
        private, examples = self.private, self.job.examples
        size = private.sampling_size(examples)
        places, sizes = private.sampling.draw(
            self.job.root_seed, seed, examples, private.batch_size, private.steps, size
        )
        step = np.repeat(np.arange(private.steps), sizes)
        moved: np.ndarray = self.presence[step, places].sum(axis=0)
        return moved

    def _noisy(self, seeds: np.ndarray) -> np.ndarray:
        """Return the noise's part [seed, weight]."""
        network = network_of(self.job.model, self.job.rows.shape[1:], self.job.classes)
        drawn = np.asarray(_normals(network.init, self.private.steps, noise_keys(self.job.noise_seed, seeds)), float)
        moved: np.ndarray = np.einsum("tij,ktj->ki", self.from_noise, drawn)
        return moved


def _flat(parameters: Any) -> np.ndarray:
    """Return a model's weights, the bias last."""
    return np.asarray(ravel_pytree(parameters)[0], float)


def _normals(init: Any, steps: int, keys: jax.Array) -> jax.Array:
    """Return every step's noise [seed, step, weight]."""

    def one(key: jax.Array, t: jax.Array) -> jax.Array:
        return ravel_pytree(normals_like(init, jax.random.fold_in(key, t)))[0]

    return jax.vmap(lambda key: jax.vmap(lambda t: one(key, t))(np.arange(steps)))(keys)


def steps_surrogate(job: Job, private: PrivateSteps) -> StepsSurrogate | None:
    """Return the stand-ins of a job's runs on its probes; None where there are none: for other models, other steps."""
    width = int(np.prod(job.rows.shape[1:])) + 1
    small = private.steps * job.examples * width <= LARGEST and len(job.inits) == 1
    if job.classes != 2 or job.probes is None or not (small and _linear_steps(private)):
        return None
    network = network_of(job.model, job.rows.shape[1:], job.classes)
    if not has_one_unit(jax.eval_shape(network.init, jax.random.key(0))):
        return None
    return _linearised(job, private, with_bias(job.rows)[:-1])


def _linear_steps(private: PrivateSteps) -> bool:
    """Return whether steps are such that stand-ins are known: the private mechanism itself, at one rate."""
    usual = private.clipping == FlatClipping() and private.sampling == Poisson() and private.rule == "sum"
    return (
        usual and private.momentum is None and private.noise_multiplier > 0 and isinstance(private.learning_rate, float)
    )


def _linearised(job: Job, private: PrivateSteps, rows: np.ndarray) -> StepsSurrogate:
    """Return the stand-ins, from one run on all rows without noise."""
    share = private.batch_size / private.sampling_size(job.examples)
    step, steps, width = float(private.learning_rate) / private.batch_size, private.steps, rows.shape[1]  # type: ignore[arg-type]
    weights, pulls, matrices = _quiet_run(rows, job.labels[:-1], private, step * share)
    after, presence, noise = np.eye(width), np.empty((steps, len(rows), width)), np.empty((steps, width, width))
    for t in reversed(range(steps)):
        presence[t] = -step * (pulls[t][:, None] * rows) @ after.T
        noise[t] = -step * private.noise_scale * after
        after = after @ matrices[t]
    absent = share * presence.sum(axis=(0, 1))
    return StepsSurrogate(job, private, weights, after, noise, presence, absent, with_bias(job.probe_rows))


def _quiet_run(
    rows: np.ndarray, labels: np.ndarray, private: PrivateSteps, step: float
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Return the last weights of descent on all rows from 0, every step's clipped derivatives, and its I − ηJ."""
    limit, weights = private.clipping_norm / np.linalg.norm(rows, axis=1), np.zeros(rows.shape[1])
    kept = 1 - float(private.learning_rate) * private.l2  # type: ignore[arg-type]
    pulls, matrices = [], []
    for _ in range(private.steps):
        scores = expit(rows @ weights)
        derivative = scores - labels
        bend = np.where(np.abs(derivative) < limit, scores * (1 - scores), 0.0)
        pulls.append(np.clip(derivative, -limit, limit))
        matrices.append(kept * np.eye(rows.shape[1]) - step * (rows * bend[:, None]).T @ rows)
        weights = kept * weights - step * pulls[-1] @ rows
    return weights, pulls, matrices
