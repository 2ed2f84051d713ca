"""Linear models that our own code trains on a dense table of numbers, as it is or after a `StandardScaler`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedscope.integrations.moved_training import MovedTraining, Sample, before_and_last


@dataclass(frozen=True, eq=False)
class LinearTraining(MovedTraining):
    """Trains linear models; a scaler is fitted on each sample, as it is in the pipeline."""

    @property
    def numbers(self) -> np.ndarray:
        """The table in double precision."""
        return np.asarray(self.table, float)

    @property
    def scaled(self) -> bool:
        """Whether a scaler comes first."""
        return before_and_last(self.code)[0] is not None

    def foreign(self) -> str:
        before = before_and_last(self.code)[0]
        steps = [] if before is None else [step for _, step in before.steps]
        if len(steps) > 1 or not all(map(_standardises, steps)):
            return "what comes before it in its pipeline is its own"
        return "" if _is_numbers(self.table) else "X is not a table of numbers"

    def counts(self, samples: Sequence[Sample]) -> np.ndarray:
        """Return how often each row of the table is in each sample, [model, row]."""
        return np.stack([np.bincount(sample.rows, minlength=len(self.labels)) for sample in samples])


def _standardises(step: Any) -> bool:
    """Whether a step subtracts means and divides by standard deviations, and is scikit-learn's own."""
    own = type(step).__module__.startswith("sklearn.") and type(step).__name__ == "StandardScaler"
    return bool(own and step.with_mean and step.with_std)


def _is_numbers(table: Any) -> bool:
    """Whether a table is dense and all of it finite numbers."""
    try:
        return bool(np.isfinite(np.asarray(table, float)).all()) and np.ndim(table) == 2
    except (TypeError, ValueError):
        return False


def margin_scores(margins: np.ndarray) -> np.ndarray:
    """Return scores [model, probe] of margins [model, 1, probe]; or [model, probe, class] of several classes'."""
    from scipy.special import expit, softmax

    if margins.shape[1] == 1:
        return np.asarray(expit(margins[:, 0]))
    return np.asarray(softmax(margins, axis=1).transpose(0, 2, 1))


def own_moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations [feature] of rows, to the last bit as a `StandardScaler` has them.

    Steps on them go on magnifying whatever is rounded in another way.
    """
    centre = rows.mean(0)
    apart = rows - centre
    variance = (apart**2).mean(0) - apart.mean(0) ** 2
    return centre, _varying(np.sqrt(variance), centre)


def moments(table: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations [model, feature] of samples; a column that does not vary has 1."""
    sizes = counts.sum(1, keepdims=True)
    centre = table.mean(0)  # of all, so that squares do not cancel
    first = counts @ (table - centre) / sizes
    second = counts @ (table - centre) ** 2 / sizes - first**2
    return first + centre, _varying(np.sqrt(second.clip(0)), first + centre)


def _varying(spread: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return standard deviations, with 1 for a column that does not vary."""
    constant = spread <= 10 * np.finfo(float).eps * np.maximum(1.0, np.abs(centre))
    return np.where(constant, 1.0, spread)
