"""Does an implementation of DP-SGD do what its privacy accounting assumes? A white-box test of its single steps.

Membership attacks on final models are blunt: noise that is the same in every step, or sums divided by the true batch
size, need thousands of trainings to show. Here the problem is crafted so that every step's update is known but for the
noise, and a few hundred steps decide:

    canary    one row, alone in the first feature, with a gradient far above the clipping norm
    others    rows that all pull at the second feature alike, so that it counts the batch
    silence   features that no row has: what moves there is noise

Under the hypothesis that the implementation is right every test below has an exact p-value, whatever the seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtr, chdtrc, ndtr, stdtr

from seedscope.core import Number, require, require_count, require_positive, require_probability

CANARY, COUNTER, FIRST_SILENT = 0, 1, 2  # features
SILENT = 200
LENGTH = 4.0  # of every row; gradients are this long times the residual, about a half
RATE = 0.5
LEAST_ROWS = 32
ROWS_PER_NOISE = 16  # rows for each unit of squared noise: batch sizes must vary twice as much as the noise
DRIFT = 0.5  # how far a logit may move in all: residuals stay near a half
PARTS_OF_GRADIENT = 0.05  # the clipping norm, against gradients of about 2


@dataclass(frozen=True, eq=False)
class CanaryProblem:
    """What an implementation is asked to train: logistic regression on these rows, with these settings of DP-SGD.

    Batches are Poisson: each row is drawn with `sampling_probability`, independently. Gradients are clipped to
    `clipping_norm`, their sum gets noise of standard deviation `noise_multiplier · clipping_norm` and is divided by
    the expected `batch_size`. Plain steps of `learning_rate`: no momentum, no weight decay, no schedule.
    """

    features: np.ndarray
    labels: np.ndarray
    sampling_probability: float
    batch_size: int
    noise_multiplier: float
    clipping_norm: float
    learning_rate: float
    steps: int

    @classmethod
    def craft(cls, noise_multiplier: float, steps: int) -> CanaryProblem:
        """Return the problem for a noise: enough rows for the batch size to show through it."""
        rows = 2 * math.ceil(max(LEAST_ROWS, ROWS_PER_NOISE * noise_multiplier**2) / 2)
        features = np.zeros((rows, FIRST_SILENT + SILENT))
        features[0, CANARY] = features[1:, COUNTER] = LENGTH
        labels = (np.arange(rows) == 0).astype(int)
        size = round(RATE * rows)
        rate = DRIFT / (LENGTH * PARTS_OF_GRADIENT * steps)
        return cls(features, labels, RATE, size, noise_multiplier, PARTS_OF_GRADIENT, rate, steps)


@dataclass(frozen=True)
class Finding:
    """One property of the steps: its exact p-value if the implementation is right, and what was seen."""

    name: str
    p_value: float
    failed: bool
    seen: str
    meaning: str


@dataclass(frozen=True)
class CanaryCheck:
    """What the steps of an implementation showed; a right one fails with probability at most 1 − `confidence`."""

    findings: tuple[Finding, ...]
    confidence: float
    steps: int

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.failures

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The properties that do not hold."""
        return tuple(finding for finding in self.findings if finding.failed)

    def number(self, name: str) -> Number:
        """Return the p-value of one finding as a number with its kind."""
        finding = next(known for known in self.findings if known.name == name)
        return Number(finding.p_value, "statistical", confidence=self.confidence, note=finding.seen)

    def __str__(self) -> str:
        head = "passed" if self.passed else f"FAILED: {', '.join(failure.name for failure in self.failures)}"
        lines = [f"DP-SGD canary check over {self.steps:,} steps at {100 * self.confidence:g} %: {head}"]
        for finding in self.findings:
            mark, why = ("✗", f" {finding.meaning}") if finding.failed else ("✓", "")
            lines.append(f"  {mark} {finding.name}: {finding.seen} (p = {finding.p_value:.2g}).{why}")
        return "\n".join(lines)


Implementation = Callable[[CanaryProblem, int], ArrayLike]


def canary_check(
    implementation: Implementation,
    *,
    noise_multiplier: float = 1.0,
    steps: int = 300,
    runs: int = 2,
    confidence: float = 0.999,
) -> CanaryCheck:
    """Return whether an implementation's single steps are those that DP-SGD's accounting is about.

    Catches noise that is forgotten, of another size or repeated; clipping that is forgotten or too generous; sums that
    are divided by the true instead of the expected batch size, and batches that are not Poisson.

    Args:
        implementation: called as `implementation(problem, seed)` for seeds 0 … runs − 1; trains logistic regression
            (one logit, with or without a bias) on `problem` and returns the weights after every step, [step, weight],
            the start before them or not, the bias last. Any initial weights of size below ¼ will do.
        noise_multiplier: the noise to test with; its own is best, and small ones show most.
        steps: of each run.
        runs: at least 2, so that noise that ignores the seed is found.
        confidence: a right implementation passes at least so often; split evenly over the tests.

    >>> def right(problem, seed):
    ...     draw = np.random.default_rng(seed)
    ...     weights = [np.zeros(problem.features.shape[1])]
    ...     for _ in range(problem.steps):
    ...         batch = draw.random(len(problem.labels)) < problem.sampling_probability
    ...         residuals = 1 / (1 + np.exp(-problem.features @ weights[-1])) - problem.labels
    ...         gradients = residuals[:, None] * problem.features
    ...         norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    ...         clipped = gradients * np.minimum(1, problem.clipping_norm / norms)
    ...         noise = problem.noise_multiplier * problem.clipping_norm * draw.normal(size=weights[-1].shape)
    ...         update = (clipped[batch].sum(0) + noise) / problem.batch_size
    ...         weights.append(weights[-1] - problem.learning_rate * update)
    ...     return weights
    >>> canary_check(right).passed
    True

    In the spirit of Nasr et al. 2023, "Tight auditing of differentially private machine learning" (gradient canaries),
    and of Tramèr et al. 2022, "Debugging differential privacy".
    """
    require_positive("noise_multiplier", noise_multiplier)
    require_count("steps", steps, at_least=50)
    require_count("runs", runs, at_least=2)
    require_probability("confidence", confidence)
    problem = CanaryProblem.craft(noise_multiplier, steps)
    sums = np.concatenate([_noisy_sums(implementation(problem, seed), problem, seed) for seed in range(runs)])
    level = (1 - confidence) / len(TESTS)
    findings = tuple(_finding(name, test(sums, problem), level) for name, test in TESTS.items())
    return CanaryCheck(findings, confidence, len(sums))


def _noisy_sums(weights: ArrayLike, problem: CanaryProblem, seed: int) -> np.ndarray:
    """Return each step's noisy sum of gradients in units of the clipping norm [step, weight], from the weights."""
    path = np.asarray(weights, float)
    width, steps = problem.features.shape[1], problem.steps
    fits = path.ndim == 2 and path.shape[0] in (steps, steps + 1) and path.shape[1] in (width, width + 1)
    require(
        fits,
        f"an implementation must return weights [step, weight] of {steps} steps and {width} weights, with or without "
        f"the start and the bias; with seed {seed} their shape was {path.shape}.",
    )
    require(np.isfinite(path), f"weights must be finite, with seed {seed} they were not.")
    return -np.diff(path, axis=0) * (problem.batch_size / (problem.learning_rate * problem.clipping_norm))


def _share(sums: np.ndarray, problem: CanaryProblem) -> float:
    """Return a clipped gradient's length along its feature: where there is a bias, that takes its part."""
    has_bias = sums.shape[1] > problem.features.shape[1]
    return LENGTH / math.hypot(LENGTH, 1.0) if has_bias else 1.0


def _silence(sums: np.ndarray) -> np.ndarray:
    """Return what moved features that no row has [step, silent feature]."""
    return sums[:, FIRST_SILENT : FIRST_SILENT + SILENT]


def noise_size(sums: np.ndarray, problem: CanaryProblem) -> tuple[float, str]:
    """Return the p-value of "the noise has its standard deviation", two-sided, and what was seen: a χ² test."""
    silence = _silence(sums) / problem.noise_multiplier
    total = float((silence**2).sum())
    below, above = chdtr(silence.size, total), chdtrc(silence.size, total)
    return float(min(1.0, 2 * min(below, above))), f"{np.sqrt(total / silence.size):.4g} times as large as it should be"


def fresh_noise(sums: np.ndarray, problem: CanaryProblem) -> tuple[float, str]:
    """Return the p-value of "each step's noise is its own": the largest correlation between two steps, all pairs."""
    silence = _silence(sums)
    lengths = np.linalg.norm(silence, axis=1, keepdims=True)
    if np.any(lengths == 0):
        return 1.0, "there is none to compare"
    turned = silence / lengths
    pairs = np.triu_indices(len(turned), 1)
    largest = float(min(np.abs((turned @ turned.T)[pairs]).max(), 1.0))
    # a random direction's coordinate c in d dimensions: c√((d−1)/(1−c²)) has Student's law with d − 1 degrees
    t = largest * math.sqrt((SILENT - 1) / max(1 - largest**2, 1e-300))
    alone = 2 * float(stdtr(SILENT - 1, -t))
    return min(1.0, len(pairs[0]) * alone), f"two steps' noise correlates by at most {largest:.3g}"


def canary_clipped(sums: np.ndarray, problem: CanaryProblem) -> tuple[float, str]:
    """Return the p-value of "no gradient counts more than the clipping norm", from the largest pull of the canary."""
    pulls = np.abs(sums[:, CANARY])
    largest = float(pulls.max())
    beyond = (largest - _share(sums, problem)) / problem.noise_multiplier
    alone = 2 * float(ndtr(-max(beyond, 0.0)))
    return min(1.0, len(pulls) * alone), f"the canary pulled by at most {largest:.4g} clipping norms, noise included"


def batch_counted(sums: np.ndarray, problem: CanaryProblem) -> tuple[float, str]:
    """Return the p-value of "sums grow with a Poisson batch", by Kolmogorov's test of their known distribution."""
    from scipy.special import xlog1py, xlogy
    from scipy.stats import kstest

    others = len(problem.labels) - 1
    counts = np.arange(others + 1)
    choices = np.array([math.lgamma(others + 1) - math.lgamma(k + 1) - math.lgamma(others - k + 1) for k in counts])
    q = problem.sampling_probability
    chances = np.exp(choices + xlogy(counts, q) + xlog1py(others - counts, -q))
    share, noise = _share(sums, problem), problem.noise_multiplier

    def expected(values: np.ndarray) -> np.ndarray:
        share_below: np.ndarray = ndtr((np.asarray(values)[..., None] - share * counts) / noise) @ chances
        return share_below

    seen = sums[:, COUNTER]
    wanted = math.sqrt(share**2 * others * q * (1 - q) + noise**2)
    words = (
        f"sums vary by {seen.std():.3g} around {seen.mean():.3g}, expected {wanted:.3g} around {share * others * q:.3g}"
    )
    return float(kstest(seen, expected).pvalue), words


TESTS = {
    "noise size": noise_size,
    "fresh noise": fresh_noise,
    "clipping": canary_clipped,
    "batch size": batch_counted,
}
MEANINGS = {
    "noise size": "The noise is not σ·C on the sum: forgotten, scaled by something else, or divided twice.",
    "fresh noise": "Noise is used again: averaging over the steps, or over runs, removes it.",
    "clipping": "A gradient counts more than the clipping norm: clipping is forgotten, or too generous.",
    "batch size": "Sums are not divided by the expected size of Poisson batches: by the true size, whose change tells "
    "that somebody is there; or clipping comes after averaging; or batches are drawn in another way. The accounting "
    "covers none of these.",
}


def _finding(name: str, test: tuple[float, str], level: float) -> Finding:
    """Return a test's finding at its share of the false-alarm level."""
    p_value, seen = test
    return Finding(name, p_value, p_value < level, seen, MEANINGS[name])
