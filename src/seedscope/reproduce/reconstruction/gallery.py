"""A gallery: images of the most and the least exposed records, and what the informed adversary makes of them."""

from __future__ import annotations

import altair as alt
import numpy as np

import seedscope as ss
from seedscope.datasets import few_valued
from seedscope.reproduce.reconstruction.pictures import picture_rows

NOISES = (1e-5, 1e-4, 1e-3, 1e-2)
SHOWN = 6  # records of the highest leakage, and of the lowest
L2 = 1e-2


def gallery_chart(features: np.ndarray, labels: np.ndarray, shape: tuple[int, int], seed: int = 0) -> alt.LayerChart:
    """Return records above their reconstructions from logistic regression released with more and more noise.

    Args:
        features: images as rows [record, pixel] in [0, 1].
        labels: 0 or 1.
        shape: of an image.
        seed: of the noise, the same draw at every scale.
    """
    weights = ss.training.minimiser(features, labels, L2)
    varying = np.flatnonzero(~few_valued(features))  # pixels that are nearly always black tell nothing
    leakage = ss.reconstruction.logistic_dfil(features, labels, weights, L2, 1.0, varying)
    order = np.argsort(-leakage)
    shown = np.append(order[:SHOWN], order[-SHOWN:])
    draw = np.random.default_rng(seed).normal(size=weights.shape)
    rows, captions = [features[shown]], [[f"{'most' if k < SHOWN else 'least'} exposed" for k in range(2 * SHOWN)]]
    for noise in NOISES:
        guesses = ss.reconstruction.attack_reconstructions(features, labels, weights + noise * draw, L2, shown)
        rows.append(guesses)
        captions.append([f"error {value:.2g}" for value in ((guesses - features[shown]) ** 2).mean(axis=1)])
    titles = ["record", *(f"noise {noise:g}" for noise in NOISES)]
    return picture_rows([row.reshape(-1, *shape, 1) for row in rows], captions, titles)


def digits_gallery() -> alt.LayerChart:
    """Return the gallery of the embedded digits: zeros against ones."""
    data = ss.load("digits")
    two = np.flatnonzero(data.labels < 2)
    images = np.asarray(data.features, float)[two].reshape(len(two), -1)
    side = round(images.shape[1] ** 0.5)
    return gallery_chart(images / images.max(), data.labels[two], (side, side))
