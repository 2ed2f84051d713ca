"""Gradient norms of people, recorded while DP-SGD trains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seedscope.models import Parameters
from seedscope.training.dpsgd.per_example import gradient_norms
from seedscope.training.dpsgd.sums import PrivateJob
from seedscope.training.gradient import Records


class People(NamedTuple):
    """The examples whose gradient norms are recorded, and every how many steps."""

    rows: np.ndarray
    labels: np.ndarray
    every: int


class NormRecorder:
    """Writes the gradient norms of people into arrays that the training loop carries; without people, nothing."""

    def __init__(self, job: PrivateJob, people: tuple[jax.Array, jax.Array] | None):
        self.job, self.people = job, people
        self.slots = -(-job.private.steps // job.norms_every) if people else 0

    def empty(self, parameters: Parameters) -> Records:
        """Return room for every recorded state, and a last slot: for what is not kept, in the end the final state."""
        if self.people is None:
            return {}
        observed = jax.eval_shape(self._observe, parameters)
        return {name: jnp.zeros((self.slots + 1, *array.shape), array.dtype) for name, array in observed.items()}

    def record(self, norms: Records, parameters: Parameters, t: jax.Array) -> Records:
        """Return the arrays with the norms at the state before step t, if it is one of those recorded."""
        if self.people is None:
            return norms
        every = self.job.norms_every
        if every == 1:
            return {name: norms[name].at[t].set(array) for name, array in self._observe(parameters).items()}
        observed = t % every == 0
        nothing = {name: jnp.zeros(array.shape[1:], array.dtype) for name, array in norms.items()}
        fresh = jax.lax.cond(observed, self._observe, lambda _: nothing, parameters)
        return {
            name: norms[name].at[jnp.where(observed, t // every, self.slots)].set(array)
            for name, array in fresh.items()
        }

    def finished(self, norms: Records, parameters: Parameters) -> Records:
        """Return the arrays [seed, model, state, person] with the final state's norms in the last slot."""
        if self.people is None:
            return {}
        last = self._observe(parameters)
        return {name: jnp.moveaxis(norms[name].at[-1].set(last[name]), 0, 2) for name in norms}

    def norms_now(self, parameters: Parameters) -> jax.Array:
        """Return the norms [seed, model, person] now."""
        return self._observe(parameters)["gradient_norms"]

    def _observe(self, parameters: Parameters) -> Records:
        """Return norms and correctness [seed, model, person] now, block of people by block."""

        def block(people: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            one_model = partial(gradient_norms, self.job.network, rows=people[0], labels=people[1])
            over: Callable[[Any], Any] = one_after_another if self.job.parts.one_by_one else jax.vmap
            observed: tuple[jax.Array, jax.Array] = over(over(one_model))(parameters)
            return observed

        blocks = jax.lax.map(block, self.people)
        norms, correct = (jnp.moveaxis(block, 0, 2).reshape(*block.shape[1:3], -1) for block in blocks)
        return {"gradient_norms": norms, "correct": correct.astype(jnp.int8)}


def one_after_another(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function over an axis of its argument, like `jax.vmap`, but one at a time."""
    return lambda values: jax.lax.map(function, values)


def in_blocks(people: People | None, width: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return people's rows and labels in blocks [block, width, ...], the last filled up with repetitions."""
    if people is None:
        return None
    filled = np.resize(np.arange(len(people.rows)), -(-len(people.rows) // width) * width)
    return people.rows[filled].reshape(-1, width, *people.rows.shape[1:]), people.labels[filled].reshape(-1, width)


def rounded_up(values: np.ndarray, precision: str) -> np.ndarray:
    """Return the values in the precision, none of them smaller than it was.

    >>> rounded_up(np.array([1.0001]), "float16").tolist()
    [1.0009765625]
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(precision)
        return np.where(rounded < values, np.nextafter(rounded, np.array(np.inf, precision)), rounded)
