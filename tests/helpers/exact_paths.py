"""One-dimensional DP-SGD whose divergences are known exactly: by transfer operators on a grid of states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from seedscope.accounting import sampled_gaussian_rdp


@dataclass(frozen=True)
class Problem:
    """A state x moves by −η(pull·clip(x) + B·g(x) + σ·noise), B the person's being in the batch, g their gradient.

    All divergences are of the whole trajectory, with the person (P) against without (Q), C = 1.
    """

    name: str
    gradient: Callable[[np.ndarray], np.ndarray]
    steps: int = 30
    q: float = 0.2
    sigma: float = 2.0
    rate: float = 0.2
    start: float = 0.0
    spread: float = 0.0
    pull: float = 2.0

    @cached_property
    def states(self) -> np.ndarray:
        """The grid of states."""
        return np.linspace(-6, 6, 321)

    @cached_property
    def norms(self) -> np.ndarray:
        """The person's clipped norm at each state."""
        return np.asarray(np.abs(self.gradient(self.states)))

    @cached_property
    def initial(self) -> np.ndarray:
        """The law of the initial state."""
        if not self.spread:
            return np.asarray(np.arange(len(self.states)) == np.abs(self.states - self.start).argmin(), float)
        weights = np.exp(-((self.states - self.start) ** 2) / (2 * self.spread**2))
        return np.asarray(weights / weights.sum())

    @cached_property
    def kernel_without(self) -> np.ndarray:
        """The chances to go from a state (row) to a state (column) without the person."""
        seen, width = self._seen, self.states[1] - self.states[0]
        density = np.exp(-(seen**2) / (2 * self.sigma**2)) / np.sqrt(2 * np.pi) / (self.rate * self.sigma)
        return np.asarray(density * width)

    @cached_property
    def ratio(self) -> np.ndarray:
        """dP/dQ of going from a state to a state."""
        g = self.gradient(self.states)[:, None]
        return np.asarray(1 - self.q + self.q * np.exp((2 * self._seen * g - g**2) / (2 * self.sigma**2)))

    @property
    def _seen(self) -> np.ndarray:
        """Noise plus the person's part that lead from a state to a state."""
        x = self.states
        mean: np.ndarray = (x - self.rate * self.pull * np.clip(x, -1, 1))[:, None]
        return np.asarray((mean - x) / self.rate)

    def kernel(self, with_person: bool) -> np.ndarray:
        """Return the transitions of runs with the person, or without."""
        return self.kernel_without * self.ratio if with_person else self.kernel_without

    def truth(self, order: float, with_person: bool) -> float:
        """Return D_α(P‖Q), or D_α(Q‖P) for runs without the person."""
        kernel, value = self.kernel_without * self.ratio ** (order if with_person else 1 - order), 1.0
        values = np.full(len(self.states), value)
        for _ in range(self.steps):
            values = kernel @ values
        return float(np.log(self.initial @ values) / (order - 1))

    def by_paths(self, order: float, path_order: float, with_person: bool) -> float:
        """Return (1/t) ln E exp(t Σ D_α'(s_j)) with the exact expectation."""
        t, kernel = (path_order - 1) * (order - 1) / (path_order - order), self.kernel(with_person)
        step, logs = t * self.divergences(path_order), np.zeros(len(self.states))
        for _ in range(self.steps):
            top = logs.max()
            logs = step + top + np.log(np.maximum(kernel @ np.exp(logs - top), 1e-300))
        kept = self.initial > 0
        top = logs[kept].max()
        return float(top + np.log(self.initial[kept] @ np.exp(logs[kept] - top))) / t

    def by_steps(self, order: float, holder: float, with_person: bool) -> float:
        """Return GLA's composition with the exact law of every state."""
        kernel, law, total = self.kernel(with_person), self.initial, 0.0
        for back in range(self.steps - 1, -1, -1):
            raised = 1 + (holder / (holder - 1)) ** back * (order - 1)
            t, kept = holder * (raised - 1), law > 1e-300
            exponents = t * self.divergences(raised)[kept]
            total += (exponents.max() + np.log(law[kept] @ np.exp(exponents - exponents.max()))) / t
            law = law @ kernel
        return float(total)

    def baseline(self, order: float) -> float:
        """Return the data-independent divergence."""
        return self.steps * float(sampled_gaussian_rdp(1.0, self.sigma, self.q, order))

    def divergences(self, order: float) -> np.ndarray:
        """Return the divergence of a step at each state, rounded up to one of few norms."""
        edges, table = _divergence_table(self.sigma, self.q, order)
        return table[np.searchsorted(edges, self.norms)]

    def runs(self, shape: tuple[int, ...], with_person: bool, seed: int) -> np.ndarray:
        """Return the person's norms [step, *shape] along simulated runs."""
        draw = np.random.default_rng(seed)
        x, norms = self.start + self.spread * draw.standard_normal(shape), []
        for _ in range(self.steps):
            g = self.gradient(x)
            norms.append(np.abs(g).astype(np.float32))
            drawn = (draw.random(shape) < self.q) & with_person
            x = x - self.rate * (self.pull * np.clip(x, -1, 1) + drawn * g + self.sigma * draw.standard_normal(shape))
        return np.stack(norms)


@lru_cache(maxsize=4096)
def _divergence_table(sigma: float, q: float, order: float) -> tuple[np.ndarray, np.ndarray]:
    """Return norms and the divergences of steps there."""
    edges = np.append(np.geomspace(1e-3, 1.0, 400)[:-1], 1.0)
    return edges, np.asarray(sampled_gaussian_rdp(edges, sigma, q, order))


PROBLEMS = (
    Problem("inlier", lambda x: np.clip(x, -1, 1), q=0.3, sigma=1.5),
    Problem("beside", lambda x: np.clip(x - 0.7, -1, 1)),
    Problem("outlier", lambda x: np.clip(x - 3, -1, 1), sigma=2.5, rate=0.1),
    Problem("learned", lambda x: np.clip(x, -1, 1), steps=40, q=0.15, rate=0.15, start=3.0),
    Problem("logistic", lambda x: -1 / (1 + np.exp(3 * (x + 0.5)))),
    Problem("rare", lambda x: -1 / (1 + np.exp(-8 * (x - 1))), steps=20, q=0.3, rate=0.25),
    Problem("varied start", lambda x: np.clip(x, -1, 1), steps=20, q=0.3, spread=1.0),
)
ORDERS = (1.25, 1.5, 2.0, 3.0)
RATIOS = (1.02, 1.1, 1.2, 1.4, 1.7)  # of α'−1 to α−1
