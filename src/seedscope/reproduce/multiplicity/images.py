"""AD's rows of Table 2 on images: many runs of DP-SGD on features that no data were needed for.

The paper trains a small network on scattering features of CIFAR-10, 50 times at each ε. Here a softmax regression is
trained on the energies of edges in eight directions, the first layer of such a transform, of `cifar10-small` and
`mnist`, at the paper's ε with its batch size, clipping norm and momentum; a linear model wants longer steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import seedscope as ss
from seedscope.core import model_progress
from seedscope.reproduce.comparison import Comparison
from seedscope.reproduce.multiplicity.models import disagreement_columns

IMAGES = ("cifar10-small", "mnist")
IMAGE_EPSILONS = {"small": (2.22, 5.59), "paper": (2.22, 2.73, 3.62, 4.39, 5.59)}
MODELS = {"small": 10, "paper": 50}
LEARNING_RATE = 64.0  # the paper's network: 4
DELTA, BATCH, EPOCHS = 1e-5, 2048, {"cifar10-small": 30, "mnist": 5}
DIRECTIONS, CELL = 8, 4
BLOCK = 2048  # images worked on together
OTHER_DATA = "the paper: a network on scattering features of all of CIFAR-10"


@dataclass(frozen=True, eq=False)
class ImageOutcome:
    """Models of one image set at one ε: accuracy of each [model], disagreement of each pair [image, class].

    The paper's unit is such a pair: a classifier of ten classes counts as ten of two. `pairwise` is of test images.
    """

    data: str
    epsilon: float
    models: int
    accuracy: np.ndarray
    disagreement: np.ndarray
    pairwise: np.ndarray


def edge_energies(images: np.ndarray) -> np.ndarray:
    """Return how much of each direction the edges in each 4 × 4 cell have, and a cell's colour: rows of mean 0, norm 1.

    No other image is looked at, so whatever is private after it was private before.

    Args:
        images: [image, height, width, channel] in [0, 1].

    >>> edge_energies(np.zeros((2, 28, 28, 1))).shape, edge_energies(np.zeros((2, 32, 32, 3))).shape
    ((2, 392), (2, 704))
    """
    blocks = [_edge_energies(images[i : i + BLOCK]) for i in range(0, len(images), BLOCK)]
    return np.concatenate(blocks)


def _edge_energies(images: np.ndarray) -> np.ndarray:
    """Return the features of a block of images."""
    grey = images.mean(-1)
    down, right = np.gradient(grey, axis=(1, 2))
    angles = 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    along = right[..., None] * np.cos(angles) + down[..., None] * np.sin(angles)
    parts = [np.sqrt(_cells(np.maximum(along, 0)))]
    if images.shape[-1] > 1:
        parts.append(_cells(images) / DIRECTIONS)
    rows = np.concatenate([part.reshape(len(images), -1) for part in parts], axis=1)
    rows -= rows.mean(axis=1, keepdims=True)
    unit_rows: np.ndarray = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).astype(np.float32)
    return unit_rows


def _cells(planes: np.ndarray) -> np.ndarray:
    """Return the means over 4 × 4 cells of [image, height, width, plane]."""
    images, height, width, count = planes.shape
    means: np.ndarray = planes.reshape(images, height // CELL, CELL, width // CELL, CELL, count).mean((2, 4))
    return means


def image_features(name: str) -> ss.Dataset:
    """Return an image set with its edges' energies as features."""
    data = ss.load(name)
    rows, test_rows = edge_energies(data.features), edge_energies(data.test_features)
    return ss.from_arrays(
        rows, data.labels, test_rows, data.test_labels, class_names=data.class_names, name=name, norm_bound=1.0
    )


def private_training(data: ss.Dataset, epsilon: float) -> ss.DPSGD:
    """Return AD's DP-SGD (appendix B) for an image set, with the noise that makes it (ε, 10⁻⁵)-private."""
    batch = min(BATCH, len(data.base) // 8)
    return ss.DPSGD.calibrated(
        epsilon,
        DELTA,
        examples=len(data.base),
        batch_size=batch,
        steps=EPOCHS.get(data.name, 5) * len(data.base) // batch,
        learning_rate=LEARNING_RATE,
        clipping_norm=0.1,
        momentum=ss.Momentum(0.9, nesterov=True),
    )


def image_outcome(data: ss.Dataset, epsilon: float, models: int, **options: Any) -> ImageOutcome:
    """Train this many models at one ε and return their statistics on the test part; options go to `train`."""
    ensemble = ss.train(
        data,
        private_training(data, epsilon),
        grid=ss.Grid(models),
        records=ss.Records(probes=("test",)),
        scaling=ss.Unscaled(),
        **options,
    )
    decided = ensemble.scores.values[:, 0, 0].argmax(-1)
    return ImageOutcome(
        data=data.name,
        epsilon=epsilon,
        models=models,
        accuracy=ss.multiplicity.accuracies(decided, data.test_labels),
        disagreement=np.stack([ss.multiplicity.disagreement(decided == k) for k in range(data.classes)], axis=1),
        pairwise=ss.multiplicity.pairwise_disagreement(decided, data.classes),
    )


def image_outcomes(names: Sequence[str], scale: str, out: Path, jobs: int | None, quiet: bool) -> list[ImageOutcome]:
    """Return the outcomes on the named sets at the paper's ε; models are kept, so that a stopped run goes on."""
    epsilons, models = IMAGE_EPSILONS[scale], MODELS[scale]
    done: list[ImageOutcome] = []
    total = len(names) * len(epsilons) * models
    with model_progress("Table 2, DP-SGD", quiet) as progress:
        for name in names:
            data = image_features(name)
            for epsilon in epsilons:
                moved = partial(_moved, progress, len(done) * models, total)
                store = out / "stores" / f"{scale}-{name}-{epsilon:g}"
                done.append(image_outcome(data, epsilon, models, store=store, jobs=jobs, progress=moved))
    return done


def _moved(progress: Any, before: int, total: int, done: int, of: int) -> None:
    """Move the bar of all grids when one of them moves."""
    progress(before + done, total)


def image_rows(outcome: ImageOutcome, published: Mapping[tuple[str, str, str, str], float]) -> list[Comparison]:
    """Return a row of Table 2 on images, a comparison for each column; the paper's is of other data."""
    setting = f"ε={outcome.epsilon:g}"
    rows = []
    for quantity, value in image_columns(outcome).items():
        near = None if outcome.data == "mnist" else published.get(("AD Table 2", "cifar10", setting, quantity))
        note = OTHER_DATA if near is not None and quantity == "accuracy mean" else ""
        detail = quantity not in ("accuracy mean", "disagreement mean")
        rows.append(Comparison("AD Table 2, DP-SGD", outcome.data, setting, quantity, value, near, note, detail))
    return rows


def image_columns(outcome: ImageOutcome) -> dict[str, float]:
    """Return the columns of Table 2 on images: accuracy in percent over models, disagreement over (image, class)."""
    return {
        "accuracy mean": float(100 * outcome.accuracy.mean()),
        "accuracy std": float(100 * outcome.accuracy.std(ddof=1)),
        **disagreement_columns(outcome.disagreement.ravel()),
        "pairwise disagreement mean": float(outcome.pairwise.mean()),
    }
