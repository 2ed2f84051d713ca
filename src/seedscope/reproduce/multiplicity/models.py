"""The models behind AD's tables and figures, trained cell by cell: one data set at one ε with one calibration.

A cell is trained and evaluated in one process and only its statistics come back, so cells run side by side. A linear
model's scores follow from its weights, so only weights are recorded and scores are formed in float64: in float32 most
probabilities of the noisiest models are exactly 1, and an AUC of ties is too low.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import seedscope as ss

EPSILONS = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5)
TABLES = ("credit", "contraception", "dermatology", "mammography")  # the largest first: the work ends evenly
PLANE = np.linspace(-4.0, 4.0, 49)  # along each axis of the pictures of the plane
OWN_NORM = "the largest norm"  # learned from the training rows
SHORTFALLS = np.linspace(0.0, 0.1, 41)  # of accuracy, against the model without noise

Calibration = ss.Chaudhuri | ss.Diffprivlib062 | ss.OneFactor


@dataclass(frozen=True)
class Cell:
    """This many models of one data set at one ε, by objective perturbation with one calibration."""

    data: str
    epsilon: float
    calibration: Calibration
    models: int

    @property
    def mechanism(self) -> Any:
        """The mechanism that trains the cell's models."""
        return ss.ObjectivePerturbation(self.epsilon, calibration=self.calibration)


@dataclass(frozen=True, eq=False)
class TableOutcome:
    """A cell on a table: performance of each model [model], multiplicity of each test example [example].

    `areas` are of float64 probabilities, as in the paper; `areas_of_ranks` of the linear scores, which do not saturate.
    """

    cell: Cell
    areas: np.ndarray
    areas_of_ranks: np.ndarray
    f1: np.ndarray
    disagreement: np.ndarray
    viable_range: np.ndarray


@dataclass(frozen=True, eq=False)
class PlaneOutcome:
    """A cell on the synthetic set: multiplicity at each point of the plane [point], and of the test part.

    `conditioned` is the disagreement that the top 5 % reach among models at most `SHORTFALLS` less accurate than the
    one without noise.
    """

    cell: Cell
    accuracy: np.ndarray
    disagreement: np.ndarray
    viable_range: np.ndarray
    conditioned: Any


def bounded_data(name: str) -> ss.Dataset:
    """Return the named set with its own largest row norm as the bound, as the paper's experiments take it.

    A bound that was looked up in the data is not a public one: whatever ε is calibrated with it is the paper's claim,
    and every guarantee that follows says so.
    """
    data = ss.load(name)
    return with_own_bound(data)


def with_own_bound(data: ss.Dataset) -> ss.Dataset:
    """Return the data with their own largest row norm as the bound."""
    largest = float(np.linalg.norm(data.features, axis=1).max())
    return replace(data, norm_bound=largest, learned=(*data.learned, OWN_NORM))


def released_weights(data: ss.Dataset, mechanism: Any, models: int) -> np.ndarray:
    """Return the weights [model, weight] that a convex mechanism releases, the bias last."""
    ensemble = ss.train(
        data, mechanism, grid=ss.Grid(models), records=ss.Records(probes=()), scaling=ss.Unscaled(), jobs=1
    )
    return ensemble.weights.values[:, 0, 0, 0]


def weights_without_noise(data: ss.Dataset, calibration: Calibration) -> np.ndarray:
    """Return the weights [weight] that the mechanism would release without noise, the bias last."""
    weights: np.ndarray = released_weights(data, ss.ObjectivePerturbation(math.inf, calibration=calibration), 1)[0]
    return weights


def linear_scores(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return w·x + bias for all models and rows [model, row], in the precision of the weights."""
    scores: np.ndarray = weights[..., :-1] @ rows.T.astype(weights.dtype) + weights[..., -1:]
    return scores


def probabilities(linear: np.ndarray) -> np.ndarray:
    """Return 1/(1 + e^−z)."""
    with np.errstate(over="ignore"):
        probability: np.ndarray = 1 / (1 + np.exp(-linear))
        return probability


def unsaturated(linear: np.ndarray) -> np.ndarray:
    """Return values in (0, 1) in the order of the linear scores, without the ties of probabilities near 1."""
    squashed: np.ndarray = 0.5 + 0.5 * linear / (1 + np.abs(linear))
    return squashed


def table_outcome(cell: Cell) -> TableOutcome:
    """Train a cell's models on a table and return their statistics on its test part."""
    data = bounded_data(cell.data)
    linear = linear_scores(released_weights(data, cell.mechanism, cell.models).astype(float), data.test_features)
    scores, labels = probabilities(linear), data.test_labels
    decided = linear > 0
    return TableOutcome(
        cell=cell,
        areas=ss.multiplicity.areas_under_curve(scores, labels),
        areas_of_ranks=ss.multiplicity.areas_under_curve(unsaturated(linear), labels),
        f1=ss.multiplicity.f1_scores(decided, labels),
        disagreement=ss.multiplicity.disagreement(decided),
        viable_range=ss.multiplicity.viable_prediction_range(scores),
    )


def disagreement_columns(values: np.ndarray) -> dict[str, float]:
    """Return what Table 2 says of the disagreement of test examples [example]."""
    columns = {
        "mean": values.mean(),
        "std": values.std(ddof=1),
        "min": values.min(),
        "median": np.median(values),
        "max": values.max(),
        "90 pctl": np.quantile(values, 0.9),
        "95 pctl": np.quantile(values, 0.95),
    }
    return {f"disagreement {name}": float(value) for name, value in columns.items()}


def plane_outcome(cell: Cell) -> PlaneOutcome:
    """Train a cell's models on the synthetic set and return their statistics over the plane and on the test part."""
    data = bounded_data(cell.data)
    weights = released_weights(data, cell.mechanism, cell.models)
    decided, labels = linear_scores(weights, data.test_features) > 0, data.test_labels
    optimum = (linear_scores(weights_without_noise(data, cell.calibration), data.test_features) > 0) == labels
    on_plane = linear_scores(weights, plane_points())
    return PlaneOutcome(
        cell=cell,
        accuracy=ss.multiplicity.accuracies(decided, labels),
        disagreement=ss.multiplicity.disagreement(on_plane > 0),
        viable_range=ss.multiplicity.viable_prediction_range(probabilities(on_plane)),
        conditioned=ss.multiplicity.accuracy_conditioned_disagreement(decided, labels, optimum.mean() - SHORTFALLS),
    )


def plane_points() -> np.ndarray:
    """Return the points of the plane [point, 2], row by row."""
    return np.stack(np.meshgrid(PLANE, PLANE), axis=-1).reshape(-1, 2)


def outcomes(
    evaluate: Callable[[Cell], Any], cells: Sequence[Cell], jobs: int | None, progress: Callable[[int, int], None]
) -> list[Any]:
    """Return the outcome of each cell, in order; cells run in `jobs` processes (default: one for each core)."""
    total, done, by_cell = sum(cell.models for cell in cells), 0, {}
    progress(done, total)
    for outcome in ss.in_workers(evaluate, cells, jobs):
        by_cell[outcome.cell] = outcome
        done += outcome.cell.models
        progress(done, total)
    return [by_cell[cell] for cell in cells]
