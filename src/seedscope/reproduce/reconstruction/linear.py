"""BR Figures 2–4: zeros against ones of MNIST by output-perturbed logistic regression, its leakage, the attack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import seedscope as ss
from seedscope.analyses.reconstruction import AttackErrors

L2 = 1e-2
NOISE, ATTACKED_NOISE = 1e-2, 1e-5
MODELS = 10  # noisy models whose test accuracy is averaged
SHOWN = 8  # records shown of the highest leakage, and of the lowest


@dataclass(frozen=True, eq=False)
class Digits:
    """The images of zeros and ones as rows [record, pixel] in [0, 1], labels, and the minimiser, its bias last."""

    features: np.ndarray
    labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    weights: np.ndarray

    @property
    def norm_bound(self) -> float:
        """The largest norm of a row with its bias: taken from the data, so what follows from it is an estimate."""
        return float(np.sqrt((self.features.astype(float) ** 2).sum(axis=1).max() + 1))


@dataclass(frozen=True, eq=False)
class LinearOutcome:
    """What the figures show: leakage at both noises [record], the attack, its guesses, and test accuracy in percent.

    `spectral` are the largest eigenvalues of the records' Fisher information at the noise of Figure 2.
    """

    digits: Digits
    dfil: np.ndarray
    spectral: np.ndarray
    attacked_dfil: np.ndarray
    attack: AttackErrors
    most: np.ndarray
    least: np.ndarray
    guesses: np.ndarray
    accuracy: float

    @property
    def bound(self) -> np.ndarray:
        """The least mean squared error of an unbiased attacker at the noise of Figure 2."""
        return 1 / self.dfil

    @property
    def attacked_bound(self) -> np.ndarray:
        """The same at the noise of Figures 3 and 4."""
        return 1 / self.attacked_dfil


def linear_outcome(trials: int, seed: int = 0) -> LinearOutcome:
    """Return the leakage of all 12,665 records and the attack on them in this many trials."""
    problem, draw = digits(), np.random.default_rng(seed)
    arguments = (problem.features, problem.labels, problem.weights, L2)
    dfil = ss.reconstruction.logistic_dfil(*arguments, NOISE)
    spectral = ss.reconstruction.logistic_spectral_norm(*arguments, NOISE)
    attack = ss.reconstruction.attack_errors(*arguments, ATTACKED_NOISE, trials, draw, box=(0.0, 1.0))
    order = np.argsort(-dfil)
    most, least = order[:SHOWN], order[: -SHOWN - 1 : -1]
    released = problem.weights + ATTACKED_NOISE * draw.normal(size=problem.weights.shape)
    guesses = ss.reconstruction.attack_reconstructions(
        problem.features, problem.labels, released, L2, np.append(most, least)
    )
    # σ only scales the information, so one pass serves both noises.
    attacked = dfil * (NOISE / ATTACKED_NOISE) ** 2
    accuracy = mean_test_accuracy(problem, draw)
    return LinearOutcome(problem, dfil, spectral, attacked, attack, most, least, guesses, accuracy)


def digits() -> Digits:
    """Return the zeros and ones of MNIST with the minimiser of the mean log-loss, bias and weights regularised."""
    data = ss.load("mnist")
    train, test = (part.take(np.flatnonzero(part.labels < 2)) for part in (data.train, data.test))
    features, test_features = (part.features.reshape(len(part), -1) for part in (train, test))
    weights = ss.training.minimiser(features, train.labels, L2)
    return Digits(features, train.labels, test_features, test.labels, weights)


def mean_test_accuracy(problem: Digits, draw: np.random.Generator) -> float:
    """Return the mean test accuracy of noisy models, in percent."""
    weights = problem.weights + NOISE * draw.normal(size=(MODELS, len(problem.weights)))
    decisions = weights[:, :-1] @ problem.test_features.T + weights[:, -1:] > 0
    return 100 * float((decisions == problem.test_labels).mean())
