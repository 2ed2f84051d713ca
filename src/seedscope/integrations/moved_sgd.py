"""`SGDClassifier` on our own engine: the same steps on the same examples in the same order, for many seeds at once.

scikit-learn shuffles the order of the examples before every epoch with one and the same generator (a 32-bit xorshift,
Marsaglia 2003, started anew from a seed that the random state draws), so each epoch's order is the last one's,
permuted as before. Each model has a lane; a lane whose model has stopped takes the next one, so lanes never wait.
Several classes are one model against the rest each, as they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from seedscope.integrations.moved_linear import LinearTraining, margin_scores, own_moments
from seedscope.integrations.moved_training import SINGLE, Sample, before_and_last, in_single_precision

LANES, FEW_LANES = 64, 16  # models under way together; and once nobody waits any more
LOSSES = ("hinge", "log_loss", "modified_huber", "perceptron", "squared_hinge")
RATES = ("adaptive", "constant", "invscaling", "optimal")
LEAST_RATE = 1e-6  # below which `adaptive` stops
LARGEST = 1e12  # derivative of a loss
MOST_CELLS = 30_000  # rows × features: 2,000 × 14 took us 0.6 of its own time, 1,000 × 100 1.1


@dataclass(frozen=True)
class Rule:
    """What a step does: settings of an `SGDClassifier` that our engine has."""

    loss: str
    rate: str
    alpha: float
    penalised: bool
    intercept: bool
    eta0: float
    power_t: float
    scaled: bool

    @property
    def first_time(self) -> float:
        """What is added to the time of the `optimal` rate, so that it begins as large as a weight typically is."""
        return float(1 / (np.sqrt(1 / np.sqrt(self.alpha)) * self.alpha))


@dataclass(frozen=True)
class Stop:
    """When a model has been trained enough."""

    epochs: int
    tolerance: float
    patience: int


@dataclass(frozen=True, eq=False)
class SgdTraining(LinearTraining):
    """Takes the steps of many stochastic gradient descents at once."""

    quicker: ClassVar[int] = 6
    needs_networks: ClassVar[bool] = True

    def foreign(self) -> str:
        return super().foreign() or self._better_left() or _foreign_settings(self.last)

    def coefficients(self, samples: Sequence[Sample]) -> np.ndarray:
        return self._weights(samples).reshape(len(samples), -1)

    def coefficients_of(self, fitted: Any) -> np.ndarray:
        model = before_and_last(fitted)[1]
        return np.column_stack([model.coef_, np.broadcast_to(model.intercept_, len(model.coef_))]).ravel()

    def scored(self, samples: Sequence[Sample], probes: np.ndarray) -> np.ndarray:
        weights, rows = self._weights(samples), self.numbers[probes]
        centres, spreads = self._scaling(samples)
        slopes = weights[..., :-1] / spreads[:, None]
        shifts = weights[..., -1] - np.einsum("mkj,mj->mk", slopes, centres)
        return _as_scores(slopes @ rows.T + shifts[..., None], self.last.loss)

    def _better_left(self) -> str:
        """Return why a table is better left to scikit-learn's own loop; empty where it is not."""
        if in_single_precision(self.table):
            return SINGLE
        cells = np.size(self.table)
        return f"on {cells:,} cells its own loop is as fast" if cells > MOST_CELLS else ""

    def _scaling(self, samples: Sequence[Sample]) -> tuple[np.ndarray, np.ndarray]:
        """Return what is subtracted from rows and what they are divided by, [model, feature]."""
        if not self.scaled:
            shape = (len(samples), np.shape(self.table)[1])
            return np.zeros(shape), np.ones(shape)
        centres, spreads = zip(*(own_moments(self.numbers[sample.rows]) for sample in samples), strict=True)
        return np.stack(centres), np.stack(spreads)

    def _weights(self, samples: Sequence[Sample]) -> np.ndarray:
        """Return weights [model, class, feature + 1], the intercept last; of two classes only the second's."""
        truth, classes = np.searchsorted(self.classes, self.labels), len(self.classes)
        weights = np.empty((len(samples), 1 if classes == 2 else classes, np.shape(self.table)[1] + 1))
        seeds = np.stack([_seeds(sample, weights.shape[1]) for sample in samples])
        centres, spreads = self._scaling(samples)
        for count in {len(sample.rows) for sample in samples}:  # a sample without somebody is one shorter
            which = [place for place, sample in enumerate(samples) if len(sample.rows) == count]
            lanes = [(place, k) for place in which for k in range(weights.shape[1])]
            models, positive = (np.array(part) for part in zip(*lanes, strict=True))
            tasks = Tasks(
                np.column_stack([self.numbers, truth]),
                np.stack([samples[place].rows for place in models]),
                seeds[models, positive],
                np.ones_like(positive) if classes == 2 else positive,
                centres[models],
                spreads[models],
            )
            weights[models, positive] = descended(tasks, self._rule(), self._stop(), bool(self.last.shuffle))
        return weights

    def _rule(self) -> Rule:
        """Return what a step does."""
        model = self.last
        penalised = model.penalty is not None
        return Rule(
            model.loss, model.learning_rate, model.alpha, penalised, model.fit_intercept, model.eta0, model.power_t,
            self.scaled,
        )  # fmt: skip

    def _stop(self) -> Stop:
        """Return when to stop."""
        tolerance = -np.inf if self.last.tol is None else self.last.tol
        return Stop(int(self.last.max_iter), float(tolerance), int(self.last.n_iter_no_change))


@dataclass(frozen=True, eq=False)
class Tasks:
    """What models are trained on: a table, its last column the class; of each model rows, seed, class, scaling."""

    table: np.ndarray
    rows: np.ndarray
    seeds: np.ndarray
    positive: np.ndarray
    centres: np.ndarray
    spreads: np.ndarray


def _foreign_settings(model: Any) -> str:
    """Return which setting of an `SGDClassifier` our engine does not have; empty for none."""
    if model.loss not in LOSSES or model.learning_rate not in RATES:
        return f"loss={model.loss!r} with learning_rate={model.learning_rate!r} is its own"
    if model.penalty not in ("l2", None):
        return f"penalty={model.penalty!r} is its own"
    if model.early_stopping or model.average or model.warm_start or model.class_weight is not None:
        return "early_stopping, average, warm_start and class_weight are its own"
    if model.tol is not None and _version() < (1, 9):
        return "its rule for stopping is that of an older scikit-learn"
    return ""


def _version() -> tuple[int, ...]:
    """Return scikit-learn's version."""
    import sklearn

    return tuple(int(part) for part in sklearn.__version__.split(".")[:2])


def _seeds(sample: Sample, classes: int) -> np.ndarray:
    """Return the seed of each class's order, drawn as scikit-learn draws it from its random state."""
    state = np.random.RandomState(int(sample.draw.integers(2**31 - 1)))
    largest = np.iinfo(np.int32).max
    states = [state] if classes == 1 else map(np.random.RandomState, state.randint(largest, size=classes))
    return np.array([(state.randint(1, largest), state.randint(largest))[1] for state in states], np.uint32)


def shuffles(seeds: np.ndarray, count: int) -> np.ndarray:
    """Return the permutation [place, model] that scikit-learn applies to the order of `count` examples every epoch.

    >>> np.sort(shuffles(np.array([7], np.uint32), 5)[:, 0]).tolist()
    [0, 1, 2, 3, 4]
    """
    state = np.where(seeds == 0, 1, seeds).astype(np.uint32)
    order = np.tile(np.arange(count, dtype=np.int32)[:, None], (1, len(seeds)))
    models = np.arange(len(seeds))
    for place in range(count - 1):
        state ^= state << np.uint32(13)
        state ^= state >> np.uint32(17)
        state ^= state << np.uint32(5)
        other = place + (state & np.uint32(2**31 - 1)) % np.uint32(count - place)
        kept = order[place].copy()
        order[place] = order[other, models]
        order[other, models] = kept
    return order


class _Lanes:
    """Models under way, one in each lane, and those that wait."""

    def __init__(self, tasks: Tasks, rule: Rule, stop: Stop, shuffle: bool):
        models, count = tasks.rows.shape
        self.tasks, self.rule, self.stop = tasks, rule, stop
        self.orders = shuffles(tasks.seeds, count) if shuffle else np.tile(np.arange(count)[:, None], (1, models))
        self.found = np.full((models, tasks.table.shape[1]), np.nan)
        self.model = np.arange(min(LANES, models))  # in each lane; −1 once nobody waits
        self.next = size = len(self.model)
        self.examples, self.order = np.ascontiguousarray(tasks.rows[:size].T), self.orders[:, :size].copy()
        self.weights, self.rate = np.zeros((size, tasks.table.shape[1])), np.full(size, rule.eta0)
        self.best, self.idle, self.epoch = np.full(size, np.inf), np.zeros(size, int), np.zeros(size)

    def shuffle(self) -> None:
        """Put the examples of every lane in the order of its next epoch."""
        size = len(self.model)
        self.examples = self.examples.ravel()[self.order * size + np.arange(size)]

    def judge(self, weights: np.ndarray, objective: np.ndarray) -> None:
        """Take over an epoch's weights; who has stopped is put down, and the next model takes the lane."""
        self.weights = weights
        self.epoch += 1
        self.idle = np.where(objective > self.best - self.stop.tolerance, self.idle + 1, 0)
        self.best = np.fmin(self.best, objective)
        waited = self.idle >= self.stop.patience
        slower = waited & (self.rule.rate == "adaptive") & (self.rate > LEAST_RATE)
        self.rate, self.idle = np.where(slower, self.rate / 5, self.rate), np.where(slower, 0, self.idle)
        broken = ~np.isfinite(weights).all(1)  # an error of scikit-learn's, which the estimator itself then says
        for lane in np.flatnonzero((waited & ~slower) | (self.epoch >= self.stop.epochs) | broken):
            self._replace(int(lane), np.nan if broken[lane] else 1.0)
        if len(self.model) > FEW_LANES >= (self.model >= 0).sum():
            self._narrow()

    def _replace(self, lane: int, kept: float) -> None:
        """Put down a lane's model and begin the next one there; without one the lane goes on in vain."""
        if self.model[lane] >= 0:
            self.found[self.model[lane]] = kept * self.weights[lane]
        self.model[lane] = self.next if self.next < len(self.found) else -1
        self.next += 1
        self.examples[:, lane] = self.tasks.rows[self.model[lane]]
        self.order[:, lane] = self.orders[:, self.model[lane]]
        self.weights[lane], self.rate[lane], self.best[lane] = 0, self.rule.eta0, np.inf
        self.idle[lane] = self.epoch[lane] = 0

    def _narrow(self) -> None:
        """Keep only few lanes, all that are still under way among them."""
        kept = np.argsort(self.model < 0, kind="stable")[:FEW_LANES]
        self.examples, self.order = self.examples[:, kept], self.order[:, kept]
        self.model, self.weights, self.rate = self.model[kept], self.weights[kept], self.rate[kept]
        self.best, self.idle, self.epoch = self.best[kept], self.idle[kept], self.epoch[kept]


def descended(tasks: Tasks, rule: Rule, stop: Stop, shuffle: bool) -> np.ndarray:
    """Return the weights [model, feature + 1] after all steps, the intercept last."""
    import jax

    lanes, epoch, count = _Lanes(tasks, rule, stop, shuffle), _epoch(rule), tasks.rows.shape[1]
    with jax.enable_x64(True):
        table = jax.numpy.asarray(tasks.table)
        while (lanes.model >= 0).any():
            lanes.shuffle()
            own = (tasks.positive[lanes.model], tasks.centres[lanes.model], tasks.spreads[lanes.model])
            state = (lanes.weights, lanes.rate, lanes.epoch * count + 1)
            weights, objective = epoch(table, lanes.examples, *own, *state)
            lanes.judge(np.array(weights), np.asarray(objective) / count)
    return lanes.found


@cache
def _epoch(rule: Rule) -> Callable[..., Any]:
    """Return the compiled function that takes every lane through one epoch: weights, and the sum of its objective."""
    import jax
    import jax.numpy as jnp

    loss_and_slope = _losses(rule.loss)

    def epoch(
        table: Any, examples: Any, positive: Any, centre: Any, spread: Any, weights: Any, rate: Any, time: Any
    ) -> Any:
        def step(state: Any, rows: Any) -> Any:
            w, b, t, objective = state
            row = table[rows]
            x, y = row[:, :-1], jnp.where(row[:, -1] == positive, 1.0, -1.0)
            x = (x - centre) / spread if rule.scaled else x
            loss, slope = loss_and_slope(y, (w * x).sum(1) + b)
            eta = _rate(rule, rate, t)
            pull = -eta * jnp.clip(slope, -LARGEST, LARGEST)
            keep = jnp.maximum(0.0, 1 - eta * rule.alpha) if rule.penalised else jnp.ones_like(eta)
            objective += loss + (rule.alpha / 2 * (w * w).sum(1) if rule.penalised else 0.0)
            w = keep[:, None] * w + pull[:, None] * x
            return (w, b + pull if rule.intercept else b, t + 1, objective), None

        start = (weights[:, :-1], weights[:, -1], time, jnp.zeros(len(weights)))
        (w, b, _, objective), _ = jax.lax.scan(step, start, examples)
        return jnp.column_stack([w, b]), objective

    return jax.jit(epoch)


def _rate(rule: Rule, current: Any, time: Any) -> Any:
    """Return the learning rate of a step."""
    if rule.rate == "optimal":
        return 1 / (rule.alpha * (rule.first_time + time - 1))
    return rule.eta0 / time**rule.power_t if rule.rate == "invscaling" else current


def _losses(name: str) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return the function (label ±1, margin) → loss and its derivative."""
    import jax.numpy as jnp

    def logistic(y: Any, p: Any) -> tuple[Any, Any]:
        return jnp.logaddexp(0.0, -y * p), -y / (1 + jnp.exp(y * p))

    def hinge(y: Any, p: Any, threshold: float = 1.0) -> tuple[Any, Any]:
        missing = threshold - y * p
        return jnp.maximum(missing, 0.0), jnp.where(missing >= 0, -y, 0.0)

    def squared_hinge(y: Any, p: Any) -> tuple[Any, Any]:
        missing = jnp.maximum(1 - y * p, 0.0)
        return missing**2, -2 * y * missing

    def modified_huber(y: Any, p: Any) -> tuple[Any, Any]:
        loss, slope = squared_hinge(y, p)
        far = y * p < -1
        return jnp.where(far, -4 * y * p, loss), jnp.where(far, -4 * y, slope)

    def perceptron(y: Any, p: Any) -> tuple[Any, Any]:
        return hinge(y, p, 0.0)

    return {
        "log_loss": logistic, "hinge": hinge, "squared_hinge": squared_hinge, "modified_huber": modified_huber,
        "perceptron": perceptron,
    }[name]  # fmt: skip


def _as_scores(margins: np.ndarray, loss: str) -> np.ndarray:
    """Return scores of margins [model, class, probe], as the estimator's own `predict_proba` or margins give them."""
    from scipy.special import expit

    if loss not in ("log_loss", "modified_huber"):
        return margin_scores(margins)
    chances = expit(margins) if loss == "log_loss" else (np.clip(margins, -1, 1) + 1) / 2
    if margins.shape[1] == 1:
        return np.asarray(chances[:, 0])
    sums = chances.sum(1, keepdims=True)
    shares = np.where(sums > 0, chances / np.where(sums > 0, sums, 1), 1 / margins.shape[1])
    largest = np.eye(margins.shape[1])[margins.argmax(1)].transpose(0, 2, 1)  # which decides where chances are equal
    decided: np.ndarray = np.where((shares.argmax(1) == margins.argmax(1))[:, None], shares, largest)
    return decided.transpose(0, 2, 1)
