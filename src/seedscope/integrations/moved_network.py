"""`MLPClassifier` on our own engine: the same first weights, batches and steps, in compiled loops.

First weights and the order of the examples are drawn from the random state as scikit-learn draws them (Glorot & Bengio
2010, one shuffle of the order before every epoch), and whatever comes before the network in its pipeline is fitted as
it stands. In double precision, since networks amplify rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from seedscope.integrations.moved_training import SINGLE, MovedTraining, Sample, before_and_last, in_single_precision
from seedscope.integrations.seeding import seeded

SOLVERS = ("adam", "sgd")
STEPS_TOGETHER = 64  # in one call of the compiled loop, at least: a model's stop is seen after it
LEAST_RATE = 1e-6  # below which `adaptive` stops
GAIN = {"logistic": 2.0}  # of first weights; 6 for every other activation

Layers = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Rule:
    """What a step does: settings of an `MLPClassifier` that our engine has."""

    activation: str
    solver: str
    alpha: float
    batch: int
    momentum: float
    nesterov: bool
    beta_1: float
    beta_2: float
    epsilon: float
    rate: float


@dataclass(frozen=True, eq=False)
class NetworkTraining(MovedTraining):
    """Takes the steps of multilayer perceptrons."""

    quicker: ClassVar[int] = 5
    needs_networks: ClassVar[bool] = True

    def foreign(self) -> str:
        if self.last.solver not in SOLVERS:
            return f"solver={self.last.solver!r} is its own"
        if in_single_precision(self.table):
            return SINGLE
        stops_or_goes_on = self.last.early_stopping or self.last.warm_start
        return "early_stopping and warm_start are its own" if stops_or_goes_on else ""

    def coefficients(self, samples: Sequence[Sample]) -> np.ndarray:
        return np.stack([flat(self._network(sample)[1]) for sample in samples])

    def coefficients_of(self, fitted: Any) -> np.ndarray:
        model = before_and_last(fitted)[1]
        return flat(list(zip(model.coefs_, model.intercepts_, strict=True)))

    def scored(self, samples: Sequence[Sample], probes: np.ndarray) -> np.ndarray:
        return np.stack([self._scores(sample, probes) for sample in samples])

    def _scores(self, sample: Sample, probes: np.ndarray) -> np.ndarray:
        """Return scores [probe(, class)] by the network of one sample; not numbers where its weights are not."""
        from sklearn.utils import _safe_indexing

        before, layers = self._network(sample)
        rows = _safe_indexing(self.table, probes)
        return _output(_dense(rows if before is None else before.transform(rows)), layers, self.last.activation)

    def _network(self, sample: Sample) -> tuple[Any, Layers]:
        """Return what comes before the network, fitted, and its layers after training."""
        from sklearn.utils import _safe_indexing

        before, last = before_and_last(seeded(self.code, sample.draw))
        table, labels = _safe_indexing(self.table, sample.rows), self.labels[sample.rows]
        rows = _dense(table if before is None else before.fit_transform(table, labels))
        codes = np.searchsorted(self.classes, labels)
        truth = codes[:, None].astype(float) if len(self.classes) == 2 else np.eye(len(self.classes))[codes]
        state = np.random.RandomState(last.random_state)
        layers = _first_layers(last, rows.shape[1], truth.shape[1], state)
        return before, _trained(last, rows, truth, layers, state)


def flat(layers: Layers) -> np.ndarray:
    """Return all weights of a network in one row."""
    return np.concatenate([part.ravel() for layer in layers for part in layer])


def _dense(rows: Any) -> np.ndarray:
    """Return rows as numbers in double precision."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, float)


def _first_layers(model: Any, features: int, outputs: int, state: np.random.RandomState) -> Layers:
    """Return the first weights, drawn layer by layer."""
    hidden = np.atleast_1d(model.hidden_layer_sizes).tolist()
    layers = []
    for inputs, units in pairwise([features, *hidden, outputs]):
        bound = np.sqrt(GAIN.get(model.activation, 6.0) / (inputs + units))
        layers.append((state.uniform(-bound, bound, (inputs, units)), state.uniform(-bound, bound, units)))
    return layers


def _orders(model: Any, count: int, state: np.random.RandomState) -> Iterator[np.ndarray]:
    """Yield the order of the examples of each epoch, without end."""
    order = np.arange(count)
    while True:
        if model.shuffle:
            places = np.arange(count)
            state.shuffle(places)
            order = order[places]
        yield order


class _Patience:
    """When a network has been trained enough, epoch by epoch, and the rate of its next one."""

    def __init__(self, model: Any, count: int):
        self.model, self.count = model, count
        self.rate, self.best, self.idle, self.epochs = float(model.learning_rate_init), np.inf, 0, 0

    def ends(self, loss: float) -> bool:
        """Take over an epoch's loss; whether it was the last."""
        self.epochs += 1
        self.idle = self.idle + 1 if loss > self.best - self.model.tol else 0
        self.best = min(self.best, loss)
        if self.model.solver == "sgd" and self.model.learning_rate == "invscaling":
            self.rate = self.model.learning_rate_init / (self.epochs * self.count + 1) ** self.model.power_t
        return self.epochs >= self.model.max_iter or (self.idle > self.model.n_iter_no_change and self._gives_up())

    def _gives_up(self) -> bool:
        """Whether nothing is left to try; `adaptive` first tries smaller rates."""
        adaptive = self.model.solver == "sgd" and self.model.learning_rate == "adaptive"
        if not adaptive or self.rate <= LEAST_RATE:
            return True
        self.rate, self.idle = self.rate / 5, 0
        return False

    @property
    def steady(self) -> bool:
        """Whether the rate of the epochs to come is known already."""
        return bool(self.model.solver == "adam" or self.model.learning_rate == "constant")


def _trained(model: Any, rows: np.ndarray, truth: np.ndarray, layers: Layers, state: np.random.RandomState) -> Layers:
    """Return the layers after training: some epochs in each call of the compiled loop, until patience ends."""
    import jax

    count = len(rows)
    batch = min(200, count) if model.batch_size == "auto" else int(np.clip(model.batch_size, 1, count))
    rule = Rule(
        model.activation, model.solver, float(model.alpha), batch, float(model.momentum), model.nesterovs_momentum,
        float(model.beta_1), float(model.beta_2), float(model.epsilon), float(model.learning_rate_init),
    )  # fmt: skip
    patience, orders, epochs = _Patience(model, count), _orders(model, count, state), _epochs(rule)
    together = min(max(1, -(-STEPS_TOGETHER * batch // count)), model.max_iter) if patience.steady else 1
    with jax.enable_x64(True):
        table, targets = jax.numpy.asarray(rows), jax.numpy.asarray(truth)
        zeros = [tuple(np.zeros_like(part) for part in layer) for layer in layers]
        current: Any = (layers, zeros, zeros, 0.0)
        while True:
            order = np.stack([next(orders) for _ in range(together)]).astype(np.int32)
            current, losses, passed = epochs(table, targets, current, order, patience.rate)
            for epoch, loss in enumerate(np.asarray(losses)):
                if patience.ends(float(loss)):
                    return [(np.asarray(w)[epoch], np.asarray(b)[epoch]) for w, b in passed]


@cache
def _epochs(rule: Rule) -> Callable[..., Any]:
    """Return the compiled function of some epochs: the state after them, each epoch's loss, and the layers after it."""
    import jax

    def epochs(table: Any, truth: Any, state: Any, orders: Any, rate: Any) -> Any:
        count, whole = len(table), len(table) // rule.batch

        def step(state: Any, batch: Any) -> Any:
            layers, first, second, time = state
            loss, slopes = _loss_and_slopes(rule, layers, table[batch], truth[batch])
            taken = _adam if rule.solver == "adam" else _momentum
            layers, first, second = taken(rule, layers, slopes, first, second, time + 1, rate)
            return (layers, first, second, time + 1), loss * len(batch)

        def epoch(state: Any, order: Any) -> Any:
            batches = order[: whole * rule.batch].reshape(whole, rule.batch)
            state, losses = jax.lax.scan(step, state, batches)
            total = losses.sum()
            if count % rule.batch:
                state, last = step(state, order[whole * rule.batch :])
                total += last
            return state, (total / count, state[0])

        state, (losses, passed) = jax.lax.scan(epoch, state, orders)
        return state, losses, passed

    return jax.jit(epochs)


def _loss_and_slopes(rule: Rule, layers: Any, rows: Any, truth: Any) -> tuple[Any, Any]:
    """Return a batch's loss, penalty included, and its gradients layer by layer."""
    import jax.numpy as jnp

    inputs = _passed(rule.activation, layers, rows, jnp)
    chances = _chances(inputs[-1] @ layers[-1][0] + layers[-1][1], jnp)
    penalty = sum((weights**2).sum() for weights, _ in layers)
    loss = _log_loss(chances, truth) + rule.alpha / 2 * penalty / len(rows)
    errors, slopes = chances - truth, []
    for place in range(len(layers) - 1, -1, -1):
        weights, inside = layers[place][0], inputs[place]
        slopes.append(((inside.T @ errors + rule.alpha * weights) / len(rows), errors.mean(0)))
        if place:
            errors = (errors @ weights.T) * _slope(rule.activation, inside)
    return loss, slopes[::-1]


def _log_loss(chances: Any, truth: Any) -> Any:
    """Return the mean log loss, of probabilities kept from 0 and 1 as scikit-learn keeps them."""
    import jax.numpy as jnp

    tiny = np.finfo(float).eps
    kept = jnp.clip(chances, tiny, 1 - tiny)
    both = truth * jnp.log(kept) + ((1 - truth) * jnp.log(1 - kept) if truth.shape[1] == 1 else 0.0)
    return -both.mean(0).sum()


def _adam(rule: Rule, layers: Any, slopes: Any, first: Any, second: Any, time: Any, _: Any) -> Any:
    """Return layers and moments after a step of Adam (Kingma & Ba 2015)."""
    import jax
    import jax.numpy as jnp

    first = jax.tree.map(lambda m, g: rule.beta_1 * m + (1 - rule.beta_1) * g, first, slopes)
    second = jax.tree.map(lambda v, g: rule.beta_2 * v + (1 - rule.beta_2) * g**2, second, slopes)
    rate = rule.rate * jnp.sqrt(1 - rule.beta_2**time) / (1 - rule.beta_1**time)
    moved = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + rule.epsilon), layers, first, second)
    return moved, first, second


def _momentum(rule: Rule, layers: Any, slopes: Any, first: Any, second: Any, _: Any, rate: Any) -> Any:
    """Return layers and velocities after a step with momentum, looking ahead where Nesterov's is asked for."""
    import jax

    first = jax.tree.map(lambda v, g: rule.momentum * v - rate * g, first, slopes)
    taken = jax.tree.map(lambda v, g: rule.momentum * v - rate * g, first, slopes) if rule.nesterov else first
    return jax.tree.map(lambda w, u: w + u, layers, taken), first, second


def _passed(activation: str, layers: Any, rows: Any, of: Any) -> list[Any]:
    """Return what enters each layer."""
    inputs = [rows]
    for weights, shifts in layers[:-1]:
        inputs.append(_activated(activation, inputs[-1] @ weights + shifts, of))
    return inputs


def _activated(name: str, values: Any, of: Any) -> Any:
    """Return what leaves hidden units; `of` is NumPy, or JAX's."""
    if name == "identity":
        return values
    if name == "logistic":
        return 1 / (1 + of.exp(-values))
    return of.tanh(values) if name == "tanh" else of.maximum(values, 0.0)


def _slope(name: str, left: Any) -> Any:
    """Return the derivative of an activation from what left the units."""
    return {"identity": 1.0, "logistic": left * (1 - left), "tanh": 1 - left**2}.get(name, left > 0)


def _chances(logits: Any, of: Any) -> Any:
    """Return probabilities: of the second class, or of each of several."""
    if logits.shape[1] == 1:
        return 1 / (1 + of.exp(-logits))
    raised = of.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def _output(rows: np.ndarray, layers: Layers, activation: str) -> np.ndarray:
    """Return scores [row] of the second class, or [row, class]."""
    with np.errstate(over="ignore", invalid="ignore"):
        inputs = _passed(activation, layers, rows, np)
        chances: np.ndarray = _chances(inputs[-1] @ layers[-1][0] + layers[-1][1], np)
    return chances[:, 0] if chances.shape[1] == 1 else chances
