"""Small data sets for tests: large enough to train on, small enough to check by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.datasets import Dataset, Standardised, from_arrays

if TYPE_CHECKING:
    from seedscope.models import Network


def table(
    rows: int = 40, columns: int = 3, classes: int = 2, seed: int = 0, norm_bound: float | None = None
) -> Dataset:
    """Return noisy linear classes with rows of norm at most 1; the spare example is the first test row."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows + 8, columns))
    logits = features @ draw.normal(size=(columns, classes)) + 0.5 * draw.normal(size=(rows + 8, classes))
    labels = logits.argmax(1)
    labels[:classes] = np.arange(classes)
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    return from_arrays(features[:rows], labels[:rows], features[rows:], labels[rows:], norm_bound=norm_bound)


def given_scaling(data: Dataset) -> Standardised:
    """Return the standardisation of the training rows as public knowledge: then neighbours are scaled like the base."""
    rows = data.base.features
    return Standardised(mean=tuple(rows.mean(0)), deviation=tuple(rows.std(0)))


def images(rows: int = 24, size: int = 8, channels: int = 1, classes: int = 3, seed: int = 0) -> Dataset:
    """Return random images with random labels."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows + 4, size, size, channels)).astype(np.float32)
    labels = np.arange(rows + 4) % classes
    return from_arrays(features[:rows], labels[:rows], features[rows:], labels[rows:])


def batch_of(network: Network, shape: tuple[int, ...], classes: int, rows: int = 6) -> tuple[Any, Any, Any, Any]:
    """Return float64 parameters, random rows, labels and weights."""
    import jax

    draw = np.random.default_rng(0)
    parameters = jax.tree.map(lambda leaf: leaf.astype(float), network.init(jax.random.key(1)))
    return (
        parameters,
        draw.normal(size=(rows, *shape)),
        draw.integers(0, classes, rows).astype(float),
        draw.random(rows),
    )
